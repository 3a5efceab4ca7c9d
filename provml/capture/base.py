"""The base of all captures: a run, its data, models and hyperparameters, and the open stage and epoch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any, TypeVar, Unpack

from provml.capture._data import CaptureData, check_roles
from provml.capture._hyperparameters import MANUAL, Hyperparameters, HyperparameterSource, Selection
from provml.capture._models import CaptureModels
from provml.capture._settings import CaptureSettings, Watch
from provml.errors import WrongType
from provml.recording.batches import Batch
from provml.recording.data import Data
from provml.recording.exit_status import UNKNOWN_EXCEPTION, status_of_exit
from provml.recording.frames import known_exceptions, raised_in_package
from provml.recording.kinds import hyperparameter_of
from provml.recording.run import Run, describe_unexpected, record
from provml.recording.safety import EndsOnExit, never_raise, report_errors, try_or
from provml.recording.settings import BaseSettings
from provml.recording.stages import Epoch, Stage

T = TypeVar("T")


class CaptureBase(EndsOnExit):
    """Records trainings and evaluations into a run: a new one, or the one passed with `run=`.

    A capture of a framework calls these methods from the framework's callbacks, and passes the `source` of the
    hyperparameters that may change.
    """

    default_watch: Watch = "epoch"
    """How often changes of hyperparameters are looked for, unless the setting `watch` says so."""
    framework = ""
    """The package whose functions train, if it calls the capture at the end of every training that did not fail."""
    epoch_count_parameter = "epochs"
    """The hyperparameter with the planned number of epochs or rounds."""
    open_epoch_is_partial = True
    """Whether an epoch is incomplete while it is open. A round of boosting is recorded when it is complete."""

    def __init__(
        self,
        name: str = "",
        *,
        run: Run | str | None = None,
        data: Mapping[str, Any] | None = None,
        hyperparameters: Mapping[str, bool] | None = None,
        parameters: Mapping[str, Any] | None = None,
        watch: Watch | None = None,
        source: HyperparameterSource | None = None,
        **settings: Unpack[BaseSettings],
    ) -> None:
        if watch not in (None, "epoch", "batch"):
            raise ValueError(f"watch must be 'epoch' or 'batch', not {watch!r}.")
        if unexpected := [setting for setting in settings if setting not in BaseSettings.__annotations__]:
            raise TypeError(self._describe_unexpected(unexpected, settings))
        selection = Selection(hyperparameters)
        provided = check_roles(data)
        self._parameters = check_parameters(parameters)
        if run is not None and not isinstance(run, (str, Run)):
            raise WrongType("Capture", "run", run, "a run", "Pass the result of provml.record(…), or a run id.")
        if isinstance(run, Run) and settings:
            names = ", ".join(settings)
            raise TypeError(f"An existing run has its own settings. Leave out {names}, or leave out run=.")
        self._owns_run = not isinstance(run, Run)
        if not isinstance(run, Run):
            run = record(name or Path(sys.argv[0]).stem or "training", run=run, **settings)
        self.run = run
        self.data = CaptureData(self.run, provided)
        self.models = CaptureModels(self.run, provided.get("model"), self.progress)
        watches_batches = (watch or self.default_watch) == "batch"
        source = source or HyperparameterSource()
        self.hyperparameters = Hyperparameters(self.run, selection, source, watches_batches=watches_batches)
        self.stage: Stage | None = None
        """The open training."""
        self.last_training: Stage | None = None
        """The open training, or the last one."""
        self.epoch: Epoch | None = None
        self.batch: Batch | None = None
        self.evaluation_stage: Stage | None = None
        """The open evaluation."""
        self.epochs_done = 0
        self._updates = 0
        self._pending_epoch: tuple[int, float] | None = None
        self._earlier_errors: set[int] = set()
        """Ids of the exceptions that were known when the training began."""
        self.run._register_open(self)

    def _describe_unexpected(self, unexpected: list[str], settings: Mapping[str, Any]) -> str:
        """Return the message about settings that the capture does not have: usually hyperparameters."""
        numbers = {name: settings[name] for name in unexpected if isinstance(settings[name], (bool, int, float))}
        pairs = [f"{name}={numbers.get(name, '…')}" for name in unexpected]
        advice = "Hyperparameters of the framework are recorded by themselves. "
        advice += f"Pass others as parameters=dict({', '.join(pairs)})."
        own = type(self).__init__
        names = own.__code__.co_varnames[1 : own.__code__.co_argcount + own.__code__.co_kwonlyargcount]
        return describe_unexpected("Capture", unexpected, {*names, *CaptureSettings.__annotations__}, advice)

    # ---- begin and end of a capture

    def _end(self, error: BaseException | None) -> None:
        self.finish(error=error)

    def finish(self, *, error: BaseException | None = None) -> None:
        """End what is open, and the capture's own run: FINISHED, or FAILED with the error."""
        try:
            self.done(error=error)
        finally:
            if self._owns_run:
                self.run.finish(error=error)

    def done(self, *, error: BaseException | None = None) -> None:
        """End and save what is open. The end of the run calls this, too."""
        self.run._unregister(self)
        with report_errors(self.run):
            self.end_training(error=error or self._exit_error())
            self.end_evaluation(error=error)

    def _on_cell_error(self, error: BaseException) -> None:
        """End the training and the evaluation that the exception of a notebook's cell left.

        A framework that reports the end of a training did not report it.
        """
        if self.framework:
            self.end_training(error=error)
            self.end_evaluation(error=error)

    def try_or(self, function: Callable[[], T], default: T) -> T:
        """Return the result of a function, or the default if it raises: the rest of the training is still recorded."""
        return try_or(self.run, function, default)

    # ---- a training

    def begin_training(
        self,
        values: Mapping[str, Any],
        *,
        using: Iterable[Data] = (),
        model: Any = None,
        after: Data | None = None,
        ago: float = 0.0,
    ) -> Stage:
        """Begin a training of a model object. A training that is still open was interrupted by an exception.

        The training continues from the model `after`, otherwise from the recorded state of this object. It began `ago`
        seconds before now.
        """
        self.end_training(error=self.interruption())
        self._earlier_errors = set(map(id, known_exceptions(None)))
        observed = {name: value for name, value in values.items() if value is not None or name not in self._parameters}
        selected = self.hyperparameters.begin({**self._parameters, **observed})
        initial = after or self.models.lookup(model)
        self.stage = self.last_training = Stage(self.run, "training", "training", using, selected, ago=ago)
        if initial is not None:
            self.stage.used(initial, role="model")
        self.models.begin_training(model, self.stage, initial)
        self.run._unregister(self)
        self.run._register_open(self)  # registered after the stage, the capture is ended before it
        self.epochs_done = 0
        return self.stage

    def defer_epoch(self, index: int) -> None:
        """Begin an epoch, but record it with its first batch: until then its hyperparameters may still be set."""
        self._pending_epoch = index, perf_counter()
        self.hyperparameters.source.on_epoch_deferred()

    def open_epoch(self) -> Epoch | None:
        """Return the open epoch; record a deferred one, after the changes of hyperparameters made for it."""
        if self._pending_epoch is not None and self.stage is not None:
            (index, began), self._pending_epoch = self._pending_epoch, None
            self.record_changes(during=index)
            self._updates += 1
            self.epoch = self.record_epoch(self.stage, index, perf_counter() - began)
        return self.epoch

    def record_epoch(self, stage: Stage, index: int, ago: float) -> Epoch:
        """Record an epoch that began `ago` seconds before now."""
        return stage.epoch(index, ago=ago)

    def close_epoch(self, measures: Mapping[str, Any] | None = None) -> None:
        """End the epoch, with these measures."""
        epoch = self.open_epoch()
        if epoch is not None:
            if measures:
                epoch.measured(**measures)
            epoch.done()
            self.epoch = None
            self.epochs_done += 1

    def begin_batch(self, index: int) -> None:
        """Begin a batch, counted from 1."""
        self._updates += 1
        if self._pending_epoch is not None:
            self.open_epoch()
        elif self.stage is not None and self.hyperparameters.is_check_due():
            self.record_changes()
        if self.epoch is not None:
            self.batch = self.epoch.batch(index)

    def end_batch(self, measures: Mapping[str, Any]) -> None:
        """End the batch, with these measures."""
        batch, self.batch = self.batch, None
        if batch is not None:
            batch.measured(**measures)
            batch.done()

    @never_raise
    def parameters(self, /, **values: Any) -> None:
        """Record more hyperparameters: of the open training, otherwise of the trainings that follow."""
        named = check_parameters(values)
        if self.stage is not None:
            self.stage.parameters(**self.hyperparameters.select(named))
        else:
            self._parameters |= named

    @never_raise
    def adapted(
        self,
        /,
        *,
        technique: str = MANUAL,
        reason: str = "",
        by: str = "",
        parameters: dict[str, Any] | None = None,
        **values: Any,
    ) -> None:
        """Record new values of hyperparameters, the technique that changed them, its parameters, the reason and person.

        The change is recorded with the next step or batch: without one, nothing was learned with the new values. A
        change of an optimizer's hyperparameter is observed anyway; this call adds why it was made.
        """
        if self.stage is not None:
            self.hyperparameters.announce(values, technique=technique, reason=reason, by=by, parameters=parameters)

    def record_changes(self, *, during: int | None = None) -> None:
        """Record hyperparameters that changed, for the open epoch or the epoch `during` that is about to begin."""
        if self.stage is not None:
            self.hyperparameters.record_changes(self.stage, during=during)

    def end_training(self, *, error: BaseException | None = None) -> None:
        """End the training. Hyperparameters that changed after its last epoch are not recorded: nobody used them."""
        stage = self.stage
        if stage is None:
            return
        try:
            if error is not None and status_of_exit(error)[0] == "FINISHED":
                self._record_program_exit(stage)
        finally:
            self.stage = self.epoch = self.batch = self._pending_epoch = None
            stage.done(error=error)
            self.hyperparameters.end()

    def interruption(self) -> BaseException:
        """Return the exception that left the open training, or the evaluation; an unknown one if nobody holds it."""
        return raised_in_package(self.framework, self._earlier_errors) or UNKNOWN_EXCEPTION

    def _exit_error(self) -> BaseException | None:
        """Return the exception that left the open training; None if it may have been completed.

        A framework that reports the end of a training did not report it: an exception left the training, although the
        program caught it.
        """
        if self.stage is None or not self.framework:
            return None
        planned, last = self.hyperparameters.recorded_value(self.epoch_count_parameter), self.stage.current_epoch
        is_complete = self.epoch is None and last is not None and planned is not None and last.index >= planned
        return None if is_complete else self.interruption()

    def record_early_stop(self, epochs: int, technique: str, reason: str, parameters: Mapping[str, Any]) -> None:
        """Record that the training stopped after fewer epochs than planned, as a change of their number."""
        if self.stage is not None and self.hyperparameters.selection.includes(self.epoch_count_parameter):
            changed: dict[str, Any] = {self.epoch_count_parameter: epochs}
            during = self.stage.current_epoch  # the last one, although it has ended
            self.stage.adapted(
                technique=technique, reason=reason, parameters=dict(parameters), during=during, **changed
            )

    def _record_program_exit(self, stage: Stage) -> None:
        """Record that `sys.exit()` stopped the training, possibly inside an epoch."""
        planned, last = self.hyperparameters.recorded_value(self.epoch_count_parameter), stage.current_epoch
        if last is None or planned is None:
            return
        is_inside = self.epoch is last
        if last.index < planned:
            where = "inside" if is_inside else "after"
            self.record_early_stop(last.index, MANUAL, f"the program was ended {where} the last of them", {})
        elif is_inside and self.open_epoch_is_partial:
            reason = f"the program was ended inside epoch {last.index}, which is incomplete"
            self.record_early_stop(planned - 1, MANUAL, reason, {})

    # ---- models and evaluations

    def progress(self) -> object:
        """Return a value that is different after every change of the weights; None if that is not known.

        The weights change in the batches of a framework, or in its rounds if it has no batches.
        """
        return self.last_training, self._updates

    def saved(self, path: Any, **fields: Any) -> Data | None:
        """Record that the model of the last training was saved in this file or folder; None: it is in memory only."""
        return self._record_saved(path, "", fields)

    @never_raise
    def record_saved_object(self, model: Any, path: Any) -> None:
        """Record a file that a model object was saved in after its training, which need not be the last one."""
        self.models.record_saved(model, path)

    def _record_saved(self, path: Any, part: str, fields: dict[str, Any]) -> Data | None:
        """Record that the model, or the part of it with this name, was saved."""
        if self.last_training is not None:
            with report_errors(self.run):
                section = self.epoch if self.epoch is not None else self.last_training
                model = self.models.record_file(section, path, is_current=True, part=part, **fields)
                self.models.set_last(model, part)
        return self.models.last

    def begin_evaluation(
        self, *, using: Iterable[Data] = (), name: str = "evaluation", model: Any = None, **values: Any
    ) -> Stage:
        """Begin an evaluation of a model object, by default of the last model."""
        self.end_evaluation(error=self.interruption())
        self.evaluation_stage = self.run.evaluation(of=self.models.resolve(model), using=using, name=name, **values)
        return self.evaluation_stage

    def end_evaluation(self, measures: Mapping[str, Any] | None = None, *, error: BaseException | None = None) -> None:
        """End the evaluation, with these measures."""
        stage, self.evaluation_stage = self.evaluation_stage, None
        if stage is not None:
            stage.measured(**(measures or {}))
            stage.done(error=error)


def check_save_path(path: Any) -> Path | None:
    """Return the setting `save_model` as a path."""
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise WrongType("Capture", "save_model", path, "a path", "Use save_model='model.pt', or leave it out.")
    return Path(path) if path is not None else None


def check_parameters(parameters: Any) -> dict[str, Any]:
    """Return the setting `parameters` by the names that are recorded: a dictionary, a namespace or a data class."""
    argparse = sys.modules.get("argparse")  # not imported here: autolog waits for its import by the script
    namespaces = (SimpleNamespace, argparse.Namespace) if argparse is not None else (SimpleNamespace,)
    is_namespace = isinstance(parameters, namespaces) or is_dataclass(parameters)
    values = vars(parameters) if is_namespace else parameters
    if values is not None and not isinstance(values, Mapping):
        raise WrongType("Capture", "parameters", parameters, "values by name", "Use parameters=vars(args).")
    return {hyperparameter_of(str(name)): value for name, value in (values or {}).items()}
