"""The conditions of `store.table(where=…)`: a small grammar that is parsed and checked, never evaluated as Python.

condition  = conjunction { "or" conjunction }
conjunction = negation { "and" negation }
negation   = "not" negation | "(" condition ")" | comparison
comparison = operand [ operator operand | [ "not" ] "contains" "text" | [ "not" ] "in" "(" literal { "," literal } ")" ]
operator   = "==" | "=" | "!=" | "<" | "<=" | ">" | ">="
operand    = column | literal
literal    = number | "text" | 'text' | true | false | null | nan | inf

A column whose name is not a word is written in backquotes. A missing value equals only `null`, and no order holds for
it; `!=`, `not in` and `not contains` are the opposites of `==`, `in` and `contains`.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

from provml.errors import FilterError

MAX_DEPTH = 50
"""Nested parentheses and negations that a condition may have."""
MAX_SUGGESTIONS = 3
MAX_LISTED = 20
"""Columns that a message lists if none is similar; each hyperparameter and measure is a column."""
KEYWORDS = {"and", "or", "not", "in", "contains"}
CONSTANTS: dict[str, Any] = {
    "true": True, "false": False, "null": None, "none": None, "nan": float("nan"), "inf": float("inf"),
}  # fmt: skip
ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_PYTHON_OPERATORS = {"&&": "and", "||": "or", "&": "and", "|": "or", "!": "not", "<>": "!=", "~": "not", "=>": ">="}

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])|[-+]inf\b)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<column>`[^`]+`)
    | (?P<word>[^\W\d][\w.\-]*)
    | (?P<wrong>&&|\|\||<>|=>|&|\||~|!(?!=))
    | (?P<symbol>==|!=|<=|>=|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

Row = Mapping[str, Any]
Predicate = Callable[[Row], bool]


class Token(NamedTuple):
    """A part of a condition: its kind, its text, and where it starts and ends."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Operand:
    """A column, or a literal value (`column` is empty)."""

    token: Token
    column: str = ""
    value: Any = None

    def of(self, row: Row) -> Any:
        """Return the value in a row."""
        return row.get(self.column) if self.column else self.value


def compile_filter(text: str, columns: Mapping[str, Sequence[Any]], resolve: Callable[[str], str | None]) -> Predicate:
    """Return the predicate of a condition on rows.

    `columns` has the values of each column, by which the types of literals are checked. `resolve` returns the column
    that a name means, or None.
    """
    return _Parser(text, columns, resolve).parse()


def suggest_columns(name: str, columns: Iterable[str]) -> str:
    """Return a sentence with similar column names, or with those that there are."""
    names = list(columns)
    if close := similar_columns(name, names):
        return f"Did you mean {', '.join(map(quoted, close))}?"
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"Columns: {', '.join(map(quoted, names[:MAX_LISTED]))}{more}."


def similar_columns(name: str, columns: Sequence[str]) -> list[str]:
    """Return the columns with a similar name, or with the name as a part of theirs."""
    by_lower = {column.lower(): column for column in columns}
    close = [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, MAX_SUGGESTIONS)]
    close += [column for column in columns if name.lower() in column.lower() and column not in close]
    return close[:MAX_SUGGESTIONS]


def quoted(column: str) -> str:
    """Return a column as a condition has to write it: in backquotes if it is not a word."""
    match = _TOKEN.match(column)
    is_word = match is not None and match.lastgroup == "word" and match.end() == len(column)
    return column if is_word and column.lower() not in KEYWORDS | CONSTANTS.keys() else f"`{column}`"


class _Parser:
    """A parser by recursive descent; each rule returns a predicate."""

    def __init__(self, text: str, columns: Mapping[str, Sequence[Any]], resolve: Callable[[str], str | None]) -> None:
        self.text = text
        self.columns = columns
        self.resolve = resolve
        self.tokens = self._tokenize()
        self.position = 0
        self.depth = 0

    def parse(self) -> Predicate:
        if self.current.kind == "end":
            self.fail("the condition is empty", "Write a comparison, such as learning_rate > 0.01.", self.current)
        predicate = self.condition()
        token = self.current
        if token.kind != "end":
            self.fail(f"{token.text!r} does not continue the condition", self._advice_on(token), token)
        return predicate

    # ---- tokens

    def _tokenize(self) -> list[Token]:
        tokens, position = [], 0
        length = len(self.text.rstrip())
        while position < length:
            match = _TOKEN.match(self.text, position)
            if match is None or match.lastgroup is None:
                self._fail_at_character(position)
            kind, start, end = match.lastgroup, match.start(match.lastgroup), match.end()
            token = Token(kind, self.text[start:end], start, end)
            if kind == "wrong":
                self.fail(f"there is no operator {token.text!r}", f"Write {_PYTHON_OPERATORS[token.text]!r}.", token)
            if kind == "word" and token.text.lower() in KEYWORDS:
                token = token._replace(kind=token.text.lower())
            tokens.append(token)
            position = end
        return [*tokens, Token("end", "", length, length + 1)]

    def _fail_at_character(self, position: int) -> NoReturn:
        start = position + len(self.text[position:]) - len(self.text[position:].lstrip())
        character = self.text[start]
        token = Token("", character, start, start + 1)
        if character in "\"'`":
            self.fail(f"the {character} is not closed", f"Add another {character}.", token)
        word = re.match(r"[\w.+-]+", self.text[start:])
        if word is not None:
            advice = "Put the name of a column in `backquotes`, and text in quotes."
            self.fail(f"{word[0]!r} is neither a number nor a name", advice, token._replace(end=start + word.end()))
        self.fail(f"unexpected {character!r}", "Use comparisons, and, or, not, in and parentheses.", token)

    @property
    def current(self) -> Token:
        return self.tokens[self.position]

    def accept(self, *texts: str) -> Token | None:
        """Return the current token and go on, if it is one of some keywords or symbols."""
        token = self.current
        if (token.kind if token.kind in KEYWORDS else token.text if token.kind == "symbol" else "") in texts:
            self.position += 1
            return token
        return None

    def expect(self, text: str, advice: str) -> None:
        if not self.accept(text):
            token = self.current
            self.fail(f"expected {text!r} {_position(token)}", advice, token)

    def fail(self, problem: str, advice: str, token: Token) -> NoReturn:
        raise self.error(problem, advice, token)

    def error(self, problem: str, advice: str, token: Token) -> FilterError:
        return FilterError(problem, advice, self.text, token.start, token.end)

    def _advice_on(self, token: Token) -> str:
        if token.text in ORDERS or token.text in ("=", "==", "!="):
            return "Join two comparisons by 'and': 0.01 < rate and rate < 0.1."
        if token.text == ")":
            return "Remove it, or add the '(' that it closes."
        return "Join comparisons by 'and' or 'or'."

    # ---- rules

    def condition(self) -> Predicate:
        parts = [self.conjunction()]
        while self.accept("or"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else lambda row: any(part(row) for part in parts)

    def conjunction(self) -> Predicate:
        parts = [self.negation()]
        while self.accept("and"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else lambda row: all(part(row) for part in parts)

    def negation(self) -> Predicate:
        token = self.current
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} nested conditions", "Write a simpler condition.", token)
        if self.accept("not"):
            inner = self.negation()
            predicate: Predicate = lambda row: not inner(row)  # noqa: E731
        elif self.accept("("):
            predicate = self.condition()
            self.expect(")", f"Close the '(' of column {token.start + 1}.")
        else:
            predicate = self.comparison()
        self.depth -= 1
        return predicate

    def comparison(self) -> Predicate:
        first = self.operand()
        negated = self.accept("not") is not None
        if self.accept("in"):
            values = self.literals(first)
            return lambda row: any(_equal(first.of(row), value) for value in values) is not negated
        if self.accept("contains"):
            return self._contains(first, negated=negated)
        if negated:
            self.fail(
                f"expected 'in' after 'not' {_position(self.current)}", "Write not before the column.", self.current
            )
        token = self.accept("==", "=", "!=", *ORDERS)
        if token is None:
            return self._truth_of(first)
        second = self.operand()
        self._check_types(first, second)
        if token.text in ORDERS:
            order = ORDERS[token.text]
            return lambda row: _ordered(order, first.of(row), second.of(row))
        expected = token.text != "!="
        return lambda row: _equal(first.of(row), second.of(row)) is expected

    def _contains(self, first: Operand, *, negated: bool) -> Predicate:
        second = self.operand(literal="'contains'")
        part = second.value
        if not isinstance(part, str):
            self.fail("'contains' takes text", "Write it in quotes.", second.token)
        self._check_types(first, second)
        return lambda row: (part in str(first.of(row) or "")) is not negated

    def _truth_of(self, operand: Operand) -> Predicate:
        if not operand.column or "boolean" not in self._kinds(operand):
            text = operand.token.text
            self.fail(
                f"{text} is not compared with anything", f"Add a comparison, such as {text} != null.", operand.token
            )
        return lambda row: operand.of(row) is True

    def literals(self, first: Operand) -> list[Any]:
        advice = 'Write a list, such as in ("Adam", "SGD").'
        self.expect("(", advice)
        values = []
        while True:
            value = self.operand(literal="the list of 'in'")
            self._check_types(first, value)
            values.append(value.value)
            if not self.accept(","):
                break
        self.expect(")", advice)
        return values

    def operand(self, literal: str = "") -> Operand:
        """Parse a column or a literal; only a literal in the place that `literal` names."""
        token = self.current
        self.position += token.kind != "end"
        if token.kind == "number":
            return Operand(token, value=_number(token.text))
        if token.kind == "text":
            return Operand(token, value=_ESCAPE.sub(_unescape, token.text[1:-1]))
        if token.kind == "word" and token.text.lower() in CONSTANTS and self.resolve(token.text) is None:
            return Operand(token, value=CONSTANTS[token.text.lower()])
        if token.kind in ("word", "column"):
            name = token.text.strip("`")
            column = self.resolve(name)
            if literal:
                self.fail(f"{literal} takes values", f'If {name} is text, write "{name}".', token)
            if column is None:
                self._fail_at_name(token, name)
            return Operand(token, column=column)
        raise self.error(f"expected a column or a value {_position(token)}", "Complete the comparison.", token)

    def _fail_at_name(self, token: Token, name: str) -> NoReturn:
        previous = self.tokens[self.position - 2].text if self.position > 1 else ""
        advice = suggest_columns(name, self.columns)
        if previous in ORDERS or previous in ("=", "==", "!="):
            advice = f'If it is text, write "{name}".'
            if similar_columns(name, list(self.columns)):
                advice += f" {suggest_columns(name, self.columns)}"
        self.fail(f"no column {name!r}", advice, token)

    # ---- types

    def _kinds(self, operand: Operand) -> set[str]:
        values = self.columns.get(operand.column, ()) if operand.column else (operand.value,)
        return {_kind(value) for value in values if value is not None}

    def _check_types(self, first: Operand, second: Operand) -> None:
        """Raise an error for a comparison that no row can fulfil, such as of a number with text."""
        kinds, others = self._kinds(first), self._kinds(second)
        if not kinds or not others or kinds & others:
            return
        if "time" in kinds | others and "text" in kinds | others:
            for operand in (first, second):
                if not operand.column and _time(operand.value) is None:
                    advice = 'Write "2026-11-18" or "2026-11-18 14:30".'
                    self.fail(f"{operand.token.text} is not a time", advice, operand.token)
            return
        wrong = second if not second.column else first
        other = first if wrong is second else second
        advice = f"{quoted(other.column) if other.column else other.token.text} has {_listed(self._kinds(other))}."
        if isinstance(wrong.value, str) and "number" in self._kinds(other):
            advice += " Write numbers without quotes."
        self.fail(f"{wrong.token.text} is {_listed(self._kinds(wrong), single=True)}", advice, wrong.token)


def _position(token: Token) -> str:
    return "at the end" if token.kind == "end" else f"before {token.text!r}"


def _unescape(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t"}.get(match[1], match[1])


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    if isinstance(value, (datetime, date)):
        return "time"
    return "text" if isinstance(value, str) else type(value).__name__


def _listed(kinds: set[str], *, single: bool = False) -> str:
    nouns = {"number": "a number", "boolean": "true or false", "time": "a time"}
    plurals = {"number": "numbers", "boolean": "true or false", "time": "times"}
    return " and ".join((nouns if single else plurals).get(kind, kind) for kind in sorted(kinds))


def _time(value: Any) -> datetime | None:
    """Return a value as a time in UTC; a text without a zone is in local time, as tables show times."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return value.astimezone(UTC) if isinstance(value, datetime) else None


def _comparable(first: Any, second: Any) -> tuple[Any, Any] | None:
    """Return two values as values of the same kind, or None if there is no order between them."""
    kinds = {_kind(first), _kind(second)}
    if "time" in kinds:
        first, second = _time(first), _time(second)
        return None if first is None or second is None else (first, second)
    return (first, second) if len(kinds) == 1 else None


def _equal(first: Any, second: Any) -> bool:
    if first is None or second is None:
        return first is second
    pair = _comparable(first, second)
    if pair is None:
        return False
    first, second = pair
    return bool(first == second) or (first != first and second != second)


def _ordered(order: Callable[[Any, Any], bool], first: Any, second: Any) -> bool:
    if first is None or second is None:
        return False
    pair = _comparable(first, second)
    try:
        return pair is not None and bool(order(*pair))
    except TypeError:  # values of a type without an order
        return False
