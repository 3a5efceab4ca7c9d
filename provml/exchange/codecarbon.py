"""Files of CodeCarbon (`emissions.csv`): a row is a run with its energy and emissions.

The numbers come from a model of the machine, not from a meter, unless the tracking mode says so. Rows have no status.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from provml.errors import FileFormatError
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.foreign_events import to_source_run
from provml.exchange.foreign_run import ForeignRun, SourceInfo, valid_run_id
from provml.exchange.losses import OTHERS, PARAMETERS, POINTS
from provml.exchange.sacred import to_time
from provml.exchange.source_files import sha256_of, sniff
from provml.exchange.typed_text import TypedText, parse_text, to_number

REQUIRED = ("timestamp", "run_id", "duration", "emissions")
MEASURES = (
    "duration", "emissions", "emissions_rate", "cpu_power", "gpu_power", "ram_power", "cpu_energy", "gpu_energy",
    "ram_energy", "energy_consumed", "water_consumed", "cpu_utilization_percent", "gpu_utilization_percent",
    "ram_utilization_percent", "ram_used_gb",
)  # fmt: skip
"""Columns that were measured. Energy is in kWh, power in W, emissions in kg of CO2 equivalents, duration in s."""
MAX_LINE_CHARS = 1 << 20


class CodeCarbonTable:
    """Importer of CodeCarbon's tables."""

    name = "codecarbon"
    summary = "a file emissions.csv of CodeCarbon, or a folder with one"

    def recognises(self, path: Path) -> bool:
        """Return whether the first line of a file has the columns of CodeCarbon."""
        first = sniff(_file(path), 4096).partition(b"\n")[0].decode("utf-8", errors="replace").split(",")
        return all(column in first for column in REQUIRED)

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield a run for each row; of several rows of one run, the last counts."""
        file = _file(path)
        if sniff(file) and not self.recognises(path):
            raise FileFormatError("it has not the columns of CodeCarbon", f"Pass {self.summary}.", file=str(file))
        rows: dict[str, dict[str, str]] = {}
        repeated: dict[str, int] = {}
        try:
            with file.open(encoding="utf-8", errors="replace", newline="") as table:
                for number, row in enumerate(csv.DictReader(table), 2):
                    if None in row or row.get(list(row)[-1]) is None or not row.get("run_id"):
                        yield SkippedPart(f"line {number}", "the line is damaged or cut off")
                        continue
                    key = row["run_id"]
                    repeated[key] = repeated.get(key, -1) + 1
                    rows[key] = row
        except (OSError, csv.Error) as error:
            raise FileFormatError(f"it cannot be read ({error})", f"Pass {self.summary}.", file=str(file)) from error
        digest = sha256_of(file)
        for key, row in rows.items():
            source = SourceInfo("codecarbon", file, "codecarbon", row.get("codecarbon_version") or "", digest)
            yield to_source_run(_to_run(row, source, repeated[key], options))
        options.advance(file.stat().st_size)


def _file(path: Path) -> Path:
    return path / "emissions.csv" if path.is_dir() else path


def _to_run(row: dict[str, str], source: SourceInfo, repeated: int, options: ImportOptions) -> ForeignRun:
    """Return the run of a row. The time of a row is that of its end; it has no time zone."""
    ended, duration = to_time(row["timestamp"]), to_number(row["duration"])
    end = ended if ended is not None else source.path.stat().st_mtime
    name = row.get("project_name") or "codecarbon"
    run = ForeignRun(valid_run_id(row["run_id"], "codecarbon"), name, source, end - (duration or 0.0))
    run.run_name, run.model, run.ended, run.stage = name, options.model, end, "training"
    run.losses.guess(OTHERS, "times", "the table has the end without a time zone; it was read as UTC", 0)
    run.process["operating_system"], run.process["python_version"] = row.get("os", ""), row.get("python_version", "")
    cores = to_number(row.get("cpu_count"))
    if row.get("cpu_model"):
        run.machine["processor"] = row["cpu_model"]
    if cores:
        run.machine["core_count"] = int(cores)
    if row.get("gpu_model"):
        run.machine["accelerator"] = row["gpu_model"]
    for column, text in row.items():
        if not text or column in ("timestamp", "run_id"):
            continue
        value = to_number(text)
        if column in MEASURES and value is not None:
            run.losses.count(POINTS)
            run.finals[column] = value
        else:
            run.losses.count(PARAMETERS)
            typed = parse_text(text)
            run.params[f"codecarbon.{column}"] = TypedText(text) if column == "experiment_id" else typed
    mode = row.get("tracking_mode") or "unknown"
    run.losses.guess(POINTS, "energy and emissions", f"the tracking mode is {mode}: a model of the machine", 0)
    if repeated:
        run.losses.count(OTHERS, repeated)
        run.losses.leave_out(OTHERS, "earlier rows of the run", "the last row counts, which includes them", repeated)
    return run
