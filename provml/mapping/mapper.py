"""The mapper: events of one journal in, things or N-Triples out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from provml import rdf, vocab
from provml.journal import events
from provml.mapping import adaptations, data, environment, iris, layers, measures, sections, workflow
from provml.mapping.context import MappingContext
from provml.model.thing import Thing
from provml.model.values import IRI


class EventMapper(MappingContext):
    """Maps the events of one journal to things, one after the other; `problems` lists what was left out."""

    def feed(self, event: events.AnyEvent) -> None:
        """Map one event."""
        if event.__class__ is events.Header:
            self._map_header(event)
            return
        if self.state.header is None:  # the first line is lost; the name of the file has to do
            siblings = self.siblings
            self._map_header(
                events.Header(events.VERSION, siblings.run, siblings.writer, siblings.run, time=float("nan"))
            )
        HANDLERS[event.__class__](self, event)

    def take(self) -> list[Thing]:
        """Return the things since the last call, with the batches that have no end yet."""
        for location in self.state.open_batches:
            measures.emit_open_batch(self, location)
        things, self.things = self.things, []
        return things

    def take_ntriples(self) -> bytes:
        """Return the N-Triples since the last call: those of the things, and those made from templates."""
        text = rdf.ntriples(self.take())
        if self.texts:
            text += "".join(self.texts).encode()
            self.texts.clear()
        return text

    def _map_header(self, header: events.Header) -> None:
        """Map the header of a journal.

        Only the run's first journal describes the run. The other journals use its experiment and workflow, and add
        their nodes under IRIs of their own.
        """
        state = self.state
        inherited = self.siblings.first_journal_events(header)
        first = inherited[0] if inherited and isinstance(inherited[0], events.Header) else header
        state.header, state.experiment, state.model = header, first.name, first.model or first.name
        state.person = first.by
        if first is not header or not header.main:
            state.writer_suffix = f"@{iris.quote_segment(header.writer)}"
        self.open_run(header)
        self.plan.emit_experiment()
        self.emit_run(aimed_at_model=self.plan.model())
        for event in inherited[1:]:
            self.feed(event)
        if not state.writer_suffix:
            self._describe_run(header)

    def _describe_run(self, header: events.Header) -> None:
        self.emit_run(
            started_at_time=iris.to_datetime(header.time) if header.time == header.time else None,
            was_associated_with=self.persona(header.by),
            addressed_task=self._task(header.task),
            was_child_of=self._other_run(header.parent_run),
            was_rerun_of=self._other_run(header.rerun_of),
        )
        if header.study:
            study = iris.shared_iri("study", header.study)
            self.emit(vocab.Study(study, label=header.study, has_experiment=self.plan.experiment))

    def _other_run(self, run_id: str) -> IRI | None:
        """Return the run that this one is a part of, or repeats; its own journals describe it."""
        if not run_id:
            return None
        iri = iris.run_iri(run_id)
        self.emit(vocab.Activity(iri))
        return iri

    def _task(self, name: str) -> IRI | None:
        if not name:
            return None
        iri = IRI(f"{self.run}#task")
        self.emit(vocab.LearningTaskValue(iri, was_derived_from_attribute=self.plan.task(), value=name))
        return iri


def _map_workflow(context: MappingContext, event: events.Workflow) -> None:
    for thing in workflow.workflow_things(context.plan, context.run, event.spec):
        context.emit(thing)


def _map_capture_errors(context: MappingContext, event: events.CaptureErrors) -> None:
    """Map the messages of capture errors; their number may still grow, and `provml status` shows it."""
    context.emit_run(comment=[f"Capture failed with {message}" for message in {event.first: 0, **event.messages}])


def _map_imported(context: MappingContext, event: events.Imported) -> None:
    """Map where an imported run comes from, as comments: on the run, and on parameters whose text was another one."""
    tool = f"{event.tool} {event.version}".strip()
    parts = [f"Imported from {event.source} ({', '.join(filter(None, [event.format, tool]))})"]
    if event.sha256:
        parts.append(f"SHA-256 {event.sha256}")
    context.emit_run(comment=[f"{', '.join(parts)}, on {iris.to_datetime(event.time):%Y-%m-%d %H:%M:%S} UTC."])
    for section in list(context.state.sections.values()):
        for name, text in event.texts.items():
            if iri := section.in_force.get(name):
                context.emit(vocab.Entity(IRI(iri), comment=[f"The source has the text {text!r}."]))


def _map_end(context: MappingContext, event: events.End) -> None:
    """Map nothing: how a run ended depends on all of its journals, so the store adds it (see `outcome`)."""


def outcome(
    run: IRI, experiment: str, started: float, status: str, end: events.End | None
) -> vocab.LearningProcessExecution:
    """Return the status of a run as a thing; `started` is in seconds since 1970, NaN if it is not known."""
    error = end.error if end is not None else []
    return vocab.LearningProcessExecution(
        run,
        was_derived_from_workflow=iris.plan_iri(experiment),
        status=status,  # type: ignore[arg-type]  # checked by the class
        ended_at_time=iris.to_datetime(end.time) if end is not None else None,
        elapsed_seconds=max(end.time - started, 0.0) if end is not None and started == started else None,
        exception_type=error[0] if error else None,
        exception_message=error[1] if len(error) > 1 else None,
    )


HANDLERS: dict[type[msgspec.Struct], Callable[[MappingContext, Any], None]] = {
    events.Environment: environment.map_environment,
    events.Workflow: _map_workflow,
    events.Begin: sections.map_begin,
    events.Done: sections.map_done,
    events.BatchEnd: measures.map_batch_end,
    events.Measured: measures.map_measured,
    events.Data: data.map_data,
    events.Artifact: data.map_artifact,
    events.Used: data.map_used,
    events.Produced: data.map_produced,
    events.Parameter: sections.map_parameters,
    events.Adapted: adaptations.map_adaptation,
    events.Implementation: data.map_implementation,
    events.ExecutionDetails: environment.map_execution_details,
    events.Layers: layers.map_layers,
    events.Imported: _map_imported,
    events.Consumed: environment.map_consumption,
    events.CaptureErrors: _map_capture_errors,
    events.End: _map_end,
}
