"""`Thing`, the base of every class that the compiler generates.

A thing is an immutable description of one node: its IRI and the values of its fields. The fields of a class, and the
values that they accept, come from the ontology; the constructor rejects every other value. RDF syntax and XSD are the
job of `provml.rdf`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

from provml.errors import MissingField, WrongType, WrongValue
from provml.model.field import Field, identity
from provml.model.values import IRI, Scalar

RDF_TYPE = IRI("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
RDFS = "http://www.w3.org/2000/01/rdf-schema#"

CLASSES: dict[str, type[Thing]] = {}
"""All subclasses of `Thing` by the IRI of their class, so that a node can be read as a thing."""


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)  # for type checkers: read-only fields
class Thing:
    """A node with the values of its properties. `provml compile` generates the subclasses; a `Thing` has no type.

    Fields are attributes: a value or None if the ontology allows one value, else a tuple. `extra` maps the IRIs of
    properties without a field to values.
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

    if TYPE_CHECKING:  # the fields of all things; the classes annotate their own

        @property
        def iri(self) -> IRI: ...
        @property
        def label(self) -> tuple[str, ...]: ...
        @property
        def comment(self) -> tuple[str, ...]: ...
        @property
        def extra(self) -> Mapping[IRI, tuple[Scalar | Thing, ...]]: ...

    def __init__(
        self,
        iri: str,
        *,
        label: str | Iterable[str] | None = None,
        comment: str | Iterable[str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        values: dict[str, object] = {}
        if label is not None:
            values["label"] = label
        if comment is not None:
            values["comment"] = comment
        self._assign(iri, values, extra)

    def __init_subclass__(cls, *, init: bool = True) -> None:
        """Build the field table of a class; `init=False` tells type checkers that it has no constructor of its own."""
        super().__init_subclass__()
        fields: dict[str, Field] = {}
        for base in reversed(cls.__mro__):
            for field in base.__dict__.get("OWN_FIELDS", ()):
                fields[field.name] = field
        cls.FIELDS = fields
        cls.REQUIRED = tuple(field.name for field in fields.values() if field.min_count)
        if "CLASS_IRI" in cls.__dict__ and cls.CLASS_IRI is not None:
            cls.TYPE_SET = frozenset(cls.TYPES)
            registered = CLASSES.get(cls.CLASS_IRI)
            # A user's own copy of a bundled ontology does not replace the classes that provml reads nodes with.
            if registered is None or not registered.__module__.startswith("provml.vocab"):
                CLASSES[cls.CLASS_IRI] = cls
        # A required field has no default in the source, for type checkers and readers. At run time its default is None,
        # so that a missing value raises MissingField, which says what was expected.
        own = cls.__dict__.get("__init__")
        if own is not None and cls.REQUIRED:
            own.__kwdefaults__ = {**(own.__kwdefaults__ or {}), **dict.fromkeys(cls.REQUIRED)}

    def _assign(self, iri: str, values: dict[str, object], extra: Mapping[str, object] | None) -> None:
        """Check the values and store them; called by every `__init__`."""
        _set_iri(self, iri if iri.__class__ is IRI else IRI(iri))
        fields = self.FIELDS
        for name, value in values.items():
            field = fields[name]
            if value.__class__ is not field.fast_type or (field.fast_check is not None and not field.fast_check(value)):
                values[name] = field.accept(self.__class__.__name__, value)
            elif not field.single:
                values[name] = (value,)
        for name in self.REQUIRED:
            if name not in values:
                raise MissingField(self.__class__.__name__, name, fields[name].expected)
        if extra:
            mapping: object = extra
            if not isinstance(mapping, Mapping):
                advice = "Pass a dict such as {'http://example.org/property': 1}."
                raise WrongType(type(self).__name__, "extra", extra, "a mapping from property IRIs to values", advice)
            values["extra"] = {IRI(key): self._accept_extra(IRI(key), value) for key, value in extra.items()}
        _set_values(self, values)

    def _accept_extra(self, key: IRI, value: object) -> object:
        name = type(self).__name__
        for field in self.FIELDS.values():
            if field.iri == key:  # otherwise values that the field rejects would be accepted here
                expected, advice = "a property without a field", f"Pass {field.name}=… instead."
                raise WrongValue(name, f"extra[{key}]", value, expected, advice)
        field = Field(f"extra[{key}]", key, "any", single=True)
        items = value if isinstance(value, (list, tuple, set, frozenset)) else (value,)
        values = tuple([item if isinstance(item, (Thing, IRI)) else field.accept(name, item) for item in items])
        if key == RDF_TYPE and not all(isinstance(item, (Thing, IRI)) for item in values):
            raise WrongType(name, field.name, value, "the IRI of a class", "Wrap it in IRI(…).")
        return values

    if not TYPE_CHECKING:  # type checkers use the annotations, and report all other names

        def __getattr__(self, name: str) -> object:
            if name == "_values":  # a debugger looks at a thing whose constructor failed
                raise AttributeError(name)
            values = self._values
            if name == "extra":
                return MappingProxyType(values.get("extra", {}))
            if name in values:
                return values[name]
            field = self.FIELDS.get(name)
            if field is not None:
                return None if field.single else ()
            raise AttributeError(_no_such_field(type(self), name))

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(
                f"a {type(self).__name__} is immutable: use .replace({name}=…) to create a changed copy"
            )

        def __delattr__(self, name: str) -> None:
            raise AttributeError(
                f"a {type(self).__name__} is immutable: use .replace({name}=None) to create a changed copy"
            )

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; None removes the values of a field."""
        iri = changes.pop("iri", self.iri)
        for name in changes:
            if name != "extra" and name not in self.FIELDS:
                raise TypeError(_no_such_field(type(self), name))
        return type(self)(iri, **{**self._values, **changes})

    def references(self) -> Iterator[Thing]:
        """Yield the things that are values of this one's fields."""
        for name, value in self._values.items():
            values = [item for items in value.values() for item in items] if name == "extra" else value
            for item in values if isinstance(values, (list, tuple)) else (values,):
                if isinstance(item, Thing):
                    yield item

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Thing) or type(self) is not type(other) or self.iri != other.iri:
            return NotImplemented if not isinstance(other, Thing) else False
        return _comparable(self._values) == _comparable(other._values)

    def __hash__(self) -> int:
        return hash(self.iri)

    def __repr__(self) -> str:
        values = "".join(f", {name}={_format_value(value)}" for name, value in self._values.items())
        return f"{type(self).__name__}({str(self.iri)!r}{values})"

    def __reduce__(self) -> tuple[object, ...]:
        return (restore, (type(self), self.iri, self._values))

    _values: dict[str, Any]


_set_iri = Thing.__dict__["iri"].__set__
_set_values = Thing.__dict__["_values"].__set__


def _no_such_field(cls: type[Thing], name: str) -> str:
    suggestions: list[str] = []
    if not name.startswith("_"):  # tools often look up such names
        from difflib import get_close_matches

        suggestions = get_close_matches(name, cls.FIELDS, 1)
    advice = f"did you mean {suggestions[0]!r}?" if suggestions else f"it has {', '.join(cls.FIELDS)}"
    return f"{cls.__name__} has no field {name!r}; {advice}"


def restore(cls: type[Thing], iri: IRI, values: dict[str, object]) -> Thing:
    """Return a thing with stored values, unchecked: from a pickle, or from a graph that violates its ontology."""
    thing = cls.__new__(cls)
    _set_iri(thing, iri)
    _set_values(thing, values)
    return thing


def _format_value(value: object) -> str:
    """Return a field's value for a repr; things by their IRI only, since things may refer to each other."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{str(key)!r}: {_format_value(items)}' for key, items in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(_format_value(item) for item in value)}{',' if len(value) == 1 else ''})"
    return f"<{value.iri}>" if isinstance(value, Thing) else repr(value)


def _comparable(values: Mapping[str, object]) -> dict[str, frozenset[object]]:
    """Return values that compare as in a graph: order does not count, 1 differs from 1.0, and NaN equals NaN."""
    compared: dict[str, frozenset[object]] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            compared.update({str(key): frozenset(map(identity, items)) for key, items in value.items() if items})
        elif isinstance(value, tuple):
            if value:
                compared[name] = frozenset(map(identity, value))
        else:
            compared[name] = frozenset([identity(value)])
    return compared


def resolve_renamed(module: str, names: Mapping[str, object], table: Mapping[str, str], name: str) -> object:
    """Return the class of a former name, with a DeprecationWarning; called by generated modules."""
    if name not in table:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    import warnings

    warnings.warn(f"{name} is now called {table[name]}", DeprecationWarning, stacklevel=3)
    return names[table[name]]
