"""Requests that a service refused to record: a file of the home, for `provml status` and whoever looks for lost data.

Clients of other systems do not tell their users about a refusal, so the home does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

FILE = Path("service", "refused.json")


class Refusal(msgspec.Struct, kw_only=True):
    """Requests of a client that were refused for the same reason; `run` if it is known which run they are about."""

    protocol: str
    client: str
    status: int
    code: str
    run: str = ""
    requests: int = 0
    time: float = 0.0
    """Time of the last of them."""


def read_refusals(home: Path, run: str | None = None) -> list[Refusal]:
    """Return the refusals of a home, or those of one run."""
    try:
        refusals = msgspec.json.decode((home / FILE).read_bytes(), type=list[Refusal])
    except (OSError, msgspec.MsgspecError):
        return []
    return [refusal for refusal in refusals if run is None or refusal.run == run]


def write_refusals(home: Path, refusals: Sequence[Refusal]) -> None:
    """Replace the refusals of a home; a full disk is no error."""
    path = home / FILE
    part = path.with_name(f".{path.name}-{os.getpid()}.part")
    with contextlib.suppress(OSError):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_bytes(msgspec.json.encode(refusals))
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
