"""Database dumps of DfAnalyzer (MonetDB), which DNNProv, Keras-Prov and CNNProv write to, imported as runs.

The dumps do not say which run a row belongs to: all runs refer to the same tasks. Here a run begins with the row of its
training's hyperparameters; later rows belong to it, and so do the filters just before it. Where that row has no time,
or there is none, a run begins with its first epoch. The originals count epochs from 0, write -9999999 for a missing
number, and write an adaptation even if it changes nothing. Here epochs count from 1, a missing number is NaN, and such
adaptations are left out. What a dump does not contain (the technique of an adaptation, the file of the model) is not
invented.
"""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from provml.errors import FileFormatError, plural
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.losses import DATASETS, FILES, PARAMETERS, POINTS, LossReport
from provml.exchange.run_journals import write_run
from provml.journal import events
from provml.journal.location import Location
from provml.recording.kinds import hyperparameter_of

Cell = str | float | int | None
Row = dict[str, Cell]
Table = list[Row]
Schemas = dict[str, dict[str, Table]]
MISSING_NUMBER = -9999999
MISSING_TEXT = "null"
"""DfAnalyzer and Keras-Prov write this for a text that is missing."""
LAYERS, ADAPTATIONS = "layers", "adaptations"
MODEL_REF = "model"
DATA_REF = "training data"
"""A training used data and produced a model even if the dump says nothing about them."""
WRITER = "dnnprov"
OWN_SCHEMAS = ("public", "sys", "tmp")
"""Schemas of DfAnalyzer and of the database themselves; all others are dataflows."""
SNIFFED_BYTES = 1 << 20
"""Bytes of a file that are read to recognise it: a dump may begin with the functions of DfAnalyzer."""
PROGRESS_BYTES = 1 << 20
MAX_EPOCH_SECONDS = 1e9
MAX_EPOCHS = 1 << 31
ADVICE = "Pass a MonetDB dump of DfAnalyzer, made with `msqldump` or with \\D in `mclient`."
_CREATE = re.compile(r'CREATE TABLE "(?P<schema>[^"]+)"\."(?P<table>[^"]+)" \(')
_COLUMN = re.compile(r'\s*"(?P<name>[^"]+)"\s+(?P<type>[A-Z]+)')
_COPY = re.compile(
    r'COPY (?P<count>\d+) RECORDS INTO "(?P<schema>[^"]+)"\."(?P<table>[^"]+)" FROM stdin'
    r"(?: (?:USING )?DELIMITERS '(?P<delimiter>[^']+)')?"
)
_CELL = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
"""A cell of a row whose delimiter is a tab, which some copies of a dump replace by spaces."""
_ESCAPE = re.compile(r"((?:\\[0-3][0-7]{2})+)|\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_KEY_COLUMN = re.compile(r"id|timestamp|\w+_task_id")
_TIMESTAMP = re.compile(r"(a|i|il|o|ot|[io](train|test|layers|adaptation)_)?timestamp")
"""Keras-Prov has another name for the timestamp of each table."""
_DURATION = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)")
TABLE_NAMES = {
    "itrainmodel": "itrainingmodel",
    "itrain": "itrainingmodel",
    "otrainmodel": "otrainingmodel",
    "otrain": "otrainingmodel",
    "otestmodel": "otestingmodel",
    "otest": "otestingmodel",
}
"""Tables of DLProv with the names that DNNProv has for them."""
TABLES = (
    *("ifilters", "ofilters", "ilayers", "itrainingmodel", "otrainingmodel", "otrainedmodel", "iadaptation"),
    *("oadaptation", "otestingmodel"),
)
"""Tables that are imported."""
REQUIRED_COLUMNS = {
    "ifilters": ("dataset_name",),
    "ilayers": ("name", "attribute_type", "value"),
    "otrainingmodel": ("epoch",),
    "oadaptation": ("new_lrate", "epoch_id"),
}
"""Columns without which a table says nothing."""


# ---- dump


def read_tables(path: Path, on_progress: Callable[[int], None] | None = None) -> Schemas:
    """Return the rows of each table of each schema of a dump, with numbers as numbers."""
    reader = _DumpReader(path, on_progress)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                reader.read_line(number, line)
        reader.finish()
    except OSError as error:
        reason = f"it cannot be read ({str(error.strerror or error).lower()})"
        raise FileFormatError(reason, ADVICE, file=str(path)) from error
    except UnicodeDecodeError as error:
        raise FileFormatError("it is not UTF-8 text", ADVICE, file=str(path)) from error
    if not reader.schemas:
        raise FileFormatError("it contains no table rows", ADVICE, file=str(path))
    return reader.schemas


class _DumpReader:
    """Read a dump line by line: definitions of tables, and the rows that follow a COPY."""

    def __init__(self, path: Path, on_progress: Callable[[int], None] | None) -> None:
        self.path = path
        self.on_progress = on_progress
        self.schemas: Schemas = {}
        self.columns: dict[tuple[str, str], dict[str, str]] = {}
        self.definition: dict[str, str] | None = None  # the columns of the table that is being defined
        self.table: Table = []
        self.table_columns: dict[str, str] = {}
        self.delimiter = ""
        self.remaining = 0  # rows of the current COPY
        self.number = 0
        self.size = 0

    def read_line(self, number: int, data: bytes) -> None:
        """Read the next line."""
        self.number = number
        self._count(len(data))
        text = data.decode("utf-8").rstrip("\r\n")
        if self.remaining:
            self.remaining -= 1
            self._add_row(text)
        elif self.definition is not None:
            if text.startswith(");"):
                self.definition = None
            elif column := _COLUMN.match(text):
                self.definition[column["name"]] = column["type"]
        elif create := _CREATE.match(text):
            self.definition = self.columns[create["schema"], create["table"]] = {}
        elif copy := _COPY.match(text):
            self._begin_rows(copy)

    def finish(self) -> None:
        """Raise an error if rows are missing at the end."""
        self._count(0, is_end=True)
        if self.remaining:
            reason = f"the file ends {plural(self.remaining, 'row')} before the end of a table"
            raise FileFormatError(reason, "Create the dump again.", file=str(self.path), line=self.number)

    def _count(self, size: int, *, is_end: bool = False) -> None:
        self.size += size
        if self.on_progress is not None and (is_end or self.size >= PROGRESS_BYTES):
            self.on_progress(self.size)
            self.size = 0

    def _begin_rows(self, copy: re.Match[str]) -> None:
        key = (copy["schema"], copy["table"])
        self.delimiter = copy["delimiter"] or "\\t"
        self.remaining = int(copy["count"])
        name = _table_name(key[1])
        self.table_columns = {_column_name(name, column): kind for column, kind in self.columns.get(key, {}).items()}
        self.table = self.schemas.setdefault(key[0], {}).setdefault(name, [])

    def _add_row(self, text: str) -> None:
        try:
            row = _parse_row(_split_row(text, self.delimiter), self.table_columns)
        except ValueError as error:
            advice = "Create the dump again, or fix the row."
            raise FileFormatError(str(error), advice, file=str(self.path), line=self.number) from error
        self.table.append(row)


def _table_name(name: str) -> str:
    """Return the name of a set without the prefix of tables; DLProv's names become those of DNNProv."""
    name = name.removeprefix("ds_")
    return TABLE_NAMES.get(name, name)


def _split_row(text: str, delimiter: str) -> list[tuple[str, str]]:
    """Return the quoted or the bare text of each cell of a row."""
    if delimiter == "\\t":
        return _CELL.findall(text)
    end = re.escape(delimiter)
    cell = re.compile(rf' *(?:"((?:[^"\\]|\\.)*)" *|((?:(?!{end}).)*))')
    cells: list[tuple[str, str]] = []
    position = 0
    while match := cell.match(text, position):
        cells.append((match[1] or "", (match[2] or "").strip()))
        if not text.startswith(delimiter, match.end()):
            break
        position = match.end() + len(delimiter)
    if match is None or match.end() < len(text):
        raise ValueError(f"text follows the end of a value at column {match.end() + 1 if match else position + 1}")
    return cells


def _parse_row(cells: list[tuple[str, str]], columns: dict[str, str]) -> Row:
    if len(cells) != len(columns):
        raise ValueError(f"a row has {len(cells)} values for {len(columns)} columns")
    row: Row = {}
    for (name, sql_type), (quoted, bare) in zip(columns.items(), cells, strict=True):
        try:
            row[name] = _parse_cell(sql_type, quoted, bare)
        except ValueError as error:
            raise ValueError(f"{name} is not a number ({bare or quoted!r})") from error
    return row


def _column_name(table: str, name: str) -> str:
    """Return the name of a column; those of Keras-Prov become those of DNNProv."""
    name = name.lower()
    if _TIMESTAMP.fullmatch(name):
        return "timestamp"
    if table == "otrainingmodel" and name == "epoch_id":
        return "epoch"
    return name.removeprefix("otest_") if table == "otestingmodel" else name


def _parse_cell(sql_type: str, quoted: str, bare: str) -> Cell:
    """Return a value by the type of its column; an integer stays one even in a column of doubles."""
    if bare == "NULL" or quoted == MISSING_TEXT:
        return None
    if sql_type not in ("INTEGER", "DOUBLE", "BIGINT", "REAL", "DECIMAL"):
        return _ESCAPE.sub(_unescape, quoted) or bare
    number = float(bare)
    if number == MISSING_NUMBER:
        return math.nan
    return int(bare) if re.fullmatch(r"-?\d{1,18}", bare) else number


def _unescape(match: re.Match[str]) -> str:
    """Return the text of an escape: bytes of UTF-8 in octal, or one character."""
    octal, character = match.groups()
    if octal is not None:
        return bytes(int(number, 8) for number in octal.split("\\")[1:]).decode("utf-8", errors="replace")
    return _ESCAPES.get(character, character)


# ---- runs


@dataclass
class TrainingRows:
    """The rows of one run; `started` is the time of its training in seconds since 1970."""

    started: float
    settings: Row = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lost_points: int = 0
    """Measures of epochs without a number, which are not imported."""

    def rows(self, name: str) -> Table:
        """Return the rows of a table, in the order of their times."""
        return self.tables.get(name, [])

    def check_epochs(self) -> str:
        """Note the numbers of epochs that cannot be, and return why the run cannot be imported, if so."""
        epochs = [row for row in self.rows("otrainingmodel") if 0 <= _to_float(row["epoch"]) < MAX_EPOCHS]
        missing = len(self.rows("otrainingmodel")) - len(epochs)
        if missing:
            self.notes.append(f"{plural(missing, 'row')} of epochs without a number left out.")
            lost = [row for row in self.rows("otrainingmodel") if row not in epochs]
            self.lost_points = sum(len(_measures(row)) for row in lost)
            self.tables["otrainingmodel"] = epochs
        planned = _to_float(self.settings.get("num_epochs"))
        last = math.nan
        for row in epochs:
            number = _to_float(row["epoch"])
            if number >= planned > last + 1:  # the number is damaged: a training has no more epochs than planned
                note = f"the dump has an epoch {number:g} after {last:g}, of {planned:g} from 0 on;"
                self.notes.append(f"{note} the number cannot be right and was imported as it is.")
            else:
                last = number
        numbers = [_to_float(row["epoch"]) for row in epochs]
        if len(set(numbers)) == len(numbers):
            return ""
        started = datetime.fromtimestamp(self.started, UTC)
        return f"the training of {started:%Y-%m-%d %H:%M:%S} has an epoch twice, so two ran at the same time"


def add_missing_times(schema: dict[str, Table]) -> str:
    """Set the times of rows without a timestamp: a training begins with its first epoch.

    The k-th row of hyperparameters belongs to the k-th training, which begins where the epochs start again. Return why
    rows cannot be assigned to a training, if so.
    """
    untimed = [name for name, table in schema.items() if any(row.get("timestamp") is None for row in table)]
    trainings = _trainings(schema.get("otrainingmodel", [])) if "otrainingmodel" not in untimed else []
    settings = schema.setdefault("itrainingmodel", [])
    if not settings:  # Keras-Prov has no such table if it was asked for no hyperparameters
        settings += [{"timestamp": None} for _ in trainings]
        untimed.append("itrainingmodel")
    if not settings or not untimed:
        return ""
    is_ambiguous = len(settings) > 1 and untimed != ["itrainingmodel"]
    if is_ambiguous or len(trainings) != len(settings):
        tables = ", ".join(f"ds_{name}" for name in untimed)
        return f"rows of {tables} have no timestamp, so they cannot be assigned to a training"
    starts = [_time(epochs[0]) - _elapsed(epochs[0]) for epochs in trainings]
    for row, started in zip(settings, starts, strict=True):
        row["timestamp"] = row.get("timestamp") or started
    for name in untimed:
        for row in schema[name]:
            row["timestamp"] = row.get("timestamp") or (
                _time(trainings[0][-1]) if name == "otestingmodel" else starts[0]
            )
    return ""


def _trainings(epochs: Table) -> list[Table]:
    """Return the epochs of each training: another one begins where the number of the epoch does not increase.

    A number that is too large for its place, such as 19912 between 198 and 200, is damaged and begins none. One that
    follows directly on the number before is right, also if the next training begins with it again.
    """
    trainings: list[Table] = []
    last = math.inf
    rows = sorted(epochs, key=_time)
    numbers = [_to_float(row.get("epoch")) for row in rows]
    for row, number, following in zip(rows, numbers, [*numbers[1:], math.nan], strict=False):
        if number <= last:
            trainings.append([])
        trainings[-1].append(row)
        if number <= last + 1 or not last < following <= number:
            last = number
    return trainings


def split_runs(schema: dict[str, Table]) -> list[TrainingRows]:
    """Return the runs of a dataflow; rows are assigned to runs by their times."""
    runs = [TrainingRows(_time(row), row) for row in sorted(schema.get("itrainingmodel", []), key=_time)]
    if not runs:
        return []
    start_times = [run.started for run in runs]
    for name, table in schema.items():
        if name == "itrainingmodel" or name not in TABLES:
            continue
        for row in sorted(table, key=_time):
            position = bisect_right(start_times, _time(row))
            # a filter comes before the training that it is for, all other rows after the start of their training
            is_filter = name in ("ifilters", "ofilters")
            index = min(position, len(runs) - 1) if is_filter else max(position - 1, 0)
            runs[index].tables.setdefault(name, []).append(row)
    return runs


# ---- importer


class DfAnalyzerDump:
    """Importer of dumps. A dump has a schema for each dataflow, and a dataflow one or more trainings."""

    name = "dfanalyzer"
    summary = "a database dump of DfAnalyzer, DNNProv or Keras-Prov"

    def recognises(self, path: Path) -> bool:
        """Return whether a file begins like a dump with tables of DfAnalyzer."""
        try:
            with path.open("rb") as file:
                start = file.read(SNIFFED_BYTES)
        except OSError:
            return False
        text = start.decode("utf-8", errors="replace")
        return _COPY.search(text) is not None or any(
            match["table"].startswith("ds_") or match["table"] == "dataflow" for match in _CREATE.finditer(text)
        )

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the runs of a dump, and the dataflows, tables and trainings that are not imported."""
        for dataflow, schema in read_tables(path, options.on_progress).items():
            if dataflow not in OWN_SCHEMAS:
                yield from _read_dataflow(path, dataflow, schema, options.model)


def _read_dataflow(
    path: Path, dataflow: str, schema: dict[str, Table], model: str
) -> Iterator[SourceRun | SkippedPart]:
    for name, columns in REQUIRED_COLUMNS.items():
        missing = [column for column in columns if column not in (schema.get(name) or [dict.fromkeys(columns)])[0]]
        if missing:
            count = plural(len(schema.pop(name)), "row")
            yield SkippedPart(f"{dataflow}.ds_{name}", f"{count} without a column {missing[0]}", is_run=False)
    for name in [name for name, table in schema.items() if name not in TABLES]:
        count = plural(len(schema.pop(name)), "row")
        yield SkippedPart(f"{dataflow}.ds_{name}", f"{count} of a table that is no part of a training", is_run=False)
    notes = _parse_times(path, schema)
    problem = add_missing_times(schema)
    runs = [] if problem else split_runs(schema)
    if not runs:
        yield SkippedPart(dataflow, problem or "the dataflow has no training")
    for rows in runs:
        problem = rows.check_epochs()
        if problem:
            yield SkippedPart(dataflow, problem)
            continue
        stamp = f"{datetime.fromtimestamp(rows.started, UTC):%Y%m%d-%H%M%S}"
        run = f"{stamp}-{hashlib.sha256(f'{dataflow} {rows.started!r}'.encode()).hexdigest()[:6]}"
        account = _Account(rows)
        run_events = account.counted(RunEvents(rows, model or dataflow).all_events(run, dataflow))
        yield SourceRun(run, run_events, notes + rows.notes, account.losses)


def _parse_times(path: Path, schema: dict[str, Table]) -> list[str]:
    """Convert the times of all rows to seconds since 1970; return a note if they have no time zone."""
    notes: dict[str, None] = {}
    for name, row in ((name, row) for name, table in schema.items() for row in table):
        value = row.get("timestamp")
        if value is not None:
            value = str(value)
            try:
                row["timestamp"], has_zone = _parse_time(value)
            except ValueError as error:
                reason = f"ds_{name} has the timestamp {value[:40]!r}, which is no time"
                raise FileFormatError(reason, "Correct the dump.", file=str(path)) from error
            if not has_zone:
                notes["the dump has times without a time zone, which were read as UTC."] = None
    return list(notes)


def _parse_time(text: str) -> tuple[float, bool]:
    """Return a time in seconds since 1970, and whether its zone is known."""
    try:
        seconds, has_zone = float(text), True
    except ValueError:
        moment = datetime.fromisoformat(text)
        has_zone = moment.tzinfo is not None
        seconds = (moment if has_zone else moment.replace(tzinfo=UTC)).timestamp()
    if not events.MIN_TIME <= seconds <= events.MAX_TIME:
        raise ValueError(text)
    return seconds, has_zone


def read_journals(path: Path, *, model: str = "") -> dict[str, list[events.AnyEvent]]:
    """Return the events of each run of a dump, by run id. Raises FileFormatError if a training cannot be imported."""
    journals: dict[str, list[events.AnyEvent]] = {}
    for part in DfAnalyzerDump().read(path, ImportOptions(model)):
        if isinstance(part, SourceRun):
            journals[part.id] = list(part.events)
        elif part.is_run:
            advice = "Import the dump with `provml import`, which skips it, or correct the dump."
            raise FileFormatError(part.reason, advice, file=str(path))
    return journals


def import_dump(path: str | Path, home: str | Path, *, model: str = "") -> list[str]:
    """Write each run of a dump as a journal of a home and return the run ids; nothing if one cannot be imported."""
    journals = read_journals(Path(path), model=model)
    for run, journal in journals.items():
        write_run(Path(home), SourceRun(run, journal))
    return list(journals)


# ---- events


class RunEvents:
    """Converts the rows of one run to events; `now` is the time of the last row so far."""

    def __init__(self, rows: TrainingRows, model: str) -> None:
        self.rows = rows
        self.model = model
        self.now = rows.started

    def all_events(self, run: str, dataflow: str) -> Iterator[events.AnyEvent]:
        """Yield all events of the run."""
        inputs, filters = self.rows.rows("ifilters"), self.rows.rows("ofilters")
        started = min([self.rows.started, *map(_time, [*inputs, *filters])])
        yield events.Header(events.VERSION, run, WRITER, dataflow, started, self.model)
        data = ""
        for row in inputs:
            data = str(row["dataset_name"])
            yield events.Data(data, "dataset", data)
        if filters:
            filtered = f"{data or 'dataset'}-filtered"
            yield from self._filters(data, filtered)
            data = filtered
        if not data:
            data = DATA_REF
            yield events.Data(data, "dataset", data)
        yield from self._training(data)
        yield from self._evaluation()
        yield from self._end()

    def _filters(self, source: str, output: str) -> Iterator[events.AnyEvent]:
        """Yield the filters of the data; each is a step, and the last one produces the training data."""
        input_times = [_time(row) for row in self.rows.rows("ifilters")]
        for number, row in enumerate(self.rows.rows("ofilters"), 1):
            location = "filters" if number == 1 else f"filters-{number}"
            end, start = _time(row), min([_time(row), *input_times])
            using = [source] if source else []
            yield events.Begin(location, "filter", start, "filters", using=using, values=_settings(row))
            yield events.Data(output, "dataset", output)
            yield events.Produced(location, output)
            yield events.Done(location, end, end - start)
            source = output

    def _training(self, data: str) -> Iterator[events.AnyEvent]:
        rows, location = self.rows, "training"
        values = {hyperparameter_of(name): value for name, value in _settings(rows.settings).items()}
        yield events.Begin(location, "training", rows.started, "training", using=[data], values=values)
        yield events.Used(location, data, "training")
        layers = [_layer(row) for row in rows.rows("ilayers")]
        if layers:
            yield events.Layers(location, layers)
        epochs = rows.rows("otrainingmodel")
        is_validated = any(name.startswith("val_") for row in epochs for name in row)
        if is_validated:
            yield events.Begin("validation", "validation", rows.started, "validation")
        adaptations = list(self._adaptations())
        for row in epochs:
            number = int(_to_float(row["epoch"])) + 1
            while adaptations and (Location.parse(adaptations[0].location).epoch or 0) <= number:
                yield adaptations.pop(0)  # the rate is changed at the start of the epoch and is in force in it
            yield from self._epoch(row, number)
        yield from adaptations
        if epochs:
            if is_validated:
                yield events.Done("validation", self.now, self.now - rows.started)
            files = [str(row["model_dir"]) for row in rows.rows("otrainedmodel") if row.get("model_dir")]
            yield events.Data(MODEL_REF, "model", self.model, path=files[-1] if files else "")
            yield events.Produced(location, MODEL_REF)
            yield events.Done(location, self.now, self.now - rows.started)

    def _epoch(self, row: Row, number: int) -> Iterator[events.AnyEvent]:
        """Yield an epoch; measures with the prefix `val_` are those of the paired validation epoch."""
        end, seconds = _time(row), _elapsed(row)
        location = f"training/{number}"
        yield events.Begin(location, "epoch", end - seconds, index=number)
        measures = _measures(row)
        training = {name: value for name, value in measures.items() if not name.startswith("val_")}
        if training:
            yield events.Measured(location, training)
        validation = {name.removeprefix("val_"): value for name, value in measures.items() if name.startswith("val_")}
        if validation:
            validation_location = f"validation/{number}"
            yield events.Begin(validation_location, "epoch", end, index=number, parent=location)
            yield events.Measured(validation_location, validation)
            yield events.Done(validation_location, end, 0.0)
        yield events.Done(location, end, seconds)
        self.now = end

    def _adaptations(self) -> Iterator[events.Adapted]:
        """Yield the adaptations that changed the learning rate, by the epoch in which they came into force."""
        rate = _to_float(self.rows.settings.get("learning_rate"))
        inputs = self.rows.rows("iadaptation")
        parameters = _settings(inputs[-1]) if inputs else {}
        rows = sorted(self.rows.rows("oadaptation"), key=lambda row: (_to_float(row["epoch_id"]), _time(row)))
        for row in rows:
            new_rate = _to_float(row["new_lrate"])
            has_epoch = 0 <= _to_float(row["epoch_id"]) < MAX_EPOCHS
            if not has_epoch or not math.isfinite(new_rate) or math.isclose(new_rate, rate, rel_tol=1e-6):
                continue
            rate = new_rate
            location = f"training/{int(_to_float(row['epoch_id'])) + 1}"
            yield events.Adapted(location, _time(row), {"learning_rate": new_rate}, parameters=parameters)

    def _evaluation(self) -> Iterator[events.AnyEvent]:
        for row in self.rows.rows("otestingmodel"):
            yield events.Begin("evaluation", "evaluation", self.now, "evaluation")
            if self.rows.rows("otrainingmodel"):
                yield events.Used("evaluation", MODEL_REF, "model")
            measures = {name: _encode_number(value) for name, value in row.items() if not _KEY_COLUMN.fullmatch(name)}
            yield events.Measured("evaluation", measures)
            yield events.Done("evaluation", _time(row), _time(row) - self.now)
            self.now = _time(row)

    def _end(self) -> Iterator[events.AnyEvent]:
        """Yield the end of the run; a run with neither a test nor all of its epochs has no end, and is LOST."""
        epoch_count = _to_float(self.rows.settings.get("num_epochs"))
        if self.rows.rows("otestingmodel") or len(self.rows.rows("otrainingmodel")) >= epoch_count:
            yield events.End(self.now)


class _Account:
    """The account of a run: what its rows hold, and how much of it the events have."""

    def __init__(self, rows: TrainingRows) -> None:
        self.losses = LossReport()
        count = self.losses.count
        filters, adaptations = rows.rows("ofilters"), rows.rows("iadaptation")
        count(PARAMETERS, sum(len(_settings(row)) for row in (rows.settings, *filters, *adaptations)))
        count(POINTS, rows.lost_points + sum(len(_measures(row)) for row in rows.rows("otrainingmodel")))
        tests = rows.rows("otestingmodel")
        count(POINTS, sum(not _KEY_COLUMN.fullmatch(name) for row in tests for name in row))
        count(LAYERS, len(rows.rows("ilayers")))
        count(ADAPTATIONS, len(rows.rows("oadaptation")))
        self.datasets = {str(row["dataset_name"]) for row in rows.rows("ifilters")}
        count(DATASETS, len(self.datasets))
        count(FILES, sum(bool(row.get("model_dir")) for row in rows.rows("otrainedmodel")))
        self.has_settings = bool(adaptations)

    def counted(self, run_events: Iterator[events.AnyEvent]) -> Iterator[events.AnyEvent]:
        """Yield the events, and complete the account at their end."""
        preserve, described = self.losses.preserve, set[str]()
        for event in run_events:
            if isinstance(event, events.Measured):
                preserve(POINTS, len(event.values))
            elif isinstance(event, events.Begin):
                preserve(PARAMETERS, len(event.values))
            elif isinstance(event, events.Layers):
                preserve(LAYERS, len(event.layers))
            elif isinstance(event, events.Adapted):
                preserve(ADAPTATIONS)
                preserve(PARAMETERS, len(event.parameters) if self.has_settings else 0)
                self.has_settings = False  # all adaptations have the same parameters
            elif isinstance(event, events.Data):
                preserve(DATASETS, event.name in self.datasets - described)
                preserve(FILES, bool(event.kind == "model" and event.path))
                described.add(event.name)
            yield event
        self._close()

    def _close(self) -> None:
        reasons = {
            PARAMETERS: "a setting that another of the same name, or a later row, replaces",
            POINTS: "rows of epochs without a number",
            ADAPTATIONS: "the learning rate did not change, or the epoch is not readable",
            FILES: "the last file of the model counts",
        }
        for kind, tally in self.losses.tallies.items():
            missing = tally.source - tally.exact
            if missing > 0:
                self.losses.leave_out(kind, kind, reasons.get(kind, "it is not a part of the training"), missing)
        self.losses.lack("digests of the data and the model", "the dump has names and paths only")
        self.losses.lack("software and machine", "the dump does not name them")


def _measures(row: Row) -> events.Values:
    """Return the measures in a row of an epoch."""
    return {
        name: _encode_number(value)
        for name, value in row.items()
        if not _KEY_COLUMN.fullmatch(name) and name not in ("epoch", "elapsed_time") and value is not None
    }


def _layer(row: Row) -> dict[str, object]:
    """Return a layer; the dump has its name and one setting, by kind and value."""
    kind, value = str(row["attribute_type"]), str(row["value"])
    try:
        setting: object = float(value)
    except ValueError:
        setting = value
    return {"name": str(row["name"]), "type": kind, kind: setting}


def _settings(row: Row) -> events.Values:
    """Return the parameters in a row: all columns but keys and times."""
    return {
        name: value if isinstance(value, (int, str)) else _encode_number(value)
        for name, value in row.items()
        if not _KEY_COLUMN.fullmatch(name) and value is not None
    }


def _time(row: Row) -> float:
    """Return the time of a row in seconds since 1970."""
    return float(row.get("timestamp") or 0.0)


def _elapsed(row: Row) -> float:
    """Return the duration of an epoch in seconds; 0 if the dump does not have it."""
    text = str(row.get("elapsed_time"))
    if match := _DURATION.fullmatch(text.strip()):
        days, hours, minutes, seconds = match.groups(default="0")
        return ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + float(seconds)
    try:
        seconds_elapsed = float(text)
    except ValueError:
        return 0.0
    return seconds_elapsed if 0 <= seconds_elapsed < MAX_EPOCH_SECONDS else 0.0


def _to_float(value: Cell) -> float:
    return math.nan if value is None else float(value)


def _encode_number(value: Cell) -> events.Value:
    """Return a number as it is written in a journal."""
    number = _to_float(value)
    return ["double", "NaN"] if math.isnan(number) else number
