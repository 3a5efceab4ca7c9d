"""Metrics of yProv4ML in arrays: NetCDF files, which are HDF5, and Zarr folders. Both need packages of an extra.

Each has the arrays `epochs`, `values` (float32) and `timestamps` (milliseconds), and the name of the metric as an
attribute. They are read in portions. A header that claims more rows than the bytes on the disk can hold is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provml.errors import FileFormatError, MissingDependency
from provml.exchange.source_files import walk
from provml.exchange.typed_text import shortest_float32

EXTRA = "yprov4ml"
ARRAYS = ("epochs", "values", "timestamps")
PORTION = 10_000
"""Rows that are read at once."""
ROWS_PER_BYTE = 1000
"""Rows that a byte on the disk holds at most, however well they are compressed."""
MAX_CHUNK = 1 << 24
"""Rows of a chunk at most, since it is read as a whole; yProv4ML writes 1,000."""
NETCDF, ZARR = ".nc", ".zarr"
Rows = Iterator[tuple[int, float, int]]


def is_array_file(path: Path) -> bool:
    """Return whether the name is that of a NetCDF file or a Zarr folder."""
    return path.suffix in (NETCDF, ZARR)


def read_metric(path: Path) -> tuple[str, Rows]:
    """Return the name of a metric, or nothing, and its rows: epoch, value, milliseconds."""
    try:
        if path.suffix == NETCDF:
            return _read_netcdf(path)
        return _read_zarr(path)
    except (FileFormatError, MissingDependency):
        raise
    except Exception as error:  # whatever the libraries raise for damaged files
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def _read_netcdf(path: Path) -> tuple[str, Rows]:
    try:
        import h5py
    except ImportError:
        raise MissingDependency("h5py", EXTRA) from None
    with h5py.File(path, "r") as file:
        name = _text(file.attrs.get("_name", ""))
        links = [file.get(key, getlink=True) for key in ARRAYS]
        if not all(isinstance(link, h5py.HardLink) for link in links):  # others lead to other files
            raise _damaged(path, "it does not have the arrays epochs, values and timestamps")
        arrays = [file[key] for key in ARRAYS]
        if any(array.external for array in arrays):
            raise _damaged(path, "its values are in other files")
        _check(path, arrays, path.stat().st_size)

    def rows() -> Rows:
        with h5py.File(path, "r") as file:
            yield from _rows([file[key] for key in ARRAYS])

    return name, rows()


def _read_zarr(path: Path) -> tuple[str, Rows]:
    try:
        import zarr
    except ImportError:
        raise MissingDependency("zarr", EXTRA) from None
    group = zarr.open_group(store=str(path), mode="r")
    arrays = [group[key] for key in ARRAYS]
    _check(path, arrays, sum(file.stat().st_size for file in walk(path)))
    return _text(group.attrs.get("name", "")), _rows(arrays)


def _check(path: Path, arrays: list[Any], size: int) -> None:
    """Raise if the arrays are not those of a metric, or claim to be larger than the file can be."""
    if any(len(array.shape) != 1 for array in arrays) or len({array.shape for array in arrays}) != 1:
        raise _damaged(path, "its arrays are not columns of the same length")
    rows, chunk = arrays[0].shape[0], max((array.chunks or (0,))[0] for array in arrays)
    if rows > size * ROWS_PER_BYTE or chunk > MAX_CHUNK:
        raise _damaged(path, f"it claims {rows:,} rows in chunks of {chunk:,}, which {size:,} bytes cannot hold")


def _rows(arrays: list[Any]) -> Rows:
    count = arrays[0].shape[0]
    for start in range(0, count, PORTION):
        epochs, values, stamps = (array[start : start + PORTION].tolist() for array in arrays)
        yield from zip(epochs, map(shortest_float32, values), stamps, strict=True)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _damaged(path: Path, reason: str) -> FileFormatError:
    return FileFormatError(reason, "Pass the file as yProv4ML wrote it.", file=str(path))
