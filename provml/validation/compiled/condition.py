"""Whether a node conforms, as a SPARQL expression that Oxigraph decides while it joins.

An expression never fails: where SPARQL has an error, it says false. Inside EXISTS there is one step at a time, since
Oxigraph joins several of them over the whole graph for each node that it looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pyoxigraph as ox

from provml.rdf.literal import RDFS_LITERAL, XSD
from provml.validation.compiled import lexical, prebinding
from provml.validation.compiled.exists import unroll
from provml.validation.compiled.path import Path
from provml.validation.compiled.shape import SH, Constraint, Query, Shape
from provml.validation.compiled.survey import Survey

NUMERIC = {f"{XSD}{name}" for name in ("integer", "decimal", "double", "float")}
CAST = {f"{XSD}{name}" for name in ("boolean", "dateTime", "date", "time")}
COMPARED = {"minExclusive": ">", "minInclusive": ">=", "maxExclusive": "<", "maxInclusive": "<="}
PAIRED = {"lessThan": "<", "lessThanOrEquals": "<="}
KINDS = {
    "IRI": ("isIRI",),
    "BlankNode": ("isBlank",),
    "Literal": ("isLiteral",),
    "BlankNodeOrIRI": ("isBlank", "isIRI"),
    "BlankNodeOrLiteral": ("isBlank", "isLiteral"),
    "IRIOrLiteral": ("isIRI", "isLiteral"),
}
INLINE = 2
"""How many values are told apart inside an expression; more are counted beforehand, for all nodes at once."""


class NotCovered(Exception):
    """A construct that this engine leaves to the reference engine; its text says which."""


class Conditions:
    """Writes expressions about the shapes of one graph, for one store."""

    def __init__(self, shapes: Mapping[Any, Shape], survey: Survey) -> None:
        self.shapes = shapes
        self.survey = survey
        self.counts: dict[str, str] = {}
        self._fresh = 0

    def fresh(self) -> str:
        """A variable that nobody else uses."""
        self._fresh += 1
        return f"?provml{self._fresh}"

    # ---- shapes

    def conforms(self, node: Any, value: str) -> str:
        """Whether a value conforms to a shape."""
        shape = self.shapes[node]
        if shape.is_deactivated:
            return "true"
        each = value if shape.path is None else self.fresh()
        tests = [self.test(one, shape, value, each) for one in shape.constraints if one.name in TESTS or is_ask(one)]
        tests += [self.conforms(other, each) for other in shape.properties]
        whole = [
            self.holds(one, shape, value) for one in shape.constraints if one.name not in TESTS and not is_ask(one)
        ]
        joined = both(tests)
        if shape.path is not None and joined != "true":
            joined = f"NOT EXISTS {{ {self.step(shape.path, value, each)} FILTER({negated(joined)}) }}"
        return both([joined, *whole])

    def step(self, path: Path | None, focus: str, value: str) -> str:
        """The pattern that leads from a focus node to its values, inside EXISTS; a node shape's value is the node."""
        if path is None:
            return f"BIND({focus} AS {value})"
        if path.is_nullable:  # from a node that is not in the graph, Oxigraph does not take the way of no steps
            return f"{{ {focus} {path.step} {value} }} UNION {{ BIND({focus} AS {value}) }}"
        return f"{focus} {path.step} {value} ."

    def reaches(self, path: Path | None, focus: str, value: str) -> str:
        """Whether a value is among those of a focus node."""
        if path is None:
            return f"sameTerm({focus}, {value})"
        found = f"EXISTS {{ {focus} {path.step} {value} }}"
        return f"(sameTerm({focus}, {value}) || {found})" if path.is_nullable else found

    # ---- what is asked of each value

    def test(self, constraint: Constraint, shape: Shape, focus: str, value: str) -> str:
        """Whether one value is as it must be."""
        if constraint.query is not None:
            return f"EXISTS {{ {self.body(constraint.query, shape, focus, value)} }}"
        return TESTS[constraint.name](self, constraint, value)

    def _class(self, constraint: Constraint, value: str) -> str:
        family = self.survey.members(constraint.value)
        if not family:
            return "false"
        if len(family) == 1:
            return f"EXISTS {{ {value} a {family[0]} }}"
        kind = self.fresh()
        return f"EXISTS {{ {value} a {kind} FILTER({kind} IN ({', '.join(map(str, family))})) }}"

    def _datatype(self, constraint: Constraint, value: str) -> str:
        asked = constraint.value.value
        if asked == RDFS_LITERAL:
            return f"isLiteral({value})"
        # IF, since Oxigraph may turn `||` round: Python is to be asked about what Oxigraph does not know only
        same = f"DATATYPE({value}) = {constraint.value}"
        if asked in NUMERIC:
            same += f" && IF(isNumeric({value}), true, {lexical.WELL_FORMED}({value}))"
        elif asked in CAST:
            known = f"COALESCE(isLiteral({constraint.value}({value})), false)"
            same += f" && IF({known}, true, {lexical.WELL_FORMED}({value}))"
        elif asked in lexical.CHECKED:
            same += f" && {lexical.WELL_FORMED}({value})"
        return f"COALESCE({same}, false)"

    def _node_kind(self, constraint: Constraint, value: str) -> str:
        kinds = KINDS[constraint.value.value.removeprefix(SH)]
        return f"({' || '.join(f'{kind}({value})' for kind in kinds)})"

    def _compared(self, constraint: Constraint, value: str) -> str:
        return f"COALESCE({value} {COMPARED[constraint.name]} {constraint.value}, false)"

    def _length(self, constraint: Constraint, value: str) -> str:
        if constraint.name == "minLength" and constraint.value == 0:
            return "true"
        sign = ">=" if constraint.name == "minLength" else "<="
        return f"COALESCE(!isBlank({value}) && STRLEN(STR({value})) {sign} {constraint.value}, false)"

    def _pattern(self, constraint: Constraint, value: str) -> str:
        pattern, flags = str(ox.Literal(constraint.value)), str(ox.Literal(constraint.also))
        function = "REGEX" if knows_pattern(pattern, flags) else str(lexical.MATCHES)
        return f"COALESCE(!isBlank({value}) && {function}(STR({value}), {pattern}, {flags}), false)"

    def _language_in(self, constraint: Constraint, value: str) -> str:
        ranges = [f"LANGMATCHES(LANG({value}), {ox.Literal(one.value)})" for one in constraint.value]
        return f"COALESCE(isLiteral({value}) && ({' || '.join(ranges) or 'false'}), false)"

    def _in(self, constraint: Constraint, value: str) -> str:
        names = [str(one) for one in constraint.value if isinstance(one, ox.NamedNode)]
        named = [f"{value} IN ({', '.join(names)})"] if names else []
        named += [f"sameTerm({value}, {one})" for one in constraint.value if isinstance(one, ox.Literal)]
        return f"COALESCE({' || '.join(named)}, false)" if named else "false"

    def _node(self, constraint: Constraint, value: str) -> str:
        return self.conforms(constraint.value, value)

    def _not(self, constraint: Constraint, value: str) -> str:
        return negated(self.conforms(constraint.value, value))

    def _and(self, constraint: Constraint, value: str) -> str:
        return both([self.conforms(one, value) for one in constraint.value])

    def _or(self, constraint: Constraint, value: str) -> str:
        return either([self.conforms(one, value) for one in constraint.value])

    def _xone(self, constraint: Constraint, value: str) -> str:
        counted = (f"IF({self.conforms(one, value)}, 1, 0)" for one in constraint.value)
        return f"(({' + '.join(counted)}) = 1)"

    # ---- what is asked of all values of a focus node together

    def holds(self, constraint: Constraint, shape: Shape, focus: str) -> str:
        """Whether the values of a focus node are together as they must be."""
        name = constraint.name
        if name in ("minCount", "qualifiedMinCount"):
            return self.at_least(constraint, shape, focus, constraint.value)
        if name in ("maxCount", "qualifiedMaxCount"):
            return negated(self.at_least(constraint, shape, focus, constraint.value + 1))
        if name == "hasValue":
            return self.has_value(constraint, shape, focus)
        if constraint.query is not None:
            return self._sparql(constraint, shape, focus)
        return both([f"NOT EXISTS {{ {one} }}" for one in self._wrong(constraint, shape.path, focus)])

    def _wrong(self, constraint: Constraint, path: Path | None, focus: str) -> list[str]:
        """The patterns that none of a focus node's values may be found by."""
        name, asked, value, other = constraint.name, constraint.value, self.fresh(), self.fresh()
        step = self.step(path, focus, value)
        if name == "equals":
            missing = f"{focus} {asked} {other} FILTER(!{self.reaches(path, focus, other)})"
            return [f"{step} FILTER NOT EXISTS {{ {focus} {asked} {value} }}", missing]
        if name == "disjoint":
            return [f"{focus} {asked} {value} FILTER({self.reaches(path, focus, value)})"]
        if name in PAIRED:
            less = f"COALESCE({value} {PAIRED[name]} {other}, false)"
            return [f"{step} FILTER EXISTS {{ {focus} {asked} {other} FILTER(!{less}) }}"]
        if name == "uniqueLang" and asked:
            return [f"{step} FILTER({self.shares_language(path, focus, value)})"]
        if name == "closed" and asked:
            predicate = self.fresh()
            barred = not_allowed(constraint, predicate, other)
            return [f"{step} FILTER EXISTS {{ {value} {predicate} {other} FILTER({barred}) }}"]
        return []

    def shares_language(self, path: Path | None, focus: str, value: str) -> str:
        """Whether another value has the language of this one."""
        other = self.fresh()
        same = f"LCASE(LANG({value})) = LCASE(LANG({other})) && !sameTerm({value}, {other})"
        near = f"EXISTS {{ {self.step(path, focus, other)} FILTER(isLiteral({other}) && {same}) }}"
        return f'isLiteral({value}) && LANG({value}) != "" && {near}'

    def has_value(self, constraint: Constraint, shape: Shape, focus: str) -> str:
        """Whether a given term is among the values."""
        value = self.fresh()
        if isinstance(constraint.value, ox.BlankNode):
            return "false"
        return f"EXISTS {{ {self.step(shape.path, focus, value)} FILTER(sameTerm({value}, {constraint.value})) }}"

    def qualifies(self, constraint: Constraint, value: str) -> str:
        """Whether a value is one that is counted."""
        if constraint.also is None:
            return "true"
        wanted, others = constraint.also
        return both([self.conforms(wanted, value), *(negated(self.conforms(one, value)) for one in others)])

    def at_least(self, constraint: Constraint, shape: Shape, focus: str, count: int) -> str:
        """Whether so many values are there."""
        if count == 0:
            return "true"
        if (
            count > 1
            and shape.path is not None
            and shape.path.is_predicate
            and not self.survey.repeats(shape.path.node)
        ):
            return "false"
        if count > INLINE:
            one, value = "?counted", self.fresh()
            open_step = self.step(shape.path, one, value)
            text = f"{open_step} FILTER({self.qualifies(constraint, value)})"
            name = f"<urn:provml:shacl:count{len(self.counts)}>"
            having = f"HAVING (COUNT(DISTINCT {value}) >= {count})"
            if shape.path is not None and shape.path.is_nullable:
                raise NotCovered("it counts the values of a path of no steps inside another shape")
            self.counts[name] = f"SELECT {one} {{ {text} }} GROUP BY {one} {having}"
            return f"{name}({focus})"
        value, other = self.fresh(), self.fresh()
        wanted = self.qualifies(constraint, value)
        first = self.step(shape.path, focus, value)
        if count == 1:
            return f"EXISTS {{ {first} }}" if wanted == "true" else f"EXISTS {{ {first} FILTER({wanted}) }}"
        second = both([f"!sameTerm({value}, {other})", self.qualifies(constraint, other)])
        found = f"EXISTS {{ {self.step(shape.path, focus, other)} FILTER({second}) }}"
        return f"EXISTS {{ {first} FILTER({both([wanted, found])}) }}"

    # ---- queries of the shapes graph

    def body(self, query: Query, shape: Shape, focus: str, value: str | None) -> str:
        """The body of a query, bound, with its prefixes written out."""
        found = prebinding.parts(bound_text(query, shape, focus, value))
        return unroll(prebinding.expand(found.before, found.body), {focus[1:], *([value[1:]] if value else [])})

    def _sparql(self, constraint: Constraint, shape: Shape, focus: str) -> str:
        assert constraint.query is not None
        found = prebinding.parts(bound_text(constraint.query, shape, focus, None))
        words = {piece.word for piece in prebinding.tokens(found.head + found.tail)}
        if words & {*prebinding.AGGREGATES, "GROUP", "HAVING", "LIMIT", "OFFSET"}:
            raise NotCovered("a query that counts or groups stands inside another shape")
        return f"NOT EXISTS {{ {unroll(prebinding.expand(found.before, found.body), {focus[1:]})} }}"


def is_ask(constraint: Constraint) -> bool:
    """Whether a constraint is an ASK, which is asked of each value."""
    return constraint.query is not None and constraint.query.is_ask


def both(tests: list[str]) -> str:
    """Whether all tests hold; what is known beforehand is not asked."""
    told = [f"({test})" for test in tests if test != "true"]
    return "false" if "false" in tests else " && ".join(told) or "true"


def either(tests: list[str]) -> str:
    """Whether one of the tests holds."""
    told = [f"({test})" for test in tests if test != "false"]
    return "true" if "true" in tests else " || ".join(told) or "false"


def negated(test: str) -> str:
    """Whether a test does not hold."""
    return {"true": "false", "false": "true"}.get(test, f"!({test})")


def not_allowed(constraint: Constraint, predicate: str, value: str) -> str:
    """Whether a closed shape does not allow a property."""
    names = [str(one) for one in constraint.also if isinstance(one, ox.NamedNode)]
    type_, resource = (
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
        "<http://www.w3.org/2000/01/rdf-schema#Resource>",
    )
    taken = f"{predicate} NOT IN ({', '.join(names)})" if names else "true"
    return f"{taken} && !({predicate} = {type_} && sameTerm({value}, {resource}))"


@cache
def knows_pattern(pattern: str, flags: str) -> bool:
    """Whether Oxigraph has that regular expression."""
    rows: Any = ox.Store().query(f'SELECT (REGEX("a", {pattern}, {flags}) AS ?known) {{}}')
    return any(row["known"] is not None for row in rows)


def bound_text(query: Query, shape: Shape, focus: str, value: str | None) -> str:
    """A query with its values, the path and the focus node bound in it."""
    terms: dict[str, str] = {"this": focus, **({"value": value} if value is not None else {})}
    if shape.path is not None:
        terms["PATH"] = shape.path.text()
    pieces = {piece.name for piece in prebinding.tokens(query.text)}
    if "shapesGraph" in pieces:
        raise NotCovered("its query asks the shapes graph ($shapesGraph)")
    for name, term in query.bound.items():
        if name in pieces and isinstance(term, ox.BlankNode):
            raise NotCovered(f"its query is about a node without a name (${name})")
        terms[name] = str(term)
    return prebinding.bind(query.text, terms)


TESTS: dict[str, Callable[[Conditions, Constraint, str], str]] = {
    "class": Conditions._class,
    "datatype": Conditions._datatype,
    "nodeKind": Conditions._node_kind,
    "minLength": Conditions._length,
    "maxLength": Conditions._length,
    "pattern": Conditions._pattern,
    "languageIn": Conditions._language_in,
    "in": Conditions._in,
    "node": Conditions._node,
    "not": Conditions._not,
    "and": Conditions._and,
    "or": Conditions._or,
    "xone": Conditions._xone,
    **dict.fromkeys(COMPARED, Conditions._compared),
}
"""The constraints that each value meets or breaks by itself."""
