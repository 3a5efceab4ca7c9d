"""Queries of SHACL-SPARQL as text: their tokens, restrictions on pre-bound variables, and the binding of values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

_TOKEN = re.compile(
    r'(?P<text>"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*\'\'\'|"(?:[^"\\\n\r]|\\.)*"|\'(?:[^\'\\\n\r]|\\.)*\')'
    r"|(?P<iri><[^<>\"{}|^`\\\x00-\x20]*>)"
    r"|(?P<comment>#[^\n]*)"
    r"|(?P<space>\s+)"
    r"|[?$](?P<variable>\w+)"
    r"|(?P<name>[\w.-]*:(?:[\w%:-]|\\.|\.(?=\.*[\w%:\\-]))*|@[\w-]+)"
    r"|(?P<word>\w+)"
    r"|(?P<mark>\^\^|&&|\|\||[<>!]=|.)",
    re.DOTALL,
)
AGGREGATES = {"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"}


class Token(NamedTuple):
    """A token of a query: its kind, its text, and the name of a variable."""

    kind: str
    text: str
    name: str = ""

    @property
    def word(self) -> str:
        """The keyword in upper case, or an empty string."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def is_blank(self) -> bool:
        """Whether the token is white space or a comment."""
        return self.kind in ("space", "comment")


def tokenize(text: str) -> list[Token]:
    """Split a query into tokens; joined, their texts give the query."""
    return [Token(str(match.lastgroup), match[0], match["variable"] or "") for match in _TOKEN.finditer(text)]


def without_blanks(tokens: Iterable[Token]) -> list[Token]:
    """Return the tokens without white space and comments."""
    return [token for token in tokens if not token.is_blank]


def join(tokens: Iterable[Token]) -> str:
    """Return the text of tokens."""
    return "".join(token.text for token in tokens)


def words(text: str) -> set[str]:
    """Return the keywords and other words of a query in upper case."""
    return {token.word for token in tokenize(text)}


def variable_names(tokens: Iterable[Token]) -> set[str]:
    """Return the names of the variables among tokens."""
    return {token.name for token in tokens if token.name}


def prefixes(text: str) -> set[str]:
    """Return the prefixes of the names of a query, without those of blank nodes and declarations."""
    tokens = without_blanks(tokenize(text))
    names = [
        token.text.partition(":")[0]
        for previous, token in pairwise([Token("word", ""), *tokens])
        if token.kind == "name" and ":" in token.text and previous.word not in ("PREFIX", "BASE")
    ]
    return {name for name in names if name != "_"}


def is_ask(text: str) -> bool:
    """Return whether a query is an ASK query."""
    return next((token.word for token in tokenize(text) if token.word in ("ASK", "SELECT")), "") == "ASK"


# ---- restrictions


def check(text: str, variables: set[str]) -> None:
    """Raise a ValueError for constructs that SHACL forbids in a query with pre-bound variables."""
    tokens = without_blanks(tokenize(text))
    words = [token.word for token in tokens]
    for word in ("MINUS", "VALUES", "SERVICE"):
        if word in words:
            raise ValueError(f"has {word}")
    if "SELECT" not in words and "ASK" not in words:
        raise ValueError("is neither a SELECT nor an ASK query")
    _check_assignments(tokens, variables)
    _check_subqueries(tokens, variables)


def _check_assignments(tokens: list[Token], variables: set[str]) -> None:
    """Refuse AS for a pre-bound variable; the head of a SELECT may assign ?value, which is not bound there."""
    head_end = next((index for index, token in enumerate(tokens) if token.text == "{"), 0)
    assignable = {token.name for token in tokens[:head_end] if token.name == "value"}
    protected = {*variables, "value", "shapesGraph", "currentShape"} - assignable
    for token, following in pairwise(tokens):
        if token.word == "AS" and following.name in protected:
            raise ValueError(f"assigns a value to ${following.name}")


def _check_subqueries(tokens: list[Token], variables: set[str]) -> None:
    """Refuse a nested SELECT that does not return all pre-bound variables."""
    starts = [index for index, token in enumerate(tokens) if token.word == "SELECT"]
    if tokens[0].word != "ASK":
        starts = starts[1:]
    for start in starts:
        end = next((index for index in range(start, len(tokens)) if tokens[index].text == "{"), len(tokens))
        missing = variables - variable_names(tokens[start:end])
        if missing:
            names = ", ".join(f"${name}" for name in sorted(missing))
            raise ValueError(f"has a nested SELECT that does not return {names}")


# ---- binding


def bind(text: str, terms: Mapping[str, str]) -> str:
    """Replace variables by their terms, and BOUND of a variable with a constant term by true."""
    output: list[str] = []
    tokens = tokenize(text)
    index = 0
    while index < len(tokens):
        token = tokens[index]
        end = _end_of_bound(tokens, index, terms) if token.word == "BOUND" else None
        if end is not None:
            output.append("true")
            index = end
        else:
            output.append(terms.get(token.name, token.text) if token.name else token.text)
            index += 1
    return "".join(output)


def _end_of_bound(tokens: list[Token], start: int, terms: Mapping[str, str]) -> int | None:
    """Return the index behind BOUND(?x) if a constant term replaces ?x."""
    following = [index for index in range(start + 1, len(tokens)) if not tokens[index].is_blank][:3]
    if len(following) < 3:
        return None
    term = terms.get(tokens[following[1]].name, "?")
    return None if term.startswith("?") else following[2] + 1


# ---- structure


class QueryParts(NamedTuple):
    """The parts of a query: prologue, head (SELECT …), body without its braces, and solution modifiers."""

    prologue: str
    head: str
    body: str
    modifiers: str


def split(text: str) -> QueryParts:
    """Split a query at the braces of its body."""
    tokens = tokenize(text)
    start = next(index for index, token in enumerate(tokens) if token.word in ("SELECT", "ASK"))
    opening = next(index for index in range(start, len(tokens)) if tokens[index].text == "{")
    closing = closing_brace(tokens, opening)
    head = [token for token in tokens[start:opening] if token.word != "WHERE" and token.kind != "comment"]
    return QueryParts(
        join(tokens[:start]), join(head), join(tokens[opening + 1 : closing]), join(tokens[closing + 1 :])
    )


def closing_brace(tokens: list[Token], opening: int) -> int:
    """Return the index of the brace that closes the one at `opening`."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += {"{": 1, "}": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index
    return len(tokens) - 1


def expand(prologue: str, text: str) -> str:
    """Replace the prefixed names of a part of a query by IRIs, so that it can be put into another query."""
    prefixes = dict(re.findall(r"PREFIX\s+([\w.-]*):\s*<([^>]*)>", prologue, re.IGNORECASE))
    output = []
    for token in tokenize(text):
        prefix, colon, local = token.text.partition(":")
        if token.kind == "name" and colon and prefix in prefixes:
            local = re.sub(r"\\(.)", r"\1", local)
            output.append(f"<{prefixes[prefix]}{local}>")
        else:
            output.append(token.text)
    return "".join(output)


def exists_blocks(tokens: list[Token]) -> Iterator[tuple[int, int]]:
    """Iterate over the indices of the braces of the outermost EXISTS blocks."""
    index = 0
    while index < len(tokens):
        if tokens[index].word == "EXISTS":
            opening = next((n for n in range(index, len(tokens)) if tokens[n].text == "{"), len(tokens) - 1)
            index = closing_brace(tokens, opening)
            yield opening, index
        index += 1


def can_join(body: str, focus: str) -> bool:
    """Return whether joining focus nodes to a body gives the same rows as substituting each of them.

    This holds if each nested group that uses the focus node has a triple pattern with it. EXISTS blocks always see it.
    """
    tokens = tokenize(body)
    inside = {index for opening, closing in exists_blocks(tokens) for index in range(opening, closing + 1)}
    tokens = [token for index, token in enumerate(tokens) if index not in inside]
    if any(token.word == "SELECT" for token in tokens):
        return False
    groups: list[list[bool]] = [[]]  # for each use of the focus node in a group: whether it is in a triple pattern
    depth = 0
    for token in tokens:
        if token.text == "{":
            groups.append([])
        elif token.text == "}" and len(groups) > 1:
            uses = groups.pop()
            if uses and not any(uses):
                return False
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.name == focus and len(groups) > 1:
            groups[-1].append(depth == 0)
    return True
