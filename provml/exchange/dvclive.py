"""Folders of DVCLive: params.yaml, metrics.json and plots/metrics/**.tsv.

They have neither times nor a status: a failed run looks like a short one.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provml.errors import FileFormatError
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.foreign_events import read_run_folders
from provml.exchange.foreign_run import ForeignFile, ForeignRun, SourceInfo, run_id
from provml.exchange.losses import FILES, OTHERS, PARAMETERS, POINTS
from provml.exchange.source_files import digest_of, is_inside, read_json, read_yaml, sha256_of, sniff, walk
from provml.exchange.typed_text import TypedText, flatten, to_number
from provml.recording.artifacts import media_type_of

PARAMS, METRICS, TABLES = "params.yaml", "metrics.json", ("plots/metrics", "plots/scalars", "scalars")
"""Tables of metrics have been in several folders."""
TIME_COLUMNS = ("timestamp", "time")


class DvcLiveFolder:
    """Importer of folders of DVCLive."""

    name = "dvclive"
    summary = "a folder of DVCLive, or one with several of them"

    def recognises(self, path: Path) -> bool:
        """Return whether a folder, or one in it, has tables of metrics of DVCLive."""
        return any(_run_folders(path))

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the runs of a folder."""
        return read_run_folders(_run_folders(path), lambda folder: _read_run(folder, path, options))


def _run_folders(path: Path) -> Iterator[Path]:
    for folder in [path, *sorted(path.glob("*")), *sorted(path.glob("*/*"))] if path.is_dir() else ():
        tables = any((folder / name).is_dir() and any((folder / name).rglob("*.tsv")) for name in TABLES)
        if tables or (sniff(folder / METRICS) and sniff(folder / PARAMS)):
            yield folder


def _read_run(folder: Path, path: Path, options: ImportOptions) -> ForeignRun:
    files = [file for file in walk(folder) if file.suffix in (".yaml", ".json", ".tsv")]
    params_file = folder / PARAMS
    source = SourceInfo("dvclive", path, "dvclive", "", digest_of(files, path))
    started = min(file.stat().st_mtime for file in files)
    params = sniff(params_file)
    name = folder.resolve().name
    identity = run_id("dvclive", folder.resolve().parent.name, name, params.decode(errors="replace"), name=name)
    run = ForeignRun(identity, name, source, started)
    run.model, run.has_times = options.model, False
    if params_file.is_file():
        content = read_yaml(params_file, path)
        values = flatten(content) if isinstance(content, dict) else {}
        run.losses.count(PARAMETERS, len(values))
        run.params = {key: TypedText(value, "" if value is not None else "null") for key, value in values.items()}
    for tables in (folder / name for name in TABLES):
        for table in walk(tables) if tables.is_dir() else ():
            if table.suffix == ".tsv":
                _add_table(run, table, table.relative_to(tables).with_suffix("").as_posix())
    _add_last(run, folder, path)
    for file in walk(folder / "artifacts") if (folder / "artifacts").is_dir() else ():
        if is_inside(file, folder):
            relative = file.relative_to(folder).as_posix()
            run.losses.count(FILES)
            content_of = sha256_of(file), file.stat().st_size, media_type_of(relative)
            run.files.append(ForeignFile(relative, relative, *content_of))
    for file in walk(folder / "plots" / "images") if (folder / "plots" / "images").is_dir() else ():
        run.losses.count(OTHERS)
        run.losses.leave_out(OTHERS, file.name, "a picture of a step has no place in a run")
    options.advance(sum(file.stat().st_size for file in files))
    return run


def _add_table(run: ForeignRun, path: Path, name: str) -> None:
    """Add a metric. A column `timestamp`, which older versions have, is the time in milliseconds."""
    damaged = count = 0
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            count += 1
            step, moment = to_number(row.get("step")), math.nan
            fields = {key: text for key, text in row.items() if key not in ("step", *TIME_COLUMNS)}
            value = to_number(next(iter(fields.values()), None))
            for column in TIME_COLUMNS:
                stamp = to_number(row.get(column))
                if stamp is not None:
                    moment, run.has_times = (stamp / 1000 if stamp > 1e11 else stamp), True
            if value is None or step is None or not math.isfinite(step):
                damaged += 1
                continue
            run.points.add(name, int(step), value, moment)
    run.losses.count(POINTS, count)
    if damaged:
        run.losses.leave_out(POINTS, name, "the line is damaged or cut off", damaged)


def _add_last(run: ForeignRun, folder: Path, path: Path) -> None:
    """Add the values of metrics.json that no table has: those that were logged without a plot."""
    if not (folder / METRICS).is_file():
        return
    try:
        content: Any = read_json(folder / METRICS, path)
    except FileFormatError as error:
        run.losses.count(OTHERS)
        run.losses.leave_out(OTHERS, METRICS, f"{error.reason}: a partial import")
        return
    values = flatten(content) if isinstance(content, dict) else {}
    for key, item in values.items():
        name, value = key.replace(".", "/"), to_number(item)
        if name in run.points.names or key in run.points.names or key == "step" or value is None:
            continue
        run.losses.count(POINTS)
        run.finals[name] = value
