"""Bodies of answers by request, each for one position of the index."""

from __future__ import annotations

from collections import OrderedDict

MAX_BYTES = 64 << 20
MAX_BODY_BYTES = 4 << 20


class PositionCache:
    """Bodies that are valid at one position; the least recently used ones are dropped."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self.hits = 0
        self.misses = 0
        self._position = ""
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str, position: str) -> bytes | None:
        """Return the body of a request at a position, if there is one."""
        self._move_to(position)
        body = self._bodies.get(key)
        if body is None:
            self.misses += 1
            return None
        self.hits += 1
        self._bodies.move_to_end(key)
        return body

    def put(self, key: str, position: str, body: bytes) -> None:
        """Keep a body."""
        if len(body) > MAX_BODY_BYTES or position != self._position or key in self._bodies:
            return
        self._bodies[key] = body
        self.size += len(body)
        while self.size > self.max_bytes:
            _, dropped = self._bodies.popitem(last=False)
            self.size -= len(dropped)

    def _move_to(self, position: str) -> None:
        if position != self._position:
            self._bodies.clear()
            self.size = 0
            self._position = position
