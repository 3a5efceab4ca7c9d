"""The curves of a run while it is recorded, read from its journals, for notebooks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from provml.answers import format_cell
from provml.answers.plot import Curves, Mark, Series
from provml.drawing import chart
from provml.journal.events import Adapted, Measured, Value, decode
from provml.journal.location import Location
from provml.journal.reader import CURVE_PREFIXES, read_lines
from provml.journal.run_files import journals_of_run
from provml.rdf.json_values import decode_value

VALIDATION = "val_"
MAX_PANELS = 6


@dataclass(frozen=True)
class RunCharts:
    """The curves of the measures of a run by epoch: a picture in a notebook, a line of text elsewhere."""

    run: str
    panels: tuple[Curves, ...]

    @classmethod
    def of(cls, folder: Path, run: str) -> RunCharts:
        """Read the journals of a run."""
        points: dict[str, dict[str, dict[int, float]]] = {}
        marks: list[Mark] = []
        for event in _events(folder):
            location = Location.from_text(event.location)
            if location.epoch is None or location.batch is not None:
                continue
            if isinstance(event, Adapted):
                texts = [f"{name} {format_cell(_decode(value))}" for name, value in event.values.items()]
                marks.append(Mark(location.epoch, ", ".join(texts)))
                continue
            for name, value in event.values.items():
                measure, part = _measure(name, location.stage)
                number = _decode(value)
                if isinstance(number, (int, float)) and not isinstance(number, bool) and number - number == 0.0:
                    points.setdefault(measure, {}).setdefault(part, {})[location.epoch] = float(number)
        names = sorted(points, key=lambda name: (name != "loss", name))[:MAX_PANELS]
        return cls(run, tuple(_curves(name, points[name], marks) for name in names))

    def __repr__(self) -> str:
        names = ", ".join(curves.y for curves in self.panels)
        return f"<RunCharts {self.run}: {names or 'no measures yet'}>"

    def to_svg(self) -> str:
        """Return the curves as an SVG document."""
        return chart.draw(self.panels, f"run {self.run}")

    def _repr_html_(self) -> str:
        from html import escape

        return self.to_svg() if self.panels else f"<p>{escape(repr(self))}</p>"


def _events(folder: Path) -> Iterator[Measured | Adapted]:
    for path in journals_of_run(folder):
        for _, _, line in read_lines(path):
            if line.startswith(CURVE_PREFIXES):
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):  # a damaged line
                    event = decode(line)
                    if isinstance(event, (Measured, Adapted)):
                        yield event


def _decode(value: Value) -> object:
    return decode_value(value) if isinstance(value, list) else value


def _measure(name: str, stage: str) -> tuple[str, str]:
    """Return the measure that a chart shows, and whether it is of training or of validation."""
    if name.startswith(VALIDATION):
        return name.removeprefix(VALIDATION), "validation"
    return name, "validation" if stage.endswith("validation") else "training"


def _curves(name: str, parts: dict[str, dict[int, float]], marks: list[Mark]) -> Curves:
    series = [
        Series(part, sorted(points.items()), part=part, group="run", is_dashed=part == "validation" and len(parts) > 1)
        for part, points in sorted(parts.items())
    ]
    return Curves("epoch", name, series, 0, marks=[Mark(mark.x, mark.label, "run") for mark in marks])
