"""Narration: the events of a journal as short lines for people, an epoch a line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from provml import event
from provml.answer import cell, one_line
from provml.cli.door import duration, size


class Section:
    """An epoch, a fold or a round that has begun, and what was told of it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.batches = 0
        self.measures: dict[str, event.Value] = {}
        self.batch_measures: dict[str, event.Value] = {}


class Narrator:
    """Tells the events of one journal; epochs are told when they end, batches only if asked for."""

    def __init__(self, *, batches: bool = False) -> None:
        self.batches = batches
        self.open: dict[str, Section] = {}
        self.names: dict[str, str] = {}
        self.first: event.Run | None = None

    def tell(self, what: event.AnyEvent) -> str:
        """The line of an event; empty where it is told with a later one."""
        teller = TELLERS.get(what.__class__)
        return one_line(teller(self, what)) if teller is not None else ""

    def under_way(self) -> list[str]:
        """What has begun and not ended: a line for each section."""
        lines = []
        for at, section in self.open.items():
            said = [self.place(at), _batches(section.batches), values(section.measures or section.batch_measures)]
            lines.append(one_line(_joined(said)))
        return lines

    def place(self, at: str) -> str:
        """A place as people say it: `training epoch 3 batch 17`."""
        stage, *inside = at.split("/")
        if not inside:
            return stage
        section = self.open.get(f"{stage}/{inside[0]}")
        said = f"{stage} {section.kind if section else 'epoch'} {inside[0]}"
        return f"{said} batch {inside[1]}" if len(inside) > 1 else said

    # ---- the run

    def run(self, what: event.Run) -> str:
        self.first = what
        where = f"process {what.pid} on {what.host}" + (f", rank {what.rank}" if what.rank else "")
        if not what.main:
            return f"{where} joined"
        model = f", model {what.model}" if what.model and what.model != what.name else ""
        return f"{what.name} began{model}, {where}, {datetime.fromtimestamp(what.t):%Y-%m-%d}"

    def fault(self, what: event.Fault) -> str:
        return f"capture failed {what.count} time{'s'[: what.count != 1]}, first with {what.first}"

    def end(self, what: event.End) -> str:
        first = self.first
        who = "" if first is None or first.main else f"process {first.pid} "
        lasted = f" after {duration(max(what.t - first.t, 0.0))}" if first is not None else ""
        return f"{who}{what.status}{lasted}{_error(what.error)}"

    # ---- steps, stages and sections

    def began(self, what: event.Begin) -> str:
        if "/" in what.at:
            self.open[what.at] = Section(what.kind)
            return ""
        kind = "" if what.at.partition("@")[0] == what.kind else f" ({what.kind})"
        return _joined([f"{what.at}{kind} began", values(what.values)])

    def done(self, what: event.Done) -> str:
        place = self.place(what.at)
        section = self.open.pop(what.at, None)
        failed = "" if what.status == "FINISHED" else f"{what.status}{_error(what.error)}"
        if section is None:
            lasted = duration(what.s)
            return f"{place} {failed} after {lasted}" if failed else f"{place} done in {lasted}"
        told = values(section.measures or section.batch_measures)
        return _joined([place, _batches(section.batches), duration(what.s), told, failed])

    def batch(self, what: event.Batch) -> str:
        section = self.open.get(what.at.rpartition("/")[0])
        if section is None:
            return self.place(what.at) if self.batches else ""
        section.batches += 1
        if not self.batches:
            return ""
        told, section.batch_measures = section.batch_measures, {}
        return _joined([self.place(what.at), duration(what.s), values(told)])

    def measured(self, what: event.Measured) -> str:
        if what.at.count("/") > 1:
            section = self.open.get(what.at.rpartition("/")[0])
            if section is not None:
                section.batch_measures |= what.values
            return ""
        section = self.open.get(what.at)
        if section is not None:
            section.measures |= what.values
            return ""
        return _joined([self.place(what.at), values(what.values)])

    def parameters(self, what: event.Parameter) -> str:
        return _joined([what.at, values(what.values)])

    def adapted(self, what: event.Adapted) -> str:
        how = ", ".join(part for part in (what.technique, what.why, what.by and f"by {what.by}") if part)
        return _joined([f"{self.place(what.at)} adapted", values(what.values), how and f"({how})"])

    def implementation(self, what: event.Implementation) -> str:
        software = " ".join(part for part in (what.software, what.version) if part)
        where = what.where and f"in {what.where}"
        parts = [f"by {what.name}", where, what.algorithm, software, values(what.values)]
        return _joined([self.place(what.at), *parts])

    def ran(self, what: event.Ran) -> str:
        where = [what.name and f"is {what.name}", what.where and f"in {what.where}", what.on and f"on {what.on}"]
        wrote = (what.output or what.errors) and f"wrote {what.output or what.errors}"[:300]
        return _joined([self.place(what.at), *where, wrote])

    def layers(self, what: event.Layers) -> str:
        return f"{what.at} has {len(what.layers)} layer{'s'[: len(what.layers) != 1]}"

    # ---- data

    def data(self, what: event.Data) -> str:
        self.names[what.ref] = what.name or what.path
        return "" if what.kind == "model" else _joined([f"{what.kind} {what.name or what.path}", size(what.size)])

    def used(self, what: event.Used) -> str:
        role = f" as {what.role}" if what.role else ""
        return f"{self.place(what.at)} used {self.names.get(what.ref, what.ref)}{role}"

    def produced(self, what: event.Produced) -> str:
        return _joined([f"{self.place(what.at)} produced {self.names.get(what.ref, what.ref)}", values(what.values)])


TELLERS: dict[type, Callable[[Narrator, Any], str]] = {
    event.Run: Narrator.run,
    event.Begin: Narrator.began,
    event.Done: Narrator.done,
    event.Batch: Narrator.batch,
    event.Measured: Narrator.measured,
    event.Data: Narrator.data,
    event.Used: Narrator.used,
    event.Produced: Narrator.produced,
    event.Parameter: Narrator.parameters,
    event.Adapted: Narrator.adapted,
    event.Implementation: Narrator.implementation,
    event.Ran: Narrator.ran,
    event.Layers: Narrator.layers,
    event.Fault: Narrator.fault,
    event.End: Narrator.end,
}


def shown(value: event.Value) -> str:
    """A value of a journal as people read it."""
    return cell(value[1] if isinstance(value, list) and len(value) == 2 else value)


def values(held: event.Values) -> str:
    """Names and values on one line."""
    return " ".join(f"{name}={shown(value)}" for name, value in held.items())


def _batches(count: int) -> str:
    return f"{count} batch{'es'[: 2 * (count != 1)]}" if count else ""


def _error(error: list[str]) -> str:
    return f": {': '.join(part for part in error if part)}"[:300] if error else ""


def _joined(parts: list[str]) -> str:
    return "  ".join(part for part in parts if part)
