"""The checks of all shapes, run on a store one after the other; their rows become findings as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyoxigraph as ox

from provml.errors import BrokenFile
from provml.validation.compiled import prebinding
from provml.validation.compiled.check import Check, Checks, checks_of
from provml.validation.compiled.condition import NotCovered
from provml.validation.compiled.finding import Finding, say
from provml.validation.compiled.lexical import FUNCTIONS
from provml.validation.compiled.shape import SH, Constraint, Shape, Shapes
from provml.validation.compiled.survey import Survey
from provml.validation.report import Progress

Counts = dict[tuple[str, str], int]


def find(
    store: ox.Store,
    shapes: Shapes,
    progress: Progress | None = None,
    *,
    most: int | None = None,
    counts: Counts | None = None,
) -> Iterator[Finding]:
    """What breaks the shapes in a store's default graph; `counts` gets how often, by shape and component.

    Where `most` is given, so many findings of each shape and component are told, and the others are counted only.
    """
    told = {} if counts is None else counts
    checks = Checks(shapes.shapes, Survey(store))
    targeted = [shape for shape in shapes.targeted if shape.node not in shapes.handed_over]
    for done, shape in enumerate(targeted):
        if progress is not None:
            progress(done, len(targeted), shape.named())
        own, counted = checks_of(checks, shape)
        functions = dict(FUNCTIONS)
        for name, text in counted.items():  # one may need those before it
            functions[ox.NamedNode(name[1:-1])] = _held(store, text, dict(functions))
        for check in own:
            for finding in _findings(store, check, functions):
                key = (str(finding.shape.node), finding.component)
                told[key] = told.get(key, 0) + 1
                if most is None or told[key] <= most:
                    yield finding
    if progress is not None:
        progress(len(targeted), len(targeted), "")


def not_covered(shapes: Shapes) -> dict[Any, str]:
    """The shapes with targets that have to be left to the reference engine, each with the reason."""
    found: dict[Any, str] = {}
    for node, reason in shapes.handed_over.items():
        if {f"{SH}target", f"{SH}rule"} & set(shapes.graph[node]):
            found[node] = reason
    has_rules = any(f"{SH}rule" in said for said in shapes.graph.values())
    for shape in shapes.targeted:
        if has_rules:
            found.setdefault(shape.node, "a rule (sh:rule) may add to what it is about")
        for node in _all_below(shapes, shape):
            if node in shapes.handed_over:
                found.setdefault(shape.node, shapes.handed_over[node])
        try:
            own, counts = checks_of(Checks(shapes.shapes, Survey()), shape)
            functions = FUNCTIONS | {ox.NamedNode(name[1:-1]): _never for name in counts}
            for text in (*counts.values(), *(check.text for check in own)):
                _try(text, shapes, shape, functions)
        except NotCovered as error:
            found.setdefault(shape.node, str(error))
    return found


def _never(term: Any) -> Any:
    return ox.Literal(False)


def _all_below(shapes: Shapes, shape: Shape) -> Iterator[Any]:
    """A shape and all that it refers to."""
    yield shape.node
    others = list(shape.properties)
    for one in shape.constraints:
        if one.name in ("node", "not"):
            others.append(one.value)
        elif one.name in ("and", "or", "xone"):
            others += one.value
        elif one.name.startswith("qualified"):
            others += [one.also[0], *one.also[1]]
    for other in others:
        yield from _all_below(shapes, shapes.shapes[other])


def _try(text: str, shapes: Shapes, shape: Shape, functions: Any) -> None:
    """Refuse a query that a shape brings and that is none; what only our way of writing it breaks is not covered."""
    try:
        ox.Store().query(text, custom_functions=functions)
    except SyntaxError as error:
        for below in (shapes.shapes[node] for node in _all_below(shapes, shape)):
            path = {} if below.path is None else {"PATH": below.path.text()}
            for query in (one.query for one in below.constraints if one.query is not None):
                _query(ox.Store(), prebinding.bind(query.text, path), below, functions)
        raise NotCovered(f"its query cannot be asked of all nodes at once ({error.msg})") from error


def _query(store: ox.Store, text: str, shape: Shape, functions: Any) -> Any:
    try:
        return store.query(text, custom_functions=functions)
    except SyntaxError as error:
        reason = f"the shape {shape.named()} has a query that cannot be run: {error.msg}"
        raise BrokenFile(reason, "Mend the SPARQL there.", file=shape.file) from error


def _held(store: ox.Store, text: str, functions: Any) -> Callable[[Any], Any]:
    """A function that tells whether a node is among those that a query gives."""
    rows: Any = store.query(text, custom_functions=functions)
    held = {row[0] for row in rows}
    return lambda term: ox.Literal(term in held)


def _findings(store: ox.Store, check: Check, functions: Any) -> Iterator[Finding]:
    chain = [name[1:] for name in check.chain]
    less = set()
    if check.less is not None:
        less = {tuple(row) for row in _query(store, check.less, check.shape, functions)}
    rows = _query(store, check.text, check.shape, functions)
    if check.is_query:
        yield from _query_findings(check, rows)
        return
    seen: set[Any] = set()
    named = list(dict.fromkeys([*chain, *(n[1:] for n in (check.value, check.path, *check.also) if n is not None)]))
    for row in rows:
        if not check.is_distinct:
            key = tuple(row[name] for name in named)
            if key in seen:
                continue
            seen.add(key)
        if less and tuple(row[name] for name in chain) in less:
            continue
        value = None if check.value is None else row[check.value[1:]]
        path = check.shape.path if check.path is None else row[check.path[1:]]
        broken = [one for column, one in check.tests if row[column[1:]].value != "true"]
        for constraint in broken or ([check.constraint] if check.constraint is not None else []):
            yield _finding(check.shape, constraint, row[chain[-1]], path, value, {})


def _query_findings(check: Check, rows: Any) -> Iterator[Finding]:
    """The rows of a shapes graph's own query: it may name the value and the path, and fill in its messages."""
    assert check.constraint is not None
    names = [variable.value for variable in rows.variables]
    focus = check.chain[-1][1:]
    seen: set[Any] = set()
    for row in rows:
        key = tuple(row[name] for name in names)
        if key in seen:
            continue
        seen.add(key)
        bound = {name: row[name] for name in names if row[name] is not None}
        path = bound.get("path") or check.shape.path
        value = bound.get("value") or (row[focus] if check.shape.path is None else None)
        yield _finding(check.shape, check.constraint, row[focus], path, value, {**bound, "this": row[focus]})


def _finding(shape: Shape, constraint: Constraint, focus: Any, path: Any, value: Any, bound: dict[str, Any]) -> Finding:
    if constraint.query is not None:
        bound = {**constraint.query.bound, "this": focus, **({"value": value} if value is not None else {}), **bound}
        if shape.path is not None:
            bound.setdefault("path", shape.path.text().strip("<>"))
            bound.setdefault("PATH", bound["path"])
    return Finding(focus, path, value, constraint, shape, say(shape, constraint, bound))
