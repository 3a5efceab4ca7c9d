"""Event files of TensorBoard, read without TensorFlow: scalars of TF1 and TF2, hyperparameters and texts.

A folder with event files is a run. Folders that writers make for hyperparameters (`add_hparams`), for several curves in
one chart (`add_scalars`), or for training and validation (Keras) belong to the run around them. Scalars are float32: a
value is the shortest decimal that is the same float32.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provml.errors import FileFormatError, plural
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.foreign_events import to_source_run
from provml.exchange.foreign_run import ForeignRun, SourceInfo, is_time, run_id
from provml.exchange.losses import OTHERS, PARAMETERS, POINTS, TEXTS
from provml.exchange.protobuf import Message, read_varint
from provml.exchange.source_files import digest_of, sniff, walk
from provml.exchange.typed_text import TypedText, shortest_float32

NAME_PART = "tfevents"
MAX_RECORD_BYTES = 256 << 20
"""A larger event holds a graph or pictures, not scalars, and is skipped."""
PART_FOLDERS = ("train", "training", "validation", "val", "eval", "test")
"""Folders that Keras and others make inside of a run."""
HPARAMS, SCALARS, TEXT = "hparams", "scalars", "text"
SESSION_START = "_hparams_/session_start_info"
DT_FLOAT, DT_DOUBLE, DT_INT32, DT_INT64, DT_HALF = 1, 2, 3, 9, 19
_LENGTH = struct.Struct("<QI")
_FORMATS = {DT_FLOAT: "f", DT_DOUBLE: "d", DT_INT32: "i", DT_INT64: "q", DT_HALF: "e"}
_VALUE_FIELDS = {DT_FLOAT: 5, DT_DOUBLE: 6, DT_INT32: 7, DT_INT64: 10}
KINDS = {3: "histograms", 4: "pictures", 5: "histograms", 6: "sounds"}
"""Fields of a value that hold something else than a number."""


class TensorBoardEvents:
    """Importer of event files."""

    name = "tensorboard"
    summary = "event files of TensorBoard: a file, or a folder with some"

    def recognises(self, path: Path) -> bool:
        """Return whether a file is one of events, or a folder has such files."""
        if path.is_file():
            return NAME_PART in path.name and is_event_file(path)
        patterns = (f"*{NAME_PART}*", f"*/*{NAME_PART}*", f"*/*/*{NAME_PART}*")
        return any(is_event_file(file) for pattern in patterns for file in path.glob(pattern))

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield a run for each folder with event files that is not a part of another run."""
        files = [path] if path.is_file() else [file for file in walk(path) if NAME_PART in file.name]
        folders: dict[Path, list[_EventFile]] = {}
        for file in files:
            if not is_event_file(file):
                reason = "it is empty" if not file.stat().st_size else "it does not begin like an event file"
                yield SkippedPart(file.name, reason)
                continue
            folders.setdefault(file.parent, []).append(_EventFile(file))
        if not files:
            raise FileFormatError("it has no event files", f"Pass {self.summary}.", file=str(path))
        root = path.parent if path.is_file() else path
        for owner, parts in _group(folders, root).items():
            yield to_source_run(_to_run(owner, parts, root, options))


def is_event_file(path: Path) -> bool:
    """Return whether a file begins with a record whose checksum of the length is right."""
    start = sniff(path, _LENGTH.size)
    return len(start) == _LENGTH.size and _LENGTH.unpack(start)[1] == masked_crc(start[:8])


# ---- records


def _table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    """Return the masked CRC-32C of bytes, as records have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@dataclass
class _EventFile:
    """An event file; `damage` says where reading stopped, after it was read."""

    path: Path
    damage: str = ""
    skipped: int = 0

    def events(self) -> Iterator[Message]:
        """Yield the events. The checksum of each length is checked, so that a damaged one is not followed."""
        self.damage, self.skipped = "", 0
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            position = 0
            while position < size:
                header = file.read(_LENGTH.size)
                if len(header) < _LENGTH.size:
                    self.damage = f"it is cut off at byte {position:,}"
                    return
                length, checksum = _LENGTH.unpack(header)
                if checksum != masked_crc(header[:8]):
                    self.damage = f"the record at byte {position:,} is damaged"
                    return
                end = position + _LENGTH.size + length + 4
                if end > size:
                    self.damage = f"it is cut off at byte {position:,}"
                    return
                position = end
                if length > MAX_RECORD_BYTES:
                    self.skipped += 1
                    file.seek(end)
                    continue
                data = file.read(length)
                file.seek(4, 1)
                try:
                    yield Message(data)
                except ValueError:
                    self.damage = f"the record before byte {position:,} is no event"
                    return

    def tags(self) -> set[str]:
        """Return the tags of the first events."""
        with contextlib.suppress(ValueError):
            events = itertools.islice(self.events(), 50)
            return {value.text(1) for event in events for value in event.message(5).messages(1)}
        return set()


# ---- runs


def _group(folders: dict[Path, list[_EventFile]], root: Path) -> dict[Path, list[tuple[str, _EventFile]]]:
    """Return the files of each run, with the prefix or suffix that their metrics get."""
    groups: dict[Path, list[tuple[str, _EventFile]]] = {}
    for folder, files in sorted(folders.items()):
        owner, role = _owner(folder, files, folders, root)
        groups.setdefault(owner, []).extend((role, file) for file in sorted(files, key=lambda item: item.path.name))
    return groups


def _owner(
    folder: Path, files: list[_EventFile], folders: dict[Path, list[_EventFile]], root: Path
) -> tuple[Path, str]:
    """Return the folder of the run that a folder belongs to, and what its metrics are in that run."""
    if folder == root:
        return folder, ""
    outer = [parent for parent in folder.parents if parent.is_relative_to(root) and parent in folders]
    if outer:
        tags = files[0].tags()
        if outer[0] == folder.parent and any(tag.startswith("_hparams_/") for tag in tags):
            return folder.parent, "hparams"
        curve = _curve_of(folder.relative_to(outer[0]).as_posix(), tags)
        if curve:
            return outer[0], f"+{curve}"
    if folder.name.lower() in PART_FOLDERS and (folder.parent != root or root not in folders):
        return folder.parent, f"{folder.name}/"
    return folder, ""


def _curve_of(path: str, tags: set[str]) -> str:
    """Return the curve whose folder `add_scalars` made: `Loss_train` (torch) or `Loss/train` (tensorboardX)."""
    if len(tags) != 1:
        return ""
    [tag] = tags
    for start in (f"{tag}/", f"{tag.replace('/', '_')}_"):
        if tag and path.startswith(start):
            return path.removeprefix(start)
    return ""


@dataclass
class _Reader:
    """Adds the events of files to a run."""

    run: ForeignRun
    plugins: dict[tuple[str, str], str] = field(default_factory=dict)
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    writer: str = ""

    def add(self, event: Message, role: str) -> None:
        when, step = event.double(1), event.integer(2)
        moment = when if is_time(when) else float("nan")
        for value in event.message(5).messages(1) if 5 in event else ():
            self._add_value(value, step, moment, role)
        if 10 in event:
            self.writer = event.message(10).text(1) or self.writer
        for number, name in ((4, "graphs"), (9, "graphs"), (8, "run metadata"), (6, "log messages")):
            if number in event:
                self.left_out[name, "events of this kind"] += 1

    def _add_value(self, value: Message, step: int, moment: float, role: str) -> None:
        tag = value.text(1)
        plugin = value.message(9).message(1) if 9 in value else None
        if plugin is not None and plugin.text(1):
            self.plugins[role, tag] = plugin.text(1)
        name = self.plugins.get((role, tag), "")
        if name == HPARAMS and plugin is not None:
            self._add_hyperparameters(tag, plugin.data(2))
            return
        if name == TEXT:
            self._add_text(tag, value, step)
            return
        number = value.float32(2)
        if number is not None:
            number = shortest_float32(number)
        elif 8 in value and name in (SCALARS, ""):
            number = scalar_of(value.message(8))
        if number is None:
            kind = next((KINDS[key] for key in KINDS if key in value), "tensors")
            self.left_out[kind, tag] += 1
            return
        self._add_point(tag, step, number, moment, role)

    def _add_point(self, tag: str, step: int, number: float, moment: float, role: str) -> None:
        self.run.losses.count(POINTS)
        if role == "hparams":
            if tag in self.run.finals:
                self.run.losses.leave_out(POINTS, tag, "written again with the hyperparameters; the last value counts")
            self.run.finals[tag] = number
        elif role.startswith("+"):
            self.run.points.add(f"{tag}/{role[1:]}", step, number, moment)
        else:
            self.run.points.add(f"{role}{tag}", step, number, moment)

    def _add_text(self, tag: str, value: Message, step: int) -> None:
        texts = [text.decode("utf-8", errors="replace") for text in value.message(8).values(8)]
        name = tag.removesuffix("/text_summary")
        self.run.losses.count(TEXTS)
        self.run.losses.preserve(TEXTS)
        key = f"text.{name}" if f"text.{name}" not in self.run.params else f"text.{name}.{step}"
        if key not in self.run.params:
            self.run.losses.count(PARAMETERS)
        self.run.params[key] = TypedText("\n".join(texts))

    def _add_hyperparameters(self, tag: str, content: bytes) -> None:
        data = Message(content)
        if tag != SESSION_START and 3 not in data:
            return
        for entry in data.message(3).messages(1):
            name, item = entry.text(1), hyperparameter(entry.message(2))
            if name not in self.run.params:
                self.run.losses.count(PARAMETERS)
            self.run.params[name] = item
        started = data.message(3).double(5)
        if started is not None and is_time(started) and started:
            self.run.started = min(self.run.started, started)


def hyperparameter(value: Message) -> TypedText:
    """Return a hyperparameter. All numbers are doubles in the file: a whole one is taken as an integer."""
    if 4 in value:
        return TypedText(bool(value.integer(4)))
    if 3 in value:
        return TypedText(value.text(3))
    number = value.double(2)
    if number is None:
        return TypedText(None, "null")
    if number.is_integer() and abs(number) < 1 << 53:
        return TypedText(int(number), repr(number), True)
    return TypedText(number)


def scalar_of(tensor: Message) -> float | None:
    """Return the number of a tensor with one item; None for any other tensor."""
    kind = tensor.integer(1)
    if kind not in _FORMATS:
        return None
    form = struct.Struct(f"<{_FORMATS[kind]}")
    shape = [item.integer(1) for item in tensor.message(2).messages(2)]
    content = tensor.data(4)
    if any(size != 1 for size in shape):
        return None
    if content:
        return _finish(form.unpack(content)[0], kind) if len(content) == form.size else None
    values = tensor.fields.get(_VALUE_FIELDS.get(kind, 0), [])
    if len(values) != 1:
        return None
    value = values[0]
    if isinstance(value, int):
        return float(value - (1 << 64) if value >= 1 << 63 else value)
    if kind in (DT_INT32, DT_INT64):  # packed
        number, end = read_varint(value, 0)
        return float(number - (1 << 64) if number >= 1 << 63 else number) if end == len(value) else None
    return _finish(form.unpack(value)[0], kind) if len(value) == form.size else None


def _finish(number: Any, kind: int) -> float:
    return shortest_float32(float(number)) if kind == DT_FLOAT else float(number)


def _to_run(folder: Path, parts: list[tuple[str, _EventFile]], root: Path, options: ImportOptions) -> ForeignRun:
    paths = [file.path for _, file in parts]
    first = next(iter(parts[0][1].events()), Message(b""))
    created = first.double(1)
    started = created if created is not None and is_time(created) else paths[0].stat().st_mtime
    name = folder.name if folder == root else folder.relative_to(root).as_posix()
    source = SourceInfo("tensorboard", root, "tensorboard", "", digest_of(paths, root))
    run = ForeignRun(run_id("tensorboard", paths[0].name, started, name=folder.name), name, source, started)
    run.model = options.model
    reader = _Reader(run)
    generations: Counter[str] = Counter()
    for role, file in parts:
        run.points.part = generations[role]
        generations[role] += 1
        for event in file.events():
            try:
                reader.add(event, role)
            except ValueError:
                reader.left_out["damaged events", file.path.name] += 1
        options.advance(file.path.stat().st_size)
        _note_damage(run, file)
    run.points.part = max(generations.values(), default=1) - 1
    source.version = reader.writer
    for (kind, tag), count in reader.left_out.items():
        run.losses.count(OTHERS, count)
        run.losses.leave_out(OTHERS, tag, f"{kind} have no place in a run", count)
    if run.points.names and all(re.search(r"(?:^|/)epoch_", name) for name in run.points.names):
        run.step_kind, run.step_reason = "epoch", "the names of metrics begin with epoch_"
    return run


def _note_damage(run: ForeignRun, file: _EventFile) -> None:
    if file.damage:
        run.losses.count(OTHERS)
        run.losses.leave_out(OTHERS, file.path.name, f"{file.damage}: a partial import")
    if file.skipped:
        run.losses.count(OTHERS, file.skipped)
        reason = f"{plural(file.skipped, 'event')} of more than {MAX_RECORD_BYTES >> 20} MiB"
        run.losses.leave_out(OTHERS, file.path.name, reason, file.skipped)
