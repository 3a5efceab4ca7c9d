"""Measures and batches as things, and the roll-up of an epoch's batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provml import event, vocab
from provml.lift import name
from provml.lift.state import Place, Tally
from provml.rdf.exact import decode_value
from provml.values import IRI

if TYPE_CHECKING:
    from provml.lift.lifter import Lifter


def measured(lifter: Lifter, what: event.Measured) -> None:
    at = what.at
    if at.count("/") > 1:
        _batch_measured(lifter, at, what.values)
        return
    place = lifter.place(at)
    place_iri = IRI(f"{lifter.run}/{at}")
    for title, value in what.values.items():
        count = place.measured.count(title)
        place.measured.append(title)
        again = f"-{count + 1}" if count else ""
        lifter.things.append(
            vocab.ModelEvaluation(
                IRI(f"{lifter.run}/{at}/{name.slug(title)}{again}"),
                was_derived_from_attribute=lifter.plan.measure(title),
                was_generated_by=place_iri,
                value=decode_value(value),
            )
        )


def _batch_measured(lifter: Lifter, at: str, values: event.Values) -> None:
    state = lifter.state
    if state.batch != at:
        state.batch, state.batch_measured = at, []
    batch = IRI(f"{lifter.run}/{at}")
    tallies = lifter.place(at.rpartition("/")[0]).measures
    for title, value in values.items():
        number = value if value.__class__ is float else decode_value(value)
        count = state.batch_measured.count(title)
        state.batch_measured.append(title)
        again = f"-{count + 1}" if count else ""
        lifter.things.append(
            vocab.BatchEvaluation(
                IRI(f"{batch}/{name.slug(title)}{again}"),
                was_derived_from_attribute=lifter.plan.measure(title),
                was_generated_by=batch,
                value=number,
            )
        )
        if isinstance(number, (int, float)):
            if title not in tallies:
                tallies[title] = Tally()
            tallies[title].add(float(number))


def batch_home(lifter: Lifter, at: str) -> tuple[IRI, IRI]:
    """The epoch of a batch and the plan of its batches."""
    epoch = at.rpartition("/")[0]
    known = lifter.batch_plans.get(epoch)
    if known is None:
        stage = lifter.place(epoch.partition("/")[0])
        plan = lifter.plan.section(stage.kind, "batch", lifter.plan.step(stage.kind, stage.name))
        known = lifter.batch_plans[epoch] = (IRI(f"{lifter.run}/{epoch}"), plan)
    return known


def batch(lifter: Lifter, what: event.Batch) -> None:
    at = what.at
    epoch, plan = batch_home(lifter, at)
    epoch_at, _, index = at.rpartition("/")
    place = lifter.place(epoch_at)
    if place.seconds is None:
        place.seconds = Tally()
    place.seconds.add(what.s)
    lifter.things.append(
        vocab.BatchExecution(
            IRI(f"{lifter.run}/{at}"),
            section_index=int(index),
            was_derived_from_data_transformation=plan,
            was_section_of=epoch,
            started_at_time=name.moment(what.t - what.s),
            ended_at_time=name.moment(what.t),
            elapsed_seconds=what.s,
        )
    )
    lifter.state.batch = ""


def rolled_up(lifter: Lifter, at: str, place: Place) -> dict[str, Any]:
    """The summary of an epoch's batches, for the epoch itlifter."""
    seconds = place.seconds or Tally()
    summaries = []
    for title, tally in place.measures.items():
        iri = IRI(f"{lifter.run}/{at}/summary/{name.slug(title)}")
        summaries.append(iri)
        lifter.things.append(
            vocab.BatchSummary(
                iri,
                was_derived_from_attribute=lifter.plan.measure(title),
                min_value=tally.least,
                mean_value=tally.total / tally.count,
                last_value=tally.last,
            )
        )
    return {
        "batch_count": seconds.count,
        "min_batch_seconds": seconds.least,
        "mean_batch_seconds": seconds.total / seconds.count,
        "max_batch_seconds": seconds.most,
        "has_batch_summary": summaries,
    }
