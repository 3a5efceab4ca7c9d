"""Where in a file's text a term stands: the line that defines it, or that of a statement which uses it.

Only what is a term counts: a name in a comment, in a string or in the declaration of a prefix is none. Roles are kept
as far as the format shows them: Turtle and its kin and RDF/XML do, JSON-LD does not.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urljoin
from xml.parsers import expat

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_XML = "http://www.w3.org/XML/1998/namespace "


class Place(NamedTuple):
    """One mention of a term; `subject` is the nearest that has a name, `predicate` the one that leads to an object."""

    line: int
    iri: str
    role: str = "object"
    subject: str | None = None
    predicate: str | None = None


def line_of(places: Iterable[Place], iri: str, predicate: str | None, subject: str | None) -> int | None:
    """A term's line: as the object of a predicate if one is given, else as a subject, else at its first mention."""

    def distance(place: Place) -> tuple[bool, bool, int]:
        if predicate is None:
            return (place.role != "subject", False, place.line)
        used = place.role == "object" and place.predicate == predicate
        return (not used, subject not in (None, place.subject), place.line)

    found = min((place for place in places if place.iri == iri), key=distance, default=None)
    return None if found is None else found.line


def _resolved(base: str, iri: str) -> str:
    """An IRI as it is with that base; an empty fragment stays, which `urljoin` would lose."""
    if not base or re.match(r"[A-Za-z][A-Za-z0-9+.\-]*:", iri):
        return iri
    path, mark, fragment = iri.partition("#")
    return (urljoin(base, path) if path else base.partition("#")[0]) + mark + fragment


# ---- Turtle, N-Triples, N3

_TURTLE = re.compile(
    r"""
      \#[^\n]*
    | (?P<string> \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3} | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
    | @?(?i:prefix)\s+ (?P<declared>[^\s:<]*):\s* <(?P<namespace>[^>]*)> (?:\s*\.)?
    | @?(?i:base)\s+ <(?P<base>[^>]*)> (?:\s*\.)?
    | <(?P<iri>[^<>"{}|^`\x00-\x20]*)>
    | (?P<prefix>(?:\w[\w.\-]*)?):(?P<local>(?:[\w\-:%\u00b7]|\\[^\s]|\.(?=[\w\-:%\\.]))*)
    | (?P<number>[+\-]?(?:\d*\.\d+(?:[eE][+\-]?\d+)?|\d+\.[eE][+\-]?\d+))
    | (?P<word>@?\w[\w\-]*)
    | (?P<mark>[.;,\[\](){}])
    """,
    re.X | re.S,
)


def in_turtle(text: str) -> Iterator[Place]:
    """The terms of a text in Turtle, N-Triples or N3, each with its part in its statement."""
    ends = [match.start() for match in re.finditer("\n", text)]
    prefixes: dict[str, str] = {}
    base = ""
    state, subject, predicate = "subject", None, None
    outside: list[tuple[str, str | None, str | None]] = []
    for token in _TURTLE.finditer(text):
        kind = token.lastgroup
        if kind == "namespace":
            prefixes[token["declared"]] = _resolved(base, token["namespace"])
        elif kind == "base":
            base = _resolved(base, token["base"])
        elif kind == "mark":
            mark = token["mark"]
            if mark in "[({":
                outside.append((state, subject, predicate))
                state = {"[": "predicate", "(": "object", "{": "subject"}[mark]
            elif mark in "])}" and outside:
                state, subject, predicate = outside.pop()
                state = "predicate" if state == "subject" else state
            elif mark in ".;":
                state = "subject" if mark == "." else "predicate"
        elif kind is not None:
            iri = None
            if kind == "iri":
                iri = _resolved(base, token["iri"])
            elif kind == "local" and token["prefix"] in prefixes:
                iri = prefixes[token["prefix"]] + re.sub(r"\\(.)", r"\1", token["local"])
            elif token["word"] == "a" and state == "predicate":
                iri = RDF + "type"
            if iri is not None:
                line = bisect_left(ends, token.start()) + 1
                yield Place(line, iri, state, subject, predicate if state == "object" else None)
            if state == "subject":
                state, subject = "predicate", iri
            elif state == "predicate":
                state, predicate = "object", iri


# ---- RDF/XML


def in_xml(data: bytes) -> list[Place]:
    """The terms of a text in RDF/XML: elements are nodes and properties by turns."""
    found: list[Place] = []
    # of each open element: what its children are, the subject and predicate that they belong to, the base there
    around: list[tuple[str, str | None, str | None, str]] = [("node", None, None, "")]
    parser = expat.ParserCreate(namespace_separator=" ")

    def start(name: str, attributes: dict[str, str]) -> None:
        role, subject, predicate, base = around[-1]
        base = _resolved(base, attributes[f"{_XML}base"]) if f"{_XML}base" in attributes else base
        line, iri = parser.CurrentLineNumber, name.replace(" ", "")
        said = {key.removeprefix(f"{RDF} "): value for key, value in attributes.items()}
        if iri == RDF + "RDF":
            role = "node"
        elif role == "node":
            about = f"#{said['ID']}" if "ID" in said else said.get("about")
            if about is not None:
                about = _resolved(base, about)
                found.append(Place(line, about, "subject"))
                if predicate is not None:
                    found.append(Place(line, about, "object", subject, predicate))
            subject = about if about is not None else subject
            if iri != RDF + "Description":
                found.append(Place(line, iri, "object", subject, RDF + "type"))
            written = [key.replace(" ", "") for key in attributes if " " in key and not key.startswith((RDF, _XML))]
            found.extend(Place(line, key, "predicate", subject) for key in written)
            role, predicate = "property", None
        elif role == "property":
            found.append(Place(line, iri, "predicate", subject))
            for key in ("resource", "datatype"):
                if key in said:
                    named = _resolved(base, said[key])
                    found.append(Place(line, named, "object", subject, iri))
            kind = said.get("parseType", "")
            role, predicate = {"Resource": "property", "Literal": "nothing"}.get(kind, "node"), iri
        around.append((role, subject, predicate, base))

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: around.pop()
    with suppress(expat.ExpatError):  # whoever reads the triples says so; what was found until there stands
        parser.Parse(data, True)
    return found


# ---- JSON-LD


def in_json(text: str, prefixes: Mapping[str, str]) -> Iterator[Place]:
    """The strings of a text in JSON that are, as they stand, the IRI of a term or its name with a prefix."""
    for token in re.finditer(r'"((?:[^"\\]|\\.)*)"', text):
        line = text.count("\n", 0, token.start()) + 1
        yield Place(line, token[1])
        prefix, colon, local = token[1].partition(":")
        if colon and prefix in prefixes:
            yield Place(line, prefixes[prefix] + local)
