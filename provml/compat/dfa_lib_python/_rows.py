"""Rows of a set as values by attribute name: numbers, paths of files, and text."""

from __future__ import annotations

import math
import os
import re
from datetime import timedelta
from typing import Any, NamedTuple

from provml.compat.dfa_lib_python.attribute_type import AttributeType
from provml.compat.dfa_lib_python.element import Element
from provml.compat.dfa_lib_python.set import Set
from provml.errors import WrongValue
from provml.model.values import plain
from provml.recording.core import RunCore

NAN_MARKER = -9999999
"""The originals write this number for NaN, which their database cannot store."""
NULL = "null"
"""Keras-Prov writes this text for a hyperparameter without a value."""
BOOKKEEPING = re.compile(r"id|(a|i|il|o|ot|[io](train|test|layers|adaptation)_)?timestamp|\w+_task_id")
"""Columns that are neither parameters nor measures; Keras-Prov names the timestamps of its sets differently."""
FILE_TYPES = (AttributeType.FILE, AttributeType.RDFILE)
DURATION = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)")


class Row(NamedTuple):
    """Values of a row by attribute name: paths of files, and all other values."""

    files: dict[str, Any]
    values: dict[str, Any]


def parse_row(run: RunCore, data_set: Set, element: Element) -> Row:
    """Parse an element by the attributes of its set. A value of the wrong type is counted as a capture error."""
    attributes, raw_values = data_set.columns, element.raw_values
    if len(raw_values) != len(attributes):
        names = ", ".join(attribute.name for attribute in attributes)
        expected = f"{len(attributes)} values for {data_set.tag} ({names})"
        run._report_error(
            WrongValue("Element", "values", raw_values, expected, "Pass one value for each attribute, in their order.")
        )
    row = Row({}, {})
    for attribute, value in zip(attributes, raw_values, strict=False):
        name = attribute.name.lower()
        is_missing = value is None or (isinstance(value, str) and value == NULL)
        if is_missing or BOOKKEEPING.fullmatch(name):
            continue
        if attribute.kind in FILE_TYPES and isinstance(value, (str, os.PathLike)):
            row.files[name] = value
        elif attribute.kind is AttributeType.NUMERIC:
            number = as_number(value)
            if number is None:
                run._report_error(
                    WrongValue("Element", "values", value, f"a number for {attribute.name}", "Pass a number.")
                )
            else:
                row.values[name] = number
        else:
            row.values[name] = value
    return row


def as_number(value: Any) -> Any:
    """Return a number, also from text; NaN for the originals' marker; None if the value is no number."""
    number: Any = plain(value)
    if hasattr(number, "item") and not getattr(number, "shape", ()):  # a scalar tensor
        number = number.item()
    if isinstance(number, str):
        try:
            number = int(number)
        except ValueError:
            try:
                number = float(number)
            except ValueError:
                return None
    try:
        return math.nan if number == NAN_MARKER else number if float(number) is not None else None
    except (TypeError, ValueError, OverflowError):
        return None


def as_seconds(value: Any) -> float | None:
    """Return a duration in seconds from a number, a timedelta or their text; None if the value is no duration."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    number = as_number(value)
    if number is not None:
        return float(number)
    match = DURATION.fullmatch(str(value).strip())
    if match is None:
        return None
    days, hours, minutes, seconds = match.groups(default="0")
    return ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + float(seconds)
