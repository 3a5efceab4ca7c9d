"""`Thing`, the base of every class that the compiler generates.

A thing is an immutable description of one node: its IRI and the values of its fields. The fields of a class, and the
values that they accept, come from the ontology; the constructor rejects every other value. RDF syntax and XSD are the
job of `provml.rdf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, dataclass_transform, overload

from provml.errors import MissingField, WrongType, WrongValue
from provml.model.field import Field, identity
from provml.model.values import IRI, Scalar

RDF_TYPE = IRI("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
RDFS = "http://www.w3.org/2000/01/rdf-schema#"

if TYPE_CHECKING:
    _Read = TypeVar("_Read", covariant=True)
    _Accepted = TypeVar("_Accepted", contravariant=True)

    class ReadOnly:
        """No thing is one, so that type checkers refuse every assignment to a field."""

    class Value(Generic[_Read, _Accepted]):
        """A field for type checkers: the type of the attribute, and the type that the constructor accepts."""

        @overload
        def __get__(self, thing: None, owner: type) -> Self: ...
        @overload
        def __get__(self, thing: object, owner: type) -> _Read: ...
        def __get__(self, thing: object, owner: type) -> Any: ...
        def __set__(self, thing: ReadOnly, value: _Accepted) -> None: ...

    def _field(*, kw_only: bool = True, default: object = None) -> Any: ...
    def required() -> Any:
        """Mark a field without which the constructor refuses to make a thing."""

    # Without frozen_default: mypy then reads inherited fields with the type that the constructor accepts.
    @dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(_field, required))
    class _Node:
        """Makes type checkers derive the constructor of each class from its fields and those of its superclasses."""

        _values: dict[str, Any]

else:
    _Node = object

CLASSES: dict[str, type[Thing]] = {}
"""The subclasses of `Thing` that exist, by the IRI of their class."""

PENDING: dict[str, tuple[str, Callable[[], object]]] = {}
"""Classes of generated modules by IRI: the module, and a function that creates the class when it is first used."""

VOCABULARY = "provml.vocab"
"""Package of the classes of the bundled ontologies. A user's copy of such an ontology never replaces them."""


def register_pending(iri: str, module: str, create: Callable[[], object]) -> None:
    """Register a class that is created when it is first used."""
    if iri not in PENDING or not PENDING[iri][0].startswith(VOCABULARY):
        PENDING[iri] = (module, create)


def find_class(iri: str) -> type[Thing] | None:
    """Return the class of an IRI, so that a node can be read as a thing; None if there is none."""
    if iri not in CLASSES and iri in PENDING:
        PENDING[iri][1]()
    return CLASSES.get(iri)


class _Signature:
    """Signature of a class, for `help`, `inspect` and completion; it is made when someone looks at it."""

    def __get__(self, thing: object, owner: type[Thing]) -> object:
        from inspect import Parameter, Signature

        own_first = dict.fromkeys(field.name for base in owner.__mro__ for field in base.__dict__.get("OWN_FIELDS", ()))
        names = sorted([*own_first, "extra"], key=lambda name: name not in owner.REQUIRED)
        keywords = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=Parameter.empty if name in owner.REQUIRED else None)
            for name in names
        ]
        return Signature([Parameter("iri", Parameter.POSITIONAL_OR_KEYWORD), *keywords])


class Thing(_Node):
    """A node with the values of its properties. `provml compile` generates the subclasses; a `Thing` has no type.

    Fields are attributes: a value or None if the ontology allows one value, else a tuple. `extra` maps the IRIs of
    properties without a field to values.
    """

    if TYPE_CHECKING:  # the fields of all things; the stubs of the generated modules declare those of their classes
        iri: Value[IRI, str] = _field(kw_only=False)
        label: Value[tuple[str, ...], str | Iterable[str] | None] = _field(default=None)
        comment: Value[tuple[str, ...], str | Iterable[str] | None] = _field(default=None)
        extra: Value[Mapping[IRI, tuple[Scalar | Thing, ...]], Mapping[str, object] | None] = _field(default=None)
    else:
        __slots__ = ("_values", "iri")

    CLASS_IRI: ClassVar[str | None] = None
    OWN_TYPES: ClassVar[tuple[str, ...]] = ()
    """IRI of the class, and of the classes that are equivalent to it."""
    TYPES: ClassVar[tuple[str, ...]] = ()
    TYPE_SET: ClassVar[frozenset[str]] = frozenset()
    OWN_FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("label", RDFS + "label", "words"),
        Field("comment", RDFS + "comment", "words"),
    )
    FIELDS: ClassVar[Mapping[str, Field]] = {field.name: field for field in OWN_FIELDS}
    REQUIRED: ClassVar[tuple[str, ...]] = ()

    if not TYPE_CHECKING:  # type checkers derive the constructor from the fields
        __signature__ = _Signature()

        def __init__(self, iri: str, *, extra: Mapping[str, object] | None = None, **values: object) -> None:
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
            if "TYPES" not in cls.__dict__:
                cls.TYPES = tuple(iri for base in cls.__mro__ for iri in base.__dict__.get("OWN_TYPES", ()))
            cls.TYPE_SET = frozenset(cls.TYPES)
            is_bundled = PENDING.get(cls.CLASS_IRI, ("",))[0].startswith(VOCABULARY)
            if not is_bundled or cls.__module__.startswith(VOCABULARY):
                CLASSES[cls.CLASS_IRI] = cls

    def _assign(self, iri: str, values: dict[str, object], extra: Mapping[str, object] | None) -> None:
        """Check the values and store them; None means that a field has no value."""
        _set_iri(self, iri if iri.__class__ is IRI else IRI(iri))
        fields = self.FIELDS
        stored: dict[str, object] = {}
        for name, value in values.items():
            if value is None:
                continue
            field = fields.get(name)
            if field is None:
                raise TypeError(_no_such_field(type(self), name))
            if value.__class__ is not field.fast_type or (field.fast_check is not None and not field.fast_check(value)):
                stored[name] = field.accept(self.__class__.__name__, value)
            else:
                stored[name] = value if field.single else (value,)
        for name in self.REQUIRED:
            if name not in stored:
                raise MissingField(self.__class__.__name__, name, fields[name].expected)
        if extra:
            mapping: object = extra
            if not isinstance(mapping, Mapping):
                advice = "Pass a dict such as {'http://example.org/property': 1}."
                raise WrongType(type(self).__name__, "extra", extra, "a mapping from property IRIs to values", advice)
            stored["extra"] = {IRI(key): self._accept_extra(IRI(key), value) for key, value in extra.items()}
        _set_values(self, stored)

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


_set_iri = Thing.__dict__["iri"].__set__
_set_values = Thing.__dict__["_values"].__set__


MAX_LISTED = 12
"""Number of fields that a message lists."""


def _no_such_field(cls: type[Thing], name: str) -> str:
    suggestions: list[str] = []
    if not name.startswith("_"):  # tools often look up such names
        from difflib import get_close_matches

        suggestions = get_close_matches(name, cls.FIELDS, 1)
    own_first = [*cls.__dict__.get("OWN_FIELDS", ()), *cls.FIELDS.values()]
    names = list(dict.fromkeys(field.name for field in own_first))
    listed = ", ".join(names[:MAX_LISTED]) + (f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")
    advice = f"did you mean {suggestions[0]!r}?" if suggestions else f"it has {listed}"
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


def resolve_renamed(module: str, resolve: Callable[[str], object], table: Mapping[str, str], name: str) -> object:
    """Return the class of a former name, with a DeprecationWarning; called by generated modules."""
    if name not in table:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    import warnings

    warnings.warn(f"{name} is now called {table[name]}", DeprecationWarning, stacklevel=3)
    return resolve(table[name])
