"""Python scalars as journal values: JSON where JSON is exact, else `[datatype, text]`."""

from __future__ import annotations

from typing import Any

from provml.journal import events
from provml.model.values import PLAIN, plain

INTEGERS = range(-(2**63), 2**63)

COUNTERS = frozenset(["step", "global_step", "epoch"])
"""Names of counters that other tools log next to measures. They are no measures: sections are numbered."""


def jsonable(value: Any) -> events.Value:
    """Encode a scalar: as JSON if that is exact, otherwise as `[datatype, text]`."""
    if value.__class__ is float:
        if value - value == 0.0:
            return value
        return ["double", "NaN" if value != value else "INF" if value > 0 else "-INF"]
    scalar = plain(value)
    if scalar.__class__ not in PLAIN and type(value).__module__ != "numpy" and hasattr(value, "shape"):
        scalar = _from_tensor(value)
    if scalar.__class__ is bool or scalar.__class__ is str or (scalar.__class__ is int and scalar in INTEGERS):
        return scalar
    if scalar.__class__ is float:
        return jsonable(scalar)
    from provml.rdf.json_values import encode_value

    return encode_value(scalar)


def _from_tensor(value: Any) -> object:
    """Return the number in a tensor without dimensions, such as a loss; any other value unchanged."""
    convert = getattr(value, "item", None) or getattr(value, "numpy", None)
    return plain(convert()) if convert is not None and tuple(value.shape) == () else value
