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
    """Take in an adaptation; what it changed is in force for the sections that begin after it."""
    during = lifter.place(what.at)
    stage = lifter.place(what.at.partition("/")[0])
    step = lifter.plan.step(stage.kind, stage.name)
    plan = lifter.plan.adaptation(what.technique)
    iri = lifter.part(stage, "adaptation")
    used = []
    for title, value in what.parameters.items():
        used.append(IRI(f"{iri}/parameter/{name.slug(title)}"))
        attribute = lifter.plan.once(
            IRI(f"{plan}/parameter/{name.slug(title)}"),
            lambda attribute, title=title: vocab.AdaptationParameter(attribute, label=title, tag="Hyperparameter"),  # type: ignore[misc]
        )
        lifter.tell(
            vocab.AdaptationParameterValue(used[-1], was_derived_from_attribute=attribute, value=decode_value(value))
        )
    lifter.tell(
        vocab.AdaptationExecution(
            iri,
            was_derived_from_data_transformation=plan,
            was_member_of_workflow_execution=lifter.run,
            adapted_during=lifter.node(during),
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
        new = lifter.part(stage, "parameter", title)
        old = stage.in_force.get(title)
        lifter.tell(
            vocab.LearningHyperparameterValue(
                new,
                was_derived_from_attribute=lifter.plan.parameter(stage.kind, step, title),
                value=decode_value(value),
                was_generated_by=iri,
                revises_value=IRI(old) if old else None,
            )
        )
        stage.in_force[title] = str(new)
