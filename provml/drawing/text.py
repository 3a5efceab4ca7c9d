"""Text in pictures: its width without a font, shortening, and escaping for XML."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from xml.sax.saxutils import escape as escape_markup

NARROW, SLIM, BROAD = frozenset("iljI.,:;'|!"), frozenset('ftr()[]{}/\\-_" *'), frozenset("mwMW@%&")
ELLIPSIS = "…"
INVALID_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document can hold, such as those that colour a terminal."""


@lru_cache(maxsize=4096)
def _character_width(character: str) -> float:
    """Return the width of a character in parts of the font size, as in the widest of the usual sans-serif fonts."""
    if unicodedata.combining(character) or character in "\u200b\u200d\ufe0f":
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in NARROW:
        return 0.33
    if character in SLIM:
        return 0.42
    if character in BROAD:
        return 0.98
    return 0.72 if character.isupper() else 0.635


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of a text in pixels for a font of `size` pixels; an upper estimate."""
    return sum(map(_character_width, text)) * size * (1.1 if bold else 1.0)


def shorten(text: str, width: float, size: float, *, bold: bool = False, middle: bool = False) -> str:
    """Return a text that is at most `width` pixels wide: its start, or with `middle` its start and end."""
    if text_width(text, size, bold=bold) <= width:
        return text
    low, high = 0, len(text)
    while low < high:  # the longest that fits
        length = (low + high + 1) // 2
        if text_width(_cut(text, length, middle=middle), size, bold=bold) <= width:
            low = length
        else:
            high = length - 1
    return _cut(text, low, middle=middle)


def _cut(text: str, length: int, *, middle: bool) -> str:
    """Return `length` characters of a text with an ellipsis."""
    end = length // 3 if middle else 0
    return text[: length - end].rstrip() + ELLIPSIS + (text[-end:] if end else "")


def wrap(words: list[str], width: float, size: float, separator: str = ", ") -> list[str]:
    """Return words joined to lines of at most `width` pixels; a word that is longer is shortened."""
    lines: list[str] = []
    for word in words:
        joined = f"{lines[-1]}{separator}{word}" if lines else ""
        if lines and text_width(joined, size) <= width:
            lines[-1] = joined
        else:
            lines.append(shorten(word, width, size, middle=True))
    return lines


def single_line(text: str) -> str:
    """Return a text without line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def escape(text: str) -> str:
    """Return a text for the content or an attribute of XML and HTML."""
    return escape_markup(INVALID_XML.sub("\ufffd", text), {'"': "&quot;", "'": "&#39;"})


def number(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    text = f"{value:.1f}"
    return "0" if text in ("0.0", "-0.0") else text.removesuffix(".0")
