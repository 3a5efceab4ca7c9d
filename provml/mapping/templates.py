"""Batches as N-Triples from text templates: batches are most of a journal, and a template is faster than a thing.

A template is the serialization of a thing, with placeholders for the parts that differ, so both give the same triples.
What a template cannot express (NaN, integers, a negative duration, a batch without an end) is emitted as a thing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from provml import rdf, vocab
from provml.mapping import iris
from provml.model.thing import Thing
from provml.model.values import IRI

SAMPLE_INDEX = 987654321
SAMPLE_FLOAT = 1.25e-300
"""Sample values that occur nowhere else in the text of a thing."""


def _template(thing: Thing, placeholders: dict[str, str]) -> str:
    """Return the text of a thing as a pattern for `%`; `placeholders` maps parts of the text to names."""
    text = rdf.ntriples(thing).decode().replace("%", "%%")
    for sample, name in placeholders.items():
        text = text.replace(sample, f"%({name})s")
    return text


def _sample_iri(name: str) -> IRI:
    return IRI(f"urn:placeholder:{name}")


@cache
def batch_template() -> str:
    """Return the template of a batch that ended."""
    started, ended = iris.to_datetime(1.0), iris.to_datetime(2.0)
    thing = vocab.BatchExecution(
        _sample_iri("batch"),
        section_index=SAMPLE_INDEX,
        was_derived_from_data_transformation=_sample_iri("plan"),
        was_section_of=_sample_iri("epoch"),
        started_at_time=started,
        ended_at_time=ended,
        elapsed_seconds=SAMPLE_FLOAT,
    )
    placeholders: dict[Any, str] = {_sample_iri(name): name for name in ("batch", "plan", "epoch")}
    placeholders |= {str(SAMPLE_INDEX): "index", repr(SAMPLE_FLOAT): "seconds"}
    placeholders |= {started.isoformat(): "started", ended.isoformat(): "ended"}
    return _template(thing, placeholders)


@cache
def measure_template() -> str:
    """Return the template of a measure of a batch with a finite float as its value."""
    thing = vocab.BatchEvaluation(
        _sample_iri("value"),
        was_derived_from_attribute=_sample_iri("measure"),
        was_generated_by=_sample_iri("batch"),
        value=SAMPLE_FLOAT,
    )
    placeholders: dict[Any, str] = {_sample_iri(name): name for name in ("value", "measure", "batch")}
    return _template(thing, {**placeholders, repr(SAMPLE_FLOAT): "number"})


def format_batch(iri: str, *, index: int, plan: str, epoch: str, time: float, seconds: float) -> str:
    """Return the N-Triples of a batch that ended at `time` (seconds since 1970) and took `seconds`."""
    return batch_template() % {
        "batch": iri,
        "index": index,
        "plan": plan,
        "epoch": epoch,
        "started": iris.to_datetime(time - seconds).isoformat(),
        "ended": iris.to_datetime(time).isoformat(),
        "seconds": repr(seconds),
    }


def format_measure(iri: str, measure: str, batch: str, number: float) -> str:
    """Return the N-Triples of a measure of a batch."""
    return measure_template() % {"value": iri, "measure": measure, "batch": batch, "number": repr(number)}
