"""Where a run and its steps are executed, as things: the machine, the process, its software, the random seeds."""

from __future__ import annotations

import hashlib
from typing import Any

from provml import vocab
from provml.journal import events
from provml.mapping import iris
from provml.mapping.context import MappingContext
from provml.model.thing import Thing
from provml.model.values import IRI


def map_environment(context: MappingContext, event: events.Environment) -> None:
    """Map the environment of the process that writes the journal."""
    header = context.state.header
    machine = _machine(context, event.machine) if event.machine else None
    software = [_software(context, name, version) for name, version in sorted(event.software.items())]
    process = _supported_fields(context, vocab.ExecutionEnvironment, event.process)
    writer = header.writer if header else context.siblings.writer
    iri = IRI(f"{context.run}#environment/{iris.quote_segment(writer)}")
    context.emit(vocab.ExecutionEnvironment(iri, was_run_on=machine, has_software=software, **process))
    seeds = [_seed(context, name, seed) for name, seed in event.seeds.items()]
    context.emit_run(was_associated_with=iri, used=seeds)


def _machine(context: MappingContext, fields: dict[str, Any]) -> IRI:
    fields = _supported_fields(context, vocab.Machine, fields)
    digest = hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()[:8]
    iri = iris.shared_iri("machine", str(fields.get("hostname", "unknown")), digest)
    context.emit(vocab.Machine(iri, **fields))
    return iri


def _software(context: MappingContext, name: str, version: str) -> IRI:
    iri = iris.shared_iri("software", name, version)
    context.emit(vocab.Software(iri, label=name, software_version=version))
    return iri


def _seed(context: MappingContext, name: str, seed: int) -> IRI:
    """Emit a random seed that was set when the process began to record: a hyperparameter of the run."""
    iri = IRI(f"{context.run}#seed/{iris.quote_segment(f'{name}{context.state.writer_suffix}')}")
    context.emit(vocab.LearningHyperparameterValue(iri, was_derived_from_attribute=context.plan.seed(name), value=seed))
    return iri


def _supported_fields(context: MappingContext, cls: type[Thing], fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a class has; the others are left out and reported."""
    for key in fields.keys() - cls.FIELDS.keys():
        context.problems.append(f"{cls.__name__} has no field {key!r}; it is left out")
    return {key: value for key, value in fields.items() if key in cls.FIELDS and value is not None}


def map_consumption(context: MappingContext, event: events.Consumed) -> None:
    """Map an amount of energy or emissions of a stage, or of the run, as a value with its method."""
    name = f"{event.quantity} of {event.component}" if event.component else event.quantity
    node = context.step_iri(event.location) if event.location else context.run
    iri = IRI(f"{node}#consumption/{iris.quote_segment(name)}{'' if event.location else context.state.writer_suffix}")
    context.emit(
        vocab.ConsumptionValue(
            iri,
            was_derived_from_attribute=context.plan.consumption(name, event.unit),
            value=event.value,
            consumption_method=event.method,
            was_metered=event.is_metered,
            consuming_component=event.component or None,
        )
    )
    if event.location:
        context.emit_execution(event.location, had_consumption=iri)
    else:
        context.emit_run(had_consumption=iri)


def map_execution_details(context: MappingContext, event: events.ExecutionDetails) -> None:
    """Map where a stage or a step was executed and what it wrote; of each output stream only the first text counts."""
    section = context.section_state(event.location)
    values: dict[str, Any] = {"label": event.name or None}
    if event.directory:
        values["at_location"] = context.file_location(event.directory)
    if event.resource:
        iri = IRI(f"{context.run}#resource/{iris.quote_segment(event.resource)}")
        values["was_associated_with"] = context.plan.emit_once(vocab.ExecutionEnvironment, iri, label=event.resource)
    for stream, text in (("standard_output", event.output), ("standard_error", event.errors)):
        if text and section.counts.setdefault(stream, 0):
            stream_name = stream.replace("_", " ")
            context.problems.append(f"{event.location} has a second {stream_name}; only the first is recorded")
        elif text:
            section.counts[stream] = 1
            values[stream] = text
    context.emit_execution(event.location, **values)
