"""The datasets of a training: by role, with shape, type and count, and by content where reading it is cheap."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provml.capture._fingerprints import fingerprint
from provml.errors import WrongType
from provml.recording.data import Data
from provml.recording.data_registry import IdentityMap
from provml.recording.encoding import to_text
from provml.recording.safety import try_or

if TYPE_CHECKING:
    from provml.recording.run import Run

ROLES = ("training", "validation", "test", "model")
"""The roles that the setting `data` of a capture accepts."""
MAX_HASHED_BYTES = 64 * 2**20
"""Arrays up to this size are identified by their content. Reading more would slow a training down noticeably; users
pass larger data with `data=`."""
MAX_PARTS = 8
"""Inputs and targets that a network has at most; a longer list is a list of rows."""


class CaptureData:
    """The datasets of a capture by role: what the user passed with `data=`, otherwise what the capture observes."""

    def __init__(self, run: Run, provided: Mapping[str, Any]) -> None:
        self.provided = provided
        self._run = run
        self._recorded: dict[str, tuple[Any, list[Data]]] = {}
        self._by_source: IdentityMap[dict[str, list[Data]]] = IdentityMap()

    def get(self, role: str, observe: Callable[[], list[Data]] = list, *, source: Any = None) -> list[Data]:
        """Return the datasets of a role, recorded once.

        They are recorded again after a `reset`, or when they come from another `source` object than before.
        """
        recorded_source, datasets = self._recorded.get(role, (None, None))
        is_other_source = source is not None and recorded_source is not source and role not in self.provided
        if datasets is None or is_other_source:
            datasets = self._record(role, observe, source)
            self._recorded[role] = source, datasets
        return datasets

    def reset(self, *roles: str) -> None:
        """Observe the datasets of these roles again at the next use, unless the user passed them."""
        for role in roles:
            if role not in self.provided:
                self._recorded.pop(role, None)

    def _record(self, role: str, observe: Callable[[], list[Data]], source: Any) -> list[Data]:
        by_role = self._by_source.get(source) or {}
        if role in self.provided:
            value = self.provided[role]
            values = value if isinstance(value, (list, tuple)) else [value]
            datasets = [data for value in values for data in self._record_provided(value, role)]
        elif role in by_role:
            datasets = by_role[role]
        else:
            datasets = try_or(self._run, observe, list[Data]())
        if role == "training" and not datasets:  # a model is derived from data, even if nothing is known about it
            datasets = [self._run.dataset(None, role=role, name="training data")]
        if all(not data.sha256 for data in datasets):  # without a digest, only the source object identifies the data
            self._by_source.set(source, {**by_role, role: datasets})
        return datasets

    def _record_provided(self, value: Any, role: str) -> Iterable[Data]:
        if isinstance(value, Data):
            return [value]
        if isinstance(value, (str, bytes, Path)) or hasattr(value, "tobytes"):
            name = "" if isinstance(value, (str, Path)) else f"{role} data"
            return [self._run.dataset(value, role=role, name=name)]
        return record_data(self._run, value, role, f"{role} data")


def check_roles(data: Any) -> dict[str, Any]:
    """Return the setting `data` as a dictionary by role; log the roles that no capture uses."""
    if data is not None and not isinstance(data, Mapping):
        raise WrongType("Capture", "data", data, "data by role", "Use data={'training': …}.")
    for role in data or ():
        if role not in ROLES:
            message = "provml: data with the role %r is not recorded. Roles: %s."
            logging.getLogger("provml").warning(message, role, ", ".join(ROLES))
    return dict(data or {})


# ---- observed data


def record_data(run: Run, value: Any, role: str, name: str) -> list[Data]:
    """Record the arrays, tensors, datasets and loaders that a training was given. Nothing is iterated over."""
    if value is None or run.disabled:
        return []
    if isinstance(value, (tuple, list)) and _are_parts(value):
        return [data for i, part in enumerate(value, 1) for data in record_data(run, part, role, f"{name}_{i}")]
    if isinstance(value, dict) and _are_parts(value.values()):
        return [data for key, part in value.items() for data in record_data(run, part, role, f"{name}_{to_text(key)}")]
    if getattr(value, "dataset", None) is not None and hasattr(value, "batch_size"):  # a loader
        return record_data(run, value.dataset, role, name)
    tensors = getattr(value, "tensors", None)
    if isinstance(tensors, tuple):
        return record_data(run, tensors, role, name)
    characteristics: dict[str, Any] = {"data_type": type(value).__name__, "instances": _count(value)}
    content: Any = None
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        characteristics |= {"shape": str(tuple(value.shape)), "element_type": str(value.dtype)}
        content = _content(value)
    elif (identity := try_or(run, lambda: fingerprint(value), None)) is not None:
        content, characteristics["fingerprint_of"] = identity
    return [run.dataset(content, role=role, name=name, **characteristics)]


def is_loader(value: Any) -> bool:
    """Return whether this object yields the batches of a dataset."""
    return hasattr(value, "batch_size") and hasattr(value, "dataset")


def loader_settings(loader: Any, prefix: str = "") -> dict[str, Any]:
    """Return the settings of a loader that influence what is learned, and its number of batches."""
    settings = {name: getattr(loader, name, None) for name in ("batch_size", "num_workers", "drop_last")}
    if settings["batch_size"] is None:  # the batch sampler decides
        settings |= {name: getattr(_batch_sampler(loader), name, None) for name in ("batch_size", "drop_last")}
    sampler = _sampler(loader)
    settings["sampler"] = type(sampler).__name__ if sampler is not None else None
    settings["batches"] = _count(loader)
    return {prefix + name: value for name, value in settings.items() if value is not None}


def _sampler(loader: Any) -> Any:
    """Return the sampler that decides the order of a loader.

    A batch sampler takes precedence: where one was passed, as Accelerate does, the loader's own sampler is unused.
    """
    sampler = getattr(_batch_sampler(loader), "sampler", None)
    return sampler if sampler is not None else getattr(loader, "sampler", None)


def _batch_sampler(loader: Any) -> Any:
    batch_sampler = getattr(loader, "batch_sampler", None)
    return getattr(batch_sampler, "batch_sampler", batch_sampler)  # Accelerate wraps it for each process


def _are_parts(values: Collection[Any]) -> bool:
    """Return whether these are a few inputs and targets, each a dataset, and not the rows of one dataset."""
    return 0 < len(values) <= MAX_PARTS and all(map(_is_data, values))


def _is_data(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return _are_parts(value)
    if isinstance(value, dict):
        return _are_parts(value.values())
    return value is None or (hasattr(value, "shape") and hasattr(value, "dtype")) or hasattr(value, "dataset")


def _count(value: Any) -> int | None:
    """Return the length, or None."""
    try:
        return len(value)
    except Exception:  # streams raise various errors
        return None


def _content(array: Any) -> Any:
    """Return an array to be hashed if it is small and in main memory, otherwise None."""
    try:
        if _size(array) > MAX_HASHED_BYTES:
            return None
        if hasattr(array, "tobytes"):
            return array
        if _is_in_main_memory(array):
            return array.detach().numpy() if hasattr(array, "detach") else array.numpy()
    except Exception:  # not an array after all, or its element type has no numpy equivalent
        return None
    return None


def _size(array: Any) -> int:
    """Return the size of an array in bytes; a TensorFlow tensor only knows its shape and element type."""
    size = getattr(array, "nbytes", None)
    if size is None:
        element = getattr(array.dtype, "itemsize", None) or array.dtype.size
        size = math.prod(array.shape) * element
    return int(size)


def _is_in_main_memory(array: Any) -> bool:
    """Return whether an array of PyTorch or TensorFlow is in main memory and not on a GPU."""
    device = getattr(array, "device", None)
    kind = getattr(device, "type", device)
    return kind is None or "cpu" in str(kind).lower()
