"""Where a run is shipped to, and how far it has come: a file in the folder of the run.

It is for `provml status` and for the next shipper. What counts is the length of the service's copy.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from provml.journal import wire
from provml.journal.annotations import FOLDER as ANNOTATIONS
from provml.journal.annotations import file_sizes
from provml.journal.run_files import journals_of_run, scan_runs

STATE_FILE = "shipping.json"
LOCKS = "shipping-*.lock"
"""Lock files of the processes that ship a home, one for each service; they stay."""


class ShippingState(msgspec.Struct):
    """Where a run goes, the bytes that have arrived of each file, and why not all of them have."""

    url: str
    sent: dict[str, int] = {}
    contents: list[str] = []
    """Artifacts that are still to be sent."""
    is_complete: bool = msgspec.field(default=False, name="complete")
    error: str = ""
    time: float = 0.0


def read_state(folder: Path) -> ShippingState | None:
    """Return where a run is shipped to, and how far; None if it stays here."""
    try:
        return msgspec.json.decode((folder / STATE_FILE).read_bytes(), type=ShippingState)
    except (OSError, msgspec.MsgspecError):
        return None


def write_state(folder: Path, state: ShippingState) -> None:
    """Write the state of a run, all of it or nothing; a full disk is no error, because the service knows the rest."""
    path = folder / STATE_FILE
    part = path.with_name(f".{STATE_FILE}-{os.getpid()}.part")
    with contextlib.suppress(OSError):
        try:
            part.write_bytes(msgspec.json.encode(state))
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def unsent_bytes(folder: Path, state: ShippingState) -> int:
    """Return the bytes of a run's journals and annotations that have not arrived yet."""
    names = [path.name for path in journals_of_run(folder)]
    names += [f"{ANNOTATIONS}/{name}" for name in file_sizes(folder)]
    return sum(max(_written_bytes(folder / name) - state.sent.get(name, 0), 0) for name in names)


def _written_bytes(path: Path) -> int:
    """Return the bytes of a file without the space that is only allocated."""
    size = 0
    with contextlib.suppress(OSError):
        while chunk := wire.read_chunk(path, size):
            size += len(chunk)
    return size


def has_shipped(home: Path) -> bool:
    """Return whether a process has shipped runs of a home while it recorded them."""
    return any(home.glob(LOCKS))


def unshipped_runs(home: Path) -> Iterator[tuple[str, ShippingState, int]]:
    """Yield the runs of a home that a service does not have completely: id, state, and missing bytes."""
    for files in scan_runs(home):
        folder = home / "runs" / files.run
        state = read_state(folder)
        if state is not None:
            size = unsent_bytes(folder, state)
            if size or state.contents or not state.is_complete:
                yield files.run, state, size
