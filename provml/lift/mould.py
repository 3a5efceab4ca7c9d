"""Batches as text, cast in moulds: they are most of a journal, and a mould is filled sooner than a thing is made.

A mould is what a thing itself is written as, with holes where things of its kind differ, so both give the same triples.
What a mould does not fit (NaN, integers, a negative time, a batch without an end) is told as a thing.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from provml import rdf, vocab
from provml.lift import name
from provml.things import Thing
from provml.values import IRI


def _cast(thing: Thing, holes: dict[str, str]) -> str:
    """The text of a thing, as a pattern for `%` with holes in place of some of its text."""
    text = rdf.ntriples(thing).decode().replace("%", "%%")
    for said, hole in holes.items():
        text = text.replace(said, f"%({hole})s")
    return text


def _iri(hole: str) -> IRI:
    return IRI(f"urn:hole:{hole}")


@cache
def of_batch() -> str:
    """The mould of a batch that ended."""
    began, ended = name.moment(1.0), name.moment(2.0)
    thing = vocab.BatchExecution(
        _iri("batch"),
        section_index=987654321,
        was_derived_from_data_transformation=_iri("plan"),
        was_section_of=_iri("epoch"),
        started_at_time=began,
        ended_at_time=ended,
        elapsed_seconds=1.25e-300,
    )
    holes: dict[Any, str] = {_iri(hole): hole for hole in ("batch", "plan", "epoch")}
    return _cast(thing, {**holes, "987654321": "index", **_times(began, ended), repr(1.25e-300): "seconds"})


def _times(began: datetime, ended: datetime) -> dict[str, str]:
    return {began.isoformat(): "began", ended.isoformat(): "ended"}


@cache
def of_value() -> str:
    """The mould of a measure of a batch that is a finite float."""
    thing = vocab.BatchEvaluation(
        _iri("value"), was_derived_from_attribute=_iri("measure"), was_generated_by=_iri("batch"), value=1.25e-300
    )
    holes: dict[Any, str] = {_iri(hole): hole for hole in ("value", "measure", "batch")}
    return _cast(thing, {**holes, repr(1.25e-300): "number"})


def batch(iri: str, index: int, plan: str, epoch: str, t: float, seconds: float) -> str:
    """A batch that ended, as N-Triples."""
    return of_batch() % {
        "batch": iri,
        "index": index,
        "plan": plan,
        "epoch": epoch,
        "began": name.moment(t - seconds).isoformat(),
        "ended": name.moment(t).isoformat(),
        "seconds": repr(seconds),
    }


def value(iri: str, measure: str, batch: str, number: float) -> str:
    """A measure of a batch, as N-Triples."""
    return of_value() % {"value": iri, "measure": measure, "batch": batch, "number": repr(number)}
