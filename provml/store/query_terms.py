"""Notes on the terms of a query: those that no ontology defines, and those that no triple has."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyoxigraph as ox

from provml.rdf.namespaces import PREFIXES, XSD
from provml.store.backend import Backend
from provml.store.ontology_terms import NAMESPACES, abbreviate, namespace_of, ontology_terms, similar
from provml.store.sparql_grammar import ParsedQuery, SyntaxFailure, parse

MAX_TERMS = 30
"""Terms of a query that are looked up at most."""
_PREFIX = re.compile(r"\bprefix\s+([\w.\-]*):\s*<([^>]*)>", re.IGNORECASE)
_NAME = re.compile(r"(?<![\w:?$])([^\W\d_][\w.\-]*|):([\w\-]+)|<([^<>\s]+)>")


def note_on_unknown_terms(sparql: str, backend: Backend) -> str:
    """Return a note on terms of a query that the ontologies do not define, and that no triple has."""
    if not _may_have_unknown_terms(sparql):
        return ""
    unknown = {iri: text for iri, text in _terms(_parse(sparql)).items() if _is_undefined(iri)}
    absent = _absent(backend, unknown)
    return " ".join(_describe(unknown[iri], iri) for iri in unknown if iri in absent)


def note_on_absent_terms(sparql: str, backend: Backend) -> str:
    """Return a note on defined terms of a query without an answer that occur in no triple."""
    parsed = _parse(sparql)
    if parsed is None or parsed.has_graphs:
        return ""
    namespaces = tuple(namespace for namespace in PREFIXES.values() if namespace != XSD)
    terms = {iri: text for iri, text in _terms(parsed).items() if iri.startswith(namespaces) and not _is_undefined(iri)}
    absent = _absent(backend, terms)
    names = [text for iri, text in terms.items() if iri in absent]
    if not names:
        return ""
    return f"No triple here has {names[0] if len(names) == 1 else ', '.join(names[:-1]) + ' or ' + names[-1]}."


def _may_have_unknown_terms(sparql: str) -> bool:
    """Return whether a query may have unknown terms, without reading its grammar: names in texts count too."""
    prefixes = PREFIXES | dict(_PREFIX.findall(sparql))
    for match in _NAME.finditer(sparql):
        prefix, local, iri = match.groups()
        if _is_undefined(iri or prefixes.get(prefix, "") + (local or "")):
            return True
    return False


def _is_undefined(iri: str) -> bool:
    return bool(namespace_of(iri)) and iri not in ontology_terms() and not _is_member_property(iri)


def _is_member_property(iri: str) -> bool:
    """Return whether an IRI is a property of containers: rdf:_1, rdf:_2 and so on."""
    return re.fullmatch(r".*#_[1-9]\d*", iri) is not None


def _parse(sparql: str) -> ParsedQuery | None:
    try:
        return parse(sparql, PREFIXES, count_variables=True)
    except SyntaxFailure:  # an extension of the engine: then there is no note
        return None


def _terms(parsed: ParsedQuery | None) -> dict[str, str]:
    """Return the IRIs of a query with the text of each, in their order."""
    terms: dict[str, str] = {}
    for token, iri in parsed.terms if parsed is not None else ():
        terms.setdefault(iri, token.text if token.kind == "name" else abbreviate(iri))
    return terms


def _absent(backend: Backend, terms: Iterable[str]) -> set[str]:
    """Return the terms that no triple of the default graph has."""
    values = " ".join(str(ox.NamedNode(iri)) for iri in list(terms)[:MAX_TERMS])
    if not values:
        return set()
    rows = backend.query(
        f"SELECT ?term {{ VALUES ?term {{ {values} }} FILTER NOT EXISTS {{ ?s ?term ?o }} "
        "FILTER NOT EXISTS { ?s ?p ?term } FILTER NOT EXISTS { ?term ?p ?o } }"
    )
    return {row["term"].value for row in rows} if isinstance(rows, ox.QuerySolutions) else set()


def _describe(text: str, iri: str) -> str:
    namespace = namespace_of(iri)
    suggestions = similar(iri[len(namespace) :], namespace)
    hint = f"; did you mean {' or '.join(suggestions)}?" if suggestions else "."
    return f"{text} is not a term of {NAMESPACES[namespace]}{hint}"
