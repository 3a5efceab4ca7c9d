"""Bind variables of a query to values: each use of the variable is replaced by an RDF term, never by text.

The engine's own substitutions are not used: they need every variable in SELECT, do not reach sub-queries, and leave
BOUND false. Here the grammar tells how each variable is used, so that a term stands only where SPARQL allows it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import pyoxigraph as ox

from provml.errors import InvalidIRI, InvalidParameter, ProvmlError, QueryError
from provml.model.values import IRI
from provml.rdf.literals import term
from provml.rdf.namespaces import PREFIXES
from provml.store.query_diagnosis import diagnose
from provml.store.sparql_grammar import ParsedQuery, SyntaxFailure, VariableUse, parse

IRI_ROLES = {
    "subject": "the subject of a triple",
    "property": "a property",
    "graph": "the name of a graph",
    "describe": "the node of DESCRIBE",
}
"""Uses of a variable that take an IRI only."""


def bind(sparql: str, bindings: Mapping[str, Any]) -> str:
    """Return a query with variables replaced by values. A name may begin with `$` or `?`.

    A bound variable of SELECT stays a column, which has the value in each row.
    """
    if not isinstance(bindings, Mapping):
        raise QueryError(f"bindings is {type(bindings).__name__}", "Pass a dictionary of names and values.")
    try:
        parsed = parse(sparql, PREFIXES, count_variables=True)
    except SyntaxFailure as failure:
        raise diagnose(sparql, str(failure)) from None
    terms = _terms(parsed, bindings)
    fresh_name = max((use.name for use in parsed.variables), key=len, default="") + "_"
    pieces = []
    end = 0
    for number, use in enumerate(parsed.variables):
        if use.name in terms:
            pieces += [sparql[end : use.start], _replacement(use, terms[use.name], f"{fresh_name}{number}")]
            end = use.end
    return "".join([*pieces, sparql[end:]])


def _terms(parsed: ParsedQuery, bindings: Mapping[str, Any]) -> dict[str, ox.NamedNode | ox.Literal]:
    """Return the RDF term of each value by the name of its variable."""
    names = {use.name for use in parsed.variables}
    terms: dict[str, ox.NamedNode | ox.Literal] = {}
    for key, value in bindings.items():
        name = key[1:] if key[:1] in ("?", "$") else key
        if name not in names:
            similar = difflib.get_close_matches(name, names, 1)
            advice = f"Did you mean ?{similar[0]}?" if similar else "Remove the binding, or correct its name."
            raise QueryError(f"bindings has {key!r}, but the query has no variable ?{name}", advice)
        if name in terms:
            raise QueryError(f"bindings has {name!r} twice, with ? and with $", "Pass it once.")
        terms[name] = _term(name, value)
    return terms


def _term(name: str, value: Any) -> ox.NamedNode | ox.Literal:
    if isinstance(value, (ox.NamedNode, ox.Literal)):
        return value
    iri = getattr(value, "iri", None)  # a run, for instance, stands for its node
    try:
        return term(iri if isinstance(iri, IRI) else value)
    except (ProvmlError, TypeError, ValueError, OverflowError) as error:
        advice = "Pass one value: a text, a number, a time, or provml.IRI(…) for a node; several go into VALUES."
        expected = "an IRI or a value that RDF has"
        if isinstance(error, InvalidIRI):
            advice = str(error)
        raise InvalidParameter("query", name, value, expected, advice) from error


def _replacement(use: VariableUse, value: ox.NamedNode | ox.Literal, fresh_name: str) -> str:
    """Return the text that stands for a value where a variable is used; `fresh_name` is one that the query lacks."""
    text = str(value)
    if use.role in IRI_ROLES and not isinstance(value, ox.NamedNode):
        reason = f"?{use.name} is {IRI_ROLES[use.role]}, and {text[:60]} is not an IRI"
        raise QueryError(reason, "Pass provml.IRI(…) for a node.")
    if use.role == "assigned":
        raise QueryError(f"the query assigns ?{use.name} itself", "Bind another variable, or remove the assignment.")
    if use.role == "count":
        return _count(use.name, value)
    if use.role == "projection":
        return f"({text} AS ?{use.name})"
    if use.role == "inner projection":  # the SELECT around it assigns the name
        return f"({text} AS ?{fresh_name})"
    if use.role == "condition":  # of GROUP BY and ORDER BY
        return f"({text})"
    return "true" if use.role == "bound" else f" {text} "


def _count(name: str, value: ox.NamedNode | ox.Literal) -> str:
    if not isinstance(value, ox.Literal) or not value.value.isdecimal() or not value.value.isascii():
        raise QueryError(f"LIMIT and OFFSET take a whole number, not {str(value)[:60]}", f"Pass {name}=10.")
    return f" {value.value} "
