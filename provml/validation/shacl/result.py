"""One violation with all terms of a SHACL report, and its message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import SH
from provml.validation.datatypes import restore
from provml.validation.results import Result, show_term, sort_messages
from provml.validation.shacl.model import Constraint, Shape
from provml.validation.shacl.path import Path

DEFAULT_MESSAGES = {
    "class": "The value is not an instance of {}.",
    "datatype": "The value does not have the datatype {}.",
    "nodeKind": "The value is not of the node kind {}.",
    "minExclusive": "The value is not greater than {}.",
    "minInclusive": "The value is less than {}.",
    "maxExclusive": "The value is not less than {}.",
    "maxInclusive": "The value is greater than {}.",
    "minLength": "The text is shorter than {} characters.",
    "maxLength": "The text is longer than {} characters.",
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
    "uniqueLang": "Two values have the same language.",
    "equals": "The values differ from those of {}.",
    "disjoint": "The value is also a value of {}.",
    "lessThan": "The value is not less than that of {}.",
    "lessThanOrEquals": "The value is greater than that of {}.",
    "hasValue": "The value {} is missing.",
    "closed": "The property is not allowed here.",
}
"""The messages of constraints whose shape has none."""


@dataclass(frozen=True)
class ShaclResult:
    """A violation; `path` is the path of the shape, or a predicate that a query or a closed shape names."""

    focus: Any
    path: Path | Any | None
    value: Any
    constraint: Constraint
    shape: Shape
    messages: tuple[tuple[str, str], ...]

    @property
    def message(self) -> str:
        """The message for the reader: without a language, else in English, else in any."""
        return self.messages[0][0]

    @property
    def component(self) -> str:
        """The IRI of the constraint component."""
        return self.constraint.component

    def to_result(self, values: Iterable[Any] = ()) -> Result:
        """Convert to a result of a report; `values` are shown if SHACL itself reports none."""
        shown = [self.value] if self.value is not None else list(values)
        path = self.path.description if isinstance(self.path, Path) else None if self.path is None else str(self.path)
        return Result(
            focus=_node_text(self.focus),
            path=path[1:-1] if path is not None and path.startswith("<") else path,
            values=tuple(sorted(map(show_term, shown))),
            message=self.message,
            shape=_node_text(self.shape.node),
            severity=self.shape.severity.removeprefix(SH),
            component=self.component.removeprefix(SH).removesuffix("ConstraintComponent"),
            value="" if self.value is None else str(self.value),
            messages=self.messages if len(self.messages) > 1 or self.messages[0][1] else (),
        )


def excess_values(store: ox.Store, result: ShaclResult) -> list[Any]:
    """Return all values of a violated sh:maxCount, since any of them may be the wrong one."""
    path = result.path
    if result.constraint.name != "maxCount" or not isinstance(path, Path) or not path.is_predicate:
        return []
    if isinstance(result.focus, ox.Literal):
        return []
    return [restore(quad.object) for quad in store.quads_for_pattern(result.focus, path.node, None, ox.DefaultGraph())]


def result_messages(shape: Shape, constraint: Constraint, bindings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the messages of the constraint, of the shape, of the query row, or the default one, with languages."""
    for messages in (constraint.messages, shape.messages):
        if messages:
            return sort_messages((_fill(message.value, bindings), message.language or "") for message in messages)
    if bindings.get("message") is not None:
        message = bindings["message"]
        return ((str(message.value), getattr(message, "language", None) or ""),)
    values = constraint.value if isinstance(constraint.value, tuple) else (constraint.value,)
    text = ", ".join(str(value) if isinstance(value, (int, str)) else show_term(value) for value in values)
    return ((DEFAULT_MESSAGES.get(constraint.name, "The constraint is violated.").format(text), ""),)


def _fill(text: str, bindings: Mapping[str, Any]) -> str:
    """Replace the placeholders {?name} and {$name} of bound variables."""

    def value(match: re.Match[str]) -> str:
        term = bindings.get(match[1])
        return match[0] if term is None else str(getattr(term, "value", term))

    return re.sub(r"\{[?$](\w+)\}", value, text)


def _node_text(term: Any) -> str:
    return str(term.value) if isinstance(term, ox.NamedNode) else str(term)
