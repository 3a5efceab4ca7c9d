"""An open lake: questions of the catalog, SQL, and tables as DataFrames."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from provml.answers import Answer
from provml.catalog import Catalog, Query
from provml.errors import MissingDependency, QueryError, WrongValue, plural
from provml.lake import epochs, twins
from provml.lake.engines import ENGINES, DuckDBEngine, Engine, Rows, SparkEngine, UnreadableFile, arguments
from provml.lake.folder import LakeFolder, damaged_file
from provml.lake.schema import TABLES, Table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Result = TypeVar("Result")
EPOCHS = "epochs"


class Lake:
    """The tables of a lake, read by an engine. It sees what the lake held when it was opened, or at `refresh`."""

    def __init__(self, folder: LakeFolder, engine: Engine) -> None:
        self.folder = folder
        self.engine = engine
        self._catalog: Catalog | None = None
        self._is_closed = False
        self.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lake {self.folder.location!r} {plural(len(self.manifest.runs), 'run')}, {self.engine.name}>"

    def close(self) -> None:
        """Release the engine."""
        self._is_closed = True
        self.engine.close()

    def refresh(self) -> None:
        """See what was written since the lake was opened."""
        while True:
            self.manifest = self.folder.require()
            try:
                return self.engine.open(self.folder, self.manifest)
            except UnreadableFile as error:
                if self.folder.require().number == self.manifest.number:  # no update has replaced the file
                    raise damaged_file(self.folder.location, error) from error

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables with their columns."""
        return TABLES

    @property
    def open_runs(self) -> list[str]:
        """Runs that were still being written at the last update: left out, or included as far as they were."""
        left_out = (run for runs in self.manifest.left_out.values() for run in runs)
        return sorted({*left_out, *(run for run, entry in self.manifest.runs.items() if entry.is_open)})

    # ---- questions

    @property
    def catalog(self) -> Catalog:
        """The questions of provml; `questions` names those that a lake answers."""
        if self._catalog is None:
            self._catalog = Catalog()
        return self._catalog

    @property
    def questions(self) -> list[str]:
        """The names of the questions that have an SQL twin."""
        return list(twins.twins())

    def ask(self, question: str | Query, /, **values: Any) -> Answer:
        """Answer a question of the catalog, with the names, parameters and answers of the store: `ask("l5", …)`."""
        query, sql = twins.find_twin(self.catalog, question)
        return self._retried(lambda: twins.ask(self.engine.rows_without_times, self._select, query, sql, values))

    def _select(self, sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self.engine.rows_without_times(sql, params)[1]

    def _retried(self, call: Callable[[], Result]) -> Result:
        """Call again after a refresh if an update has replaced files meanwhile."""
        if self._is_closed:
            raise ValueError("This lake is closed. Open it again with provml.lake.open(folder).")
        try:
            return call()
        except UnreadableFile:
            self.refresh()
        try:
            return call()
        except UnreadableFile as error:
            raise damaged_file(self.folder.location, error) from error

    def table(self) -> Answer:
        """Return a row for each training with hyperparameters and measures, as `store.table()` does."""
        from provml.lake.run_table import run_table

        return self._retried(lambda: run_table(self._select))

    # ---- SQL and DataFrames

    def sql(self, statement: str = EPOCHS, /, **params: Any) -> Any:
        """Return a SELECT, a table or `epochs` as a relation of DuckDB or a DataFrame of Spark.

        `epochs` has a row for each epoch of each run, and a column for each measure. `:name` is a parameter.
        """
        return self._retried(lambda: self.engine.native(*self._statement(statement, params)))

    def _statement(self, source: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        is_table = source in TABLES or source == EPOCHS
        if unknown := params.keys() - (set() if is_table else arguments(source, params).keys()):
            name = sorted(unknown)[0]
            raise QueryError(f"the statement has no parameter :{name}", f"Write :{name} where its value belongs.")
        if source == EPOCHS:
            return epochs.statement(self._select)
        if source in TABLES:
            return f"SELECT * FROM {source}", {}
        if len(source.split()) < 2:
            names = ", ".join([EPOCHS, *TABLES])
            raise WrongValue("Lake", "sql", source, "a table or a SELECT", f"Tables: {names}.")
        return source, dict(params)

    def rows(self, statement: str = EPOCHS, /, **params: Any) -> Rows:
        """Execute a SELECT; return the names of its columns and its rows."""
        return self._retried(lambda: self.engine.rows(*self._statement(statement, params)))

    def to_arrow(self, statement: str = EPOCHS, /, **params: Any) -> pyarrow.Table:
        """Return a SELECT, a table or `epochs` as a table of pyarrow."""
        result: pyarrow.Table = self._retried(lambda: self.engine.arrow(*self._statement(statement, params)))
        return result

    def to_pandas(self, statement: str = EPOCHS, /, **params: Any) -> pandas.DataFrame:
        """Return a SELECT, a table or `epochs` as a pandas DataFrame (`pip install 'provml[pandas]'`)."""
        try:
            import pandas  # noqa: F401  # pyarrow imports it
        except ImportError:
            raise MissingDependency("pandas", "pandas") from None
        frame: pandas.DataFrame = self.to_arrow(statement, **params).to_pandas()
        return frame

    def to_polars(self, statement: str = EPOCHS, /, **params: Any) -> polars.DataFrame:
        """Return a SELECT, a table or `epochs` as a polars DataFrame (`pip install 'provml[polars]'`)."""
        try:
            import polars
        except ImportError:
            raise MissingDependency("polars", "polars") from None
        frame = polars.from_arrow(self.to_arrow(statement, **params))
        assert isinstance(frame, polars.DataFrame)  # a table is no series
        return frame


def open_lake(
    folder: str | os.PathLike[str],
    engine: str = "duckdb",
    *,
    connection: Any = None,
    session: Any = None,
    master: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Lake:
    """Open a lake to read it: `provml.lake.open("lake").ask("l5", …)`.

    `folder` is a directory or a URL such as s3://bucket/lake, with `storage_options` for its file system (fsspec).
    `engine` is `duckdb` (`connection` is a connection to use) or `spark` (`session` is a session to use; `master` the
    cluster of a new one, by default $SPARK_MASTER).
    """
    if engine not in ENGINES:
        raise WrongValue("lake.open", "engine", engine, " or ".join(ENGINES), "Pass one of these.")
    files = LakeFolder(Path(folder).expanduser() if isinstance(folder, Path) else folder, storage_options)
    files.require()  # before an engine is started for nothing
    if engine == "spark":
        return Lake(files, SparkEngine(session, master))
    return Lake(files, DuckDBEngine(connection))
