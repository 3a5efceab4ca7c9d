"""Events of a journal as short lines of text, one line per epoch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from provml.answers import format_cell, single_line
from provml.answers.humanize import format_duration, format_size
from provml.errors import plural
from provml.journal import events
from provml.journal.location import Location, is_batch


class Section:
    """An open epoch, fold or round: its batch count and its latest measures."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.batches = 0
        self.measures: dict[str, events.Value] = {}
        self.batch_measures: dict[str, events.Value] = {}


class EventFormatter:
    """Formats the events of one journal: an epoch when it ends, a batch only with `batches`."""

    def __init__(self, *, batches: bool = False) -> None:
        self.batches = batches
        self.open: dict[str, Section] = {}
        self.names: dict[str, str] = {}
        self.first: events.Header | None = None

    def format(self, event: events.AnyEvent) -> str:
        """Return the line of an event, or an empty text if a later line includes the event."""
        formatter = FORMATTERS.get(event.__class__)
        return single_line(formatter(self, event)) if formatter is not None else ""

    def open_sections(self) -> list[str]:
        """Return a line for each section that has begun and not ended."""
        lines = []
        for at, section in self.open.items():
            measures = values(section.measures or section.batch_measures)
            lines.append(single_line(_join([self.place(at), _batches(section.batches), measures])))
        return lines

    def place(self, at: str) -> str:
        """Return a location as text: `training epoch 3 batch 17`."""
        location = Location.from_text(at)
        if location.epoch is None:
            return at
        section = self.open.get(location.section_location)
        epoch = f"{location.stage_location} {section.kind if section else 'epoch'} {location.epoch}"
        return epoch if location.batch is None else f"{epoch} batch {location.batch}"

    # ---- the run

    def run(self, event: events.Header) -> str:
        self.first = event
        where = f"process {event.pid} on {event.host}" + (f", rank {event.rank}" if event.rank else "")
        if not event.main:
            return f"{where} joined"
        model = f", model {event.model}" if event.model and event.model != event.name else ""
        if not event.pid:  # an imported run: its process is not in the source
            where = f"imported by {event.writer}"
        return f"{event.name} began{model}, {where}, {datetime.fromtimestamp(event.time):%Y-%m-%d}"

    def consumed(self, event: events.Consumed) -> str:
        """Return an amount of energy or emissions with its method."""
        unit = {"kW.h": "kWh", "kg": "kg CO2e"}.get(event.unit, event.unit)
        part = f" of {event.component}" if event.component else ""
        how = "metered" if event.is_metered else "modelled"
        return f"{event.quantity}{part} {format_cell(event.value)} {unit}, {how} ({event.method})"

    def imported(self, event: events.Imported) -> str:
        tool = f"{event.tool} {event.version}".strip() or event.format
        return f"imported from {event.source} of {tool} on {datetime.fromtimestamp(event.time):%Y-%m-%d}"

    def fault(self, event: events.CaptureErrors) -> str:
        lost = f", lost batches: {event.lost_batches}" if event.lost_batches else ""
        messages = [f"{text} ({count} times)" if count > 1 else text for text, count in event.messages.items()]
        return f"{plural(event.count, 'capture error')}{lost}: {'; '.join(messages) or event.first}"

    def end(self, event: events.End) -> str:
        first = self.first
        who = "" if first is None or first.main else f"process {first.pid} "
        duration = f" after {format_duration(max(event.time - first.time, 0.0))}" if first is not None else ""
        return f"{who}{event.status}{duration}{_error(event.error)}"

    # ---- steps, stages and sections

    def began(self, event: events.Begin) -> str:
        location = Location.from_text(event.location)
        if location.epoch is not None:
            self.open[event.location] = Section(event.kind)
            return ""
        kind = "" if location.stage == event.kind else f" ({event.kind})"
        return _join([f"{event.location}{kind} began", values(event.values)])

    def done(self, event: events.Done) -> str:
        place = self.place(event.location)
        section = self.open.pop(event.location, None)
        failed = "" if event.status == "FINISHED" else f"{event.status}{_error(event.error)}"
        if section is None:
            duration = format_duration(event.seconds)
            return f"{place} {failed} after {duration}" if failed else f"{place} done in {duration}"
        measures = values(section.measures or section.batch_measures)
        return _join([place, _batches(section.batches), format_duration(event.seconds), measures, failed])

    def batch(self, event: events.BatchEnd) -> str:
        section = self.open.get(Location.from_text(event.location).section_location)
        if section is None:
            return self.place(event.location) if self.batches else ""
        section.batches += 1
        if not self.batches:
            return ""
        measures, section.batch_measures = section.batch_measures, {}
        return _join([self.place(event.location), format_duration(event.seconds), values(measures)])

    def measured(self, event: events.Measured) -> str:
        if is_batch(event.location):
            section = self.open.get(Location.from_text(event.location).section_location)
            if section is not None:
                section.batch_measures |= event.values
            return ""
        section = self.open.get(event.location)
        if section is not None:
            section.measures |= event.values
            return ""
        return _join([self.place(event.location), values(event.values)])

    def parameters(self, event: events.Parameter) -> str:
        return _join([event.location, values(event.values)])

    def adapted(self, event: events.Adapted) -> str:
        how = ", ".join(part for part in (event.technique, event.why, event.by and f"by {event.by}") if part)
        return _join([f"{self.place(event.location)} adapted", values(event.values), how and f"({how})"])

    def implementation(self, event: events.Implementation) -> str:
        software = " ".join(part for part in (event.software, event.version) if part)
        where = event.source and f"in {event.source}"
        parts = [f"by {event.name}", where, event.algorithm, software, values(event.values)]
        return _join([self.place(event.location), *parts])

    def ran(self, event: events.ExecutionDetails) -> str:
        where = [
            event.name and f"is {event.name}",
            event.directory and f"in {event.directory}",
            event.resource and f"on {event.resource}",
        ]
        wrote = (event.output or event.errors) and f"wrote {event.output or event.errors}"[:300]
        return _join([self.place(event.location), *where, wrote])

    def layers(self, event: events.Layers) -> str:
        return f"{event.location} has {plural(len(event.layers), 'layer')}"

    # ---- data

    def data(self, event: events.Data) -> str:
        self.names[event.ref] = event.name or event.path
        if event.saved:
            return _join([f"{event.name} saved in {event.path or event.store}", format_size(event.size)])
        return (
            ""
            if event.kind in ("model", "file")
            else _join([f"{event.kind} {event.name or event.path}", format_size(event.size)])
        )

    def artifact(self, event: events.Artifact) -> str:
        return _join([f"stored {event.name}", format_size(event.size)])

    def used(self, event: events.Used) -> str:
        role = f" as {event.role}" if event.role else ""
        return f"{self.place(event.location)} used {self.names.get(event.ref, event.ref)}{role}"

    def produced(self, event: events.Produced) -> str:
        return _join(
            [
                f"{self.place(event.location) or 'run'} produced {self.names.get(event.ref, event.ref)}",
                values(event.values),
            ]
        )


FORMATTERS: dict[type, Callable[[EventFormatter, Any], str]] = {
    events.Header: EventFormatter.run,
    events.Begin: EventFormatter.began,
    events.Done: EventFormatter.done,
    events.BatchEnd: EventFormatter.batch,
    events.Measured: EventFormatter.measured,
    events.Data: EventFormatter.data,
    events.Artifact: EventFormatter.artifact,
    events.Used: EventFormatter.used,
    events.Produced: EventFormatter.produced,
    events.Parameter: EventFormatter.parameters,
    events.Adapted: EventFormatter.adapted,
    events.Implementation: EventFormatter.implementation,
    events.ExecutionDetails: EventFormatter.ran,
    events.Layers: EventFormatter.layers,
    events.CaptureErrors: EventFormatter.fault,
    events.Imported: EventFormatter.imported,
    events.Consumed: EventFormatter.consumed,
    events.End: EventFormatter.end,
}


def format_value(value: events.Value) -> str:
    """Return a journal value as text."""
    return format_cell(value[1] if isinstance(value, list) and len(value) == 2 else value)


def values(pairs: events.Values) -> str:
    """Return names and values on one line."""
    return " ".join(f"{name}={format_value(value)}" for name, value in pairs.items())


def _batches(count: int) -> str:
    return f"{count} batch{'' if count == 1 else 'es'}" if count else ""


def _error(error: list[str]) -> str:
    return f": {': '.join(part for part in error if part)}"[:300] if error else ""


def _join(parts: list[str]) -> str:
    return "  ".join(part for part in parts if part)
