"""Things as N-Triples and N-Quads, by functions that are compiled from the field tables of their classes.

Turtle, JSON-LD and rdflib graphs are made of the N-Triples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any

from provml.errors import WrongType
from provml.model.field import Field
from provml.model.thing import RDF_TYPE, Thing
from provml.model.values import IRI
from provml.rdf.literals import DATATYPE_OF_KIND, LEXICAL, format_literal
from provml.rdf.namespaces import PREFIXES

if TYPE_CHECKING:
    import pyoxigraph

    from provml.rdf import rdflib_bridge

Writer = Callable[[str, dict[str, Any]], str]
"""Function from the subject, as it is written, and the values of a thing to its N-Triples."""

# How the value `v` of a kind of field is written, as the inside of an f-string; see `_compile_writer`.
_TEMPLATES = {
    "thing": "<{v if v.__class__ is IRI else v.iri}>",
    "float": '"{repr(v) if v - v == 0.0 else lexical(v)}"^^<DATATYPE>',
    "integer": '"{v}"^^<DATATYPE>',
    "datetime": '"{v.isoformat() if v.tzinfo is UTC else lexical(v)}"^^<DATATYPE>',
    "any": "{write(v)}",
    "words": "{write(v)}",
    "tagged": "{write(v)}",
    "text": "{write(v)}",
    "other": "{write(v)}",
}


def _object_template(field: Field) -> str:
    """Return the object of a triple with this field's value `v`, as the inside of an f-string."""
    if field.choices and all(choice.isalnum() for choice in field.choices):
        return '"{v}"'
    template = _TEMPLATES.get(field.kind, '"{lexical(v)}"^^<DATATYPE>')
    return template.replace("DATATYPE", _escape_iri(field.datatype or DATATYPE_OF_KIND.get(field.kind, "")))


def _escape_iri(iri: str) -> str:
    """Return an IRI as the inside of a quoted f-string; an IRI may contain quotes, never braces or backslashes."""
    return iri.replace("'", "\\'")


def _compile_writer(cls: type[Thing], names: tuple[str, ...]) -> Writer:
    """Return a function that writes the things of one class that have exactly these fields.

    It is compiled from the field table of the class: one f-string for the types and all single-valued fields, which is
    the fastest way to format text in Python, and a loop for each other field.
    """
    lines, loops = ["def write_thing(s, values):"], []
    text = "".join(f"{{s}} <{RDF_TYPE}> <{_escape_iri(name)}> .\\n" for name in cls.TYPES)
    for index, name in enumerate(names):
        if name == "extra":
            loops += ["    for key, items in values['extra'].items():", "        for v in items:"]
            loops += ["            out += f'{s} <{key}> {write_extra(v)} .\\n'"]
            continue
        field = cls.FIELDS[name]
        assignment = f"o{index} = f'{_object_template(field)}'"
        triples = "".join(
            f"{{s}} <{_escape_iri(iri)}> {{o{index}}} .\\n" for iri in (field.iri, *field.super_properties)
        )
        if field.inverse is not None:
            triples += f"{{o{index}}} <{_escape_iri(field.inverse)}> {{s}} .\\n"
        if field.single:
            lines += [f"    v = values[{name!r}]", f"    {assignment}"]
            text += triples
        else:
            loops += [f"    for v in values[{name!r}]:", f"        {assignment}", f"        out += f'{triples}'"]
    lines += [f"    out = f'{text}'", *loops, "    return out"]
    namespace: dict[str, Any] = {"IRI": IRI, "UTC": UTC, "write": format_literal, "write_extra": _format_extra}
    namespace["lexical"] = lambda value: LEXICAL[value.__class__](value)
    exec("\n".join(lines), namespace)
    writer: Writer = namespace["write_thing"]
    return writer


def _format_extra(value: Any) -> str:
    if isinstance(value, Thing):
        return f"<{value.iri}>"
    return f"<{value}>" if value.__class__ is IRI else format_literal(value)


_WRITERS: dict[tuple[type[Thing], tuple[str, ...]], Writer] = {}
"""Compiled writers by class and names of the fields that have values."""


def _write_thing(thing: Thing, caller: str = "ntriples") -> str:
    """Return the N-Triples of one thing."""
    if not isinstance(thing, Thing):
        raise _wrong_type(caller, thing)
    values = thing._values
    key = (thing.__class__, tuple(values))
    writer = _WRITERS.get(key)
    if writer is None:
        writer = _WRITERS[key] = _compile_writer(*key)
    return writer(f"<{thing.iri}>", values)


def _as_iterable(caller: str, things: Thing | Iterable[Thing]) -> Iterable[Thing]:
    """Return one thing or several as an iterable; raise WrongType for anything else."""
    if isinstance(things, Thing):
        return (things,)
    value: object = things
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _wrong_type(caller, value)
    return value


def _wrong_type(caller: str, value: object) -> WrongType:
    if isinstance(value, IRI):
        advice = "Create a thing with this IRI: an IRI alone has no triples."
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        advice = "Pass one flat list: [*first, *second]."
    else:
        advice = "Create one with a class of provml.vocab."
    return WrongType("rdf", caller, value, "a thing, or several in a list", advice)


def reachable(things: Thing | Iterable[Thing]) -> Iterator[Thing]:
    """Yield things and all things that their fields refer to, directly or not, each once."""
    return _reachable("reachable", list(_as_iterable("reachable", things)))


def _reachable(caller: str, things: Iterable[Thing]) -> Iterator[Thing]:
    visited: set[int] = set()
    stack = list(things)[::-1]
    while stack:
        thing = stack.pop()
        if id(thing) not in visited:
            if not isinstance(thing, Thing):
                raise _wrong_type(caller, thing)
            visited.add(id(thing))
            yield thing
            stack.extend(thing.references())


def ntriples(things: Thing | Iterable[Thing], *, follow: bool = False) -> bytes:
    """Return the N-Triples of things; with `follow`, also those of the things that they refer to."""
    return _to_ntriples("ntriples", things, follow)


def nquads(things: Thing | Iterable[Thing], *, graph: str | None = None, follow: bool = False) -> bytes:
    """Return the N-Quads of things, in the default graph or in a named graph."""
    triples = _to_ntriples("nquads", things, follow)
    # line breaks inside literals are escaped, so " .\n" occurs only at the end of a line
    return triples if graph is None else triples.replace(b" .\n", f" <{IRI(graph)}> .\n".encode())


def triples(things: Thing | Iterable[Thing], *, follow: bool = False) -> Iterator[pyoxigraph.Triple]:
    """Return the pyoxigraph triples of things."""
    import pyoxigraph as ox

    return (quad.triple for quad in ox.parse(_to_ntriples("triples", things, follow), ox.RdfFormat.N_TRIPLES))


def turtle(things: Thing | Iterable[Thing], *, follow: bool = False, prefixes: Mapping[str, str] | None = None) -> str:
    """Return things as Turtle. The usual prefixes are declared, and `prefixes`."""
    import pyoxigraph as ox

    statements = sorted(triples(things, follow=follow), key=str)
    declared = _used({**PREFIXES, **(prefixes or {})}, statements)
    return (ox.serialize(statements, format=ox.RdfFormat.TURTLE, prefixes=declared) or b"").decode()


def _used(prefixes: Mapping[str, str], statements: Iterable[pyoxigraph.Triple]) -> dict[str, str]:
    """Return the prefixes that occur in some statements."""
    text = "\n".join(map(str, statements)).replace(f" <{RDF_TYPE}> ", " a ")
    return {prefix: namespace for prefix, namespace in prefixes.items() if f"<{namespace}" in text}


def jsonld(things: Thing | Iterable[Thing], *, follow: bool = False) -> str:
    """Return things as JSON-LD with the context of the ontologies of provml."""
    from provml.rdf.jsonld_writer import to_jsonld

    return to_jsonld(triples(things, follow=follow))


def to_rdflib(things: Thing | Iterable[Thing], *, follow: bool = False) -> rdflib_bridge.Graph:
    """Return things as an rdflib graph; `read` and `read_all` are the inverse. Needs the extra `rdflib`."""
    from provml.rdf import rdflib_bridge

    return rdflib_bridge.to_rdflib(triples(things, follow=follow))


def _to_ntriples(caller: str, things: Thing | Iterable[Thing], follow: bool) -> bytes:
    iterable = _as_iterable(caller, things)
    if follow:
        iterable = _reachable(caller, iterable)
    return "".join([_write_thing(thing, caller) for thing in iterable]).encode()
