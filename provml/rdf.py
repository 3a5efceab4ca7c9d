"""Things as RDF and back: N-Triples and N-Quads bytes, pyoxigraph terms, Python values. The one room that knows XSD."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from provml.errors import NoSuchNode, NotAnIRI
from provml.field import Field
from provml.things import CLASSES, RDF_TYPE, Thing
from provml.values import IRI, Literal, Text

if TYPE_CHECKING:
    import pyoxigraph

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS_LITERAL = "http://www.w3.org/2000/01/rdf-schema#Literal"

_INTEGERS = (
    "integer", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger", "long", "int", "short",
    "byte", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte",
)  # fmt: skip
KINDS: dict[str, str] = {
    XSD + "string": "text",
    XSD + "double": "float",
    XSD + "float": "float",
    XSD + "decimal": "decimal",
    XSD + "boolean": "boolean",
    XSD + "dateTime": "datetime",
    XSD + "dateTimeStamp": "datetime",
    XSD + "date": "date",
    XSD + "time": "time",
    XSD + "dayTimeDuration": "duration",
    XSD + "duration": "duration",
    XSD + "anyURI": "iri",
    RDF + "langString": "tagged",
    RDF + "PlainLiteral": "words",
    RDFS_LITERAL: "any",
    **{XSD + name: "integer" for name in _INTEGERS},
}
"""The kind of field that a datatype makes; a datatype that is not here is kept as a `Literal` ("other")."""

WRITTEN_AS: dict[str, str] = {
    "text": XSD + "string",
    "float": XSD + "double",
    "integer": XSD + "integer",
    "boolean": XSD + "boolean",
    "decimal": XSD + "decimal",
    "datetime": XSD + "dateTime",
    "date": XSD + "date",
    "time": XSD + "time",
    "duration": XSD + "dayTimeDuration",
    "iri": XSD + "anyURI",
}
"""The datatype that a kind of value is written with unless its field names another."""

# ---------------------------------------------------------------------------------------------------------- writing

_SPECIAL = re.compile(r'["\\\n\r]')
_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r"}


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"' if _SPECIAL.search(text) else f'"{text}"'


def _float(value: float) -> str:
    if value - value == 0.0:  # finite
        return repr(value)
    return "NaN" if value != value else "INF" if value > 0 else "-INF"


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _zoned(value: datetime) -> str:
    """XSD knows offsets of whole minutes up to 14 hours; any other is written as the same instant in UTC."""
    offset = value.utcoffset()
    if offset is not None and (offset % timedelta(minutes=1) or abs(offset) > timedelta(hours=14)):
        value = value.astimezone(UTC)
    return value.isoformat()


def _duration(value: timedelta) -> str:
    sign = "-" if value < timedelta() else ""
    value = abs(value)
    seconds = f"{value.seconds}.{value.microseconds:06d}" if value.microseconds else str(value.seconds)
    return f"{sign}P{value.days}DT{seconds}S"


LEXICAL: dict[type, Callable[[Any], str]] = {
    str: str,
    float: _float,
    int: str,
    bool: lambda value: "true" if value else "false",
    Decimal: _decimal,
    datetime: _zoned,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: _duration,
    IRI: str,
}
_DATATYPES: dict[type, str] = {
    float: WRITTEN_AS["float"],
    int: WRITTEN_AS["integer"],
    bool: WRITTEN_AS["boolean"],
    Decimal: WRITTEN_AS["decimal"],
    datetime: WRITTEN_AS["datetime"],
    date: WRITTEN_AS["date"],
    time: WRITTEN_AS["time"],
    timedelta: WRITTEN_AS["duration"],
    IRI: WRITTEN_AS["iri"],
}


def _object_of_text(value: Any) -> str:
    if value.__class__ is Text:
        return f"{_quoted(value)}@{value.language}"
    if value.__class__ is Literal:
        return f"{_quoted(value)}^^<{value.datatype}>"
    return _quoted(value)


def _object_with(lexical: Callable[[Any], str], datatype: str) -> Callable[[Any], str]:
    tail = f'"^^<{datatype}>'
    return lambda value: f'"{lexical(value)}{tail}'


_OBJECTS: dict[type, Callable[[Any], str]] = {
    **{cls: _object_with(LEXICAL[cls], datatype) for cls, datatype in _DATATYPES.items()},
    str: _object_of_text,
    Text: _object_of_text,
    Literal: _object_of_text,
}


def _object_of_any(value: Any) -> str:
    return _OBJECTS[value.__class__](value)


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
    known: dict[str, Any] = {"IRI": IRI, "UTC": UTC, "write": _object_of_any, "write_also": _object_also}
    known["lexical"] = lambda value: LEXICAL[value.__class__](value)
    exec("\n".join(lines), known)
    made_here: Callable[[str, dict[str, Any]], str] = known["write_thing"]
    return made_here


def _object_also(value: Any) -> str:
    if isinstance(value, Thing):
        return f"<{value.iri}>"
    return f"<{value}>" if value.__class__ is IRI else _object_of_any(value)


_WRITERS: dict[tuple[type[Thing], tuple[str, ...]], Callable[[str, dict[str, Any]], str]] = {}


def _block(thing: Thing) -> str:
    """The triples of one thing."""
    values = thing._values
    key = (thing.__class__, tuple(values))
    writer = _WRITERS.get(key)
    if writer is None:
        writer = _WRITERS[key] = _writer(*key)
    return writer(f"<{thing.iri}>", values)


def reachable(things: Iterable[Thing]) -> Iterator[Thing]:
    """The given things and every thing that their fields hold, each once."""
    seen: set[int] = set()
    waiting = list(things)[::-1]
    while waiting:
        thing = waiting.pop()
        if id(thing) not in seen:
            seen.add(id(thing))
            yield thing
            waiting.extend(thing.references())


def ntriples(things: Thing | Iterable[Thing], *, follow: bool = False) -> bytes:
    """The N-Triples of some things; with `follow`, of the things that they refer to as well."""
    given = (things,) if isinstance(things, Thing) else things
    return "".join([_block(thing) for thing in (reachable(given) if follow else given)]).encode()


def nquads(things: Thing | Iterable[Thing], *, graph: str | None = None, follow: bool = False) -> bytes:
    """The N-Quads of some things, in the default graph or in the named one."""
    triples = ntriples(things, follow=follow)
    # A line break inside a literal is escaped, so " .\n" stands at the end of each line and nowhere else.
    return triples if graph is None else triples.replace(b" .\n", f" <{IRI(graph)}> .\n".encode())


# ---------------------------------------------------------------------------------------------------------- terms


def term(value: object) -> pyoxigraph.NamedNode | pyoxigraph.Literal:
    """The pyoxigraph term of a value: a node for an `IRI` or a thing, a typed literal for a scalar."""
    import pyoxigraph as ox

    if isinstance(value, (Thing, IRI)):
        return ox.NamedNode(value if isinstance(value, IRI) else value.iri)
    scalar = Thing("urn:provml:value", also={"urn:provml:value": value}).also[IRI("urn:provml:value")][0]
    if isinstance(scalar, Text):
        language, _, direction = scalar.language.partition("--")
        return ox.Literal(str(scalar), language=language, direction=ox.BaseDirection(direction) if direction else None)
    if isinstance(scalar, Literal):
        return ox.Literal(str(scalar), datatype=ox.NamedNode(scalar.datatype))
    if scalar.__class__ is str:
        return ox.Literal(scalar)
    return ox.Literal(LEXICAL[type(scalar)](scalar), datatype=ox.NamedNode(_DATATYPES[type(scalar)]))


def triples(things: Thing | Iterable[Thing], *, follow: bool = False) -> Iterator[pyoxigraph.Triple]:
    """The pyoxigraph triples of some things."""
    import pyoxigraph as ox

    for quad in ox.parse(ntriples(things, follow=follow), ox.RdfFormat.N_TRIPLES):
        yield quad.triple


def _read_datetime(written: str) -> datetime:
    return datetime.fromisoformat(written)


_DURATION = re.compile(r"(-)?P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d+))?S)?)?")


def _read_duration(written: str) -> timedelta:
    match = _DURATION.fullmatch(written)
    if match is None:
        raise ValueError(written)
    sign, days, hours, minutes, seconds, fraction = match.groups()
    if fraction and len(fraction) > 6:
        raise ValueError(written)
    length = timedelta(
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=int(seconds or 0),
        microseconds=int((fraction or "0").ljust(6, "0")),
    )
    return -length if sign else length


def _read_boolean(written: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[written]


def _read_float(written: str) -> float:
    special = {"NaN": float("nan"), "INF": float("inf"), "+INF": float("inf"), "-INF": float("-inf")}
    return special[written] if written in special else float(written)


_READERS: dict[str, Callable[[str], object]] = {
    "text": str,
    "float": _read_float,
    "integer": int,
    "boolean": _read_boolean,
    "decimal": Decimal,
    "datetime": _read_datetime,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "duration": _read_duration,
    "iri": IRI,
}


def value(node: pyoxigraph.NamedNode | pyoxigraph.BlankNode | pyoxigraph.Literal | pyoxigraph.Triple) -> Any:
    """The Python value of a pyoxigraph term; what Python has no type for comes as a `Literal`, so nothing is lost."""
    import pyoxigraph as ox

    if isinstance(node, ox.NamedNode):
        return IRI(node.value)
    if not isinstance(node, ox.Literal):
        return str(node)
    if node.language is not None:
        direction = f"--{node.direction.value}" if node.direction is not None else ""
        return Text(node.value, node.language + direction)
    datatype = node.datatype.value
    reader = _READERS.get(KINDS.get(datatype, ""))
    if reader is not None:
        try:
            return reader(node.value)
        except (ValueError, KeyError, OverflowError, InvalidOperation, NotAnIRI):
            pass
    return Literal(node.value, datatype)


# ---------------------------------------------------------------------------------------------------------- reading

Graph = "pyoxigraph.Store | Iterable[pyoxigraph.Triple] | Iterable[pyoxigraph.Quad]"


def _said_of(graph: Any, iri: IRI) -> dict[str, list[Any]]:
    import pyoxigraph as ox

    node = ox.NamedNode(iri)
    if isinstance(graph, (ox.Store, ox.Dataset)):
        graph = (
            graph.quads_for_pattern(node, None, None) if isinstance(graph, ox.Store) else graph.quads_for_subject(node)
        )
    said: dict[str, list[Any]] = {}
    for triple in graph:
        if triple.subject == node:
            said.setdefault(triple.predicate.value, []).append(triple.object)
    return said


def class_of(types: Iterable[str]) -> type[Thing]:
    """The class that says most about a node with these types; a bare `Thing` where none is known."""
    import provml.vocab  # noqa: F401  # its import makes our classes known

    known = [CLASSES[name] for name in types if name in CLASSES]
    return min(known, key=lambda cls: (-len(cls.TYPES), str(cls.CLASS_IRI)), default=Thing)


def read(graph: Any, iri: str, *, as_: type[Thing] | None = None) -> Any:
    """The thing that a graph (a Store, a Dataset, or triples) describes under an IRI.

    Its class is the one that says most about the node, or `as_`. What follows from other statements of the same thing
    (a super-property, the types of the class) is left out, so a thing that was written comes back the same.
    """
    iri = IRI(iri)
    said = _said_of(graph, iri)
    if not said:
        raise NoSuchNode(iri)
    types = [node.value for node in said.pop(RDF_TYPE, [])]
    cls = as_ or class_of(types)
    by_iri = {field.iri: field for field in cls.FIELDS.values()}
    implied: dict[str, set[object]] = {}
    for name in said:
        for above in by_iri[name].supers if name in by_iri else ():
            implied.setdefault(above, set()).update(said[name])
    values: dict[str, Any] = {}
    also: dict[str, list[Any]] = {}
    for name, nodes in said.items():
        held = [value(node) for node in dict.fromkeys(nodes) if node not in implied.get(name, ())]
        field = by_iri.get(name)
        if field is None:
            also[name] = held
        elif held:
            values[field.name] = held[0] if len(held) == 1 else held
    extra = [IRI(name) for name in types if name not in cls.TYPE_SET]
    if extra:
        also[RDF_TYPE] = extra
    return cls(iri, **values, also=also)
