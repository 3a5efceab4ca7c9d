"""A reader of protobuf messages by field number, without a schema and without the protobuf package.

Nothing is nested automatically and nothing is expanded: a message takes no more memory than its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")


def fields_of(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and value of each field of a message. Raises ValueError if it is damaged.

    A value is an integer (varint), or the bytes of any other type.
    """
    position, size = 0, len(data)
    while position < size:
        key, position = read_varint(data, position)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise ValueError("a field has the number 0")
        if kind == VARINT:
            value, position = read_varint(data, position)
            yield number, kind, value
            continue
        length = 8 if kind == FIXED64 else 4 if kind == FIXED32 else -1
        if kind == BYTES:
            length, position = read_varint(data, position)
        elif length < 0:
            raise ValueError(f"a field has the unknown type {kind}")
        end = position + length
        if end > size:
            raise ValueError("a field is longer than its message")
        yield number, kind, data[position:end]
        position = end


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an integer of variable length, and the position after it."""
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ValueError("a number is cut off")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


class Message:
    """The fields of one message, by number."""

    def __init__(self, data: bytes) -> None:
        self.fields: dict[int, list[int | bytes]] = {}
        for number, _, value in fields_of(data):
            self.fields.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self.fields

    def values(self, number: int) -> list[bytes]:
        """Return all values of a field that has bytes."""
        return [value for value in self.fields.get(number, ()) if isinstance(value, bytes)]

    def data(self, number: int) -> bytes:
        """Return the last value of a field that has bytes."""
        return (self.values(number) or [b""])[-1]

    def text(self, number: int) -> str:
        """Return a text; characters that are not valid become replacement marks."""
        return self.data(number).decode("utf-8", errors="replace")

    def texts(self, number: int) -> list[str]:
        """Return all texts of a field."""
        return [value.decode("utf-8", errors="replace") for value in self.values(number)]

    def message(self, number: int) -> Message:
        """Return a message inside this one; an empty one if there is none."""
        return Message(self.data(number))

    def messages(self, number: int) -> list[Message]:
        """Return all messages of a field."""
        return [Message(value) for value in self.values(number)]

    def integer(self, number: int, default: int = 0) -> int:
        """Return a signed integer of 64 bits."""
        for value in reversed(self.fields.get(number, ())):
            if isinstance(value, int):
                return value - (1 << 64) if value >= 1 << 63 else value
        return default

    def double(self, number: int) -> float | None:
        """Return a double; None if there is none."""
        data = self.data(number)
        return float(_DOUBLE.unpack(data)[0]) if len(data) == 8 else None

    def float32(self, number: int) -> float | None:
        """Return a float of 32 bits; None if there is none."""
        data = self.data(number)
        return float(_FLOAT.unpack(data)[0]) if len(data) == 4 else None
