"""Documents of yProv4ML: PROV-JSON with contexts as activities, and metrics as lists or in tables beside it.

Version 3 writes each metric to a table (epoch, value, time in milliseconds) as CSV, NetCDF or Zarr, and parameters as
attributes of the contexts; earlier versions wrote both into the document. The document is written when a run ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provml.errors import FileFormatError, MissingDependency
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.foreign_events import to_source_run
from provml.exchange.foreign_run import (
    ForeignData,
    ForeignFile,
    ForeignModel,
    ForeignRun,
    SourceInfo,
    is_model_file,
    run_id,
)
from provml.exchange.losses import DATASETS, FILES, MODELS, OTHERS, PARAMETERS, POINTS
from provml.exchange.metric_arrays import NETCDF, ZARR, is_array_file, read_metric
from provml.exchange.source_files import check_depth, digest_of, is_inside, read_json, sha256_of, sniff, walk
from provml.exchange.typed_text import TypedText, parse_text, to_number

Fields = dict[str, Any]
RESERVED = (
    "level", "provenance_path", "artifact_uri", "experiment_dir", "experiment_name", "run_id", "python_version",
    "global_rank", "local_rank", "node_rank", "user_namespace", "type", "label",
)  # fmt: skip
_CONTEXT = re.compile(r"(?:Context\.)?(\w+)$")
_HEADING = re.compile(r"epoch(.+?)value\1")
"""The heading of a table, which shows its separator."""
LISTS = ("metric_epoch_list", "metric_value_list", "metric_timestamp_list")


class YProvDocument:
    """Importer of documents of yProv4ML."""

    name = "yprov4ml"
    summary = "a PROV-JSON document of yProv4ML, or the folder of a run"

    def recognises(self, path: Path) -> bool:
        """Return whether a file is PROV-JSON of yProv4ML, or a folder has one."""
        return any(_is_document(file) for file in _files(path))

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield a run for each document."""
        for file in _files(path):
            if not _is_document(file):
                continue
            try:
                document = read_json(file)
                if not isinstance(document, dict) or not check_depth(document):
                    raise FileFormatError("it is no document of yProv4ML", f"Pass {self.summary}.", file=str(file))
            except FileFormatError as error:
                if path.is_file():
                    raise
                yield SkippedPart(file.name, error.reason)
                continue
            yield to_source_run(_Document(document, file, options).to_run())
            options.advance(file.stat().st_size)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [*sorted(path.glob("*.json")), *sorted(path.glob("*/*.json"))] if path.is_dir() else []


def _is_document(path: Path) -> bool:
    start = sniff(path, 1 << 20)
    has_names = any(word in start for word in (b"yprov4ml:", b"prov4ml:", b"yprov:", b"prov-ml:", b'"context:'))
    return start.lstrip().startswith(b"{") and b'"activity"' in start and has_names


def _bare(name: str) -> str:
    return name.rpartition(":")[2]


def _value(value: Any) -> TypedText:
    """Return the value of an attribute, typed or not; a text that holds a typed value is one."""
    if isinstance(value, dict) and "$" in value:
        text, kind = str(value["$"]), str(value.get("type") or "")
        return TypedText(text, text) if kind.endswith("string") else parse_text(text)._replace(is_guess=False)
    if isinstance(value, str) and value.startswith("{") and "'$'" in value:
        nested = parse_text(value).value
        if isinstance(nested, dict) and "$" in nested:
            return parse_text(str(nested["$"]))
    return parse_text(value) if isinstance(value, str) else TypedText(value)


class _Document:
    """A document as a run."""

    def __init__(self, document: Fields, path: Path, options: ImportOptions) -> None:
        self.document = document
        self.path = path
        self.options = options
        self.tables, self.table_files = _tables(path.parent)

    def to_run(self) -> ForeignRun:
        """Return the run."""
        activities = {str(key): _fields(value) for key, value in _fields(self.document.get("activity")).items()}
        root = next((item for item in activities.values() if any(_bare(n) == "experiment_name" for n in item)), {})
        fields = {_bare(name): value for name, value in root.items()}
        name = str(_value(fields.get("experiment_name", self.path.stem)).value)
        files = [self.path, *self.table_files]
        source = SourceInfo("yprov4ml", self.path, "yprov4ml", "", digest_of(files, self.path.parent))
        number = _value(fields.get("run_id", "")).value
        run = ForeignRun(run_id("yprov4ml", name, number, self.path.name, name=name), name, source, float("inf"))
        run.model, run.step_kind, run.step_reason = self.options.model, "epoch", "yProv4ML calls the step an epoch"
        if fields.get("python_version"):
            run.process["python_version"] = str(_value(fields["python_version"]).value)
        for agent in _fields(self.document.get("agent")):
            run.person = _bare(str(agent))
        self._add_parameters(run, activities)
        self._add_entities(run)
        if run.started == float("inf"):
            run.started, run.has_times = self.path.stat().st_mtime, False
        run.status, run.ended = "FINISHED", None if not run.has_times else run.last_time
        run.losses.guess(OTHERS, "status", "the document is written when a run ends without an exception", 0)
        return run

    def _add_parameters(self, run: ForeignRun, activities: dict[str, Fields]) -> None:
        for key, attributes in activities.items():
            context = _context(key)
            for name, value in attributes.items():
                bare = _bare(name)
                if bare in RESERVED or name.startswith("prov:"):
                    continue
                full = bare if context in ("", run.name.lower()) or bare not in run.params else f"{context}.{bare}"
                run.losses.count(PARAMETERS)
                if full in run.params:
                    run.losses.leave_out(PARAMETERS, full, "another context has a parameter of this name")
                else:
                    run.params[full] = _value(value)

    def _add_entities(self, run: ForeignRun) -> None:
        used = {_link(item, "entity") for item in _fields(self.document.get("used")).values()}
        for key, value in _fields(self.document.get("entity")).items():
            entity = {_bare(name): item for name, item in _fields(value).items()}
            if LISTS[0] in entity:
                self._add_lists(run, _bare(str(key)), entity)
            elif "parameter_value" in entity:
                run.losses.count(PARAMETERS)
                run.params[_bare(str(key))] = _value(entity["parameter_value"])
            else:
                self._add_file(run, str(key), entity, is_input=str(key) in used)

    def _add_lists(self, run: ForeignRun, name: str, entity: Fields) -> None:
        columns = [_value(entity.get(key, "[]")).value for key in LISTS]
        rows = list(zip(*columns, strict=False)) if all(isinstance(column, list) for column in columns) else []
        context = _context(str(_value(entity.get("context", "")).value))
        for epoch, value, stamp in rows:
            self._add_point(run, _metric(name, context), (epoch, value, stamp))
        if not rows:
            run.losses.count(POINTS)
            run.losses.leave_out(POINTS, name, "the lists of its values cannot be read")

    def _add_point(self, run: ForeignRun, name: str, row: tuple[Any, Any, Any]) -> None:
        epoch, value, stamp = (to_number(item) for item in row)
        run.losses.count(POINTS)
        if value is None or epoch is None or not epoch.is_integer():
            run.losses.leave_out(POINTS, name, "the line is damaged or cut off")
            return
        moment = stamp / 1000 if stamp is not None and stamp > 1e11 else stamp
        if moment is not None and moment > 0:
            run.started = min(run.started, moment)
        run.points.add(name, int(epoch), value, moment if moment is not None else float("nan"))

    def _add_file(self, run: ForeignRun, key: str, entity: Fields, *, is_input: bool) -> None:
        path = str(_value(entity.get("path", "")).value or "")
        table = self.tables.get(Path(path).name)
        if table is not None and "context" in entity:
            self._add_table(run, table, _bare(key), _context(str(_value(entity["context"]).value)))
            return
        name = str(_value(entity.get("label", _bare(key))).value)
        local = self.path.parent / Path(path).name if path else None
        for folder in ("artifacts_GR0", "artifacts", "."):
            candidate = self.path.parent / folder / Path(path).name
            if path and candidate.is_file() and is_inside(candidate, self.path.parent):
                local = candidate
        is_readable = local is not None and local.is_file() and is_inside(local, self.path.parent)
        content = (sha256_of(local), local.stat().st_size) if is_readable and local is not None else ("", -1)
        if is_input:
            run.losses.count(DATASETS)
            run.datasets.append(ForeignData(name, path=path, sha256=content[0], size=content[1], ref=f"yprov-{key}"))
            return
        run.losses.count(FILES)
        file = ForeignFile(path or name, path or name, *content)
        if is_model_file(path or name):
            file.model = f"model-{name}"
            run.losses.count(MODELS)
            run.models.append(ForeignModel(file.model, name, path))
        run.files.append(file)

    def _add_table(self, run: ForeignRun, table: Path, name: str, context: str) -> None:
        """Add a metric: a heading, then a line for each value; or arrays."""
        if is_array_file(table):
            self._add_arrays(run, table, name, context)
            return
        with table.open(encoding="utf-8", errors="replace") as file:
            heading = _HEADING.match(next(file, ""))
            separator = heading[1] if heading else ","
            for line in file:
                fields = [*line.strip().split(separator), "", ""]
                if line.strip():
                    self._add_point(run, _metric(name, context), (fields[0], fields[1], fields[2]))

    def _add_arrays(self, run: ForeignRun, table: Path, name: str, context: str) -> None:
        try:
            own_name, rows = read_metric(table)
            for row in rows:
                self._add_point(run, _metric(own_name or name, context), row)
        except (FileFormatError, MissingDependency) as error:
            run.losses.count(POINTS)
            run.losses.leave_out(POINTS, name, error.reason if isinstance(error, FileFormatError) else str(error))
        except Exception as error:  # a damaged chunk, after others were read
            run.losses.count(POINTS)
            run.losses.leave_out(POINTS, name, f"the rest of its values cannot be read ({type(error).__name__})")


def _tables(folder: Path) -> tuple[dict[str, Path], list[Path]]:
    """Return the files and folders of metrics by name, and all files in them."""
    tables: dict[str, Path] = {}
    files = []
    for file in walk(folder):
        inside = next((part for part in file.parents if part.suffix == ZARR and part != folder), None)
        table = file if file.suffix in (".csv", NETCDF) else inside
        if table is not None and is_inside(table, folder):
            tables[table.name] = table
            files.append(file)
    return tables, files


def _metric(name: str, context: str) -> str:
    """Return the name of a metric with its context in front: that of training, validation or a test."""
    return f"{context}/{name}" if context in ("training", "validation", "testing", "evaluation") else name


def _context(text: str) -> str:
    match = _CONTEXT.search(text)
    return match[1].lower() if match else ""


def _link(item: Any, name: str) -> str:
    return str(_fields(item).get(f"prov:{name}") or "")


def _fields(value: Any) -> Fields:
    return value if isinstance(value, dict) else {}
