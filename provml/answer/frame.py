"""Rows as a data frame of pandas or polars, each column with the type that its values have.

Whole numbers stay whole where some are missing, times keep that they are in UTC, and nodes are text. A column of
several kinds of values holds them as they are in pandas, and as text in polars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from provml.answer.form import plain
from provml.answer.table import Row
from provml.errors import MissingPart

if TYPE_CHECKING:
    import pandas
    import polars

KINDS: dict[str, str] = {
    "integer": "integer",
    "double": "number",
    "boolean": "truth",
    "dateTime": "zoned",
    "iri": "text",
    "string": "text",
}
"""What the columns hold that a query file declares so: it decides where a column has no value at all."""

LARGEST = 2**63
EXACT = 2**53
"""Up to here a double holds every whole number."""


def to_pandas(columns: Sequence[str], rows: Sequence[Row], types: Mapping[str, str]) -> pandas.DataFrame:
    """A data frame of pandas. A number that is missing is NaN there, as pandas has it."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingPart("pandas", "pandas") from None
    series = []
    for index, name in enumerate(columns):
        kind, values = _column(rows, index, types.get(name, ""))
        holes = None in values
        dtype: str | None = {
            "integer": "Int64" if holes else "int64",
            "number": "float64",
            "truth": "boolean" if holes else "bool",
            "zoned": "datetime64[us, UTC]",
            "moment": "datetime64[us]",
            "length": "timedelta64[us]",
            "text": None,
        }.get(kind, "object")
        if kind == "text" and values.count(None) == len(values):
            dtype = "object"  # with nothing in it, pandas would not see that it is text
        series.append(pd.Series(values, dtype=dtype))
    if not series:
        return pd.DataFrame(index=range(len(rows)))
    frame = pd.concat(series, axis=1)
    frame.columns = pd.Index(list(columns))
    return frame


def to_polars(columns: Sequence[str], rows: Sequence[Row], types: Mapping[str, str]) -> polars.DataFrame:
    """A data frame of polars."""
    try:
        import polars as pl
    except ImportError:
        raise MissingPart("polars", "polars") from None
    dtypes: dict[str, Any] = {
        "integer": pl.Int64(),
        "number": pl.Float64(),
        "truth": pl.Boolean(),
        "zoned": pl.Datetime("us", "UTC"),
        "moment": pl.Datetime("us"),
        "length": pl.Duration("us"),
        "date": pl.Date(),
        "nothing": pl.Null(),
    }
    series = []
    for index, name in enumerate(columns):
        kind, values = _column(rows, index, types.get(name, ""))
        if kind not in dtypes:
            values = [None if value is None else _word(value) for value in values]
        series.append(pl.Series(name, values, dtype=dtypes.get(kind, pl.String()), strict=True))
    return pl.DataFrame(series)


def _column(rows: Sequence[Row], index: int, declared: str) -> tuple[str, list[Any]]:
    """What one column holds, and its values as those that a frame of that kind takes."""
    values = [row[index] for row in rows]
    held = [value for value in values if value is not None]
    kind = _kind(held) if held else KINDS.get(declared, "nothing")
    if kind == "text":
        return kind, [None if value is None else str(value) for value in values]
    if kind == "number":
        return kind, [None if value is None else float(value) for value in values]
    if kind == "zoned":
        try:
            return kind, [None if value is None else value.astimezone(UTC) for value in values]
        except OverflowError:  # the first or last hours that there are, in another zone
            return "mixed", values
    return kind, values


def _kind(held: list[Any]) -> str:
    """What all of these are."""
    classes = {value.__class__ for value in held}
    if classes == {bool}:
        return "truth"
    if classes == {int}:
        return "integer" if all(-LARGEST <= value < LARGEST for value in held) else "mixed"
    if classes <= {int, float, Decimal}:  # a decimal becomes the double that is nearest to it
        return "number" if all(value.__class__ is float or abs(value) <= EXACT for value in held) else "mixed"
    if classes == {datetime}:
        zoned = sum(value.tzinfo is not None for value in held)
        return "zoned" if zoned == len(held) else "mixed" if zoned else "moment"
    if all(issubclass(each, str) for each in classes):
        return "text"
    alone = classes.pop() if len(classes) == 1 else None
    return "length" if alone is timedelta else "date" if alone is date else "mixed"


def _word(value: Any) -> str:
    """A value as text, as CSV writes it."""
    return str(value).lower() if value.__class__ is bool else str(plain(value))
