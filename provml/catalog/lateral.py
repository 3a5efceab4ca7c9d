"""Rewrite a query for Oxigraph, so that its statements are evaluated in the order in which they are written.

Oxigraph plans without statistics. It evaluates an OPTIONAL or a UNION of several patterns over the whole store before
it joins the result, and it may begin a walk at its far end. Its extension `LATERAL` (SEP-0006) evaluates the right side
for each solution of the left side. Question files stay plain SPARQL 1.1; this module adds `LATERAL` where it does not
change the answer, which needs all of these:

- a variable that both sides share is bound in every solution of the left side;
- the right side does not bind a variable of the left side by BIND, VALUES or an expression of SELECT;
- a variable of the left side that occurs on the right in a FILTER, BIND or EXISTS also occurs in a pattern of the same
  group, since a plain nested group does not see the variables around it;
- the right side has no MINUS, GRAPH or SERVICE, and a sub-select only if it has no LIMIT and passes on, as they are,
  the variables that it shares with the left side.

A part that does not fulfil them is left as it is, and so is a query that this module cannot parse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r'(?P<text>"""(?:[^"\\]|\\.|"(?!""))*"""'
    r"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    r'|"(?:[^"\\\n\r]|\\.)*"'
    r"|'(?:[^'\\\n\r]|\\.)*')"
    r"|(?P<iri><[^<>\"{}|^`\\\x00-\x20]*>)"
    r"|(?P<comment>#[^\n\r]*)"
    r"|(?P<variable>[?$]\w+)"
    r"|(?P<word>(?:[\w:%\-@]|\.(?=[\w:%\-])|\\.)+)"
    r"|(?P<sign>\S)",
    re.DOTALL,
)
_KEYWORDS = frozenset(("filter", "optional", "union", "minus", "bind", "values", "graph", "service", "lateral"))
_OPEN, _CLOSE = frozenset("({["), frozenset(")}]")
Names = frozenset[str]
NONE: Names = frozenset()


class _Unsupported(Exception):
    """The query has a part that this module does not parse."""


@dataclass
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass
class _Element:
    """A part of a group: a statement of triples, a FILTER, an OPTIONAL, a UNION and so on.

    `names` are the variables that occur in it, `bound` those that are bound in each of its solutions, and `scoped`
    those that it has in patterns (not only in expressions). `parts` are the single patterns of a statement: a list of
    objects and a sequence of properties are several.
    """

    kind: str
    text: str
    names: Names
    bound: Names = NONE
    scoped: Names = NONE
    groups: list[_Group] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    has_closure: bool = False


@dataclass
class _Group:
    """The contents of a pair of braces: elements, or a sub-select around a group of its own."""

    elements: list[_Element] = field(default_factory=list)
    select: tuple[str, _Group, str] | None = None
    projected: Names = NONE
    passed: Names = NONE

    @property
    def scoped(self) -> Names:
        """The variables of its patterns."""
        return self.projected if self.select else _union(element.scoped for element in self.elements)

    @property
    def bound(self) -> Names:
        """The variables that are bound in each solution."""
        return self.passed & self.select[1].bound if self.select else _union(element.bound for element in self.elements)

    @property
    def names(self) -> Names:
        """All variables that occur in it."""
        if self.select:
            return self.projected
        return _union(element.names for element in self.elements)


def rewrite(sparql: str) -> str:
    """Return an equivalent query for Oxigraph; the query itself if nothing can be rewritten."""
    try:
        return _Parser(sparql).rewrite()
    except _Unsupported:
        return sparql


def _union(sets: Iterable[Names]) -> Names:
    return NONE.union(*sets)


# ---- parsing


class _Parser:
    """A recursive parser of groups; expressions and triples are kept as text."""

    def __init__(self, sparql: str) -> None:
        self.sparql = sparql
        self.tokens = [
            _Token(match.lastgroup or "", match[0], match.start(), match.end())
            for match in _TOKEN.finditer(sparql)
            if match.lastgroup != "comment"
        ]
        self.index = 0
        self.fresh = 0

    def rewrite(self) -> str:
        start = self._find_group()
        begin = self.tokens[start].start
        self._projection(0, start)
        self.index = start
        group = self._group()
        end = self.tokens[self.index - 1].end
        if any(token.text == "{" and self._before(i) != "values" for i, token in enumerate(self.tokens[self.index :])):
            raise _Unsupported("more than one group")
        return f"{self.sparql[:begin]}{{ {_write(group)} }}{self.sparql[end:]}"

    def _before(self, index: int) -> str:
        return self.tokens[max(self.index + index - 2, 0)].text.lower()

    # ---- tokens

    @property
    def word(self) -> str:
        """The current token in lower case; empty at the end."""
        return self.tokens[self.index].text.lower() if self.index < len(self.tokens) else ""

    def _slice(self, start: int, end: int) -> str:
        """Return the text from token `start` up to token `end` (not included), without comments."""
        text, position = "", self.tokens[start].start if start < end else 0
        for token in self.tokens[start:end]:
            text += " " * (token.start > position) + token.text
            position = token.end
        return text

    def _names(self, start: int, end: int) -> Names:
        return frozenset(token.text[1:] for token in self.tokens[start:end] if token.kind == "variable")

    def _find_group(self) -> int:
        """Return the index of the brace that opens the WHERE clause of the query."""
        depth = 0
        for index in range(self.index, len(self.tokens)):
            text = self.tokens[index].text
            if text == "{" and depth == 0:
                return index
            depth += (text in _OPEN) - (text in _CLOSE)
        raise _Unsupported("no group")

    def _skip_bracket(self) -> None:
        """Move behind the bracket that the current token opens."""
        depth = 0
        while self.index < len(self.tokens):
            text = self.tokens[self.index].text
            depth += (text in _OPEN) - (text in _CLOSE)
            self.index += 1
            if depth == 0:
                return
        raise _Unsupported("unbalanced brackets")

    # ---- groups

    def _group(self) -> _Group:
        """Parse a group; the current token opens it."""
        if self.word != "{":
            raise _Unsupported("a group was expected")
        self.index += 1
        if self.word == "select":
            return self._subselect()
        group = _Group()
        while self.word != "}":
            if not self.word:
                raise _Unsupported("unbalanced braces")
            if self.word == ".":
                self.index += 1
                continue
            group.elements.append(self._element())
        self.index += 1
        return group

    def _subselect(self) -> _Group:
        start = self.index
        where = self._find_group()
        head = self._slice(start, where)
        passed, computed = self._projection(start, where)
        self.index = where
        inner = self._group()
        tail = self.index
        depth = 0
        while self.word != "}" or depth:
            if not self.word:
                raise _Unsupported("unbalanced braces")
            depth += (self.word in _OPEN) - (self.word in _CLOSE)
            self.index += 1
        text = self._slice(tail, self.index)
        self.index += 1
        if re.search(r"\bvalues\b", text, re.IGNORECASE):
            raise _Unsupported("VALUES after a sub-select")
        return _Group(select=(head, inner, text), projected=passed | computed, passed=passed)

    def _projection(self, start: int, end: int) -> tuple[Names, Names]:
        """Return the variables that a SELECT clause passes on, and those that it computes."""
        passed, computed, depth = set(), set(), 0
        for position in range(start, end):
            token, previous = self.tokens[position], self.tokens[max(position - 1, 0)]
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
            if token.kind == "variable" and depth == 0:
                passed.add(token.text[1:])
            elif token.kind == "variable" and depth == 1 and previous.text.lower() == "as":
                computed.add(token.text[1:])
            elif token.text == "*" and depth == 0:
                raise _Unsupported("SELECT *")
        return frozenset(passed), frozenset(computed)

    def _element(self) -> _Element:
        parsers: dict[str, Callable[[], _Element]] = {
            "{": self._union,
            "filter": self._filter,
            "optional": self._optional,
            "minus": self._minus,
            "bind": self._bind,
            "values": self._values,
        }
        if self.word in ("graph", "service", "lateral"):
            raise _Unsupported(self.word)
        return parsers.get(self.word, self._triples)()

    def _union(self) -> _Element:
        groups = [self._group()]
        while self.word == "union":
            self.index += 1
            groups.append(self._group())
        kind = "union" if len(groups) > 1 else "group"
        bound = frozenset.intersection(*(group.bound for group in groups))
        names, scoped = (_union(getattr(group, part) for group in groups) for part in ("names", "scoped"))
        return _Element(kind, "", names, bound, scoped, groups)

    def _optional(self) -> _Element:
        self.index += 1
        group = self._group()
        return _Element("optional", "", group.names, NONE, group.scoped, [group])

    def _minus(self) -> _Element:
        self.index += 1
        group = self._group()
        return _Element("minus", "", group.names, NONE, NONE, [group])

    def _filter(self) -> _Element:
        start = self.index
        self.index += 1
        while self.word not in ("(", "{"):  # NOT EXISTS, or the name of a function
            self.index += 1
        text = self._expression(start)
        return _Element("filter", text, self._names(start, self.index))

    def _bind(self) -> _Element:
        start = self.index
        self.index += 1
        text = self._expression(start)
        target = self.tokens[self.index - 2].text[1:]
        names = self._names(start, self.index)
        return _Element("bind", text, names, NONE, frozenset((target,)))

    def _expression(self, start: int) -> str:
        """Move behind the bracket at the current token, and return the text from `start` on.

        The engine plans the group of an EXISTS without the variables around it, so its statements are put in order.
        """
        text, begin, depth = "", start, 0
        while True:
            if not self.word:
                raise _Unsupported("unbalanced brackets")
            if self.word == "{" and self.tokens[self.index - 1].text.lower() == "exists":
                text += f"{self._slice(begin, self.index)} "
                group = self._group()
                text += f"{{ {_write(group, group.names)} }} "
                begin = self.index
            else:
                depth += (self.word in _OPEN) - (self.word in _CLOSE)
                self.index += 1
            if depth == 0:
                return (text + self._slice(begin, self.index)).strip()

    def _values(self) -> _Element:
        start = self.index
        self.index += 1
        if self.word == "(":
            self._skip_bracket()
        else:
            self.index += 1
        names = self._names(start, self.index)
        data = self.index
        self._skip_bracket()
        values = [token.text.lower() for token in self.tokens[data + 1 : self.index - 1]]
        if values == ["undef"]:  # joins with anything
            return _Element("undef", "", NONE)
        is_partial = "undef" in values
        return _Element("values", self._slice(start, self.index), names, NONE if is_partial else names, names)

    def _triples(self) -> _Element:
        """Parse one statement: the triples up to the next full stop."""
        start = self.index
        subject, parts = self._term(), []
        has_closure = False
        while True:
            path, closes = self._path()
            has_closure |= closes
            while True:
                parts += self._steps(subject, path, self._term())
                if self.word != ",":
                    break
                self.index += 1
            if self.word != ";":
                break
            self.index += 1
        if self.word not in ("", ".", "{", "}") and self.word not in _KEYWORDS:
            raise _Unsupported(f"unexpected {self.word!r}")
        names = self._names(start, self.index)
        text = self._slice(start, self.index)
        return _Element("triples", text, names, names, names, parts=parts, has_closure=has_closure)

    def _term(self) -> str:
        """Parse a subject or an object; a literal may have a datatype or a language."""
        start, kind = self.index, self.tokens[self.index].kind if self.word else ""
        if kind not in ("variable", "iri", "word", "text") or self.word.startswith("_:"):
            raise _Unsupported(f"unexpected {self.word!r}")
        self.index += 1
        if kind == "text" and self.word == "^":
            self.index += 3
        elif kind == "text" and self.word.startswith("@"):
            self.index += 1
        return self._slice(start, self.index)

    def _path(self) -> tuple[list[str], bool]:
        """Parse a path; return the properties of a sequence (else the path as a whole), and whether it has * or +."""
        start, begin, is_choice = self.index, self.index, False
        steps: list[str] = []
        while True:
            while self.word in ("^", "!"):
                self.index += 1
            if self.word == "(":
                self._skip_bracket()
            else:
                self.index += 1
            if self.word in ("*", "+", "?"):
                self.index += 1
            if self.word not in ("/", "|"):
                break
            is_choice |= self.word == "|"
            steps.append(self._slice(begin, self.index))
            self.index += 1
            begin = self.index
        steps.append(self._slice(begin, self.index))
        has_closure = any(token.kind == "sign" and token.text in "*+" for token in self.tokens[start : self.index])
        return [self._slice(start, self.index)] if is_choice else steps, has_closure

    def _steps(self, subject: str, path: list[str], term: str) -> list[str]:
        """Return the single patterns of a sequence of properties, joined by variables that occur nowhere else."""
        parts = []
        for step in path[:-1]:
            self.fresh += 1
            parts.append(f"{subject} {step} ?_{self.fresh} .")
            subject = f"?_{self.fresh}"
        return [*parts, f"{subject} {path[-1]} {term} ."]


# ---- writing


def _write(group: _Group, outer: Names = NONE) -> str:
    """Return the contents of a group, with LATERAL where it does not change the answer.

    `outer` are variables that have values when the group is evaluated.
    """
    if group.select is not None:
        head, inner, tail = group.select
        return f"{head} {{ {_write(inner, outer & group.passed)} }} {tail}"
    return _GroupWriter(group, outer).write()


class _GroupWriter:
    """Write the elements of a group in the order of the text.

    `segments` are the parts that were written, each evaluated after the ones before it, which have the variables
    `names` and surely bind `bound`. `statements` are triples that the next segment will have, and `filters` the filters
    that are not written yet.

    Statements that share no variable with what is known are ordered by the engine, which begins at constants. All other
    statements are evaluated in the order of the text.
    """

    def __init__(self, group: _Group, outer: Names) -> None:
        self.outer = outer
        self.patterns = [element for element in group.elements if element.kind not in ("filter", "undef")]
        self.filters = [element for element in group.elements if element.kind == "filter"]
        self.segments: list[str] = []
        self.statements: list[_Element] = []
        self.names: Names = NONE
        self.bound: Names = NONE

    def write(self) -> str:
        """Return the contents of the group."""
        for position, element in enumerate(self.patterns):
            if element.kind == "triples":
                self._add_statement(element)
            else:
                self._flush()
                self._add(element)
            if following := self.patterns[position + 1 :]:
                self._place_filters(_union(pattern.scoped for pattern in following))
        self._flush()
        return " ".join([*self.segments, *(element.text for element in self.filters)])

    def _add_statement(self, element: _Element) -> None:
        """Add triples to the current segment; a path with `*` or `+` has a segment of its own."""
        if element.has_closure or (self.statements and self.statements[-1].has_closure):
            self._flush()
        if not self._is_safe(element):
            self._flush()
            self._append(f"{element.text} .", element)
        elif not self.statements and element.names & (self.names | self.outer):
            for part in element.parts:
                self.segments.append(f"LATERAL {{ {part} }}" if self.segments else part)
            self._append("", element)
        else:
            self.statements.append(element)

    def _add(self, element: _Element) -> None:
        """Add an OPTIONAL, a UNION, a BIND and so on."""
        if element.kind in ("optional", "union", "group") and self.segments and self._is_safe(element):
            text = f"LATERAL {{ {_text(element, self.outer | self.bound)} }}"
        else:
            text = _text(element, self.outer if element.kind != "minus" else NONE)
        self._append(text, element)

    def _append(self, text: str, *elements: _Element) -> None:
        self.segments += [text] if text else []
        self.names = self.names.union(*(element.scoped for element in elements))
        self.bound = self.bound.union(*(element.bound for element in elements))

    def _flush(self, *conditions: _Element) -> None:
        """Write the current statements as a segment, with filters on what they bind."""
        if not self.statements:
            return
        text = " ".join([*(f"{element.text} ." for element in self.statements), *(each.text for each in conditions)])
        if self.segments:
            text = f"LATERAL {{ {text} }}"
        elif conditions:
            text = f"{{ {text} }}"
        statements, self.statements = self.statements, []
        self._append(text, *statements)

    def _is_safe(self, element: _Element) -> bool:
        """True if the element may be evaluated for each solution of what was written before."""
        if not element.names & self.names <= self.bound:
            return False
        visible = self.names if element.kind == "optional" else NONE
        return all(_is_scoped(group, self.names, visible) for group in element.groups)

    def _place_filters(self, later: Names) -> None:
        """Write the filters that have all their variables, and that no later element can change."""
        names = self.names.union(*(element.scoped for element in self.statements))
        bound = self.bound.union(*(element.bound for element in self.statements))
        ready = [each for each in self.filters if each.names & names and each.names & later <= bound]
        if not ready:
            return
        self.filters = [element for element in self.filters if element not in ready]
        if self.statements:
            self._flush(*ready)
        else:
            self.segments = [f"{{ {' '.join([*self.segments, *(element.text for element in ready)])} }}"]


def _text(element: _Element, outer: Names) -> str:
    if element.kind in ("bind", "values"):
        return element.text
    if element.kind in ("optional", "minus"):
        return f"{element.kind.upper()} {{ {_write(element.groups[0], outer)} }}"
    return " UNION ".join(f"{{ {_write(group, outer)} }}" for group in element.groups)


def _is_scoped(group: _Group, outer: Names, visible: Names) -> bool:
    """True if the expressions of a group use no variable of `outer` that its patterns do not have.

    `visible` are variables that its filters may use nevertheless: an OPTIONAL sees those of the group around it.
    """
    if group.select is not None:
        _, inner, tail = group.select
        is_limited = re.search(r"\b(?:limit|offset)\b", tail, re.IGNORECASE) is not None
        shares = inner.names & outer <= group.passed and not (group.projected - group.passed) & outer
        return not is_limited and shares and _is_scoped(inner, outer, NONE)
    scoped = group.scoped
    for element in group.elements:
        if element.kind == "minus" or (element.kind in ("bind", "values") and element.scoped & outer):
            return False
        if element.kind == "filter" and not element.names & outer <= scoped | visible:
            return False
        if element.kind == "bind" and not (element.names - element.scoped) & outer <= scoped:
            return False
        visible_inside = scoped if element.kind == "optional" else NONE
        if not all(_is_scoped(child, outer, visible_inside) for child in element.groups):
            return False
    return True
