"""Prepare a SPARQL update: check it, and give it the graphs that the protocol names beside its text."""

from __future__ import annotations

from collections.abc import Sequence

from provml.errors import QueryError
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
