"""The write side: verbs that read like the training they describe, each an event in the run's journal.

The recorder opens no store and waits for no lock. A fault in capture never reaches the training, unless `strict`.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from numbers import Real
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload

from provml import content, environment, event, process
from provml.content import Data, held, parameter, text
from provml.event import MAIN, RANK
from provml.known import Known
from provml.resources import absolute, default_home
from provml.sections import Epoch, Stage, Step, Using
from provml.seed import seeds
from provml.step import F, make
from provml.writer import Writer, new_run_id, new_writer_id

LAST_GIT_SECONDS = 0.25
"""How long the end of a run waits for git to say whether files were changed."""


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
        validate: bool = False,
    ) -> None:
        if detail not in ("epoch", "batch"):
            raise ValueError(f"detail is 'epoch' or 'batch', not {detail!r}")
        step: Any = every  # as users give it
        if not isinstance(step, Real) or step < 1 or step % 1 != 0:
            raise ValueError(f"every is a whole number from 1 on, not {every!r}")
        if run is not None and not process.RUN_ID.fullmatch(run):
            raise ValueError(f"a run's id is of letters, digits, '-', '_' and '.', not {run!r}")
        given, given_home, joined = process.handed_down(home)
        self.name, self.model = text(name), text(model) or text(name)
        self.detail, self.every, self.strict, self.validates = detail, every, strict, validate
        self.id = run or given or new_run_id()
        self.home, self.rank = Path(home or given_home or default_home()), process.rank()
        first = event.Run(
            v=event.VERSION,
            run=self.id,
            writer=MAIN,
            name=self.name,
            t=time.time(),
            model=self.model,
            main=not ((joined and self.id == given) or (self.rank and (run or given))),
            by=text(by),
            study=text(study),
            task=text(task),
        )
        self._begin(first, is_new=not (run or given))
        try:
            if workflow is not None and not self.off:
                self.tell_workflow(workflow)
            if capture_environment and not self.off:
                self._tell_environment()
        except BaseException as error:  # it is strict, and nobody will hold this run to end it
            self.finish(error=error)
            raise

    def _begin(self, first: event.Run, *, is_new: bool = False) -> None:
        """Begin to write this run's events in this process."""
        self.off = os.environ.get("PROVML_DISABLED", "").lower() not in ("", "0", "false", "no")
        self._taken, self._count = dict[str, object](), dict[str, int]()
        self._open, self.known = dict[Any, int](), Known()
        self._git: threading.Thread | None = None
        self._writer: Writer | None = None
        atexit.register(self._at_exit)
        if self.off:
            return
        first.pid, first.born, first.ns = os.getpid(), process.born(), process.namespace()
        first.host, first.boot, first.rank = process.host(), process.boot_id(), self.rank or 0
        if not first.main:
            first.writer = new_writer_id() if self.rank is None else f"{RANK}{self.rank}"
        self.home = absolute(self.home)
        self._writer = Writer(self.home / "runs" / self.id, first, strict=self.strict, is_new=is_new)
        self.id = self._writer.first.run
        self.tell, self.slate = self._writer.tell, self._writer.slate
        _begun(self)

    def _tell_environment(self) -> None:
        """Where it runs; git is asked beside the training whether files were changed, since that may take a while."""
        try:
            around = environment.capture(git_status=False)
            around.seeds = seeds()
            self.tell(around)
            if "git_commit" in around.around:
                self._git = threading.Thread(target=self._ask_git, name="provml-git", daemon=True)
                self._git.start()
        except Exception as error:
            self.fault(error)

    def _ask_git(self) -> None:
        dirty = environment.code().get("git_dirty")
        if dirty is not None and self._writer is not None and not self._writer.has_ended:
            self.tell(event.Environment(around={"git_dirty": dirty}))

    # ---- life

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(error=error)

    def __reduce__(self) -> tuple[Callable[..., Recorder], tuple[Any, ...]]:
        parent = self._writer.first.writer if self._writer is not None else ""
        return _rejoin, (self.name, self.model, self.detail, self.every, self.strict, self.id, str(self.home), parent)

    def finish(self, *, error: BaseException | None = None) -> None:
        """End the run, and what is still open in it: FINISHED, or FAILED with the error."""
        if self._writer is not None and self._writer.has_ended:
            return
        try:
            with ExitStack() as ends:  # the last that was opened first, and all of them
                for one in [one for one, pid in list(self._open.items()) if pid == os.getpid()]:
                    ends.callback(one.done, error=error)
            if self._git is not None:
                self._git.join(LAST_GIT_SECONDS)
        finally:
            atexit.unregister(self._at_exit)
            if self._writer is not None:
                _ended(self)
                self._writer.close(event.End(time.time(), *process.ending(error)))
        if self.validates and self._writer is not None and self._writer.first.main:
            from provml.lift import trial

            trial.hold(self._writer.folder, self._writer.first.writer, strict=self.strict and error is None)

    def _at_exit(self) -> None:
        """The process ends and nobody called `finish`: an uncaught exception, if there was one, tells how."""
        self.finish(error=process.ended_by())

    def is_open(self, one: Any) -> None:
        """A step or a capture began: it is `done` when the run ends, if nothing ends it before."""
        self._open[one] = os.getpid()

    def is_done(self, one: Any) -> None:
        """It ended."""
        self._open.pop(one, None)

    @property
    def faults(self) -> int:
        """How often capture itself failed."""
        return self._writer.faults if self._writer is not None else 0

    tell: Callable[[event.Event], bool] = staticmethod(lambda what: True)
    """Append an event; every verb ends here. Where recording is off, nothing happens."""

    def fault(self, error: Exception) -> None:
        """Count a fault of capture."""
        if self._writer is not None:
            self._writer.fault(error)

    def place(self, name: str) -> str:
        """A path for a stage or a step: its name, with a number from the second on, and what sets this writer apart."""
        slug = "".join(c if c.isalnum() or c in "._-" else "-" for c in text(name)).strip("-.") or "step"
        suffix = self._writer.suffix if self._writer else ""
        count = self._count.get(slug, 0) + 1
        mine = object()
        while True:  # threads and names that look numbered may have taken it
            path = (slug if count == 1 else f"{slug}-{count}") + suffix
            if self._taken.setdefault(path, mine) is mine:
                self._count[slug] = count
                return path
            count += 1

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
        try:
            path = os.fsdecode(source) if isinstance(source, (str, os.PathLike)) else ""
            name = text(name) or (Path(path).name if path else kind)
            if self.off:
                return Data("", kind, name, role, path)
            sha256, size = "", -1
            try:
                sha256, size = content.of(source, is_here=not store) or (sha256, size)
            except Exception as error:
                self.fault(error)
            own = name if kind == "model" else f"{kind}-{name}"
            ref = f"sha256:{sha256}" if sha256 and kind != "model" else self.place(own)
            concepts = [text(about)] if isinstance(about, str) else [text(one) for one in about or ()]
            said = text(media), text(store), concepts, self.values(values)
            self.tell(event.Data(ref, kind, name, path, sha256, size, *said))
            return self.known.add(source, Data(ref, kind, name, content.role(role), path, sha256))
        except Exception as error:
            self.fault(error)
            return Data("", kind, text(name), text(role))

    def data_in(self, given: Any) -> list[Data]:
        """The data among what a verb was given to use; what the recorder did not make is a fault."""
        kept: list[Data] = []
        if given is None or self.off:
            return kept
        try:
            for one in [given] if isinstance(given, (Data, str, os.PathLike)) else given:
                if isinstance(one, Data):
                    kept += [one] if one.ref else []
                else:
                    wanted = "what run.dataset(…) or produced(…) gave"
                    self.fault(TypeError(f"{one!r} ({type(one).__name__}) is no data of a run; give {wanted}"))
        except Exception as error:
            self.fault(error)
        return kept

    def values(self, given: dict[str, Any]) -> event.Values:
        """Values as a journal holds them; one that it cannot hold is a fault and left out, None is left out."""
        kept, wrong = held(given, parameter)
        for error in wrong:
            self.fault(error)
        return kept

    # ---- steps before learning

    def curation(self, name: str = "curation", *, using: Using = (), by: str = "", **values: Any) -> Step:
        """A step of data curation."""
        return Step(self, "curation", name, using, values, by)

    def preparation(self, name: str = "preparation", *, using: Using = (), by: str = "", **values: Any) -> Step:
        """A step that prepares learning data."""
        return Step(self, "preparation", name, using, values, by)

    def filter(self, name: str, *, using: Using = (), by: str = "", **values: Any) -> Step:
        """A filter on the data."""
        return Step(self, "filter", name, using, {"filter_name": name, **values}, by)

    def split(self, name: str = "split", *, using: Using = (), by: str = "", **values: Any) -> Step:
        """A split of a dataset into parts with roles."""
        return Step(self, "split", name, using, values, by)

    def extraction(self, name: str = "extraction", *, using: Using = (), by: str = "", **values: Any) -> Step:
        """A feature extraction."""
        return Step(self, "extraction", name, using, values, by)

    @overload
    def step(self, name: str, *, using: Using = (), by: str = "", **values: Any) -> Step: ...
    @overload
    def step(self, name: F) -> F: ...
    @overload
    def step(self, **said: Any) -> Callable[[F], F]: ...
    def step(self, name: Any = None, **said: Any) -> Any:
        """Any other data transformation, by its name; or a function's calls: `@run.step`, see `provml.step`."""
        return make(self, name, **said)

    def prepared(
        self,
        source: Any,
        *,
        by: str,
        using: Using = (),
        role: str = "",
        name: str = "",
        about: str | Iterable[str] = (),
        store: str = "",
        **values: Any,
    ) -> Data:
        """Data that a preparation made: the step and its output in one line."""
        with self.preparation(by, using=using, **values) as step:
            return step.produced(source, name=name, role=role, about=about, store=store)

    # ---- learning

    def training(self, *, using: Using = (), name: str = "training", by: str = "", **values: Any) -> Stage:
        """A training stage with its hyperparameters."""
        return Stage(self, "training", name, using, values, by)

    def validation(
        self, *, of: Data | None = None, using: Using = (), name: str = "validation", by: str = "", **values: Any
    ) -> Stage:
        """A validation stage."""
        return Stage(self, "validation", name, using, values, by, of=of)

    def evaluation(
        self, *, of: Data | None = None, using: Using = (), name: str = "evaluation", by: str = "", **values: Any
    ) -> Stage:
        """An evaluation (a test) of a model."""
        return Stage(self, "evaluation", name, using, values, by, of=of)

    def tell_workflow(self, path: str | os.PathLike[str]) -> None:
        """The prospective side, from a workflow file."""
        try:
            from provml.workflow import load

            self.tell(event.Workflow(load(Path(path))))
        except Exception as error:
            self.fault(error)


def record(name: str, **settings: Any) -> Recorder:
    """Record a run: `with provml.record("flowers", model="alexnet") as run:`. Settings are those of `Recorder`."""
    known: dict[str, Any] = Recorder.__init__.__kwdefaults__ or {}
    if strange := [one for one in settings if one not in known]:
        said = f"a run has no setting {', '.join(strange)}; there are {', '.join(known)}"
        raise TypeError(f"{said}. What a training is given is said there: run.training(learning_rate=0.1).")
    return Recorder(name, **settings)


# ---- one run in many processes

_running: list[Recorder] = []


def _begun(run: Recorder) -> None:
    """Hand a run down to child processes, and watch how this one ends."""
    _running.append(run)
    process.watch_exit()
    process.hand_down(run.id, run.home)


def _ended(run: Recorder) -> None:
    """Hand down the run that was begun before it and still goes on, if there is one."""
    if run in _running:
        _running.remove(run)
    if _running:
        process.hand_down(_running[-1].id, _running[-1].home)
    else:
        process.hand_down_no_more()
        process.unwatch_exit()


def _rejoin(name: str, model: str, detail: str, every: int, strict: bool, run: str, home: str, parent: str) -> Recorder:
    """A recorder that was sent to another process, or copied: the same run, with a journal of this process's own."""
    for known in _running:
        if known.id == run:
            return known
    joined = Recorder.__new__(Recorder)
    joined.name, joined.model, joined.detail, joined.every, joined.strict = name, model, detail, every, strict
    joined.id, joined.home, joined.rank, joined.validates = run, Path(home), process.rank(), False
    joined._begin(event.Run(event.VERSION, run, MAIN, name, time.time(), model, main=False, parent=parent))
    return joined


__all__ = ["Data", "Epoch", "Recorder", "Stage", "Step", "record"]
