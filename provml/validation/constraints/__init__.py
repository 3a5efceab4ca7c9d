"""W3C PROV-CONSTRAINTS: whether any PROV-O document is valid, and what breaks it where it is not.

check        quads in, verdict out; each bundle (named graph) is judged on its own
term         what PROV-O's terms say: kinds of statements and their slots
rule         the rules by number, with their names and promises
document     triples as statements, with unknowns for what is left out
merging      inferences, keys and uniqueness: unknowns become what they must be
impossible   typing and impossibilities
order        the order of events, and circles in it
circle       strongly connected components
verdict      what was found, for people
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from provml.errors import WrongValue
from provml.validation.constraints.document import read
from provml.validation.constraints.impossible import entities, impossible
from provml.validation.constraints.merging import Merged
from provml.validation.constraints.order import Order
from provml.validation.constraints.verdict import Step, Verdict, Violation
from provml.validation.loading import Given, quads

__all__ = ["CONSTRAINTS", "Step", "Verdict", "Violation", "check"]

CONSTRAINTS = range(22, 57)
"""The numbers of the constraints; 1 to 21 are definitions and inferences."""


def check(given: Given, *, without: Collection[int] = ()) -> Verdict:
    """Whether a PROV-O document is valid by PROV-CONSTRAINTS.

    The document is the path of an RDF file, whose ending names its format; N-Triples as bytes; things; or a Store,
    a Dataset, quads or triples of pyoxigraph. Each named graph is a bundle and is judged on its own. `without` leaves
    out constraints by their numbers.
    """
    wrong = [number for number in without if number not in CONSTRAINTS]
    if wrong:
        raise WrongValue(
            "constraints", "without", wrong[0], "numbers from 22 to 56", "Give the numbers of constraints."
        )
    with _uncollected():
        return _checked(given, frozenset(without))


def _checked(given: Given, without: frozenset[int]) -> Verdict:
    violations: list[Violation] = []
    orders: dict[str | None, Order] = {}
    for document in read(quads(given)):
        merged = Merged(document, without)
        declared, empty = entities(merged)
        order = orders[document.bundle] = Order(merged, declared, without)
        violations += [*merged.violations, *impossible(merged, declared, empty, without), *order.violations()]
    violations.sort(key=lambda one: (one.bundle or "", str(one.constraint).zfill(3), one.nodes, one.reason))
    return Verdict(tuple(violations), orders)


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection: of many small objects that all stay, it takes a quarter of the time and finds nothing."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
