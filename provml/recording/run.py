"""Runs: `provml.record(...)` returns a `Run`, whose methods record what a training used, did and produced.

A run only appends events to its journal: it opens no store and waits for no lock. An error in recording never reaches
the training, unless the run is strict.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from provml.errors import plural
from provml.journal import events, process
from provml.journal.annotations import AnnotationFile, Kind, annotate
from provml.journal.events import MAIN_WRITER, RANK_PREFIX
from provml.journal.redaction import redact_event, redact_urls
from provml.journal.run_files import RUN_ID, HasId
from provml.paths import absolute, default_home
from provml.recording import environment, ids, inherit
from provml.recording.child_runs import find_parent, shorten_name, slugify
from provml.recording.context import CONTEXT
from provml.recording.core import Open, RunCore, Using
from provml.recording.data import Data
from provml.recording.destination import joined_destination, parse_destination
from provml.recording.display import html_table
from provml.recording.encoding import to_text
from provml.recording.exit_status import status_of_exit
from provml.recording.repetition import (
    PACKAGES_NAME,
    PATCH_NAME,
    PATCH_TYPE,
    is_switched_off,
    packages,
    redact_patch,
    uncommitted_changes,
)
from provml.recording.safety import report_errors
from provml.recording.seeds import seeds
from provml.recording.settings import Detail, RunSettings, ShippingSettings, StepKind
from provml.recording.stages import Epoch, Stage, Step
from provml.recording.step_decorator import F, step_or_decorator
from provml.recording.writer import JournalWriter

if TYPE_CHECKING:
    from provml.recording.show import RunCharts
    from provml.remote.shipper import Destination

MODE_VARIABLE = "PROVML_ENERGY"
"""Environment variable that has energy recorded; see `provml.recording.energy`."""
CODE_JOIN_SECONDS = 5.0
"""How long the end of a run waits for the thread that asks git for changed files: as long as git may take for them."""


class Run(RunCore):
    """A run that is being recorded. Use it in a `with` block, or call `finish`. An open run ends with the process.

    Attributes: `id`, `name`, `experiment`, `model`, `home`, `rank`, `detail`, `every`, `strict`, `disabled`,
    `capture_errors`.
    """

    _destination: Destination | None = None
    """The service that the run is shipped to."""

    def __init__(
        self,
        name: str,
        *,
        model: str = "",
        home: str | os.PathLike[str] | None = None,
        run: str | None = None,
        detail: Detail = "batch",
        every: int = 1,
        strict: bool = False,
        workflow: str | os.PathLike[str] | None = None,
        by: str = "",
        study: str = "",
        task: str = "",
        capture_environment: bool = True,
        capture_code: bool = True,
        energy: bool | str = False,
        country: str = "",
        validate: bool = False,
        parent: HasId | str | None = None,
        run_name: str = "",
        shipping: ShippingSettings | None = None,
    ) -> None:
        check_settings(detail, every, run)
        check_switches(
            strict=strict, capture_environment=capture_environment, capture_code=capture_code, validate=validate
        )
        rerun = inherit.RerunTarget.of_process()
        if rerun is not None:
            home, shipping, run = rerun.home, None, rerun.new_id(run)
        destination, spool = parse_destination(home, shipping) if home or shipping else (None, None)
        inherited_id, inherited_home, is_exported = inherit.inherited_run(spool or home)
        if not home and isinstance(parent, Run):
            destination, spool = parent._destination, parent.home
        elif not home and not inherited_home:
            destination, spool = parse_destination(None, shipping)
        home = Path(spool or home or getattr(parent, "home", None) or inherited_home or default_home())
        parent_id, parent_error = find_parent(parent, home)
        if is_exported and inherited_id == parent_id:  # a child of the run that the parent process records
            inherited_id = ""
        launched_id = "" if run or inherited_id or parent_id else inherit.launched_run(to_text(name))
        shared_id = run or inherited_id or launched_id
        if parent_id and parent_id == shared_id:
            raise ValueError(f"A run cannot be its own parent: run and parent are both {parent_id!r}.")
        super().__init__(
            to_text(name),
            model=to_text(model) or to_text(name),
            run_id=shared_id or ids.new_run_id(),
            home=home,
            detail=detail,
            every=every,
            strict=strict,
            validates=validate,
        )
        if launched_id and not self.disabled:
            inherit.log_shared_run(launched_id)
        elif not shared_id and not self.disabled:
            inherit.log_separate_runs()
        is_inherited = is_exported and self.id == inherited_id
        is_begun = is_inherited and (bool(inherited_home) or _has_begun(home / "runs" / self.id))
        is_joined = is_begun or bool(self.rank and shared_id)
        header = events.Header(
            events.VERSION, self.id, MAIN_WRITER, self.name, time.time(), self.model, main=not is_joined
        )
        header.by, header.study, header.task = to_text(by), to_text(study), to_text(task)
        header.run_name, header.parent_run = shorten_name(run_name), parent_id
        header.rerun_of = rerun.repeated_run(self.name) if rerun is not None and not is_joined else ""
        self.name = header.run_name or self.name
        self._is_shared = bool(shared_id)
        self._destination = destination or (joined_destination(home / "runs" / self.id) if shared_id else None)
        self._capture_environment = capture_environment
        self._captures_code = capture_environment and capture_code and not (is_joined or is_switched_off())
        self._begin(header, is_new=not shared_id)
        try:
            if parent_error is not None:
                self._report_error(parent_error)
            if workflow is not None and not self.disabled:
                self.record_workflow(workflow)
            if capture_environment and not self.disabled:
                self._record_environment()
            self._meter_energy(energy, country)
        except BaseException as error:  # the run is strict, and the caller never gets it to finish it
            self.finish(error=error)
            raise

    def _begin(self, header: events.Header, *, is_new: bool = False) -> None:
        """Start the journal of this process."""
        self._code_thread: threading.Thread | None = None
        self._software: dict[str, str] = {}
        self._annotation_file: AnnotationFile | None = None
        self._children: weakref.WeakSet[Run] = weakref.WeakSet()
        self._child_names = Counter[str]()
        self._status = "RUNNING"
        self._cell = CONTEXT.cells.number
        atexit.register(self._at_exit)
        if self.disabled:
            return
        redact_event(header)
        header.pid, header.start_ticks, header.pid_namespace = os.getpid(), process.start_ticks(), process.namespace()
        header.host, header.boot_id = process.host(), process.boot_id()
        self.home = absolute(self.home)
        is_starting = inherit.is_worker_starting()
        if not is_starting:
            self._identify(header)
        self._writer = JournalWriter(
            self.home / "runs" / self.id,
            header,
            strict=self.strict,
            is_new=is_new,
            destination=self._destination,
            identify=self._identify if is_starting else None,
            end_sections=self._end_sections,
        )
        self.id = self._writer.header.run
        self._emit, self._acquire_buffer = self._writer.emit, self._writer.acquire_buffer
        CONTEXT.activate(self)

    def _identify(self, header: events.Header) -> None:
        """Name the journal of this process, which may be a rank.

        A worker of `multiprocessing` that unpickles a run while it starts knows its rank with its first event.
        """
        self.rank = inherit.rank()
        header.rank = self.rank or 0
        if not header.main:
            name = ids.new_writer_id() if self.rank is None else f"{RANK_PREFIX}{inherit.rank_name(self.rank)}"
            header.writer = name

    def _record_environment(self) -> None:
        """Record the environment. Git may be slow, so a thread asks it for changes that were not committed."""
        with report_errors(self):
            event = environment.capture(git_status=False)
            event.seeds = seeds()
            self._emit(event)
            self._software = event.software
            if "git_commit" in event.process or self._captures_code:
                top = event.process.get("git_directory") if "git_commit" in event.process else None
                self._code_thread = threading.Thread(
                    target=self._record_code, args=(top,), name="provml-git", daemon=True
                )
                self._code_thread.start()

    def _meter_energy(self, setting: bool | str, country: str) -> None:
        """Begin to record energy, in the main process only. A meter that is not available is a capture error."""
        if (not setting and MODE_VARIABLE not in os.environ) or self._writer is None or not self._writer.header.main:
            return
        with report_errors(self):
            from provml.recording.energy import EnergyRecorder, chosen_mode, make_meter

            if mode := chosen_mode(setting):
                self._energy = EnergyRecorder(make_meter(mode, country), self._emit)

    def _record_code(self, top: str | None) -> None:
        """Record whether files differ from the commit, and store the patch and the list of installed packages.

        It runs in a thread: an error is counted also if the run is strict, since nobody would catch it.
        """
        with contextlib.suppress(Exception), report_errors(self):
            if top is not None:
                process = {name: value for name, value in environment.code(Path(top)).items() if name == "git_dirty"}
                changes = self._captures_code and uncommitted_changes(Path(top), CODE_JOIN_SECONDS)
                if changes:
                    process["git_diff_sha256"] = changes.sha256
                if process and self._is_open():
                    self._emit(events.Environment(process=process))
                if changes and changes.patch:
                    self._keep_file(redact_patch(changes.patch), PATCH_NAME, PATCH_TYPE)
            if self._captures_code:
                self._keep_file(packages().encode(), PACKAGES_NAME, "text/plain")

    def _keep_file(self, content: bytes, name: str, media_type: str) -> None:
        """Store what describes the code of the run as an artifact, unless the run has ended meanwhile."""
        stored = self._store_content(content) if content and self._is_open() else None
        if stored is not None and self._is_open():
            data = Data(f"sha256:{stored.sha256}", "file", name, sha256=stored.sha256, run_id=self.id)
            self._emit(events.Data(data.ref, "file", name, "", stored.sha256, stored.size, media_type))
            self._emit_artifact(data, content, stored, name=name, media_type=media_type)

    def _record_later_software(self) -> None:
        """Record packages that were imported after the run began."""
        with report_errors(self):
            later = environment.software() if self._captures_code else {}
            new = {name: version for name, version in later.items() if name not in self._software}
            if new:
                self._emit(events.Environment(software=new))

    def _is_open(self) -> bool:
        return self._writer is not None and not self._writer.has_ended

    def record_workflow(self, path: str | os.PathLike[str]) -> None:
        """Record a workflow file, which plans the run."""
        with report_errors(self):
            from provml.workflow import load

            self._emit(events.Workflow(redact_urls(load(Path(path)))))

    def __repr__(self) -> str:
        model = f" model={self.model!r}" if self.model != self.name else ""
        errors = f", {plural(self.capture_errors, 'capture error')}" if self.capture_errors else ""
        return f"<Run {self.id} {self.name!r}{model} {self._state()}{errors}>"

    def _state(self) -> str:
        is_open = self._writer is not None and not self._writer.has_ended and not self._writer.is_suspended
        return "disabled" if self.disabled else "RUNNING" if is_open else self._status

    def show(self) -> RunCharts:
        """Return the curves of the run so far, as the viewer draws them, for a notebook: `run.show()`.

        They are read from the journal: nothing is indexed.
        """
        from provml.recording.show import RunCharts

        return RunCharts.of(self.home / "runs" / self.id, self.id)

    def _repr_html_(self) -> str:
        rows = {
            "model": self.model,
            "status": self._state(),
            "home": self.home,
            "open": ", ".join(section.name for section in list(self._open) if isinstance(section, Step)),
            "capture errors": self.capture_errors,
        }
        return html_table(f"Run {self.id}: {self.name}", rows)

    # ---- the end of a run

    def _end(self, error: BaseException | None) -> None:
        self.finish(error=error)

    def __reduce__(self) -> tuple[Callable[..., Run], tuple[Any, ...]]:
        parent = self._writer.header.writer if self._writer is not None else ""
        settings = self.detail, self.every, self.strict
        return _rejoin, (self.experiment, self.model, *settings, self.id, str(self.home), parent)

    def finish(self, *, error: BaseException | None = None) -> None:
        """End the run and everything that is open in it: FINISHED, or FAILED or INTERRUPTED with the error.

        A run that trained nothing to the end, and whose last act was a training that an exception left, has failed with
        that exception, also if the program caught it.
        """
        if self._writer is not None and self._writer.has_ended:
            return
        try:
            with ExitStack() as stack:
                stack.callback(self._end_sections, error)
                for child in list(self._children):
                    stack.callback(child.finish, error=error)
            if self._energy is not None:
                with report_errors(self):
                    self._energy.finish()
            if self._code_thread is not None:
                self._code_thread.join(CODE_JOIN_SECONDS)
            self._record_later_software()
        finally:
            atexit.unregister(self._at_exit)
            self._keep_long_error(error, "")
            is_failed_by_training = status_of_exit(error)[0] == "FINISHED" and not self._has_trained
            end = events.End(time.time(), *status_of_exit(self._failure if is_failed_by_training else error))
            self._status = end.status
            if self._writer is not None:
                CONTEXT.deactivate(self)
                self._writer.close(end)
        if self._validates and self._writer is not None and self._writer.header.main:
            from provml.recording.validate_on_finish import validate_run

            validate_run(self._writer.folder, self._writer.header.writer, strict=self.strict and error is None)
        if self._destination is not None and self._destination.is_temporary and self._writer is not None:
            from provml.remote.shipper import remove_if_complete

            remove_if_complete(self._writer.folder)

    def _end_sections(self, error: BaseException | None) -> None:
        """End all sections that this process opened, the last one first."""
        with ExitStack() as stack:
            for section in self._own_sections():
                stack.callback(section.done, error=error)

    def _own_sections(self) -> list[Open]:
        """Return the open sections that this process opened."""
        return [section for section, pid in list(self._open.items()) if pid == os.getpid()]

    def _on_cell_error(self, error: BaseException, cell: int) -> None:
        """Say at once that a cell of a notebook raised: its trainings have failed, and so has the run.

        A run that the same cell began has ended, unless it was interrupted: people stop a training and evaluate it in
        the next cell. A run that goes on is RUNNING again from its next event on.
        """
        with report_errors(self):
            for section in self._own_sections():
                section._on_cell_error(error)
            is_failed = self._failure is not None and not self._has_trained
            if not is_failed or self._writer is None or self._writer.has_ended or self._writer.is_suspended:
                return
            if cell == self._cell and not isinstance(error, KeyboardInterrupt):
                self.finish(error=error)
            else:
                end = events.End(time.time(), *status_of_exit(self._failure))
                self._status = end.status
                self._writer.suspend(end)

    def _at_exit(self) -> None:
        """Finish a run that nobody finished, with the exception that ends the process, if there is one."""
        self.finish(error=CONTEXT.exit_watch.exception())

    # ---- child runs

    def child(self, name: str, **settings: Unpack[RunSettings]) -> Run:
        """Begin a run that is a part of this one, such as a trial or a fold: `with run.child("fold 3") as fold:`.

        It belongs to the same experiment and has the settings of this run, unless `settings` has others. It ends with
        this run at the latest.
        """
        own: RunSettings = {
            "model": self.model,
            "home": self.home,
            "detail": "epoch" if self.detail == "epoch" else "batch",
            "every": self.every,
            "strict": self.strict,
            "capture_environment": self._capture_environment,
            "capture_code": False,  # the code is that of this run
            "validate": self._validates,
            "parent": self,
            "run_name": name,
        }
        if self._writer is not None:
            header = self._writer.header
            own |= {"by": header.by, "study": header.study, "task": header.task}
        if self.rank is not None and self._is_shared:  # all ranks have to record the same child
            slug = slugify(name) or "child"
            self._child_names[slug] += 1
            number = self._child_names[slug]
            own["run"] = f"{self.id}.{slug}" if number == 1 else f"{self.id}.{slug}.{number}"
        if self._destination is not None:
            del own["home"]  # the parent has it, with the service that both are shipped to
        own.update(settings)
        child = record(self.experiment, **own)
        self._children.add(child)
        return child

    # ---- annotations

    def tag(self, *tags: str, by: str = "") -> None:
        """Give the run tags, keywords by which it can be found; `by` is the person, by default the one who runs it."""
        self._annotate("tag", tags, by)

    def untag(self, *tags: str, by: str = "") -> None:
        """Remove tags from the run. The graph still states who gave and who removed them."""
        self._annotate("tag", tags, by, removed=True)

    def note(self, text: str, *, by: str = "") -> None:
        """Add a note to the run, a text of one or more lines."""
        self._annotate("note", [text], by)

    def rename(self, name: str, *, by: str = "") -> None:
        """Give the run a name of its own, in place of the name of its experiment."""
        self._annotate("name", [name], by)

    def _annotate(self, kind: Kind, texts: Iterable[Any], by: str, *, removed: bool = False) -> None:
        """Append to the annotations of the run, which are not part of its journal: a run that has ended takes them."""
        if self._writer is None:
            return
        with report_errors(self):
            if self._annotation_file is None:
                self._annotation_file = AnnotationFile(self._writer.folder)
            person = to_text(by) or self._writer.header.by
            names = annotate(self._annotation_file, kind, texts, by=person, removed=removed)
            if kind == "name" and names:
                self.name = names[0]

    # ---- steps before learning

    def curation(self, name: str = "curation", *, using: Using = (), by: str = "", **values: Any) -> Step:
        """Begin a step that curates data."""
        return Step(self, "curation", name, using, values, by=by)

    def preparation(self, name: str = "preparation", *, using: Using = (), by: str = "", **values: Any) -> Step:
        """Begin a step that prepares learning data."""
        return Step(self, "preparation", name, using, values, by=by)

    def filter(self, name: str, *, using: Using = (), by: str = "", **values: Any) -> Step:
        """Begin a filter step; its name is recorded as the parameter `filter_name` too."""
        return Step(self, "filter", name, using, {"filter_name": name, **values}, by=by)

    def split(self, name: str = "split", *, using: Using = (), by: str = "", **values: Any) -> Step:
        """Begin a step that splits a dataset into parts with roles."""
        return Step(self, "split", name, using, values, by=by)

    def extraction(self, name: str = "extraction", *, using: Using = (), by: str = "", **values: Any) -> Step:
        """Begin a feature extraction."""
        return Step(self, "extraction", name, using, values, by=by)

    @overload
    def step(self, name: str, *, using: Using = (), by: str = "", **values: Any) -> Step: ...
    @overload
    def step(self, name: F) -> F: ...
    @overload
    def step(
        self,
        *,
        named: str = "",
        kind: StepKind = "step",
        using: str | Data | Iterable[str | Data] = (),
        producing: str | Iterable[str] = (),
        role: str = "",
        by: str = "",
        **values: Any,
    ) -> Callable[[F], F]: ...
    def step(self, name: Any = None, **options: Any) -> Any:
        """Begin any other data transformation by its name, or record the calls of a function.

        `@run.step` and `@run.step(kind=…, using=…, producing=…)` decorate a function. `using` and `producing` name the
        parameters that are inputs and outputs, `named` the step, and `role` is the role of the outputs.
        """
        return step_or_decorator(self, name, **options)

    def prepared(
        self,
        source: Any,
        *,
        step: str,
        using: Using = (),
        role: str = "",
        name: str = "",
        about: str | Iterable[str] = (),
        store: str = "",
        keep: bool = False,
        **values: Any,
    ) -> Data:
        """Record a preparation step and its output in one call; `keep` stores the output as an artifact."""
        with self.preparation(step, using=using, **values) as preparation:
            return preparation.produced(source, name=name, role=role, about=about, store=store, keep=keep)

    # ---- learning

    def training(self, *, using: Using = (), name: str = "training", by: str = "", **values: Any) -> Stage:
        """Begin a training stage; `values` are its hyperparameters."""
        return Stage(self, "training", name, using, values, by=by)

    def validation(
        self, *, of: Data | None = None, using: Using = (), name: str = "validation", by: str = "", **values: Any
    ) -> Stage:
        """Begin a validation stage, of a model."""
        return Stage(self, "validation", name, using, values, by=by, of=of)

    def evaluation(
        self, *, of: Data | None = None, using: Using = (), name: str = "evaluation", by: str = "", **values: Any
    ) -> Stage:
        """Begin an evaluation (a test) of a model."""
        return Stage(self, "evaluation", name, using, values, by=by, of=of)


def _has_begun(folder: Path) -> bool:
    """Return whether a process has begun the run of a folder; one that chose its id may have recorded nothing."""
    try:
        return (folder / f"{MAIN_WRITER}.jsonl").exists()
    except OSError:  # the writer reports what is wrong with the folder
        return False


def check_settings(detail: str, every: Any, run: str | None) -> None:
    """Reject values that settings of a run cannot have."""
    if detail not in ("epoch", "batch"):
        raise ValueError(f"detail must be 'epoch' or 'batch', not {detail!r}.")
    if not isinstance(every, Real) or every < 1 or every % 1 != 0:
        raise ValueError(f"every must be a whole number of at least 1, not {every!r}.")
    if run is not None and not RUN_ID.fullmatch(run):
        raise ValueError(f"A run id consists of letters, digits, '-', '_' and '.', unlike {run!r}.")


def check_switches(**switches: bool) -> None:
    """Reject switches that are neither on nor off."""
    for name, value in switches.items():
        if value not in (True, False):
            raise ValueError(f"{name} must be True or False, not {value!r}.")


def record(name: str, **settings: Unpack[RunSettings]) -> Run:
    """Begin to record a run: `with provml.record("flowers", model="alexnet") as run:`.

    Settings: `model`, `home`, `run` (its id), `run_name`, `parent` (a run), `detail` ("batch" or "epoch"), `every`
    (record every n-th batch), `strict`, `workflow`, `by`, `study`, `task`, `capture_environment`, `capture_code`,
    `energy`, `country`, `validate` and `shipping`; see `provml.recording.settings.RunSettings`. If `home` is the URL
    of a service, the journal is written here all the same, and a thread sends it there.
    """
    accepted = Run.__init__.__kwdefaults__ or {}
    if unexpected := [setting for setting in settings if setting not in accepted]:
        advice = "Pass hyperparameters to run.training(learning_rate=0.1)."
        raise TypeError(describe_unexpected("record", unexpected, accepted, advice))
    return Run(name, **settings)


def describe_unexpected(function: str, unexpected: Sequence[str], accepted: Iterable[str], advice: str) -> str:
    """Return the message about arguments that a function does not have; `advice` says what to do instead."""
    noun = "an unexpected argument" if len(unexpected) == 1 else "unexpected arguments"
    if suggestions := _similar(unexpected[0], accepted):
        advice = f"Did you mean {suggestions[0]!r}? {advice}"
    return f"{function}() got {noun} {', '.join(map(repr, unexpected))}. {advice}"


def _similar(name: str, names: Iterable[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(name, list(names), 1)


def _rejoin(*state: Any) -> Run:
    """Unpickle a run: the active run of that id, or the same run with a new journal of this process."""
    name, model, detail, every, strict, run_id, home, parent = state
    for active in CONTEXT.active_runs:
        if isinstance(active, Run) and active.id == run_id:
            return active
    run = Run.__new__(Run)
    settings = {"detail": detail, "every": every, "strict": strict, "validates": False}
    RunCore.__init__(run, name, model=model, run_id=run_id, home=Path(home), **settings)
    run._is_shared = run._capture_environment = True
    run._captures_code = False
    run._destination = joined_destination(Path(home) / "runs" / run_id)
    run._begin(events.Header(events.VERSION, run_id, MAIN_WRITER, name, time.time(), model, main=False, parent=parent))
    return run


__all__ = ["Data", "Epoch", "Run", "Stage", "Step", "record"]
