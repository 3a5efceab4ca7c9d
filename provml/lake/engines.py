"""The engines that read a lake: DuckDB in this process, Apache Spark on a cluster. Both run the same SQL.

A parameter is `:name`. Functions have the names that Spark gives them; DuckDB gets the few that it lacks as macros.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from provml.errors import MissingDependency, QueryError, ServiceError, WrongValue
from provml.lake.folder import LakeFolder, Manifest, file_path, first_line
from provml.lake.schema import TABLES

if TYPE_CHECKING:
    import duckdb
    import pyspark.sql

Rows = tuple[list[str], list[tuple[Any, ...]]]
PARAMETER = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|(?<![:\w]):([A-Za-z_]\w*)""", re.DOTALL)
MACROS = ("array_join(items, separator) AS array_to_string(items, separator)", "unix_micros(t) AS epoch_us(t)")
DUCKDB_TYPES = {"text": "VARCHAR", "integer": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN", "time": "TIMESTAMPTZ"}
SPARK_TYPES = {"text": "STRING", "integer": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN", "time": "TIMESTAMP"}


DUCKDB_DAMAGE = ("Failed to read file", "TProtocolException", "Parquet file")
SPARK_DAMAGE = ("FILE_NOT_EXIST", "FileNotFound", "PATH_NOT_FOUND", "FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER")
"""What an engine says of a Parquet file that is gone or damaged."""
OWNER = "provml_lake"
"""A view in the caller's connection that says which lake has its views there."""
START_ADVICE = "Check that Java 17 or later is installed (JAVA_HOME), and the address of the cluster."
CHECK_STATEMENT = "Check the statement; `lake.tables` has the columns."


class UnreadableFile(Exception):
    """A file of a lake that is damaged, or gone: an update may have replaced it."""


def arguments(sql: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the parameters in a statement; raise QueryError if one is missing."""
    names = {match[1] for match in PARAMETER.finditer(sql) if match[1]}
    missing = sorted(names - params.keys())
    if missing:
        raise QueryError(f"the statement has the parameter :{missing[0]}, which has no value", f"Pass {missing[0]}=….")
    return {name: params[name] for name in names}


def _named(sql: str) -> str:
    """Return a statement with parameters as DuckDB writes them."""
    return PARAMETER.sub(lambda match: f"${match[1]}" if match[1] else match[0], sql)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def files_of(folder: LakeFolder, manifest: Manifest, table: str) -> list[str]:
    """Return the files of a table as an engine names them."""
    return [folder.url(file_path(table, part.name)) for part in manifest.all_parts if table in part.files]


class Engine(Protocol):
    """What a lake needs of an engine."""

    name: str

    def open(self, folder: LakeFolder, manifest: Manifest) -> None:
        """Make the tables of a manifest known."""

    def rows(self, sql: str, params: Mapping[str, Any]) -> Rows:
        """Execute a statement; return its columns and rows as Python values."""

    def rows_without_times(self, sql: str, params: Mapping[str, Any]) -> Rows:
        """Execute a statement that has no column of times."""

    def native(self, sql: str, params: Mapping[str, Any]) -> Any:
        """Return a statement as a relation of DuckDB or a DataFrame of Spark."""

    def arrow(self, sql: str, params: Mapping[str, Any]) -> Any:
        """Execute a statement; return a table of pyarrow."""

    def close(self) -> None:
        """Release the engine."""


class DuckDBEngine:
    """DuckDB in this process; it reads only the columns and row groups that a statement needs."""

    name = "duckdb"

    def __init__(self, connection: duckdb.DuckDBPyConnection | None = None) -> None:
        try:
            import duckdb
        except ImportError:
            raise MissingDependency("duckdb", "lake") from None
        self._is_own = connection is None
        self.connection = duckdb.connect() if connection is None else connection
        if self._is_own:
            self.connection.execute("SET TimeZone = 'UTC'")  # not that of the machine: times are UTC, as in Spark
        self.error = duckdb.Error
        self.io_error = (duckdb.IOException, FileNotFoundError)  # of DuckDB, and of fsspec
        for macro in MACROS:
            self.connection.execute(f"CREATE OR REPLACE TEMP MACRO {macro}")

    def open(self, folder: LakeFolder, manifest: Manifest) -> None:
        """Create a view for each table."""
        if not folder.is_local:
            protocol = folder.location.partition("://")[0]
            if protocol not in self.connection.list_filesystems():
                self.connection.register_filesystem(folder.fs)
        if not self._is_own:
            self._take_connection(folder.location)
        for table, spec in TABLES.items():
            files = files_of(folder, manifest, table)
            if files:
                source = f"SELECT * FROM read_parquet([{', '.join(map(_quoted, files))}])"
            else:
                columns = ", ".join(f"NULL::{DUCKDB_TYPES[c.type]} AS {c.name}" for c in spec.columns)
                source = f"SELECT {columns} WHERE FALSE"
            try:
                self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {source}")
            except (*self.io_error, self.error) as error:
                raise UnreadableFile(first_line(error)) from error

    def _take_connection(self, location: str) -> None:
        """Raise WrongValue if another lake has its views in the caller's connection: both have the same names."""
        connection, query = self.connection, f"SELECT 1 FROM duckdb_views() WHERE temporary AND view_name = '{OWNER}'"
        if connection.execute(query).fetchall():
            (owner,) = connection.execute(f"SELECT lake FROM {OWNER}").fetchall()[0]
            if owner != location:
                advice = "Pass connection.cursor(), or close that lake first."
                raise WrongValue("lake.open", "connection", owner, "a connection without another lake", advice)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {OWNER} AS SELECT {_quoted(location)} AS lake")

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the errors of DuckDB into those of provml."""
        try:
            yield
        except self.io_error as error:
            raise UnreadableFile(first_line(error)) from error
        except self.error as error:
            if any(text in str(error) for text in DUCKDB_DAMAGE):
                raise UnreadableFile(first_line(error)) from error
            raise QueryError(str(error).strip(), CHECK_STATEMENT) from error

    def rows(self, sql: str, params: Mapping[str, Any]) -> Rows:
        """Execute a statement; return its columns and rows."""
        relation = self.native(sql, params)
        with self._translated():
            if any("TIME ZONE" in str(kind) for kind in relation.types):  # fetchall needs pytz for such a column
                columns = relation.to_arrow_table().columns
                return relation.columns, list(zip(*(column.to_pylist() for column in columns), strict=True))
            return relation.columns, relation.fetchall()

    def rows_without_times(self, sql: str, params: Mapping[str, Any]) -> Rows:
        """Execute a statement, which is planned once; a relation is planned twice."""
        if not self._is_own:  # its owner may still read the result of a statement
            return self.rows(sql, params)
        with self._translated():
            result = self.connection.execute(_named(sql), arguments(sql, params) or None)
            return [name for name, *_ in result.description], result.fetchall()

    def native(self, sql: str, params: Mapping[str, Any]) -> Any:
        """Return a relation, which is executed when its rows are read."""
        with self._translated():
            return self.connection.sql(_named(sql), params=arguments(sql, params) or None)

    def arrow(self, sql: str, params: Mapping[str, Any]) -> Any:
        """Execute a statement; return a table of pyarrow."""
        relation = self.native(sql, params)
        with self._translated():
            return relation.to_arrow_table()

    def close(self) -> None:
        """Close the connection; remove the views from one that the caller passed."""
        if self._is_own:
            self.connection.close()
            return
        with contextlib.suppress(self.error):  # the caller has closed it
            for view in (*TABLES, OWNER):
                self.connection.execute(f"DROP VIEW IF EXISTS temp.{view}")


class SparkEngine:
    """Apache Spark: the session of the caller, or one at `master`.

    Statements run in a new session beside it, so that other lakes and the caller have their own views and settings.
    """

    name = "spark"

    def __init__(self, session: pyspark.sql.SparkSession | None = None, master: str | None = None) -> None:
        try:
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
        except ImportError:
            raise MissingDependency("pyspark", "spark") from None
        is_own = session is None and SparkSession.getActiveSession() is None
        if session is None:
            builder = SparkSession.builder.appName("provml")
            if master is not None or "SPARK_MASTER" in os.environ:
                builder = builder.master(master or os.environ["SPARK_MASTER"])
            try:
                session = builder.getOrCreate()
            except (PySparkException, Py4JError) as error:
                reason = f"it does not start ({first_line(error)})"
                raise ServiceError(master or "Spark", reason, START_ADVICE) from error
        self._started = session if is_own else None
        self.session = session.newSession()
        self.error = (PySparkException, Py4JError)
        settings = self.session.conf.getAll
        for name, value in session.conf.getAll.items():
            if settings.get(name) != value:  # set since the session was started
                self.session.conf.set(name, value)
        self.session.conf.set("spark.sql.session.timeZone", "UTC")
        self.session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")

    def open(self, folder: LakeFolder, manifest: Manifest) -> None:
        """Create a view for each table."""
        for table, spec in TABLES.items():
            files = files_of(folder, manifest, table)
            files = [re.sub("^s3://", "s3a://", path) for path in files]
            if files:
                schema = ", ".join(f"{column.name} {SPARK_TYPES[column.type]}" for column in spec.columns)
                with self._translated():
                    frame = self.session.read.schema(schema).parquet(*files)
            else:
                columns = (f"CAST(NULL AS {SPARK_TYPES[column.type]}) AS {column.name}" for column in spec.columns)
                frame = self.session.sql(f"SELECT {', '.join(columns)} WHERE FALSE")
            frame.createOrReplaceTempView(table)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the errors of Spark into those of provml."""
        try:
            yield
        except self.error as error:
            if any(text in str(error) for text in SPARK_DAMAGE):
                raise UnreadableFile(first_line(error)) from error
            raise QueryError(first_line(error), CHECK_STATEMENT) from error

    def native(self, sql: str, params: Mapping[str, Any]) -> Any:
        """Return a DataFrame of Spark."""
        with self._translated():
            return self.session.sql(sql, args=arguments(sql, params))

    def rows(self, sql: str, params: Mapping[str, Any]) -> Rows:
        """Execute a statement; return its columns and rows."""
        frame = self.native(sql, params)
        with self._translated():
            return list(frame.columns), [tuple(row) for row in frame.collect()]

    rows_without_times = rows

    def arrow(self, sql: str, params: Mapping[str, Any]) -> Any:
        """Execute a statement; return a table of pyarrow."""
        frame = self.native(sql, params)
        with self._translated():
            return frame.toArrow()

    def close(self) -> None:
        """Stop the session if it was started for this lake."""
        if self._started is not None:
            self._started.stop()


ENGINES: Mapping[str, type[DuckDBEngine | SparkEngine]] = {"duckdb": DuckDBEngine, "spark": SparkEngine}
ENGINE_NAMES: Sequence[str] = tuple(ENGINES)
