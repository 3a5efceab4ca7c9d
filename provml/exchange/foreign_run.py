"""A run as another tool recorded it: the neutral record that importers fill, before it becomes events."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from provml.exchange.losses import LossReport
from provml.exchange.points import Points
from provml.exchange.typed_text import TypedText
from provml.journal import events
from provml.journal.run_files import RUN_ID

MAX_SLUG_CHARS = 80
MODEL_SUFFIXES = (
    ".h5", ".keras", ".pt", ".pth", ".ckpt", ".onnx", ".pkl", ".pickle", ".joblib", ".safetensors", ".pb", ".tflite",
    ".cbm", ".ubj", ".bst",
)  # fmt: skip


@dataclass
class ForeignData:
    """A dataset that a run used, or produced if `is_output`. `values` are its characteristics."""

    name: str
    role: str = ""
    path: str = ""
    store: str = ""
    sha256: str = ""
    size: int = -1
    media_type: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    is_output: bool = False
    ref: str = ""


@dataclass
class ForeignFile:
    """A file that a run produced; `model` is the ref of the model that it is a part of."""

    name: str
    path: str = ""
    sha256: str = ""
    size: int = -1
    media_type: str = ""
    model: str = ""


@dataclass
class ForeignModel:
    """A model that a run produced, or used if `is_input`."""

    ref: str
    name: str
    path: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    is_input: bool = False


@dataclass
class SourceInfo:
    """Where a run comes from. The digest is that of the files that the run was read from."""

    format: str
    path: Path
    tool: str = ""
    version: str = ""
    sha256: str = ""


@dataclass
class ForeignRun:
    """A run of another tool. Times are in seconds since 1970; `ended` is None if the source has no end.

    `status` is empty if the source does not say how the run ended. `step_kind` is "epoch" or "step" if the source says
    what a step is. With `zero_is_no_step`, the step 0 may mean that the script named no step.
    """

    id: str
    name: str
    source: SourceInfo
    started: float
    model: str = ""
    run_name: str = ""
    study: str = ""
    parent: str = ""
    person: str = ""
    host: str = ""
    task: str = ""
    ended: float | None = None
    status: str = ""
    error: list[str] = field(default_factory=list)
    stage: str = "training"
    params: dict[str, TypedText] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    """Tags that are single words."""
    remarks: list[str] = field(default_factory=list)
    points: Points = field(default_factory=Points)
    finals: dict[str, float] = field(default_factory=dict)
    """Values of the whole run, without a step."""
    datasets: list[ForeignData] = field(default_factory=list)
    files: list[ForeignFile] = field(default_factory=list)
    models: list[ForeignModel] = field(default_factory=list)
    process: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)
    implementation: str = ""
    output: str = ""
    step_kind: str = ""
    step_reason: str = ""
    zero_is_no_step: bool = False
    has_times: bool = True
    losses: LossReport = field(default_factory=LossReport)

    @property
    def last_time(self) -> float:
        """The last sign of life."""
        times = [self.started, self.points.last_time, self.ended if self.ended is not None else self.started]
        return max(time for time in times if time == time)


def slug_of(text: str) -> str:
    """Return a text as a part of an id: ASCII letters, digits, dots and dashes."""
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:MAX_SLUG_CHARS].strip("-.")
    return slug.lstrip("_") or "run"


def run_id(*parts: object, name: str = "") -> str:
    """Return an id that depends on the parts only; it begins with the name, if there is one."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "backslashreplace")).hexdigest()[:12]
    return f"{slug_of(name)}-{digest}" if name else digest


def valid_run_id(text: str, tool: str) -> str:
    """Return an id of another tool as one that is valid here."""
    return text if RUN_ID.fullmatch(text) else run_id(tool, text, name=tool)


def is_model_file(name: str) -> bool:
    """Return whether a file is that of a model, by its suffix."""
    return name.lower().endswith(MODEL_SUFFIXES)


def is_time(value: Any) -> TypeGuard[float]:
    """Return whether a value is a time in seconds since 1970."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and events.MIN_TIME <= value <= events.MAX_TIME
