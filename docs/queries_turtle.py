"""queries/queries.ttl: provml's own questions described in SHACL, for publishing.

Each is a sh:SPARQLSelectExecutable with its parameters and the SPARQL of the file. `$name` stands for the term that is
passed, or for UNDEF if there is none, so a parameter can also be where SPARQL has no variables: in LIMIT, VALUES and
paths.
"""

from __future__ import annotations

import re
from typing import Any

from provml.catalog import Catalog, Parameter, Query
from provml.rdf.literals import format_literal

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
    "To run a query, replace each $name (which is not the variable ?name) with a term: the argument, else the "
    "default value, else UNDEF; several terms side by side if there is no sh:maxCount."
)
CLASSES = {"run": "LearningProcessExecution", "model": "Model", "dataset": "LearningDataset"}
PREFIX = re.compile(r"^PREFIX\s+(\w+):\s+<([^>]+)>\s*\n", re.M)


def queries_turtle(head: str) -> str:
    """Return the whole file."""
    catalog = Catalog()
    used = dict(sorted(pair for name in catalog for pair in PREFIX.findall(catalog[name].text)))
    parts = [head.replace("<!-- ", "# ").replace(" -->", ""), *(f"@prefix {p}: <{i}> ." for p, i in PREFIXES.items())]
    declared = [f"[ sh:prefix {format_literal(p)} ; sh:namespace {_typed(i, 'anyURI')} ]" for p, i in used.items()]
    label = "What can be asked of the provenance of machine learning"
    parts += [f"\n<{HERE}> rdfs:label {format_literal(label)}@en ;", f"    rdfs:comment {format_literal(BINDING)}@en ;"]
    parts += ["    sh:declare", *_listed(declared, 8)]
    parts[-1] += " ."
    return "\n".join([*parts, *(_query(catalog[name]) for name in catalog)]) + "\n"


def _query(query: Query) -> str:
    subjects = [
        str(query.metadata[key]) for key in ("class", "data", "scope", "timing", "direction") if key in query.metadata
    ]
    columns = ", ".join(f"{name} ({kind})" for name, kind in query.columns.items())
    lines = [
        f"\nquery:{query.name} a sh:SPARQLSelectExecutable",
        f"rdfs:label {', '.join(map(format_literal, (query.name, *query.aliases)))}",
        f"rdfs:comment {format_literal(query.summary)}@en",
        f"dcterms:description {format_literal(f'Its columns: {columns}.')}@en",
        f"dcterms:subject {', '.join(map(format_literal, subjects))}",
    ]
    if query.source:
        lines.append(f"dcterms:source {format_literal(query.source)}")
    if query.params:
        described = [_parameter(number, param) for number, param in enumerate(query.params.values())]
        lines.append("\n".join(["sh:parameter", *_listed(described, 8)]))
    lines += [f"sh:prefixes <{HERE}>", f'sh:select """{_select(query)}"""']
    return " ;\n    ".join(lines) + " ."


def _parameter(number: int, param: Parameter) -> str:
    parts = [f"sh:path parameter:{param.name}", f"sh:name {format_literal(param.name)}", f"sh:order {number}"]
    if param.type == "iri":
        parts.append(
            "sh:nodeKind sh:IRI" + (f" ; sh:class provml:{CLASSES[param.node_kind]}" if param.node_kind else "")
        )
    else:
        parts.append(f"sh:datatype xsd:{param.type}")
    if param.help:
        parts.append(f"sh:description {format_literal(param.help)}@en")
    if not param.required:
        parts.append("sh:optional true")
    if not param.multiple:
        parts.append("sh:maxCount 1")
    if param.default is not None:
        parts.append(f"sh:defaultValue {_value(param, param.default)}")
    return f"[ {' ; '.join(parts)} ]"


def _value(param: Parameter, value: Any) -> str:
    if param.type == "iri":
        return f"<{value}>"
    return format_literal(float(value) if param.type == "double" else value)


def _typed(text: str, datatype: str) -> str:
    return f"{format_literal(text)}^^xsd:{datatype}"


def _listed(items: list[str], indent: int) -> list[str]:
    return [f"{' ' * indent}{item}{',' if number < len(items) else ''}" for number, item in enumerate(items, 1)]


def _select(query: Query) -> str:
    """Return the SPARQL without its header and prefixes."""
    text = "\n".join(line for line in query.text.splitlines() if not line.startswith("#+"))
    return PREFIX.sub("", f"{text}\n").strip().replace("\\", "\\\\").replace('"', '\\"') + "\n"
