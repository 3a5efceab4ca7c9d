"""How the results of two runs differ, read from their journals: settings, data, measures and models.

The verdict is REPRODUCED if everything is the same to the last bit, CLOSE if settings and data are the same and all
measures are within the tolerances, DIFFERS otherwise. Without any measure or digest of a model there is none: the runs
are UNDECIDED.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from provml.answers import format_cell
from provml.errors import plural
from provml.journal import events
from provml.repeat.needs import read_events

RTOL, ATOL = 1e-3, 1e-8
"""Tolerances of measures: two values are close if they differ by at most ATOL + RTOL times the first."""
TIMES = re.compile(
    r"(^|[^a-z])(time|times|timestamp|seconds?|secs?|duration|runtime|elapsed|latency|throughput|speed|fps|eta)($|[^a-z])"
    r"|per_sec(ond)?($|[^a-z])|(^|_)(ms|memory)($|_)"
)
"""Names of measures that depend on the machine and its load, which are not compared."""
DIGEST = re.compile("[0-9a-f]{64}")
MAX_DIFFERENCES = 1000
"""Number of differences that are listed."""

Kind = Literal["status", "settings", "data", "measures", "models"]


class Verdict(StrEnum):
    """What a comparison of two runs says."""

    REPRODUCED = "REPRODUCED"
    CLOSE = "CLOSE"
    DIFFERS = "DIFFERS"
    UNDECIDED = "UNDECIDED"


@dataclass(frozen=True)
class Difference:
    """Something that differs: kind, where, both values, and whether they are within the tolerances."""

    kind: Kind
    name: str
    first: Any
    second: Any
    is_close: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.name} was {_text(self.first)}, now {_text(self.second)}"


@dataclass(frozen=True)
class Comparison:
    """All differences in the order of the first run, and what was compared."""

    verdict: Verdict
    reasons: tuple[str, ...]
    differences: tuple[Difference, ...]
    measures: int
    """Number of values of measures that were compared."""
    models: int
    """Number of models whose digests were compared."""
    skipped: tuple[str, ...]
    """Names of measures that were not compared."""

    @property
    def first_difference(self) -> Difference | None:
        """The first value of a measure that differs, by the order of the first run; else the first other difference."""
        measures = (item for item in self.differences if item.kind == "measures")
        return next(measures, self.differences[0] if self.differences else None)


@dataclass
class Results:
    """What a run did and produced, by names that are the same when it is repeated."""

    status: str = "not ended"
    settings: dict[str, Any] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    measures: dict[str, Any] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)


def read_results(home: Path, run: str) -> Results:
    """Return the results of a run."""
    results = Results()
    data_by_ref: dict[str, events.Data] = {}
    for event in read_events(home, run):
        if isinstance(event, events.Data):
            data_by_ref.setdefault(event.ref, event)
            if event.saved and event.sha256:
                results.models[_free(results.models, f"file of {event.name}")] = event.sha256
        elif isinstance(event, events.End):
            results.status = event.status
        elif isinstance(event, (events.Used, events.Begin)):
            _add_used(results, event, data_by_ref)
        elif isinstance(event, events.Produced) and event.ref in data_by_ref:
            _add_produced(results, event, data_by_ref[event.ref])
        else:
            _add_values(results, event)
    return results


def _add_used(results: Results, event: events.Used | events.Begin, data_by_ref: Mapping[str, events.Data]) -> None:
    if isinstance(event, events.Begin):
        results.settings |= {f"{event.location} {name}": value for name, value in event.values.items()}
    for ref in [event.ref] if isinstance(event, events.Used) else event.using:
        data = data_by_ref.get(ref)
        if data is not None and data.sha256 and data.kind != "model":
            name = f"{event.location} {data.name}"
            if results.data.get(name) != data.sha256:  # a stage names its data when it begins, and again with a role
                results.data[_free(results.data, name)] = data.sha256


def _add_produced(results: Results, event: events.Produced, data: events.Data) -> None:
    if data.kind == "model" and data.sha256:
        name = f"{event.location} {data.name}".strip()
        results.models[_free(results.models, name)] = data.sha256


def _add_values(results: Results, event: events.AnyEvent) -> None:
    if isinstance(event, events.Parameter):
        results.settings |= {f"{event.location} {name}": value for name, value in event.values.items()}
    elif isinstance(event, events.Adapted):
        for name, value in event.values.items():
            results.settings[_free(results.settings, f"{event.location} {name} adapted")] = value
    elif isinstance(event, events.Measured):
        for name, value in event.values.items():
            results.measures[_free(results.measures, f"{event.location} {name}")] = value


def _free(names: Mapping[str, Any], name: str) -> str:
    """Return a name that is not taken: the same name again is numbered."""
    if name not in names:
        return name
    number = 2
    while f"{name} ({number})" in names:
        number += 1
    return f"{name} ({number})"


def compare_results(
    first: Results, second: Results, *, rtol: float = RTOL, atol: float = ATOL, ignore: tuple[str, ...] = ()
) -> Comparison:
    """Compare the results of two runs. `ignore` are patterns of names of measures that are not compared."""
    differences: list[Difference] = []
    if first.status != second.status:
        differences.append(Difference("status", "the run", first.status, second.status))
    differences += _mapping_differences("settings", first.settings, second.settings)
    differences += _mapping_differences("data", first.data, second.data)
    skipped: dict[str, None] = {}
    values = [_compared(results.measures, ignore, skipped) for results in (first, second)]
    differences += _measure_differences(*values, rtol=rtol, atol=atol)
    models = first.models.keys() & second.models.keys()
    differences += _mapping_differences("models", first.models, second.models, is_close=True)
    count = len(values[0].keys() & values[1].keys())
    verdict = _verdict(differences, count + len(models))
    reasons = tuple(_reasons(differences, count, len(models), verdict))
    return Comparison(verdict, reasons, tuple(differences[:MAX_DIFFERENCES]), count, len(models), tuple(skipped))


def _mapping_differences(
    kind: Kind, first: Mapping[str, Any], second: Mapping[str, Any], *, is_close: bool = False
) -> Iterator[Difference]:
    for name in [*first, *(name for name in second if name not in first)]:
        if first.get(name) != second.get(name):
            is_in_both = name in first and name in second
            yield Difference(kind, name, first.get(name), second.get(name), is_close and is_in_both)


def _compared(values: Mapping[str, Any], ignore: tuple[str, ...], skipped: dict[str, None]) -> dict[str, Any]:
    """Return the measures that are compared, and note the names of the others."""
    compared = {}
    for key, value in values.items():
        name = key.partition(" ")[2].partition(" (")[0]
        if TIMES.search(name.lower()) or any(fnmatchcase(name, pattern) for pattern in ignore):
            skipped[name] = None
        else:
            compared[key] = value
    return compared


def _measure_differences(
    first: Mapping[str, Any], second: Mapping[str, Any], *, rtol: float, atol: float
) -> Iterator[Difference]:
    for name in [*first, *(name for name in second if name not in first)]:
        ours, theirs = first.get(name), second.get(name)
        if ours != theirs and not (_is_nan(ours) and _is_nan(theirs)):
            yield Difference("measures", name, ours, theirs, _are_close(ours, theirs, rtol, atol))


def _number(value: Any) -> float | None:
    """Return a measure as a number; the journal has NaN and large numbers as a datatype and a text."""
    try:
        return float(value[1]) if isinstance(value, list) else float(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _is_nan(value: Any) -> bool:
    number = _number(value)
    return number is not None and math.isnan(number)


def _are_close(first: Any, second: Any, rtol: float, atol: float) -> bool:
    ours, theirs = _number(first), _number(second)
    if ours is None or theirs is None or not (math.isfinite(ours) and math.isfinite(theirs)):
        return False
    return abs(ours - theirs) <= atol + rtol * abs(ours)


def _verdict(differences: list[Difference], compared: int) -> Verdict:
    if any(not item.is_close for item in differences):
        return Verdict.DIFFERS
    if not compared:
        return Verdict.UNDECIDED
    return Verdict.CLOSE if differences else Verdict.REPRODUCED


def _reasons(differences: list[Difference], measures: int, models: int, verdict: Verdict) -> Iterator[str]:
    if verdict is Verdict.UNDECIDED:
        yield "the runs have no measure and no digest of a model in common"
        return
    if not differences:
        yield f"{plural(measures, 'value')} of measures and {plural(models, 'digest')} of models are equal"
    for item in differences:
        if item.kind == "status":
            yield f"the status was {item.first} and is {item.second}"
    for kind in ("settings", "data"):
        names = [item.name for item in differences if item.kind == kind]
        if names:
            yield f"{kind} differ: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
    yield from _measure_reasons([item for item in differences if item.kind == "measures"], measures)
    changed = sum(item.kind == "models" for item in differences)
    if changed:
        yield f"{plural(changed, 'model')} with another digest"


def _measure_reasons(differences: list[Difference], measures: int) -> Iterator[str]:
    if not differences:
        return
    outside = [item for item in differences if not item.is_close]
    extent = f"{len(differences):,} of {plural(measures, 'value')} of measures differ"
    yield f"{extent}, {len(outside):,} by more than the tolerance" if outside else f"{extent}, all within the tolerance"
    missing = [item for item in outside if item.first is None or item.second is None]
    if missing:
        yield f"{plural(len(missing), 'value')} of measures in only one of the runs"


def _text(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, str) and DIGEST.fullmatch(value):
        return value[:12]
    number = _number(value) if isinstance(value, list) else None
    return str(number) if number is not None else format_cell(value) if not isinstance(value, float) else repr(value)
