"""Split SPARQL into tokens, with their positions.

`query_guard` has another lexer: it counts what the engine may see in a query, and so has to be cautious, not exact.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

_LOCAL = r"(?:[\w:]|%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%])"
_JOINED = re.compile(r"(order|group)(by)|(not)(exists|in)", re.IGNORECASE)
"""Two keywords without a space between them, which the engine accepts."""
END = "end"


@cache
def _token() -> re.Pattern[str]:
    """Return the pattern of a token; compiled when needed, since that takes 2 ms."""
    return re.compile(
        r"(?P<space>\s+|\#[^\n\r]*)"
        r'|(?P<text>"""(?:[^"\\]|\\.|"(?!""))*"""'
        r"|'''(?:[^'\\]|\\.|'(?!''))*'''"
        r'|"(?!"")(?:[^"\\\n\r]|\\.)*"'
        r"|'(?!'')(?:[^'\\\n\r]|\\.)*')"
        r"|(?P<open_text>[\"'][^\n\r]*)"
        r"|(?P<iri><(?:[^<>\"{}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>)"
        r"|(?P<blank>_:\w(?:[\w.\-]*[\w\-])?)"
        r"|(?P<variable>[?$]\w+)"
        r"|(?P<tag>@[A-Za-z]+(?:-+[A-Za-z0-9]+)*)"
        rf"|(?P<name>(?:[^\W\d_](?:[\w.\-]*[\w\-])?)?:(?:{_LOCAL}(?:(?:{_LOCAL}|[.\-])*(?:{_LOCAL}|-))?)?)"
        r"|(?P<number>(?:\d*\.\d+|\d+\.(?=[eE]))(?:[eE][+\-]?\d+)?|\d+(?:[eE][+\-]?\d+)?)"
        r"|(?P<word>[^\W\d]\w*)"
        r"|(?P<sign>\^\^|&&|\|\||!=|<=|>=|<<\(|\)>>|<<|>>|\{\||\|\}|[{}()\[\].,;=<>+\-*/|^!?~])"
        r"|(?P<other>.)",
        re.DOTALL,
    )


class Token(NamedTuple):
    """A token: its kind (a group of the pattern, or `end`), its text, and the offset of its first character."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset after its last character."""
        return self.start + len(self.text)

    @property
    def keyword(self) -> str:
        """The word in upper case; empty for a token of another kind."""
        return self.text.upper() if self.kind == "word" else ""


def tokenize(sparql: str) -> list[Token]:
    """Return the tokens of a query without whitespace and comments; the last one is the end of the text."""
    tokens: list[Token] = []
    for match in _token().finditer(sparql):
        kind = str(match.lastgroup)
        if kind == "space":
            continue
        joined = _JOINED.fullmatch(match[0]) if kind == "word" else None
        if joined is None:
            tokens.append(Token(kind, match[0], match.start()))
            continue
        first, second = filter(None, joined.groups())
        tokens += [Token(kind, first, match.start()), Token(kind, second, match.start() + len(first))]
    return [*tokens, Token(END, "", len(sparql))]
