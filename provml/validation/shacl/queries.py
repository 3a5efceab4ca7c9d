"""The SELECT queries of a shape: each returns the violations of all focus nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyoxigraph as ox

from provml.validation.datatypes import preserve
from provml.validation.shacl import prebinding
from provml.validation.shacl.exists_rewrite import rewrite_exists_blocks
from provml.validation.shacl.expressions import (
    DATATYPES_DIFFER,
    MAX_INLINE_COUNT,
    PAIR_OPERATORS,
    ExpressionWriter,
    Unsupported,
    bind_query,
    conjunction,
    is_disallowed,
    is_test,
    negation,
)
from provml.validation.shacl.model import Constraint, Shape, Targets
from provml.validation.shacl.path import Path

MIN_COUNTS = {"minCount", "qualifiedMinCount"}
MAX_COUNTS = {"maxCount", "qualifiedMaxCount"}
SATISFIED_WITHOUT_VALUES = {*MAX_COUNTS, "uniqueLang", "disjoint", *PAIR_OPERATORS}
"""Constraints that a focus node without values satisfies."""
DATATYPE_FUNCTIONS = {"DATATYPE", "SAMETERM"}
"""Functions whose result depends on the datatype of a literal, not on its value alone."""


@dataclass(frozen=True)
class ConstraintQuery:
    """A query and how to read its rows.

    `chain` are the variables from the target node to the focus node, which is the last one. `value` and `path` are the
    variables of the violating value and of its predicate, if the query has them; `key_columns` are further variables
    that distinguish rows. `test_columns` name a column for each constraint, which is false in a row that violates it;
    without them every row violates `constraint`. Rows whose chain is a row of the query `exempt` are no violations.
    A query that is not distinct may return a row twice.
    """

    text: str
    shape: Shape
    chain: tuple[str, ...]
    constraint: Constraint | None = None
    value: str | None = None
    path: str | None = None
    key_columns: tuple[str, ...] = ()
    test_columns: tuple[tuple[str, Constraint], ...] = ()
    exempt: str | None = None
    is_custom: bool = False
    is_distinct: bool = False


@dataclass(frozen=True)
class FocusNodes:
    """The focus nodes of a query: the pattern that matches them, and the variables from the target node to them."""

    pattern: str
    chain: tuple[str, ...] = ("?this",)

    @property
    def is_distinct(self) -> bool:
        """Whether the pattern matches each node once: target nodes are distinct, values of paths may not be."""
        return len(self.chain) == 1

    @property
    def is_simple(self) -> bool:
        """Whether Oxigraph may choose the join order; a subquery it would join over the whole graph."""
        return self.pattern.startswith("?this a ")

    @property
    def variable(self) -> str:
        return self.chain[-1]

    @property
    def columns(self) -> str:
        return " ".join(self.chain)


class QueryWriter(ExpressionWriter):
    """Writes the queries of shapes."""

    def shape_queries(self, shape: Shape) -> tuple[list[ConstraintQuery], dict[str, str]]:
        """Return the queries of a shape with targets, and the counts that they need beforehand."""
        self.counts = {}
        pattern = self._target_pattern(shape.targets)
        queries = list(self._queries(shape, FocusNodes(pattern))) if pattern else []
        return queries, self.counts

    def focus_pattern(self, shape: Shape) -> tuple[str, dict[str, str]]:
        """Return the pattern that matches each target node of a shape once, and the counts that later tests add."""
        self.counts = {}
        return self._target_pattern(shape.targets), self.counts

    def _target_pattern(self, targets: Targets) -> str:
        """Return the pattern that matches each target node once, or an empty string if there are none."""
        statistics = self.statistics
        classes = dict.fromkeys(sub for cls in targets.classes for sub in statistics.instantiated_classes(cls))
        patterns = [f"?this a {cls} ." for cls in classes]
        patterns += [f"?this {term} {self.new_variable()} ." for term in targets.subjects_of if statistics.occurs(term)]
        patterns += [f"{self.new_variable()} {term} ?this ." for term in targets.objects_of if statistics.occurs(term)]
        nodes = [str(preserve(node)) for node in targets.nodes if not isinstance(node, ox.BlankNode)]
        if nodes:
            patterns.append(f"VALUES ?this {{ {' '.join(nodes)} }}")
        for query in targets.queries:
            if statistics.has_preserved_datatypes and prebinding.words(query) & DATATYPE_FUNCTIONS:
                raise Unsupported(f"its target asks for datatypes or terms, and {DATATYPES_DIFFER}")
            patterns.append(f"{{ {query} }}")
        if len(patterns) == 1 and (classes or nodes):
            return patterns[0]
        union = " UNION ".join(f"{{ {pattern} }}" for pattern in patterns)
        return f"{{ SELECT DISTINCT ?this {{ {union} }} }}" if patterns else ""

    def _queries(self, shape: Shape, focus: FocusNodes) -> Iterator[ConstraintQuery]:
        if shape.is_deactivated:
            return
        path = shape.path
        has_no_values = path is not None and path.is_predicate and not self.statistics.occurs(path.node)
        if not has_no_values:
            yield from self._test_queries(shape, focus)
        for constraint in shape.constraints:
            if is_test(constraint) or (has_no_values and constraint.name in SATISFIED_WITHOUT_VALUES):
                continue
            yield from self._constraint_queries(constraint, shape, focus)
        if shape.properties and not has_no_values:
            values = focus
            if path is not None:
                value = self.new_variable()
                values = FocusNodes(self._values_pattern(path, focus, value), (*focus.chain, value))
            for node in shape.properties:
                yield from self._queries(self.shapes[node], values)

    def _values_pattern(self, path: Path | None, focus: FocusNodes, value: str) -> str:
        """Return the pattern that matches all focus nodes with their values."""
        if path is None:
            return f"{focus.pattern} BIND({focus.variable} AS {value})"
        if path.is_predicate and focus.is_simple:
            return f"{focus.pattern} {focus.variable} {path.step} {value} ."
        steps = f"{{ {focus.pattern} }} LATERAL {{ {focus.variable} {path.step} {value} }}"
        if path.is_nullable:
            return f"{{ {steps} }} UNION {{ {focus.pattern} BIND({focus.variable} AS {value}) }}"
        return steps

    def _test_queries(self, shape: Shape, focus: FocusNodes) -> Iterator[ConstraintQuery]:
        """Yield one query for all constraints that are tested on each value."""
        constraints = [constraint for constraint in shape.constraints if is_test(constraint)]
        if not constraints:
            return
        value = focus.variable if shape.path is None else self.new_variable()
        pattern = focus.pattern if shape.path is None else self._values_pattern(shape.path, focus, value)
        tests = [self.test(constraint, shape, focus.variable, value) for constraint in constraints]
        all_tests = conjunction(tests)
        if all_tests == "true":
            return
        variables = " ".join(dict.fromkeys((*focus.chain, value)))
        columns: tuple[tuple[str, Constraint], ...] = ()
        if len(constraints) > 1:
            columns = tuple((f"?holds{number}", constraint) for number, constraint in enumerate(constraints))
        assignments = " ".join(f"(({test}) AS {column})" for test, (column, _) in zip(tests, columns, strict=False))
        yield ConstraintQuery(
            f"SELECT {variables} {assignments} {{ {pattern} FILTER({negation(all_tests)}) }}",
            shape,
            focus.chain,
            constraint=None if columns else constraints[0],
            value=value,
            test_columns=columns,
            is_distinct=focus.is_distinct and (shape.path is None or shape.path.is_predicate),
        )

    # ---- constraints on all values of a focus node together

    def _constraint_queries(self, constraint: Constraint, shape: Shape, focus: FocusNodes) -> Iterator[ConstraintQuery]:
        if constraint.query is not None:
            yield self._custom_query(constraint, shape, focus)
        else:
            template = ConstraintQuery("", shape, focus.chain, constraint)
            yield from CONSTRAINT_QUERIES[constraint.name](self, constraint, focus, template)

    def _count(self, constraint: Constraint, focus: FocusNodes, template: ConstraintQuery) -> Iterator[ConstraintQuery]:
        max_inline = MAX_INLINE_COUNT - (constraint.name in MAX_COUNTS)
        if constraint.value <= max_inline:
            yield from self._holds(constraint, focus, template)
            return
        # Large counts are grouped for all focus nodes at once. A minimum exempts the nodes that have enough values.
        value = self.new_variable()
        pattern = self._values_pattern(template.shape.path, focus, value)
        limit = f"{'>' if constraint.name in MAX_COUNTS else '>='} {constraint.value}"
        having = f"GROUP BY {focus.columns} HAVING (COUNT(DISTINCT {value}) {limit})"
        counted = f"SELECT {focus.columns} {{ {pattern} FILTER({self.qualifies(constraint, value)}) }} {having}"
        if constraint.name in MAX_COUNTS:
            yield replace(template, text=counted)
        else:
            yield replace(template, text=f"SELECT {focus.columns} {{ {focus.pattern} }}", exempt=counted)

    def _holds(self, constraint: Constraint, focus: FocusNodes, template: ConstraintQuery) -> Iterator[ConstraintQuery]:
        holds = self.holds(constraint, template.shape, focus.variable)
        if holds != "true":
            text = f"SELECT {focus.columns} {{ {focus.pattern} FILTER({negation(holds)}) }}"
            yield replace(template, text=text, is_distinct=focus.is_distinct)

    def _unique_lang(
        self, constraint: Constraint, focus: FocusNodes, template: ConstraintQuery
    ) -> Iterator[ConstraintQuery]:
        if not constraint.value:
            return
        path, value, language = template.shape.path, self.new_variable(), self.new_variable()
        shares = self.shares_language(path, focus.variable, value)
        pattern = self._values_pattern(path, focus, value)
        text = f"SELECT {focus.columns} (LCASE(LANG({value})) AS {language}) {{ {pattern} FILTER({shares}) }}"
        yield replace(template, text=text, key_columns=(language,))

    def _equals(
        self, constraint: Constraint, focus: FocusNodes, template: ConstraintQuery
    ) -> Iterator[ConstraintQuery]:
        path, node, value = template.shape.path, focus.variable, self.new_variable()
        pattern = self._values_pattern(path, focus, value)
        additional = f"{pattern} FILTER NOT EXISTS {{ {node} {constraint.value} {value} }}"
        is_missing = negation(self.reaches(path, node, value))
        missing = f"{focus.pattern} {node} {constraint.value} {value} FILTER({is_missing})"
        for violation in (additional, missing):
            yield replace(template, text=f"SELECT {focus.columns} {value} {{ {violation} }}", value=value)

    def _disjoint(
        self, constraint: Constraint, focus: FocusNodes, template: ConstraintQuery
    ) -> Iterator[ConstraintQuery]:
        value = self.new_variable()
        shared = self.reaches(template.shape.path, focus.variable, value)
        pattern = f"{focus.pattern} {focus.variable} {constraint.value} {value} FILTER({shared})"
        yield replace(template, text=f"SELECT {focus.columns} {value} {{ {pattern} }}", value=value)

    def _less_than(
        self, constraint: Constraint, focus: FocusNodes, template: ConstraintQuery
    ) -> Iterator[ConstraintQuery]:
        value, other = self.new_variable(), self.new_variable()
        pairs = f"{self._values_pattern(template.shape.path, focus, value)} {focus.variable} {constraint.value} {other}"
        is_less = self.is_less(constraint, value, other)
        text = f"SELECT {focus.columns} {value} {other} {{ {pairs} FILTER(!{is_less}) }}"
        yield replace(template, text=text, value=value, key_columns=(other,))

    def _closed(
        self, constraint: Constraint, focus: FocusNodes, template: ConstraintQuery
    ) -> Iterator[ConstraintQuery]:
        if not constraint.value:
            return
        path, predicate, other = template.shape.path, self.new_variable(), self.new_variable()
        subject = focus.variable if path is None else self.new_variable()
        pattern = focus.pattern if path is None else self._values_pattern(path, focus, subject)
        disallowed = is_disallowed(constraint, predicate, other)
        variables = " ".join(dict.fromkeys((*focus.chain, subject, predicate, other)))
        text = f"SELECT {variables} {{ {pattern} {subject} {predicate} {other} FILTER({disallowed}) }}"
        yield replace(template, text=text, value=other, path=predicate, key_columns=(subject,))

    # ---- queries of the shapes graph

    def _custom_query(self, constraint: Constraint, shape: Shape, focus: FocusNodes) -> ConstraintQuery:
        """Return a query of the shapes graph for all focus nodes, with the rows that it has for each one alone."""
        assert constraint.query is not None
        if constraint.query.is_ask:
            raise Unsupported("it has an ASK query where a SELECT query is needed")
        text = bind_query(constraint.query, shape, focus.variable, None)
        if self.statistics.has_preserved_datatypes and prebinding.words(text) & DATATYPE_FUNCTIONS:
            raise Unsupported(f"its query asks for datatypes or terms, and {DATATYPES_DIFFER}")
        parts = prebinding.split(text)
        name = focus.variable[1:]
        words = prebinding.words(parts.head + parts.modifiers)
        head = prebinding.expand(parts.prologue, parts.head)
        if all(token.name != name and token.text != "*" for token in prebinding.tokenize(parts.head)):
            if words & {*prebinding.AGGREGATES, "GROUP"}:
                raise Unsupported("its query has aggregates and does not return $this")
            head += f" {focus.variable}"
        body = rewrite_exists_blocks(prebinding.expand(parts.prologue, parts.body), {name})
        modifiers = prebinding.expand(parts.prologue, parts.modifiers)
        nodes = focus.pattern
        if not focus.is_distinct:
            nodes = f"{{ SELECT DISTINCT {focus.columns} {{ {focus.pattern} }} }}"
        if focus.is_distinct and not words & {"LIMIT", "OFFSET"} and prebinding.can_join(parts.body, name):
            text = f"{head} {{ {nodes} {body} }} {modifiers}"
        else:
            text = f"SELECT * {{ {nodes} LATERAL {{ {head} {{ {body} }} {modifiers} }} }}"
        return ConstraintQuery(text, shape, focus.chain, constraint, is_custom=True)


CONSTRAINT_QUERIES: dict[
    str, Callable[[QueryWriter, Constraint, FocusNodes, ConstraintQuery], Iterator[ConstraintQuery]]
] = {
    **dict.fromkeys((*MIN_COUNTS, *MAX_COUNTS), QueryWriter._count),
    **dict.fromkeys(PAIR_OPERATORS, QueryWriter._less_than),
    "hasValue": QueryWriter._holds,
    "uniqueLang": QueryWriter._unique_lang,
    "equals": QueryWriter._equals,
    "disjoint": QueryWriter._disjoint,
    "closed": QueryWriter._closed,
}
"""The queries of constraints on all values of a focus node."""
