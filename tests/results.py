"""Validation results of several engines, made comparable: nodes without a name are told by what is said about them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pyshacl
import rdflib

from provml.validation.compiled import Shapes
from provml.validation.compiled.path import Path as PropertyPath
from provml.validation.compiled.run import find

SH = "http://www.w3.org/ns/shacl#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
TOLD = ("focusNode", "resultPath", "value", "sourceConstraintComponent", "sourceShape", "resultSeverity")

Row = tuple[str | None, ...]
Said = Callable[[Any], Iterable[tuple[str, Any]]]


def load(path: Path) -> ox.Store:
    """A file, in a store."""
    store = ox.Store()
    store.load(path=str(path), format=ox.RdfFormat.TURTLE, base_iri=path.absolute().as_uri())
    return store


def said_by(store: ox.Store) -> Said:
    return lambda node: [
        (quad.predicate.value, quad.object) for quad in store.quads_for_pattern(node, None, None, None)
    ]


def described(said: Said, node: Any, depth: int = 0) -> str:
    """A term; one without a name as what is said about it. A list is its members, whatever else is said.

    It goes four steps deep: pySHACL's reports describe nodes to some depth only.
    """
    if not isinstance(node, ox.BlankNode):
        return str(node)
    about = list(said(node))
    if any(predicate == f"{RDF}first" for predicate, _ in about):
        about = [pair for pair in about if pair[0] in (f"{RDF}first", f"{RDF}rest")]
    if depth > 3:
        return "[…]"
    return f"[{'; '.join(sorted(f'{predicate} {described(said, value, depth + 1)}' for predicate, value in about))}]"


def in_report(store: ox.Store) -> Counter[Row]:
    """The results of a sh:ValidationReport, without those that only explain others."""
    said = said_by(store)
    found: Counter[Row] = Counter()
    for report in store.quads_for_pattern(
        None, ox.NamedNode(f"{RDF}type"), ox.NamedNode(f"{SH}ValidationReport"), None
    ):
        for result in store.quads_for_pattern(report.subject, ox.NamedNode(f"{SH}result"), None, None):
            told = {predicate.removeprefix(SH): value for predicate, value in said(result.object)}
            found[tuple(described(said, told[name]) if name in told else None for name in TOLD)] += 1
    return found


def by_compiled(store: ox.Store, shapes: Shapes) -> Counter[Row]:
    """What the compiled engine finds."""
    data = said_by(store)

    def described_shape(node: Any) -> str:
        def said(one: Any) -> Iterable[tuple[str, Any]]:
            return [(name, value) for name, values in shapes.graph.get(one, {}).items() for value in values]

        return described(said, node)

    found: Counter[Row] = Counter()
    for finding in find(store, shapes):
        path = finding.path.node if isinstance(finding.path, PropertyPath) else finding.path
        row = (
            described(data, finding.focus),
            None if path is None else described_shape(path),
            None if finding.value is None else described(data, finding.value),
            f"<{finding.component}>",
            described_shape(finding.shape.node),
            f"<{finding.shape.severity}>",
        )
        found[row] += 1
    return found


def by_reference(data: Path, shapes: Path) -> Counter[Row]:
    """What pySHACL finds, given the files; its terms are written as Oxigraph keeps them."""
    rdflib.NORMALIZE_LITERALS = False  # it would write "none"^^xsd:boolean as "false"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what its own parts deprecate, and of literals that are ill-formed
            _, report, text = pyshacl.validate(str(data), shacl_graph=str(shapes))
    finally:
        rdflib.NORMALIZE_LITERALS = True
    if not hasattr(report, "serialize"):
        raise RuntimeError(text)
    store = ox.Store()
    store.load(report.serialize(format="nt", encoding="utf-8"), format=ox.RdfFormat.N_TRIPLES)
    return in_report(store)
