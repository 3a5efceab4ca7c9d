"""Recover the types of values that a tool wrote as text, and the shortest decimals of those that are float32."""

from __future__ import annotations

import ast
import json
import math
import re
import struct
from typing import Any, NamedTuple

from provml.rdf.text_files import MAX_NESTING

MAX_CHARS = 100_000
"""A longer text is not parsed as a list or an object."""
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_NUMBER = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_WORDS = {"True": True, "False": False, "true": True, "false": False, "None": None, "null": None}
_FLOAT = struct.Struct("<f")
MIN_NORMAL_FLOAT32 = 1.1754943508222875e-38


class TypedText(NamedTuple):
    """A value, the text that the source has for it, and whether the type is a guess."""

    value: Any
    text: str = ""
    is_guess: bool = False

    @property
    def differs(self) -> bool:
        """True if the text cannot be made from the value again."""
        return bool(self.text) and self.text != ("" if self.value is None else str(self.value))


def parse_text(text: str) -> TypedText:
    """Return the value that a text stands for, if a tool wrote it by `str` or as JSON."""
    if text in _WORDS:
        return TypedText(_WORDS[text], text, True)
    if _INTEGER.fullmatch(text) and text != "-0":
        return TypedText(int(text), text, True)
    if _NUMBER.fullmatch(text) and not re.fullmatch(r"[+-]?0\d+", text):
        return TypedText(float(text), text, True)
    if text[:1] in "[{(" and text[-1:] in "]})" and len(text) <= MAX_CHARS:
        value = _parse_nested(text)
        if value is not None:
            return TypedText(value, text, True)
    return TypedText(text, text)


def _parse_nested(text: str) -> Any:
    if max_nesting(text) > MAX_NESTING:
        return None
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, (list, tuple, dict)) else None


def max_nesting(text: str) -> int:
    """Return how deep the brackets of a text are nested."""
    depth = deepest = 0
    for character in text:
        if character in "[{(":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]})":
            depth -= 1
    return deepest


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested objects as one level, with dots between the names; an empty object stays a value."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and name.count(".") < MAX_NESTING:
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def shortest_float32(value: float) -> float:
    """Return the double with the shortest decimal text that is the same float32: 0.1, not 0.10000000149."""
    if value - value != 0.0:
        return value
    for digits in range(1 if abs(value) < MIN_NORMAL_FLOAT32 else 6, 10):  # up to 6 digits, all but tiny values differ
        number = float(f"{value:.{digits}g}")
        try:
            if _FLOAT.unpack(_FLOAT.pack(number))[0] == value:
                return number
        except OverflowError:
            continue
    return value


def to_float(value: float) -> float:
    """Return a number as a double; an integer beyond its range is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def to_number(value: Any) -> float | None:
    """Return a number, also from the text of one; None for anything else."""
    if isinstance(value, bool):
        return float(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
    except OverflowError:
        return math.inf if value > 0 else -math.inf
