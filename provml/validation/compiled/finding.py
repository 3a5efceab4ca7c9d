"""One node that breaks one constraint, with every term that a SHACL report has, and what it says to people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyoxigraph as ox

from provml.validation.compiled.path import Path
from provml.validation.compiled.shape import SH, Constraint, Shape
from provml.validation.report import Report, Result, shown

SAID = {
    "class": "The value is not of class {}.",
    "datatype": "The value is not of datatype {}.",
    "nodeKind": "The value is not of kind {}.",
    "minExclusive": "The value is not above {}.",
    "minInclusive": "The value is below {}.",
    "maxExclusive": "The value is not below {}.",
    "maxInclusive": "The value is above {}.",
    "minLength": "The text is shorter than {}.",
    "maxLength": "The text is longer than {}.",
    "pattern": "The text does not match {}.",
    "languageIn": "The language is not one of {}.",
    "in": "The value is not one of {}.",
    "node": "The value does not conform to the shape {}.",
    "not": "The value conforms to {}, which is excluded.",
    "and": "The value does not conform to all of {}.",
    "or": "The value conforms to none of {}.",
    "xone": "The value does not conform to exactly one of {}.",
    "minCount": "There are fewer than {} values.",
    "maxCount": "There are more than {} values.",
    "qualifiedMinCount": "Fewer than {} values conform.",
    "qualifiedMaxCount": "More than {} values conform.",
    "uniqueLang": "Two values are in one language.",
    "equals": "The values differ from those of {}.",
    "disjoint": "The value is also one of {}.",
    "lessThan": "The value is not less than that of {}.",
    "lessThanOrEquals": "The value is more than that of {}.",
    "hasValue": "The value {} is missing.",
    "closed": "The property is not allowed here.",
}
"""What is said of a broken constraint where its shape says nothing."""


@dataclass(frozen=True)
class Finding:
    """A validation result; `path` is the shape's path, or a predicate that a query or a closed shape names."""

    focus: Any
    path: Path | Any | None
    value: Any
    constraint: Constraint
    shape: Shape
    message: str

    @property
    def component(self) -> str:
        """The IRI of the constraint component."""
        return self.constraint.component

    def result(self, values: Iterable[Any] = ()) -> Result:
        """It as a report has it; `values` are those to show where SHACL itself names none."""
        told = [self.value] if self.value is not None else list(values)
        path = None if self.path is None else self.path.told if isinstance(self.path, Path) else str(self.path)
        return Result(
            focus=_plain(self.focus),
            path=None if path is None else path[1:-1] if path.startswith("<") else path,
            values=tuple(sorted(map(shown, told))),
            message=self.message,
            shape=_plain(self.shape.node),
            severity=self.shape.severity.removeprefix(SH),
            component=self.component.removeprefix(SH).removesuffix("ConstraintComponent"),
            value="" if self.value is None else str(self.value),
        )


def too_many(store: ox.Store, finding: Finding) -> list[Any]:
    """All values where there are more than there may be: which ones are too many, nobody can say."""
    path = finding.path
    if finding.constraint.name != "maxCount" or not isinstance(path, Path) or not path.is_predicate:
        return []
    if isinstance(finding.focus, ox.Literal):
        return []
    return [quad.object for quad in store.quads_for_pattern(finding.focus, path.node, None, ox.DefaultGraph())]


def say(shape: Shape, constraint: Constraint, bound: Mapping[str, Any]) -> str:
    """The message of a result: the constraint's own, the shape's, or one of ours; with its placeholders filled in."""
    for messages in (constraint.messages, shape.messages):
        if messages:
            return min(_filled(one.value, bound) for one in messages)
    if bound.get("message") is not None:
        return str(bound["message"].value)
    asked = constraint.value if isinstance(constraint.value, tuple) else (constraint.value,)
    told = ", ".join(shown(one) if not isinstance(one, (int, str)) else str(one) for one in asked)
    return SAID.get(constraint.name, "It does not hold.").format(told)


def _filled(text: str, bound: Mapping[str, Any]) -> str:
    def value(found: re.Match[str]) -> str:
        term = bound.get(found[1])
        return found[0] if term is None else str(getattr(term, "value", term))

    return re.sub(r"\{[?$](\w+)\}", value, text)


def report(results: Iterable[Result]) -> Report:
    """Results as a report, in the order of the reference engine's."""
    order = sorted(results, key=lambda r: (r.severity, r.message, r.focus, r.path or "", r.component, r.values))
    return Report(tuple(order))


def _plain(term: Any) -> str:
    return str(term.value) if isinstance(term, ox.NamedNode) else str(term)
