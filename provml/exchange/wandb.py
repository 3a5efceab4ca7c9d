"""Offline runs of Weights & Biases (`run-ID.wandb`), read without wandb.

A file has a header of seven bytes, then blocks of 32 KiB as in a log of LevelDB; each record is a protobuf message. A
run that was resumed has several files. A run without an exit record was killed, unless it still goes on.
"""

from __future__ import annotations

import json
import re
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeGuard

from provml.errors import FileFormatError, plural
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.foreign_events import to_source_run
from provml.exchange.foreign_run import (
    ForeignData,
    ForeignFile,
    ForeignModel,
    ForeignRun,
    SourceInfo,
    is_time,
    run_id,
    slug_of,
)
from provml.exchange.losses import DATASETS, FILES, MODELS, OTHERS, PARAMETERS, POINTS, TAGS, TEXTS
from provml.exchange.protobuf import Message
from provml.exchange.source_files import digest_of, sniff, walk
from provml.exchange.typed_text import TypedText, flatten, to_number
from provml.journal.run_files import RUN_ID
from provml.recording.artifacts import media_type_of

MAGIC = b":W&B"
HEADER_BYTES, BLOCK_BYTES, RECORD_HEADER = 7, 32 << 10, struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
HISTORY, SUMMARY, CONFIG, STATS, ARTIFACT, METRIC, OUTPUT_RAW = 2, 3, 5, 7, 8, 12, 13
RUN, EXIT, HEADER, USE_ARTIFACT, ENVIRONMENT = 17, 18, 21, 25, 26
"""Numbers of the fields of a record."""
KEY, NESTED_KEY, VALUE_JSON = 1, 2, 16
INTERNAL = "_"
"""Names that begin so are wandb's own."""
ALIVE_SECONDS = 600.0
"""A run whose last value is not older than this may still go on."""
MAX_OUTPUT_CHARS = 1 << 20
_FOLDER_TIME = re.compile(r"run-(\d{8}_\d{6})-")
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.\-]*)==(\S+)")


class WandbOffline:
    """Importer of offline runs."""

    name = "wandb"
    summary = "offline runs of Weights & Biases: a file run-ID.wandb, or a folder with some"

    def recognises(self, path: Path) -> bool:
        """Return whether a file begins like a run, or a folder has such files."""
        if path.is_file():
            return sniff(path, 4) == MAGIC
        folders = (path, *path.glob("*run-*"), *path.glob("wandb/*run-*"))
        return any(sniff(file, 4) == MAGIC for folder in folders for file in folder.glob("run-*.wandb"))

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the runs of all files; the files of a resumed run are one run."""
        files = [path] if path.is_file() else [file for file in walk(path) if file.suffix == ".wandb"]
        if not files:
            raise FileFormatError("it has no file run-ID.wandb", f"Pass {self.summary}.", file=str(path))
        groups: dict[tuple[str, str], list[_File]] = {}
        for file in sorted(files, key=lambda item: (item.parent.name, item.name)):
            if sniff(file, 4) != MAGIC:
                reason = "it is empty" if not sniff(file, 4) else "it does not begin like a file of W&B"
                yield SkippedPart(file.name, reason)
                continue
            content = _File(file)
            content.scan()
            groups.setdefault((content.project, content.run_id), []).append(content)
        for contents in groups.values():
            try:
                run = _to_run(contents, path, options)
            except ValueError as error:
                yield SkippedPart(contents[0].path.name, f"a message is damaged: {error}")
                continue
            yield to_source_run(run)


# ---- records


class RecordReader:
    """Reads the records of a file; `damage` says where reading stopped or what was skipped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: list[str] = []

    def __iter__(self) -> Iterator[bytes]:
        self.damage.clear()
        parts: list[bytes] = []
        with self.path.open("rb") as file:
            block = file.read(BLOCK_BYTES)
            position, number = HEADER_BYTES, 0
            while block:
                for kind, data in self._fragments(block, position, number):
                    if kind in (FULL, FIRST):
                        parts = [data]
                    else:
                        parts.append(data)
                    if kind in (FULL, LAST):
                        yield b"".join(parts)
                        parts = []
                block, position, number = file.read(BLOCK_BYTES), 0, number + 1
        if parts:
            self.damage.append("the last record is cut off")

    def _fragments(self, block: bytes, position: int, number: int) -> Iterator[tuple[int, bytes]]:
        while position + RECORD_HEADER.size <= len(block):
            checksum, length, kind = RECORD_HEADER.unpack_from(block, position)
            start = position + RECORD_HEADER.size
            if kind == 0 and length == 0 and checksum == 0:
                return  # the rest of a block that was allocated in advance
            data = block[start : start + length]
            if len(data) < length:
                self.damage.append("the last record is cut off")
                return
            if kind not in (FULL, FIRST, MIDDLE, LAST) or zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum:
                self.damage.append(f"a damaged record at byte {number * BLOCK_BYTES + position:,}")
                return  # as LevelDB does, go on with the next block
            yield kind, data
            position = start + length
        if 0 < len(block) - position < RECORD_HEADER.size and len(block) < BLOCK_BYTES:
            self.damage.append("the last record is cut off")


def item_of(data: bytes) -> tuple[str, Any]:
    """Return key and value of an item of the history, the summary or the configuration."""
    message = Message(data)
    key = message.text(KEY) or ".".join(message.texts(NESTED_KEY))
    if VALUE_JSON in message:
        return key, _parse_json(message.text(VALUE_JSON))
    for number, value in message.fields.items():  # typed values of newer versions
        if number == 4:
            return key, bool(message.integer(4))
        if number == 5:
            return key, message.integer(5)
        if number == 6:
            return key, message.double(6)
        if number == 7:
            return key, message.text(7)
        if number == 8 and value:
            return key, _parse_json(message.text(8))
    return key, None


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# ---- a file


@dataclass
class _File:
    """What one file says, except for the history, which is read again when the axis is known."""

    path: Path
    run_id: str = ""
    project: str = ""
    messages: dict[int, Message] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    artifacts: list[Message] = field(default_factory=list)
    used: list[Message] = field(default_factory=list)
    environment: dict[int, list[int | bytes]] = field(default_factory=dict)
    output: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    stats: int = 0
    rows: int = 0
    rows_without: dict[str, int] = field(default_factory=dict)
    """Number of rows that have metrics but not the key, for keys that may be an axis."""
    epochs: list[float] | None = field(default_factory=list)
    """Values of the key `epoch` as long as each row has one and they increase."""

    def scan(self) -> None:
        """Read all records but the values of the history."""
        match = re.search(r"run-([^.]+)\.wandb$", self.path.name)
        self.run_id = match[1] if match else self.path.stem
        reader = RecordReader(self.path)
        for data in reader:
            try:
                self._add(Message(data))
            except ValueError:
                reader.damage.append("a record that is no message")
        self.damage = list(reader.damage)

    def _add(self, record: Message) -> None:
        if HISTORY in record:
            self._add_row(record.message(HISTORY))
        elif SUMMARY in record:
            self.summary |= self._items(record.message(SUMMARY))
        elif CONFIG in record:
            self.config |= self._items(record.message(CONFIG))
        elif METRIC in record:
            metric = record.message(METRIC)
            name = metric.text(1) or metric.text(2)
            if metric.text(4):
                self.axes[name] = metric.text(4)
        elif ARTIFACT in record:
            self.artifacts.append(record.message(ARTIFACT))
        elif USE_ARTIFACT in record:
            self.used.append(record.message(USE_ARTIFACT))
        elif ENVIRONMENT in record:
            self.environment |= record.message(ENVIRONMENT).fields
        elif OUTPUT_RAW in record:
            self.output.append(record.message(OUTPUT_RAW).text(3))
        elif STATS in record:
            self.stats += 1
        else:
            self._add_single(record)

    def _add_single(self, record: Message) -> None:
        for number in (RUN, EXIT, HEADER):
            if number in record:
                self.messages[number] = record.message(number)
        if RUN in record:
            run = self.messages[RUN]
            self.run_id, self.project = run.text(1) or self.run_id, run.text(3)
            self.config |= self._items(run.message(4))
            self.summary |= self._items(run.message(5))

    @staticmethod
    def _items(message: Message) -> dict[str, Any]:
        return dict(item_of(data) for data in message.values(1))

    def _add_row(self, history: Message) -> None:
        items = dict(item_of(data) for data in history.values(1))
        names = [name for name in items if not name.startswith(INTERNAL)]
        if not names:
            return
        self.rows += 1
        for axis in {*self.axes.values()}:
            self.rows_without[axis] = self.rows_without.get(axis, 0) + (axis not in items)
        if self.epochs is not None:
            epoch = items.get("epoch")
            if _is_index(epoch) and (not self.epochs or epoch > self.epochs[-1]):
                self.epochs = [float(epoch)]
            else:
                self.epochs = None

    def history(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the history, by key, with wandb's own."""
        for data in RecordReader(self.path):
            try:
                record = Message(data)
                if HISTORY not in record:
                    continue
                history = record.message(HISTORY)
                row = dict(item_of(item) for item in history.values(1))
                if 2 in history:
                    row.setdefault("_step", history.message(2).integer(1))
            except ValueError:
                continue
            yield row


def _is_index(value: Any) -> TypeGuard[float]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value < 1 << 62 and float(value).is_integer()


# ---- a run


def _to_run(files: list[_File], path: Path, options: ImportOptions) -> ForeignRun:
    first, last = files[0], files[-1]
    head = last.messages.get(RUN) or first.messages.get(RUN) or Message(b"")
    begin = first.messages.get(RUN) or head
    project = head.text(3) or "wandb"
    version = next((m.message(1).text(1) for f in files if (m := f.messages.get(HEADER))), "")
    source = SourceInfo("wandb", path, "wandb", version, digest_of([file.path for file in files], path))
    full_id = f"{slug_of(project)}-{last.run_id}"
    full_id = full_id if RUN_ID.fullmatch(full_id) else run_id(project, last.run_id, name="wandb")
    run = ForeignRun(full_id, project, source, _start(begin, first.path))
    run.run_name, run.study, run.model = head.text(8) or last.run_id, project, options.model
    run.person = ""
    _add_description(run, head)
    _add_config(run, files)
    _add_environment(run, files)
    _add_artifacts(run, files)
    axis = _add_history(run, files, options)
    _add_summary(run, files, axis)
    _add_status(run, last)
    for file in files:
        if file.damage:
            texts = list(dict.fromkeys(file.damage))
            run.losses.count(OTHERS, len(texts))
            run.losses.leave_out(OTHERS, file.path.name, f"{'; '.join(texts[:3])}: a partial import", len(texts))
    return run


def _start(head: Message, path: Path) -> float:
    stamp = head.message(17)
    if stamp.integer(1):
        return stamp.integer(1) + stamp.integer(2) / 1e9
    match = _FOLDER_TIME.search(path.parent.name)
    if match:
        return datetime.strptime(match[1], "%Y%m%d_%H%M%S").replace(tzinfo=UTC).timestamp()
    return path.stat().st_mtime


def _add_description(run: ForeignRun, head: Message) -> None:
    words = head.texts(10)
    run.words += words
    fields = {"group": head.text(6), "job_type": head.text(7), "sweep": head.text(12), "entity": head.text(2)}
    run.tags = {name: text for name, text in fields.items() if text}
    run.losses.count(TAGS, len(words) + len(run.tags))
    if head.text(9):
        run.remarks.append(head.text(9))
        run.losses.count(TEXTS)
        run.losses.preserve(TEXTS)


def _add_config(run: ForeignRun, files: list[_File]) -> None:
    config: dict[str, Any] = {}
    for file in files:
        config |= file.config
    values = flatten({name: value for name, value in config.items() if not name.startswith("_wandb")})
    run.losses.count(PARAMETERS, len(values))
    run.params = {name: TypedText(value, "" if value is not None else "null") for name, value in values.items()}


def _add_environment(run: ForeignRun, files: list[_File]) -> None:
    message = Message(b"")
    for file in files:
        message.fields |= file.environment
    names = {"operating_system": 1, "python_version": 2, "user_name": 13}
    run.process = {name: message.text(number) for name, number in names.items() if message.text(number)}
    program = message.text(6) or message.text(7)
    if program:
        run.process["command_line"] = " ".join([program, *message.texts(5)])
    git = message.message(9)
    if git.text(2):
        run.process |= {"git_commit": git.text(2), "git_repository": git.text(1)}
    run.person = message.text(13)
    if message.text(12):
        run.machine["hostname"] = message.text(12)
    if message.integer(16):
        run.machine["core_count"] = message.integer(16)
    requirements = files[-1].path.parent / "files" / "requirements.txt"
    run.software = dict(_REQUIREMENT.findall(sniff(requirements, 1 << 20).decode("utf-8", errors="replace")))
    lines = "".join(line for file in files for line in file.output)
    run.output = lines[:MAX_OUTPUT_CHARS]
    stats = sum(file.stats for file in files)
    if stats:
        run.losses.count(OTHERS, stats)
        run.losses.leave_out(OTHERS, "measurements of the machine", "a run has no place for its load over time", stats)


def _add_artifacts(run: ForeignRun, files: list[_File]) -> None:
    for artifact in (artifact for file in files for artifact in file.artifacts):
        kind, name = artifact.text(4), artifact.text(5)
        entries = artifact.message(12).messages(4)
        if kind == "dataset":
            run.losses.count(DATASETS)
            digests = {entry.text(1): entry.text(2) for entry in entries}
            data = ForeignData(name, path=name, store="wandb", is_output=True, ref=f"wandb-{name}")
            data.values = {"digest": artifact.text(6), "md5": json.dumps(digests) if digests else ""}
            data.size = sum(entry.integer(4) for entry in entries) if entries else -1
            run.datasets.append(data)
            run.losses.guess(DATASETS, name, "W&B has it as an output of the run, although it may be an input", 0)
            continue
        ref = ""
        if kind == "model":
            ref = f"wandb-{name}"
            run.losses.count(MODELS)
            run.models.append(ForeignModel(ref, name))
        for entry in entries:
            run.losses.count(FILES)
            file = ForeignFile(entry.text(1), entry.text(1), "", entry.integer(4), media_type_of(entry.text(1)), ref)
            run.files.append(file)
    for use in (use for file in files for use in file.used):
        run.losses.count(DATASETS)
        run.datasets.append(ForeignData(use.text(3), store="wandb", ref=f"wandb-{use.text(3)}"))


def _axis_of(files: list[_File]) -> tuple[str, str]:
    """Return the metric that numbers the sections, and why; none if rows have several axes or none."""
    axes = {axis for file in files for axis in file.axes.values() if axis and axis != "_step"}
    if len(axes) == 1:
        [axis] = axes
        if not any(file.rows_without.get(axis, 0) for file in files):
            return axis, f"the run defines {axis} as the step of its metrics"
    rows = sum(file.rows for file in files)
    if not axes and rows and all(file.epochs is not None for file in files):
        return "epoch", "each row has the number of its epoch"
    return "", ""


def _add_history(run: ForeignRun, files: list[_File], options: ImportOptions) -> str:
    """Add the history, and return the metric that numbers its steps, if there is one."""
    axis, reason = _axis_of(files)
    if "epoch" in axis.lower():
        run.step_kind, run.step_reason = "epoch", reason
        run.losses.guess(POINTS, "steps", f"taken as epochs: {reason}", 0)
    refused: dict[str, int] = {}
    for number, file in enumerate(files):
        run.points.part = number
        for row in file.history():
            _add_row(run, row, axis, refused)
        options.advance(file.path.stat().st_size)
    for name, count in refused.items():
        run.losses.count(POINTS, count)
        run.losses.leave_out(POINTS, name, "a text, a picture or a table is no measure", count)
    defined = {glob: step for file in files for glob, step in file.axes.items()}
    others = [name for name in run.points.names if not axis and any(fnmatchcase(name, glob) for glob in defined)]
    if others:
        reason = "the run names several axes, or rows lack them; the number of the row is the step"
        run.losses.guess(POINTS, ", ".join(others[:3]), reason, 0)
    return axis


def _add_row(run: ForeignRun, row: dict[str, Any], axis: str, refused: dict[str, int]) -> None:
    step, when = row.get("_step"), row.get("_timestamp")
    index = int(step) if _is_index(step) else 0
    if axis and _is_index(row.get(axis)):
        index = int(row.pop(axis))
        run.losses.count(POINTS)
        run.losses.preserve(POINTS)
    moment = float(when) if is_time(when) else float("nan")
    nested = any(isinstance(value, dict) for value in row.values())
    items = flatten({k: v for k, v in row.items() if not _is_media(v)}) if nested else row
    for name, value in items.items():
        if name.startswith(INTERNAL):
            continue
        number = to_number(value) if isinstance(value, (int, float)) else None
        if number is not None:
            run.points.add(name, index, number, moment)
            run.losses.count(POINTS)
        elif value is not None:
            refused[name] = refused.get(name, 0) + 1
    if nested:
        for name, value in row.items():
            if _is_media(value):
                refused[name] = refused.get(name, 0) + 1


def _is_media(value: Any) -> bool:
    return isinstance(value, dict) and "_type" in value


def _add_summary(run: ForeignRun, files: list[_File], axis: str) -> None:
    """Add the values of the summary that the history does not have; the others are copies."""
    summary: dict[str, Any] = {}
    for file in files:
        summary |= file.summary
    media = {name for name, value in summary.items() if _is_media(value)}
    for name, value in flatten({k: v for k, v in summary.items() if k not in media}).items():
        bare = re.sub(r"\.(?:min|max|mean|best|last)$", "", name)
        if name.startswith(INTERNAL) or {name, bare} & {axis, *run.points.names}:
            continue
        number = to_number(value) if isinstance(value, (int, float)) else None
        if number is not None:
            run.losses.count(POINTS)
            run.finals[name] = number
        elif isinstance(value, str):
            run.losses.count(PARAMETERS)
            run.params[f"summary.{name}"] = TypedText(value)


def _add_status(run: ForeignRun, last: _File) -> None:
    exit_record = last.messages.get(EXIT)
    if exit_record is not None:
        code = exit_record.integer(1)
        run.status = "FINISHED" if code == 0 else "FAILED"
        run.ended = max(run.last_time, run.started + exit_record.integer(2))
        if code:
            run.losses.guess(OTHERS, "status", f"the exit code was {code}", 0)
    elif time.time() - run.last_time > ALIVE_SECONDS:
        run.status, run.ended = "KILLED", run.last_time
        run.losses.guess(OTHERS, "status", f"no exit is recorded in {plural(1, 'file')}: the process was killed", 0)
