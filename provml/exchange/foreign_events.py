"""Foreign runs as events: the one place where the record of any tracker becomes a run.

A step of a metric is a section of the training: an epoch if the source says or plainly shows so, else a step. Metrics
of a validation are those of a paired section. A learning rate that changes is an adaptation. What had to be guessed,
and what has no place, is counted in the account of the run.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from provml.errors import FileFormatError
from provml.exchange.base import SkippedPart, SourceRun
from provml.exchange.foreign_run import ForeignData, ForeignRun, is_time
from provml.exchange.losses import DATASETS, FILES, MODELS, PARAMETERS, POINTS, TAGS
from provml.exchange.points import Point
from provml.exchange.typed_text import to_number
from provml.journal import events
from provml.journal.redaction import mask, redact_text, redact_url
from provml.journal.values import COUNTERS
from provml.recording.encoding import encode_parameter, encode_parameters

TRAINING, VALIDATION, EVALUATION = "training", "validation", "evaluation"
EPOCH, STEP = "epoch", "step"
EPOCH_PARAMETERS = ("epochs", "num_epochs", "max_epochs", "n_epochs", "num_train_epochs", "epoch_count")
MAX_EPOCHS = 10_000
"""Steps without gaps that are taken as epochs, if each has a validation."""
RATE = re.compile(r"(?:.*[/.])?(?:train_)?(?:lr|learning_?rate|lrate)(?:[-/][\w\-]+)*", re.IGNORECASE)
STAGES = {
    "train": TRAINING, "training": TRAINING, "val": VALIDATION, "valid": VALIDATION, "validation": VALIDATION,
    "eval": VALIDATION, "dev": VALIDATION, "test": EVALUATION, "testing": EVALUATION,
}  # fmt: skip
ROLES = {
    "train": "training", "training": "training", "eval": "validation", "validation": "validation", "val": "validation",
    "test": "test", "testing": "test", "raw": "raw",
}  # fmt: skip
_PREFIX = re.compile(rf"({'|'.join(STAGES)})[_/.\-](.+)", re.IGNORECASE | re.DOTALL)
_SUFFIX = re.compile(rf"(.+)/({'|'.join(STAGES)})", re.IGNORECASE | re.DOTALL)
SAME_VALUE = "the same value with the same step and time again"
MAX_REMEMBERED = 100_000
"""Values without a step that are compared with later ones."""
LOGGED_SUFFIX = " (logged)"
"""Follows the name of a counter, such as `epoch`, that a tool logged as a metric."""


class Measure(NamedTuple):
    """A metric of a source as a measure: the stage that it belongs to, and its name there."""

    stage: str
    name: str


def assign_measures(names: Iterable[str]) -> dict[str, Measure]:
    """Return the measure of each metric, by its name; two metrics never become the same measure."""
    ordered = list(names)
    measures: dict[str, Measure] = {}
    for name in ordered:
        plain = Measure(TRAINING, f"{name}{LOGGED_SUFFIX}" if name in COUNTERS else name)
        prefix, suffix = _PREFIX.fullmatch(name), _SUFFIX.fullmatch(name)
        if RATE.fullmatch(name) or (prefix is None and suffix is None):
            measures[name] = plain
            continue
        word, bare = (prefix[1], prefix[2]) if prefix is not None else (suffix[2], suffix[1])  # type: ignore[index]
        measures[name] = Measure(STAGES[word.lower()], f"{bare}{LOGGED_SUFFIX}" if bare in COUNTERS else bare)
    taken = Counter(measures.values())
    for name in ordered:
        if taken[measures[name]] > 1 and measures[name].name != name:
            measures[name] = Measure(measures[name].stage, name)
    return measures


def read_run_folders(folders: Iterable[Path], read: Callable[[Path], ForeignRun]) -> Iterator[SourceRun | SkippedPart]:
    """Yield the runs of some folders; one that cannot be read is skipped with the reason."""
    for folder in folders:
        try:
            yield to_source_run(read(folder))
        except FileFormatError as error:
            yield SkippedPart(folder.name, f"{Path(error.file).name}: {error.reason}")


def to_source_run(run: ForeignRun) -> SourceRun:
    """Return a foreign run as one that can be written; a time beyond the calendar is not known."""
    if not is_time(run.started):
        first = [stats.first_time for stats in run.points.stats if stats.first_time == stats.first_time]
        run.started = min(first, default=run.source.path.stat().st_mtime)
    if not is_time(run.ended):
        run.ended = None
    return SourceRun(
        run.id,
        RunEvents(run).all_events(),
        losses=run.losses,
        last_time=run.last_time,
        tags=tuple(dict.fromkeys(run.words)),
        remarks=tuple(redact_text(text) for text in run.remarks),
        writer=run.source.format,
    )


class RunEvents:
    """Writes the events of one run."""

    def __init__(self, run: ForeignRun) -> None:
        self.run = run
        self.losses = run.losses
        self.stage = run.stage
        self.measures = assign_measures([*run.points.names, *run.finals])
        self.ended = run.ended if run.ended is not None else run.last_time
        self.kind, self.shift = STEP, 0
        self.model_ref = ""
        self.begun: dict[str, float] = {}
        """Start of each stage beside the training."""

    def all_events(self) -> Iterator[events.AnyEvent]:
        """Yield all events of the run; the account is complete after the last one."""
        run = self.run
        try:
            yield self._header()
            yield from self._context()
            yield events.Begin(self.stage, run.stage, run.started, self.stage)
            if run.implementation:
                yield events.Implementation(self.stage, run.implementation)
            yield from self._parameters()
            yield self._imported()
            yield from self._datasets()
            self._choose_kind()
            yield from self._sections()
            yield from self._models()
            yield from self._values_without_step()
            yield from self._files()
            yield from self._end()
            self._note_gaps()
        finally:
            run.points.close()

    # ---- context

    def _header(self) -> events.Header:
        run = self.run
        header = events.Header(
            events.VERSION, run.id, run.source.format, run.name or run.id, run.started, run.model or run.name or run.id
        )
        header.run_name, header.study, header.parent_run = run.run_name, run.study, run.parent
        header.by, header.host, header.task = run.person, run.host, run.task
        return header

    def _context(self) -> Iterator[events.AnyEvent]:
        run = self.run
        software = dict(run.software)
        if run.source.tool and run.source.version:
            software.setdefault(run.source.tool, run.source.version)
        process = {name: redact_url(value) if isinstance(value, str) else value for name, value in run.process.items()}
        if process or run.machine or software or run.seeds:
            yield events.Environment(run.machine, process, software, run.seeds)
        if run.output:
            yield events.ExecutionDetails(self.stage, output=redact_text(run.output))

    def _imported(self) -> events.Imported:
        run = self.run
        texts = {name: mask(name, redact_text(item.text)) for name, item in run.params.items() if item.differs}
        texts |= {name: item.text or "null" for name, item in run.params.items() if item.value is None}
        names = {
            f"{measure.stage}/{measure.name}": name
            for name, measure in self.measures.items()
            if measure != (TRAINING, name)
        }
        source = run.source
        return events.Imported(
            time.time(),
            source.path.name,
            source.format,
            tool=source.tool,
            version=source.version,
            sha256=source.sha256,
            texts=texts,
            names=names,
        )

    # ---- parameters and data

    def _parameters(self) -> Iterator[events.AnyEvent]:
        run, values = self.run, dict[str, events.Value]()
        for name, item in run.params.items():
            if item.is_guess:
                kind = "nothing" if item.value is None else type(item.value).__name__
                self.losses.guess(PARAMETERS, name, f"the text was read as a value of type {kind}")
            else:
                self.losses.preserve(PARAMETERS)
            if item.value is not None:
                text = redact_text(item.value) if isinstance(item.value, str) else item.value
                values[name] = encode_parameter(mask(name, text))
        if values:
            yield events.Parameter(self.stage, values)
        tags = {f"tag.{name}": redact_text(text) for name, text in run.tags.items()}
        if tags:
            self.losses.preserve(TAGS, len(tags))
            yield events.Parameter(self.stage, encode_parameters(tags)[0])
        self.losses.preserve(TAGS, len(run.words))

    def _datasets(self) -> Iterator[events.AnyEvent]:
        run = self.run
        for number, data in enumerate(run.datasets, 1):
            ref = data.ref or f"dataset-{number}"
            yield self._data(ref, data)
            if data.is_output:
                yield events.Produced("", ref)
            else:
                yield events.Used(self.stage, ref, ROLES.get(data.role.lower(), data.role) or self._default_role())
            self.losses.preserve(DATASETS)
        without = [data.name for data in run.datasets if not data.sha256]
        if without:
            reason = "the source has no SHA-256 of the content, so it cannot be followed from run to run by content"
            self.losses.lack(f"digest of {', '.join(dict.fromkeys(without))}", reason)

    def _default_role(self) -> str:
        return "training" if self.run.stage == TRAINING else ""

    def _data(self, ref: str, data: ForeignData) -> events.Data:
        values = {name: value for name, value in data.values.items() if value not in ("", None)}
        event = events.Data(ref, "dataset", data.name, redact_url(data.path), data.sha256, data.size, data.media_type)
        event.store = data.store
        event.values = encode_parameters(values)[0]
        return event

    def _models(self) -> Iterator[events.AnyEvent]:
        run = self.run
        is_data_missing = not any(not data.is_output for data in run.datasets)
        if run.models and is_data_missing and run.stage == TRAINING:
            yield from self._unnamed_data()
        for model in run.models:
            yield events.Data(model.ref, "model", model.name, redact_url(model.path))
            if model.is_input:
                yield events.Used(self.stage, model.ref, "model")
            else:
                yield events.Produced(self.stage, model.ref)
                self.model_ref = model.ref
            if model.values:
                values = encode_parameters(model.values)[0]
                yield events.Data(model.ref, "model", model.name, redact_url(model.path), saved=True, values=values)
            self.losses.preserve(MODELS)

    def _unnamed_model(self) -> Iterator[events.AnyEvent]:
        """Yield the model that was evaluated, if the source does not name it."""
        if not any(not data.is_output for data in self.run.datasets):
            yield from self._unnamed_data()
        self.model_ref = "model"
        yield events.Data(self.model_ref, "model", self.run.model or self.run.name)
        yield events.Produced(self.stage, self.model_ref)
        self.losses.lack("the model that was evaluated", "the run has a model without content for it")

    def _unnamed_data(self) -> Iterator[events.AnyEvent]:
        """Yield the training data, if the source does not name it: every model comes from data."""
        yield events.Data("dataset-training-data", "dataset", "training data")
        yield events.Used(self.stage, "dataset-training-data", "training")
        self.losses.lack("training data", "the source names none; the run has a dataset without content for it")

    def _files(self) -> Iterator[events.AnyEvent]:
        """Yield the files of the run; those of a model say where it was saved."""
        unread = 0
        for file in self.run.files:
            content = file.sha256, file.size, file.media_type
            if file.model:
                yield events.Data(file.model, "model", file.name, file.path or file.name, *content, saved=True)
            else:
                ref = f"sha256:{file.sha256}" if file.sha256 else f"file-{file.name}"
                yield events.Data(ref, "file", file.name, file.path or file.name, *content)
                yield events.Produced("", ref)
            unread += not file.sha256
            self.losses.preserve(FILES)
        if unread:
            self.losses.lack(f"content of {unread} of {len(self.run.files)} files", "they are not with the source")

    # ---- measures

    def _choose_kind(self) -> None:
        """Choose whether a step is an epoch. Epochs count from 1; steps have the numbers of the source."""
        self.kind, reason = self._kind()
        numbered = self._steps()
        if self.kind == EPOCH and numbered:
            self.shift = 1 if min(numbered) == 0 else 0
            if not self.run.step_kind:
                self.losses.guess(POINTS, f"steps {min(numbered)} to {max(numbered)}", f"taken as epochs: {reason}", 0)
            if self.shift:
                self.losses.guess(POINTS, "numbers of epochs", "the source counts from 0, the run from 1", 0)

    def _kind(self) -> tuple[str, str]:
        run = self.run
        if run.step_kind:
            return run.step_kind, run.step_reason
        steps = self._steps()
        if not steps or steps == {0}:
            return STEP, ""
        first, last = min(steps), max(steps)
        for name in EPOCH_PARAMETERS:
            count = to_number(run.params[name].value) if name in run.params else None
            if count is not None and last - (0 if first == 0 else 1) < count <= MAX_EPOCHS * 100:
                return EPOCH, f"the parameter {name} is {count:g}, and no step is beyond it"
        if len(steps) == last - first + 1 and first in (0, 1) and len(steps) <= MAX_EPOCHS:
            stages = {
                self.measures[name].stage
                for name in run.points.names
                if run.points.stats_of(name).count == len(steps) and not RATE.fullmatch(name)
            }
            if stages >= {TRAINING, VALIDATION}:
                return EPOCH, "there are no gaps, and each has both training and validation metrics"
        return STEP, ""

    def _steps(self) -> set[int]:
        """Return the different steps of metrics that have some; none if there are too many."""
        points = self.run.points
        steps = {step for step in points.steps or () if step >= 0}
        stepped = [points.stats_of(name) for name in points.names if not self._is_without_step(name)]
        if not any(stats.min_step <= 0 for stats in stepped):
            steps.discard(0)
        return steps

    def _is_without_step(self, name: str) -> bool:
        """Return whether all values of a metric belong to the run as a whole."""
        stats = self.run.points.stats_of(name)
        if stats.max_step < 0:
            return True
        if stats.max_step != 0 or stats.min_step != 0:
            return False
        return self.run.zero_is_no_step or stats.count > 1

    def _sections(self) -> Iterator[events.AnyEvent]:
        run = self.run
        sections = _Sections(self)
        for step, points in run.points.by_step():
            if step < 0:
                continue
            stepped = [point for point in points if point.key not in sections.keys_without_step]
            if stepped:
                yield from sections.section(step, stepped)
        self._count_points(sections)

    def _count_points(self, sections: _Sections) -> None:
        for key, name in enumerate(self.run.points.names):
            if key in sections.keys_without_step:
                continue
            superseded, repeated = sections.superseded[key], sections.repeated[key]
            count = self.run.points.stats[key].count - superseded - repeated
            negative = sections.negative[key]
            self._count_values(name, count - negative)
            if superseded:
                reason = "a later file of the same run has the same step; its value counts"
                self.losses.leave_out(POINTS, name, reason, superseded)
            if repeated:
                self.losses.leave_out(POINTS, name, SAME_VALUE, repeated)
        if sections.measured and self.run.has_times:
            reason = (
                "from the times of values: a section ends with its last value and begins with the section before it"
            )
            self.losses.guess(POINTS, f"durations of {self.kind}s", reason, 0)

    def _count_values(self, name: str, count: int) -> None:
        measure = self.measures[name]
        if measure == (TRAINING, name):
            self.losses.preserve(POINTS, count)
        elif measure.name.endswith(LOGGED_SUFFIX):
            self.losses.guess(POINTS, name, f"a counter, recorded as the measure {measure.name!r}", count)
        else:
            self.losses.guess(POINTS, name, f"recorded as {measure.name!r} of the {measure.stage}, by its name", count)

    def _values_without_step(self) -> Iterator[events.AnyEvent]:
        """Yield the values of the whole run, in the order of their times: those of a test are an evaluation."""
        run = self.run
        for name, value in run.finals.items():
            yield from self._own_value(name, value, run.last_time)
            self._count_values(name, 1)
        names = {key for key, name in enumerate(run.points.names) if self._is_without_step(name)}
        has_negative = any(stats.min_step < 0 for stats in run.points.stats)
        if not names and not has_negative:
            return
        if run.points.wrong_steps:
            reason = "the step is beyond the range of an index; the values have none"
            self.losses.guess(POINTS, f"{run.points.wrong_steps} values", reason, 0)
        untimed: Counter[int] = Counter()
        repeated: Counter[int] = Counter()
        earlier: set[Point] = set()
        for point in run.points:
            if point.step > 0:
                break
            if point.key in names or point.step < 0:
                if point in earlier:
                    repeated[point.key] += 1
                    continue
                if len(earlier) < MAX_REMEMBERED:
                    earlier.add(point)
                untimed[point.key] += 1
                yield from self._own_value(run.points.names[point.key], point.value, point.time)
        for key, count in repeated.items():
            self.losses.leave_out(POINTS, run.points.names[key], SAME_VALUE, count)
        for key, count in untimed.items():
            name = run.points.names[key]
            self._count_values(name, count)
            if count > 1 and run.has_times:
                reason = "the values have no step; their order is in the run, the time of each is not"
                self.losses.guess(POINTS, name, reason, 0)

    def _own_value(self, name: str, value: float, when: float) -> Iterator[events.AnyEvent]:
        measure = self.measures[name]
        stage = self.stage
        if measure.stage != TRAINING and self.run.stage == TRAINING:
            stage = measure.stage
            if stage not in self.begun:
                self.begun[stage] = when if when == when else self.run.started
                if stage == EVALUATION and not self.model_ref:
                    yield from self._unnamed_model()
                yield events.Begin(stage, stage, self.begun[stage], stage)
                if self.model_ref:
                    yield events.Used(stage, self.model_ref, "model")
        yield events.Measured(stage, {measure.name: _encode(value)})

    # ---- end

    def _end(self) -> Iterator[events.AnyEvent]:
        run = self.run
        if run.ended is None and not run.status:
            return
        status = run.status or "LOST"
        for stage, began in self.begun.items():
            yield events.Done(stage, self.ended, max(self.ended - began, 0.0))
        if status != "LOST":
            seconds = max(self.ended - run.started, 0.0)
            yield events.Done(self.stage, self.ended, seconds, status, run.error)
        yield events.End(self.ended, status, run.error)

    def _note_gaps(self) -> None:
        run, lack = self.run, self.losses.lack
        if not run.status:
            lack("how the run ended", "its status is LOST")
        elif run.ended is None:
            lack("when the run ended", "its last value counts as the end")
        if not run.has_times:
            lack("times", "the run began when its oldest file was changed; durations are 0")
        if run.status == "FAILED" and not run.error:
            lack("the error of the failed run", "the tool does not store it")
        if not run.datasets:
            lack("datasets", "no data is named")
        if not run.files and not run.models:
            lack("files and models that the run produced", "none is named")
        if not run.process.get("git_commit"):
            lack("the version of the code", "no commit is recorded")


class _Sections:
    """Writes the sections of the training, step by step."""

    def __init__(self, writer: RunEvents) -> None:
        self.writer = writer
        self.run = writer.run
        points = self.run.points
        self.keys_without_step = {key for key, name in enumerate(points.names) if writer._is_without_step(name)}
        self.measures = [writer.measures[name] for name in points.names]
        for key, name in enumerate(points.names):
            # a test of every epoch is no evaluation of the finished model: it stays with the epochs
            if self.measures[key].stage == EVALUATION and key not in self.keys_without_step:
                self.measures[key] = writer.measures[name] = Measure(TRAINING, name)
        self.rate_keys = [key for key, name in enumerate(points.names) if RATE.fullmatch(name)]
        self.rates: dict[int, float] = {}
        self.previous = self.run.started
        self.superseded: Counter[int] = Counter()
        self.repeated: Counter[int] = Counter()
        self.negative: Counter[int] = Counter()
        self.measured = False
        self.has_parts = points.part > 0
        for key, stats in enumerate(points.stats):
            if stats.min_step < 0 <= stats.max_step:
                self.negative[key] = sum(point.key == key for point in points if point.step < 0)

    def section(self, step: int, points: list[Point]) -> Iterator[events.AnyEvent]:
        """Yield the events of one step."""
        run, kind, stage = self.run, self.writer.kind, self.writer.stage
        if len(points) > len({point.key for point in points}):
            points = self._unique(self._latest(points) if self.has_parts else points)
        times = [point.time for point in points if point.time == point.time]
        begin, end = (min(self.previous, *times), max(times)) if times else (self.previous, self.previous)
        index = step + self.writer.shift
        location = f"{stage}/{index}"
        self.measured = True
        if self.rate_keys:
            yield from self._adaptations(location, points, end)
        yield events.Begin(location, kind, begin, index=index)
        training: list[events.Values] = []
        validation: list[events.Values] = []
        for point in points:
            measure = self.measures[point.key]
            _insert(validation if measure.stage == VALIDATION else training, measure.name, _encode(point.value))
        for values in training:
            yield events.Measured(location, values)
        if validation:
            yield from self._validation(index, location, validation, end)
        yield events.Done(location, end, max(end - begin, 0.0))
        if times:
            self.previous = max(min(times), self.previous)
        elif not run.has_times:
            self.previous = run.started

    def _validation(
        self, index: int, location: str, values: list[events.Values], end: float
    ) -> Iterator[events.AnyEvent]:
        if VALIDATION not in self.writer.begun:
            self.writer.begun[VALIDATION] = self.run.started
            yield events.Begin(VALIDATION, VALIDATION, self.run.started, VALIDATION)
        paired = f"{VALIDATION}/{index}"
        yield events.Begin(paired, self.writer.kind, end, index=index, parent=location)
        for item in values:
            yield events.Measured(paired, item)
        yield events.Done(paired, end, 0.0)

    def _adaptations(self, location: str, points: list[Point], end: float) -> Iterator[events.AnyEvent]:
        """Yield that a learning rate changed; the first value only says what it is."""
        for point in points:
            if point.key not in self.rate_keys:
                continue
            rate = self.rates.get(point.key, point.value)
            if rate != point.value and point.value == point.value:
                name = "learning_rate" if point.key == self.rate_keys[0] else self.run.points.names[point.key]
                when = point.time if point.time == point.time else end
                yield events.Adapted(location, when, {name: _encode(point.value)})
            self.rates[point.key] = point.value

    def _latest(self, points: list[Point]) -> list[Point]:
        """Return the points of the last file that has each metric at this step."""
        last: dict[int, int] = {}
        for point in points:
            last[point.key] = max(point.part, last.get(point.key, 0))
        for point in points:
            self.superseded[point.key] += point.part < last[point.key]
        return [point for point in points if point.part == last[point.key]]

    def _unique(self, points: list[Point]) -> list[Point]:
        """Return points without those that came again: MLflow sends values again when it logs a model."""
        unique = dict.fromkeys(points)
        if len(unique) < len(points):
            counts = Counter(point.key for point in points)
            counts.subtract(point.key for point in unique)
            self.repeated.update(counts)
        return list(unique)


def _insert(groups: list[events.Values], name: str, value: events.Value) -> None:
    """Add a value to the first group that has none of its name: a metric may have several values at a step."""
    for group in groups:
        if name not in group:
            group[name] = value
            return
    groups.append({name: value})


def _encode(value: float) -> events.Value:
    if value - value == 0.0:
        return value
    return ["double", "NaN" if value != value else "INF" if value > 0 else "-INF"]
