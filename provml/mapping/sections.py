"""Stages, steps and sections as things, with the parameters that they used."""

from __future__ import annotations

from typing import Any

from provml import vocab
from provml.journal import events
from provml.journal.events import LEARNING_KINDS
from provml.journal.location import parse_location
from provml.mapping import iris
from provml.mapping.context import MappingContext
from provml.mapping.data import current_entity
from provml.mapping.measures import close_batches, summarize_batches
from provml.mapping.state import SectionState
from provml.model.values import IRI
from provml.rdf.json_values import decode_value


def map_begin(context: MappingContext, event: events.Begin) -> None:
    """Map the start of a stage, a step or a section."""
    location = event.location
    index = parse_location(location).epoch
    if index is not None:
        stage = context.stage_of_section(location)
        _open_section(context, event, f"{stage.path}/{index}{stage.iri_suffix}")
        values: dict[str, Any] = {"hyperparameter_in_force": [IRI(iri) for iri in stage.in_force.values()]}
        values["recognized_by"] = event.rule or None
    else:
        _open_section(context, event, context.stage_path(location))
        used = [current_entity(context, ref) for ref in event.using]
        values = {"used": used, "was_associated_with": context.persona(event.by or context.state.person)}
        for entity in used:
            context.links.add_use(context.step_iri(location), entity)
        if event.kind in LEARNING_KINDS:
            values["aimed_at_model"] = context.plan.model()
            context.links.stages.add(str(context.step_iri(location)))
    if event.parent:
        values[_parent_link(context, location, event.parent)] = context.section_iri(context.section_state(event.parent))
    context.emit_execution(location, started_at_time=iris.to_datetime(event.time), **values)
    if event.values:
        _emit_parameters(context, location, event.values)


def _parent_link(context: MappingContext, location: str, parent: str) -> str:
    """Return the field that links a section to its parent: a validation validates a section of a training."""
    kinds = [context.stage_state(place).kind for place in (location, parent)]
    is_inner = all(parse_location(place).epoch is not None for place in (location, parent))
    return "validated_section" if is_inner and kinds == ["validation", "training"] else "was_informed_by"


def _open_section(context: MappingContext, event: events.Begin, path: str) -> None:
    """Set the state of a section that begins; the same epoch again is another section with the same index."""
    location, sections = event.location, context.state.sections
    section, previous = SectionState(event.kind, event.name, path), sections.get(location)
    if (
        previous is not None
        and not previous.inferred
        and (previous.path == path or previous.path.startswith(f"{path}~"))
    ):
        section.occurrence = previous.occurrence + 1
        section.path = f"{path}~{section.occurrence}"
        close_batches(context, location)
    sections[location] = section
    context.forget_batch_parents(location)


def map_parameters(context: MappingContext, event: events.Parameter) -> None:
    """Map further parameters of a stage or a step."""
    _emit_parameters(context, event.location, event.values)


def _emit_parameters(context: MappingContext, location: str, values: events.Values) -> None:
    """Emit hyperparameters of a stage, or parameters of a step, as values that it used."""
    section = context.section_state(location)
    step = context.plan.step(section.kind, section.name)
    is_learning = section.kind in LEARNING_KINDS
    cls = vocab.LearningHyperparameterValue if is_learning else vocab.PreparationParameterValue
    used = []
    for name, value in values.items():
        iri = context.part_iri(section, "parameter", name)
        attribute = context.plan.parameter(section.kind, step, name)
        context.emit(cls(iri, was_derived_from_attribute=attribute, value=decode_value(value)))
        section.in_force[name] = str(iri)
        used.append(iri)
    context.emit_execution(location, used=used)


def map_done(context: MappingContext, event: events.Done) -> None:
    """Map the end of a stage, a step or a section."""
    location, error = event.location, event.error
    values: dict[str, Any] = {
        "ended_at_time": iris.to_datetime(event.time),
        "elapsed_seconds": event.seconds,
        "status": event.status,
        "exception_type": error[0] if error else None,
        "exception_message": error[1] if len(error) > 1 else None,
    }
    section = context.section_state(location)
    if parse_location(location).epoch is not None:
        close_batches(context, location)
        if section.kind == "epoch" and section.batches:
            values |= summarize_batches(context, section)
        section.measures, section.seconds = {}, None
    context.emit_execution(location, **values)
