"""Terms of pyoxigraph as terms of rdflib, and back."""

from __future__ import annotations

from typing import Any

import pyoxigraph as ox

from provml.validation.datatypes import is_well_formed, restore


def to_pyoxigraph(node: Any) -> Any:
    """Convert a term of rdflib."""
    import rdflib

    if isinstance(node, rdflib.Literal):
        datatype = None if node.language or node.datatype is None else ox.NamedNode(node.datatype)
        return ox.Literal(str(node), language=node.language, datatype=datatype)
    return ox.BlankNode(node) if isinstance(node, rdflib.BNode) else ox.NamedNode(node)


def to_rdflib(term: Any, *, normalize: bool = False) -> Any:
    """Convert a stored term to rdflib."""
    import rdflib

    if not isinstance(term, ox.Literal):
        return rdflib.BNode(term.value) if isinstance(term, ox.BlankNode) else rdflib.URIRef(term.value)
    term = restore(term)
    datatype = None if term.language else rdflib.URIRef(term.datatype.value)
    literal = rdflib.Literal(term.value, lang=term.language, datatype=datatype, normalize=normalize)
    if not is_well_formed(term):  # rdflib accepts an xsd:dateTimeStamp without a time zone, and "1_000"
        literal._ill_typed = True
    return literal
