"""SHACL-SPARQL's queries: what they may not contain, and their text with values bound in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
    """A piece of a query: its kind, its text, and of a variable its name."""

    kind: str
    text: str
    name: str = ""

    @property
    def word(self) -> str:
        """A keyword in capitals, or nothing."""
        return self.text.upper() if self.kind == "word" else ""


def tokens(text: str) -> list[Token]:
    """The pieces of a query; put together they are its text."""
    return [Token(str(found.lastgroup), found[0], found["variable"] or "") for found in _TOKEN.finditer(text)]


def solid(pieces: Iterable[Token]) -> list[Token]:
    """The pieces without space and comments."""
    return [piece for piece in pieces if piece.kind not in ("space", "comment")]


def is_ask(text: str) -> bool:
    """Whether a query is an ASK."""
    return next((piece.word for piece in solid(tokens(text)) if piece.word in ("ASK", "SELECT")), "") == "ASK"


def check(text: str, bound: set[str]) -> None:
    """Refuse what SHACL refuses in a query whose variables are bound beforehand, with a ValueError."""
    pieces = solid(tokens(text))
    words = [piece.word for piece in pieces]
    for word in ("MINUS", "VALUES", "SERVICE"):
        if word in words:
            raise ValueError(f"has {word}")
    if "SELECT" not in words and "ASK" not in words:
        raise ValueError("is neither a SELECT nor an ASK")
    for word, after in zip(words, pieces[1:], strict=False):
        if word == "AS" and after.name in {*bound, "value", "shapesGraph", "currentShape"} - _projected(pieces):
            raise ValueError(f"gives ${after.name} a value of its own")
    starts = [number for number, word in enumerate(words) if word == "SELECT"]
    for start in starts[1:] if words[0] != "ASK" and starts else starts:
        end = next((n for n in range(start, len(pieces)) if pieces[n].text == "{"), len(pieces))
        names = {piece.name for piece in pieces[start:end] if piece.name}
        if not bound <= names:
            missing = ", ".join(f"${name}" for name in sorted(bound - names))
            raise ValueError(f"has a SELECT inside it that does not give {missing}")


def _projected(pieces: list[Token]) -> set[str]:
    """The variables that a SELECT may give a value by AS in its own head: ?value, where it is not bound beforehand."""
    end = next((number for number, piece in enumerate(pieces) if piece.text == "{"), 0)
    return {piece.name for piece in pieces[:end] if piece.name == "value"}


def bind(text: str, terms: Mapping[str, str]) -> str:
    """A query with variables replaced by what SPARQL writes for their values; BOUND of such a one is true."""
    out: list[str] = []
    pieces = tokens(text)
    number = 0
    while number < len(pieces):
        piece = pieces[number]
        if piece.word == "BOUND":
            near = [n for n in range(number + 1, len(pieces)) if pieces[n].kind not in ("space", "comment")][:3]
            inner = pieces[near[1]] if len(near) == 3 else piece
            if inner.name in terms and not terms[inner.name].startswith("?"):
                out.append("true")
                number = near[2] + 1
                continue
        out.append(terms.get(piece.name, piece.text) if piece.name else piece.text)
        number += 1
    return "".join(out)


class Parts(NamedTuple):
    """A query taken apart: the declarations before it, its head (SELECT …), its body without braces, its tail."""

    before: str
    head: str
    body: str
    tail: str


def parts(text: str) -> Parts:
    """Take a query apart at the braces of its body."""
    pieces = tokens(text)
    start = next(n for n, piece in enumerate(pieces) if piece.word in ("SELECT", "ASK"))
    opened = next(n for n in range(start, len(pieces)) if pieces[n].text == "{")
    closed = closing(pieces, opened)
    head = [piece for piece in pieces[start:opened] if piece.word != "WHERE" and piece.kind != "comment"]
    return Parts(
        _joined(pieces[:start]), _joined(head), _joined(pieces[opened + 1 : closed]), _joined(pieces[closed + 1 :])
    )


def closing(pieces: list[Token], opened: int) -> int:
    """Where the brace that is opened there is closed."""
    depth = 0
    for number in range(opened, len(pieces)):
        depth += {"{": 1, "}": -1}.get(pieces[number].text, 0)
        if depth == 0:
            return number
    return len(pieces) - 1


def expand(before: str, text: str) -> str:
    """A piece of a query with its prefixed names written out, so that it can stand in another query."""
    found = re.findall(r"PREFIX\s+([\w.-]*):\s*<([^>]*)>", before, re.IGNORECASE)
    prefixes = dict(found)
    out = []
    for piece in tokens(text):
        prefix, colon, local = piece.text.partition(":")
        known = piece.kind == "name" and colon and prefix in prefixes
        local = re.sub(r"\\(.)", r"\1", local)
        out.append(f"<{prefixes[prefix]}{local}>" if known else piece.text)
    return "".join(out)


def _joined(pieces: Iterable[Token]) -> str:
    return "".join(piece.text for piece in pieces)


def blocks(pieces: list[Token]) -> Iterator[tuple[int, int]]:
    """Where each outermost EXISTS block begins and ends."""
    number = 0
    while number < len(pieces):
        if pieces[number].word == "EXISTS":
            opened = next((n for n in range(number, len(pieces)) if pieces[n].text == "{"), len(pieces) - 1)
            closed = closing(pieces, opened)
            yield opened, closed
            number = closed
        number += 1


def joins(body: str, focus: str) -> bool:
    """Whether a body means the same when focus nodes are joined to it as when one is written in it.

    It does where each inner group that speaks of the focus node has a triple pattern with it; EXISTS sees it anyway.
    """
    pieces = tokens(body)
    inside = {n for opened, closed in blocks(pieces) for n in range(opened, closed + 1)}
    pieces = [piece for number, piece in enumerate(pieces) if number not in inside]
    if any(piece.word == "SELECT" for piece in pieces):
        return False
    groups: list[list[bool]] = [[]]
    depth = 0
    for piece in pieces:
        if piece.text == "{":
            groups.append([])
        elif piece.text == "}" and len(groups) > 1:
            own = groups.pop()
            if own and not any(own):
                return False
        depth += {"(": 1, ")": -1}.get(piece.text, 0)
        if piece.name == focus and len(groups) > 1:
            groups[-1].append(depth == 0)
    return True
