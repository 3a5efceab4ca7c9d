"""EXISTS blocks written so that Oxigraph walks them from what is known, instead of joining them over the whole graph.

Oxigraph plans the inside of EXISTS without knowing which variables the outside binds: two patterns become a hash join
over all their triples, anew for each row. Joined by LATERAL they are walked one after the other, which gives the same
rows in the time that the walk takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from provml.validation.compiled.path import NOWHERE
from provml.validation.compiled.prebinding import Token, blocks, closing, solid, tokens

BEGINS = {"FILTER", "OPTIONAL", "BIND", "GRAPH", "UNION", "LATERAL"}


@dataclass(frozen=True)
class _Part:
    """A piece of a group: a triple pattern with its variables, or anything else as it stands."""

    text: str
    names: frozenset[str]
    is_triple: bool


def unroll_inside(text: str, known: set[str]) -> str:
    """A query's body with its EXISTS blocks unrolled; `known` are the variables bound from outside."""
    pieces = tokens(text)
    out, last = [], 0
    for opened, closed in blocks(pieces):
        outside = {piece.name for piece in (*pieces[:opened], *pieces[closed:]) if piece.name}
        inner = "".join(piece.text for piece in pieces[opened + 1 : closed])
        out.append("".join(piece.text for piece in pieces[last : opened + 1]))
        out.append(f" {unroll(inner, known | outside)} ")
        last = closed
    return "".join(out) + "".join(piece.text for piece in pieces[last:])


def unroll(text: str, known: set[str]) -> str:
    """The inside of an EXISTS block, its triple patterns joined one after the other from what is known."""
    pieces = _named(tokens(text))
    if next((piece.word for piece in solid(pieces)), "") == "SELECT":
        return "".join(piece.text for piece in pieces)
    parts = list(_parts(pieces, known))
    out: list[str] = []
    seen = set(known)
    while parts:
        run = next((n for n, part in enumerate(parts) if not part.is_triple), len(parts))
        triples, parts = parts[:run], parts[run:]
        while triples:
            best = max(triples, key=lambda part: (bool(part.names & seen), -triples.index(part)))
            triples.remove(best)
            seen |= best.names
            out.append(f"LATERAL {{ {best.text} }}" if out else f"{best.text} .")
        if parts:
            other = parts.pop(0)
            seen |= other.names
            out.append(other.text)
    return " ".join(out)


def _named(pieces: list[Token]) -> list[Token]:
    """Nodes without a name as variables, which mean the same there: a label may not stand in two groups."""
    taken, found = _names(pieces), dict[str, str]()
    for piece in pieces:
        if piece.kind == "name" and piece.text.startswith("_:") and piece.text not in found:
            found[piece.text] = next(name for n in count() if (name := f"blank{n}") not in taken)
            taken.add(found[piece.text])
    return [Token("variable", f"?{found[one.text]}", found[one.text]) if one.text in found else one for one in pieces]


def _parts(pieces: list[Token], known: set[str]) -> Iterator[_Part]:
    number = 0
    while number < len(pieces):
        piece = pieces[number]
        if piece.kind in ("space", "comment") or piece.text == ".":
            number += 1
        elif piece.text == "{" or piece.word in BEGINS:
            end = _end_of_other(pieces, number)
            held = "".join(one.text for one in pieces[number:end])
            names = frozenset(one.name for one in pieces[number:end] if one.name)
            yield _Part(unroll_inside(held, known | _names(pieces)), names, False)
            number = end
        else:
            end = _end_of_triples(pieces, number)
            yield from _triples(pieces[number:end])
            number = end


def _names(pieces: list[Token]) -> set[str]:
    return {piece.name for piece in pieces if piece.name}


def _end_of_other(pieces: list[Token], number: int) -> int:
    """Where a FILTER, BIND, OPTIONAL, group or chain of groups ends."""
    depth = 0
    while number < len(pieces):
        text = pieces[number].text
        if text == "{" and depth == 0:
            number = closing(pieces, number)
            after = next((piece for piece in pieces[number + 1 :] if piece.kind not in ("space", "comment")), None)
            if after is None or after.word != "UNION":
                return number + 1
        depth += {"(": 1, ")": -1}.get(text, 0)
        if text == ")" and depth == 0:
            return number + 1
        number += 1
    return number


def _end_of_triples(pieces: list[Token], start: int) -> int:
    depth = 0
    for number in range(start, len(pieces)):
        piece = pieces[number]
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(piece.text, 0)
        if depth == 0 and (piece.text == "{" or piece.word in BEGINS):
            return number
        if depth == 0 and piece.text == "." and not _is_decimal(pieces, number):
            return number
    return len(pieces)


def _is_decimal(pieces: list[Token], number: int) -> bool:
    near = pieces[max(number - 1, 0)], pieces[min(number + 1, len(pieces) - 1)]
    return all(piece.kind == "word" and piece.text[0].isdigit() for piece in near)


def _triples(pieces: list[Token]) -> Iterator[_Part]:
    """The triple patterns of one statement, each with its subject; what has brackets stays as it is."""
    whole = solid(pieces)
    texts = [piece.text for piece in whole]
    plain = _Part("".join(piece.text for piece in pieces), frozenset(_names(whole)), True)
    if "[" in texts or len(whole) < 3 or texts[0] == "(" or _is_list(whole):
        yield plain
        return
    subject, rest = whole[0], whole[1:]
    predicate: list[Token] = []
    found: list[_Part] = []
    for follows, own in _split(rest):
        size = _object_size(own)
        if follows != ",":
            predicate = own[:-size]
        if not predicate or (follows == "," and len(own) != size):
            yield plain
            return
        said = [subject, *predicate, *own[-size:]]
        found.append(_Part(_written(subject, predicate, own[-size:]), frozenset(_names(said)), True))
    yield from found


def _is_list(whole: list[Token]) -> bool:
    """Whether the statement ends with an RDF list."""
    return whole[-1].text == ")"


def _split(pieces: list[Token]) -> Iterator[tuple[str, list[Token]]]:
    depth, own, follows = 0, list[Token](), ";"
    for piece in pieces:
        depth += {"(": 1, ")": -1}.get(piece.text, 0)
        if depth == 0 and piece.text in (";", ","):
            if own:
                yield follows, own
            own, follows = [], piece.text
        else:
            own.append(piece)
    if own:
        yield follows, own


def _object_size(own: list[Token]) -> int:
    """How many tokens the object takes: a literal has its language or datatype with it."""
    if own[-1].text.startswith("@") or (len(own) > 2 and own[-2].text in "+-"):
        return 2
    return 3 if len(own) > 3 and own[-2].text in ("^^", ".") else 1


def _written(subject: Token, predicate: list[Token], value: list[Token]) -> str:
    path = "".join(piece.text for piece in predicate)
    if any(piece.text == "/" for piece in predicate):
        path = f"(({path})|{NOWHERE})"
    return f"{subject.text} {path} {''.join(piece.text for piece in value)}"
