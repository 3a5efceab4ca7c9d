"""The SELECTs of a shape: each gives the rows that break it, for all focus nodes at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyoxigraph as ox

from provml.validation.compiled import prebinding
from provml.validation.compiled.condition import (
    INLINE,
    PAIRED,
    TESTS,
    Conditions,
    NotCovered,
    both,
    bound_text,
    is_ask,
    negated,
    not_allowed,
)
from provml.validation.compiled.exists import unroll_inside
from provml.validation.compiled.path import Path
from provml.validation.compiled.shape import Constraint, Shape, Targets

COUNTS = {"minCount", "maxCount", "qualifiedMinCount", "qualifiedMaxCount"}


@dataclass(frozen=True)
class Check:
    """A query and how its rows are read.

    `chain` are the variables that lead to the focus node, the last of which it is; `value` and `path` are variables
    of the row, where it has them. `tests` name a column for each constraint that a row may break: false where it does.
    Without them every row breaks `constraint`, but for those whose chain is in `less`. Where rows are not known to be
    distinct, one may come up twice.
    """

    text: str
    shape: Shape
    chain: tuple[str, ...]
    constraint: Constraint | None = None
    value: str | None = None
    path: str | None = None
    also: tuple[str, ...] = ()
    tests: tuple[tuple[str, Constraint], ...] = ()
    less: str | None = None
    is_query: bool = False
    is_distinct: bool = False


@dataclass(frozen=True)
class Place:
    """Where focus nodes come from: a pattern, and the variables that lead to them."""

    pattern: str
    chain: tuple[str, ...] = ("?this",)

    @property
    def is_distinct(self) -> bool:
        """Whether each node comes up once: targets do, what paths lead to may not."""
        return len(self.chain) == 1

    @property
    def is_plain(self) -> bool:
        """Whether Oxigraph may join it as it likes; what is collected first, it would join over the whole graph."""
        return self.pattern.startswith("?this a ")

    @property
    def focus(self) -> str:
        return self.chain[-1]


class Checks(Conditions):
    """Writes the checks of shapes."""

    def of_shape(self, shape: Shape) -> Iterator[Check]:
        """The checks of a shape that has targets."""
        pattern = self.targets(shape.targets)
        if pattern:
            yield from self._checks(shape, Place(pattern))

    def targets(self, targets: Targets) -> str:
        """The pattern of all focus nodes, each once, or nothing where there are none."""
        classes = dict.fromkeys(one for name in targets.classes for one in self.survey.members(name))
        found = [f"?this a {one} ." for one in classes]
        found += [f"?this {one} {self.fresh()} ." for one in targets.subjects_of if self.survey.occurs(one)]
        found += [f"{self.fresh()} {one} ?this ." for one in targets.objects_of if self.survey.occurs(one)]
        named = [str(one) for one in targets.nodes if not isinstance(one, ox.BlankNode)]
        if named:
            found.append(f"VALUES ?this {{ {' '.join(named)} }}")
        if len(found) == 1 and (classes or named):
            return found[0]
        either = " UNION ".join(f"{{ {one} }}" for one in found)
        return f"{{ SELECT DISTINCT ?this {{ {either} }} }}" if found else ""

    def _checks(self, shape: Shape, place: Place) -> Iterator[Check]:
        if shape.is_deactivated:
            return
        is_empty = shape.path is not None and shape.path.is_predicate and not self.survey.occurs(shape.path.node)
        if not is_empty:
            yield from self._tests(shape, place)
        for constraint in shape.constraints:
            if constraint.name in TESTS or is_ask(constraint):
                continue
            if not (
                is_empty and constraint.name in ("maxCount", "qualifiedMaxCount", "uniqueLang", "disjoint", *PAIRED)
            ):
                yield from self._whole(constraint, shape, place)
        if shape.properties and not is_empty:
            below = place
            if shape.path is not None:
                value = self.fresh()
                below = Place(self._walk(shape.path, place, value), (*place.chain, value))
            for node in shape.properties:
                yield from self._checks(self.shapes[node], below)

    def _walk(self, path: Path | None, place: Place, value: str) -> str:
        """The pattern of all focus nodes with their values."""
        if path is None:
            return f"{place.pattern} BIND({place.focus} AS {value})"
        if path.is_predicate and place.is_plain:
            return f"{place.pattern} {place.focus} {path.step} {value} ."
        walked = f"{{ {place.pattern} }} LATERAL {{ {place.focus} {path.step} {value} }}"
        if path.is_nullable:
            return f"{{ {walked} }} UNION {{ {place.pattern} BIND({place.focus} AS {value}) }}"
        return walked

    def _tests(self, shape: Shape, place: Place) -> Iterator[Check]:
        """One query for all that is asked of each value."""
        asked = [one for one in shape.constraints if one.name in TESTS or is_ask(one)]
        if not asked:
            return
        value = place.focus if shape.path is None else self.fresh()
        pattern = place.pattern if shape.path is None else self._walk(shape.path, place, value)
        tests = [self.test(one, shape, place.focus, value) for one in asked]
        if both(tests) == "true":
            return
        variables = " ".join(dict.fromkeys((*place.chain, value)))
        columns = tuple((f"?holds{number}", one) for number, one in enumerate(asked)) if len(asked) > 1 else ()
        told = " ".join(f"(({test}) AS {column})" for test, (column, _) in zip(tests, columns, strict=False))
        text = f"SELECT {variables} {told} {{ {pattern} FILTER({negated(both(tests))}) }}"
        constraint = None if columns else asked[0]
        is_distinct = place.is_distinct and (shape.path is None or shape.path.is_predicate)
        yield Check(text, shape, place.chain, constraint, value, tests=columns, is_distinct=is_distinct)

    def _whole(self, constraint: Constraint, shape: Shape, place: Place) -> Iterator[Check]:
        """The queries of one constraint on all values of a focus node together."""
        name, focus = constraint.name, place.focus
        value, other = self.fresh(), self.fresh()
        chain = " ".join(place.chain)
        check = Check("", shape, place.chain, constraint)
        if constraint.query is not None:
            yield self._query(constraint, shape, place)
        elif name in COUNTS and constraint.value > INLINE - ("Max" in name or name == "maxCount"):
            yield self._counted(constraint, shape, place)
        elif name in COUNTS or name == "hasValue":
            holds = self.holds(constraint, shape, focus)
            if holds != "true":
                text = f"SELECT {chain} {{ {place.pattern} FILTER({negated(holds)}) }}"
                yield replace(check, text=text, is_distinct=place.is_distinct)
        elif name == "uniqueLang" and constraint.value:
            shares = self.shares_language(shape.path, focus, value)
            walked = self._walk(shape.path, place, value)
            text = f"SELECT {chain} (LCASE(LANG({value})) AS {other}) {{ {walked} FILTER({shares}) }}"
            yield replace(check, text=text, also=(other,))
        elif name == "equals":
            unmatched = f"FILTER NOT EXISTS {{ {focus} {constraint.value} {value} }}"
            text = f"SELECT {chain} {value} {{ {self._walk(shape.path, place, value)} {unmatched} }}"
            yield replace(check, text=text, value=value)
            missing = f"FILTER(!({self.reaches(shape.path, focus, value)}))"
            text = f"SELECT {chain} {value} {{ {place.pattern} {focus} {constraint.value} {value} {missing} }}"
            yield replace(check, text=text, value=value)
        elif name == "disjoint":
            shared = f"FILTER({self.reaches(shape.path, focus, value)})"
            text = f"SELECT {chain} {value} {{ {place.pattern} {focus} {constraint.value} {value} {shared} }}"
            yield replace(check, text=text, value=value)
        elif name in PAIRED:
            pair = f"{self._walk(shape.path, place, value)} {focus} {constraint.value} {other}"
            less = f"FILTER(!COALESCE({value} {PAIRED[name]} {other}, false))"
            text = f"SELECT {chain} {value} {other} {{ {pair} {less} }}"
            yield replace(check, text=text, value=value, also=(other,))
        elif name == "closed" and constraint.value:
            predicate = self.fresh()
            walked = self._walk(shape.path, place, value) if shape.path is not None else place.pattern
            subject = value if shape.path is not None else focus
            barred = f"FILTER({not_allowed(constraint, predicate, other)})"
            variables = " ".join(dict.fromkeys((*place.chain, subject, predicate, other)))
            text = f"SELECT {variables} {{ {walked} {subject} {predicate} {other} {barred} }}"
            yield replace(check, text=text, value=other, path=predicate, also=(subject,))

    def _counted(self, constraint: Constraint, shape: Shape, place: Place) -> Check:
        """Many values are counted for all focus nodes at once; of too few, those that have enough are left out."""
        value, chain = self.fresh(), " ".join(place.chain)
        pattern = self._walk(shape.path, place, value)
        limit = f"> {constraint.value}" if "ax" in constraint.name else f">= {constraint.value}"
        wanted = self.qualifies(constraint, value)
        having = f"GROUP BY {chain} HAVING (COUNT(DISTINCT {value}) {limit})"
        counted = f"SELECT {chain} {{ {pattern} FILTER({wanted}) }} {having}"
        check = Check(counted, shape, place.chain, constraint)
        if "ax" in constraint.name:
            return check
        return replace(check, text=f"SELECT {chain} {{ {place.pattern} }}", less=counted)

    def _query(self, constraint: Constraint, shape: Shape, place: Place) -> Check:
        """A query of the shapes graph, evaluated from each focus node as if that were written in it."""
        assert constraint.query is not None
        if constraint.query.is_ask:
            raise NotCovered("it has an ASK query where a SELECT is needed")
        own = prebinding.parts(bound_text(constraint.query, shape, place.focus, None))
        focus, chain = place.focus[1:], " ".join(place.chain)
        words = {piece.word for piece in prebinding.tokens(own.head + own.tail)}
        head = prebinding.expand(own.before, own.head)
        pieces = prebinding.solid(prebinding.tokens(own.head))
        if all(piece.name != focus and piece.text != "*" for piece in pieces):
            if words & {*prebinding.AGGREGATES, "GROUP"}:
                raise NotCovered("its query counts or groups, and does not give $this")
            head += f" {place.focus}"
        body = unroll_inside(prebinding.expand(own.before, own.body), {focus})
        tail = prebinding.expand(own.before, own.tail)
        nodes = place.pattern if place.is_distinct else f"{{ SELECT DISTINCT {chain} {{ {place.pattern} }} }}"
        if place.is_distinct and not words & {"LIMIT", "OFFSET"} and prebinding.joins(own.body, focus):
            text = f"{head} {{ {nodes} {body} }} {tail}"
        else:
            text = f"SELECT * {{ {nodes} LATERAL {{ {head} {{ {body} }} {tail} }} }}"
        return Check(text, shape, place.chain, constraint, is_query=True)


def checks_of(checks: Checks, shape: Shape) -> tuple[list[Check], dict[str, Any]]:
    """The checks of a shape, and the counts that they need beforehand."""
    checks.counts = {}
    return list(checks.of_shape(shape)), checks.counts
