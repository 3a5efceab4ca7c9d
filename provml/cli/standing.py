"""How a run stands: what its journals tell so far."""

from __future__ import annotations

from typing import Any

from provml import event
from provml.cli.glance import Glance


class Standing:
    """Status, faults, what is under way and the latest measures of a run, from one reading of its journals."""

    def __init__(self, glance: Glance) -> None:
        self.glance = glance
        self._stages: dict[str, event.Values] = {}
        self._sections: dict[str, int] = {}
        self._measured: dict[tuple[str, bool, str], tuple[str, event.Value]] = {}
        for tail in glance.tails:
            for _, what in tail.events():
                self._take(what)
        main = glance.main
        self.run = glance.folder.name
        self.first = main.first if main else None
        self.end = main.end if main else None
        self.status = glance.status
        self.seen = max((tail.seen for tail in glance.tails), default=0.0)
        self.events = sum(tail.told for tail in glance.tails)
        self.damaged = sum(len(tail.damaged) for tail in glance.tails)
        told = [tail.fault for tail in glance.tails if tail.fault is not None]
        self.faults = sum(fault.count for fault in told)
        self.first_fault = told[0].first if told else ""

    def _take(self, what: event.AnyEvent) -> None:
        if isinstance(what, event.Begin):
            if "/" in what.at:
                self._sections[what.at] = 0
            else:
                self._stages[what.at] = what.values
        elif isinstance(what, event.Batch):
            epoch = what.at.rpartition("/")[0]
            self._sections[epoch] = self._sections.get(epoch, 0) + 1
        elif isinstance(what, event.Done):
            self._sections.pop(what.at, None)
            self._stages.pop(what.at, None)
        elif isinstance(what, event.Measured):
            stage = what.at.partition("/")[0]
            of_batch = what.at.count("/") > 1
            for title, value in what.values.items():
                self._measured[stage, of_batch, title] = (what.at, value)

    def now(self) -> list[tuple[Any, ...]]:
        """What has begun and not ended: the stage, its section, of how many where that was said, and its batches."""
        rows: list[tuple[Any, ...]] = []
        for stage, values in self._stages.items():
            planned = next((values[key] for key in ("epochs", "rounds", "folds") if key in values), None)
            inside = [(at, count) for at, count in self._sections.items() if at.partition("/")[0] == stage]
            rows += [(stage, _index(at, 1), planned, count) for at, count in inside] or [(stage, None, planned, None)]
        return rows

    def measures(self) -> list[tuple[Any, ...]]:
        """The latest value of each measure of a stage; of batches only while their epoch is open."""
        rows: list[tuple[Any, ...]] = []
        for (stage, of_batch, title), (at, value) in self._measured.items():
            if of_batch and at.rpartition("/")[0] not in self._sections:
                continue
            plain = value[1] if isinstance(value, list) and len(value) == 2 else value
            rows.append((stage, _index(at, 1), _index(at, 2), title, plain))
        return rows

    def writers(self) -> list[tuple[Any, ...]]:
        """Every process that wrote."""
        return [
            (
                tail.path.stem,
                tail.first.pid if tail.first else None,
                tail.first.rank if tail.first else None,
                tail.status,
                tail.told,
                tail.fault.count if tail.fault else 0,
                len(tail.damaged),
            )
            for tail in self.glance.tails
        ]


def _index(at: str, depth: int) -> int | str | None:
    parts = at.split("/")
    if len(parts) <= depth:
        return None
    return int(parts[depth]) if parts[depth].isdecimal() else parts[depth]
