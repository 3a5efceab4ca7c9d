"""A builder of journals: a run as a list of events, with chosen times."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from provml.journal import events as event
from provml.rdf.json_values import encode_value

ROLES = {"training": "training", "validation": "validation", "evaluation": "test"}


def sha256(content: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(content.encode()).hexdigest()


def encode_number(value: Any) -> event.Value:
    """Return a value as a journal has it."""
    if isinstance(value, float) and value - value != 0.0:
        return ["double", "NaN" if value != value else "INF" if value > 0 else "-INF"]
    return value if isinstance(value, (bool, int, float, str)) else encode_value(value)


def values(fields: dict[str, Any]) -> event.Values:
    """Return values as a journal has them."""
    return {name: encode_number(value) for name, value in fields.items()}


class JournalBuilder:
    """One run. Methods append events; `now` is its clock, in seconds since 1970."""

    def __init__(
        self,
        run: str,
        name: str,
        started: float,
        *,
        model: str = "",
        by: str = "",
        host: str = "elsewhere",
        writer: str = "main",
        main: bool = True,
        task: str = "",
    ) -> None:
        self.run = run
        self.now = started
        self.events: list[event.AnyEvent] = [
            event.Header(event.VERSION, run, writer, name, started, model or name, main, 1, 0, host, by=by, task=task)
        ]
        self._taken: dict[str, int] = {}
        self._begun: dict[str, float] = {}

    def append(self, item: event.AnyEvent) -> None:
        """Append an event."""
        self.events.append(item)

    def environment(self, machine: dict[str, Any], around: dict[str, Any], software: dict[str, str]) -> None:
        """Add the environment."""
        self.append(event.Environment(machine, around, software))

    # ---- data

    def data(
        self,
        name: str,
        content: str = "",
        *,
        kind: str = "dataset",
        about: str = "",
        path: str = "",
        **characteristics: Any,
    ) -> str:
        """Add data, identified by its content; a model by its name, as a run does."""
        digest = sha256(content or name)
        ref = self._place(name) if kind == "model" else f"sha256:{digest}"
        concepts = [about] if about else []
        size = len(content or name)
        fields = values(characteristics)
        self.append(event.Data(ref, kind, name, path or f"data/{name}", digest, size, "", "", concepts, fields))
        return ref

    def used(self, at: str, ref: str, role: str) -> None:
        """Let a stage or a step use data in a role."""
        self.append(event.Used(at, ref, role))

    def produced(self, at: str, ref: str, **fields: Any) -> str:
        """Let a stage, a step or a section produce data."""
        self.append(event.Produced(at, ref, values(fields)))
        return ref

    # ---- steps, stages and sections

    def _place(self, name: str) -> str:
        count = self._taken[name] = self._taken.get(name, 0) + 1
        return name if count == 1 else f"{name}-{count}"

    def begin(
        self, kind: str, name: str = "", *, using: list[str] | None = None, role: str = "", by: str = "", **fields: Any
    ) -> str:
        """Begin a step or a stage and return its location."""
        at = self._place(name or kind)
        refs = using or []
        self._begun[at] = self.now
        self.append(event.Begin(at, kind, self.now, name or kind, using=refs, values=values(fields), by=by))
        for ref in refs:
            if role or kind in ROLES:
                self.append(event.Used(at, ref, role or ROLES[kind]))
        return at

    def add_parameters(self, at: str, **fields: Any) -> None:
        """Add parameters of a step or a stage."""
        self.append(event.Parameter(at, values(fields)))

    def end(self, at: str, seconds: float | None = None, error: tuple[str, str] | None = None) -> None:
        """End a step, a stage or a section, `seconds` after its start or now."""
        if seconds is None:
            seconds = self.now - self._begun[at]
        else:
            self.now = self._begun[at] + seconds
        status = "FAILED" if error else "FINISHED"
        self.append(event.Done(at, self.now, seconds, status, list(error or ())))

    def step(self, kind: str, name: str, *, using: list[str], makes: str, seconds: float = 1.0, **fields: Any) -> None:
        """Add a complete step that produces data from other data."""
        at = self.begin(kind, name, using=using, **fields)
        self.produced(at, makes)
        self.end(at, seconds)

    def section(self, stage: str, index: int, *, during: str = "", kind: str = "epoch") -> str:
        """Begin an epoch."""
        at = f"{stage}/{index}"
        self._begun[at] = self.now
        self.append(event.Begin(at, kind, self.now, index=index, parent=during))
        return at

    def batch(self, at: str, index: int, seconds: float, **measures: Any) -> None:
        """Add a complete batch."""
        if measures:
            self.append(event.Measured(f"{at}/{index}", values(measures)))
        self.now += seconds
        self.append(event.BatchEnd(f"{at}/{index}", self.now, seconds))

    def measured(self, at: str, **measures: Any) -> None:
        """Add measures of a stage or a section."""
        self.append(event.Measured(at, values(measures)))

    def epoch(self, stage: str, index: int, seconds: float, **measures: Any) -> str:
        """Add a complete epoch without batches."""
        at = self.section(stage, index)
        self.measured(at, **measures)
        self.end(at, seconds)
        return at

    def adapted(
        self, at: str, *, technique: str = "", why: str = "", by: str = "", parameters: Any = None, **changed: Any
    ) -> None:
        """Change hyperparameters."""
        fields = values(parameters or {})
        self.append(event.Adapted(at, self.now, values(changed), technique, why, by, fields))

    def layers(self, stage: str, layers: list[dict[str, Any]]) -> None:
        """Add the layers of the network."""
        self.append(event.Layers(stage, layers))

    def finish(self, error: tuple[str, str] | None = None) -> None:
        """End the run."""
        self.append(event.End(self.now, "FAILED" if error else "FINISHED", list(error or ())))

    # ---- the file

    def write(self, home: Path, *, silent_for: float = 0.0) -> Path:
        """Write the events so far as a journal, last modified `silent_for` seconds ago."""
        first = self.events[0]
        assert isinstance(first, event.Header)
        path = home / "runs" / self.run / f"{first.writer}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(event.encode(item) for item in self.events))
        if silent_for:
            then = path.stat().st_mtime - silent_for
            os.utime(path, (then, then))
        return path
