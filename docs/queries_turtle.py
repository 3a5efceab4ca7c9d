"""queries/queries.ttl: provml's own questions described in SHACL's words, for publishing.

Each is a sh:SPARQLSelectExecutable with its parameters and its SPARQL as it is in the file: `$name` stands for the term
that is given, and for UNDEF where it is left out. So it also takes a parameter where SPARQL has no variables, such as
in LIMIT, VALUES and paths.
"""

from __future__ import annotations

import re
from typing import Any

from provml.catalog import Catalog, Parameter, Query
from provml.rdf.literal import object_of

HERE = "https://w3id.org/provml/query/"
PREFIXES = {
    "dcterms": "http://purl.org/dc/terms/",
    "provml": "https://w3id.org/provml#",
    "parameter": f"{HERE}parameter#",
    "query": HERE,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "sh": "http://www.w3.org/ns/shacl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
BINDING = (
    "To run a query, put a term for each $name, which is not the variable ?name: the one that is given, else the "
    "default value, else UNDEF; several side by side where there is no sh:maxCount."
)
CLASSES = {"run": "LearningProcessExecution", "model": "Model", "dataset": "LearningDataset"}
PREFIX = re.compile(r"^PREFIX\s+(\w+):\s+<([^>]+)>\s*\n", re.M)


def queries_turtle(head: str) -> str:
    """The whole file."""
    catalog = Catalog()
    used = dict(sorted(pair for name in catalog for pair in PREFIX.findall(catalog[name].text)))
    parts = [head.replace("<!-- ", "# ").replace(" -->", ""), *(f"@prefix {p}: <{i}> ." for p, i in PREFIXES.items())]
    declared = [f"[ sh:prefix {object_of(p)} ; sh:namespace {_typed(i, 'anyURI')} ]" for p, i in used.items()]
    label = "What can be asked of the provenance of machine learning"
    parts += [f"\n<{HERE}> rdfs:label {object_of(label)}@en ;", f"    rdfs:comment {object_of(BINDING)}@en ;"]
    parts += ["    sh:declare", *_listed(declared, 8)]
    parts[-1] += " ."
    return "\n".join([*parts, *(_query(catalog[name]) for name in catalog)]) + "\n"


def _query(query: Query) -> str:
    subjects = [
        str(query.about[key]) for key in ("class", "data", "scope", "timing", "direction") if key in query.about
    ]
    columns = ", ".join(f"{name} ({kind})" for name, kind in query.columns.items())
    lines = [
        f"\nquery:{query.id} a sh:SPARQLSelectExecutable",
        f"rdfs:label {object_of(query.id)}",
        f"rdfs:comment {object_of(query.summary)}@en",
        f"dcterms:description {object_of(f'Its columns: {columns}.')}@en",
        f"dcterms:subject {', '.join(map(object_of, subjects))}",
    ]
    if query.source:
        lines.append(f"dcterms:source {object_of(query.source)}")
    if query.params:
        described = [_parameter(number, one) for number, one in enumerate(query.params.values())]
        lines.append("\n".join(["sh:parameter", *_listed(described, 8)]))
    lines += [f"sh:prefixes <{HERE}>", f'sh:select """{_select(query)}"""']
    return " ;\n    ".join(lines) + " ."


def _parameter(number: int, one: Parameter) -> str:
    said = [f"sh:path parameter:{one.name}", f"sh:name {object_of(one.name)}", f"sh:order {number}"]
    if one.type == "iri":
        said.append("sh:nodeKind sh:IRI" + (f" ; sh:class provml:{CLASSES[one.of]}" if one.of else ""))
    else:
        said.append(f"sh:datatype xsd:{one.type}")
    if one.help:
        said.append(f"sh:description {object_of(one.help)}@en")
    if not one.required:
        said.append("sh:optional true")
    if not one.many:
        said.append("sh:maxCount 1")
    if one.default is not None:
        said.append(f"sh:defaultValue {_value(one, one.default)}")
    return f"[ {' ; '.join(said)} ]"


def _value(one: Parameter, value: Any) -> str:
    if one.type == "iri":
        return f"<{value}>"
    return object_of(float(value) if one.type == "double" else value)


def _typed(text: str, datatype: str) -> str:
    return f"{object_of(text)}^^xsd:{datatype}"


def _listed(items: list[str], indent: int) -> list[str]:
    return [f"{' ' * indent}{item}{',' if number < len(items) else ''}" for number, item in enumerate(items, 1)]


def _select(query: Query) -> str:
    """The SPARQL without its header and prefixes, which are said elsewhere."""
    text = "\n".join(line for line in query.text.splitlines() if not line.startswith("#+"))
    return PREFIX.sub("", f"{text}\n").strip().replace("\\", "\\\\").replace('"', '\\"') + "\n"
