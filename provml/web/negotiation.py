"""Choose the media type of an answer: by the parameter `format`, or by the header `Accept`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from provml.web.problems import Problem

RESULTS = {
    "json": "application/sparql-results+json",
    "xml": "application/sparql-results+xml",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
}
"""Formats of solutions and booleans by short name. The first is the default."""
GRAPHS = {
    "ttl": "text/turtle",
    "nt": "application/n-triples",
    "rdf": "application/rdf+xml",
    "jsonld": "application/ld+json",
    "trig": "application/trig",
    "nq": "application/n-quads",
    "n3": "text/n3",
}
"""Formats of graphs by short name. The first is the default."""
ALIASES = {
    "application/json": ("application/sparql-results+json", "application/ld+json"),
    "application/xml": ("application/sparql-results+xml", "application/rdf+xml"),
    "text/xml": ("application/sparql-results+xml", "application/rdf+xml"),
    "application/x-turtle": ("text/turtle",),
    "text/plain": ("application/n-triples",),
}
"""Less exact media types, and those that they stand for."""
SHORT_ALIASES = {
    "turtle": "ttl", "ntriples": "nt", "nquads": "nq", "rdfxml": "rdf", "json-ld": "jsonld",
    "srj": "json", "srx": "xml",
}  # fmt: skip


class Range(NamedTuple):
    """A media range of an Accept header, with its weight."""

    media_type: str
    quality: float


def parse_accept(header: str) -> list[Range]:
    """Return the media ranges of an Accept header; an empty one accepts everything."""
    ranges = []
    for part in header.split(","):
        media_type, *parameters = (item.strip().lower() for item in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                try:
                    quality = min(max(float(value), 0.0), 1.0)
                except ValueError:
                    quality = 0.0
        if "/" in media_type:
            ranges.append(Range(media_type, quality))
    return ranges or [Range("*/*", 1.0)]


def quality(media_type: str, ranges: Iterable[Range]) -> float:
    """Return the weight of a media type: that of the most specific range that matches it."""
    best, weight = -1, 0.0
    for item in ranges:
        kind, _, subtype = item.media_type.partition("/")
        if item.media_type == media_type:
            specificity = 3
        elif media_type in ALIASES.get(item.media_type, ()):
            specificity = 2
        elif subtype == "*" and media_type.startswith(f"{kind}/"):
            specificity = 1
        elif item.media_type == "*/*":
            specificity = 0
        else:
            continue
        if specificity > best:
            best, weight = specificity, item.quality
    return weight


def choose(available: Iterable[str], ranges: list[Range]) -> str | None:
    """Return the media type that a client likes best, of those with the same weight the first; None if none fits."""
    best, weight = None, 0.0
    for media_type in available:
        candidate = quality(media_type, ranges)
        if candidate > weight:
            best, weight = media_type, candidate
    return best


def by_name(name: str, formats: Mapping[str, str]) -> str | None:
    """Return the media type of a short name or of a media type; None if there is no such format."""
    name = name.strip().lower()
    name = SHORT_ALIASES.get(name, name)
    return formats.get(name) or (name if name in formats.values() else None)


def negotiate(accept: str, fmt: str, formats: Mapping[str, str]) -> str:
    """Return the media type of an answer; raise a problem if no format fits."""
    if fmt:
        media_type = by_name(fmt, formats)
        if media_type is None:
            raise Problem(400, "UnknownFormat", f"No format {fmt[:50]!r} here. Use one of {', '.join(formats)}.")
        return media_type
    media_type = choose(formats.values(), parse_accept(accept))
    if media_type is None:
        raise Problem(406, "NotAcceptable", f"Available are {', '.join(formats.values())}.")
    return media_type


def query_media_types(accept: str, fmt: str) -> dict[str, str]:
    """Return the media types for each kind of result of a query, whose kind is not known before it runs.

    A kind that the client takes no format of has none: `unavailable` says so when the kind turns out to be that one.
    """
    formats: dict[str, Mapping[str, str]] = {"solutions": RESULTS, "graph": GRAPHS}
    if fmt:
        chosen = {kind: by_name(fmt, available) for kind, available in formats.items()}
        if fmt.lower() == "json":
            chosen["graph"] = GRAPHS["jsonld"]
        elif fmt.lower() == "xml":
            chosen["graph"] = GRAPHS["rdf"]
        names = ", ".join([*RESULTS, *GRAPHS])
        problem = Problem(400, "UnknownFormat", f"No format {fmt[:50]!r} here. Use one of {names}.")
    else:
        ranges = parse_accept(accept)
        chosen = {kind: choose(available.values(), ranges) for kind, available in formats.items()}
        listed = ", ".join([*RESULTS.values(), *GRAPHS.values()])
        problem = Problem(406, "NotAcceptable", f"Available are {listed}.")
        if quality("text/html", ranges):  # a browser: the defaults
            defaults = {"solutions": RESULTS["json"], "graph": GRAPHS["ttl"]}
            chosen = {kind: media_type or defaults[kind] for kind, media_type in chosen.items()}
    if not any(chosen.values()):
        raise problem
    solutions = chosen["solutions"] or ""
    return {"solutions": solutions, "boolean": solutions, "graph": chosen["graph"] or ""}


def unavailable(kind: str) -> Problem:
    """Return the problem of a query whose kind of result has none of the formats that the client takes."""
    formats, noun = (GRAPHS, "a graph") if kind == "graph" else (RESULTS, "a table or a truth value")
    names = ", ".join(formats)
    detail = f"The result is {noun}, which the chosen format cannot hold. Use one of {names}."
    return Problem(406, "NotAcceptable", detail, extra={"available": list(formats.values())})


def content_type(media_type: str) -> str:
    """Return a media type with its character set, for text."""
    return f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type
