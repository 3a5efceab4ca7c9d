"""A run told by its events, at times of our choosing, and written as a journal that is like any other."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from provml import event
from provml.rdf.exact import encode_value

ROLES = {"training": "training", "validation": "validation", "evaluation": "test"}


def sha256(content: str) -> str:
    """The hash of what a file holds."""
    return hashlib.sha256(content.encode()).hexdigest()


def held(value: Any) -> event.Value:
    """A value as a journal holds it."""
    if isinstance(value, float) and value - value != 0.0:
        return ["double", "NaN" if value != value else "INF" if value > 0 else "-INF"]
    return value if isinstance(value, (bool, int, float, str)) else encode_value(value)


def values(given: dict[str, Any]) -> event.Values:
    """Values as a journal holds them."""
    return {name: held(value) for name, value in given.items()}


class Tale:
    """One run: its verbs append events, and `now` is its clock."""

    def __init__(
        self,
        run: str,
        name: str,
        began: float,
        *,
        model: str = "",
        by: str = "",
        host: str = "elsewhere",
        writer: str = "main",
        main: bool = True,
        task: str = "",
    ) -> None:
        self.run = run
        self.now = began
        self.events: list[event.AnyEvent] = [
            event.Run(event.VERSION, run, writer, name, began, model or name, main, 1, 0, host, by=by, task=task)
        ]
        self._taken: dict[str, int] = {}
        self._begun: dict[str, float] = {}

    def tell(self, what: event.AnyEvent) -> None:
        """Append an event."""
        self.events.append(what)

    def environment(self, machine: dict[str, Any], around: dict[str, Any], software: dict[str, str]) -> None:
        """Where it ran."""
        self.tell(event.Environment(machine, around, software))

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
        """Data by its content; a model by its name, as the recorder has it."""
        digest = sha256(content or name)
        ref = self._place(name) if kind == "model" else f"sha256:{digest}"
        concepts = [about] if about else []
        size = len(content or name)
        said = values(characteristics)
        self.tell(event.Data(ref, kind, name, path or f"data/{name}", digest, size, "", "", concepts, said))
        return ref

    def used(self, at: str, ref: str, role: str) -> None:
        """A stage or a step used data in a role."""
        self.tell(event.Used(at, ref, role))

    def produced(self, at: str, ref: str, **said: Any) -> str:
        """A stage, a step or a section produced data."""
        self.tell(event.Produced(at, ref, values(said)))
        return ref

    # ---- steps, stages and sections

    def _place(self, name: str) -> str:
        count = self._taken[name] = self._taken.get(name, 0) + 1
        return name if count == 1 else f"{name}-{count}"

    def begin(
        self, kind: str, name: str = "", *, using: list[str] | None = None, role: str = "", by: str = "", **said: Any
    ) -> str:
        """Begin a step or a stage; where it is."""
        at = self._place(name or kind)
        refs = using or []
        self._begun[at] = self.now
        self.tell(event.Begin(at, kind, self.now, name or kind, using=refs, values=values(said), by=by))
        for ref in refs:
            if role or kind in ROLES:
                self.tell(event.Used(at, ref, role or ROLES[kind]))
        return at

    def tell_parameters(self, at: str, **said: Any) -> None:
        """More parameters of a step or a stage."""
        self.tell(event.Parameter(at, values(said)))

    def end(self, at: str, seconds: float | None = None, error: tuple[str, str] | None = None) -> None:
        """End a step, a stage or a section after so many seconds, or now."""
        if seconds is None:
            seconds = self.now - self._begun[at]
        else:
            self.now = self._begun[at] + seconds
        status = "FAILED" if error else "FINISHED"
        self.tell(event.Done(at, self.now, seconds, status, list(error or ())))

    def step(self, kind: str, name: str, *, using: list[str], makes: str, seconds: float = 1.0, **said: Any) -> None:
        """A whole step that makes one thing of others."""
        at = self.begin(kind, name, using=using, **said)
        self.produced(at, makes)
        self.end(at, seconds)

    def section(self, stage: str, index: int, *, during: str = "", kind: str = "epoch") -> str:
        """Begin an epoch."""
        at = f"{stage}/{index}"
        self._begun[at] = self.now
        self.tell(event.Begin(at, kind, self.now, index=index, during=during))
        return at

    def batch(self, at: str, index: int, seconds: float, **measures: Any) -> None:
        """A whole batch."""
        if measures:
            self.tell(event.Measured(f"{at}/{index}", values(measures)))
        self.now += seconds
        self.tell(event.Batch(f"{at}/{index}", self.now, seconds))

    def measured(self, at: str, **measures: Any) -> None:
        """Measures of a stage or a section."""
        self.tell(event.Measured(at, values(measures)))

    def epoch(self, stage: str, index: int, seconds: float, **measures: Any) -> str:
        """A whole epoch without batches."""
        at = self.section(stage, index)
        self.measured(at, **measures)
        self.end(at, seconds)
        return at

    def adapted(
        self, at: str, *, technique: str = "", why: str = "", by: str = "", parameters: Any = None, **changed: Any
    ) -> None:
        """Hyperparameters changed."""
        said = values(parameters or {})
        self.tell(event.Adapted(at, self.now, values(changed), technique, why, by, said))

    def layers(self, stage: str, layers: list[dict[str, Any]]) -> None:
        """The layers of the network."""
        self.tell(event.Layers(stage, layers))

    def finish(self, error: tuple[str, str] | None = None) -> None:
        """The end of the run."""
        self.tell(event.End(self.now, "FAILED" if error else "FINISHED", list(error or ())))

    # ---- the file

    def write(self, home: Path, *, silent_for: float = 0.0) -> Path:
        """Write what is told so far as a journal; `silent_for` says how long ago its writer last gave a sign."""
        first = self.events[0]
        assert isinstance(first, event.Run)
        path = home / "runs" / self.run / f"{first.writer}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(event.encode(what) for what in self.events))
        if silent_for:
            then = path.stat().st_mtime - silent_for
            os.utime(path, (then, then))
        return path
