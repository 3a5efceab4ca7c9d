"""Events: what became true together, one line of a journal each. The schema is versioned; readers refuse a newer one.

Places in a run are paths: `training` is a stage, `training/3` its third epoch, `training/3/17` a batch of that. Data
and models are known by a reference that the recorder made. Values are plain JSON where JSON holds them exactly, and
`[datatype, text]` where it does not (NaN, a Decimal, a datetime, an integer of more than 64 bits).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

VERSION = 3
"""2 has `Batches`; 3 has slates whose rows are as wide as their measures."""

Value = bool | int | float | str | list[str]
Values = dict[str, Value]
EARLIEST, LATEST = -62135510400.0, 253402214400.0
Time = Annotated[float, msgspec.Meta(ge=EARLIEST, le=LATEST)]
"""Seconds since 1970, of a day that a calendar has: a line that says another time is damaged."""
Ending = Annotated[str, msgspec.Meta(pattern="^(FINISHED|FAILED|KILLED|LOST)$")]
"""How a run ends."""


LEARNING = ("training", "validation", "evaluation")
"""The kinds of stages in which something is learned or judged."""
STEPS = (*LEARNING, "preparation", "filter", "curation", "split", "extraction", "step")
"""All kinds of stages and steps."""


class Event(msgspec.Struct, tag_field="e", tag=str.lower, omit_defaults=True, gc=False):
    """What every event is."""


class Run(Event):
    """A writer began to write: the first line of every journal. `ns` is where its process id counts (a container has
    its own), `parent` the journal of the process that it was forked from."""

    v: int
    run: str
    writer: str
    name: str
    t: float
    model: str = ""
    main: bool = True
    pid: int = 0
    born: int = 0
    host: str = ""
    boot: str = ""
    ns: str = ""
    rank: int = 0
    by: str = ""
    study: str = ""
    task: str = ""
    parent: str = ""


class Environment(Event):
    """Where it runs: the machine, what surrounds the process, and the software."""

    machine: dict[str, Any] = {}
    around: dict[str, Any] = {}
    software: dict[str, str] = {}
    seeds: dict[str, int] = {}


class Workflow(Event):
    """The prospective side as a workflow file gives it."""

    said: dict[str, Any]


class Begin(Event):
    """A stage, a step or a section began; `during` is the place of what it was a part of, or a twin to."""

    at: str
    kind: str
    t: Time
    name: str = ""
    index: int = -1
    during: str = ""
    using: list[str] = []
    values: Values = {}
    by: str = ""


class Done(Event):
    """It ended: after how many seconds, and how."""

    at: str
    t: Time
    s: float
    status: str = "FINISHED"
    error: list[str] = []


class Batch(Event):
    """A batch ended: a section that is told by one line."""

    at: str
    t: Time
    s: float


class Batches(Event):
    """Batches of an epoch that ended one after the other, in columns, with what was measured of each; `told` is how
    many the journal then holds in this way."""

    at: str
    index: list[int]
    t: list[Time]
    s: list[float]
    values: dict[str, list[Value | None]] = {}
    told: int = 0


class Measured(Event):
    """Measures of a stage or a section."""

    at: str
    values: Values


class Data(Event):
    """A dataset, a set of features, a file or a model, by reference."""

    ref: str
    kind: str
    name: str
    path: str = ""
    sha256: str = ""
    size: int = -1
    media: str = ""
    store: str = ""
    about: list[str] = []
    values: Values = {}


class Used(Event):
    """A stage or a step used something, in a role."""

    at: str
    ref: str
    role: str = ""


class Produced(Event):
    """A stage, a step or a section produced something."""

    at: str
    ref: str
    values: Values = {}


class Parameter(Event):
    """More parameters of a stage or a step."""

    at: str
    values: Values


class Adapted(Event):
    """Hyperparameters changed while a stage ran."""

    at: str
    t: Time
    values: Values
    technique: str = ""
    why: str = ""
    by: str = ""
    parameters: Values = {}


class Implementation(Event):
    """What carried out a stage or a step: an implementation of an algorithm, in some software, and where it lies."""

    at: str
    name: str
    algorithm: str = ""
    software: str = ""
    version: str = ""
    values: Values = {}
    where: str = ""


class Ran(Event):
    """What whoever ran a stage or a step says of it: its name among others of its plan, where and on which resource it
    ran, and what it wrote to its output and its error stream."""

    at: str
    name: str = ""
    where: str = ""
    on: str = ""
    output: str = ""
    errors: str = ""


class Layers(Event):
    """The layers of the network that a stage trains."""

    at: str
    layers: list[dict[str, Any]]


class Fault(Event):
    """Capture itself failed, so many times by now; the training went on. The last one of a journal counts."""

    count: int
    first: str


class End(Event):
    """The run ended, as far as this writer is concerned."""

    t: Time
    status: Ending = "FINISHED"
    error: list[str] = []


AnyEvent = (
    Run
    | Environment
    | Workflow
    | Begin
    | Done
    | Batch
    | Batches
    | Measured
    | Data
    | Used
    | Produced
    | Parameter
    | Adapted
    | Implementation
    | Ran
    | Layers
    | Fault
    | End
)

MAIN = "main"
RANK = "rank-"


def suffix(writer: str) -> str:
    """What sets the places of a writer apart from those of others in its run; nothing for the first main one."""
    if writer == MAIN:
        return ""
    return "@" + (writer.removeprefix(RANK) if writer.startswith(RANK) else "-".join(writer.rsplit("-", 2)[-2:]))


_encoder = msgspec.json.Encoder()
encode_bare = _encoder.encode
"""An event as the text of a line, as fast as can be; UnicodeEncodeError where UTF-8 does not hold it."""
_decoder = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """An event as a line."""
    try:
        return _encoder.encode(event) + b"\n"
    except UnicodeEncodeError:  # a file name or an argument of another encoding
        return _encoder.encode(_in_utf8(msgspec.to_builtins(event))) + b"\n"


def _in_utf8(said: Any) -> Any:
    """The same, with what UTF-8 cannot hold written as escapes."""
    if isinstance(said, str):
        return said.encode("utf-8", "backslashreplace").decode()
    if isinstance(said, dict):
        return {_in_utf8(key): _in_utf8(value) for key, value in said.items()}
    return [_in_utf8(each) for each in said] if isinstance(said, list) else said


def decode(line: bytes) -> AnyEvent:
    """A line as an event; `msgspec.MsgspecError` where it is none."""
    event: AnyEvent = _decoder.decode(line)
    if event.__class__ is Run and not EARLIEST <= event.t <= LATEST:
        raise msgspec.ValidationError("a run cannot have begun at that time")  # a Run made up for a lost line has none
    if isinstance(event, Batches):
        columns: list[list[Any]] = [event.index, event.t, event.s, *event.values.values()]
        if len({len(column) for column in columns}) > 1:
            raise msgspec.ValidationError("the columns of the batches are not of one length")
    return event


def each(what: AnyEvent, told: int = 0) -> Iterator[AnyEvent]:
    """The event, or those that it puts together: measures and end of each of several batches, after so many."""
    if not isinstance(what, Batches):
        yield what
        return
    columns = [*what.values.items()]
    known = told - (what.told - len(what.index)) if what.told else 0
    for number, (index, t, s) in enumerate(zip(what.index, what.t, what.s, strict=True)):
        if number < known:
            continue
        at = f"{what.at}/{index}"
        held = {name: value for name, column in columns if (value := column[number]) is not None}
        if held:
            yield Measured(at, held)
        yield Batch(at, t, s)
