"""What a data property takes: datatypes, their facets and enumerations, and what several of them say together."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import pyoxigraph as ox

from provml.compiler.expression import Said, listed
from provml.compiler.source import OWL, XSD, Node
from provml.rdf import KINDS, WRITTEN_AS


@dataclass(frozen=True)
class DataRange:
    """What a data property takes: the kind of value, the datatype it is written with, and its facets.

    `unchecked` names what the ontology says of it that fields cannot hold.
    """

    kind: str = "any"
    datatype: str | None = None
    limits: tuple[tuple[str, int | float], ...] = ()
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


ANY_SCALAR = DataRange()

_BOUNDS = ("minInclusive", "maxInclusive", "minExclusive", "maxExclusive")
_LENGTHS = ("length", "minLength", "maxLength")
_FACETS = {"integer": _BOUNDS, "float": _BOUNDS, "decimal": _BOUNDS, "text": _LENGTHS}
"""The facets that the fields of a kind can hold; those of text may have a pattern too."""

_SIZES = {"byte": 8, "short": 16, "int": 32, "long": 64}
_INTEGERS: dict[str, tuple[int | None, int | None]] = {
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    **{name: (-(2 ** (size - 1)), 2 ** (size - 1) - 1) for name, size in _SIZES.items()},
    **{f"unsigned{name.capitalize()}": (0, 2**size - 1) for name, size in _SIZES.items()},
}
"""From where to where the integers of a datatype go."""


def data_range(said: Said, node: Node) -> DataRange | None:
    """A data range: a datatype, one with facets, or an enumeration of values; None where it is something else."""
    if isinstance(node, ox.NamedNode):
        return _datatype(said, node)
    cell = said.get(node, {})
    if OWL + "oneOf" in cell:
        return _enumeration([x for x in listed(said, node, OWL + "oneOf") if isinstance(x, ox.Literal)])
    inner = data_range(said, cell[OWL + "onDatatype"][0]) if cell.get(OWL + "onDatatype") else None
    if inner is None:
        return None
    for facet in listed(said, node, OWL + "withRestrictions"):
        for name, bounds in said.get(facet, {}).items():
            for bound in bounds:
                if isinstance(bound, ox.Literal):
                    inner = narrowed(inner, _facet(inner, name.removeprefix(XSD), bound.value)) or inner
    return inner


def _datatype(said: Said, node: ox.NamedNode) -> DataRange | None:
    defined = said.get(node, {}).get(OWL + "equivalentClass", [])
    if defined and not node.value.startswith(XSD):
        return data_range(said, defined[0])
    kind = KINDS.get(node.value, "other")
    least, most = _INTEGERS.get(node.value.removeprefix(XSD), (None, None))
    limits = [("maxInclusive", most)] if most is not None else []
    limits += [("minInclusive", least)] if least is not None else []
    return DataRange(kind, None if kind == "any" else node.value, tuple(limits))


def _enumeration(values: list[ox.Literal]) -> DataRange | None:
    datatypes = {value.datatype.value for value in values}
    if len(datatypes) != 1:
        return None
    (datatype,) = datatypes
    kind = KINDS.get(datatype, "other")
    if kind == "text":
        return DataRange(kind, datatype, choices=tuple(dict.fromkeys(value.value for value in values)))
    return DataRange(kind, datatype, unchecked=("that it is one of the listed values",))


def _facet(base: DataRange, name: str, text: str) -> DataRange:
    """A datatype with one facet; one that fields cannot hold is only named."""
    bare = DataRange(base.kind, base.datatype)
    if name == "pattern" and base.kind == "text" and _compiles(text):
        return replace(bare, pattern=text)
    bound = _number(text) if name in _FACETS.get(base.kind, ()) else None
    if bound is None or (base.kind == "decimal" and isinstance(bound, float)):  # a float is no exact bound there
        return replace(bare, unchecked=(f"{name} {text}",))
    return replace(bare, limits=((name, bound),))


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def narrowed(one: DataRange, other: DataRange) -> DataRange | None:
    """What two data ranges allow together; None where nothing is in both."""
    for wide, narrow in ((one, other), (other, one)):
        if wide.kind == "any" or (wide.kind == "words" and narrow.kind in ("text", "tagged")):
            return replace(narrow, unchecked=tuple(dict.fromkeys(wide.unchecked + narrow.unchecked)))
    if one.kind != other.kind or (one.kind == "other" and one.datatype != other.datatype):
        return None
    choices = tuple(x for x in other.choices if x in one.choices) if one.choices and other.choices else ()
    if one.choices and other.choices and not choices:
        return None
    unchecked = one.unchecked + other.unchecked
    if one.pattern and other.pattern and one.pattern != other.pattern:
        unchecked += (f"pattern {other.pattern}",)
    return DataRange(
        one.kind,
        other.datatype if one.datatype == WRITTEN_AS.get(one.kind) else one.datatype,
        _tightest(one.limits + other.limits),
        one.pattern or other.pattern,
        choices or one.choices or other.choices,
        tuple(dict.fromkeys(unchecked)),
    )


def _tightest(limits: tuple[tuple[str, int | float], ...]) -> tuple[tuple[str, int | float], ...]:
    found: dict[str, int | float] = {}
    for facet, bound in limits:
        tighter = max if facet.startswith("min") else min
        found[facet] = tighter(found[facet], bound) if facet in found else bound
    return tuple(sorted(found.items()))
