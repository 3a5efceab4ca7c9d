"""What is kept of what the recorder is given: the SHA-256 of whole contents, and values as a journal holds them."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any, Literal, NamedTuple

from provml import event
from provml.resources import mode
from provml.values import PLAIN, plain

SETTLED_SECONDS = 2.0
"""A file that was changed so lately may change again without its times showing it, and is read anew."""
INTEGERS = range(-(2**63), 2**63)
PIECE = 1 << 22
"""So many bytes of an array are copied at a time to read them."""
ROLES = ("raw", "training", "validation", "test", "model")
"""The roles that questions ask for; others may be said."""
Direction = Literal["maximize", "minimize"]
LOWER = ("loss", "error", "mae", "mse", "rmse", "mape", "rmsle", "l1", "l2", "perplexity", "divergence", "distance")
LOWER_ENDS = ("loss", "error", "deviance", "entropy")
HIGHER = ("accuracy", "acc", "auc", "f1", "precision", "recall", "score", "r2", "iou", "dice", "map", "bleu")
NEAR = 0.76
"""So much alike are 'train' and 'training', and 'text' and 'test' are not."""
LONGEST = 1000
"""Of an array with more items only the shape is a parameter, of the text that an object gives itself so much."""


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
    names = {os.fsencode(file.relative_to(path).as_posix()): file for file in _files(path)}
    for name, file in sorted(names.items()):
        inner = of_file(file)
        digest.update(name + b"\0" + inner.sha256.encode() + b"\n")
        size += inner.size
    return Content(digest.hexdigest(), size)


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder, through links too; a link to a folder that it lies in leads to nothing new."""
    within: list[tuple[Path, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while within:
        place, above = within.pop()
        status = place.stat()
        known = (status.st_dev, status.st_ino)
        if known in above:
            continue
        for entry in place.iterdir():
            kind = mode(entry)
            if stat.S_ISDIR(kind):
                within.append((entry, above | {known}))
            elif stat.S_ISREG(kind):
                yield entry


def of(data: Any, *, is_here: bool = True) -> Content | None:
    """The content of a path, bytes or an array; None where it has none that can be read.

    A path that leads to nothing is refused, unless it is one in a store that is not this file system.
    """
    if isinstance(data, (str, os.PathLike)):
        path = Path(os.fsdecode(data))
        kind = mode(path)
        if stat.S_ISDIR(kind):
            return of_folder(path)
        if stat.S_ISREG(kind):
            return of_file(path)
        if is_here and is_path(data) and not kind:
            advice = f"Mend the path, say store=… if it lies elsewhere, or give None and name={str(path)!r}"
            raise FileNotFoundError(f"there is no file or folder {str(path)!r} here. {advice}")
        return None
    if isinstance(data, (bytes, bytearray, memoryview)):
        return Content(hashlib.sha256(data).hexdigest(), memoryview(data).nbytes)
    if hasattr(data, "tobytes") and hasattr(data, "shape"):
        if getattr(getattr(data, "dtype", None), "hasobject", False):  # its bytes are addresses
            return None
        digest, size = hashlib.sha256(f"{data.shape}{getattr(data, 'dtype', '')}".encode()), 0
        for piece in _pieces(data):
            digest.update(piece)
            size += len(piece)
        return Content(digest.hexdigest(), size)
    return None


def is_path(said: str | os.PathLike[str]) -> bool:
    """Whether a text is meant as a path: it has folders or the ending of a file, and is no URL. A name has neither."""
    if not isinstance(said, str):
        return True
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", said):  # a drive has one letter
        return False
    return "/" in said or os.sep in said or re.search(r"[^\s.]\.[A-Za-z][A-Za-z0-9]{0,10}$", said) is not None


def _pieces(array: Any) -> Iterator[bytes]:
    """The bytes of an array, some at a time, since all of them at once take its size in memory again."""
    size, shape = getattr(array, "nbytes", 0), array.shape
    if size <= PIECE or not shape:
        yield array.tobytes()
        return
    many = PIECE * shape[0] // size
    if many:
        for start in range(0, shape[0], many):
            yield array[start : start + many].tobytes()
        return
    for row in array:  # each is larger than a piece
        if len(row.shape) < len(shape):
            yield from _pieces(row)
        else:  # numpy's matrix
            yield row.tobytes()


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


def held(given: Mapping[str, Any], hold: Callable[[Any], event.Value]) -> tuple[event.Values, list[Exception]]:
    """Values as a journal holds them, None left out; and what is wrong with those that it cannot hold."""
    kept: event.Values = {}
    wrong: list[Exception] = []
    for name, value in given.items():
        if value is not None:
            try:
                kept[str(name)] = hold(value)
            except Exception as error:
                wrong.append(error)
    return kept, wrong


def measures(given: Mapping[str, Any]) -> tuple[event.Values, list[Exception]]:
    """Measures as a journal holds them, and what is wrong with those that it cannot hold."""
    return held(given, measure)


def measure(value: Any) -> event.Value:
    """A measure as a journal holds it: a scalar that is no text, since it is to be compared; or an array of one."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and math.prod(shape) == 1 and hasattr(value, "reshape"):
        value = value.reshape(())
    held = jsonable(value)
    if isinstance(held, str) or (isinstance(held, list) and (held[0] == "string" or held[0].startswith("@"))):
        raise TypeError(f"a measure is a number, not the text {str(value)!r}. Give text as a parameter")
    return held


def direction_of(measure: str) -> Direction | None:
    """Whether a measure is better high or low, told by its name; None where the name does not tell."""
    words = measure.lower().replace("-", "_").split("_")
    if any(word in LOWER or word.endswith(LOWER_ENDS) for word in words):
        return "minimize"
    return "maximize" if any(word in HIGHER for word in words) else None


def parameter(value: Any) -> event.Value:
    """A parameter as a journal holds it: a scalar, else as text, such as that of a list (an optimizer's betas)."""
    if not isinstance(value, (list, tuple, dict)):
        try:
            return jsonable(value)
        except Exception:  # no scalar
            value = _inside(value)
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=_inside)
    except TypeError:  # keys that JSON does not have
        return _name(value)


def _inside(value: Any) -> Any:
    """What JSON makes of a value inside a list: its plain form, the items that it has, else its name or text."""
    scalar = plain(value)
    if scalar.__class__ in PLAIN:
        return scalar if scalar.__class__ in (bool, int, float, str) else str(scalar)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)  # in an order that the next process has too
    if not isinstance(value, type) and getattr(value, "shape", None):
        held = value if hasattr(value, "tolist") or not hasattr(value, "numpy") else value.numpy()
        is_short = hasattr(held, "tolist") and math.prod(value.shape) <= LONGEST
        return held.tolist() if is_short else f"{type(value).__name__} of shape {tuple(value.shape)}"
    return _name(value)


def _name(value: Any) -> str:
    """The name of a class or a function, else what an object says of itself; never its address, which says nothing."""
    part = "__name__" if isinstance(value, BuiltinFunctionType) else "__qualname__"
    if isinstance(named := getattr(value, part, None) or getattr(value, "__name__", None), str):
        module = getattr(value, "__module__", None) or "builtins"
        return named if module == "builtins" else f"{module}.{named}"
    said = re.sub(r" at 0x[0-9A-Fa-f]+", "", str(value))
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}…"


def text(said: Any) -> str:
    """What is told in words, as text."""
    return "" if said is None else str(said)


def role(said: Any) -> str:
    """The role of data, in the user's own words; one that looks like a slip of the pen is logged."""
    kept = text(said)
    if kept and kept not in ROLES:
        _doubt(kept)
    return kept


@cache
def _doubt(role: str) -> None:
    from difflib import get_close_matches

    near = get_close_matches(role.lower(), [known for known in ROLES if known[0] == role[0].lower()], 1, NEAR)
    if near:
        import logging

        said = "provml: the role %r is kept as it is; did you mean %r? Questions ask for that one"
        logging.getLogger("provml").warning(said, role, near[0])


def _from_tensor(value: Any) -> object:
    """The number in a tensor that has no dimensions, such as a loss; any other as it came."""
    held = getattr(value, "item", None) or getattr(value, "numpy", None)
    return plain(held()) if held is not None and tuple(value.shape) == () else value
