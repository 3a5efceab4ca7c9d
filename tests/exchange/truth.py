"""Imported runs compared with the truth that lies beside the files of a tool: value by value, for every run."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provml.exchange import ImportReport, read
from provml.journal import events
from provml.journal.location import Location
from provml.rdf.json_values import decode_value

SUITES = Path(os.environ.get("PROVML_SUITES") or Path(__file__).parents[3] / "shared" / "suites") / "exchange"


@dataclass
class JournalRun:
    """A run as its journal has it, with the names of the source."""

    id: str
    events: list[events.AnyEvent]
    params: dict[str, Any] = field(default_factory=dict)
    points: dict[str, list[tuple[int | None, float]]] = field(default_factory=dict)
    kind: str = ""

    @property
    def header(self) -> events.Header:
        first = self.events[0]
        assert isinstance(first, events.Header)
        return first

    @property
    def imported(self) -> events.Imported:
        return self.of(events.Imported)[0]

    @property
    def end(self) -> events.End | None:
        return next(iter(self.of(events.End)), None)

    @property
    def status(self) -> str:
        return self.end.status if self.end is not None else "LOST"

    def of(self, cls: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, cls)]

    @property
    def datasets(self) -> dict[str, events.Data]:
        return {event.name: event for event in self.of(events.Data) if event.kind == "dataset"}

    @property
    def roles(self) -> dict[str, str]:
        names = {event.ref: event.name for event in self.of(events.Data)}
        return {names[event.ref]: event.role for event in self.of(events.Used)}

    @property
    def files(self) -> dict[str, tuple[str, int]]:
        return {
            event.path: (event.sha256, event.size)
            for event in self.of(events.Data)
            if event.kind == "file" or (event.kind == "model" and event.saved)
        }

    @property
    def adaptations(self) -> list[tuple[int | None, dict[str, Any]]]:
        return [
            (Location.parse(event.location).epoch, {name: decode_value(v) for name, v in event.values.items()})
            for event in self.of(events.Adapted)
        ]


def load_run(home: Path, run_id: str) -> JournalRun:
    """Read the journal of an imported run."""
    [path] = (home / "runs" / run_id).glob("*.jsonl")
    run = JournalRun(run_id, [events.decode(line) for line in path.read_bytes().splitlines()])
    names = run.imported.names if run.of(events.Imported) else {}
    for event in run.events:
        if isinstance(event, events.Parameter):
            run.params |= {name: decode_value(value) for name, value in event.values.items()}
        elif isinstance(event, events.Begin) and "/" in event.location:
            run.kind = event.kind
        elif isinstance(event, events.Measured):
            location = Location.parse(event.location)
            for name, value in event.values.items():
                bare = f"val_{name}" if location.stage.endswith("validation") and not names else name
                source = names.get(f"{location.stage}/{name}", bare)
                run.points.setdefault(source, []).append((location.epoch, float(decode_value(value))))
    return run


def load_truth(folder: str) -> dict[str, Any]:
    """Return the truth of a suite."""
    return json.loads((SUITES / folder / "expected.json").read_text())


def import_suite(folder: str, home: Path, source: str = "") -> tuple[ImportReport, dict[str, JournalRun]]:
    """Import a suite and return the runs by their ids."""
    report = read(SUITES / folder / source if source else SUITES / folder, home)
    return report, {run.id: load_run(home, run.id) for run in report.runs}


def number(value: Any) -> float:
    """Return a number of the truth."""
    return float(value["number"].replace("INF", "inf")) if isinstance(value, dict) else float(value)


def same(one: float, other: float) -> bool:
    """Return whether two doubles are the same; NaN is itself."""
    return one == other or (math.isnan(one) and math.isnan(other))


def check_points(run: JournalRun, truth: dict[str, Any], *, is_same: Any = same) -> None:
    """Compare all points: their number, their steps and their values."""
    expected = {name: points for name, points in truth["metrics"].items() if points}
    assert expected.keys() <= run.points.keys()
    stepped = [points for name, points in expected.items() if run.points[name][0][0] is not None]
    first = min((point[0] for points in stepped for point in points), default=0)
    for name, points in expected.items():
        actual = run.points[name]
        assert len(actual) == len(points), name
        assert all(is_same(value, number(point[1])) for (_, value), point in zip(actual, points, strict=True)), name
        indices = [index for index, _ in actual]
        if indices[0] is not None:
            shift = 1 if run.kind == "epoch" and first == 0 else 0
            assert indices == [point[0] + shift for point in points], name


def check_params(run: JournalRun, truth: dict[str, Any]) -> None:
    """Compare all parameters: values of the right type; a list is JSON, None is no value with its text."""
    for name, item in flat_params(truth["params"]).items():
        if item is None:
            assert name not in run.params
            assert run.imported.texts[name] in ("None", "null")
            continue
        actual = run.params[name]
        if isinstance(item, (list, tuple)):
            assert json.loads(actual) == list(item), name
        elif isinstance(item, float):
            assert actual == item, name
            assert not isinstance(actual, (str, bool)), name
        else:
            assert (actual, type(actual)) == (item, type(item)), name


def flat_params(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the truth, nested ones with dots."""
    flat: dict[str, Any] = {}
    for name, item in params.items():
        _flatten(flat, name, item["value"])
    return flat


def _flatten(flat: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            _flatten(flat, f"{name}.{key}", item)
    else:
        flat[name] = value


def check_adaptations(run: JournalRun, truth: dict[str, Any], *, is_same: Any = same) -> None:
    """Compare the changes of the learning rate."""
    expected = [(item["epoch"], item["to"]) for item in truth["adaptations"]]
    actual = run.adaptations
    assert [index for index, _ in actual] == [index for index, _ in expected]
    for (_, values), (_, rate) in zip(actual, expected, strict=True):
        assert is_same(values["learning_rate"], rate)


def check_report(report: ImportReport) -> None:
    """Check that the account adds up to what the source holds, and survives as data."""
    data = json.loads(json.dumps(report.to_data()))
    assert report.totals.is_complete, report.totals.tallies
    for run in data["runs"]:
        for tally in run["totals"].values():
            assert tally["source"] == tally["kept"] + tally["guessed"] + tally["not_representable"]
