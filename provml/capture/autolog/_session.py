"""What autolog records into: the run of the script, and one capture for each framework."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from provml.capture.base import CaptureBase
from provml.recording.context import CONTEXT
from provml.recording.run import Run, record
from provml.recording.settings import BaseSettings

SILENT = "PROVML_AUTOLOG_SILENT"
"""The variable by which processes that a recorded training starts know that they are a part of it."""


class Session:
    """The state of autolog in this process.

    Records go into the innermost open run, whoever began it: a script is one run. If none is open, the first training
    begins one.
    """

    def __init__(self, name: str = "", run: Run | str | None = None, settings: BaseSettings | None = None) -> None:
        self.is_active = True
        self.pid = os.getpid()
        self.parameters: dict[str, Any] = {}
        """Hyperparameters of the script, such as its command line, for the trainings of the run."""
        self.on_run: list[Callable[[Run], None]] = []
        """Called with each run that a training is about to be recorded in, the first time."""
        self.torch_observer: Any = None
        """The observer of PyTorch, which sees losses and loaders of loops with other optimizers, too."""
        self.other_optimizers: list[type] = []
        """Classes of optimizers that are not PyTorch's, whose steps are recorded."""
        self._name = name
        self._run_id = run if isinstance(run, str) else None
        self._fixed_run = run if isinstance(run, Run) else None
        self._settings: BaseSettings = settings or {}
        self._own_run: Run | None = None
        self._captures: dict[tuple[int, str], CaptureBase] = {}
        self._seen_runs: set[str] = set()
        self._owners = 0
        self._is_silent_child = False
        self._logged: set[str] = set()
        self._local = threading.local()

    # ---- runs and captures

    def run(self) -> Run | None:
        """Return the run to record into; None if nothing is recorded now."""
        if not self.is_active or not self._is_own_process():
            return None
        run = self._open_run()
        if run.disabled:
            return None
        if run.id not in self._seen_runs:
            self._seen_runs.add(run.id)
            for function in self.on_run:
                function(run)
        return run

    def _open_run(self) -> Run:
        active = [run for run in CONTEXT.active_runs if isinstance(run, Run)]
        own: Run | None = getattr(self._local, "run", None)
        if own is not None and (own in active or own.disabled):
            return own
        if self._fixed_run is not None and (self._fixed_run in active or self._fixed_run.disabled):
            children = [run for run in active if run in self._fixed_run._children]
            return children[-1] if children else self._fixed_run
        if active:
            return active[-1]
        if self._own_run is not None and self._own_run.disabled:
            return self._own_run
        name = self._name or os.path.splitext(os.path.basename(sys.argv[0]))[0] or "training"  # noqa: PTH119, PTH122
        self._own_run = record(name, run=self._run_id, **self._settings)
        self._run_id = None  # a second run, after the user finished the first, needs an id of its own
        return self._own_run

    def capture(self, framework: str, module: str = "", **settings: Any) -> Any:
        """Return the capture of a framework for the run; None if nothing is recorded now.

        A capture that the user made for the same run is used, so that both know the same models.
        """
        run = self.run()
        if run is None:
            return None
        kind = import_module(module or f"provml.capture.{framework}").Capture
        key = id(run), framework
        capture = self._captures.get(key)
        if capture is None or capture.run is not run:
            explicit = [item for item in run._open if isinstance(item, kind)]
            capture = self._captures[key] = (
                explicit[-1] if explicit else kind(run=run, parameters=self._all_parameters(), **settings)
            )
            self._captures = {key: item for key, item in self._captures.items() if item.run in CONTEXT.active_runs}
        return capture

    def has_capture(self, framework: str) -> bool:
        """Return whether something of a framework was recorded in this process."""
        return self._is_own_process() and any(name == framework for _, name in self._captures)

    def record_model_file(self, framework: str, model: Any, path: Any) -> None:
        """Record the file of a model that the capture of a framework knows, saved after its training."""
        if self.is_busy or path is None or not self.has_capture(framework):
            return
        capture = self.capture(framework)
        if capture is not None and capture.stage is None and capture.models.lookup(model) is not None:
            capture.record_saved_object(model, path)

    def finish(self) -> None:
        """End what autolog began: its captures, and its run unless the user began it."""
        captures, self._captures = list(self._captures.values()), {}
        error = sys.exc_info()[1]
        if self._is_own_process():
            for capture in captures:
                capture.done(error=error)
            if self._own_run is not None:
                self._own_run.finish(error=error)

    def take_losses(self) -> list[Any]:
        """Return the losses of the backward passes on PyTorch since the last step."""
        losses: list[Any] = self.torch_observer.take_losses() if self.torch_observer is not None else []
        return losses

    def current_pass(self) -> Any:
        """Return the pass over a loader of PyTorch that gave the last batch of the training; None if there is none."""
        return self.torch_observer.training_pass if self.torch_observer is not None else None

    # ---- who records

    @property
    def is_busy(self) -> bool:
        """Whether a training is being recorded as a whole: what happens inside is a part of it."""
        return self._owners > 0 or not self.is_active

    @contextmanager
    def owning(self) -> Iterator[None]:
        """Record the block as a whole: the frameworks that are used inside record nothing of their own.

        The count is one for the process: a fit may use several threads.
        """
        self._owners += 1
        if self._owners == 1:
            os.environ[SILENT] = "1"
        if self.torch_observer is not None:
            self.torch_observer.steady.thread = 0  # its next call asks who records
        try:
            yield
        finally:
            self._owners -= 1
            if not self._owners:
                os.environ.pop(SILENT, None)

    @contextmanager
    def recording_into(self, run: Run, parameters: Callable[[], dict[str, Any]]) -> Iterator[None]:
        """Record the trainings of the block, in this thread, into a run, with more hyperparameters."""
        previous = getattr(self._local, "run", None), getattr(self._local, "parameters", None)
        self._local.run, self._local.parameters = run, parameters
        try:
            yield
        finally:
            self._local.run, self._local.parameters = previous

    def captures_of(self, run: Run) -> list[CaptureBase]:
        """Return the captures that record into a run."""
        return [capture for capture in self._captures.values() if capture.run is run]

    def _all_parameters(self) -> dict[str, Any]:
        """Return the hyperparameters that the script stated, and those of the trial."""
        function = getattr(self._local, "parameters", None)
        return self.parameters | (function() if function is not None else {})

    def _is_own_process(self) -> bool:
        """Return whether this process may record.

        A forked child starts without captures, and stays silent if it was forked by a training that is recorded.
        """
        if self.pid != os.getpid():
            self._is_silent_child = self._is_silent_child or self._owners > 0
            self.pid, self._owners, self._captures, self._own_run = os.getpid(), 0, {}, None
        return not self._is_silent_child

    # ---- errors

    def report(self, error: Exception) -> None:
        """Report an error of autolog: as a capture error of the run, or once in the log if there is no run."""
        run = CONTEXT.active_runs[-1] if CONTEXT.active_runs else None
        if isinstance(run, Run):
            run._report_error(error)
        else:
            self.log_once("provml: autolog failed (%s: %s). Training continues.", type(error).__name__, error)

    def log_once(self, message: str, *arguments: object) -> None:
        """Log a message, each text once."""
        text = message % arguments
        if text not in self._logged:
            self._logged.add(text)
            logging.getLogger("provml").warning(text)

    def guard(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Return the result of a function of autolog; None if it raises, which is reported."""
        try:
            return function(*arguments, **named)
        except Exception as error:
            self.report(error)
            return None
