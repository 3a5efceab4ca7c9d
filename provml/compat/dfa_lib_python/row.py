"""A row of a set as values: numbers as numbers, files as paths, each with the name of its attribute."""

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
from provml.recorder import Recorder
from provml.values import plain

NO_NUMBER = -9999999
"""What the originals write for NaN, which their database cannot hold."""
BOOKKEEPING = re.compile(r"id|timestamp|\w+_task_id")
FILES = (AttributeType.FILE, AttributeType.RDFILE)
LENGTH = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)")


class Row(NamedTuple):
    """The values of a row by name: the paths of files, and all else."""

    files: dict[str, Any]
    values: dict[str, Any]


def row(run: Recorder, the_set: Set, element: Element) -> Row:
    """An element by the attributes of its set. What does not fit is a fault; what fits is kept."""
    attributes, held = the_set.columns, element.held
    if len(held) != len(attributes):
        wanted = f"{len(attributes)} values for {the_set.tag} ({', '.join(one.name for one in attributes)})"
        run.fault(WrongValue("Element", "values", held, wanted, "Give one value for each attribute, in their order."))
    found = Row({}, {})
    for attribute, value in zip(attributes, held, strict=False):
        name = attribute.name.lower()
        if value is None or BOOKKEEPING.fullmatch(name):
            continue
        if attribute.kind in FILES and isinstance(value, (str, os.PathLike)):
            found.files[name] = value
        elif attribute.kind is AttributeType.NUMERIC:
            number = as_number(value)
            if number is None:
                run.fault(WrongValue("Element", "values", value, f"a number for {attribute.name}", "Give a number."))
            else:
                found.values[name] = number
        else:
            found.values[name] = value
    return found


def as_number(value: Any) -> Any:
    """A number, also where it is written as text; NaN for the originals' mark of it; None where it is none."""
    number: Any = plain(value)
    if hasattr(number, "item") and not getattr(number, "shape", ()):  # a tensor's
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
        return math.nan if number == NO_NUMBER else number if float(number) is not None else None
    except (TypeError, ValueError, OverflowError):
        return None


def as_seconds(value: Any) -> float | None:
    """A length of time: seconds, a timedelta, or the text of either; None where it is none."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    number = as_number(value)
    if number is not None:
        return float(number)
    found = LENGTH.fullmatch(str(value).strip())
    if found is None:
        return None
    days, hours, minutes, seconds = found.groups(default="0")
    return ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + float(seconds)
