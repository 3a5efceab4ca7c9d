"""Check a query before it is executed: its nesting, its length, and calls to other machines.

Oxigraph parses and plans by recursion, and a stack overflow ends the process. With a stack of 8 MB (Oxigraph 0.5.13)
this happened at 670 nested `NOT EXISTS`, 860 nested calls, 3,800 items of a list, 2,500 `MINUS` and 6,300 `BIND` in a
row. Rows of VALUES and the text of literals and IRIs need no stack. The limits keep a distance from these numbers.

Oxigraph also orders the patterns of a join before it starts, which takes longer the more there are and cannot be
stopped: 100 patterns over the same variables took 1 s, 150 took 6 s, and a path of 1,400 steps took 4 minutes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from provml.errors import QueryError, ServiceNotAllowed

MAX_DEPTH = 100
"""Depth of nested brackets."""
MAX_TOKENS = 3000
"""Number of words and signs, without rows of VALUES."""
MAX_JOINS = 100
"""Number of patterns that are joined: triples, steps of paths, items of lists."""
MAX_CHARS = 1 << 20

EXAMPLE = "SELECT * { ?s ?p ?o } LIMIT 10"

_TOKEN = re.compile(
    r"(?P<text>"
    r'"""(?:[^"\\]|\\.|"(?!""))*"""'
    r"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    r'|"(?:[^"\\\n\r]|\\.)*"'
    r"|'(?:[^'\\\n\r]|\\.)*')"
    r"|(?P<iri><(?:[^<>\"{}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>)"
    r"|(?P<tag>@[A-Za-z]+(?:-+[A-Za-z0-9]+)*)"
    r"|(?P<comment>#[^\n\r]*)"
    r"|(?P<variable>[?$]\w+)"
    r"|(?P<word>(?:[\w:%\-]|[^\x00-\x7f]|\\.)+)"
    r"|(?P<sign>\S)",
    re.DOTALL,
)
_EMPTY = re.compile(r"(?:\s|#[^\n\r]*|(?:prefix\s+[^\s<>]*|base)\s*<[^<>]*>)*+", re.IGNORECASE)
"""Whitespace, comments and prefixes."""
_SERVICE = re.compile(r"[^:]*service", re.IGNORECASE)
"""In a word, but not in the local part of a name; the engine splits `trueSERVICE` and `SERVICEx:y` into two tokens."""
_VALUES = re.compile(r"(?<![^\s{}()])values(?=[\s?$(#])", re.IGNORECASE)
"""The keyword by itself: in `a:b.values` it is part of a name."""
_INNER_TOKENS = re.compile(r"true|false|-", re.IGNORECASE)
"""Where the engine splits a word: `1-1-1`, `truetrue`."""
_AMBIGUOUS = re.compile(r"[#()\[\]']")
"""Characters that have another meaning if `<…>` is no IRI: `1<2)#>` is a comparison, a bracket and a comment."""
_OPERATORS = frozenset("(,;=!&|<+-*/^")
"""In parentheses, `<` after one of these starts an IRI; after anything else it may be a comparison."""
_SEPARATORS = _OPERATORS | frozenset(">.")
"""After one of these, a word is not the next item of a list."""
_INDEPENDENT = frozenset(("union", "optional", "minus", "exists"))
"""A group after one of these is planned separately."""


def is_empty(sparql: str) -> bool:
    """True if a query consists of whitespace, comments and prefixes."""
    return _EMPTY.fullmatch(sparql) is not None


def check(sparql: str, *, service: bool = False) -> None:
    """Raise an error for a query that would crash the process, is empty, or calls another machine."""
    if len(sparql) > MAX_CHARS:
        raise QueryError(f"more than {MAX_CHARS:,} characters")
    if is_empty(sparql):
        raise QueryError("the query is empty", f"Pass one such as {EXAMPLE}.")
    try:
        sparql.encode()
    except UnicodeEncodeError as error:
        reason = f"{sparql[error.start]!r} at character {error.start + 1} is not a Unicode character"
        raise QueryError(reason, "Write the query in UTF-8.") from None
    _Scanner(sparql, service=service).scan()


class _Token(NamedTuple):
    """A token, and how many tokens the engine may make of it at most."""

    kind: str | None
    text: str
    size: int


class _Scanner:
    """Count the tokens, the depth and the joins of a query."""

    def __init__(self, sparql: str, *, service: bool) -> None:
        self.sparql = sparql
        self.service = service
        self.brackets: list[str] = []
        self.joins = _JoinCounter()
        self.tokens = 0
        self.values_depth: int | None = None  # depth of the keyword VALUES, until its rows end
        self.in_values = False  # inside the rows of VALUES
        self.previous = self.before_previous = ""

    def scan(self) -> None:
        """Raise an error at the first token beyond a limit."""
        for match in _TOKEN.finditer(self.sparql):
            if match.lastgroup == "comment":
                continue
            token = _Token(match.lastgroup, match[0], self._size(match))
            if not self.in_values:
                self.joins.add(token, self.previous, in_parentheses=self.brackets[-1:] == ["("])
                self.tokens += token.size
            if self.tokens > MAX_TOKENS:
                raise QueryError(f"more than {MAX_TOKENS:,} words and signs", "Move long lists into VALUES.")
            self.before_previous, self.previous = self.previous, token.text

    def _size(self, match: re.Match[str]) -> int:
        """Update the state for a token, and return how many tokens the engine may make of it."""
        kind, text = match.lastgroup, match[0]
        if kind == "iri" and not self.in_values and self._may_be_comparison(match.start()):
            if _AMBIGUOUS.search(text):
                advice = "Put a space after <, or use a prefix."
                raise QueryError(f"{text[:40]!r} can be an IRI or a comparison", advice)
            return len(text)
        if kind == "sign" and text in "({[":
            self._open(text)
        elif kind == "sign" and text in ")}]":
            self._close(text)
        elif kind == "word":
            return self._word(match)
        return 1

    def _open(self, bracket: str) -> None:
        is_triple = bracket == "(" and self.before_previous == self.previous == "<"  # it contains no comparison
        self.brackets.append("<<(" if is_triple else bracket)
        self.in_values = self.in_values or (self.values_depth is not None and bracket == "{")
        self.joins.open(self.brackets, self.previous, self.in_values)
        if len(self.brackets) > MAX_DEPTH:
            raise QueryError(f"more than {MAX_DEPTH} levels of nesting")

    def _close(self, bracket: str) -> None:
        del self.brackets[-1:]
        self.joins.close(bracket)
        if self.in_values and len(self.brackets) == self.values_depth:
            self.in_values, self.values_depth = False, None

    def _word(self, match: re.Match[str]) -> int:
        text = match[0]
        if not self.service and _SERVICE.match(text):
            raise ServiceNotAllowed()
        if self.values_depth is None and _VALUES.match(self.sparql, match.start()):
            self.values_depth = len(self.brackets)
        if text.lower() == "select":
            self.joins.start_subquery()
        return 1 + len(_INNER_TOKENS.findall(text))

    def _may_be_comparison(self, start: int) -> bool:
        """True if `<` may mean "less than": after an operand in parentheses, or as the second of `<<`."""
        if self.sparql[start - 1 : start] == "<":
            return True
        is_after_triple = self.previous == self.before_previous == ">"  # <<( … )>> is an operand
        is_operand = self.previous not in _OPERATORS and (self.previous != ">" or is_after_triple)
        return self.brackets[-1:] == ["("] and is_operand


class _JoinCounter:
    """Upper bound for the number of patterns that each group joins."""

    def __init__(self) -> None:
        self.counts = [0]
        self.is_independent = [True]

    def open(self, brackets: list[str], previous: str, in_values: bool) -> None:
        """Enter a bracket: a group is joined with the group around it unless the keyword before says otherwise."""
        bracket = brackets[-1]
        if bracket == "{":
            self.counts.append(1)
            self.is_independent.append(in_values or previous.lower() in _INDEPENDENT)
        elif not in_values and (bracket != "(" or (brackets[-2:-1] == ["("] and previous in ")]")):  # a nested list
            self.counts[-1] += 1 if bracket == "[" else 2

    def close(self, bracket: str) -> None:
        """Leave a bracket."""
        if bracket == "}" and len(self.counts) > 1:
            count = self.counts.pop()
            self.counts[-1] += 0 if self.is_independent.pop() else count

    def start_subquery(self) -> None:
        """Mark the current group as a sub-query, which is planned separately."""
        self.is_independent[-1] = True

    def add(self, token: _Token, previous: str, *, in_parentheses: bool) -> None:
        """Count a token of a group, outside the rows of VALUES."""
        count = 0
        if token.kind == "sign":
            count = int(token.text in ("/" if in_parentheses else "/.;,"))
            if (previous, token.text) in (("<", "<"), ("{", "|")):  # a reified triple is several patterns
                count = 3
        elif in_parentheses and "as" not in (token.text.lower(), previous.lower()):  # adjacent words are list items
            items = 1 if ":" in token.text else token.size - token.text.startswith("-")
            count = items - (previous in _SEPARATORS)
        self.counts[-1] += count
        if self.counts[-1] > MAX_JOINS:
            reason = f"a group joins more than {MAX_JOINS} patterns (triples, steps of paths, items of lists)"
            raise QueryError(reason, "Move some into sub-queries, { SELECT … }, or values into VALUES.")
