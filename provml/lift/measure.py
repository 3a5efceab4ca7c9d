"""Measures and batches as things, and the roll-up of an epoch's batches."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from provml import event, vocab
from provml.lift import mould, name
from provml.lift.state import Opened, Place, Tally
from provml.rdf.exact import decode_value
from provml.values import IRI

if TYPE_CHECKING:
    from provml.lift.lifter import Lifter

NUMBERS = (float, int, Decimal)
INFINITE = float("inf")


def measured(lifter: Lifter, what: event.Measured) -> None:
    """Take in measures of a stage, a section or a batch."""
    at = what.at
    if at.count("/") > 1:
        batch_measured(lifter, at, what.values)
        return
    place = lifter.place(at)
    node = lifter.node(place)
    for title, value in what.values.items():
        lifter.tell(
            vocab.ModelEvaluation(
                lifter.part(place, "measure", title),
                was_derived_from_attribute=lifter.plan.measure(title),
                was_generated_by=node,
                value=decode_value(value),
            )
        )


# ---- batches


def batch_measured(lifter: Lifter, at: str, values: event.Values) -> None:
    """Take in measures of a batch. This and `batch` are met more often than all else together."""
    opened = lifter.state.opened.get(at) or _open(lifter, at)
    batch = f"{lifter.run}/{opened.path}"
    tallies = lifter.place(at.rpartition("/")[0]).measures
    counts = opened.counts
    for title, value in values.items():
        count = counts[title] = counts.get(title, 0) + 1
        attribute, slug = lifter.measure(title)
        iri = f"{batch}/measure/{slug}" if count == 1 else f"{batch}/measure/{slug}/{count}"
        if lifter.texts is not None and value.__class__ is float and value - value == 0.0:
            number: Any = value
            lifter.texts.append(mould.value(iri, attribute, batch, number))
        else:
            number = decode_value(value)
            lifter.tell(
                vocab.BatchEvaluation(
                    IRI(iri), was_derived_from_attribute=attribute, was_generated_by=IRI(batch), value=number
                )
            )
        if isinstance(number, NUMBERS) and number.__class__ is not bool:
            tally = tallies.get(title)
            if tally is None:
                tally = tallies[title] = Tally()
            tally.add(number if number.__class__ is float else _double(number))


def _double(number: float | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _open(lifter: Lifter, at: str) -> Opened:
    """A batch that was not met yet; one whose index was there before gets a name of its own."""
    epoch_at, _, index = at.rpartition("/")
    place = lifter.place(epoch_at)
    number = int(index)
    place.batches += 1
    again = "" if number > place.highest else f"~{place.batches}"
    place.highest = max(place.highest, number)
    opened = lifter.state.opened[at] = Opened(f"{place.path}/{number}{again}{place.tail}")
    return opened


def batch(lifter: Lifter, what: event.Batch) -> None:
    """Take in the end of a batch."""
    at = what.at
    opened = lifter.state.opened.get(at) or _open(lifter, at)
    del lifter.state.opened[at]
    epoch_at, _, index = at.rpartition("/")
    place = lifter.place(epoch_at)
    if place.seconds is None:
        place.seconds = Tally()
    place.seconds.add(what.s)
    epoch, plan = lifter.batch_home(epoch_at)
    if lifter.texts is not None and 0.0 <= what.s < INFINITE:
        iri = f"{lifter.run}/{opened.path}"
        lifter.texts.append(mould.batch(iri, int(index), plan, epoch, what.t, what.s))
        return
    lifter.tell(
        vocab.BatchExecution(
            IRI(f"{lifter.run}/{opened.path}"),
            section_index=int(index),
            was_derived_from_data_transformation=plan,
            was_section_of=epoch,
            started_at_time=name.moment(what.t - what.s),
            ended_at_time=name.moment(what.t),
            elapsed_seconds=what.s,
        )
    )


def unfinished(lifter: Lifter, at: str) -> None:
    """Tell a batch that has no end as far as it is known."""
    epoch_at, _, index = at.rpartition("/")
    epoch, plan = lifter.batch_home(epoch_at)
    lifter.tell(
        vocab.BatchExecution(
            IRI(f"{lifter.run}/{lifter.state.opened[at].path}"),
            section_index=int(index),
            was_derived_from_data_transformation=plan,
            was_section_of=epoch,
        )
    )


# ---- roll-ups


def rolled_up(lifter: Lifter, place: Place) -> dict[str, Any]:
    """The summary of an epoch's batches, for the epoch itself."""
    summaries = []
    for title, tally in place.measures.items():
        iri = lifter.part(place, "summary", title)
        summaries.append(iri)
        lifter.tell(
            vocab.BatchSummary(
                iri,
                was_derived_from_attribute=lifter.plan.measure(title),
                min_value=tally.least,
                mean_value=tally.total / tally.count,
                last_value=tally.last,
            )
        )
    said: dict[str, Any] = {"batch_count": place.batches, "has_batch_summary": summaries}
    seconds = place.seconds
    if seconds is not None:
        said["min_batch_seconds"] = seconds.least
        said["mean_batch_seconds"] = seconds.total / seconds.count
        said["max_batch_seconds"] = seconds.most
    return said
