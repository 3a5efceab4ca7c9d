"""docs/reference/alignments.md: which term of PROV-ML maps to which term of another vocabulary, and which to none."""

from __future__ import annotations

from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import DCTERMS, OWL, RDFS, SKOS
from provml.store.alignments import NOT_EXPORTED, Alignment, alignments

INTRODUCTION = """
# Alignments with other vocabularies

Each alignment is a file of axioms in `ontologies/alignment/`. HermiT checks that together they are consistent with the
ontologies of provml, and a test asks the same question in both vocabularies.

| to | do |
|---|---|
| publish a run in other terms as well | `provml export latest -o run.ttl --with fair4ml,schema` |
| the same in Python | `store.export("latest", "run.ttl", vocabularies="fair4ml,schema")` |
| ask recorded runs in other terms | `provml load` the file of the alignment, then query with `--inference` |

*Follows* means that recorded data also has the other term. *Similar* means that people will compare the two, and that
replacing one by the other would be wrong in some case: nothing follows.
"""


def alignments_page(head: str) -> str:
    """Return the whole page."""
    parts = [head + INTRODUCTION]
    parts += [_section(item) for name, item in alignments().items() if name not in NOT_EXPORTED]
    return "\n".join(parts)


def _section(item: Alignment) -> str:
    parser = ox.parse(path=str(item.path), format=ox.RdfFormat.TURTLE)
    graph = ox.Dataset(parser)
    prefixes = dict(parser.prefixes)
    header = next(quad.subject for quad in graph if getattr(quad.object, "value", "") == f"{OWL}Ontology")

    def texts(name: str) -> list[str]:
        quads = graph.quads_for_subject(header)
        return sorted(quad.object.value for quad in quads if quad.predicate.value == name)  # type: ignore[union-attr]

    rows = sorted({row for quad in graph for row in _rows(quad, graph, prefixes)})
    title = texts(f"{DCTERMS}title")[0].removeprefix("PROV-ML and ").removeprefix("PROV-ML, ")
    lines = [f"## {title}\n", f"`--with {item.name}`: {texts(f'{DCTERMS}description')[0]}\n"]
    lines += ["| term of provml | | other term |", "|---|---|---|"]
    lines += [f"| `{ours}` | {relation} | `{theirs}` |" for ours, relation, theirs in rows]
    lines.append("\nWhere no mapping would be honest, or none is needed:\n")
    for note in texts(f"{SKOS}editorialNote"):
        terms, _, reason = note.partition(": ")
        names = ", ".join(f"`{term.strip()}`" for term in terms.split(","))
        lines.append(f"- {names}: {reason}")
    return "\n".join(lines) + "\n"


def _rows(quad: Any, graph: ox.Dataset, prefixes: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return the rows of the table that an axiom stands for."""
    relations = {
        f"{RDFS}subClassOf": "follows",
        f"{RDFS}subPropertyOf": "follows",
        f"{SKOS}closeMatch": "similar",
    }
    name = quad.predicate.value
    if name == f"{OWL}propertyChainAxiom":
        steps = [_text(step, graph, prefixes) for step in _members(quad.object, graph)]
        path = "/".join(step for step in steps if not step.startswith("align:trained"))
        return [(path, "follows", _text(quad.subject, graph, prefixes))]
    if name not in relations:
        return []
    ours, theirs = _text(quad.subject, graph, prefixes), _text(quad.object, graph, prefixes)
    is_ours = ours.startswith(("prov:", "provml:", "provlake:", "rdfs:", "any node"))
    return [(ours, relations[name], theirs)] if is_ours and theirs else []


def _text(node: Any, graph: ox.Dataset, prefixes: dict[str, str]) -> str:
    """Return a term as people write it; an empty text for an expression that the page leaves out."""
    if isinstance(node, ox.BlankNode):
        cell = {quad.predicate.value: quad.object for quad in graph.quads_for_subject(node)}
        if f"{OWL}inverseOf" in cell:
            return f"^{_text(cell[f'{OWL}inverseOf'], graph, prefixes)}"
        if f"{OWL}someValuesFrom" in cell:
            return f"any node with {_text(cell[f'{OWL}onProperty'], graph, prefixes)}"
        return ""
    for prefix, namespace in prefixes.items():
        if node.value.startswith(namespace):
            return _inverse(f"{prefix}:{node.value[len(namespace) :]}", node, graph, prefixes)
    return f"<{node.value}>"


def _inverse(text: str, node: Any, graph: ox.Dataset, prefixes: dict[str, str]) -> str:
    """Return a property that an alignment defines only as an inverse by what it is the inverse of."""
    quads = graph.quads_for_subject(node) if text.startswith("align:") else ()
    inverse = next((quad.object for quad in quads if quad.predicate.value == f"{OWL}inverseOf"), None)
    return text if inverse is None else f"^{_text(inverse, graph, prefixes)}"


def _members(head: Any, graph: ox.Dataset) -> list[Any]:
    items = []
    while True:
        cell = {quad.predicate.value.rpartition("#")[2]: quad.object for quad in graph.quads_for_subject(head)}
        if "first" not in cell:
            return items
        items.append(cell["first"])
        head = cell["rest"]
