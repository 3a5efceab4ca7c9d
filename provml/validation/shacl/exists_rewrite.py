"""Rewrite EXISTS blocks so that Oxigraph evaluates them from bound variables.

Oxigraph plans the inside of EXISTS without knowing which variables are bound outside: two patterns become a hash join
over all their triples, once per row. Joined by LATERAL, they are followed one after the other from the bound variable,
which gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from provml.validation.shacl.path import NOWHERE
from provml.validation.shacl.prebinding import (
    Token,
    closing_brace,
    exists_blocks,
    join,
    tokenize,
    variable_names,
    without_blanks,
)

GROUP_KEYWORDS = {"FILTER", "OPTIONAL", "BIND", "GRAPH", "UNION", "LATERAL"}
"""Keywords that begin a part of a group that is not a triple pattern."""


@dataclass(frozen=True)
class _Part:
    """A part of a group: a triple pattern with its variables, or any other part."""

    text: str
    variables: frozenset[str]
    is_triple: bool


def rewrite_exists_blocks(text: str, bound: set[str]) -> str:
    """Rewrite the EXISTS blocks of a query body; `bound` are the variables that are bound outside the body."""
    tokens = tokenize(text)
    output, end = [], 0
    for opening, closing in exists_blocks(tokens):
        outside = variable_names((*tokens[:opening], *tokens[closing:]))
        inner = rewrite_exists(join(tokens[opening + 1 : closing]), bound | outside)
        output.append(f"{join(tokens[end : opening + 1])} {inner} ")
        end = closing
    return "".join(output) + join(tokens[end:])


def rewrite_exists(text: str, bound: set[str]) -> str:
    """Rewrite the inside of an EXISTS block; triple patterns are joined by LATERAL, starting at bound variables."""
    tokens = _with_named_blank_nodes(tokenize(text))
    if next((token.word for token in without_blanks(tokens)), "") == "SELECT":
        return join(tokens)
    output: list[str] = []
    reached = set(bound)
    triples: list[_Part] = []
    for part in [*_split_group(tokens, bound), None]:
        if part is not None and part.is_triple:
            triples.append(part)
            continue
        while triples:
            # the first pattern with a bound variable, else the first one
            pattern = next((triple for triple in triples if triple.variables & reached), triples[0])
            triples.remove(pattern)
            reached |= pattern.variables
            output.append(f"LATERAL {{ {pattern.text} }}" if output else f"{pattern.text} .")
        if part is not None:
            reached |= part.variables
            output.append(part.text)
    return " ".join(output)


def _with_named_blank_nodes(tokens: list[Token]) -> list[Token]:
    """Replace blank node labels by variables, which mean the same: SPARQL forbids a label in two groups."""
    used = variable_names(tokens)
    variables: dict[str, str] = {}
    for token in tokens:
        if token.kind == "name" and token.text.startswith("_:") and token.text not in variables:
            variables[token.text] = next(name for number in count() if (name := f"blank{number}") not in used)
            used.add(variables[token.text])
    return [
        Token("variable", f"?{variables[token.text]}", variables[token.text]) if token.text in variables else token
        for token in tokens
    ]


def _split_group(tokens: list[Token], bound: set[str]) -> Iterator[_Part]:
    """Split the contents of a group into triple patterns and other parts."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.is_blank or token.text == ".":
            index += 1
        elif token.text == "{" or token.word in GROUP_KEYWORDS:
            end = _end_of_other(tokens, index)
            text = rewrite_exists_blocks(join(tokens[index:end]), bound | variable_names(tokens))
            yield _Part(text, frozenset(variable_names(tokens[index:end])), False)
            index = end
        else:
            end = _end_of_triples(tokens, index)
            yield from _split_triples(tokens[index:end])
            index = end


def _end_of_other(tokens: list[Token], index: int) -> int:
    """Return the end of a FILTER, BIND, OPTIONAL, group or UNION of groups."""
    depth = 0
    while index < len(tokens):
        text = tokens[index].text
        if text == "{" and depth == 0:
            index = closing_brace(tokens, index)
            following = next((token for token in tokens[index + 1 :] if not token.is_blank), None)
            if following is None or following.word != "UNION":
                return index + 1
        depth += {"(": 1, ")": -1}.get(text, 0)
        if text == ")" and depth == 0:
            return index + 1
        index += 1
    return index


def _end_of_triples(tokens: list[Token], start: int) -> int:
    depth = 0
    for index in range(start, len(tokens)):
        token = tokens[index]
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if depth == 0 and (token.text == "{" or token.word in GROUP_KEYWORDS):
            return index
        if depth == 0 and token.text == "." and not _is_decimal_point(tokens, index):
            return index
    return len(tokens)


def _is_decimal_point(tokens: list[Token], index: int) -> bool:
    neighbors = tokens[max(index - 1, 0)], tokens[min(index + 1, len(tokens) - 1)]
    return all(token.kind == "word" and token.text[0].isdigit() for token in neighbors)


def _split_triples(tokens: list[Token]) -> Iterator[_Part]:
    """Write out the triple patterns of a statement with `;` and `,`; one with brackets or lists stays as it is."""
    solid = without_blanks(tokens)
    texts = [token.text for token in solid]
    whole = _Part(join(tokens), frozenset(variable_names(solid)), True)
    if "[" in texts or len(solid) < 3 or texts[0] == "(" or texts[-1] == ")":
        yield whole
        return
    subject = solid[0]
    predicate: list[Token] = []
    parts: list[_Part] = []
    for separator, segment in _split_segments(solid[1:]):
        size = _object_size(segment)
        if separator != ",":
            predicate = segment[:-size]
        if not predicate or (separator == "," and len(segment) != size):
            yield whole
            return
        value = segment[-size:]
        variables = frozenset(variable_names([subject, *predicate, *value]))
        parts.append(_Part(_triple_text(subject, predicate, value), variables, True))
    yield from parts


def _split_segments(tokens: list[Token]) -> Iterator[tuple[str, list[Token]]]:
    """Split predicates and objects at `;` and `,`; each segment comes with the separator before it."""
    depth, segment, separator = 0, list[Token](), ";"
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.text in (";", ","):
            if segment:
                yield separator, segment
            segment, separator = [], token.text
        else:
            segment.append(token)
    if segment:
        yield separator, segment


def _object_size(segment: list[Token]) -> int:
    """Return the number of tokens of the object at the end: a literal may have a sign, language or datatype."""
    if segment[-1].text.startswith("@") or (len(segment) > 2 and segment[-2].text in "+-"):
        return 2
    return 3 if len(segment) > 3 and segment[-2].text in ("^^", ".") else 1


def _triple_text(subject: Token, predicate: list[Token], value: list[Token]) -> str:
    path = join(predicate)
    if any(token.text == "/" for token in predicate):
        path = f"(({path})|{NOWHERE})"
    return f"{subject.text} {path} {join(value)}"
