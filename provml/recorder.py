"""The write side: verbs that read like the training they describe, each an event in the run's journal.

The recorder opens no store and waits for no lock. A fault in capture never reaches the training, unless `strict`.
"""

from __future__ import annotations

import atexit
import os
import platform
import secrets
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from provml import content, environment, event
from provml.process import boot_id
from provml.resources import default_home
from provml.sections import Epoch, Stage, Step, jsonable
from provml.writer import Writer, new_writer_id


class Data:
    """A dataset, a file, a set of features or a model, as the recorder knows it."""

    __slots__ = ("kind", "name", "path", "ref", "role", "sha256")

    def __init__(self, ref: str, kind: str, name: str, role: str = "", path: str = "", sha256: str = "") -> None:
        self.ref = ref
        self.kind = kind
        self.name = name
        self.role = role
        self.path = path
        self.sha256 = sha256

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


class Recorder:
    """One run as it is recorded. Use it in a `with`, or call `finish` (at the latest, the end of the process does)."""

    def __init__(
        self,
        name: str,
        *,
        model: str = "",
        home: str | os.PathLike[str] | None = None,
        run: str | None = None,
        detail: str = "batch",
        every: int = 1,
        strict: bool = False,
        workflow: str | os.PathLike[str] | None = None,
        by: str = "",
        study: str = "",
        task: str = "",
        capture_environment: bool = True,
    ) -> None:
        if detail not in ("epoch", "batch"):
            raise ValueError(f"detail is 'epoch' or 'batch', not {detail!r}")
        if every < 1:
            raise ValueError(f"every is 1 or more, not {every!r}")
        self.name = name
        self.model = model or name
        self.detail = detail
        self.every = every
        self.off = os.environ.get("PROVML_DISABLED", "") not in ("", "0")
        self._taken: dict[str, int] = {}
        self._writer: Writer | None = None
        joined, joined_home = _joined()
        self.id = run or joined or new_run_id()
        self.home = Path(home or joined_home or default_home())
        self.rank = int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or 0)
        if self.off:
            return
        first = event.Run(
            v=event.VERSION,
            run=self.id,
            writer=new_writer_id(),
            name=name,
            t=time.time(),
            model=self.model,
            main=not joined,
            pid=os.getpid(),
            host=platform.node(),
            boot=boot_id(),
            rank=self.rank,
            by=by,
            study=study,
            task=task,
        )
        self._writer = Writer(self.home.resolve() / "runs" / self.id, first, strict=strict)
        if not joined:
            os.environ["PROVML_RUN"] = f"{self.id}@{os.getpid()}@{self.home.resolve()}"
        if workflow is not None:
            self.tell_workflow(workflow)
        if capture_environment:
            self.tell(environment.capture(git_status=False))
        atexit.register(self._at_exit)

    # ---- life

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(error=error)

    def finish(self, *, error: BaseException | None = None) -> None:
        """End the run: FINISHED, or FAILED with the error."""
        if self._writer is None:
            return
        status = "FINISHED" if error is None else "FAILED"
        said = [] if error is None else [type(error).__name__, str(error)[:2000]]
        self._writer.close(event.End(time.time(), status, said))
        atexit.unregister(self._at_exit)
        if os.environ.get("PROVML_RUN", "").startswith(f"{self.id}@{os.getpid()}@"):
            del os.environ["PROVML_RUN"]

    def _at_exit(self) -> None:
        """The process ends and nobody called `finish`: an uncaught exception, if there was one, tells how."""
        last = getattr(sys, "last_value", None)
        self.finish(error=last if isinstance(last, BaseException) else None)

    @property
    def faults(self) -> int:
        """How often capture itself failed."""
        return self._writer.faults if self._writer is not None else 0

    def tell(self, what: event.Event) -> None:
        """Append an event; every verb ends here."""
        if self._writer is not None:
            self._writer.tell(what)

    def fault(self, error: Exception) -> None:
        """Count a fault of capture."""
        if self._writer is not None:
            self._writer.fault(error)

    def place(self, name: str) -> str:
        """A path for a stage or a step: its name, with a number from the second on, and the rank where there is one."""
        slug = "".join(c if c.isalnum() or c in "._-" else "-" for c in name).strip("-") or "step"
        count = self._taken[slug] = self._taken.get(slug, 0) + 1
        numbered = slug if count == 1 else f"{slug}-{count}"
        return f"{numbered}@{self.rank}" if self.rank else numbered

    # ---- data

    def dataset(
        self,
        source: Any,
        *,
        role: str = "",
        name: str = "",
        about: str | Iterable[str] = (),
        store: str = "",
        media_type: str = "",
        **characteristics: Any,
    ) -> Data:
        """A dataset or a file that the run has to do with, known by its whole content."""
        return self.refer("dataset", source, role, name, about, store, media_type, characteristics)

    def features(self, source: Any, *, name: str = "", role: str = "", **characteristics: Any) -> Data:
        """A set of features."""
        return self.refer("features", source, role, name, (), "", "", characteristics)

    def refer(
        self,
        kind: str,
        source: Any,
        role: str,
        name: str,
        about: str | Iterable[str],
        store: str,
        media: str,
        values: dict[str, Any],
    ) -> Data:
        """Make data known: where it is, what it is known by, what it is about."""
        path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
        name = name or (Path(path).name if path else kind)
        if self.off:
            return Data("", kind, name, role, path)
        known = None
        try:
            known = content.of(source)
        except OSError as error:
            self.fault(error)
        sha256 = known.sha256 if known else ""
        if kind == "model" or not sha256:
            ref = self.place(f"{kind}-{name}" if kind != "model" else name)
        else:
            ref = f"sha256:{sha256}"
        concepts = [about] if isinstance(about, str) else list(about)
        size = known.size if known else -1
        self.tell(event.Data(ref, kind, name, path, sha256, size, media, store, concepts, self.values(values)))
        return Data(ref, kind, name, role, path, sha256)

    def values(self, given: dict[str, Any]) -> event.Values:
        """Values as a journal holds them; one that it cannot hold is a fault, and left out."""
        kept: event.Values = {}
        for name, value in given.items():
            try:
                kept[name] = jsonable(value)
            except (TypeError, ValueError) as error:
                self.fault(error)
        return kept

    # ---- steps before learning

    def curation(
        self, name: str = "curation", *, using: Iterable[Data] | Data = (), by: str = "", **values: Any
    ) -> Step:
        """A step of data curation."""
        return Step(self, "curation", name, using, values, by)

    def preparation(
        self, name: str = "preparation", *, using: Iterable[Data] | Data = (), by: str = "", **values: Any
    ) -> Step:
        """A step that prepares learning data."""
        return Step(self, "preparation", name, using, values, by)

    def filter(self, name: str, *, using: Iterable[Data] | Data = (), by: str = "", **values: Any) -> Step:
        """A filter on the data."""
        return Step(self, "filter", name, using, {"filter_name": name, **values}, by)

    def split(self, name: str = "split", *, using: Iterable[Data] | Data = (), by: str = "", **values: Any) -> Step:
        """A split of a dataset into parts with roles."""
        return Step(self, "split", name, using, values, by)

    def extraction(
        self, name: str = "extraction", *, using: Iterable[Data] | Data = (), by: str = "", **values: Any
    ) -> Step:
        """A feature extraction."""
        return Step(self, "extraction", name, using, values, by)

    def step(self, name: str, *, using: Iterable[Data] | Data = (), by: str = "", **values: Any) -> Step:
        """Any other data transformation."""
        return Step(self, "step", name, using, values, by)

    def prepared(
        self, source: Any, *, by: str, using: Iterable[Data] | Data = (), role: str = "", **values: Any
    ) -> Data:
        """Data that a preparation made: the step and its output in one line."""
        with self.preparation(by, using=using, **values) as step:
            return step.produced(source, role=role)

    # ---- learning

    def training(self, *, using: Iterable[Data] | Data = (), name: str = "training", **values: Any) -> Stage:
        """A training stage with its hyperparameters."""
        return Stage(self, "training", name, using, values)

    def validation(
        self, *, of: Data | None = None, using: Iterable[Data] | Data = (), name: str = "validation", **values: Any
    ) -> Stage:
        """A validation stage."""
        return Stage(self, "validation", name, using, values, of=of)

    def evaluation(
        self, *, of: Data | None = None, using: Iterable[Data] | Data = (), name: str = "evaluation", **values: Any
    ) -> Stage:
        """An evaluation (a test) of a model."""
        return Stage(self, "evaluation", name, using, values, of=of)

    def tell_workflow(self, path: str | os.PathLike[str]) -> None:
        """The prospective side, from a workflow file."""
        from provml.workflow import load

        self.tell(event.Workflow(load(Path(path))))


def record(name: str, **settings: Any) -> Recorder:
    """Record a run: `with provml.record("flowers", model="alexnet") as run:`. Settings are those of `Recorder`."""
    return Recorder(name, **settings)


def new_run_id() -> str:
    """A run's id: when it began, and something that no other has. Ids sort by time."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def _joined() -> tuple[str, str]:
    """The run and home that another process handed down, or nothing."""
    run, _, rest = os.environ.get("PROVML_RUN", "").partition("@")
    pid, _, home = rest.partition("@")
    if not run or pid == str(os.getpid()):
        return "", ""
    return run, home


__all__ = ["Data", "Epoch", "Recorder", "Stage", "Step", "record"]
