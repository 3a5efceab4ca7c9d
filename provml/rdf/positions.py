"""Positions of terms in the text of a file: the line that defines a term, or the line of a statement that uses it.

A name in a comment, in a string or in the declaration of a prefix is not a mention of a term. Turtle, N-Triples, N3 and
RDF/XML show the role of a term in its statement; JSON-LD does not.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urljoin
from xml.parsers import expat

from provml.rdf.namespaces import RDF

_XML = "http://www.w3.org/XML/1998/namespace "


class Mention(NamedTuple):
    """One mention of a term, with the nearest named subject; `predicate` is set if the term is an object."""

    line: int
    iri: str
    role: str = "object"
    subject: str | None = None
    predicate: str | None = None


def line_of(mentions: Iterable[Mention], iri: str, predicate: str | None, subject: str | None) -> int | None:
    """Return the line of a term: as object of a given predicate, else as subject, else its first mention."""

    def distance(mention: Mention) -> tuple[bool, bool, int]:
        if predicate is None:
            return (mention.role != "subject", False, mention.line)
        is_object = mention.role == "object" and mention.predicate == predicate
        return (not is_object, subject not in (None, mention.subject), mention.line)

    nearest = min((mention for mention in mentions if mention.iri == iri), key=distance, default=None)
    return None if nearest is None else nearest.line


def _resolve(base: str, iri: str) -> str:
    """Resolve an IRI against a base; keep an empty fragment, which `urljoin` drops."""
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


class _TurtleScanner:
    """Tracks the position in a statement (subject, predicate or object) over the tokens of a Turtle text."""

    def __init__(self, text: str, prefixes: Mapping[str, str]) -> None:
        self.text = text
        self.line_ends = [match.start() for match in re.finditer("\n", text)]
        self.prefixes = dict(prefixes)
        self.base = ""
        self.role = "subject"
        self.subject: str | None = None
        self.predicate: str | None = None
        self.enclosing: list[tuple[str, str | None, str | None]] = []

    def mentions(self) -> Iterator[Mention]:
        for token in _TURTLE.finditer(self.text):
            kind = token.lastgroup
            if kind == "namespace":
                self.prefixes[token["declared"]] = _resolve(self.base, token["namespace"])
            elif kind == "base":
                self.base = _resolve(self.base, token["base"])
            elif kind == "mark":
                self._punctuate(token["mark"])
            elif kind is not None:
                iri = self._iri(token)
                if iri is not None:
                    line = bisect_left(self.line_ends, token.start()) + 1
                    yield Mention(line, iri, self.role, self.subject, self.predicate if self.role == "object" else None)
                self._advance(iri)

    def _iri(self, token: re.Match[str]) -> str | None:
        """Return the IRI that a token denotes, or None for a literal, a blank node or an unknown prefix."""
        if token.lastgroup == "iri":
            return _resolve(self.base, token["iri"])
        if token.lastgroup == "local" and token["prefix"] in self.prefixes:
            return self.prefixes[token["prefix"]] + re.sub(r"\\(.)", r"\1", token["local"])
        if token["word"] == "a" and self.role == "predicate":
            return RDF + "type"
        return None

    def _advance(self, iri: str | None) -> None:
        """Move on to the next position of the statement."""
        if self.role == "subject":
            self.role, self.subject = "predicate", iri
        elif self.role == "predicate":
            self.role, self.predicate = "object", iri

    def _punctuate(self, mark: str) -> None:
        if mark in "[({":
            self.enclosing.append((self.role, self.subject, self.predicate))
            self.role = {"[": "predicate", "(": "object", "{": "subject"}[mark]
        elif mark in "])}" and self.enclosing:
            self.role, self.subject, self.predicate = self.enclosing.pop()
            self.role = "predicate" if self.role == "subject" else self.role
        elif mark in ".;":
            self.role = "subject" if mark == "." else "predicate"


def in_turtle(text: str, prefixes: Mapping[str, str] | None = None) -> Iterator[Mention]:
    """Return the mentions of terms in a text in Turtle, N-Triples or N3.

    The other syntaxes of OWL write names in the same way, but declare their `prefixes` differently.
    """
    return _TurtleScanner(text, prefixes or {}).mentions()


# ---- RDF/XML


class _Element(NamedTuple):
    """What an open element passes to its children: their kind, subject and predicate, and the base IRI."""

    children: str
    subject: str | None
    predicate: str | None
    base: str


class _XmlScanner:
    """Collects the mentions of terms in RDF/XML, where nodes and properties alternate."""

    def __init__(self) -> None:
        self.mentions: list[Mention] = []
        self.open = [_Element("node", None, None, "")]
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = lambda _: self.open.pop()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        parent = self.open[-1]
        base = attributes.get(f"{_XML}base")
        if base is not None:
            parent = parent._replace(base=_resolve(parent.base, base))
        iri = name.replace(" ", "")
        if iri == RDF + "RDF":
            self.open.append(parent._replace(children="node"))
        elif parent.children == "node":
            self.open.append(self._node(iri, attributes, parent))
        elif parent.children == "property":
            self.open.append(self._property(iri, attributes, parent))
        else:
            self.open.append(parent)

    def _add(self, iri: str, role: str, subject: str | None = None, predicate: str | None = None) -> None:
        self.mentions.append(Mention(self.parser.CurrentLineNumber, iri, role, subject, predicate))

    def _node(self, iri: str, attributes: dict[str, str], parent: _Element) -> _Element:
        rdf = _rdf_attributes(attributes)
        about = f"#{rdf['ID']}" if "ID" in rdf else rdf.get("about")
        subject = parent.subject
        if about is not None:
            subject = _resolve(parent.base, about)
            self._add(subject, "subject")
            if parent.predicate is not None:
                self._add(subject, "object", parent.subject, parent.predicate)
        if iri != RDF + "Description":
            self._add(iri, "object", subject, RDF + "type")
        for key in attributes:
            if " " in key and not key.startswith((RDF, _XML)):
                self._add(key.replace(" ", ""), "predicate", subject)
        return _Element("property", subject, None, parent.base)

    def _property(self, iri: str, attributes: dict[str, str], parent: _Element) -> _Element:
        rdf = _rdf_attributes(attributes)
        self._add(iri, "predicate", parent.subject)
        for key in ("resource", "datatype"):
            if key in rdf:
                self._add(_resolve(parent.base, rdf[key]), "object", parent.subject, iri)
        children = {"Resource": "property", "Literal": "none"}.get(rdf.get("parseType", ""), "node")
        return _Element(children, parent.subject, iri, parent.base)


def _rdf_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(f"{RDF} "): value for key, value in attributes.items()}


def in_xml(data: bytes) -> list[Mention]:
    """Return the mentions of terms in a text in RDF/XML."""
    scanner = _XmlScanner()
    with suppress(expat.ExpatError):  # the parser of the triples reports it; the mentions up to there count
        scanner.parser.Parse(data, True)
    return scanner.mentions


# ---- JSON-LD


def in_json(text: str, prefixes: Mapping[str, str]) -> Iterator[Mention]:
    """Return the strings of a JSON text that are an IRI, in full or with a prefix."""
    for token in re.finditer(r'"((?:[^"\\]|\\.)*)"', text):
        line = text.count("\n", 0, token.start()) + 1
        yield Mention(line, token[1])
        prefix, colon, local = token[1].partition(":")
        if colon and prefix in prefixes:
            yield Mention(line, prefixes[prefix] + local)
