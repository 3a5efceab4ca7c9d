"""W3C PROV-CONSTRAINTS: whether a PROV-O document is valid, and the violations if it is not.

prov_terms    PROV-O: the kinds of statements and their slots
rules         the rules by number, with name and description
statements    triples as PROV statements, with unknowns for omitted parts
records       records of PROV-N, PROV-JSON and PROV-XML as PROV statements
unification   inferences, key and uniqueness constraints, which unify unknowns
typing        typing and impossibility constraints
event_order   the order of events, and cycles in it
violations    violations for people
verdict       the result of a check
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any

from provml.errors import WrongValue
from provml.rdf.prov_documents import prov_format, read_document
from provml.validation.inputs import ValidationInput, quads
from provml.validation.prov_constraints.event_order import EventOrder
from provml.validation.prov_constraints.records import documents_of_records
from provml.validation.prov_constraints.statements import Document, parse_documents
from provml.validation.prov_constraints.typing import find_impossible, inferred_entities
from provml.validation.prov_constraints.unification import UnifiedDocument
from provml.validation.prov_constraints.verdict import Verdict
from provml.validation.prov_constraints.violations import Violation
from provml.validation.report import Report
from provml.validation.results import CycleStep, ValidationScope

__all__ = ["CONSTRAINTS", "CycleStep", "Verdict", "Violation", "check", "validate"]

CONSTRAINTS = range(22, 57)
"""The numbers of the constraints; 1 to 21 are definitions and inferences."""


def check(document: ValidationInput, *, exclude: Collection[int] = ()) -> Verdict:
    """Check whether a PROV document is valid.

    The document is the path of a file (RDF in any format, PROV-N, PROV-JSON or PROV-XML), N-Triples as bytes, things,
    quads or triples of pyoxigraph, such as a Store or a Dataset, or a ProvDocument of the package `prov`. Each named
    graph or bundle is checked by itself.
    `exclude` are the numbers of constraints that are not checked.
    """
    invalid = [number for number in exclude if number not in CONSTRAINTS]
    if invalid:
        expected = "numbers from 22 to 56"
        raise WrongValue("constraints", "exclude", invalid[0], expected, "Pass the numbers of constraints.")
    with _garbage_collection_disabled():
        return _check(document, frozenset(exclude))


def validate(data: ValidationInput, *, label: str = "") -> Report:
    """Return the report of a check, with the number of triples, or of the statements of a PROV document."""
    source = _prov_document(data)
    counter = count()
    if source is None:
        verdict = check(quad for quad, _ in zip(quads(data), counter, strict=False))  # counted while streaming
        size = next(counter)
    else:
        verdict = check(source)
        size = len(source.get_records()) + sum(len(bundle.get_records()) for bundle in source.bundles)
    noun = "triple" if source is None else "statement"
    scope = ValidationScope(label, size, len(CONSTRAINTS), "PROV-CONSTRAINTS", rule_kind="constraint", unit=noun)
    return replace(verdict.to_report(), scope=scope)


def _check(data: Any, exclude: frozenset[int]) -> Verdict:
    violations: list[Violation] = []
    orders: dict[str | None, EventOrder] = {}
    for document in _documents(data):
        unified = UnifiedDocument(document, exclude)
        entities, empty = inferred_entities(unified)
        order = orders[document.bundle] = EventOrder(unified, entities, exclude)
        violations += unified.violations
        violations += find_impossible(unified, entities, empty, exclude)
        violations += order.violations()
    violations.sort(key=lambda item: (item.bundle or "", str(item.constraint).zfill(3), item.nodes, item.reason))
    return Verdict(tuple(violations), orders)


def _documents(data: Any) -> list[Document]:
    """Return the documents of the data; a PROV document is not converted to RDF, which states less."""
    document = _prov_document(data)
    return parse_documents(quads(data)) if document is None else documents_of_records(document)


def _prov_document(data: Any) -> Any:
    """Return a document of the package `prov`, if the data is one or a file of one."""
    if isinstance(data, (str, PathLike)) and (fmt := prov_format(Path(data))):
        return read_document(Path(data), fmt)
    return data if hasattr(data, "get_records") else None


@contextmanager
def _garbage_collection_disabled() -> Iterator[None]:
    """Disable garbage collection: with many small objects that all stay, it takes a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
