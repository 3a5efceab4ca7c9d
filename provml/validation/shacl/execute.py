"""Run the queries of shapes on a store and convert their rows to results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import pyoxigraph as ox

from provml.errors import FileFormatError
from provml.rdf.namespaces import SH, XSD
from provml.validation.datatypes import PRESERVED_PREFIX, restore
from provml.validation.graph import ValidationGraph
from provml.validation.inputs import load
from provml.validation.report import ProgressCallback
from provml.validation.shacl import prebinding
from provml.validation.shacl.expressions import Unsupported
from provml.validation.shacl.functions import FUNCTIONS
from provml.validation.shacl.model import Constraint, Shape, Shapes
from provml.validation.shacl.queries import ConstraintQuery, QueryWriter
from provml.validation.shacl.result import ShaclResult, result_messages
from provml.validation.shacl.rules import rule_query
from provml.validation.shacl.statistics import GraphStatistics

Counts: TypeAlias = dict[tuple[str, str], int]
"""The number of results by shape and component."""
Functions: TypeAlias = Mapping[Any, Callable[..., Any]]


def find_results(
    graph: ValidationGraph,
    shapes: Shapes,
    progress: ProgressCallback | None = None,
    *,
    max_results: int | None = None,
    counts: Counts | None = None,
) -> Iterator[ShaclResult]:
    """Iterate over the violations in a graph.

    `max_results` limits the results per shape and component. `counts` is filled with the number of all results.
    """
    totals: Counts = {} if counts is None else counts
    if shapes.rules:
        graph = apply_rules(graph, shapes)
    has_preserved_datatypes = graph.has_preserved_datatypes or shapes.has_preserved_targets
    statistics = GraphStatistics(graph.store, has_preserved_datatypes=has_preserved_datatypes)
    writer = QueryWriter(shapes.shapes, statistics)
    targeted = [shape for shape in shapes.targeted if shape.node not in shapes.delegated]
    for done, shape in enumerate(targeted):
        if progress is not None:
            progress(done, len(targeted), shape.display_name)
        keys: dict[tuple[int, str], tuple[str, str]] = {}
        for result in _shape_results(graph, writer, shape):
            parts = id(result.shape), result.component
            key = keys.get(parts) or keys.setdefault(parts, (str(result.shape.node), result.component))
            totals[key] = totals.get(key, 0) + 1
            if max_results is None or totals[key] <= max_results:
                yield result
    if progress is not None:
        progress(len(targeted), len(targeted), "")


def apply_rules(graph: ValidationGraph, shapes: Shapes) -> ValidationGraph:
    """Return the graph with the triples that the rules of the shapes add; the graph itself is not changed."""
    store = load(graph.store)
    has_preserved_datatypes = graph.has_preserved_datatypes or shapes.has_preserved_targets
    statistics = GraphStatistics(store, has_preserved_datatypes=has_preserved_datatypes)
    for rule in shapes.rules:
        if rule.shape.node in shapes.delegated:
            continue
        text, counts = rule_query(rule, QueryWriter(shapes.shapes, statistics))
        if text:
            functions = dict(FUNCTIONS)
            for name, query in counts.items():
                functions[ox.NamedNode(name[1:-1])] = _membership_function(store, query, dict(functions))
            triples = [ox.Quad(*triple) for triple in _execute(store, text, rule.shape, functions)]
            if triples:
                store.extend(triples)
                statistics = GraphStatistics(store, has_preserved_datatypes=has_preserved_datatypes)
    return ValidationGraph(store, triples=graph.triples, has_preserved_datatypes=graph.has_preserved_datatypes)


def _shape_results(graph: ValidationGraph, writer: QueryWriter, shape: Shape) -> Iterator[ShaclResult]:
    store = graph.store
    queries, counts = writer.shape_queries(shape)
    functions = dict(FUNCTIONS)
    for name, text in counts.items():  # a count may use those before it
        functions[ox.NamedNode(name[1:-1])] = _membership_function(store, text, dict(functions))
    for query in queries:
        if query.is_custom:
            text = query.text.replace(PRESERVED_PREFIX, XSD)  # a target node may be a literal
            yield from _custom_results(query, _execute(graph.queryable, text, query.shape, functions))
        else:
            rows = _execute(store, query.text, query.shape, functions)
            exempt = set()
            if query.exempt is not None:
                exempt = {tuple(row) for row in _execute(store, query.exempt, query.shape, functions)}
            yield from _results(query, rows, exempt)


def _membership_function(store: ox.Store, text: str, functions: Functions) -> Callable[[Any], Any]:
    """Return a SPARQL function that tests whether a node is a result of a query."""
    rows: Any = store.query(text, custom_functions=dict(functions))
    nodes = {row[0] for row in rows}
    return lambda term: ox.Literal(term in nodes)


def _execute(store: ox.Store, text: str, shape: Shape, functions: Functions) -> Any:
    try:
        return store.query(text, custom_functions=dict(functions))
    except SyntaxError as error:
        reason = f"the shape {shape.display_name} has an invalid query: {error.msg}"
        raise FileFormatError(reason, "Correct the SPARQL.", file=shape.file) from error


# ---- rows as results


def _results(query: ConstraintQuery, rows: Any, exempt: set[tuple[Any, ...]]) -> Iterator[ShaclResult]:
    """Convert the rows of a query that this engine wrote."""
    chain = [variable[1:] for variable in query.chain]
    constants: dict[int, tuple[tuple[str, str], ...]] = {}
    for row in rows if query.is_distinct else _without_duplicates(rows, _key_columns(query)):
        if exempt and tuple(row[name] for name in chain) in exempt:
            continue
        focus = restore(row[chain[-1]])
        value = None if query.value is None else restore(row[query.value[1:]])
        path = query.shape.path if query.path is None else row[query.path[1:]]
        violated = [constraint for column, constraint in query.test_columns if row[column[1:]].value != "true"]
        if not violated and query.constraint is not None:
            violated = [query.constraint]
        for constraint in violated:
            messages = constants.get(id(constraint))
            if messages is None:
                messages = _messages(query.shape, constraint, {"this": focus, "value": value})
                if constraint.query is None:  # without placeholders
                    constants[id(constraint)] = messages
            yield ShaclResult(focus, path, value, constraint, query.shape, messages)


def _key_columns(query: ConstraintQuery) -> list[str]:
    columns = (*query.chain, query.value, query.path, *query.key_columns)
    return list(dict.fromkeys(column[1:] for column in columns if column is not None))


def _custom_results(query: ConstraintQuery, rows: Any) -> Iterator[ShaclResult]:
    """Convert the rows of a query of the shapes graph, which may return the value, the path and a message."""
    assert query.constraint is not None
    names = [variable.value for variable in rows.variables]
    for row in _without_duplicates(rows, names):
        focus = row[query.chain[-1][1:]]
        bindings = {name: row[name] for name in names if row[name] is not None}
        path = bindings.get("path") or query.shape.path
        value = bindings.get("value") or (focus if query.shape.path is None else None)
        messages = _messages(query.shape, query.constraint, {"value": value, **bindings, "this": focus})
        yield ShaclResult(focus, path, value, query.constraint, query.shape, messages)


def _without_duplicates(rows: Any, names: list[str]) -> Iterator[Any]:
    keys: set[Any] = set()
    for row in rows:
        key = tuple(row[name] for name in names)
        if key not in keys:
            keys.add(key)
            yield row


def _messages(shape: Shape, constraint: Constraint, terms: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the messages of a result; only the messages of queries have placeholders."""
    if constraint.query is None:
        return result_messages(shape, constraint, {})
    bound = {name: term for name, term in terms.items() if term is not None}
    bindings = {**constraint.query.bindings, **bound}
    if shape.path is not None:
        bindings.setdefault("path", shape.path.text().strip("<>"))
        bindings.setdefault("PATH", bindings["path"])
    return result_messages(shape, constraint, bindings)


# ---- shapes for pySHACL


def find_unsupported(shapes: Shapes, *, has_preserved_datatypes: bool) -> dict[Any, str]:
    """Return the shapes with targets that only pySHACL can validate, with the reason."""
    statistics = GraphStatistics(has_preserved_datatypes=has_preserved_datatypes or shapes.has_preserved_targets)
    unsupported: dict[Any, str] = {}
    for node, reason in shapes.delegated.items():
        if {f"{SH}target", f"{SH}rule"} & set(shapes.graph.get(node, ())):
            unsupported[node] = reason
    for shape in shapes.targeted:
        for node in _with_references(shapes, shape):
            if node in shapes.delegated:
                unsupported.setdefault(shape.node, shapes.delegated[node])
        if shape.node in unsupported:
            continue
        try:
            _check_queries(shapes, shape, statistics)
        except Unsupported as error:
            unsupported.setdefault(shape.node, str(error))
    return _with_rules(shapes, unsupported, statistics)


def _with_rules(shapes: Shapes, unsupported: dict[Any, str], statistics: GraphStatistics) -> dict[Any, str]:
    """Add the shapes that depend on rules: if this engine cannot execute one, or delegates any shape, all of them."""
    for rule in shapes.rules:
        recursive = [node for node in rule.conditions if _reaches(shapes, node, shapes.delegated)]
        try:
            if recursive:
                raise Unsupported(f"its rule depends on a shape that {shapes.delegated[recursive[0]]}")
            text, _ = rule_query(rule, QueryWriter(shapes.shapes, statistics))
            ox.Store().query(text or "ASK {}", custom_functions=dict(FUNCTIONS))
        except Unsupported as error:
            unsupported.setdefault(rule.shape.node, str(error))
        except (SyntaxError, RuntimeError) as error:
            unsupported.setdefault(rule.shape.node, f"its rule cannot be executed for all nodes at once ({error})")
    has_rules = any(f"{SH}rule" in statements for statements in shapes.graph.values())
    if has_rules and unsupported:
        for shape in shapes.targeted:
            unsupported.setdefault(shape.node, "a rule (sh:rule) may add triples that it depends on")
    return unsupported


def _reaches(shapes: Shapes, node: Any, others: Mapping[Any, str]) -> bool:
    return any(other in others for other in _with_references(shapes, shapes.shapes[node]))


def _with_references(shapes: Shapes, shape: Shape) -> Iterator[Any]:
    """Iterate over a shape and all shapes that it refers to, each once."""
    nodes = {shape.node: None}
    queue = [shape]
    for current in queue:  # grows while it is iterated
        yield current.node
        references = list(current.properties)
        for constraint in current.constraints:
            if constraint.name in ("node", "not"):
                references.append(constraint.value)
            elif constraint.name in ("and", "or", "xone"):
                references += constraint.value
            elif constraint.name.startswith("qualified"):
                references += [constraint.extra[0], *constraint.extra[1]]
        queue += [shapes.shapes[node] for node in dict.fromkeys(references) if node not in nodes]
        nodes.update(dict.fromkeys(references))


def _check_queries(shapes: Shapes, shape: Shape, statistics: GraphStatistics) -> None:
    """Parse the queries of a shape; raise if a query of the user is invalid, or if it cannot be combined."""
    queries, counts = QueryWriter(shapes.shapes, statistics).shape_queries(shape)
    functions: dict[Any, Callable[..., Any]] = {ox.NamedNode(name[1:-1]): _false for name in counts}
    functions |= FUNCTIONS
    for text in (*counts.values(), *(query.text for query in queries)):
        try:
            ox.Store().query(text, custom_functions=functions)
        except SyntaxError as error:
            _check_user_queries(shapes, shape, functions)
            raise Unsupported(f"its query cannot be evaluated for all nodes at once ({error.msg})") from error
        except RuntimeError as error:  # an unknown function
            raise _unknown_function(shapes, shape, str(error)) from error


def _unknown_function(shapes: Shapes, shape: Shape, error: str) -> Exception:
    """Return the error for a query with a function that Oxigraph does not know: is it a function of the shapes?"""
    match = re.search(r"<[^>]*>", error)
    if match is None:
        return Unsupported(f"its query cannot be evaluated ({error})")
    if ox.NamedNode(match[0][1:-1]) in shapes.functions:
        return Unsupported(f"its query calls the function {match[0]} of the shapes")
    reason = f"the shape {shape.display_name} has a query that calls {match[0]}, which is not a function"
    advice = "Define it as a sh:SPARQLFunction, or correct its name."
    return FileFormatError(reason, advice, file=shape.file, line=shapes.line_of(shape.node))


def _check_user_queries(shapes: Shapes, shape: Shape, functions: Functions) -> None:
    for used in (shapes.shapes[node] for node in _with_references(shapes, shape)):
        terms = {} if used.path is None else {"PATH": used.path.text()}
        for constraint in used.constraints:
            if constraint.query is not None:
                try:
                    _execute(ox.Store(), prebinding.bind(constraint.query.text, terms), used, functions)
                except FileFormatError as error:
                    line = shapes.line_of(used.node)
                    raise FileFormatError(error.reason, "Correct the SPARQL.", file=error.file, line=line) from error


def _false(term: Any) -> Any:
    return ox.Literal(False)
