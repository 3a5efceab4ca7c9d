"""Measures and batches as things, and the summary of an epoch's batches."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from provml import vocab
from provml.journal import events
from provml.journal.location import is_batch, parse_location, split_batch
from provml.mapping import iris, templates
from provml.mapping.context import MappingContext
from provml.mapping.new_links import EpochValue
from provml.mapping.plan import TooManyMeasures
from provml.mapping.state import OpenBatch, RunningStats, SectionState
from provml.model.values import IRI
from provml.rdf.json_values import decode_value

NUMBERS = (float, int, Decimal)
INFINITY = float("inf")


def map_measured(context: MappingContext, event: events.Measured) -> None:
    """Map measures of a stage, a section or a batch."""
    location = event.location
    if is_batch(location):
        _map_batch_measures(context, location, event.values)
        return
    section = context.section_state(location)
    execution = context.section_iri(section)
    index, stage = parse_location(location).epoch, context.step_iri(location)
    for name, encoded in _within_limit(context, event.values).items():
        value = decode_value(encoded)
        iri, measure = context.part_iri(section, "measure", name), context.plan.measure(name)
        rank = _ranking_value(context, name, value)
        context.emit(
            vocab.ModelEvaluation(
                iri, was_derived_from_attribute=measure, was_generated_by=execution, value=value, ranking_value=rank
            )
        )
        if index is not None:
            context.links.add_measure(stage, measure, EpochValue(index, str(iri), rank))


def _within_limit(context: MappingContext, values: events.Values) -> events.Values:
    """Return the measures of an event whose names the run may have; the others are a problem of its line."""
    if context.state.measure_count + len(values) <= events.MAX_MEASURES:
        return values
    mapped: events.Values = {}
    for name, value in values.items():
        try:
            context.measure(name)
        except TooManyMeasures as error:
            left_out = f", such as {name[:80]!r}"
            if not context.problems or not context.problems[-1].startswith(str(error)):
                context.problems.append(f"{error}{left_out}")
        else:
            mapped[name] = value
    return mapped


def _ranking_value(context: MappingContext, measure: str, value: Any) -> float | None:
    """Return a value as a number of which more is better; None for NaN and for what is not a number."""
    if not isinstance(value, NUMBERS) or value.__class__ is bool:
        return None
    number = _to_float(value)
    if number != number:
        return None
    return -number if context.plan.direction(measure) == "minimize" else number


# ---- batches


def _map_batch_measures(context: MappingContext, location: str, values: events.Values) -> None:
    """Map measures of a batch. This function and `map_batch_end` handle most events of a journal."""
    epoch_location, index = split_batch(location)
    epoch = context.section_state(epoch_location)
    context.batch_parents(epoch_location)  # raises for a section without a valid IRI, which a template would not
    open_batch = context.state.open_batches.get(location)
    if open_batch is None:
        open_batch = context.state.open_batches[location] = OpenBatch(_batch_path(epoch, index))
    batch = f"{context.run}/{open_batch.path}"
    counts = open_batch.counts
    for name, value in _within_limit(context, values).items():
        count = counts[name] = counts.get(name, 0) + 1
        attribute, segment = context.measure(name)
        iri = f"{batch}/measure/{segment}" if count == 1 else f"{batch}/measure/{segment}/{count}"
        if context.texts is not None and value.__class__ is float and value - value == 0.0:
            number: Any = value
            context.texts.append(templates.format_measure(iri, attribute, batch, number))
        else:
            number = decode_value(value)
            context.emit(
                vocab.BatchEvaluation(
                    IRI(iri), was_derived_from_attribute=attribute, was_generated_by=IRI(batch), value=number
                )
            )
        if isinstance(number, NUMBERS) and number.__class__ is not bool:
            stats = epoch.measures.get(name)
            if stats is None:
                stats = epoch.measures[name] = RunningStats()
            stats.add(number if number.__class__ is float else _to_float(number))


def _to_float(number: float | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return INFINITY if number > 0 else -INFINITY


def _batch_path(epoch: SectionState, index: int) -> str:
    """Count a new batch and return the path of its IRI; a batch whose index occurred before gets its own path."""
    epoch.batches += 1
    if index <= epoch.max_batch_index:
        return f"{epoch.path}/{index}~{epoch.batches}{epoch.iri_suffix}"
    epoch.max_batch_index = index
    return f"{epoch.path}/{index}{epoch.iri_suffix}"


def map_batch_end(context: MappingContext, event: events.BatchEnd) -> None:
    """Map the end of a batch."""
    location, seconds = event.location, event.seconds
    epoch_location, index = split_batch(location)
    section = context.section_state(epoch_location)
    open_batch = context.state.open_batches.pop(location, None)
    path = open_batch.path if open_batch is not None else _batch_path(section, index)
    if section.seconds is None:
        section.seconds = RunningStats()
    section.seconds.add(seconds)
    epoch, plan = context.batch_parents(epoch_location)
    iri = f"{context.run}/{path}"
    if context.texts is not None and 0.0 <= seconds < INFINITY:
        context.texts.append(
            templates.format_batch(iri, index=index, plan=plan, epoch=epoch, time=event.time, seconds=seconds)
        )
        return
    context.emit(
        vocab.BatchExecution(
            IRI(iri),
            section_index=index,
            was_derived_from_data_transformation=plan,
            was_section_of=epoch,
            started_at_time=iris.to_datetime(event.time - seconds),
            ended_at_time=iris.to_datetime(event.time),
            elapsed_seconds=seconds,
        )
    )


def emit_open_batch(context: MappingContext, location: str) -> None:
    """Emit a batch that has no end yet."""
    epoch_location, index = split_batch(location)
    epoch, plan = context.batch_parents(epoch_location)
    context.emit(
        vocab.BatchExecution(
            IRI(f"{context.run}/{context.state.open_batches[location].path}"),
            section_index=index,
            was_derived_from_data_transformation=plan,
            was_section_of=epoch,
        )
    )


def close_batches(context: MappingContext, epoch_location: str) -> None:
    """Emit and drop the open batches of an epoch: their ends will not come."""
    open_batches = context.state.open_batches
    for location in [location for location in open_batches if location.startswith(f"{epoch_location}/")]:
        emit_open_batch(context, location)
        del open_batches[location]
    context.forget_batch_parents(epoch_location)


# ---- summaries


def summarize_batches(context: MappingContext, epoch: SectionState) -> dict[str, Any]:
    """Emit the summaries of an epoch's batches, and return the values that belong to the epoch itself."""
    summaries = []
    for name, stats in epoch.measures.items():
        iri = context.part_iri(epoch, "summary", name)
        summaries.append(iri)
        best = stats.min if context.plan.direction(name) == "minimize" else stats.max
        context.emit(
            vocab.BatchSummary(
                iri,
                was_derived_from_attribute=context.plan.measure(name),
                min_value=stats.min,
                max_value=stats.max,
                mean_value=stats.total / stats.count,
                last_value=stats.last,
                ranking_value=_ranking_value(context, name, best),
            )
        )
    values: dict[str, Any] = {"batch_count": epoch.batches, "has_batch_summary": summaries}
    seconds = epoch.seconds
    if seconds is not None:
        values["min_batch_seconds"] = seconds.min
        values["mean_batch_seconds"] = seconds.total / seconds.count
        values["max_batch_seconds"] = seconds.max
    return values
