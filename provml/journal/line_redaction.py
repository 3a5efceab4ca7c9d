"""Redact the secrets in a line of a journal or of annotations without changing the length of the line.

A client that sends a journal goes on at an offset, and so does a reader: the bytes after a secret must stay where they
are. A text that is replaced is therefore followed by spaces, which JSON allows between its parts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

import msgspec

from provml.journal import events
from provml.journal.annotations import AnnotationEvent, AnnotationHeader
from provml.journal.redaction import (
    REDACTED,
    has_numbers_only,
    is_enabled,
    mask,
    redact_foreign_event,
    redact_text,
)

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+\-]*|true|false|null', re.S)
_NUMBERS = {
    kind: frozenset({"e", *(field.encode_name for field in msgspec.structs.fields(kind))})
    for kind in (events.Measured, events.Batches, events.BatchEnd)
}
"""The fields of events that are mostly numbers: a journal may have millions of them."""
MAX_NAME_CHARS = 1000
"""Names of measures and locations that are remembered as harmless."""


class UnsuitableLine(ValueError):
    """A line of JSON in which a secret cannot be found for certain; the text says why."""


class _Pairs(list[tuple[str, Any]]):
    """The members of an object of JSON."""


def redact_line(line: bytes, event: events.AnyEvent | AnnotationHeader | AnnotationEvent) -> bytes:
    """Return a line, without its line break, in which secrets are replaced; `event` is what the line says.

    Raise UnsuitableLine if an object in the line has a name twice, so that readers may disagree about its value.
    """
    if not is_enabled():
        return line
    try:
        if event.__class__ in _NUMBERS and _is_harmless(line, event):
            return line
        pairs = json.loads(line, object_pairs_hook=_unique_pairs, parse_int=str, parse_float=str)
        clean = _redacted(msgspec.json.decode(line), event)
        changes = [*zip(_TOKEN.finditer(line), _texts(pairs), _texts(_ordered(clean, pairs)), strict=True)]
    except (RecursionError, UnicodeError, msgspec.MsgspecError) as error:  # in a field that no reader knows
        raise UnsuitableLine(f"it cannot be searched for secrets ({error})") from None
    parts, position = [], 0
    for token, old, new in changes:
        if old != new:
            parts += [line[position : token.start()], _fit(new, token[0])]
            position = token.end()
    return b"".join([*parts, line[position:]]) if parts else line


def _is_harmless(line: bytes, event: Any) -> bool:
    """Return whether an event has numbers alone, under names without secrets."""
    values = getattr(event, "values", {})
    names = (event.location, *values)
    return (
        has_numbers_only(values)
        and all(map(_is_clean, names))
        and msgspec.json.decode(line).keys() <= _NUMBERS[event.__class__]
    )


@lru_cache(maxsize=1000)
def _is_clean(name: str) -> bool:
    return len(name) < MAX_NAME_CHARS and redact_text(name) == name


def _redacted(raw: dict[str, Any], event: Any) -> dict[str, Any]:
    """Return an event as JSON with secrets replaced, also those in fields that this version does not know."""
    if isinstance(event, AnnotationEvent):
        event.text, event.by = redact_text(event.text), redact_text(event.by)
    else:
        redact_foreign_event(event)
    clean = cast("dict[str, Any]", msgspec.to_builtins(event))
    fields = {field.encode_name for field in msgspec.structs.fields(event)} | {"e"}
    return {name: clean.get(name, item) if name in fields else mask(name, item) for name, item in raw.items()}


def _unique_pairs(pairs: list[tuple[str, Any]]) -> _Pairs:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UnsuitableLine(f"an object has the name {twice[:80]!r} twice")
    return _Pairs(pairs)


def _ordered(value: Any, like: Any) -> Any:
    """Return a redacted value in the form and the order of the original.

    Names are redacted here, and so are texts that have no name of their own, such as locations and references.
    """
    if isinstance(like, _Pairs):
        values = value if isinstance(value, dict) else {}
        return _Pairs((redact_text(name), _ordered(values.get(name, item), item)) for name, item in like)
    if isinstance(like, list):
        items = value if isinstance(value, list) else [REDACTED] * len(like)  # the sequence as a whole is a secret
        return [_ordered(item, other) for item, other in zip(items, like, strict=True)]
    return redact_text(value) if isinstance(value, str) else like  # a number changes only if it is a secret


def _texts(value: Any) -> Iterator[Any]:
    """Yield names, texts, numbers and other single values, in the order of the line."""
    if isinstance(value, _Pairs):
        for name, item in value:
            yield name
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    else:
        yield value


def _fit(new: str, token: bytes) -> bytes:
    """Return a text as JSON that is as long as a token: with spaces after it, or with fewer stars."""
    for stars in (REDACTED, "*"):
        text = msgspec.json.encode(new.replace(REDACTED, stars))
        if len(text) <= len(token):
            return text.ljust(len(token))
    return b'"' + b"*" * (len(token) - 2) + b'"' if len(token) > 2 else token  # one or two digits are no secret
