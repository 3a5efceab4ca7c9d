"""Rows as a DataFrame of pandas or polars, with a type for each column.

Integers stay integers if some are missing, times stay in UTC, and nodes are text. A column of several types has the
values as they are in pandas, and as text in polars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from provml.answers.formats import plain
from provml.answers.table import Row
from provml.errors import MissingDependency

if TYPE_CHECKING:
    import pandas
    import polars

DECLARED_KINDS: dict[str, str] = {
    "integer": "integer",
    "double": "number",
    "boolean": "boolean",
    "dateTime": "zoned time",
    "iri": "text",
    "string": "text",
}
"""The kind of a column by its declared type, used if the column has no values."""

INT64_LIMIT = 2**63
MICROSECOND = timedelta(microseconds=1)
MAX_EXACT_INTEGER = 2**53
"""Up to here a double represents every integer."""


def to_pandas(columns: Sequence[str], rows: Sequence[Row], types: Mapping[str, str]) -> pandas.DataFrame:
    """Return a pandas DataFrame. A missing number is NaN, as usual in pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingDependency("pandas", "pandas") from None
    series = []
    for index, name in enumerate(columns):
        kind, values = _column(rows, index, types.get(name, ""))
        has_missing = None in values
        dtype: str | None = {
            "integer": "Int64" if has_missing else "int64",
            "number": "float64",
            "boolean": "boolean" if has_missing else "bool",
            "zoned time": "datetime64[us, UTC]",
            "local time": "datetime64[us]",
            "duration": "timedelta64[us]",
            "text": None,
        }.get(kind, "object")
        if kind == "text" and values.count(None) == len(values):
            dtype = "object"  # pandas cannot infer text from missing values alone
        series.append(pd.Series(values, dtype=dtype))
    if not series:
        return pd.DataFrame(index=range(len(rows)))
    frame = pd.concat(series, axis=1)
    frame.columns = pd.Index(list(columns))
    return frame


def to_polars(columns: Sequence[str], rows: Sequence[Row], types: Mapping[str, str]) -> polars.DataFrame:
    """Return a polars DataFrame."""
    try:
        import polars as pl
    except ImportError:
        raise MissingDependency("polars", "polars") from None
    dtypes: dict[str, Any] = {
        "integer": pl.Int64(),
        "number": pl.Float64(),
        "boolean": pl.Boolean(),
        "zoned time": pl.Datetime("us", "UTC"),
        "local time": pl.Datetime("us"),
        "duration": pl.Duration("us"),
        "date": pl.Date(),
        "empty": pl.Null(),
    }
    series = []
    for index, name in enumerate(columns):
        kind, values = _column(rows, index, types.get(name, ""))
        if kind not in dtypes:
            values = [None if value is None else _text(value) for value in values]
        series.append(pl.Series(name, values, dtype=dtypes.get(kind, pl.String()), strict=True))
    return pl.DataFrame(series)


def _column(rows: Sequence[Row], index: int, declared: str) -> tuple[str, list[Any]]:
    """Return the kind of a column, and its values converted to that kind."""
    values = [row[index] for row in rows]
    present = [value for value in values if value is not None]
    kind = _kind(present) if present else DECLARED_KINDS.get(declared, "empty")
    if kind == "text":
        return kind, [None if value is None else str(value) for value in values]
    if kind == "number":
        return kind, [None if value is None else float(value) for value in values]
    if kind == "zoned time":
        try:
            return kind, [None if value is None else value.astimezone(UTC) for value in values]
        except OverflowError:  # the first or last hours of datetime's range, in another zone
            return "mixed", values
    return kind, values


def _kind(values: list[Any]) -> str:
    """Return the common kind of some values."""
    classes = {value.__class__ for value in values}
    if classes == {bool}:
        return "boolean"
    if classes == {int}:
        return "integer" if all(-INT64_LIMIT <= value < INT64_LIMIT for value in values) else "mixed"
    if classes <= {int, float, Decimal}:  # a decimal becomes the nearest double
        is_exact = all(value.__class__ is float or abs(value) <= MAX_EXACT_INTEGER for value in values)
        return "number" if is_exact else "mixed"
    if classes == {datetime}:
        zoned = sum(value.tzinfo is not None for value in values)
        return "zoned time" if zoned == len(values) else "mixed" if zoned else "local time"
    if classes == {timedelta}:  # data frames count microseconds in 64 bits
        return "duration" if all(abs(value // MICROSECOND) < INT64_LIMIT for value in values) else "mixed"
    if all(issubclass(cls, str) for cls in classes):
        return "text"
    return "date" if classes == {date} else "mixed"


def _text(value: Any) -> str:
    """Return a value as text, as CSV has it."""
    return str(value).lower() if value.__class__ is bool else str(plain(value))
