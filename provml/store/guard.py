"""What a query may be: bounded in nesting and in length, and without calls to other machines unless asked for.

Oxigraph parses and plans by recursion, and where the stack ends, so does the process. On a stack of 8 MB (0.5.13) that
was seen at 670 nested `NOT EXISTS`, 860 nested calls, 3,800 items of a list, 2,500 `MINUS` and 6,300 `BIND` in a row.
Rows of VALUES and the text of literals and IRIs cost no stack. The bounds keep away from that.
"""

from __future__ import annotations

import re

from provml.errors import BrokenQuery, ServiceRefused

DEEPEST = 100
"""How deep brackets may be nested."""
MOST = 3000
"""How many words and signs a query may have, rows of VALUES not counted."""
LONGEST = 1 << 20
"""How many characters a query may have."""

_TOKEN = re.compile(
    r"(?P<text>"
    r'"""(?:[^"\\]|\\.|"(?!""))*"""'
    r"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    r'|"(?:[^"\\\n\r]|\\.)*"'
    r"|'(?:[^'\\\n\r]|\\.)*'"
    r"|<[^<>\"{}|^`\\\x00-\x20]*>)"
    r"|(?P<comment>#[^\n\r]*)"
    r"|(?P<variable>[?$]\w+)"
    r"|(?P<word>(?:[\w:%\-]|\\.)+)"
    r"|(?P<sign>\S)",
    re.DOTALL,
)
_SERVICE = re.compile(r"[^:]*service", re.IGNORECASE)
"""In a word, but not in the local part of a name; the engine takes `trueSERVICE` and `SERVICEx:y` apart."""
_VALUES = re.compile(r"values", re.IGNORECASE)


def check(sparql: str, *, service: bool = False) -> None:
    """Refuse a query that would end the process, or that would call another machine."""
    if len(sparql) > LONGEST:
        raise BrokenQuery(f"it has more than {LONGEST:,} characters")
    depth = count = 0
    values: int | None = None  # the depth at which VALUES was said, until its rows are over
    within = False  # its rows
    for token in _TOKEN.finditer(sparql):
        if token.lastgroup == "comment":
            continue
        count += not within
        if token.lastgroup == "sign":
            sign = token["sign"]
            if sign in "({[":
                depth += 1
                within = within or (values is not None and sign == "{")
            elif sign in ")}]":
                depth -= 1
                if within and depth == values:
                    within, values = False, None
            if depth > DEEPEST:
                raise BrokenQuery(f"it is nested more than {DEEPEST} deep")
        elif token.lastgroup == "word":
            word = token["word"]
            if not service and _SERVICE.match(word):
                raise ServiceRefused()
            if _VALUES.fullmatch(word) and values is None:
                values = depth
        if count > MOST:
            raise BrokenQuery(f"it has more than {MOST:,} words and signs (long lists can stand in VALUES)")
