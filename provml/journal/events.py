"""Events: the lines of a journal. The format is versioned, and readers refuse a newer version.

A location in a run is a path: `training` is a stage, `training/3` its third epoch, `training/3/17` a batch of it (see
`provml.journal.location`). Data and models are identified by a reference that the recorder made. Values are plain
JSON if JSON is exact, otherwise `[datatype, text]` (NaN, a Decimal, a datetime, an integer of more than 64 bits).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

VERSION = 4
"""Version 2 added `Batches`, version 4 `Imported`. Version 3 made the rows of the batch buffer as wide as their
measures."""

Value = bool | int | float | str | list[str]
Values = dict[str, Value]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""An integer that the checkpoint of an index can hold."""
MIN_TIME, MAX_TIME = -62135510400.0, 253402214400.0
Time = Annotated[float, msgspec.Meta(ge=MIN_TIME, le=MAX_TIME)]
"""Seconds since 1970, within the range of a calendar: a line with any other time is damaged."""
MAX_DEPTH = 100
"""Levels of lists and objects in a line. Python's own limit depends on the caller, and fewer levels reach it later,
when the event is mapped or printed."""
MAX_MEASURES = 10_000
"""Different names of measures in a run: each is a node, and 100,000 of them took 2 GB of memory."""
MAX_TEXT = 1 << 20
"""Characters of a text that `shorten` leaves: a parser of N-Triples accepts at most 16 MiB, escaped and in UTF-8."""
TOO_DEEP = f"the values are nested in more than {MAX_DEPTH} levels"
EndStatus = Annotated[str, msgspec.Meta(pattern="^(FINISHED|FAILED|INTERRUPTED|PRUNED|KILLED|LOST)$")]
"""Status of a run that has ended."""


LEARNING_KINDS = ("training", "validation", "evaluation")
"""Kinds of stages that train or evaluate a model."""
STEP_KINDS = (*LEARNING_KINDS, "preparation", "filter", "curation", "split", "extraction", "step")
"""All kinds of stages and steps."""

OTHER_RUN = "run:"
"""Prefix of a reference to data that another run has named: `run:ID/REF`."""
SHARED_NAME = "name:"
"""Prefix of a reference to data that all runs call by the same name, where its content is not known."""

DISK_NAMES = {
    "boot_id": "boot", "location": "at", "media_type": "media", "pid_namespace": "ns", "seconds": "s", "spec": "said",
    "start_ticks": "born", "time": "t", "times": "t", "total_rows": "told", "version": "v",
}  # fmt: skip
"""Names of fields in the file, where they differ from those in Python."""


class Event(
    msgspec.Struct,
    tag_field="e",
    tag=str.lower,
    omit_defaults=True,
    gc=False,
    rename=lambda name: DISK_NAMES.get(name, name),
):
    """Base class of all events."""


class Header(Event, tag="run"):
    """The first line of every journal: the run, and the process that writes the journal.

    `pid_namespace` is the namespace of the process id (a container has its own), `start_ticks` the start time of the
    process in clock ticks since boot, `parent` the journal of the process that it was forked from. `name` is the
    experiment's name, `run_name` the run's own name if it has one, `parent_run` the run that it is a part of,
    `rerun_of` the run that it repeats.
    """

    version: Int64
    run: str
    writer: str
    name: str
    time: float
    model: str = ""
    main: bool = True
    pid: Int64 = 0
    start_ticks: Int64 = 0
    host: str = ""
    boot_id: str = ""
    pid_namespace: str = ""
    rank: Int64 = 0
    by: str = ""
    study: str = ""
    task: str = ""
    parent: str = ""
    run_name: str = ""
    parent_run: str = ""
    rerun_of: str = ""


class Environment(Event):
    """The machine, the process, its software and its random seeds."""

    machine: dict[str, Any] = {}
    process: dict[str, Any] = msgspec.field(default_factory=dict, name="around")
    software: dict[str, str] = {}
    seeds: dict[str, int] = {}


class Workflow(Event):
    """The contents of a workflow file: the prospective side of a run."""

    spec: dict[str, Any]


class Begin(Event):
    """Start of a stage, a step or a section; `parent` is the location of its parent or of its paired section.

    `rule` says how a section was recognized in a training that did not announce it.
    """

    location: str
    kind: str
    time: Time
    name: str = ""
    index: Int64 = -1
    parent: str = msgspec.field(default="", name="during")
    using: list[str] = []
    values: Values = {}
    by: str = ""
    rule: str = ""


class Done(Event):
    """End of a stage, a step or a section, with its duration in seconds and its status."""

    location: str
    time: Time
    seconds: float
    status: str = "FINISHED"
    error: list[str] = []


class BatchEnd(Event, tag="batch"):
    """End of a batch, with its duration in seconds. A batch has no `Begin`."""

    location: str
    time: Time
    seconds: float


class Batches(Event):
    """Consecutive batches of one section in columns, with the measures of each.

    `total_rows` counts the batches that the journal holds in such events, this one included. A reader that has
    already taken some of them from the batch buffer skips them by this number.
    """

    location: str
    index: list[Int64]
    times: list[Time]
    seconds: list[float]
    values: dict[str, list[Value | None]] = {}
    total_rows: Int64 = 0


class Measured(Event):
    """Measures of a stage, a section or a batch."""

    location: str
    values: Values


class Data(Event):
    """A dataset, a set of features, a file or a model, by reference.

    `saved` means that the reference is that of a model described before, which was saved in this file or folder.
    `values` are then further hyperparameters of the model.
    """

    ref: str
    kind: str
    name: str
    path: str = ""
    sha256: str = ""
    size: Int64 = -1
    media_type: str = ""
    store: str = ""
    about: list[str] = []
    values: Values = {}
    saved: bool = False


class Artifact(Event):
    """The content of data was stored in the home, under a name.

    `is_cut` means that it is a text of which other events have only the head.
    """

    time: Time
    ref: str
    name: str
    sha256: str
    size: int = -1
    media_type: str = ""
    path: str = ""
    is_folder: bool = msgspec.field(default=False, name="folder")
    is_cut: bool = msgspec.field(default=False, name="cut")


class Used(Event):
    """A stage or a step used data, in a role."""

    location: str
    ref: str
    role: str = ""


class Produced(Event):
    """A stage, a step or a section produced data; without a location, the run itself."""

    location: str
    ref: str
    values: Values = {}


class Parameter(Event):
    """Further parameters of a stage or a step."""

    location: str
    values: Values


class Adapted(Event):
    """Hyperparameters changed while a stage ran."""

    location: str
    time: Time
    values: Values
    technique: str = ""
    why: str = ""
    by: str = ""
    parameters: Values = {}


class Implementation(Event):
    """What carried out a stage or a step: an implementation of an algorithm, its software, and where its source is."""

    location: str
    name: str
    algorithm: str = ""
    software: str = ""
    version: str = msgspec.field(default="", name="version")
    values: Values = {}
    source: str = msgspec.field(default="", name="where")


class ExecutionDetails(Event, tag="ran"):
    """How a stage or a step was executed: its name in the plan, directory, resource, output and error stream."""

    location: str
    name: str = ""
    directory: str = msgspec.field(default="", name="where")
    resource: str = msgspec.field(default="", name="on")
    output: str = ""
    errors: str = ""


class Layers(Event):
    """The layers of the network that a stage trains."""

    location: str
    layers: list[dict[str, Any]]


class Imported(Event):
    """Where an imported run comes from: the file, the tool that wrote it, the digest of what was read, and when.

    `texts` are the source's texts of parameters that their values do not give back, by name. `names` are the names of
    metrics in the source where they differ, by stage and measure: `validation/loss`.
    """

    time: Time
    source: str
    format: str
    tool: str = ""
    version: str = msgspec.field(default="", name="version")
    sha256: str = ""
    texts: dict[str, str] = {}
    names: dict[str, str] = {}


IMPORTED_START = b'{"e":"imported"'
"""Start of the line of such an event."""


class Consumed(Event):
    """Energy that a stage took, or emissions that it caused; without a location, the whole run.

    `unit` is a UCUM code. `component` is the part of the machine; an amount without one is the total.
    """

    location: str
    quantity: str
    value: float
    unit: str
    method: str
    is_metered: bool = msgspec.field(default=False, name="metered")
    component: str = ""


class CaptureErrors(Event, tag="fault"):
    """Number of errors inside provml so far, the first of them, and the number of batches that could not be written.

    `messages` holds the number of errors so far for each message whose number changed since the previous such event.
    """

    count: Int64
    first: str
    messages: dict[str, int] = {}
    lost_batches: int = 0


class End(Event):
    """End of the run, as far as this writer is concerned."""

    time: Time
    status: EndStatus = "FINISHED"
    error: list[str] = []


AnyEvent = (
    Header
    | Environment
    | Workflow
    | Begin
    | Done
    | BatchEnd
    | Batches
    | Measured
    | Data
    | Artifact
    | Used
    | Produced
    | Parameter
    | Adapted
    | Implementation
    | ExecutionDetails
    | Layers
    | Imported
    | Consumed
    | CaptureErrors
    | End
)

MAIN_WRITER = "main"
RANK_PREFIX = "rank-"


def writer_suffix(writer: str) -> str:
    """Return the suffix that makes the stage names of a writer unique in its run; empty for the first main writer."""
    if writer == MAIN_WRITER:
        return ""
    if writer.startswith(RANK_PREFIX):
        return "@" + writer.removeprefix(RANK_PREFIX)
    return "@" + "-".join(writer.rsplit("-", 2)[-2:])


_encoder = msgspec.json.Encoder()
encode_json = _encoder.encode
"""Encode an event without its line break; raise UnicodeEncodeError for text that is not valid Unicode."""
_decoder = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """Encode an event as a line."""
    try:
        return _encoder.encode(event) + b"\n"
    except UnicodeEncodeError:  # a file name or an argument in another encoding
        return _encoder.encode(_escape_surrogates(msgspec.to_builtins(event))) + b"\n"


def _escape_surrogates(value: Any) -> Any:
    """Return a copy in which characters that UTF-8 cannot encode are backslash escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escape_surrogates(key): _escape_surrogates(item) for key, item in value.items()}
    return [_escape_surrogates(item) for item in value] if isinstance(value, list) else value


def decode(line: bytes) -> AnyEvent:
    """Decode a line; raise `msgspec.MsgspecError` if it is damaged."""
    try:
        event: AnyEvent = _decoder.decode(line)
    except RecursionError:
        raise msgspec.ValidationError(TOO_DEEP) from None
    if isinstance(event, (Environment, Workflow, Layers)):
        for name in event.__struct_fields__:
            if _is_deeper_than(MAX_DEPTH, getattr(event, name)):
                raise msgspec.ValidationError(TOO_DEEP)
    if event.__class__ is Header and not MIN_TIME <= event.time <= MAX_TIME:
        # not checked by the type, because the header that stands in for a lost line has NaN
        raise msgspec.ValidationError("the start time of the run is not a valid time")
    if isinstance(event, Batches):
        columns: list[list[Any]] = [event.index, event.times, event.seconds, *event.values.values()]
        if len({len(column) for column in columns}) > 1:
            raise msgspec.ValidationError("the columns of the batches differ in length")
    return event


def _is_deeper_than(levels: int, value: Any) -> bool:
    """Return whether lists and objects are nested in more than a number of levels."""
    if not isinstance(value, (dict, list)):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper_than(levels - 1, item) for item in items)


def shorten(event: AnyEvent) -> AnyEvent:
    """Return an event whose texts have at most MAX_TEXT characters, and the length and digest of what was longer."""
    fields = {name: _shorten(getattr(event, name)) for name in event.__struct_fields__}
    return msgspec.structs.replace(event, **fields)


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {_shorten(key): _shorten(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shorten(item) for item in value]
    if not isinstance(value, str) or len(value) <= MAX_TEXT:
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()
    return f"{value[:MAX_TEXT]}… [cut: the journal has all {len(value):,} characters, SHA-256 {digest}]"


def without_rows(event: Batches, rows_read: int) -> Batches:
    """Return the event without those of its batches that are among the journal's first `rows_read`."""
    skipped = rows_read - (event.total_rows - len(event.index)) if event.total_rows else 0
    if skipped <= 0:
        return event
    columns = {name: column[skipped:] for name, column in event.values.items()}
    return Batches(
        event.location, event.index[skipped:], event.times[skipped:], event.seconds[skipped:], columns, event.total_rows
    )


def expand(event: AnyEvent, rows_read: int = 0) -> Iterator[AnyEvent]:
    """Yield the event; of `Batches`, the measures and the end of each batch after the journal's first `rows_read`."""
    if not isinstance(event, Batches):
        yield event
        return
    event = without_rows(event, rows_read)
    columns = [*event.values.items()]
    for number, (index, time, seconds) in enumerate(zip(event.index, event.times, event.seconds, strict=True)):
        location = f"{event.location}/{index}"
        values = {name: value for name, column in columns if (value := column[number]) is not None}
        if values:
            yield Measured(location, values)
        yield BatchEnd(location, time, seconds)
