"""The shape of data: `Thing`, the root of every class that the compiler writes.

A thing is an immutable description of one node: its IRI and the values of its fields. What its class allows stands in
a table of `Field`s that the compiler took from the ontology; a value that the ontology refuses is refused at the line
that gives it. Nothing here knows about RDF syntax or XSD: that is the room `rdf`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

from provml.errors import MissingField, WrongType, WrongValue
from provml.field import Field, identity
from provml.values import IRI, Kept

RDF_TYPE = IRI("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
RDFS = "http://www.w3.org/2000/01/rdf-schema#"

CLASSES: dict[str, type[Thing]] = {}
"""Every class made so far by its IRI, so that a node can be read back as its thing."""


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)  # tells type checkers: read-only
class Thing:
    """A node and what is said of it. Its subclasses are made by `provml compile`; a bare `Thing` has no type.

    Fields read as attributes: one value or None where the ontology allows one, a tuple where it allows several. `also`
    says what no field covers: a mapping from property IRIs to values.
    """

    __slots__ = ("_values", "iri")

    CLASS_IRI: ClassVar[str | None] = None
    TYPES: ClassVar[tuple[str, ...]] = ()
    TYPE_SET: ClassVar[frozenset[str]] = frozenset()
    OWN_FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("label", RDFS + "label", "words"),
        Field("comment", RDFS + "comment", "words"),
    )
    FIELDS: ClassVar[Mapping[str, Field]] = {field.name: field for field in OWN_FIELDS}
    REQUIRED: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:  # the fields of all things; those of a class stand in it as annotations

        @property
        def iri(self) -> IRI: ...
        @property
        def label(self) -> tuple[str, ...]: ...
        @property
        def comment(self) -> tuple[str, ...]: ...
        @property
        def also(self) -> Mapping[IRI, tuple[Kept | Thing, ...]]: ...

    def __init__(
        self,
        iri: str,
        *,
        label: str | Iterable[str] | None = None,
        comment: str | Iterable[str] | None = None,
        also: Mapping[str, object] | None = None,
    ) -> None:
        values: dict[str, object] = {}
        if label is not None:
            values["label"] = label
        if comment is not None:
            values["comment"] = comment
        self._keep(iri, values, also)

    def __init_subclass__(cls, *, init: bool = True) -> None:
        """Make the table of a class; `init=False` tells type checkers that a subclass by hand keeps its base's init."""
        super().__init_subclass__()
        fields: dict[str, Field] = {}
        for base in reversed(cls.__mro__):
            for field in base.__dict__.get("OWN_FIELDS", ()):
                fields[field.name] = field
        cls.FIELDS = fields
        cls.REQUIRED = tuple(field.name for field in fields.values() if field.least)
        if "CLASS_IRI" in cls.__dict__ and cls.CLASS_IRI is not None:
            cls.TYPE_SET = frozenset(cls.TYPES)
            CLASSES[cls.CLASS_IRI] = cls
        # A required field has no default in the signature, for type checkers and readers; at run time it has None, so
        # that leaving it out raises our error, which says what was expected, and not Python's.
        own = cls.__dict__.get("__init__")
        if own is not None and cls.REQUIRED:
            own.__kwdefaults__ = {**(own.__kwdefaults__ or {}), **dict.fromkeys(cls.REQUIRED)}

    def _keep(self, iri: str, values: dict[str, object], also: Mapping[str, object] | None) -> None:
        """Check what was given and keep it; every `__init__` ends here."""
        _set_iri(self, iri if iri.__class__ is IRI else IRI(iri))
        fields = self.FIELDS
        for name, value in values.items():
            field = fields[name]
            if value.__class__ is not field.exact or (field.quick is not None and not field.quick(value)):
                values[name] = field.accept(self.__class__.__name__, value)
            elif not field.one:
                values[name] = (value,)
        for name in self.REQUIRED:
            if name not in values:
                raise MissingField(self.__class__.__name__, name, fields[name].expected)
        if also:
            given: object = also
            if not isinstance(given, Mapping):
                advice = "Give a dict such as {'http://example.org/property': 1}."
                raise WrongType(type(self).__name__, "also", also, "a mapping from property IRIs to values", advice)
            values["also"] = {IRI(key): self._accept_also(IRI(key), value) for key, value in also.items()}
        _set_values(self, values)

    def _accept_also(self, key: IRI, value: object) -> object:
        name = type(self).__name__
        for field in self.FIELDS.values():
            if field.iri == key:  # or what the field refuses would pass here
                raise WrongValue(name, f"also[{key}]", value, "what no field covers", f"Give {field.name}=… instead.")
        field = Field(f"also[{key}]", key, "any", one=True)
        given = value if isinstance(value, (list, tuple, set, frozenset)) else (value,)
        held = tuple([one if isinstance(one, (Thing, IRI)) else field.accept(name, one) for one in given])
        if key == RDF_TYPE and not all(isinstance(one, (Thing, IRI)) for one in held):
            raise WrongType(name, field.name, value, "the IRI of a class", "Wrap it in IRI(…).")
        return held

    if not TYPE_CHECKING:  # type checkers know the fields by their annotations, and are to flag all else

        def __getattr__(self, name: str) -> object:
            if name == "_values":  # looked up in a thing that was refused half-way, by a debugger
                raise AttributeError(name)
            values = self._values
            if name == "also":
                return MappingProxyType(values.get("also", {}))
            if name in values:
                return values[name]
            field = self.FIELDS.get(name)
            if field is not None:
                return None if field.one else ()
            raise AttributeError(_no_such_field(type(self), name))

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"a {type(self).__name__} does not change: use .replace({name}=…) to make a new one")

        def __delattr__(self, name: str) -> None:
            raise AttributeError(
                f"a {type(self).__name__} does not change: use .replace({name}=None) to make a new one"
            )

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; None takes a field away."""
        iri = changes.pop("iri", self.iri)
        for name in changes:
            if name != "also" and name not in self.FIELDS:
                raise TypeError(_no_such_field(type(self), name))
        return type(self)(iri, **{**self._values, **changes})

    def references(self) -> Iterator[Thing]:
        """The things that this one's fields hold."""
        for name, value in self._values.items():
            held = [x for xs in value.values() for x in xs] if name == "also" else value
            for one in held if isinstance(held, (list, tuple)) else (held,):
                if isinstance(one, Thing):
                    yield one

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Thing) or type(self) is not type(other) or self.iri != other.iri:
            return NotImplemented if not isinstance(other, Thing) else False
        return _comparable(self._values) == _comparable(other._values)

    def __hash__(self) -> int:
        return hash(self.iri)

    def __repr__(self) -> str:
        shown = "".join(f", {name}={_shown(value)}" for name, value in self._values.items())
        return f"{type(self).__name__}({str(self.iri)!r}{shown})"

    def __reduce__(self) -> tuple[object, ...]:
        return (restore, (type(self), self.iri, self._values))

    _values: dict[str, Any]


_set_iri = Thing.__dict__["iri"].__set__
_set_values = Thing.__dict__["_values"].__set__


def _no_such_field(cls: type[Thing], name: str) -> str:
    near: list[str] = []
    if not name.startswith("_"):  # such names are asked for by tools, often and in vain
        from difflib import get_close_matches

        near = get_close_matches(name, cls.FIELDS, 1)
    advice = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(cls.FIELDS)}"
    return f"{cls.__name__} has no field {name!r}; {advice}"


def restore(cls: type[Thing], iri: IRI, values: dict[str, object]) -> Thing:
    """A thing with values as they are kept, unchecked: from a pickle, or from a graph that breaks its ontology."""
    thing = cls.__new__(cls)
    _set_iri(thing, iri)
    _set_values(thing, values)
    return thing


def _shown(value: object) -> str:
    """A field's value in a repr: things by their IRI, so that a repr never runs away."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{str(key)!r}: {_shown(held)}' for key, held in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(_shown(one) for one in value)}{',' if len(value) == 1 else ''})"
    return f"<{value.iri}>" if isinstance(value, Thing) else repr(value)


def _comparable(values: Mapping[str, object]) -> dict[str, frozenset[object]]:
    """Values so that equal ones are what a graph would hold equal: order does not count, 1 is not 1.0, NaN is NaN."""
    compared: dict[str, frozenset[object]] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            compared.update({str(key): frozenset(map(identity, held)) for key, held in value.items() if held})
        elif isinstance(value, tuple):
            if value:
                compared[name] = frozenset(map(identity, value))
        else:
            compared[name] = frozenset([identity(value)])
    return compared


def renamed(module: str, names: Mapping[str, object], table: Mapping[str, str], name: str) -> object:
    """What a retired class name stands for, with a warning; generated modules look names up here."""
    if name not in table:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    import warnings

    warnings.warn(f"{name} is now called {table[name]}", DeprecationWarning, stacklevel=3)
    return names[table[name]]
