"""Things as N-Triples and N-Quads bytes, straight from the tables of their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC
from typing import TYPE_CHECKING, Any

from provml.errors import WrongType
from provml.field import Field
from provml.rdf.literal import LEXICAL, WRITTEN_AS, object_of
from provml.things import RDF_TYPE, Thing
from provml.values import IRI

if TYPE_CHECKING:
    import pyoxigraph

# How the value `v` of a kind of field is written, as the inside of an f-string; see `_writer`.
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
    """The object of a triple with this field's value `v`, as the inside of an f-string."""
    if field.choices and all(choice.isalnum() for choice in field.choices):
        return '"{v}"'
    template = _TEMPLATES.get(field.kind, '"{lexical(v)}"^^<DATATYPE>')
    return template.replace("DATATYPE", _inside(field.datatype or WRITTEN_AS.get(field.kind, "")))


def _inside(iri: str) -> str:
    """An IRI as the inside of a quoted f-string (an IRI may hold quotes, never braces or backslashes)."""
    return iri.replace("'", "\\'")


def _writer(cls: type[Thing], names: tuple[str, ...]) -> Callable[[str, dict[str, Any]], str]:
    """A function that writes the things of one class that have just these fields.

    It is compiled from the class's table: one f-string for the types and the fields of one value, which is as fast as
    Python formats text, and a loop for each field of several values.
    """
    lines, loops = ["def write_thing(s, values):"], []
    text = "".join(f"{{s}} <{RDF_TYPE}> <{_inside(name)}> .\\n" for name in cls.TYPES)
    for index, name in enumerate(names):
        if name == "also":
            loops += ["    for key, held in values['also'].items():", "        for v in held:"]
            loops += ["            out += f'{s} <{key}> {write_also(v)} .\\n'"]
            continue
        field = cls.FIELDS[name]
        made = f"o{index} = f'{_object_template(field)}'"
        triples = "".join(f"{{s}} <{_inside(iri)}> {{o{index}}} .\\n" for iri in (field.iri, *field.supers))
        if field.inverse is not None:
            triples += f"{{o{index}}} <{_inside(field.inverse)}> {{s}} .\\n"
        if field.one:
            lines += [f"    v = values[{name!r}]", f"    {made}"]
            text += triples
        else:
            loops += [f"    for v in values[{name!r}]:", f"        {made}", f"        out += f'{triples}'"]
    lines += [f"    out = f'{text}'", *loops, "    return out"]
    known: dict[str, Any] = {"IRI": IRI, "UTC": UTC, "write": object_of, "write_also": _object_also}
    known["lexical"] = lambda value: LEXICAL[value.__class__](value)
    exec("\n".join(lines), known)
    made_here: Callable[[str, dict[str, Any]], str] = known["write_thing"]
    return made_here


def _object_also(value: Any) -> str:
    if isinstance(value, Thing):
        return f"<{value.iri}>"
    return f"<{value}>" if value.__class__ is IRI else object_of(value)


_WRITERS: dict[tuple[type[Thing], tuple[str, ...]], Callable[[str, dict[str, Any]], str]] = {}


def _block(thing: Thing, caller: str = "ntriples") -> str:
    """The triples of one thing."""
    if not isinstance(thing, Thing):
        raise _refusal(caller, thing)
    values = thing._values
    key = (thing.__class__, tuple(values))
    writer = _WRITERS.get(key)
    if writer is None:
        writer = _WRITERS[key] = _writer(*key)
    return writer(f"<{thing.iri}>", values)


def _several(caller: str, things: Thing | Iterable[Thing]) -> Iterable[Thing]:
    """What was given as something to iterate over; text and what does not iterate is refused."""
    if isinstance(things, Thing):
        return (things,)
    given: object = things
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise _refusal(caller, given)
    return given


def _refusal(caller: str, given: object) -> WrongType:
    if isinstance(given, IRI):
        advice = "Make a thing with this IRI: an IRI alone says nothing that could be written."
    elif isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        advice = "Give them in one flat list: [*these, *those]."
    else:
        advice = "Make one with a class of provml.vocab first."
    return WrongType("rdf", caller, given, "a thing, or several in a list", advice)


def reachable(things: Thing | Iterable[Thing]) -> Iterator[Thing]:
    """The given things and every thing that their fields hold, each once."""
    return _reachable("reachable", list(_several("reachable", things)))


def _reachable(caller: str, things: Iterable[Thing]) -> Iterator[Thing]:
    seen: set[int] = set()
    waiting = list(things)[::-1]
    while waiting:
        thing = waiting.pop()
        if id(thing) not in seen:
            if not isinstance(thing, Thing):
                raise _refusal(caller, thing)
            seen.add(id(thing))
            yield thing
            waiting.extend(thing.references())


def ntriples(things: Thing | Iterable[Thing], *, follow: bool = False) -> bytes:
    """The N-Triples of some things; with `follow`, of the things that they refer to as well."""
    return _written("ntriples", things, follow)


def nquads(things: Thing | Iterable[Thing], *, graph: str | None = None, follow: bool = False) -> bytes:
    """The N-Quads of some things, in the default graph or in the named one."""
    triples = _written("nquads", things, follow)
    # A line break inside a literal is escaped, so " .\n" stands at the end of each line and nowhere else.
    return triples if graph is None else triples.replace(b" .\n", f" <{IRI(graph)}> .\n".encode())


def triples(things: Thing | Iterable[Thing], *, follow: bool = False) -> Iterator[pyoxigraph.Triple]:
    """The pyoxigraph triples of some things."""
    import pyoxigraph as ox

    return (quad.triple for quad in ox.parse(_written("triples", things, follow), ox.RdfFormat.N_TRIPLES))


def _written(caller: str, things: Thing | Iterable[Thing], follow: bool) -> bytes:
    given = _several(caller, things)
    return "".join([_block(thing, caller) for thing in (_reachable(caller, given) if follow else given)]).encode()
