"""Activities and entities of a document, as PROV and RO-Crate have them: a neutral record, and its events.

A document is a run. An activity is a stage of learning or a step, by its name; what it used and generated is data. PROV
does not say how an activity ended, so a run has a status only if the document states one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from provml.exchange.base import SourceRun
from provml.exchange.foreign_run import SourceInfo, is_model_file
from provml.exchange.losses import DATASETS, PARAMETERS, POINTS, LossReport
from provml.journal import events
from provml.journal.events import LEARNING_KINDS
from provml.journal.redaction import redact_text, redact_url
from provml.recording.encoding import encode_measures, encode_parameters
from provml.recording.kinds import kind_of

ACTIVITIES = "activities"
RELATIONS = "relations"


@dataclass
class GraphEntity:
    """Data of a document."""

    id: str
    name: str
    is_model: bool = False
    path: str = ""
    sha256: str = ""
    size: int = -1
    media_type: str = ""
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class GraphActivity:
    """An activity of a document. Times are in seconds since 1970."""

    id: str
    name: str
    started: float | None = None
    ended: float | None = None
    status: str = ""
    error: list[str] = field(default_factory=list)
    person: str = ""
    software: str = ""
    informed_by: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    measures: dict[str, Any] = field(default_factory=dict)
    used: list[tuple[str, str]] = field(default_factory=list)
    """Ids of entities, with their roles."""
    generated: list[str] = field(default_factory=list)


@dataclass
class GraphRun:
    """A document as a run."""

    id: str
    name: str
    source: SourceInfo
    model: str = ""
    description: str = ""
    activities: dict[str, GraphActivity] = field(default_factory=dict)
    entities: dict[str, GraphEntity] = field(default_factory=dict)
    losses: LossReport = field(default_factory=LossReport)

    def to_source_run(self) -> SourceRun:
        """Return the run as one that can be written."""
        remarks = (self.description,) if self.description else ()
        writer = _GraphEvents(self)
        return SourceRun(self.id, writer.all_events(), losses=self.losses, last_time=writer.ended, remarks=remarks)


class _GraphEvents:
    """Writes the events of a document, activity by activity in the order of their starts."""

    def __init__(self, run: GraphRun) -> None:
        self.run = run
        times = [t for a in run.activities.values() for t in (a.started, a.ended) if t is not None]
        self.has_times = bool(times)
        self.started = min(times, default=run.source.path.stat().st_mtime)
        self.ended = max(times, default=self.started)
        self.names: Counter[str] = Counter()
        self.locations: dict[str, str] = {}
        self.described: set[str] = set()

    def all_events(self) -> Iterator[events.AnyEvent]:
        run, source = self.run, self.run.source
        people = [activity.person for activity in run.activities.values() if activity.person]
        header = events.Header(events.VERSION, run.id, source.format, run.name, self.started, run.model or run.name)
        header.by = people[0] if people else ""
        yield header
        yield events.Imported(
            time.time(), source.path.name, source.format, tool=source.tool, version=source.version, sha256=source.sha256
        )
        ordered = sorted(run.activities.values(), key=lambda item: (item.started or self.started, item.id))
        for activity in ordered:
            self.locations[activity.id] = self._allocate(activity.name)
        for activity in ordered:
            yield from self._activity(activity)
        for entity in run.entities.values():
            if entity.id not in self.described:
                yield self._data(entity)
        yield from self._end(ordered)

    def _allocate(self, name: str) -> str:
        slug = "".join(c if c.isalnum() or c in "._-" else "-" for c in name).strip("-.") or "step"
        self.names[slug] += 1
        return slug if self.names[slug] == 1 else f"{slug}-{self.names[slug]}"

    def _activity(self, activity: GraphActivity) -> Iterator[events.AnyEvent]:
        location = self.locations[activity.id]
        kind = kind_of(activity.name)
        kind = "step" if kind == "adaptation" else kind
        for ref, _ in activity.used:
            yield from self._describe(ref)
        begin = events.Begin(location, kind, activity.started or self.started, activity.name, by=activity.person)
        begin.parent = self.locations.get(activity.informed_by, "")
        yield begin
        if activity.software:
            yield events.Implementation(location, activity.software)
        values, errors = encode_parameters({k: v for k, v in activity.values.items() if v is not None})
        if values:
            yield events.Parameter(location, values)
        if errors:
            self.run.losses.leave_out(PARAMETERS, activity.name, "the value has no form in a run", 0)
        for ref, role in activity.used:
            yield events.Used(location, self._ref(ref), role or _role(self._name(ref), kind))
        yield from self._results(activity, location, kind)
        if activity.ended is not None:
            start = activity.started if activity.started is not None else activity.ended
            status = activity.status or "FINISHED"
            yield events.Done(location, activity.ended, max(activity.ended - start, 0.0), status, activity.error)
        self.run.losses.preserve(ACTIVITIES)

    def _results(self, activity: GraphActivity, location: str, kind: str) -> Iterator[events.AnyEvent]:
        measures, errors = encode_measures(activity.measures)
        if measures and kind in LEARNING_KINDS:
            yield events.Measured(location, measures)
        elif measures:
            yield events.Parameter(location, measures)
        if errors:
            self.run.losses.leave_out(POINTS, activity.name, "the value is no number", 0)
        for ref in activity.generated:
            yield from self._describe(ref)
            yield events.Produced(location, self._ref(ref))

    def _describe(self, ref: str) -> Iterator[events.AnyEvent]:
        if ref not in self.described:
            yield self._data(self.run.entities.get(ref) or GraphEntity(ref, ref))

    def _data(self, entity: GraphEntity) -> events.Data:
        self.described.add(entity.id)
        if entity.id in self.run.entities:
            self.run.losses.preserve(DATASETS)
        kind = "model" if entity.is_model else "dataset"
        event = events.Data(self._ref(entity.id), kind, redact_text(entity.name), redact_url(entity.path))
        event.sha256, event.size, event.media_type = entity.sha256, entity.size, entity.media_type
        if kind == "dataset":
            event.values = encode_parameters({k: v for k, v in entity.values.items() if v is not None})[0]
        return event

    def _ref(self, ref: str) -> str:
        return f"{events.SHARED_NAME}{ref}" if "://" in ref or ref.startswith("urn:") else f"{self.run.id}-{ref}"

    def _name(self, ref: str) -> str:
        entity = self.run.entities.get(ref)
        return entity.name if entity is not None else ref

    def _end(self, ordered: list[GraphActivity]) -> Iterator[events.AnyEvent]:
        statuses = {activity.status for activity in ordered}
        failed = next((status for status in ("FAILED", "INTERRUPTED") if status in statuses), "")
        error = next((activity.error for activity in ordered if activity.status == failed), [])
        if failed:
            yield events.End(self.ended, failed, error)
        elif ordered and statuses == {"FINISHED"} and all(activity.ended is not None for activity in ordered):
            yield events.End(self.ended, "FINISHED")
        else:
            self.run.losses.lack("how the run ended", "its status is LOST")
        if not self.has_times:
            self.run.losses.lack("times", "the run began when its file was changed")


def _role(name: str, kind: str) -> str:
    for word, role in (("train", "training"), ("val", "validation"), ("test", "test")):
        if word in name.lower():
            return role
    return {"training": "training", "validation": "validation", "evaluation": "test"}.get(kind, "")


def is_model_name(name: str, kinds: str = "") -> bool:
    """Return whether data is a model, by its name or its types."""
    return is_model_file(name) or "model" in kinds.lower()


def count_unused(losses: LossReport, name: str, count: int) -> None:
    """Account for relations of a kind that a run has no place for."""
    if count:
        losses.count(RELATIONS, count)
        losses.leave_out(RELATIONS, name, "a run has no place for this relation", count)
