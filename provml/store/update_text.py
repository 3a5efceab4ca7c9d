"""Prepare a SPARQL update: check it, and give it the graphs that the protocol names beside its text."""

from __future__ import annotations

from collections.abc import Sequence

from provml.errors import QueryError
from provml.rdf.namespaces import PREFIXES
from provml.store import query_guard
from provml.store.sparql_tokens import Token, tokenize


def prepare(text: str, using: Sequence[str] = (), using_named: Sequence[str] = ()) -> str:
    """Return an update whose patterns are about the graphs `using` and `using_named`, if there are any.

    LOAD, which would call another machine, is refused, and so are graphs beside USING or WITH.
    """
    query_guard.check(text)
    tokens = _outer_tokens(text)
    if any(token.keyword == "LOAD" for token in tokens):
        raise QueryError("LOAD would call another machine", "Send the RDF itself, with PUT or POST to /graphs.")
    if not using and not using_named:
        return text
    if any(token.keyword in ("USING", "WITH") for token in tokens):
        advice = "Name the graphs in the text, or as parameters, not both."
        raise QueryError("the update has USING or WITH, and the request names graphs as well", advice)
    clauses = [*(f"USING <{iri}>" for iri in using), *(f"USING NAMED <{iri}>" for iri in using_named)]
    return _insert(text, tokens, " ".join(clauses))


def _outer_tokens(text: str) -> list[Token]:
    """Return the tokens outside of braces."""
    outer, depth = [], 0
    for token in tokenize(text):
        if token.kind == "sign" and token.text == "{":
            depth += 1
        if not depth:
            outer.append(token)
        if token.kind == "sign" and token.text == "}":
            depth -= 1
    return outer


def _insert(text: str, tokens: list[Token], clauses: str) -> str:
    """Insert clauses before each WHERE; `DELETE WHERE { … }` is short for `DELETE { … } WHERE { … }`."""
    pieces, position = [], 0
    for previous, token, following in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.keyword != "WHERE":
            continue
        pieces.append(text[position : token.start])
        if previous is not None and previous.keyword == "DELETE":
            end = following.start if following is not None else len(text)
            pieces.append(text[token.end : end].rpartition("}")[0] + "} ")
        pieces.append(f"{clauses} ")
        position = token.start
    return "".join([*pieces, text[position:]])


# ---- what an update may change

MANAGEMENT = frozenset(("ADD", "CLEAR", "COPY", "CREATE", "DROP", "MOVE"))


def deletes_by_pattern(text: str) -> bool:
    """Return whether an update deletes the triples that a pattern matches, rather than graphs as a whole."""
    return any(token.keyword == "DELETE" for token in _outer_tokens(text))


def written_graphs(text: str) -> set[str] | None:
    """Return the IRIs of the only graphs that an update can change; None if it may change others, or the default one.

    It is None for everything but templates of constant graphs: `INSERT DATA { GRAPH <g> { … } }`, `WITH <g> DELETE …`.
    """
    prefixes = dict(PREFIXES)
    graphs: set[str] = set()
    tokens = [token for token in tokenize(text) if token.kind != "end"]
    with_graph: str | None = None
    position = 0
    while position < len(tokens):
        keyword, following = tokens[position].keyword, tokens[position + 1 : position + 3]
        if keyword == "PREFIX" and len(following) == 2:
            prefixes[following[0].text.removesuffix(":")] = following[1].text[1:-1]
        elif keyword == "WITH" and following:
            with_graph = _iri(following[0], prefixes)
            if with_graph is None:
                return None
        elif keyword in MANAGEMENT or keyword == "BASE":
            return None
        elif _text(tokens, position) == "{":
            end = _closing(tokens, position)
            if tokens[position - 1].keyword != "WHERE" or tokens[position - 2].keyword == "DELETE":
                written = _template_graphs(tokens[position + 1 : end], prefixes, with_graph)
                if written is None:
                    return None
                graphs |= written
            position = end
        elif _text(tokens, position) == ";":
            with_graph = None
        position += 1
    return graphs


def _template_graphs(tokens: list[Token], prefixes: dict[str, str], with_graph: str | None) -> set[str] | None:
    """Return the graphs of a template; None if one is a variable, or is the default graph."""
    graphs: set[str] = set()
    position = 0
    while position < len(tokens):
        if tokens[position].keyword == "GRAPH" and _text(tokens, position + 2) == "{":
            graph = _iri(tokens[position + 1], prefixes)
            position = _closing(tokens, position + 2)
        else:
            graph = "" if tokens[position].text == "." else with_graph
        if graph is None:
            return None
        graphs.add(graph)
        position += 1
    return graphs - {""}


def _closing(tokens: list[Token], start: int) -> int:
    """Return the position of the brace that closes the one at a position."""
    depth = 0
    for position in range(start, len(tokens)):
        depth += {"{": 1, "}": -1}.get(_text(tokens, position), 0)
        if not depth:
            return position
    return len(tokens)


def _text(tokens: list[Token], position: int) -> str:
    """Return the sign at a position; an empty text if there is none."""
    return tokens[position].text if position < len(tokens) and tokens[position].kind == "sign" else ""


def _iri(token: Token, prefixes: dict[str, str]) -> str | None:
    if token.kind == "iri" and ":" in token.text and "\\" not in token.text:
        return token.text[1:-1]
    prefix, colon, local = token.text.partition(":")
    if token.kind == "name" and colon and prefix in prefixes and "\\" not in local:
        return prefixes[prefix] + local
    return None
