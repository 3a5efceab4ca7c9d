"""Digests of what each run states about nodes that are not its own, so that a run can be removed without a rebuild.

Runs share nodes: plans, data with the same content, software, people. When a run is removed, a statement about such a
node has to go unless another run states it as well. For each line of N-Triples whose subject does not belong to the
run, the index keeps a digest of eight bytes. Those of runs that have ended are appended to a file, which is read only
when a run is removed.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec

from provml.mapping import iris
from provml.paths import open_no_follow

NAME = "statements"
DIGEST_BYTES = 8
MAX_KNOWN_LINES = 100_000
"""Lines that are remembered in order to pass them on once only: about 40 MB."""


def digest(line: bytes) -> bytes:
    """Return the digest of a line of N-Triples, without its line break."""
    return blake2b(line, digest_size=DIGEST_BYTES).digest()


class SharedStatements:
    """What runs have stated about nodes that are not their own, to be passed on once only.

    Most of what a small run states, its plan, software and machine, was stated by the runs before it.
    """

    def __init__(self, max_lines: int = MAX_KNOWN_LINES) -> None:
        self._max_lines = max_lines
        self._digests: dict[bytes, bytes] = {}

    def take(self, ntriples: bytes, run: str) -> tuple[bytes, bytes]:
        """Return N-Triples without the lines that were passed on before, each line once, and the digests of all lines
        about nodes that are not the run's own.
        """
        if len(self._digests) > self._max_lines:
            self._digests.clear()
        iri = f"<{iris.run_iri(run)}".encode()
        own = (iri + b">", iri + b"/")
        cache, digests, lines = self._digests, set[bytes](), list[bytes]()
        for line in dict.fromkeys(ntriples.split(b"\n")):  # a node is written again whenever it gets more values
            if line.startswith(own):
                lines.append(line)
            elif line:
                value = cache.get(line)
                if value is None:
                    value = cache[line] = digest(line)
                    lines.append(line)
                digests.add(value)
        lines.append(b"")
        return b"\n".join(lines), b"".join(digests)


class StatementFile:
    """The file of an index with the digests of the runs that have ended; the last record of a run counts.

    `size` is the number of bytes that count: what a killed process has appended after them is overwritten.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME

    def append(self, size: int, runs: Mapping[str, bytes]) -> int:
        """Append the digests of runs after `size` bytes, and return the new size."""
        records = [msgspec.msgpack.encode((run, digests)) for run, digests in runs.items()]
        data = b"".join(len(record).to_bytes(4, "big") + record for record in records)
        mode = "r+b" if self.path.exists() else "w+b"
        with open(self.path, mode, opener=open_no_follow) as file:  # Path.open has no opener
            file.truncate(size)
            file.seek(size)
            file.write(data)
        return size + len(data)

    def read(self, size: int) -> dict[str, bytes]:
        """Return the digests by run; raise OSError or ValueError if the file is not complete."""
        data = self.path.read_bytes()[:size]
        if len(data) < size:
            raise ValueError(f"{NAME} has {len(data)} of {size} bytes")
        runs: dict[str, bytes] = {}
        offset = 0
        while offset < size:
            end = offset + 4 + int.from_bytes(data[offset : offset + 4], "big")
            run, digests = msgspec.msgpack.decode(memoryview(data)[offset + 4 : end], type=tuple[str, bytes])
            runs[run] = digests
            offset = end
        return runs


def stated_by(digests: Iterable[bytes], runs: Iterable[bytes]) -> set[bytes]:
    """Return those of some digests that occur among the digests of runs."""
    wanted = {int.from_bytes(item, sys.byteorder) for item in digests}
    stated: set[int] = set()
    for packed in runs:
        numbers = array("Q")
        numbers.frombytes(packed)
        stated |= wanted.intersection(numbers)
    return {number.to_bytes(DIGEST_BYTES, sys.byteorder) for number in stated}
