"""What is kept of what the recorder is given: the SHA-256 of whole contents, and values as a journal holds them."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from provml import event
from provml.values import PLAIN, plain

SETTLED_SECONDS = 2.0
"""A file that was changed so lately may change again without its times showing it, and is read anew."""
INTEGERS = range(-(2**63), 2**63)


class Data:
    """A dataset, a file, a set of features or a model, as the recorder knows it."""

    __slots__ = ("kind", "name", "path", "ref", "role", "sha256")

    def __init__(self, ref: str, kind: str, name: str, role: str = "", path: str = "", sha256: str = "") -> None:
        self.ref = ref
        self.kind = kind
        self.name = name
        self.role = role
        self.path = path
        self.sha256 = sha256

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


# ---- content


class Content(NamedTuple):
    """A digest and a size in bytes."""

    sha256: str
    size: int


_SEEN: dict[tuple[str, int, int, int, int], Content] = {}


def of_file(path: Path) -> Content:
    """The content of a file; one that has not changed since is not read again by this process."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = (str(path.resolve()), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        known = _SEEN.get(key)
        if known is None:
            digest = hashlib.file_digest(file, "sha256")
            known = Content(digest.hexdigest(), file.tell())
            if time.time() - max(status.st_mtime, status.st_ctime) > SETTLED_SECONDS:
                _SEEN[key] = known
    return known


def of_folder(path: Path) -> Content:
    """The content of a folder: of its files' names and contents, in the order of their names."""
    digest, size = hashlib.sha256(), 0
    names = {os.fsencode(file.relative_to(path).as_posix()): file for file in path.rglob("*") if file.is_file()}
    for name, file in sorted(names.items()):
        inner = of_file(file)
        digest.update(name + b"\0" + inner.sha256.encode() + b"\n")
        size += inner.size
    return Content(digest.hexdigest(), size)


def of(data: Any) -> Content | None:
    """The content of a path, bytes or an array; None where it has none that can be read."""
    if isinstance(data, (str, os.PathLike)):
        path = Path(os.fsdecode(data))
        if path.is_dir():
            return of_folder(path)
        return of_file(path) if path.is_file() else None
    if isinstance(data, (bytes, bytearray, memoryview)):
        return Content(hashlib.sha256(data).hexdigest(), memoryview(data).nbytes)
    if hasattr(data, "tobytes") and hasattr(data, "shape"):
        if getattr(getattr(data, "dtype", None), "hasobject", False):  # its bytes are addresses
            return None
        held = data.tobytes()
        head = f"{data.shape}{getattr(data, 'dtype', '')}".encode()
        return Content(hashlib.sha256(head + held).hexdigest(), len(held))
    return None


# ---- values


def jsonable(value: Any) -> event.Value:
    """A scalar as a journal holds it: as JSON where that is exact, else its kind and text."""
    if value.__class__ is float:
        if value - value == 0.0:
            return value
        return ["double", "NaN" if value != value else "INF" if value > 0 else "-INF"]
    scalar = plain(value)
    if scalar.__class__ not in PLAIN and type(value).__module__ != "numpy" and hasattr(value, "shape"):
        scalar = _from_tensor(value)
    if scalar.__class__ is bool or scalar.__class__ is str or (scalar.__class__ is int and scalar in INTEGERS):
        return scalar
    if scalar.__class__ is float:
        return jsonable(scalar)
    from provml.rdf.exact import encode_value

    return encode_value(scalar)


def parameter(value: Any) -> event.Value:
    """A parameter as a journal holds it: a scalar, or the text of a list or a mapping (an optimizer's betas)."""
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, default=_inside)
    return jsonable(value)


def _inside(value: Any) -> Any:
    """What JSON makes of a value inside a list: its plain form, else its text."""
    scalar = plain(value)
    return scalar if scalar.__class__ in (bool, int, float, str) else str(scalar)


def text(said: Any) -> str:
    """What is told in words, as text."""
    return "" if said is None else str(said)


def _from_tensor(value: Any) -> object:
    """The number in a tensor that has no dimensions, such as a loss; any other as it came."""
    held = getattr(value, "item", None) or getattr(value, "numpy", None)
    return plain(held()) if held is not None and tuple(value.shape) == () else value
