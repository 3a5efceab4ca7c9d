"""Rules of SHACL's advanced features: triple rules and SPARQL rules, executed by Oxigraph before the validation.

As in pySHACL, each rule is executed once, in the order of sh:order of the shapes and then of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import RDF, SH
from provml.validation.datatypes import preserve
from provml.validation.shacl import prebinding
from provml.validation.shacl.expressions import Unsupported, bind_query, conjunction
from provml.validation.shacl.model import Rule, Shape
from provml.validation.shacl.parse_paths import parse_path
from provml.validation.shacl.parse_queries import parse_construct
from provml.validation.shacl.path import Path
from provml.validation.shacl.queries import QueryWriter
from provml.validation.shapes_graph import ShapesGraph

THIS = ox.NamedNode(f"{SH}this")
PARTS = ("subject", "predicate", "object")


def parse_rules(graph: ShapesGraph, shapes: Mapping[Any, Shape], unsupported: dict[Any, str]) -> Iterator[Rule]:
    """Iterate over the rules in the order of their execution; note those that only pySHACL can execute."""
    rules = []
    for node, shape in shapes.items():
        for rule_node in graph.values(node, "rule"):
            if graph.boolean(rule_node, "deactivated") or shape.is_deactivated:
                continue
            rule = _parse_rule(graph, shape, rule_node)
            if rule is None:
                unsupported.setdefault(node, "it has a rule (sh:rule) that only pySHACL can execute")
            else:
                rules.append(rule)
    yield from sorted(rules, key=lambda rule: rule.order)


def _parse_rule(graph: ShapesGraph, shape: Shape, node: Any) -> Rule | None:
    order = (_order(graph, shape.node), _order(graph, node), str(shape.node))
    conditions = tuple(graph.values(node, "condition"))
    types = {term.value.removeprefix(SH) for term in graph.values(node, f"{RDF}type") if isinstance(term, ox.NamedNode)}
    if "SPARQLRule" in types:
        construct = parse_construct(graph, shape.node, node)
        return None if construct is None else Rule(shape, order, conditions, construct=construct)
    if "TripleRule" not in types:
        return None
    values = [graph.values(node, part) for part in PARTS]
    if any(len(terms) != 1 for terms in values):
        return None
    expressions = [_expression(graph, shape.node, terms[0]) for terms in values]
    if any(expression is NotImplemented for expression in expressions):
        return None
    return Rule(shape, order, conditions, triple=tuple(expressions))


def _order(graph: ShapesGraph, node: Any) -> float:
    value = graph.value(node, "order")
    try:
        return 0.0 if value is None else float(value.value)
    except ValueError:
        return 0.0


def _expression(graph: ShapesGraph, shape: Any, node: Any) -> Any:
    """Return a node expression: None for the focus node, a path or a term; NotImplemented for any other."""
    if node == THIS:
        return None
    if not isinstance(node, ox.BlankNode):
        return node
    if set(graph.statements.get(node, {})) == {f"{SH}path"}:
        return parse_path(graph, shape, graph.value(node, "path"))
    return NotImplemented


def rule_query(rule: Rule, writer: QueryWriter) -> tuple[str, dict[str, str]]:
    """Return the CONSTRUCT query of a rule, or an empty text if it has no focus node, and the counts that it needs."""
    pattern, counts = writer.focus_pattern(rule.shape)
    if not pattern:
        return "", {}
    conditions = conjunction([writer.conforms(node, "?this") for node in rule.conditions])
    if conditions != "true":
        pattern += f" FILTER({conditions})"
    if rule.construct is not None:
        return _construct(rule, pattern), counts
    terms = []
    for number, expression in enumerate(rule.triple):
        variable = f"?part{number}"
        if isinstance(expression, Path):
            pattern = f"{{ {pattern} }} LATERAL {{ {writer.step(expression, '?this', variable)} }}"
            terms.append(variable)
        else:
            terms.append("?this" if expression is None else str(preserve(expression)))
    return f"CONSTRUCT {{ {' '.join(terms)} }} WHERE {{ {pattern} }}", counts


def _construct(rule: Rule, pattern: str) -> str:
    """Return the query of a SPARQL rule for all focus nodes at once."""
    assert rule.construct is not None
    tokens = prebinding.tokenize(bind_query(rule.construct, rule.shape, "?this", None))
    start = next((index for index, token in enumerate(tokens) if token.word == "CONSTRUCT"), None)
    openings = [index for index, token in enumerate(tokens) if token.text == "{"]
    if start is None or not openings:
        raise Unsupported("it has a rule whose query is not a CONSTRUCT query")
    template_end = prebinding.closing_brace(tokens, openings[0])
    body = next((index for index in openings if index > template_end), None)
    if body is None:
        raise Unsupported("it has a rule with the short form of CONSTRUCT")
    end = prebinding.closing_brace(tokens, body)
    prologue = prebinding.join(tokens[:start])
    template = prebinding.expand(prologue, prebinding.join(tokens[openings[0] : template_end + 1]))
    inner = prebinding.expand(prologue, prebinding.join(tokens[body : end + 1]))
    if prebinding.join(tokens[end + 1 :]).strip():
        raise Unsupported("it has a rule whose query has modifiers")
    return f"CONSTRUCT {template} WHERE {{ {{ {pattern} }} LATERAL {inner} }}"
