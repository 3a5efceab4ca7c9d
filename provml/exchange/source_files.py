"""Reading the files of a source with care: limits, paths that lead out of it, digests, and plain errors."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from provml.errors import FileFormatError
from provml.exchange.typed_text import MAX_NESTING

MAX_TEXT_BYTES = 64 << 20
"""Size of a file that is read as a whole; such files hold settings, not points."""
SNIFFED_BYTES = 1 << 16
_HASH_BYTES = 1 << 20


def sniff(path: Path, size: int = SNIFFED_BYTES) -> bytes:
    """Return the beginning of a file; empty if it cannot be read or is no plain file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return b""
        with path.open("rb") as file:
            return file.read(size)
    except (OSError, ValueError):
        return b""


def walk(root: Path, *, max_files: int = 1_000_000) -> Iterator[Path]:
    """Yield the plain files below a folder in the order of their names; links are not followed."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            count += 1
            if count > max_files:
                raise FileFormatError(f"it has more than {max_files:,} files", "Pass a smaller folder.", file=str(root))
            if not path.is_symlink() and path.is_file():
                yield path


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


def read_json(path: Path, root: Path | None = None) -> Any:
    """Return the content of a JSON file; NaN and Infinity are allowed."""
    return parse_json(read_text(path, root), path)


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


class _Loader(yaml.SafeLoader):
    """A loader that refuses aliases, with which a small file can become a huge value."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


def read_yaml(path: Path, root: Path | None = None) -> Any:
    """Return the content of a YAML file."""
    text = read_text(path, root)
    try:
        return yaml.load(text, _Loader)  # a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileFormatError(f"it is not valid YAML ({first})", "Copy the file again.", file=str(path)) from error


def check_depth(value: Any, depth: int = MAX_NESTING) -> bool:
    """Return whether a value is nested in no more than a number of levels."""
    if not isinstance(value, (dict, list)):
        return True
    items = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(check_depth(item, depth - 1) for item in items)


@lru_cache(maxsize=4096)
def _digest(path: str, size: int, changed_ns: int) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        remaining = size
        while remaining and (data := file.read(min(_HASH_BYTES, remaining))):
            digest.update(data)
            remaining -= len(data)
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file; empty if it cannot be read."""
    try:
        status = path.stat()
        return _digest(str(path), status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else ""
    except OSError:
        return ""


def digest_of(files: Iterable[Path], root: Path) -> str:
    """Return the digest of files: of one, that of its content; of several, that of their names and digests."""
    paths = sorted(files)
    if len(paths) == 1:
        return sha256_of(paths[0])
    lines = [
        f"{path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name}\0{sha256_of(path)}"
        for path in paths
    ]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "backslashreplace")).hexdigest()


def size_of(path: Path) -> int:
    """Return the size of a file, or of all files below a folder, in bytes."""
    try:
        return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in walk(path))
    except (OSError, FileFormatError):
        return 0
