"""What a query may be: bounded in nesting and in length, and without calls to other machines unless asked for.

Oxigraph parses and plans by recursion, and where the stack ends, so does the process. On a stack of 8 MB (0.5.13) that
was seen at 670 nested `NOT EXISTS`, 860 nested calls, 3,800 items of a list, 2,500 `MINUS` and 6,300 `BIND` in a row.
Rows of VALUES and the text of literals and IRIs cost no stack. The bounds keep away from that.

It also puts the patterns that it joins in order before it begins, which takes the more the more there are, and cannot
be ended: 100 over the same variables took 1 s of it, 150 took 6 s, and a path of 1,400 steps 4 minutes.
"""

from __future__ import annotations

import re

from provml.errors import BrokenQuery, ServiceRefused

DEEPEST = 100
"""How deep brackets may be nested."""
MOST = 3000
"""How many words and signs a query may have, rows of VALUES not counted."""
JOINED = 100
"""How many patterns may be joined with each other: triples, steps of paths, items of lists."""
LONGEST = 1 << 20
"""How many characters a query may have."""

EXAMPLE = "SELECT * { ?s ?p ?o } LIMIT 10"
"""What a query looks like."""

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
_NOTHING = re.compile(r"(?:\s|#[^\n\r]*|(?:prefix\s+[^\s<>]*|base)\s*<[^<>]*>)*+", re.IGNORECASE)
"""Blanks, comments and prefixes, which ask nothing."""
_SERVICE = re.compile(r"[^:]*service", re.IGNORECASE)
"""In a word, but not in the local part of a name; the engine takes `trueSERVICE` and `SERVICEx:y` apart."""
_VALUES = re.compile(r"(?<![^\s{}()])values(?=[\s?$(#])", re.IGNORECASE)
"""The word by itself: in `a:b.values` it is part of a name."""
_JOINED = re.compile(r"true|false|-", re.IGNORECASE)
"""What the engine takes apart inside a word: `1-1-1`, `truetrue`."""
_HIDING = re.compile(r"[#()\[\]']")
"""What means something else where `<…>` is no IRI: `1<2)#>` is a comparison, a bracket and a comment."""
_OPERATORS = frozenset("(,;=!&|<+-*/^")
"""Inside round brackets, an IRI stands after one of these, and a comparison does not."""
_BETWEEN = _OPERATORS | frozenset(">.")
"""After one of these, a word is not the item of a list that follows another."""
_APART = frozenset(("union", "optional", "minus", "exists"))
"""A group after one of these is planned by itself."""


def is_empty(sparql: str) -> bool:
    """Whether a query asks nothing: there are blanks, comments and prefixes at most."""
    return _NOTHING.fullmatch(sparql) is not None


def check(sparql: str, *, service: bool = False) -> None:
    """Refuse a query that would end the process, or that would call another machine; and one that is none."""
    if len(sparql) > LONGEST:
        raise BrokenQuery(f"it has more than {LONGEST:,} characters")
    if is_empty(sparql):
        raise BrokenQuery("it is empty", f"Give one, such as {EXAMPLE}.")
    try:
        sparql.encode()
    except UnicodeEncodeError as error:
        reason = f"{sparql[error.start]!r} at character {error.start + 1} is no text"
        raise BrokenQuery(reason, "Write it in UTF-8 and ask again.") from None
    opened: list[str] = []
    groups = _Groups()
    count = 0
    values: int | None = None  # the depth at which VALUES was said, until its rows are over
    within = False  # its rows
    earlier = before = ""  # the two tokens before
    for token in _TOKEN.finditer(sparql):
        kind, said = token.lastgroup, token[0]
        if kind == "comment":
            continue
        size = 1
        if kind == "iri" and not within and _may_compare(sparql, token.start(), opened, earlier, before):
            if _HIDING.search(said):
                raise BrokenQuery(f"{said[:40]!r} may be an IRI or a comparison: put a space after <, or use a prefix")
            size = len(said)  # at most
        elif kind == "sign" and said in "({[":
            opened.append("<<(" if said == "(" and earlier == before == "<" else said)  # a triple holds no comparison
            within = within or (values is not None and said == "{")
            groups.open(opened, before, within)
            if len(opened) > DEEPEST:
                raise BrokenQuery(f"it is nested more than {DEEPEST} deep")
        elif kind == "sign" and said in ")}]":
            del opened[-1:]
            groups.close(said)
            if within and len(opened) == values:
                within, values = False, None
        elif kind == "word":
            if not service and _SERVICE.match(said):
                raise ServiceRefused()
            if values is None and _VALUES.match(sparql, token.start()):
                values = len(opened)
            size += len(_JOINED.findall(said))
            groups.word(said)
        if not within:
            groups.take(kind, said, size, before, opened[-1:] == ["("])
        count += 0 if within else size
        if count > MOST:
            raise BrokenQuery(f"it has more than {MOST:,} words and signs (long lists can stand in VALUES)")
        earlier, before = before, said


class _Groups:
    """How many patterns each group joins, counted rather too many than too few."""

    def __init__(self) -> None:
        self.counts = [0]
        self.apart = [True]

    def open(self, opened: list[str], before: str, in_values: bool) -> None:
        """A bracket: a group is joined with what is around it unless a word before it says otherwise."""
        bracket = opened[-1]
        if bracket == "{":
            self.counts.append(1)
            self.apart.append(in_values or before.lower() in _APART)
        elif not in_values and (bracket != "(" or (opened[-2:-1] == ["("] and before in ")]")):  # a list in a list
            self.counts[-1] += 1 if bracket == "[" else 2

    def close(self, bracket: str) -> None:
        """Its end."""
        if bracket == "}" and len(self.counts) > 1:
            count = self.counts.pop()
            self.counts[-1] += 0 if self.apart.pop() else count

    def word(self, said: str) -> None:
        """A sub-query is planned by itself."""
        if said.lower() == "select":
            self.apart[-1] = True

    def take(self, kind: str | None, said: str, size: int, before: str, in_round: bool) -> None:
        """A word or a sign of a group, not of rows of VALUES."""
        count = 0
        if kind == "sign":
            count = int(said in ("/" if in_round else "/.;,"))
            if (before, said) in (("<", "<"), ("{", "|")):  # a triple that others tell of, which is several patterns
                count = 3
        elif in_round and "as" not in (said.lower(), before.lower()):  # those beside each other are items of a list
            items = 1 if ":" in said else size - said.startswith("-")
            count = items - (before in _BETWEEN)
        self.counts[-1] += count
        if self.counts[-1] > JOINED:
            reason = f"one of its groups joins more than {JOINED} patterns (triples, steps of paths, items of lists)"
            raise BrokenQuery(reason, "Put some into sub-queries, { SELECT … }, or values into VALUES.")


def _may_compare(sparql: str, at: int, opened: list[str], earlier: str, before: str) -> bool:
    """Whether the `<` here may be less than: after an operand inside round brackets; or the second of `<<`."""
    if sparql[at - 1 : at] == "<":
        return True
    is_operand = before not in _OPERATORS and (before != ">" or earlier == ">")  # <<( … )>> is one
    return opened[-1:] == ["("] and is_operand
