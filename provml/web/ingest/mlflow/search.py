"""The filters and orders of MLflow's searches: `metrics.loss < 0.9 and params.optimizer = 'Adam'`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from provml.web.problems import Problem

Lookup = Callable[[str, str], Any]
"""Returns the value of an entity (metric, param, tag, attribute, dataset) by its key; None if it has none."""
ENTITIES = {
    "metric": "metric", "metrics": "metric", "param": "param", "params": "param", "parameter": "param",
    "parameters": "param", "tag": "tag", "tags": "tag", "attribute": "attribute", "attributes": "attribute",
    "attr": "attribute", "run": "attribute", "dataset": "dataset", "datasets": "dataset",
}  # fmt: skip
ATTRIBUTES = {
    "run name": "run_name", "run_uuid": "run_id", "created": "start_time", "user": "user_id", "id": "run_id",
    "creation_timestamp": "creation_time", "last_updated_timestamp": "last_update_time",
}  # fmt: skip
_TOKEN = re.compile(
    r"""\s*(?:(?P<string>'(?:[^'\\]|\\.|'')*')|(?P<quoted>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<operator><=|>=|!=|<>|=|<|>)|(?P<mark>[(),.])|(?P<word>[A-Za-z_][\w\-/]*))""",
    re.X,
)


class Token(NamedTuple):
    """A piece of a filter: its kind and its value."""

    kind: str
    value: str


class Comparison(NamedTuple):
    """A condition: an entity and its key, an operator, and the value to compare with."""

    entity: str
    key: str
    operator: str
    value: Any


def invalid(message: str) -> Problem:
    """Return the error of a parameter that is not valid."""
    return Problem(400, "INVALID_PARAMETER_VALUE", message)


def parse_filter(text: str) -> list[Comparison]:
    """Parse a filter: conditions that are joined by AND."""
    parser = _Parser(text)
    comparisons: list[Comparison] = []
    while parser.more():
        if comparisons:
            parser.expect_word("and")
        comparisons.append(parser.comparison())
    return comparisons


def matches(comparisons: Iterable[Comparison], lookup: Lookup) -> bool:
    """Return whether something fulfils all conditions."""
    return all(_holds(comparison, lookup(comparison.entity, comparison.key)) for comparison in comparisons)


def sort(items: Iterable[Any], orders: Sequence[str], lookup_of: Callable[[Any], Lookup]) -> list[Any]:
    """Sort by orders such as `metrics.loss ASC`; what has no value comes last."""
    ordered = list(items)
    for text in reversed(orders):
        entity, key, is_descending = _parse_order(text)
        valued = [(lookup_of(item)(entity, key), item) for item in ordered]
        present = [(value, item) for value, item in valued if not _is_missing(value)]
        present.sort(key=lambda pair: _comparable(pair[0]), reverse=is_descending)
        ordered = [item for _, item in present] + [item for value, item in valued if _is_missing(value)]
    return ordered


def _parse_order(text: str) -> tuple[str, str, bool]:
    match = re.fullmatch(r"(.*?)(?:\s+(ASC|DESC))?", text.strip(), re.I | re.S)
    parser = _Parser(match[1] if match is not None else text)
    entity, key = parser.identifier()
    if parser.more():
        raise invalid(f"Invalid order_by clause {text!r}. Expected a key such as metrics.loss, and ASC or DESC.")
    return entity, key, match is not None and (match[2] or "").upper() == "DESC"


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise invalid(f"Invalid filter string {text!r}: {text[position : position + 20].strip()!r}.")
            self.tokens.append(Token(match.lastgroup, match[match.lastgroup]))
            position = match.end()
        self.position = 0

    def more(self) -> bool:
        return self.position < len(self.tokens)

    def take(self, *kinds: str) -> Token:
        token = self.tokens[self.position] if self.more() else Token("end", "the end")
        if token.kind not in kinds:
            raise invalid(f"Invalid filter string {self.text!r}: unexpected {token.value}.")
        self.position += 1
        return token

    def is_next(self, value: str) -> bool:
        return self.more() and self.tokens[self.position].value.lower() == value

    def expect_word(self, word: str) -> None:
        if not self.is_next(word):
            raise invalid(f"Invalid filter string {self.text!r}: expected {word.upper()}.")
        self.position += 1

    def identifier(self) -> tuple[str, str]:
        """Parse `metrics.x`, `tags."a b"`, or the name of an attribute."""
        first = self.take("word", "quoted")
        name = _unquote(first)
        if not self.is_next("."):
            return "attribute", ATTRIBUTES.get(name.lower(), name)
        self.position += 1
        entity = ENTITIES.get(name.lower())
        if entity is None:
            raise invalid(f"Invalid entity type {name!r}. Valid ones: {', '.join(sorted(set(ENTITIES)))}.")
        key = _unquote(self.take("word", "quoted", "number"))
        while self.is_next("."):
            self.position += 1
            key += "." + _unquote(self.take("word", "quoted", "number"))
        return entity, ATTRIBUTES.get(key.lower(), key) if entity == "attribute" else key

    def comparison(self) -> Comparison:
        entity, key = self.identifier()
        token = self.take("operator", "word")
        operator = token.value.upper()
        if operator == "IS":
            is_negated = self.is_next("not")
            self.position += is_negated
            self.expect_word("null")
            return Comparison(entity, key, "IS NOT NULL" if is_negated else "IS NULL", None)
        if operator == "NOT":
            self.expect_word("in")
            return Comparison(entity, key, "NOT IN", self._values())
        if operator == "IN":
            return Comparison(entity, key, "IN", self._values())
        if operator not in ("=", "!=", "<>", "<", "<=", ">", ">=", "LIKE", "ILIKE"):
            raise invalid(f"Invalid comparator {token.value!r} in the filter string {self.text!r}.")
        return Comparison(entity, key, operator, self._value(entity))

    def _value(self, entity: str) -> Any:
        token = self.take("string", "quoted", "number")
        if token.kind == "number":
            return float(token.value)
        text = _unquote(token)
        if entity == "metric":
            raise invalid(f"Expected a number, not {token.value}, in the filter string {self.text!r}.")
        return text

    def _values(self) -> list[Any]:
        values = []
        if not self.is_next("("):
            raise invalid(f"Invalid filter string {self.text!r}: IN needs a list in parentheses.")
        self.position += 1
        while not self.is_next(")"):
            values.append(self._value("attribute"))
            if self.is_next(","):
                self.position += 1
        self.position += 1
        return values


def _unquote(token: Token) -> str:
    if token.kind == "string":
        return token.value[1:-1].replace("''", "'").replace("\\'", "'")
    return token.value[1:-1] if token.kind == "quoted" else token.value


def _holds(comparison: Comparison, value: Any) -> bool:
    operator = comparison.operator
    if operator in ("IS NULL", "IS NOT NULL"):
        return (value is None) == (operator == "IS NULL")
    if isinstance(value, (list, tuple, set)):
        return any(_holds(comparison, item) for item in value)
    if value is None:
        return False
    expected = comparison.value
    if operator in ("LIKE", "ILIKE"):
        pattern = re.escape(str(expected)).replace("%", ".*").replace("_", ".")
        return re.fullmatch(pattern, str(value), re.S | (re.I if operator == "ILIKE" else 0)) is not None
    if operator in ("IN", "NOT IN"):
        return (str(value) in map(str, expected)) == (operator == "IN")
    if isinstance(expected, float) and not isinstance(value, (int, float)):
        expected = str(expected)
    if isinstance(expected, str) and not isinstance(value, str):
        value = str(value)
    return _compare(operator, value, expected)


def _compare(operator: str, value: Any, expected: Any) -> bool:
    if operator in ("=", "!=", "<>"):
        return bool(value == expected) == (operator == "=")
    compare: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
    return compare[operator](value, expected)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _comparable(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))
