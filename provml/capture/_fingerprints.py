"""Fingerprints of datasets that are not plain arrays, so that the same data is recognised again in another run.

Datasets are read through the attributes that PyTorch, torchvision and Hugging Face give them. Nothing is imported, and
no item is loaded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provml.recording.hashing import Identity

MAX_HASHED_BYTES = 64 * 2**20
"""Datasets with more content in memory have no fingerprint."""
MAX_FILES = 100_000
"""Datasets with more files have no fingerprint."""


def fingerprint(dataset: Any) -> tuple[Identity, str] | None:
    """Return bytes that identify a dataset and what they are made of; None if nothing cheap identifies it."""
    digest = hashlib.sha256()
    basis = _add(digest, dataset)
    return (Identity(digest.digest()), basis) if basis else None


def _add(digest: Any, dataset: Any) -> str:
    """Add what identifies a dataset to a digest; return its name, or an empty text if there is nothing."""
    own = getattr(dataset, "_fingerprint", None)
    if isinstance(own, str) and own:  # of Hugging Face: content and all steps of its preparation
        digest.update(f"hugging-face:{own}".encode())
        return "fingerprint of Hugging Face"
    indices = getattr(dataset, "indices", None)
    if indices is not None and hasattr(dataset, "dataset"):
        digest.update(repr([int(index) for index in indices]).encode())
        basis = _add(digest, dataset.dataset)
        return f"{basis} and indices" if basis else ""
    parts = getattr(dataset, "datasets", None)
    if isinstance(parts, (list, tuple)) and parts:
        bases = [_add(digest, part) for part in parts]
        return bases[0] if all(bases) else ""
    samples = getattr(dataset, "samples", None)
    if isinstance(samples, list) and samples and isinstance(samples[0], tuple):
        return _add_files(digest, samples, getattr(dataset, "root", ""))
    return _add_contents(digest, dataset)


def _add_contents(digest: Any, dataset: Any) -> str:
    """Add the arrays that a dataset keeps in memory: its tensors, or its data and targets."""
    tensors = getattr(dataset, "tensors", None)
    contents = list(tensors) if isinstance(tensors, tuple) else []
    if not contents:
        names = [name for name in ("data", "targets", "labels") if getattr(dataset, name, None) is not None]
        contents = [getattr(dataset, name) for name in names]
    if not contents or not all(_add_content(digest, content) for content in contents):
        return ""
    return "content"


def _add_content(digest: Any, content: Any) -> bool:
    """Add an array, a tensor in main memory or a list of numbers and texts; False for anything else, or too much."""
    if isinstance(content, list):
        if len(content) > MAX_FILES or not all(isinstance(item, (bool, int, float, str)) for item in content):
            return False
        digest.update(repr(content).encode(errors="replace"))
        return True
    if (
        not hasattr(content, "shape")
        or not hasattr(content, "dtype")
        or getattr(content, "nbytes", 0) > MAX_HASHED_BYTES
    ):
        return False
    if "cpu" not in str(getattr(getattr(content, "device", "cpu"), "type", "cpu")):
        return False
    array = content.detach().numpy() if hasattr(content, "detach") else content
    if not hasattr(array, "tobytes"):
        return False
    digest.update(f"{tuple(array.shape)}{array.dtype}".encode())
    digest.update(array.tobytes())
    return True


def _add_files(digest: Any, samples: Sequence[tuple[Any, ...]], root: Any) -> str:
    """Add the paths below the root, the sizes and the targets of the files of a dataset."""
    if len(samples) > MAX_FILES:
        return ""
    for path, *targets in samples:
        try:
            name = os.path.relpath(path, root) if root else os.fspath(path)
            digest.update(f"{name}\0{Path(path).stat().st_size}\0{targets}\0".encode(errors="replace"))
        except (OSError, TypeError, ValueError):
            return ""
    return "names and sizes of files"
