"""Whether frames and bytecode may be read."""

from __future__ import annotations

import os
import sys

SWITCH = "PROVML_NO_FRAME_INSPECTION"
BYTECODE_VERSIONS = ((3, 11), (3, 14))
"""First and last version of CPython whose bytecode is known."""


def is_enabled() -> bool:
    """Return whether frames may be inspected."""
    return os.environ.get(SWITCH, "").lower() in ("", "0", "false", "no") and hasattr(sys, "_getframe")


def knows_bytecode(version: tuple[int, int] = sys.version_info[:2]) -> bool:
    """Return whether bytecode may be inspected: only on versions of CPython that are known, this one by default."""
    first, last = BYTECODE_VERSIONS
    is_known = sys.implementation.name == "cpython" and first <= version <= last
    return is_known and is_enabled()
