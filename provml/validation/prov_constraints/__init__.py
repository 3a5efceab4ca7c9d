"""W3C PROV-CONSTRAINTS: whether a PROV-O document is valid, and the violations if it is not.

prov_terms    PROV-O: the kinds of statements and their slots
rules         the rules by number, with name and description
statements    triples as PROV statements, with unknowns for omitted parts
unification   inferences, key and uniqueness constraints, which unify unknowns
typing        typing and impossibility constraints
event_order   the order of events, and cycles in it
cycles        strongly connected components
violations    violations for people
verdict       the result of a check
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from provml.errors import WrongValue
from provml.validation.inputs import ValidationInput, quads
from provml.validation.prov_constraints.event_order import EventOrder
from provml.validation.prov_constraints.statements import parse_documents
from provml.validation.prov_constraints.typing import find_impossible, inferred_entities
from provml.validation.prov_constraints.unification import UnifiedDocument
from provml.validation.prov_constraints.verdict import Verdict
from provml.validation.prov_constraints.violations import CycleStep, Violation

__all__ = ["CONSTRAINTS", "CycleStep", "Verdict", "Violation", "check"]

CONSTRAINTS = range(22, 57)
"""The numbers of the constraints; 1 to 21 are definitions and inferences."""


def check(document: ValidationInput, *, exclude: Collection[int] = ()) -> Verdict:
    """Check whether a PROV-O document is valid.

    The document is the path of an RDF file (its extension gives the format), N-Triples as bytes, things, or quads or
    triples of pyoxigraph, such as a Store or a Dataset. Each named graph is a bundle and is checked by itself.
    `exclude` are the numbers of constraints that are not checked.
    """
    invalid = [number for number in exclude if number not in CONSTRAINTS]
    if invalid:
        expected = "numbers from 22 to 56"
        raise WrongValue("constraints", "exclude", invalid[0], expected, "Pass the numbers of constraints.")
    with _garbage_collection_disabled():
        return _check(document, frozenset(exclude))


def _check(data: ValidationInput, exclude: frozenset[int]) -> Verdict:
    violations: list[Violation] = []
    orders: dict[str | None, EventOrder] = {}
    for document in parse_documents(quads(data)):
        unified = UnifiedDocument(document, exclude)
        entities, empty = inferred_entities(unified)
        order = orders[document.bundle] = EventOrder(unified, entities, exclude)
        violations += unified.violations
        violations += find_impossible(unified, entities, empty, exclude)
        violations += order.violations()
    violations.sort(key=lambda item: (item.bundle or "", str(item.constraint).zfill(3), item.nodes, item.reason))
    return Verdict(tuple(violations), orders)


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
