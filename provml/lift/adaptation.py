"""Adaptations as things: hyperparameters that changed while a stage ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provml import event, vocab
from provml.lift import name
from provml.rdf.exact import decode_value
from provml.values import IRI

if TYPE_CHECKING:
    from provml.lift.lifter import Lifter


def adapted(lifter: Lifter, what: event.Adapted) -> None:
    stage_at = what.at.partition("/")[0]
    stage = lifter.place(stage_at)
    step = lifter.plan.step(stage.kind, stage.name)
    iri = IRI(f"{lifter.run}/{stage_at}/adaptation/{what.n}")
    used = []
    for title, value in what.parameters.items():
        used.append(IRI(f"{iri}/parameter/{name.slug(title)}"))
        plan = lifter.plan.adaptation(what.technique)
        attribute = lifter.plan.once(
            IRI(f"{plan}/parameter/{name.slug(title)}"),
            lambda attribute, title=title: vocab.AdaptationParameter(attribute, label=title, tag="Hyperparameter"),  # type: ignore[misc]
        )
        lifter.things.append(
            vocab.AdaptationParameterValue(used[-1], was_derived_from_attribute=attribute, value=decode_value(value))
        )
    lifter.things.append(
        vocab.AdaptationExecution(
            iri,
            was_derived_from_data_transformation=lifter.plan.adaptation(what.technique),
            was_member_of_workflow_execution=lifter.run,
            adapted_during=IRI(f"{lifter.run}/{what.at}"),
            technique=what.technique or None,
            reason=what.why or None,
            was_steered_by=lifter.persona(what.by),
            used=used,
            started_at_time=name.moment(what.t),
            ended_at_time=name.moment(what.t),
            status="FINISHED",
        )
    )
    for title, value in what.values.items():
        new = IRI(f"{lifter.run}/{stage_at}/parameter/{name.slug(title)}/{what.n}")
        old = stage.in_force.get(title)
        lifter.things.append(
            vocab.LearningHyperparameterValue(
                new,
                was_derived_from_attribute=lifter.plan.parameter(stage.kind, step, title),
                value=decode_value(value),
                was_generated_by=iri,
                revises_value=IRI(old) if old else None,
            )
        )
        stage.in_force[title] = str(new)
