"""Text files from anywhere, read with care: limits of size and nesting, and links that lead out of a folder."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from provml.errors import FileFormatError

MAX_TEXT_BYTES = 64 << 20
"""Size of a file that is read as a whole."""
MAX_NESTING = 50
"""Levels of nesting of a value that are read."""
SNIFFED_BYTES = 1 << 16


def sniff(path: Path, size: int = SNIFFED_BYTES) -> bytes:
    """Return the beginning of a file; empty if it cannot be read or is no plain file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return b""
        with path.open("rb") as file:
            return file.read(size)
    except (OSError, ValueError):
        return b""


def is_inside(path: Path, root: Path) -> bool:
    """Return whether a path, with all links resolved, is inside a folder."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def read_text(path: Path, root: Path | None = None) -> str:
    """Return the text of a small file. Raises FileFormatError if it is large, not readable or outside of its root."""
    if root is not None and not is_inside(path, root):
        raise FileFormatError("it is a link to a file outside of the source", "Copy the file.", file=str(path))
    try:
        mode = path.stat()
        if not stat.S_ISREG(mode.st_mode):
            raise FileFormatError("it is not a plain file", "Check the path.", file=str(path))
        if mode.st_size > MAX_TEXT_BYTES:
            reason = f"it has {mode.st_size >> 20} MiB, more than {MAX_TEXT_BYTES >> 20} MiB"
            raise FileFormatError(reason, "Check that it is a file of this tool.", file=str(path))
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        reason = f"it cannot be read ({str(error.strerror or error).lower()})"
        raise FileFormatError(reason, "Check the path and your permissions.", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise FileFormatError(
            "it is not UTF-8 text", "Check that it is a file of this tool.", file=str(path)
        ) from error


def parse_json(text: str, path: Path, line: int | None = None) -> Any:
    """Return the value of a JSON text; NaN and Infinity are allowed."""
    try:
        return json.loads(text)
    except ValueError as error:
        where = line if line is not None else getattr(error, "lineno", None)
        reason = f"it is not valid JSON ({getattr(error, 'msg', error)})"
        raise FileFormatError(reason, "The file may be cut off; copy it again.", file=str(path), line=where) from error
    except RecursionError as error:
        raise FileFormatError("its values are nested too deep", "Check the file.", file=str(path), line=line) from error


def check_depth(value: Any, depth: int = MAX_NESTING) -> bool:
    """Return whether a value is nested in no more than a number of levels."""
    if not isinstance(value, (dict, list)):
        return True
    items = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(check_depth(item, depth - 1) for item in items)
