"""SPARQL expressions that tell whether a node conforms to a shape, which Oxigraph evaluates while it joins.

An expression never raises an error: where SPARQL would have one, it is false. Each EXISTS contains a single step,
since Oxigraph evaluates the join of several steps over the whole graph for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import RDF, RDFS, RDFS_LITERAL, SH, XSD
from provml.validation.datatypes import preserve, preserved_datatype
from provml.validation.shacl import functions, prebinding
from provml.validation.shacl.exists_rewrite import rewrite_exists
from provml.validation.shacl.model import Constraint, Query, Shape
from provml.validation.shacl.path import Path
from provml.validation.shacl.statistics import GraphStatistics

NUMERIC = {f"{XSD}{name}" for name in ("integer", "decimal", "double", "float")}
CASTABLE = {f"{XSD}{name}" for name in ("boolean", "dateTime", "date", "time")}
LIMIT_OPERATORS = {"minExclusive": ">", "minInclusive": ">=", "maxExclusive": "<", "maxInclusive": "<="}
PAIR_OPERATORS = {"lessThan": "<", "lessThanOrEquals": "<="}
NODE_KIND_TESTS = {
    "IRI": ("isIRI",),
    "BlankNode": ("isBlank",),
    "Literal": ("isLiteral",),
    "BlankNodeOrIRI": ("isBlank", "isIRI"),
    "BlankNodeOrLiteral": ("isBlank", "isLiteral"),
    "IRIOrLiteral": ("isIRI", "isLiteral"),
}
MAX_INLINE_COUNT = 2
"""The largest count that an expression checks itself; larger ones are precomputed for all nodes at once."""
DATATYPES_DIFFER = "the data has datatypes that SPARQL in Oxigraph does not distinguish"


class Unsupported(Exception):
    """A construct that this engine passes to pySHACL; the message is the reason."""


class ExpressionWriter:
    """Writes expressions about shapes for one store.

    `counts` collects queries whose results expressions need: the name of a function, and the query for the nodes for
    which the function is true.
    """

    def __init__(self, shapes: Mapping[Any, Shape], statistics: GraphStatistics) -> None:
        self.shapes = shapes
        self.statistics = statistics
        self.counts: dict[str, str] = {}
        self._variable_count = 0

    def new_variable(self) -> str:
        """Return an unused variable."""
        self._variable_count += 1
        return f"?provml{self._variable_count}"

    # ---- shapes

    def conforms(self, node: Any, value: str) -> str:
        """Return whether a value conforms to a shape."""
        shape = self.shapes[node]
        if shape.is_deactivated:
            return "true"
        each = value if shape.path is None else self.new_variable()
        tests = [self.test(constraint, shape, value, each) for constraint in shape.constraints if is_test(constraint)]
        tests += [self.conforms(other, each) for other in shape.properties]
        all_tests = conjunction(tests)
        if shape.path is not None and all_tests != "true":
            all_tests = f"NOT EXISTS {{ {self.step(shape.path, value, each)} FILTER({negation(all_tests)}) }}"
        others = [self.holds(constraint, shape, value) for constraint in shape.constraints if not is_test(constraint)]
        return conjunction([all_tests, *others])

    def step(self, path: Path | None, focus: str, value: str) -> str:
        """Return the pattern from a focus node to its values inside EXISTS; without a path the node is its value."""
        if path is None:
            return f"BIND({focus} AS {value})"
        if path.is_nullable:  # for a node that is not in the graph, Oxigraph does not match a path of zero steps
            return f"{{ {focus} {path.step} {value} }} UNION {{ BIND({focus} AS {value}) }}"
        return f"{focus} {path.step} {value} ."

    def reaches(self, path: Path | None, focus: str, value: str) -> str:
        """Return whether a term is among the values of a focus node."""
        if path is None:
            return f"sameTerm({focus}, {value})"
        exists = f"EXISTS {{ {focus} {path.step} {value} }}"
        return f"(sameTerm({focus}, {value}) || {exists})" if path.is_nullable else exists

    # ---- constraints on each value

    def test(self, constraint: Constraint, shape: Shape, focus: str, value: str) -> str:
        """Return whether a value satisfies a constraint."""
        if constraint.query is not None:
            return f"EXISTS {{ {self._bound_body(constraint.query, shape, focus, value)} }}"
        return TESTS[constraint.name](self, constraint, value)

    def _class(self, constraint: Constraint, value: str) -> str:
        classes = self.statistics.instantiated_classes(constraint.value)
        if not classes:
            return "false"
        if len(classes) == 1:
            return f"EXISTS {{ {value} a {classes[0]} }}"
        cls = self.new_variable()
        return f"EXISTS {{ {value} a {cls} FILTER({cls} IN ({', '.join(map(str, classes))})) }}"

    def _datatype(self, constraint: Constraint, value: str) -> str:
        datatype = constraint.value.value
        if datatype == RDFS_LITERAL:
            return f"isLiteral({value})"
        # IF, since Oxigraph may reorder `||` and `&&`: Python shall only be called for what it does not recognize
        test = f"DATATYPE({value}) = {constraint.value}"
        well_formed = f"{functions.WELL_FORMED}({value})"
        stored = preserved_datatype(constraint.value)
        if stored != constraint.value:  # Oxigraph itself stores only values beyond 64 bits under the original datatype
            test = f"IF(DATATYPE({value}) IN ({stored}, {constraint.value}), {well_formed}, false)"
        elif datatype in NUMERIC:
            test += f" && IF(isNumeric({value}), true, {well_formed})"
        elif datatype in CASTABLE:
            is_castable = f"COALESCE(isLiteral({constraint.value}({value})), false)"
            test += f" && IF({is_castable}, true, {well_formed})"
        return f"COALESCE({test}, false)"

    def _node_kind(self, constraint: Constraint, value: str) -> str:
        names = NODE_KIND_TESTS[constraint.value.value.removeprefix(SH)]
        return f"({' || '.join(f'{function}({value})' for function in names)})"

    def _limit(self, constraint: Constraint, value: str) -> str:
        operator, limit = LIMIT_OPERATORS[constraint.name], str(constraint.value)
        return self._comparison(f"{self.comparable(value)} {operator} {limit}", value, operator, limit)

    def _comparison(self, test: str, value: str, operator: str, other: str) -> str:
        """Return a comparison; numbers beyond 64 bits, with which SPARQL has an error, are compared by Python."""
        return f"COALESCE({test}, {functions.COMPARED}({value}, {other}) {operator} 0, false)"

    def comparable(self, value: str) -> str:
        """Return a value for the comparison with another one."""
        return f"{functions.COMPARABLE}({value})" if self.statistics.has_preserved_datatypes else value

    def is_less(self, constraint: Constraint, value: str, other: str) -> str:
        """Return whether a value is less than the one of another property, or equal to it if that is allowed."""
        operator = PAIR_OPERATORS[constraint.name]
        test = f"{self.comparable(value)} {operator} {self.comparable(other)}"
        return self._comparison(test, value, operator, other)

    def _length(self, constraint: Constraint, value: str) -> str:
        if constraint.name == "minLength" and constraint.value == 0:
            return "true"
        operator = ">=" if constraint.name == "minLength" else "<="
        return f"COALESCE(!isBlank({value}) && STRLEN(STR({value})) {operator} {constraint.value}, false)"

    def _pattern(self, constraint: Constraint, value: str) -> str:
        pattern, flags = str(ox.Literal(constraint.value)), str(ox.Literal(constraint.extra))
        function = "REGEX" if _is_supported_regex(pattern, flags) else str(functions.MATCHES)
        return f"COALESCE(!isBlank({value}) && {function}(STR({value}), {pattern}, {flags}), false)"

    def _language_in(self, constraint: Constraint, value: str) -> str:
        ranges = [f"LANGMATCHES(LANG({value}), {ox.Literal(tag.value)})" for tag in constraint.value]
        return f"COALESCE(isLiteral({value}) && ({' || '.join(ranges) or 'false'}), false)"

    def _in(self, constraint: Constraint, value: str) -> str:
        iris = [str(term) for term in constraint.value if isinstance(term, ox.NamedNode)]
        tests = [f"{value} IN ({', '.join(iris)})"] if iris else []
        tests += [f"sameTerm({value}, {preserve(term)})" for term in constraint.value if isinstance(term, ox.Literal)]
        return f"COALESCE({' || '.join(tests)}, false)" if tests else "false"

    def _node(self, constraint: Constraint, value: str) -> str:
        return self.conforms(constraint.value, value)

    def _not(self, constraint: Constraint, value: str) -> str:
        return negation(self.conforms(constraint.value, value))

    def _and(self, constraint: Constraint, value: str) -> str:
        return conjunction([self.conforms(shape, value) for shape in constraint.value])

    def _or(self, constraint: Constraint, value: str) -> str:
        return disjunction([self.conforms(shape, value) for shape in constraint.value])

    def _xone(self, constraint: Constraint, value: str) -> str:
        counted = (f"IF({self.conforms(shape, value)}, 1, 0)" for shape in constraint.value)
        return f"(({' + '.join(counted)}) = 1)"

    # ---- constraints on all values of a focus node together

    def holds(self, constraint: Constraint, shape: Shape, focus: str) -> str:
        """Return whether the values of a focus node together satisfy a constraint."""
        name = constraint.name
        if name in ("minCount", "qualifiedMinCount"):
            return self._at_least(constraint, shape, focus, constraint.value)
        if name in ("maxCount", "qualifiedMaxCount"):
            return negation(self._at_least(constraint, shape, focus, constraint.value + 1))
        if name == "hasValue":
            return self._has_value(constraint, shape, focus)
        if constraint.query is not None:
            return self._no_row(constraint.query, shape, focus)
        patterns = VIOLATION_PATTERNS[name](self, constraint, shape.path, focus)
        return conjunction([f"NOT EXISTS {{ {pattern} }}" for pattern in patterns])

    def _unequal(self, constraint: Constraint, path: Path | None, focus: str) -> list[str]:
        value, other = self.new_variable(), self.new_variable()
        predicate = constraint.value
        missing = f"{focus} {predicate} {other} FILTER(!{self.reaches(path, focus, other)})"
        additional = f"{self.step(path, focus, value)} FILTER NOT EXISTS {{ {focus} {predicate} {value} }}"
        return [additional, missing]

    def _shared(self, constraint: Constraint, path: Path | None, focus: str) -> list[str]:
        value = self.new_variable()
        return [f"{focus} {constraint.value} {value} FILTER({self.reaches(path, focus, value)})"]

    def _not_less(self, constraint: Constraint, path: Path | None, focus: str) -> list[str]:
        value, other = self.new_variable(), self.new_variable()
        is_less = self.is_less(constraint, value, other)
        step = self.step(path, focus, value)
        return [f"{step} FILTER EXISTS {{ {focus} {constraint.value} {other} FILTER(!{is_less}) }}"]

    def _repeated_language(self, constraint: Constraint, path: Path | None, focus: str) -> list[str]:
        value = self.new_variable()
        if not constraint.value:
            return []
        return [f"{self.step(path, focus, value)} FILTER({self.shares_language(path, focus, value)})"]

    def _disallowed(self, constraint: Constraint, path: Path | None, focus: str) -> list[str]:
        value, predicate, other = self.new_variable(), self.new_variable(), self.new_variable()
        if not constraint.value:
            return []
        disallowed = is_disallowed(constraint, predicate, other)
        step = self.step(path, focus, value)
        return [f"{step} FILTER EXISTS {{ {value} {predicate} {other} FILTER({disallowed}) }}"]

    def shares_language(self, path: Path | None, focus: str, value: str) -> str:
        """Return whether another value has the same language."""
        other = self.new_variable()
        same = f"LCASE(LANG({value})) = LCASE(LANG({other})) && !sameTerm({value}, {other})"
        exists = f"EXISTS {{ {self.step(path, focus, other)} FILTER(isLiteral({other}) && {same}) }}"
        return f'isLiteral({value}) && LANG({value}) != "" && {exists}'

    def _has_value(self, constraint: Constraint, shape: Shape, focus: str) -> str:
        if isinstance(constraint.value, ox.BlankNode):
            return "false"
        value = self.new_variable()
        expected = preserve(constraint.value)
        return f"EXISTS {{ {self.step(shape.path, focus, value)} FILTER(sameTerm({value}, {expected})) }}"

    # ---- counts

    def qualifies(self, constraint: Constraint, value: str) -> str:
        """Return whether a value is counted: all are, unless the constraint has a qualified value shape."""
        if constraint.extra is None:
            return "true"
        shape, excluded = constraint.extra
        tests = [negation(self.conforms(other, value)) for other in excluded]
        return conjunction([self.conforms(shape, value), *tests])

    def _at_least(self, constraint: Constraint, shape: Shape, focus: str, count: int) -> str:
        """Return whether a focus node has at least `count` values."""
        if count == 0:
            return "true"
        if count > 1 and self._is_single_valued(shape.path):
            return "false"
        if count > MAX_INLINE_COUNT:
            return self._precomputed_count(constraint, shape.path, focus, count)
        value = self.new_variable()
        tests = [self.qualifies(constraint, value)]
        if count == 2:
            other = self.new_variable()
            differs = conjunction([f"!sameTerm({value}, {other})", self.qualifies(constraint, other)])
            tests.append(f"EXISTS {{ {self.step(shape.path, focus, other)} FILTER({differs}) }}")
        test, step = conjunction(tests), self.step(shape.path, focus, value)
        return f"EXISTS {{ {step} }}" if test == "true" else f"EXISTS {{ {step} FILTER({test}) }}"

    def _is_single_valued(self, path: Path | None) -> bool:
        return path is not None and path.is_predicate and not self.statistics.has_multiple_values(path.node)

    def _precomputed_count(self, constraint: Constraint, path: Path | None, focus: str, count: int) -> str:
        """Return a call of a function whose result is precomputed by a query."""
        if path is not None and path.is_nullable:
            raise Unsupported("it counts the values of a path of zero steps inside another shape")
        node, value = "?counted", self.new_variable()
        pattern = f"{self.step(path, node, value)} FILTER({self.qualifies(constraint, value)})"
        name = f"<urn:provml:shacl:count{len(self.counts)}>"
        having = f"HAVING (COUNT(DISTINCT {value}) >= {count})"
        self.counts[name] = f"SELECT {node} {{ {pattern} }} GROUP BY {node} {having}"
        return f"{name}({focus})"

    # ---- queries of the shapes graph

    def _bound_body(self, query: Query, shape: Shape, focus: str, value: str) -> str:
        """Return the body of a query with its values bound and its prefixes expanded."""
        self._check_terms()
        parts = prebinding.split(bind_query(query, shape, focus, value))
        return rewrite_exists(prebinding.expand(parts.prologue, parts.body), {focus[1:], value[1:]})

    def _no_row(self, query: Query, shape: Shape, focus: str) -> str:
        """Return whether a SELECT query gives no row for a focus node."""
        self._check_terms()
        parts = prebinding.split(bind_query(query, shape, focus, None))
        words = prebinding.words(parts.head + parts.modifiers)
        if words & {*prebinding.AGGREGATES, "GROUP", "HAVING", "LIMIT", "OFFSET"}:
            raise Unsupported("it has a query with aggregates or a limit inside another shape")
        body = rewrite_exists(prebinding.expand(parts.prologue, parts.body), {focus[1:]})
        return f"NOT EXISTS {{ {body} }}"

    def _check_terms(self) -> None:
        """Refuse a query inside a test: it needs the terms of Oxigraph, and the test needs the preserved ones."""
        if self.statistics.has_preserved_datatypes:
            raise Unsupported(f"it has a query inside another shape or component, and {DATATYPES_DIFFER}")


def is_test(constraint: Constraint) -> bool:
    """Return whether a constraint is tested on each value by itself."""
    return constraint.name in TESTS or constraint.is_ask


def conjunction(tests: list[str]) -> str:
    """Join tests by &&, simplifying constants."""
    parts = [f"({test})" for test in tests if test != "true"]
    return "false" if "false" in tests else " && ".join(parts) or "true"


def disjunction(tests: list[str]) -> str:
    """Join tests by ||, simplifying constants."""
    parts = [f"({test})" for test in tests if test != "false"]
    return "true" if "true" in tests else " || ".join(parts) or "false"


def negation(test: str) -> str:
    """Negate a test, simplifying constants."""
    return {"true": "false", "false": "true"}.get(test, f"!({test})")


def is_disallowed(constraint: Constraint, predicate: str, value: str) -> str:
    """Return whether a closed shape does not allow a property; rdf:type rdfs:Resource is always allowed."""
    iris = [str(term) for term in constraint.extra if isinstance(term, ox.NamedNode)]
    other = f"{predicate} NOT IN ({', '.join(iris)})" if iris else "true"
    return f"{other} && !({predicate} = <{RDF}type> && sameTerm({value}, <{RDFS}Resource>))"


@cache
def _is_supported_regex(pattern: str, flags: str) -> bool:
    """Return whether Oxigraph supports a regular expression."""
    rows: Any = ox.Store().query(f'SELECT (REGEX("a", {pattern}, {flags}) AS ?result) {{}}')
    return any(row["result"] is not None for row in rows)


def bind_query(query: Query, shape: Shape, focus: str, value: str | None) -> str:
    """Return the text of a query with its parameters, the path, the focus node and the value bound."""
    terms: dict[str, str] = {"this": focus, **({"value": value} if value is not None else {})}
    if shape.path is not None:
        terms["PATH"] = shape.path.text()
    variables = prebinding.variable_names(prebinding.tokenize(query.text))
    if "shapesGraph" in variables:
        raise Unsupported("its query uses the shapes graph ($shapesGraph)")
    for name, term in query.bindings.items():
        if name in variables and isinstance(term, ox.BlankNode):
            raise Unsupported(f"its query binds ${name} to a blank node")
        terms[name] = str(term)
    return prebinding.bind(query.text, terms)


TESTS: dict[str, Callable[[ExpressionWriter, Constraint, str], str]] = {
    "class": ExpressionWriter._class,
    "datatype": ExpressionWriter._datatype,
    "nodeKind": ExpressionWriter._node_kind,
    "minLength": ExpressionWriter._length,
    "maxLength": ExpressionWriter._length,
    "pattern": ExpressionWriter._pattern,
    "languageIn": ExpressionWriter._language_in,
    "in": ExpressionWriter._in,
    "node": ExpressionWriter._node,
    "not": ExpressionWriter._not,
    "and": ExpressionWriter._and,
    "or": ExpressionWriter._or,
    "xone": ExpressionWriter._xone,
    **dict.fromkeys(LIMIT_OPERATORS, ExpressionWriter._limit),
}
"""The constraints that are tested on each value by itself."""

VIOLATION_PATTERNS: dict[str, Callable[[ExpressionWriter, Constraint, Path | None, str], list[str]]] = {
    "equals": ExpressionWriter._unequal,
    "disjoint": ExpressionWriter._shared,
    "uniqueLang": ExpressionWriter._repeated_language,
    "closed": ExpressionWriter._disallowed,
    **dict.fromkeys(PAIR_OPERATORS, ExpressionWriter._not_less),
}
"""Constraints on all values of a focus node, with the patterns that match a violation."""
