"""Adaptations as things: hyperparameters that changed during a stage."""

from __future__ import annotations

from provml import vocab
from provml.journal import events
from provml.mapping import iris
from provml.mapping.context import MappingContext
from provml.model.values import IRI
from provml.rdf.json_values import decode_value


def map_adaptation(context: MappingContext, event: events.Adapted) -> None:
    """Map an adaptation; the new values are in force for the sections that begin after it."""
    section = context.section_state(event.location)
    stage = context.stage_state(event.location)
    plan = context.plan.adaptation(event.technique)
    adaptation = context.part_iri(stage, "adaptation")
    time = iris.to_datetime(event.time)
    context.emit(
        vocab.AdaptationExecution(
            adaptation,
            was_derived_from_data_transformation=plan,
            was_member_of_workflow_execution=context.run,
            adapted_during=context.section_iri(section),
            adapted_stage=context.section_iri(stage),
            technique=event.technique or None,
            reason=event.why or None,
            was_steered_by=context.persona(event.by),
            used=[_parameter(context, plan, adaptation, *item) for item in event.parameters.items()],
            started_at_time=time,
            ended_at_time=time,
            status="FINISHED",
        )
    )
    step = context.plan.step(stage.kind, stage.name)
    for name, value in event.values.items():
        iri = context.part_iri(stage, "parameter", name)
        previous = stage.in_force.get(name)
        context.emit(
            vocab.LearningHyperparameterValue(
                iri,
                was_derived_from_attribute=context.plan.parameter(stage.kind, step, name),
                value=decode_value(value),
                was_generated_by=adaptation,
                revises_value=IRI(previous) if previous else None,
            )
        )
        stage.in_force[name] = str(iri)


def _parameter(context: MappingContext, plan: IRI, adaptation: IRI, name: str, value: events.Value) -> IRI:
    """Emit a parameter of an adaptation itself, such as the factor of a decay."""
    iri = IRI(f"{adaptation}/parameter/{iris.quote_segment(name)}")
    attribute = context.plan.adaptation_parameter(plan, name)
    context.emit(vocab.AdaptationParameterValue(iri, was_derived_from_attribute=attribute, value=decode_value(value)))
    return iri
