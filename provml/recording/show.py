"""The curves of a run while it is recorded, read from its journals, for notebooks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from pathlib import Path
from typing import TypeGuard

import msgspec

from provml.answers import format_cell
from provml.answers.plot import Curves, Mark, Series, section_positions
from provml.drawing import chart
from provml.journal.events import Adapted, Begin, Measured, Value, decode
from provml.journal.location import Location
from provml.journal.reader import BEGIN_PREFIX, CURVE_PREFIXES, read_lines
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
        points: dict[str, dict[str, dict[tuple[str, int], float]]] = {}
        validated: dict[tuple[str, int], int | None] = {}
        marks: list[Mark] = []
        changes: dict[str, dict[int, float]] = {}
        initial: dict[str, object] = {}
        for event in _events(folder):
            location = Location.from_text(event.location)
            if isinstance(event, Begin):
                initial = {**{name: _decode(value) for name, value in event.values.items()}, **initial}
                if event.parent and location.epoch is not None:
                    validated[location.stage_location, location.epoch] = Location.from_text(event.parent).epoch
                continue
            if location.epoch is None or location.batch is not None:
                continue
            if isinstance(event, Adapted):
                texts = [f"{name} {format_cell(_decode(value))}" for name, value in event.values.items()]
                marks.append(Mark(location.epoch, ", ".join(texts)))
                for name, value in event.values.items():
                    if _is_number(number := _decode(value)):
                        changes.setdefault(name, {})[location.epoch] = float(number)
                continue
            for name, value in event.values.items():
                measure, part = _measure(name, location.stage)
                number = _decode(value)
                if _is_number(number):
                    points.setdefault(measure, {}).setdefault(part, {})[location.stage_location, location.epoch] = (
                        float(number)
                    )
        names = sorted(points, key=lambda name: (name != "loss", name))[:MAX_PANELS]
        sections = dict.fromkeys(key for parts in points.values() for part in parts.values() for key in part)
        positions = section_positions((*key, validated.get(key)) for key in sections)
        drawn = {
            name: {
                part: {positions[key]: value for key, value in values.items()} for part, values in points[name].items()
            }
            for name in names
        }
        panels = [_curves(name, drawn[name], marks) for name in names]
        last = ceil(max(positions.values(), default=1))
        panels += [_steps(name, initial.get(name), changes[name], last) for name in sorted(changes)]
        return cls(run, tuple(panels[:MAX_PANELS]))

    def __repr__(self) -> str:
        names = ", ".join(curves.y for curves in self.panels)
        return f"<RunCharts {self.run}: {names or 'no measures yet'}>"

    def to_svg(self) -> str:
        """Return the curves as an SVG document."""
        return chart.draw(self.panels, f"run {self.run}")

    def _repr_html_(self) -> str:
        from html import escape

        return self.to_svg() if self.panels else f"<p>{escape(repr(self))}</p>"


def _events(folder: Path) -> Iterator[Measured | Adapted | Begin]:
    """Yield what curves need: measures, adaptations, stages that have settings, and sections inside others."""
    for path in journals_of_run(folder):
        for _, _, line in read_lines(path):
            is_begin = line.startswith(BEGIN_PREFIX) and (b'"values":' in line or b'"during":' in line)
            if is_begin or line.startswith(CURVE_PREFIXES):
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):  # a damaged line
                    event = decode(line)
                    if isinstance(event, (Measured, Adapted, Begin)):
                        yield event


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0.0


def _decode(value: Value) -> object:
    decoded = decode_value(value) if isinstance(value, list) else value
    return float(decoded) if isinstance(decoded, Decimal) else decoded


def _measure(name: str, stage: str) -> tuple[str, str]:
    """Return the measure that a chart shows, and whether it is of training or of validation."""
    if name.startswith(VALIDATION):
        return name.removeprefix(VALIDATION), "validation"
    return name, "validation" if stage.endswith("validation") else "training"


def _steps(name: str, initial: object, changes: dict[int, float], last: int) -> Curves:
    """Return a setting by epoch: a change in an epoch holds from the next one on."""
    value = float(initial) if _is_number(initial) else None
    points: list[tuple[int, float]] = []
    for epoch in range(1, max(last, *changes) + 1):
        if value is not None:
            points.append((epoch, value))
        value = changes.get(epoch, value)
    if not points or max(changes) >= last:
        points.append((max(last, *changes) + 1, value))  # type: ignore[arg-type]
    return Curves("epoch", name, [Series("training", points, part="training", group="run", is_step=True)], 0)


def _curves(name: str, parts: dict[str, dict[float, float]], marks: list[Mark]) -> Curves:
    series = [
        Series(part, sorted(points.items()), part=part, group="run", is_dashed=part == "validation" and len(parts) > 1)
        for part, points in sorted(parts.items())
    ]
    return Curves("epoch", name, series, 0, marks=[Mark(mark.x, mark.label, "run") for mark in marks])
