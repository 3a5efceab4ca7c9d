"""What a capture can tell of data that it sees pass by: shape, kind and count, and the content where that is cheap."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from provml.content import Data, text

if TYPE_CHECKING:
    from provml.recorder import Recorder

HASHED_BYTES = 64 * 2**20
"""Arrays up to this size are known by their content; reading more would be felt. Hand larger ones over with `data=`."""

MOST_PARTS = 8
"""How many inputs and targets a network is thought to have; a longer list is one of rows."""


def tell(run: Recorder, given: Any, role: str, name: str) -> list[Data]:
    """Tell of what a training was given: arrays, tensors, datasets, loaders. Nothing is iterated over."""
    if given is None or run.off:
        return []
    if isinstance(given, (tuple, list)) and _are_parts(given):
        return [data for number, one in enumerate(given, 1) for data in tell(run, one, role, f"{name}_{number}")]
    if isinstance(given, dict) and _are_parts(given.values()):
        return [data for key, one in given.items() for data in tell(run, one, role, f"{name}_{text(key)}")]
    held = getattr(given, "dataset", None)
    if held is not None and hasattr(given, "batch_size"):  # a loader is told by what it loads
        return tell(run, held, role, name)
    tensors = getattr(given, "tensors", None)
    if isinstance(tensors, tuple):
        return tell(run, tensors, role, name)
    facts: dict[str, Any] = {"data_type": type(given).__name__, "instances": _count(given)}
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        facts |= {"shape": str(tuple(given.shape)), "element_type": str(given.dtype)}
        return [run.dataset(_content(given), role=role, name=name, **facts)]
    return [run.dataset(None, role=role, name=name, **facts)]


def is_loader(given: Any) -> bool:
    """Whether this gives the batches of a dataset."""
    return hasattr(given, "batch_size") and hasattr(given, "dataset")


def loading(loader: Any, prefix: str = "") -> dict[str, Any]:
    """The settings of a loader that matter to what is learned, and how many batches it has."""
    found: dict[str, Any] = {}
    for name in ("batch_size", "num_workers", "drop_last"):
        value = getattr(loader, name, None)
        if value is not None:
            found[prefix + name] = value
    sampler = _sampler(loader)
    if sampler is not None:
        found[prefix + "sampler"] = type(sampler).__name__
    found[prefix + "batches"] = _count(loader)
    return {name: value for name, value in found.items() if value is not None}


def _sampler(loader: Any) -> Any:
    """What says the order of a loader: that of its batches, if it has one; else its own.

    Where batches are made by a sampler that was given, as by Accelerate, the loader's own is there and not used.
    """
    held = getattr(loader, "batch_sampler", None)
    held = getattr(held, "batch_sampler", held)  # of several processes, each has its share of another
    inside = getattr(held, "sampler", None)
    return inside if inside is not None else getattr(loader, "sampler", None)


def _are_parts(given: Collection[Any]) -> bool:
    """Whether these are a few inputs and targets, each data of its own, and not the rows of one dataset."""
    return 0 < len(given) <= MOST_PARTS and all(map(_is_data, given))


def _is_data(one: Any) -> bool:
    if isinstance(one, (tuple, list)):
        return _are_parts(one)
    if isinstance(one, dict):
        return _are_parts(one.values())
    return one is None or (hasattr(one, "shape") and hasattr(one, "dtype")) or hasattr(one, "dataset")


def _count(given: Any) -> int | None:
    """How many it holds, if it says so."""
    try:
        return len(given)
    except Exception:  # a stream has no length, and says so in many ways
        return None


def _content(array: Any) -> Any:
    """An array whose content is read, if that is cheap and it is on this side of a GPU; else None."""
    try:
        if _size(array) > HASHED_BYTES:
            return None
        if hasattr(array, "tobytes"):
            return array
        if _is_here(array):
            return array.detach().numpy() if hasattr(array, "detach") else array.numpy()
    except Exception:  # no array after all, or of elements that numpy does not know
        return None
    return None


def _size(array: Any) -> int:
    """How many bytes an array takes; a tensor of TensorFlow's does not say, but what it is made of."""
    size = getattr(array, "nbytes", None)
    if size is None:
        element = getattr(array.dtype, "itemsize", None) or array.dtype.size
        size = math.prod(array.shape) * element
    return int(size)


def _is_here(array: Any) -> bool:
    """Whether it is in the memory of this machine, and not in that of a GPU; PyTorch and TensorFlow say where."""
    place = getattr(array, "device", None)
    kind = getattr(place, "type", place)
    return kind is None or "cpu" in str(kind).lower()
