"""Mapped events as a file that Oxigraph can load while they are mapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from provml.store.memory_throttle import MemoryThrottle


class ChunkStream:
    """Mapped events as a binary file for Oxigraph, mapped while it is read and never in memory as a whole.

    A chunk is a number of events and their N-Triples. The stream starts with one and takes more from `chunks` until it
    has had `max_bytes`.
    """

    def __init__(
        self,
        first: tuple[int, bytes],
        chunks: Iterator[tuple[int, bytes]],
        max_bytes: int,
        throttle: MemoryThrottle,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self.events = 0
        self.buffer = b""
        self._chunks = chunks
        self._remaining = max_bytes
        self._throttle = throttle
        self._on_progress = on_progress
        self._offset = 0
        self._append(*first)

    def _append(self, events: int, text: bytes) -> None:
        self.buffer = self.buffer[self._offset :] + text
        self._offset = 0
        self.events += events
        self._remaining -= len(text)
        if self._on_progress is not None:
            self._on_progress(events)

    def _grow(self) -> bool:
        """Append the next chunk; return False if there is none within the limit."""
        self._throttle.wait()
        chunk = next(self._chunks, None) if self._remaining > 0 else None
        if chunk is None:
            return False
        self._append(*chunk)
        return True

    def is_shorter_than(self, limit: int) -> bool:
        """True if the whole stream has less than `limit` bytes; then `buffer` has all of it."""
        while len(self.buffer) < limit:
            if not self._grow():
                return True
        return False

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; empty at the end."""
        while self._offset == len(self.buffer):
            if not self._grow():
                return b""
        start = self._offset
        self._offset = len(self.buffer) if size < 0 else min(start + size, len(self.buffer))
        return self.buffer[start : self._offset]
