"""The lake: the runs of homes as Parquet tables, read by DuckDB on one machine and by Apache Spark on a cluster.

schema     the tables and their columns
values     values of any type as columns
facts      what the things of a run say, as rows
rows       the rows of a run, from its journals
links      what is behind data, steps and evaluations, over all runs
folder     files and manifest, on a disk or in an object store
writing    build a lake, and keep it up to date
engines    DuckDB and Spark
names      names of runs, models, datasets and measures
twins      questions of the catalog that have an SQL twin
epochs     all epochs of all runs as one table
run_table  the table of runs
lake       an open lake

`build` and `update` write a lake from journals, without the index; `open` reads it. The extra `lake` installs what they
need, `spark` adds Apache Spark, and `s3` object stores.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provml.lake.lake import Lake, open_lake
    from provml.lake.writing import LakeReport, build, update

    open = open_lake  # noqa: A001  # read as provml.lake.open

__all__ = ["Lake", "LakeReport", "build", "open_lake", "update"]

_LAZY = {
    "Lake": "lake",
    "LakeReport": "writing",
    "build": "writing",
    "open": "lake",
    "open_lake": "lake",
    "update": "writing",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), "open_lake" if name == "open" else name)


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])
