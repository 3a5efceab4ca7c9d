"""The ontology: classes and properties with their definitions, and how often and where they occur in this home."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams

from provml.answers import format_cell
from provml.model.values import IRI
from provml.rdf.namespaces import MLS, ONTOLOGY, PREFIXES, PROV, PROVLAKE, PROVML
from provml.web.problems import Problem
from provml.web.viewer.links import with_query
from provml.web.viewer.viewer import Page, Viewer

SPACES = {PROVML: "PROV-ML", PROVLAKE: "ProvLake", PROV: "PROV-O", MLS: "ML Schema"}
MAX_EXAMPLES = 20
TERMS = f"""SELECT DISTINCT ?term ?kind ?label ?definition {{ GRAPH <{ONTOLOGY}> {{
  VALUES (?type ?kind) {{ (owl:Class "class") (owl:ObjectProperty "property") (owl:DatatypeProperty "property") }}
  ?term a ?type . FILTER(isIRI(?term))
  OPTIONAL {{ ?term rdfs:label ?label FILTER(LANG(?label) IN ("", "en")) }}
  OPTIONAL {{ ?term skos:definition ?definition FILTER(LANG(?definition) IN ("", "en")) }}
}} }} ORDER BY ?term"""
TERM = f"""SELECT ?property ?value {{ GRAPH <{ONTOLOGY}> {{ $term ?property ?value FILTER(!isBlank(?value)) }} }}"""
CHILDREN = f"""SELECT DISTINCT ?child {{ GRAPH <{ONTOLOGY}> {{
  {{ ?child rdfs:subClassOf $term }} UNION {{ ?child rdfs:subPropertyOf $term }} FILTER(isIRI(?child))
}} }} ORDER BY ?child"""
PROPERTIES = f"""SELECT DISTINCT ?property ?range {{ GRAPH <{ONTOLOGY}> {{
  {{ ?property rdfs:domain $term }} UNION {{ $term rdfs:subClassOf [ owl:onProperty ?property ] }}
  OPTIONAL {{ ?property rdfs:range ?range FILTER(isIRI(?range)) }}
}} }} ORDER BY ?property"""
CLASS_COUNTS = "SELECT ?class (COUNT(?node) AS ?count) { ?node a ?class } GROUP BY ?class"
PROPERTY_COUNTS = "SELECT ?property (COUNT(*) AS ?count) { ?s ?property ?o } GROUP BY ?property"
INSTANCES = f"SELECT ?node {{ ?node a $term }} LIMIT {MAX_EXAMPLES}"
USES = f"SELECT ?subject ?object {{ ?subject $term ?object }} LIMIT {MAX_EXAMPLES}"
SHOWN = (
    "label",
    "definition",
    "example",
    "comment",
    "subClassOf",
    "subPropertyOf",
    "domain",
    "range",
    "inverseOf",
    "side",
)


def ontology(viewer: Viewer, params: QueryParams) -> Page:
    """Return the list of classes and properties."""
    context = {"groups": _groups(viewer), "term": None, "has_counts": viewer.shows_all}
    return Page("ontology.html", "Ontology", context)


def used_terms(viewer: Viewer) -> list[str]:
    """Return the prefixed names of the terms that occur in this home."""
    return [each["name"] for _, _, members in _groups(viewer) for each in members if each["count"]]


def term(viewer: Viewer, params: QueryParams, name: str) -> Page:
    """Return the page of a class or a property."""
    prefix, _, local = name.partition(":")
    iri = IRI(PREFIXES.get(prefix, "") + local) if prefix in PREFIXES and local else None
    facts: dict[str, list[Any]] = {}
    for key, value in viewer.select(TERM, term=iri) if iri is not None else ():
        facts.setdefault(key.name, []).append(value)
    if iri is None or not facts:
        raise Problem(404, "TermNotFound", f"The ontology does not define {name[:100]!r}.")
    is_class = any(value.name == "Class" for value in facts.get("type", ()) if isinstance(value, IRI))
    rows = [row for row in viewer.select(INSTANCES if is_class else USES, term=iri) if all(map(viewer.shows_node, row))]
    pattern = f"?node a {name}" if is_class else f"?subject {name} ?object"
    count = viewer.select(f"SELECT (COUNT(*) AS ?count) {{ {pattern.replace(name, f'<{iri}>')} }}")[0][0]
    context = {
        "groups": _groups(viewer),
        "term": name,
        "iri": str(iri),
        "is_class": is_class,
        "label": str(facts.get("label", [name])[0]),
        "facts": [(key, [_shown(viewer, value) for value in facts[key]]) for key in SHOWN[1:] if key in facts],
        "children": [_shown(viewer, child) for (child,) in viewer.select(CHILDREN, term=iri)],
        "properties": [
            (_shown(viewer, key), _shown(viewer, target) if target is not None else None)
            for key, target in viewer.select(PROPERTIES, term=iri)
        ]
        if is_class
        else [],
        "examples": rows,
        "count": count if viewer.shows_all else None,
        "sparql": with_query("/query", {"query": f"SELECT * {{\n  {pattern}\n}} LIMIT 100"}),
    }
    return Page("ontology.html", name, context)


def _groups(viewer: Viewer) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Return the terms by ontology and kind, with the number of their uses here."""
    terms = viewer.cached("terms", lambda: _terms(viewer))
    groups = []
    for space, title in SPACES.items():
        for kind, noun in (("class", "classes"), ("property", "properties")):
            members = [each for iri, each in terms.items() if iri.startswith(space) and each["kind"] == kind]
            groups.append((title, noun, members))
    return [group for group in groups if group[2]]


def term_counts(viewer: Viewer) -> dict[str, int]:
    """Return how often each class and each property occurs in the data, by IRI."""
    return viewer.cached("term counts", lambda: _term_counts(viewer))


def _term_counts(viewer: Viewer) -> dict[str, int]:
    return {str(name): count for name, count in [*viewer.select(CLASS_COUNTS), *viewer.select(PROPERTY_COUNTS)]}


def _terms(viewer: Viewer) -> dict[str, dict[str, Any]]:
    """Return the terms of the ontology by IRI."""
    counts = term_counts(viewer)
    terms: dict[str, dict[str, Any]] = {}
    for iri, kind, label, definition in viewer.select(TERMS):
        text = format_cell(iri)
        entry = {"name": text, "kind": str(kind), "label": str(label or ""), "definition": str(definition or "")}
        terms.setdefault(str(iri), {**entry, "count": counts.get(str(iri), 0)})
    return terms


def _shown(viewer: Viewer, value: Any) -> tuple[str, str]:
    """Return a value as text, and the address of its page if it is a term."""
    text = format_cell(value) if isinstance(value, IRI) else str(value)
    is_term = isinstance(value, IRI) and value.startswith(tuple(SPACES))
    return text, viewer.links.term(text) if is_term else ""
