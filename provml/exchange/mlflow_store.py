"""Stores of MLflow 2.x and 3.x: SQL databases and folders of files, read without MLflow.

SQLite needs nothing; any other database needs SQLAlchemy and its driver. Tables are only read: a trigger never fires,
and a view in the place of a table is refused. MLflow writes infinities to SQL as the largest double, and NaN as 0 with
a mark.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from provml.errors import FileFormatError, MissingDependency
from provml.exchange import mlflow
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.foreign_events import to_source_run
from provml.exchange.foreign_run import (
    ForeignData,
    ForeignFile,
    ForeignModel,
    ForeignRun,
    SourceInfo,
    is_model_file,
    valid_run_id,
)
from provml.exchange.losses import DATASETS, FILES, MODELS, OTHERS, PARAMETERS, POINTS, TAGS
from provml.exchange.source_files import digest_of, is_inside, read_text, read_yaml, sha256_of, sniff, walk
from provml.exchange.typed_text import parse_text, to_number
from provml.journal.redaction import redact_url
from provml.recording.artifacts import media_type_of

Row = dict[str, Any]
SQLITE_MAGIC = b"SQLite format 3\0"
TABLES = ("experiments", "runs", "params", "metrics", "tags")
STATUSES = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
"""Status of a run in files, where it is a number."""
ENDED = ("FINISHED", "FAILED", "KILLED")
EPOCH_LOGGERS = mlflow.EPOCH_LOGGERS
MODEL_FOLDER = "model"
DATABASE = "mlflow.db"
"""Name of the database in a folder that was passed instead of it."""
MAX_DOUBLE = sys.float_info.max
TRASH = ".trash"
ADVICE = "Pass a database (mlflow.db), a folder mlruns, or the URL of a database."
_DATABASE_URL = re.compile(r"(?:postgresql|mysql|mssql|sqlite|oracle)(?:\+\w+)?:/+")


def is_database_url(text: str) -> bool:
    """Return whether a source is the URL of a database."""
    return _DATABASE_URL.match(text) is not None


class MlflowStore:
    """Importer of the stores of MLflow."""

    name = "mlflow"
    summary = "a store of MLflow: mlflow.db, a folder mlruns, or the URL of a database"

    def recognises(self, path: Path) -> bool:
        """Return whether a path is an SQLite database of MLflow, or a folder with experiments."""
        return _is_database(path) or _is_database(path / DATABASE) or any(_experiment_folders(path))

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the runs of a store, and those that cannot be read."""
        if is_database_url(str(path)):
            yield from _read_database(SqlAlchemyDatabase(str(path)), path, options)
        elif path.is_dir() and not _is_database(path / DATABASE):
            yield from _read_folder(path, options)
        else:
            file = path / DATABASE if path.is_dir() else path
            with contextlib.closing(SqliteDatabase(file)) as database:
                yield from _read_database(database, file, options)


def _is_database(path: Path) -> bool:
    """Return whether a file is an SQLite database with the tables of MLflow, or one that is damaged."""
    if sniff(path, 16) != SQLITE_MAGIC:
        return False
    with contextlib.suppress(FileFormatError), contextlib.closing(SqliteDatabase(path)) as database:
        return all(database.columns(table) for table in TABLES)
    return True


# ---- databases


class Database(Protocol):
    """A database that is read with SQL."""

    root: Path | None
    """Folder below which artifacts may be, if the store was moved."""

    def select(self, sql: str, **values: Any) -> Iterator[Row]:
        """Yield rows by column. Raises FileFormatError."""

    def columns(self, table: str) -> set[str]:
        """Return the columns of a table; none if there is no such table."""


class SqliteDatabase:
    """An SQLite file, opened so that nothing in it can write or run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root: Path | None = path.resolve().parent
        self._columns: dict[str, set[str]] = {}
        try:
            self.connection = self._open("mode=ro")
        except sqlite3.Error:  # a folder where SQLite cannot write the files that a live database needs
            try:
                self.connection = self._open("mode=ro&immutable=1")
            except sqlite3.Error as error:
                raise self._error(error) from error

    def _open(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(f"{self.path.resolve().as_uri()}?{mode}", uri=True, timeout=10.0)
        try:
            connection.row_factory = sqlite3.Row
            for statement in ("query_only=ON", "trusted_schema=OFF", "cell_size_check=ON"):
                connection.execute(f"PRAGMA {statement}")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def select(self, sql: str, **values: Any) -> Iterator[Row]:
        """Yield rows by column."""
        try:
            for row in self.connection.execute(sql, values):
                yield dict(row)
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            raise self._error(error) from error

    def columns(self, table: str) -> set[str]:
        """Return the columns of a table; a view is no table."""
        if table not in self._columns:
            kinds = [
                row["type"] for row in self.select("SELECT type FROM sqlite_master WHERE name = :name", name=table)
            ]
            names = {row["name"] for row in self.select("SELECT name FROM pragma_table_info(:name)", name=table)}
            self._columns[table] = names if kinds == ["table"] else set()
        return self._columns[table]

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def _error(self, error: Exception) -> FileFormatError:
        return FileFormatError(f"the database cannot be read ({error})", ADVICE, file=str(self.path))


class SqlAlchemyDatabase:
    """Any other database, through SQLAlchemy."""

    def __init__(self, url: str) -> None:
        self.root: Path | None = None
        scheme, _, rest = url.partition(":")
        self.url = f"{scheme}://{rest.lstrip('/')}"  # a path joins the slashes of a URL
        self.label = redact_url(self.url)
        try:
            import sqlalchemy
        except ImportError as error:
            raise MissingDependency("SQLAlchemy", "sql") from error
        self._sqlalchemy = sqlalchemy
        try:
            self.engine = sqlalchemy.create_engine(self.url)
            self._inspector = sqlalchemy.inspect(self.engine)
        except Exception as error:  # drivers raise errors of their own
            raise self._error(error) from error

    def select(self, sql: str, **values: Any) -> Iterator[Row]:
        """Yield rows by column."""
        try:
            with self.engine.connect().execution_options(stream_results=True, yield_per=1000) as connection:
                for row in connection.execute(self._sqlalchemy.text(sql), values).mappings():
                    yield dict(row)
        except self._sqlalchemy.exc.SQLAlchemyError as error:
            raise self._error(error) from error

    def columns(self, table: str) -> set[str]:
        """Return the columns of a table."""
        try:
            names = self._inspector.get_table_names()
            return {column["name"] for column in self._inspector.get_columns(table)} if table in names else set()
        except self._sqlalchemy.exc.SQLAlchemyError as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> FileFormatError:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        return FileFormatError(f"the database cannot be read ({redact_url(text)})", ADVICE, file=self.label)


def _read_database(database: Database, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
    missing = [table for table in TABLES if not database.columns(table)]
    if missing:
        raise FileFormatError(f"it has no table {missing[0]}", ADVICE, file=redact_url(str(path)))
    experiments = {row["experiment_id"]: row for row in database.select("SELECT * FROM experiments")}
    versions = database.select("SELECT version_num FROM alembic_version") if database.columns("alembic_version") else ()
    version = "".join(f"schema {row['version_num']}" for row in versions)
    digest = sha256_of(path) if path.is_file() else ""
    total = next(database.select("SELECT count(*) AS n FROM metrics"))["n"]
    size = path.stat().st_size if path.is_file() else 0
    reader = _DatabaseReader(database, size / total if total else 0.0, options)
    done = 0
    for row in database.select("SELECT * FROM runs ORDER BY start_time, run_uuid"):
        if row.get("lifecycle_stage") == "deleted":
            yield SkippedPart(str(row.get("name") or row["run_uuid"]), "the run was deleted in MLflow")
            continue
        source = SourceInfo("mlflow", path, "mlflow", version, digest)
        experiment = experiments.get(row["experiment_id"], {})
        run = reader.read(row, str(experiment.get("name") or row["experiment_id"]), source)
        done += run.points.count
        yield to_source_run(run)
    options.advance(size - int(size / total * done) if total else size)


class _DatabaseReader:
    """Reads the runs of a database."""

    def __init__(self, database: Database, point_bytes: float, options: ImportOptions) -> None:
        self.database = database
        self.point_bytes = point_bytes
        self.options = options

    def read(self, row: Row, experiment: str, source: SourceInfo) -> ForeignRun:
        database, run_id = self.database, str(row["run_uuid"])
        run = new_run(run_id, experiment, source, row, self.options.model)
        apply_params(run, self._pairs("params", run_id))
        apply_tags(run, self._pairs("tags", run_id))
        self._metrics(run, run_id)
        if all(database.columns(table) for table in ("datasets", "inputs", "input_tags")):
            self._inputs(run, run_id)
        if database.columns("logged_models"):
            self._models(run, run_id)
        add_artifacts(run, _artifact_folder(str(row.get("artifact_uri") or ""), run_id, database.root))
        return run

    def _pairs(self, table: str, run_id: str) -> dict[str, str]:
        rows = self.database.select(f"SELECT * FROM {table} WHERE run_uuid = :run", run=run_id)
        return {str(row["key"]): "" if row["value"] is None else str(row["value"]) for row in rows}

    def _metrics(self, run: ForeignRun, run_id: str) -> None:
        sql = "SELECT * FROM metrics WHERE run_uuid = :run ORDER BY step, timestamp"
        count, infinite = 0, 0
        for row in self.database.select(sql, run=run_id):
            value = to_number(row["value"])
            value = float("nan") if row.get("is_nan") or value is None else value
            if abs(value) >= MAX_DOUBLE:
                infinite += value - value == 0.0
                value = float("inf") if value > 0 else float("-inf")
            count += 1
            run.points.add(str(row["key"]), mlflow.to_int(row.get("step"), 0), value, _seconds(row["timestamp"]))
            if count % 10_000 == 0:
                self.options.advance(int(10_000 * self.point_bytes))
        self.options.advance(int(count % 10_000 * self.point_bytes))
        run.losses.count(POINTS, count)
        if infinite:
            reason = "the database has the largest double, which MLflow writes for an infinity; it was read as infinite"
            run.losses.guess(POINTS, f"{infinite} infinite values", reason, 0)

    def _inputs(self, run: ForeignRun, run_id: str) -> None:
        sql = "SELECT * FROM inputs WHERE destination_type = 'RUN' AND destination_id = :run"
        for link in list(self.database.select(sql, run=run_id)):
            if link["source_type"] != "DATASET":
                continue
            tags = self.database.select("SELECT * FROM input_tags WHERE input_uuid = :id", id=link["input_uuid"])
            names = {str(tag["name"]): str(tag["value"]) for tag in tags}
            for row in self.database.select("SELECT * FROM datasets WHERE dataset_uuid = :id", id=link["source_id"]):
                fields = {key.removeprefix("dataset_"): value for key, value in row.items()}
                add_dataset(run, fields, names)

    def _models(self, run: ForeignRun, run_id: str) -> None:
        database = self.database
        for row in list(database.select("SELECT * FROM logged_models WHERE source_run_id = :run", run=run_id)):
            model_id = str(row["model_id"])
            values: dict[str, Any] = {}
            if database.columns("logged_model_params"):
                sql = "SELECT * FROM logged_model_params WHERE model_id = :id"
                items = database.select(sql, id=model_id)
                values = {str(item["param_key"]): parse_text(str(item["param_value"])).value for item in items}
            add_model(run, model_id, row, values)
            folder = _artifact_folder(str(row.get("artifact_location") or ""), model_id, database.root)
            add_artifacts(run, folder, model=model_id)
            if database.columns("logged_model_metrics"):
                sql = "SELECT count(*) AS n FROM logged_model_metrics WHERE model_id = :id"
                note_model_metrics(run, model_id, next(database.select(sql, id=model_id))["n"])
        sql = "SELECT * FROM inputs WHERE source_type = 'RUN_INPUT' AND source_id = :run"
        for link in database.select(sql, run=run_id):
            if link.get("destination_type") == "MODEL_INPUT":
                run.losses.count(MODELS)
                run.models.append(ForeignModel(str(link["destination_id"]), str(link["destination_id"]), is_input=True))


# ---- folders


def _experiment_folders(path: Path) -> Iterator[Path]:
    """Yield the folders of experiments in a folder mlruns, or in one that contains it."""
    for root in (path, path / "mlruns"):
        with contextlib.suppress(OSError):
            folders = sorted(root.iterdir())
            experiments = [folder for folder in folders if folder.name != TRASH and _is_experiment(folder)]
            if experiments:
                yield from experiments
                return
    if _is_experiment(path):
        yield path


def _is_experiment(folder: Path) -> bool:
    return b"experiment_id:" in (start := sniff(folder / "meta.yaml")) and b"run_id:" not in start


def _read_folder(path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
    for experiment in _experiment_folders(path):
        try:
            fields = _fields(experiment / "meta.yaml", path)
        except FileFormatError as error:
            yield SkippedPart(experiment.name, error.reason)
            continue
        name = str(fields.get("name") or experiment.name)
        for folder in sorted(folder for folder in experiment.iterdir() if (folder / "meta.yaml").is_file()):
            if folder.name in ("datasets", "models", "traces"):
                continue
            try:
                row = _fields(folder / "meta.yaml", path)
                if str(row.get("lifecycle_stage")) == "deleted":
                    yield SkippedPart(str(row.get("run_name") or folder.name), "the run was deleted in MLflow")
                    continue
                run = _FolderReader(path, experiment, folder, options).read(row, name)
            except FileFormatError as error:
                yield SkippedPart(f"{experiment.name}/{folder.name}", f"{Path(error.file).name}: {error.reason}")
                continue
            yield to_source_run(run)


def _fields(path: Path, root: Path) -> Row:
    fields = read_yaml(path, root)
    if not isinstance(fields, dict):
        raise FileFormatError("it has no fields", "Copy the file again.", file=str(path))
    return fields


class _FolderReader:
    """Reads one run of a folder."""

    def __init__(self, root: Path, experiment: Path, folder: Path, options: ImportOptions) -> None:
        self.root = root
        self.experiment = experiment
        self.folder = folder
        self.options = options

    def read(self, row: Row, experiment: str) -> ForeignRun:
        folder, root = self.folder, self.root
        own = [path for path in walk(folder) if folder / "artifacts" not in path.parents]
        source = SourceInfo("mlflow", root, "mlflow", "", digest_of(own, root))
        row = {
            **row,
            "status": STATUSES.get(str(row.get("status")), str(row.get("status"))),
            "name": row.get("run_name"),
        }
        run = new_run(str(row.get("run_id") or row.get("run_uuid") or folder.name), experiment, source, row)
        run.model = run.model or self.options.model
        apply_params(run, self._texts("params"))
        apply_tags(run, self._texts("tags"))
        for path in walk(folder / "metrics"):
            self._metric(run, path, path.relative_to(folder / "metrics").as_posix())
        self._inputs(run)
        self._models(run)
        add_artifacts(run, folder / "artifacts")
        self.options.advance(sum(path.stat().st_size for path in own))
        return run

    def _texts(self, name: str) -> dict[str, str]:
        folder = self.folder / name
        return {path.relative_to(folder).as_posix(): read_text(path, self.root) for path in walk(folder)}

    def _metric(self, run: ForeignRun, path: Path, name: str) -> None:
        """Add the points of a metric; a last line that is cut off is left out, any other damaged line too."""
        count = damaged = 0
        with path.open("rb") as file:
            for line in file:
                count += 1
                point = _parse_point(line)
                if point is None:
                    damaged += 1
                else:
                    run.points.add(name, point[2], point[1], point[0])
        run.losses.count(POINTS, count)
        if damaged:
            run.losses.leave_out(POINTS, name, "the line is damaged or cut off", damaged)

    def _inputs(self, run: ForeignRun) -> None:
        for path in sorted((self.folder / "inputs").glob("*/meta.yaml")):
            link = _fields(path, self.root)
            if link.get("source_type") not in (None, "DATASET"):
                continue
            dataset = self.experiment / "datasets" / Path(str(link.get("source_id"))).name / "meta.yaml"
            tags = link.get("tags")
            names = {str(key): str(value) for key, value in tags.items()} if isinstance(tags, dict) else {}
            if dataset.is_file():
                add_dataset(run, _fields(dataset, self.root), names)
            else:
                run.losses.count(DATASETS)
                run.losses.leave_out(DATASETS, str(link.get("source_id")), "its description is not in the store")

    def _models(self, run: ForeignRun) -> None:
        for path in sorted((self.experiment / "models").glob("*/meta.yaml")):
            fields = _fields(path, self.root)
            if str(fields.get("source_run_id")) != run.id:
                continue
            model_id, folder = str(fields.get("model_id") or path.parent.name), path.parent
            params = {file.relative_to(folder / "params").as_posix(): file for file in walk(folder / "params")}
            values = {name: parse_text(read_text(file, self.root)).value for name, file in params.items()}
            add_model(run, model_id, fields, values)
            add_artifacts(run, folder / "artifacts", model=model_id)
            lines = sum(len(file.read_bytes().splitlines()) for file in walk(folder / "metrics"))
            note_model_metrics(run, model_id, lines)


def _parse_point(line: bytes) -> tuple[float, float, int] | None:
    """Return time, value and step of a line `milliseconds value step`; None if it is damaged."""
    fields = line.split()
    if len(fields) < 2 or not line.endswith(b"\n"):
        return None
    try:
        step = int(fields[2]) if len(fields) > 2 else 0
        return int(fields[0]) / 1000, float(fields[1]), step if -(1 << 62) < step < 1 << 62 else 0
    except ValueError:
        return None


# ---- what both have


def new_run(run_id: str, experiment: str, source: SourceInfo, row: Mapping[str, Any], model: str = "") -> ForeignRun:
    """Return a run with what MLflow says about it; a run without an end has no status."""
    started, ended = _seconds(row.get("start_time")), _seconds(row.get("end_time"))
    run = ForeignRun(valid_run_id(run_id, "mlflow"), experiment, source, started if started == started else 0.0)
    run.run_name, run.study, run.model = str(row.get("name") or ""), experiment, model
    run.person = str(row.get("user_id") or "")
    run.zero_is_no_step = True
    status = str(row.get("status") or "")
    run.status = status if status in ENDED else ""
    run.ended = ended if ended == ended and run.status else None
    if status and status not in ENDED:
        run.losses.guess(OTHERS, "status", f"MLflow says {status}, and no end is recorded", 0)
    return run


def apply_params(run: ForeignRun, params: Mapping[str, str]) -> None:
    """Add the parameters of a run, which MLflow has as text."""
    run.losses.count(PARAMETERS, len(params))
    run.params |= {name: parse_text(text) for name, text in params.items()}


def apply_tags(run: ForeignRun, tags: Mapping[str, str]) -> None:
    """Add the tags of a run; those of MLflow itself say what the run is."""
    run.losses.count(TAGS, len(tags))
    meanings = {
        "mlflow.source.git.commit": "git_commit", "mlflow.source.git.repoURL": "git_repository",
    }  # fmt: skip
    for name, text in tags.items():
        if name == "mlflow.parentRunId":
            run.parent = valid_run_id(text, "mlflow")
        elif name == "mlflow.runName":
            run.run_name = run.run_name or text
        elif name == "mlflow.user":
            run.person = text
        elif name == "mlflow.note.content":
            run.remarks.append(text)
        elif name == "mlflow.source.name":
            run.implementation = text
        elif name == "mlflow.log-model.history":
            _add_history(run, text)
        elif name in meanings:
            run.process[meanings[name]] = text
        else:
            if name == "mlflow.autologging" and text in EPOCH_LOGGERS:
                run.step_kind, run.step_reason = "epoch", f"the autolog of {text} logs by epoch"
            run.tags[name] = text
            continue
        run.losses.preserve(TAGS)


def _add_history(run: ForeignRun, text: str) -> None:
    """Add the models of client 2.x, which a tag lists."""
    with contextlib.suppress(ValueError, RecursionError):
        for item in json.loads(text):
            if isinstance(item, dict):
                path = str(item.get("artifact_path") or MODEL_FOLDER)
                run.losses.count(MODELS)
                run.models.append(ForeignModel(str(item.get("model_uuid") or path), path, path))


def add_dataset(run: ForeignRun, fields: Mapping[str, Any], tags: dict[str, str]) -> None:
    """Add a dataset that a run used. MLflow's digest is not that of the content, and the source is not opened."""
    dataset = mlflow.describe_dataset(fields, tags)
    data = ForeignData(dataset.name, dataset.context, redact_url(dataset.path), dataset.source_type)
    data.values, data.ref = dataset.values, dataset.ref
    run.losses.count(DATASETS)
    run.datasets.append(data)


def add_model(run: ForeignRun, model_id: str, row: Mapping[str, Any], values: dict[str, Any]) -> None:
    """Add a logged model of client 3.x; one that is not complete was not produced."""
    run.losses.count(MODELS)
    status = str(row.get("status") or "")
    name = str(row.get("name") or model_id)
    if status in ("1", "LOGGED_MODEL_PENDING", "PENDING", "3", "LOGGED_MODEL_UPLOAD_FAILED", "FAILED"):
        run.losses.leave_out(MODELS, name, f"MLflow says that it is not complete ({status})")
        return
    run.models.append(ForeignModel(model_id, name, str(row.get("artifact_location") or ""), values))


def note_model_metrics(run: ForeignRun, model_id: str, count: int) -> None:
    """Account for values of metrics that are linked to a model: the run has the same values."""
    if count:
        run.losses.count(OTHERS, count)
        reason = "values of metrics that are linked to the model: a value belongs to a run here"
        run.losses.leave_out(OTHERS, model_id, reason, count)


def add_artifacts(run: ForeignRun, folder: Path | None, model: str = "") -> None:
    """Add the files below a folder of artifacts; those in a folder `model` are a model."""
    if folder is None or not folder.is_dir():
        return
    refs = {item.path: item.ref for item in run.models if item.path}
    is_described = {item.ref for item in run.models}
    for path in walk(folder):
        name = path.relative_to(folder).as_posix()
        head = name.partition("/")[0]
        ref = model if model in is_described else refs.get(head, "")
        if not ref and not model and ((head == MODEL_FOLDER and "/" in name) or is_model_file(name)):
            ref = refs[head] = f"model-{head}"
            if ref not in is_described:
                is_described.add(ref)
                run.losses.count(MODELS)
                run.losses.guess(MODELS, name, "a file that is a model by its folder or suffix", 0)
                run.models.append(ForeignModel(ref, run.model or run.name, head))
        run.losses.count(FILES)
        file = ForeignFile(f"models/{model}/{name}" if model else name, name, sha256_of(path), path.stat().st_size)
        file.media_type, file.model = media_type_of(name), ref
        run.files.append(file)


def _artifact_folder(uri: str, owner: str, root: Path | None) -> Path | None:
    """Return the folder of artifacts of a run or a model: where MLflow says, or below a store that was moved.

    A folder elsewhere is read only if its path names the owner, so that a database cannot point to any folder.
    """
    parts = urlsplit(uri) if "://" in uri else None
    if parts is not None and parts.scheme not in ("file", "mlflow-artifacts"):
        return None
    path = Path(unquote(parts.path) if parts is not None else uri)
    names = [name for name in path.parts if name not in ("/", "..", ".")]
    if owner not in names:
        return None
    for count in range(min(len(names), 8), 1, -1):
        if root is not None:
            candidate = root.joinpath(*names[-count:])
            if owner in names[-count:] and candidate.is_dir() and is_inside(candidate, root):
                return candidate
    is_absolute = path.is_absolute() and ".." not in path.parts
    return path if is_absolute and path.is_dir() and not path.is_symlink() else None


def _seconds(value: Any) -> float:
    """Return a time in seconds from one in milliseconds; NaN if it is none."""
    number = to_number(value)
    return number / 1000 if number is not None and 0 < number < 253402214400_000 else float("nan")
