"""Runs of sacred's FileStorageObserver: folders with run.json, config.json, metrics.json and cout.txt.

The configuration is typed. Times are UTC without a zone. Digests of sources and resources are MD5, in the names of
their files; the files themselves are beside the runs, so that their SHA-256 can be computed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from provml.errors import FileFormatError
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.foreign_events import read_run_folders
from provml.exchange.foreign_run import (
    ForeignData,
    ForeignFile,
    ForeignModel,
    ForeignRun,
    SourceInfo,
    is_model_file,
    run_id,
)
from provml.exchange.losses import DATASETS, FILES, MODELS, OTHERS, PARAMETERS, POINTS, TEXTS
from provml.exchange.source_files import digest_of, is_inside, read_json, read_text, sha256_of, sniff
from provml.exchange.typed_text import TypedText, flatten, to_number
from provml.recording.artifacts import media_type_of

STATUSES = {
    "COMPLETED": "FINISHED", "FAILED": "FAILED", "INTERRUPTED": "INTERRUPTED", "TIMEOUT": "KILLED", "DIED": "KILLED",
}  # fmt: skip
OWN_FILES = ("run.json", "config.json", "metrics.json", "cout.txt", "info.json")
MAX_OUTPUT_CHARS = 1 << 20


class SacredRuns:
    """Importer of sacred's folders."""

    name = "sacred"
    summary = "a folder of sacred's FileStorageObserver, or one run of it"

    def recognises(self, path: Path) -> bool:
        """Return whether a folder, or one below it, has a run.json of sacred."""
        return any(_run_folders(path))

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the runs of a folder."""
        return read_run_folders(_run_folders(path), lambda folder: _read_run(folder, path, options))


def _run_folders(path: Path) -> Iterator[Path]:
    candidates = [path, *sorted(path.glob("*"), key=_order), *sorted(path.glob("*/*"), key=_order)]
    for folder in candidates if path.is_dir() else ():
        start = sniff(folder / "run.json")
        if b'"experiment"' in start or (b'"heartbeat"' in start and b'"command"' in start):
            yield folder


def _order(path: Path) -> tuple[str, int, str]:
    return str(path.parent), int(path.name) if path.name.isdigit() else -1, path.name


def _read_run(folder: Path, path: Path, options: ImportOptions) -> ForeignRun:
    fields = read_json(folder / "run.json", path)
    experiment = fields.get("experiment") or {} if isinstance(fields, dict) else {}
    if not isinstance(fields, dict) or not isinstance(experiment, dict):
        raise FileFormatError("it is not the description of a run", "Copy the file again.", file=str(folder))
    files = [folder / name for name in OWN_FILES if (folder / name).is_file()]
    source = SourceInfo("sacred", path, "sacred", "", digest_of(files, path))
    started = to_time(fields.get("start_time"))
    name = str(experiment.get("name") or folder.name)
    begun = started if started is not None else (folder / "run.json").stat().st_mtime
    run = ForeignRun(run_id("sacred", name, folder.name, begun, name=f"{name}-{folder.name}"), name, source, begun)
    run.run_name, run.model = name, options.model
    _add_status(run, fields)
    _add_context(run, fields, experiment)
    _add_config(run, folder, path)
    _add_metrics(run, folder, path)
    _add_files(run, fields, folder, path)
    output = folder / "cout.txt"
    if output.is_file():
        with contextlib.suppress(FileFormatError):
            run.output = read_text(output, path)[:MAX_OUTPUT_CHARS]
    result = to_number(fields.get("result"))
    if result is not None:
        run.losses.count(POINTS)
        run.finals["result"] = result
    options.advance(sum(file.stat().st_size for file in files))
    return run


def to_time(value: Any) -> float | None:
    """Return a time in seconds since 1970; one without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(str(value))
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _add_status(run: ForeignRun, fields: dict[str, Any]) -> None:
    """Set the status; a run that still says RUNNING has no end, and its heartbeat is the last sign of life."""
    status = str(fields.get("status") or "")
    run.status = STATUSES.get(status, "")
    stopped, heartbeat = to_time(fields.get("stop_time")), to_time(fields.get("heartbeat"))
    if run.status:
        run.ended = stopped if stopped is not None else heartbeat
    elif status:
        run.losses.guess(OTHERS, "status", f"sacred says {status}, and no end is recorded", 0)
    trace = fields.get("fail_trace")
    lines = "".join(map(str, trace)).strip().splitlines() if isinstance(trace, list) else []
    if run.status == "FAILED" and lines:
        kind, separator, message = lines[-1].partition(": ")
        run.error = [kind, message] if separator else ["Error", lines[-1]]


def _add_context(run: ForeignRun, fields: dict[str, Any], experiment: dict[str, Any]) -> None:
    host = fields.get("host") if isinstance(fields.get("host"), dict) else {}
    assert isinstance(host, dict)
    if host.get("hostname"):
        run.machine["hostname"] = str(host["hostname"])
    if host.get("cpu"):
        run.machine["processor"] = str(host["cpu"])
    if host.get("python_version"):
        run.process["python_version"] = str(host["python_version"])
    system = host.get("os")
    if isinstance(system, list) and system:
        run.process["operating_system"] = str(system[-1])
    run.implementation = str(experiment.get("mainfile") or "")
    for repository in experiment.get("repositories") or ():
        if isinstance(repository, dict) and repository.get("commit"):
            run.process["git_commit"] = str(repository["commit"])
            run.process["git_repository"] = str(repository.get("url") or "")
            run.process["git_dirty"] = bool(repository.get("dirty"))
    for text in experiment.get("dependencies") or ():
        package, _, version = str(text).partition("==")
        run.software[package] = version
    meta = fields.get("meta")
    comment = meta.get("comment") if isinstance(meta, dict) else None
    if comment:
        run.remarks.append(str(comment))
        run.losses.count(TEXTS)
        run.losses.preserve(TEXTS)


def _add_config(run: ForeignRun, folder: Path, path: Path) -> None:
    if not (folder / "config.json").is_file():
        return
    config = read_json(folder / "config.json", path)
    if not isinstance(config, dict):
        return
    seed = config.get("seed")
    if isinstance(seed, int) and not isinstance(seed, bool):
        run.seeds["seed"] = seed
    values = flatten(config)
    run.losses.count(PARAMETERS, len(values))
    run.params = {name: TypedText(value, "" if value is not None else "null") for name, value in values.items()}


def _add_metrics(run: ForeignRun, folder: Path, path: Path) -> None:
    """Add the metrics, which are columns of steps, times and values."""
    file = folder / "metrics.json"
    if not file.is_file():
        return
    metrics = read_json(file, path)
    for name, columns in metrics.items() if isinstance(metrics, dict) else ():
        if not isinstance(columns, dict):
            continue
        steps, values, times = (columns.get(key) or [] for key in ("steps", "values", "timestamps"))
        refused = 0
        run.losses.count(POINTS, len(values))
        for index, item in enumerate(values):
            value = to_number(item if not isinstance(item, dict) else item.get("value"))
            step = steps[index] if index < len(steps) else 0
            moment = to_time(times[index]) if index < len(times) else None
            if value is None:
                refused += 1
                continue
            number = int(step) if isinstance(step, (int, float)) and math.isfinite(step) else 0
            run.points.add(name, number, value, moment if moment is not None else math.nan)
        if refused:
            run.losses.leave_out(POINTS, name, "the value is no number", refused)


def _add_files(run: ForeignRun, fields: dict[str, Any], folder: Path, path: Path) -> None:
    root = folder.parent
    for item in fields.get("resources") or ():
        if not isinstance(item, list) or len(item) < 2:
            continue
        original, stored = str(item[0]), Path(str(item[1]))
        copy = root / "_resources" / stored.name
        run.losses.count(DATASETS)
        data = ForeignData(Path(original).name, "training", original)
        data.ref = f"resource-{stored.name}"
        if copy.is_file() and is_inside(copy, root):
            data.sha256, data.size = sha256_of(copy), copy.stat().st_size
        run.losses.guess(DATASETS, data.name, "a resource: taken as training data", 0)
        run.datasets.append(data)
    for item in fields.get("artifacts") or ():
        name = str(item.get("name") if isinstance(item, dict) else item)
        file = folder / name
        run.losses.count(FILES)
        entry = ForeignFile(name, name, media_type=media_type_of(name))
        if file.is_file() and is_inside(file, folder):
            entry.sha256, entry.size = sha256_of(file), file.stat().st_size
        if is_model_file(name):
            entry.model = f"model-{name}"
            run.losses.count(MODELS)
            run.losses.guess(MODELS, name, "a file that is a model by its suffix", 0)
            run.models.append(ForeignModel(entry.model, run.model or run.name, name))
        run.files.append(entry)
