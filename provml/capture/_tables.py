"""Tables that a capture observes: data frames and sparse matrices, with content, columns and size."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from provml.capture import _data
from provml.recording.data import Data
from provml.recording.hashing import Identity

if TYPE_CHECKING:
    from provml.recording.run import Run

MAX_COLUMNS = 200
"""Column names that are recorded at most."""


def record_table(run: Run, value: Any, role: str, name: str) -> list[Data]:
    """Record a table, or any other data that a training was given."""
    if value is None or run.disabled:
        return []
    if isinstance(value, list):  # rows, texts or targets: one table
        return [run.dataset(_list_digest(value), role=role, name=name, data_type="list", instances=len(value))]
    characteristics: dict[str, Any] = {"data_type": type(value).__name__, "instances": _row_count(value)}
    if hasattr(value, "tocsr"):
        characteristics |= {"shape": str(tuple(value.shape)), "non_zero": int(value.nnz)}
        return [run.dataset(_sparse_digest(value), role=role, name=name, **characteristics)]
    if hasattr(value, "columns") or type(value).__name__ == "Series":
        columns = [str(column) for column in list(getattr(value, "columns", ()))[:MAX_COLUMNS]]
        characteristics |= {"shape": str(tuple(value.shape)), "columns": columns or None}
        return [run.dataset(_frame_content(value), role=role, name=name, **characteristics)]
    return _data.record_data(run, value, role, name)


def _row_count(value: Any) -> int | None:
    shape = getattr(value, "shape", None)
    return int(shape[0]) if shape else None


def _list_digest(values: list[Any]) -> Identity | None:
    """Return the digest of a list of texts or numbers; None if it is too large or has other values."""
    digest, size = hashlib.sha256(), 0
    for value in values:
        if not isinstance(value, (str, int, float)):
            return None
        encoded = f"{type(value).__name__}:{value!r}\0".encode()
        size += len(encoded)
        if size > _data.MAX_HASHED_BYTES:
            return None
        digest.update(encoded)
    return Identity(digest.digest())


def _sparse_digest(matrix: Any) -> Identity | None:
    """Return the digest of a sparse matrix; None if it is too large."""
    if matrix.data.nbytes > _data.MAX_HASHED_BYTES:
        return None
    rows = matrix.tocsr()
    digest = hashlib.sha256(f"{rows.shape}{rows.dtype}".encode())
    for part in (rows.data, rows.indices, rows.indptr):
        digest.update(part.tobytes())
    return Identity(digest.digest())


def _frame_content(frame: Any) -> Any:
    """Return a data frame of numbers as an array, any other as the digest of its values; None if it is too large."""
    array = frame.to_numpy()
    if array.nbytes > _data.MAX_HASHED_BYTES:
        return None
    if not array.dtype.hasobject:
        return array
    digest = hashlib.sha256(f"{array.shape}{list(getattr(frame, 'columns', ()))}".encode())
    for value in array.ravel().tolist():
        digest.update(f"{type(value).__name__}:{value!r}\0".encode())
    return Identity(digest.digest())
