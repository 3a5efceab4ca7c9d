"""Tables of runs: CSV files, Parquet files, or an Excel workbook, one table for each kind of content."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from provml.answers.formats import escape_formula
from provml.drawing.text import INVALID_XML
from provml.exchange.mapping_table import MappingTable, Row
from provml.exchange.run_summary import RunSummary, is_number, json_number
from provml.store.exporting import Exported, Source

MAX_CELL_CHARS = 32_767
"""Characters that a cell of Excel holds."""
COLUMNS = {
    "runs": ("run", "name", "model", "status", "started", "seconds", "experiment", "parent", "tags"),
    "hyperparameters": ("run", "stage", "name", "value", "number"),
    "measures": ("run", "stage", "kind", "section", "name", "value", "number", "time"),
    "adaptations": ("run", "during", "name", "from", "to", "technique", "reason", "by"),
    "datasets": ("run", "name", "role", "made_by", "used_by", "bytes", "sha256", "path"),
    "models": ("run", "name", "made_by", "layers", "parameters", "bytes", "sha256", "path"),
    "environment": ("run", "name", "value"),
}
"""The tables with their columns. `value` is text, `number` the same as a double if it is a number."""
NUMBERS = ("seconds", "number")
INTEGERS = ("section", "bytes", "layers", "parameters")
TIMES = ("started", "time")
TABLE = MappingTable(
    "Tables",
    """A folder of CSV or Parquet files, or an Excel workbook, with the tables `runs`, `hyperparameters`, `measures`,
`adaptations`, `datasets`, `models` and `environment`. With `--all` they hold all runs of a home.

A spreadsheet takes a text in a CSV file that begins with `=`, `+`, `-`, `@`, a tab or a carriage return for a
formula. `escape_formulas=yes` puts an apostrophe before such texts; numbers stay as they are. In a workbook
every text is a text.""",
    (
        Row("runs", "`runs`: id, name, model, status, start, duration in seconds, tags", "notes"),
        Row("hyperparameters", "`hyperparameters`: `value` as text, `number` as a double"),
        Row("measures of stages and epochs", "`measures`: with the number of the epoch and its end"),
        Row("measures of batches", "", "left out: use `provml query`"),
        Row("NaN and infinite values", "as such in Parquet; `NaN`, `INF`, `-INF` in CSV and Excel"),
        Row("adaptations, data, models, environment", "the tables of that name"),
        Row("long texts", "CSV, Parquet", "a cell of Excel holds 32,767 characters: the rest is cut"),
        Row("layers, lineage, plans", "", "left out"),
    ),
    ("csv", "parquet", "xlsx"),
    "provml export latest --as csv -o tables --option escape_formulas=yes\nprovml export --all -o runs.xlsx",
)


def write(source: Source, target: Path | IO[bytes]) -> Exported:
    """Write the tables of runs into a folder, or a workbook into a file."""
    tables = {name: list(rows) for name, rows in _tables(source)}
    losses = ["values of batches, layers and lineage: they are not in these tables"]
    if source.format.name == "xlsx":
        losses += _write_workbook(tables, target)  # type: ignore[arg-type]
    elif isinstance(target, Path):
        for name, rows in tables.items():
            if source.format.name == "csv":
                (target / f"{name}.csv").write_bytes(_csv(source, name, rows))
            else:
                _write_parquet(target / f"{name}.parquet", name, rows)
    return Exported(sum(map(len, tables.values())), source.format.unit, losses=tuple(losses))


def _tables(source: Source) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}
    for info in source.runs:
        summary = RunSummary(source, info)
        tables["runs"].append(
            (info.id, info.name, info.model, info.status, info.started, info.seconds, info.experiment, info.parent,
             ", ".join(info.tags))
        )  # fmt: skip
        tables["hyperparameters"] += [
            (info.id, stage, name, text(value), number(value))
            for stage, name, value in summary.tables.hyperparameters()
        ]
        tables["measures"] += [
            (info.id, point.stage, point.kind, point.section, point.name, text(point.value), number(point.value),
             point.time)
            for point in summary.points
        ]  # fmt: skip
        tables["adaptations"] += [(info.id, *map(text, row)) for row in summary.tables.adaptations()]
        for data in summary.datasets:
            places = ", ".join(data.made_by), ", ".join(data.used_by)
            row = (data.name, ", ".join(data.roles), *places, data.size, data.sha256, data.path)
            tables["datasets"].append((info.id, *row))
        for data in summary.models:
            makers = ", ".join(data.made_by)
            facts = (data.layers, data.parameters, data.size, data.sha256, data.path)
            tables["models"].append((info.id, data.name, makers, *facts))
        tables["environment"] += [(info.id, name, text(value)) for name, value in summary.environment.items()]
    yield from tables.items()


def text(value: Any) -> str | None:
    """Return a value as text; None for nothing."""
    return None if value is None else str(json_number(value))


def number(value: Any) -> float | None:
    """Return a value as a double if it is a number that a double can hold."""
    try:
        return float(value) if is_number(value) else None
    except OverflowError:
        return None


# ---- CSV


def _csv(source: Source, name: str, rows: list[tuple[Any, ...]]) -> bytes:
    escape = source.flag("escape_formulas")
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(COLUMNS[name])
    for row in rows:
        writer.writerow([_csv_cell(cell, escape=escape) for cell in row])
    return (b"\xef\xbb\xbf" if source.flag("bom") else b"") + buffer.getvalue().encode("utf-8", "backslashreplace")


def _csv_cell(value: Any, *, escape: bool) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and escape and not _is_numeric(value):
        return escape_formula(value)
    return json_number(value)


def _is_numeric(value: str) -> bool:
    try:
        return math.isfinite(float(value)) or value == "-INF"
    except ValueError:
        return False


# ---- Parquet


def _write_parquet(path: Path, name: str, rows: list[tuple[Any, ...]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = dict.fromkeys(NUMBERS, pa.float64()) | dict.fromkeys(INTEGERS, pa.int64())
    kinds |= dict.fromkeys(TIMES, pa.timestamp("us", tz="UTC"))
    columns = COLUMNS[name]
    fields = [(column, kinds.get(column, pa.string())) for column in columns]
    arrays = [
        pa.array([_parquet_value(row[index], kind, pa) for row in rows], type=kind)
        for index, (_, kind) in enumerate(fields)
    ]
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), path)


def _parquet_value(value: Any, kind: Any, pa: Any) -> Any:
    if isinstance(value, str) and pa.types.is_string(kind):
        return value.encode("utf-8", "backslashreplace").decode()
    return value


# ---- Excel


def _write_workbook(tables: dict[str, list[tuple[Any, ...]]], file: IO[bytes]) -> list[str]:
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    workbook = Workbook(write_only=True)
    cut = 0
    for name, rows in tables.items():
        sheet = workbook.create_sheet(name)
        sheet.append(list(COLUMNS[name]))
        for row in rows:
            cells = []
            for value in row:
                plain = _excel_value(value)
                cut += isinstance(plain, str) and len(plain) > MAX_CELL_CHARS
                cell = WriteOnlyCell(sheet, plain[:MAX_CELL_CHARS] if isinstance(plain, str) else plain)
                if isinstance(plain, str):
                    cell.data_type = "s"  # a text is never a formula
                cells.append(cell)
            sheet.append(cells)
    buffer = io.BytesIO()
    workbook.save(buffer)
    file.write(buffer.getvalue())
    return [f"{cut:,} texts: cut to {MAX_CELL_CHARS:,} characters, the limit of Excel"] if cut else []


def _excel_value(value: Any) -> Any:
    """Return a value that a workbook can hold: no zone, only characters of XML, no numbers beyond a double."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, str):
        return INVALID_XML.sub("", value.replace("\r", ""))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 1 << 53:
        return str(value)
    return json_number(value)
