"""Python scalars as journal values: JSON where JSON is exact, else `[datatype, text]`."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Integral, Real
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
    if scalar.__class__ not in PLAIN or scalar.__class__ is Decimal:
        scalar = plain_number(scalar)
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


def plain_number(value: object) -> object:
    """Return a number of any other type as an int or a float, and a Decimal whose text is too long as a float.

    A value that is not a real number is returned unchanged. A finite number that no float can hold is an OverflowError.
    """
    if isinstance(value, Decimal):
        from provml.model.field import has_short_text

        if has_short_text(value):
            return value
        double = math.nan if value.is_nan() else float(value)
    elif not isinstance(value, Real) or getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M"):  # NaT
        return value
    elif isinstance(value, Integral):
        return int(value)
    else:
        double = float(value)
    if math.isinf(double) and value != double:
        raise OverflowError(f"a {type(value).__name__} beyond the largest float")
    return double
