"""Ranges of data properties: datatypes, facets and enumerations, and the intersection of several of them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import pyoxigraph as ox

from provml.compiler.class_expressions import Statements, list_members
from provml.compiler.sources import Node
from provml.rdf import DATATYPE_OF_KIND, KIND_OF_DATATYPE
from provml.rdf.namespaces import OWL, XSD


@dataclass(frozen=True)
class DataRange:
    """The values of a data property: their kind, the datatype they are written with, and its facets.

    `unchecked` names the parts of the range that fields cannot check.
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
"""Facets that a field can check, by kind; a text may have a pattern too."""

_SIZES = {"byte": 8, "short": 16, "int": 32, "long": 64}
_INTEGERS: dict[str, tuple[int | None, int | None]] = {
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    **{name: (-(2 ** (size - 1)), 2 ** (size - 1) - 1) for name, size in _SIZES.items()},
    **{f"unsigned{name.capitalize()}": (0, 2**size - 1) for name, size in _SIZES.items()},
}
"""Minimum and maximum of the integer datatypes."""

_DERIVED: dict[str, tuple[str, ...]] = {
    "decimal": ("integer",),
    "integer": ("nonPositiveInteger", "long", "nonNegativeInteger"),
    "nonPositiveInteger": ("negativeInteger",),
    "long": ("int",),
    "int": ("short",),
    "short": ("byte",),
    "nonNegativeInteger": ("unsignedLong", "positiveInteger"),
    "unsignedLong": ("unsignedInt",),
    "unsignedInt": ("unsignedShort",),
    "unsignedShort": ("unsignedByte",),
    "dateTime": ("dateTimeStamp",),
}
"""The datatypes of numbers and times that XML Schema derives from each other."""


def with_derived(datatype: str) -> list[str]:
    """Return a datatype and all that XML Schema derives from it: each of their values is a value of it too."""
    datatypes = [datatype]
    for other in datatypes:  # grows while it is iterated
        datatypes += [XSD + name for name in _DERIVED.get(other.removeprefix(XSD), ())]
    return datatypes


def data_range(statements: Statements, node: Node) -> DataRange | None:
    """Read a datatype, a datatype with facets, or an enumeration of values; None if the node is anything else."""
    if isinstance(node, ox.NamedNode):
        return _datatype(statements, node)
    cell = statements.get(node, {})
    if OWL + "oneOf" in cell:
        values = list_members(statements, node, OWL + "oneOf")
        return _enumeration([value for value in values if isinstance(value, ox.Literal)])
    base = data_range(statements, cell[OWL + "onDatatype"][0]) if cell.get(OWL + "onDatatype") else None
    if base is None:
        return None
    for facet in list_members(statements, node, OWL + "withRestrictions"):
        for name, bounds in statements.get(facet, {}).items():
            for bound in bounds:
                if isinstance(bound, ox.Literal):
                    base = intersection(base, _facet(base, name.removeprefix(XSD), bound.value)) or base
    return base


def _datatype(statements: Statements, node: ox.NamedNode) -> DataRange | None:
    definitions = statements.get(node, {}).get(OWL + "equivalentClass", [])
    if definitions and not node.value.startswith(XSD):
        return data_range(statements, definitions[0])
    kind = KIND_OF_DATATYPE.get(node.value, "other")
    minimum, maximum = _INTEGERS.get(node.value.removeprefix(XSD), (None, None))
    limits = [("maxInclusive", maximum)] if maximum is not None else []
    limits += [("minInclusive", minimum)] if minimum is not None else []
    return DataRange(kind, None if kind == "any" else node.value, tuple(limits))


def _enumeration(values: list[ox.Literal]) -> DataRange | None:
    datatypes = {value.datatype.value for value in values}
    if len(datatypes) != 1:
        return None
    (datatype,) = datatypes
    kind = KIND_OF_DATATYPE.get(datatype, "other")
    if kind == "text":
        return DataRange(kind, datatype, choices=tuple(dict.fromkeys(value.value for value in values)))
    return DataRange(kind, datatype, unchecked=("that it is one of the listed values",))


def _facet(base: DataRange, name: str, text: str) -> DataRange:
    """Return the datatype with one facet, which is unchecked if fields cannot check it."""
    datatype = DataRange(base.kind, base.datatype)
    if name == "pattern" and base.kind == "text" and _compiles(text):
        return replace(datatype, pattern=text)
    bound = _number(text) if name in _FACETS.get(base.kind, ()) else None
    if bound is None or (base.kind == "decimal" and isinstance(bound, float)):  # a float is not an exact bound there
        return replace(datatype, unchecked=(f"{name} {text}",))
    return replace(datatype, limits=((name, bound),))


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


def intersection(first: DataRange, second: DataRange) -> DataRange | None:
    """Return the values that are in both ranges; None if there are none."""
    for wide, narrow in ((first, second), (second, first)):
        if wide.kind == "any" or (wide.kind == "words" and narrow.kind in ("text", "tagged")):
            return replace(narrow, unchecked=tuple(dict.fromkeys(wide.unchecked + narrow.unchecked)))
    if first.kind != second.kind or (first.kind == "other" and first.datatype != second.datatype):
        return None
    choices = _common_choices(first, second)
    if choices is None:
        return None
    unchecked = first.unchecked + second.unchecked
    if first.pattern and second.pattern and first.pattern != second.pattern:
        unchecked += (f"pattern {second.pattern}",)
    return DataRange(
        first.kind,
        second.datatype if first.datatype == DATATYPE_OF_KIND.get(first.kind) else first.datatype,
        _tightest(first.limits + second.limits),
        first.pattern or second.pattern,
        choices,
        tuple(dict.fromkeys(unchecked)),
    )


def _common_choices(first: DataRange, second: DataRange) -> tuple[str, ...] | None:
    """Return the choices that both ranges allow, empty if neither has choices; None if there are none in common."""
    if not first.choices or not second.choices:
        return first.choices or second.choices
    return tuple(choice for choice in second.choices if choice in first.choices) or None


def _tightest(limits: tuple[tuple[str, int | float], ...]) -> tuple[tuple[str, int | float], ...]:
    tightest: dict[str, int | float] = {}
    for facet, bound in limits:
        tighter = max if facet.startswith("min") else min
        tightest[facet] = tighter(tightest[facet], bound) if facet in tightest else bound
    return tuple(sorted(tightest.items()))
