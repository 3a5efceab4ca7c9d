"""Buffers of Flowcept as JSON lines: workflows and their tasks.

A workflow is a run. Tasks of the same activity that count an epoch are its epochs; the settings of the other tasks are
its parameters. A workflow says FINISHED even if one of its tasks ended with an error: the worst task counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provml.errors import FileFormatError
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.foreign_events import to_source_run
from provml.exchange.foreign_run import ForeignData, ForeignRun, SourceInfo, is_time, valid_run_id
from provml.exchange.losses import DATASETS, OTHERS, PARAMETERS, POINTS
from provml.exchange.source_files import sha256_of, sniff
from provml.exchange.typed_text import TypedText, flatten, to_float

Fields = dict[str, Any]
EPOCH_KEYS = ("epoch", "epoch_id", "epoch_number")
STEP_KEYS = ("step", "iteration", "batch", "round", "i")
FILE_WORDS = ("file", "path", "dataset", "data_dir")
MAX_LINE_BYTES = 64 << 20


class FlowceptBuffer:
    """Importer of Flowcept's buffers."""

    name = "flowcept"
    summary = "a buffer of Flowcept (JSON lines), or a folder with some"

    def recognises(self, path: Path) -> bool:
        """Return whether a line of a file is a workflow or a task of Flowcept."""
        return any(_is_buffer(file) for file in _files(path))

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the workflows of all files."""
        for file in _files(path):
            if not _is_buffer(file):
                continue
            workflows: dict[str, list[Fields]] = {}
            damaged = 0
            for message in read_lines(file):
                if message is None:
                    damaged += 1
                elif "workflow_id" in message:
                    workflows.setdefault(str(message["workflow_id"]), []).append(message)
            options.advance(file.stat().st_size)
            for key, messages in workflows.items():
                source = SourceInfo("flowcept", file, "flowcept", "", sha256_of(file))
                run = _Workflow(key, messages, source, options.model).to_run()
                if damaged:
                    run.losses.count(OTHERS, damaged)
                    reason = "a line of the file is damaged or cut off: a partial import"
                    run.losses.leave_out(OTHERS, file.name, reason, damaged)
                yield to_source_run(run)


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.glob("*.jsonl")) if path.is_dir() else []


def _is_buffer(path: Path) -> bool:
    line = sniff(path).partition(b"\n")[0]
    return b'"workflow_id"' in line and (b'"type"' in line or b'"task_id"' in line or b'"campaign_id"' in line)


def read_lines(path: Path) -> Iterator[Fields | None]:
    """Yield the objects of a file of JSON lines, bare NaN and Infinity allowed; None for a line that is damaged."""
    try:
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                if not line.strip():
                    continue
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    value = None
                yield value if isinstance(value, dict) else None
    except OSError as error:
        reason = f"it cannot be read ({str(error.strerror or error).lower()})"
        raise FileFormatError(reason, "Check the path.", file=str(path)) from error


def _dict(value: Any) -> Fields:
    return value if isinstance(value, dict) else {}


class _Workflow:
    """The messages of one workflow; those of a task that came twice are merged."""

    def __init__(self, key: str, messages: list[Fields], source: SourceInfo, model: str) -> None:
        self.head: Fields = {}
        self.tasks: dict[str, Fields] = {}
        self.merged = 0
        for number, message in enumerate(messages):
            if message.get("type") == "workflow" or ("name" in message and "task_id" not in message):
                self.merged += bool(self.head)
                self.head |= {name: value for name, value in message.items() if value is not None}
            else:
                task = self.tasks.setdefault(str(message.get("task_id", number)), {})
                self.merged += bool(task)
                task |= message
        times = [task[name] for task in self.tasks.values() for name in ("started_at", "ended_at") if name in task]
        times += [self.head[name] for name in ("started_at", "utc_timestamp", "ended_at") if name in self.head]
        times = [float(time) for time in times if is_time(time)]
        name = str(self.head.get("name") or self.head.get("workflow_name") or key)
        started = min(times, default=source.path.stat().st_mtime)
        source.version = str(self.head.get("flowcept_version") or "")
        self.run = ForeignRun(valid_run_id(key, "flowcept"), name, source, started)
        self.run.run_name, self.run.model = name, model
        self.run.study = str(self.head.get("campaign_id") or "")
        self.run.parent = _parent(self.head)
        self.last = max(times, default=started)

    def to_run(self) -> ForeignRun:
        """Return the run."""
        run = self.run
        run.losses.count(OTHERS, len(self.tasks) + self.merged + bool(self.head))
        run.losses.preserve(OTHERS, len(self.tasks) + self.merged + bool(self.head))
        sections = {key: number for key, task in self.tasks.items() if (number := self._number(task)) is not None}
        numbers = list(sections.values())
        is_single = len(set(numbers)) == len(numbers)
        for key, task in self.tasks.items():
            if key in sections and is_single:
                self._add_section(task, sections[key])
            else:
                self._add_task(task)
        self._add_values("workflow", _dict(self.head.get("used")), _dict(self.head.get("generated")))
        self._add_status()
        environment = _dict(self.head.get("environment") or self.head.get("machine_info"))
        if environment:
            run.losses.count(OTHERS)
            run.losses.leave_out(OTHERS, "environment", "the description of the machine is not read")
        return run

    def _number(self, task: Fields) -> int | None:
        """Return the number of the epoch or step that a task is."""
        used = _dict(task.get("used"))
        for kind, keys in (("epoch", EPOCH_KEYS), ("step", STEP_KEYS)):
            for key in keys:
                number = used.get(key, _dict(task.get("generated")).get(key))
                if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
                    self.run.step_kind = self.run.step_kind or kind
                    self.run.step_reason = f"tasks have a value {key}"
                    return number
        return None

    def _add_section(self, task: Fields, number: int) -> None:
        """Add the task of an epoch: what it generated are measures, a learning rate that it used may change."""
        run = self.run
        used, generated = flatten(_dict(task.get("used"))), flatten(_dict(task.get("generated")))
        moment = task.get("ended_at", task.get("started_at"))
        when = float(moment) if is_time(moment) else float("nan")
        copies = [name for name in used if name in generated]
        keys = (*EPOCH_KEYS, *STEP_KEYS)
        for name, value in (generated | {k: v for k, v in used.items() if k not in copies}).items():
            if name in keys:
                run.losses.count(POINTS)
                run.losses.preserve(POINTS)
            elif isinstance(value, (int, float)):
                run.losses.count(POINTS)
                run.points.add(name, number, to_float(value), when)
            elif value is not None:
                run.losses.count(PARAMETERS)
                run.params[f"{task.get('activity_id', 'task')}.{number}.{name}"] = TypedText(value)
        if copies:
            run.losses.count(OTHERS, len(copies))
            reason = "a task says it both as used and as generated; it is one value"
            run.losses.leave_out(OTHERS, ", ".join(copies), reason, len(copies))

    def _add_task(self, task: Fields) -> None:
        self._add_values(str(task.get("activity_id") or "task"), _dict(task.get("used")), _dict(task.get("generated")))
        if task.get("stdout"):
            self.run.output += str(task["stdout"])
        if task.get("hostname") and not self.run.machine:
            self.run.machine["hostname"] = str(task["hostname"])

    def _add_values(self, activity: str, used: Fields, generated: Fields) -> None:
        run = self.run
        for name, value in flatten(used).items():
            if isinstance(value, str) and any(word in name.lower() for word in FILE_WORDS):
                run.losses.count(DATASETS)
                role = next((word for word in ("train", "val", "test") if word in name.lower()), "")
                data = ForeignData(Path(value).name, role, value, ref=f"flowcept-{value}")
                if data.ref in {other.ref for other in run.datasets}:
                    run.losses.leave_out(DATASETS, value, "named by another task too")
                    continue
                run.losses.guess(DATASETS, name, "a file by the name of the value", 0)
                run.datasets.append(data)
                continue
            run.losses.count(PARAMETERS)
            key = name if name not in run.params else f"{activity}.{name}"
            if key in run.params:
                same = run.params[key].value == value
                run.losses.leave_out(PARAMETERS, key, "the same value again" if same else "another task has it too")
                continue
            run.params[key] = TypedText(value, "" if value is not None else "null")
        for name, value in flatten(generated).items():
            if isinstance(value, (int, float)):
                run.losses.count(POINTS)
                key = name if name not in run.finals else f"{activity}.{name}"
                if key in run.finals:
                    run.losses.leave_out(POINTS, key, "another task of this activity has a value of the same name")
                else:
                    run.finals[key] = to_float(value)
            elif value is not None:
                run.losses.count(PARAMETERS)
                key = f"{activity}.{name}"
                if key in run.params:
                    run.losses.leave_out(PARAMETERS, key, "another task has it too")
                else:
                    run.params[key] = TypedText(value)

    def _add_status(self) -> None:
        run = self.run
        statuses = {str(task.get("status")) for task in self.tasks.values()}
        head = str(self.head.get("status") or "")
        failed = [task for task in self.tasks.values() if task.get("status") == "ERROR"]
        ended = self.head.get("ended_at")
        if failed:
            run.status, run.ended = "FAILED", float(ended) if is_time(ended) else self.last
            text = str(failed[-1].get("stderr") or "the task ended with an error").strip().splitlines()
            kind, separator, message = text[-1].partition(": ") if text else ("", "", "")
            run.error = [kind, message] if separator and kind.isidentifier() else ["TaskError", " ".join(text)]
            if head and head != "ERROR":
                run.losses.guess(OTHERS, "status", f"the workflow says {head}, but a task says ERROR", 0)
        elif head == "FINISHED" and not statuses & {"RUNNING", "SUBMITTED", "WAITING"}:
            run.status, run.ended = "FINISHED", float(ended) if is_time(ended) else self.last


def _parent(head: Fields) -> str:
    parent = head.get("parent_workflow_id")
    return valid_run_id(str(parent), "flowcept") if parent else ""
