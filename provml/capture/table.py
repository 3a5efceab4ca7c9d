"""Tables that a capture sees: data frames and sparse matrices, by their content, their columns and their size."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from provml.capture import facts
from provml.content import Data

if TYPE_CHECKING:
    from provml.recorder import Recorder

COLUMNS = 200
"""So many names of columns are told."""


def tell(run: Recorder, given: Any, role: str, name: str) -> list[Data]:
    """Tell of a table or anything else that a training was given."""
    if given is None or run.off:
        return []
    if isinstance(given, list):  # rows, texts or targets: one table
        return [run.dataset(_listed(given), role=role, name=name, data_type="list", instances=len(given))]
    said: dict[str, Any] = {"data_type": type(given).__name__, "instances": _rows(given)}
    if hasattr(given, "tocsr"):
        said |= {"shape": str(tuple(given.shape)), "non_zero": int(given.nnz)}
        return [run.dataset(_sparse(given), role=role, name=name, **said)]
    if hasattr(given, "columns") or type(given).__name__ == "Series":
        columns = [str(one) for one in list(getattr(given, "columns", ()))[:COLUMNS]]
        said |= {"shape": str(tuple(given.shape)), "columns": columns or None}
        return [run.dataset(_frame(given), role=role, name=name, **said)]
    return facts.tell(run, given, role, name)


def _rows(given: Any) -> int | None:
    shape = getattr(given, "shape", None)
    return int(shape[0]) if shape else None


def _listed(given: list[Any]) -> bytes | None:
    """What a list of texts or numbers is known by, if it is small enough to be read."""
    digest, size = hashlib.sha256(), 0
    for one in given:
        if not isinstance(one, (str, int, float)):
            return None
        said = f"{type(one).__name__}:{one!r}\0".encode()
        size += len(said)
        if size > facts.HASHED_BYTES:
            return None
        digest.update(said)
    return digest.digest()


def _sparse(given: Any) -> bytes | None:
    """What a sparse matrix is known by, if it is small enough to be read."""
    if given.data.nbytes > facts.HASHED_BYTES:
        return None
    rows = given.tocsr()
    digest = hashlib.sha256(f"{rows.shape}{rows.dtype}".encode())
    for part in (rows.data, rows.indices, rows.indptr):
        digest.update(part.tobytes())
    return digest.digest()


def _frame(given: Any) -> Any:
    """The content of a data frame of numbers, as an array; of others, what is known of each row by its values."""
    array = given.to_numpy()
    if array.nbytes > facts.HASHED_BYTES:
        return None
    if not array.dtype.hasobject:
        return array
    digest = hashlib.sha256(f"{array.shape}{list(getattr(given, 'columns', ()))}".encode())
    for value in array.ravel().tolist():
        digest.update(f"{type(value).__name__}:{value!r}\0".encode())
    return digest.digest()
