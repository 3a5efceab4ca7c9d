"""Keras 3, on any backend: a callback for `fit` and `evaluate`."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from provml.capture import _layers
from provml.capture._settings import CaptureSettings
from provml.capture.base import CaptureBase
from provml.errors import MissingDependency, WrongValue
from provml.recording.data import Data
from provml.recording.safety import never_raise
from provml.recording.stages import Epoch

try:
    import keras

    from provml.capture.keras import _compile_config
    from provml.capture.keras._call_arguments import batch_size, fit_settings, record_arguments
    from provml.capture.keras._call_stack import CallStack, call_once_in_order, inspect_call_stack
    from provml.capture.keras._checkpoint_files import CheckpointFiles
    from provml.capture.keras._early_stop import callback_settings, early_stopping_callbacks, stop_cause
    from provml.capture.keras._lr_attribution import RATE, Moment
    from provml.capture.keras._optimizers import OptimizerTracker
    from provml.capture.keras._validation import PREFIX, PairedValidation
except ImportError as error:
    raise MissingDependency("keras", "keras") from error

DEFAULT_NAME = re.compile(r"(sequential|functional|model)(_\d+)?")
"""Names that Keras gives to models."""
SUFFIXES = (".keras", ".h5", ".hdf5")
"""Suffixes of the files in which Keras saves models."""


class Capture(CaptureBase, keras.callbacks.Callback):
    """Records `fit` as a training and `evaluate` as an evaluation: `model.fit(…, callbacks=[capture])`.

    `save_model` is the file for the model when a training is over. With `checkpoints=False` the files of
    ModelCheckpoint and BackupAndRestore are not read. Other settings are those of every capture.
    """

    framework = "keras"

    def __init__(
        self,
        name: str = "",
        *,
        save_model: str | PathLike[str] | None = None,
        checkpoints: bool = True,
        **settings: Unpack[CaptureSettings],
    ) -> None:
        if save_model is not None and not str(save_model).endswith(SUFFIXES):
            expected = f"a file name that ends with {' or '.join(SUFFIXES)}"
            raise WrongValue("Capture", "save_model", str(save_model), expected, "Keras supports no other format.")
        keras.callbacks.Callback.__init__(self)
        self._optimizers = OptimizerTracker()
        CaptureBase.__init__(self, name, source=self._optimizers, **settings)
        self._save_path = Path(save_model) if save_model is not None else None
        self._unsaved_model: Any = None
        self._final_epoch = 0
        """The epoch whose weights the last training ended with."""
        self._reads_files = checkpoints
        self._callbacks: list[Any] = []
        """All callbacks of the last `fit`."""
        self._files = CheckpointFiles(self.models, [])
        self._validation = PairedValidation()
        self._fit_model: Any = None
        """The model that `fit` is training."""
        self._has_layers = False
        self._planned_epochs: int | None = None
        self._first_epoch: int | None = None
        """The argument `initial_epoch` until the first epoch begins."""

    # ---- fit

    def on_train_begin(self, logs: Any = None) -> None:
        self._save()
        stack = inspect_call_stack(self._model)
        call_once_in_order(self, stack.callback_lists)
        self._callbacks = stack.callbacks
        self._begin_fit(stack.calls.get("fit", {}))

    @never_raise
    def _begin_fit(self, arguments: dict[str, Any]) -> None:
        model = self._fit_model = self.model
        self._planned_epochs = (self.params or {}).get("epochs")
        self._optimizers.begin_fit(model, self._callbacks, self)
        values = self._initial_settings(model) | fit_settings(arguments)
        values |= self.try_or(lambda: callback_settings(self._callbacks), dict[str, Any]())
        layers: list[dict[str, Any]] = self.try_or(lambda: list(_layers.keras_layers(model)), [])
        values["num_layers"] = len(layers)
        self.data.reset("training", "validation")
        using = self.data.get("training", lambda: record_arguments(self.run, arguments, "training"))
        self._files = CheckpointFiles(self.models, self._callbacks if self._reads_files else [], own_name(model))
        stage = self.begin_training(values, using=using, model=model, after=self.try_or(self._restored_backup, None))
        self.models.set_name(own_name(model))
        for kind in dict.fromkeys(self._optimizers.kinds):
            stage.implemented_by(kind, software="keras", version=keras.__version__, backend=keras.backend.backend())
        self._has_layers = bool(layers) and model.built
        if self._has_layers:
            stage.layers(layers)
        self._validation.reset()
        self._first_epoch = arguments.get("initial_epoch") or 0

    def _initial_settings(self, model: Any) -> dict[str, Any]:
        """Return the hyperparameters that a training begins with, except those of the arguments of `fit`."""
        values = self._optimizers.initial_settings() | _compile_config.loss_settings(model)
        values["epochs"] = self._planned_epochs
        values["loss_weights"] = _compile_config.loss_weights(model)
        values["steps_per_epoch"] = (self.params or {}).get("steps")
        steps = getattr(model, "steps_per_execution", 1)
        if steps != 1:
            values["steps_per_execution"] = steps
        policy = getattr(getattr(model, "dtype_policy", None), "name", "float32")
        if policy != "float32":
            values["dtype_policy"] = policy
        return values

    def _restored_backup(self) -> Data | None:
        """Return the model of an interrupted `fit` that BackupAndRestore restores."""
        path = self._files.existing_backup()
        return self.run._register_data("model", path, name=self.run.model) if path is not None else None

    @never_raise
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._optimizers.observe(Moment.EPOCH_BEGIN)
        self._files.record()
        self._files.clear_expected()
        self._validation.reset()
        if self._first_epoch not in (None, epoch) and self.stage is not None:  # BackupAndRestore continues here
            self.stage.parameters(**self.hyperparameters.select({"initial_epoch": epoch}))
        self._first_epoch = None
        self.defer_epoch(epoch + 1)

    def open_epoch(self) -> Epoch | None:
        """Return the open epoch; record a deferred one, after the changes of hyperparameters made for it."""
        if self._pending_epoch is not None:
            self._optimizers.observe(Moment.FIRST_BATCH)
        return super().open_epoch()

    @never_raise
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.begin_batch(batch + 1)

    @never_raise
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._optimizers.changed_in_batch(self.hyperparameters.watches_batches):
            self.record_changes()
        self.end_batch(logs or {})
        if not self._has_layers and self.stage is not None:  # the model was built by its first batch
            self._has_layers = True
            self.stage.layers(_layers.keras_layers(self._fit_model))

    @never_raise
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = logs or {}
        self._validation.add_from_logs(logs)
        section = self.open_epoch()
        self._optimizers.observe(Moment.EPOCH_END)
        if self._optimizers.changed_in_epoch():
            self.record_changes()
        self.close_epoch({name: value for name, value in logs.items() if not name.startswith((PREFIX, RATE))})
        if section is not None:
            self._files.expect(section, epoch + 1, logs)
        self._files.record()

    def on_train_end(self, logs: Any = None) -> None:
        stoppers = early_stopping_callbacks(self._callbacks)
        restoring = [callback for callback in stoppers if callback.restore_best_weights]
        self._end_fit(logs or {}, restoring)
        self._unsaved_model, self._fit_model = self.model, None
        self._optimizers.end_fit()
        # a capture that another callback calls is not in the list
        position = self._callbacks.index(self) if self in self._callbacks else 0
        is_restored_later = any(callback in self._callbacks[position:] for callback in restoring)
        if self._save_path is None or not is_restored_later:
            self._save()  # otherwise after `fit`, when the best weights are restored

    @never_raise
    def _end_fit(self, logs: dict[str, Any], restoring: list[Any]) -> None:
        self._files.record()
        if self.stage is None:
            return
        self._optimizers.observe(Moment.TRAINING_END)
        last = self.stage.current_epoch.index if self.stage.current_epoch is not None else 0
        if self._planned_epochs is not None and 0 < last < self._planned_epochs:
            self.record_early_stop(last, *stop_cause(self._callbacks, last, logs))
        self._final_epoch = restoring[-1].best_epoch + 1 if restoring else last
        self.end_training()

    def _save(self) -> None:
        """Save the model of the last training, also if recording is disabled, and record it."""
        model, self._unsaved_model = self._unsaved_model, None
        if model is not None:
            if self._save_path is not None:
                self._save_path.parent.mkdir(parents=True, exist_ok=True)
                model.save(self._save_path)
            self._record_model()

    def record_saved_object(self, model: Any, path: Any) -> None:
        """Record the model of the last training if that is still to be done, then the file of a model."""
        self._save()
        super().record_saved_object(model, path)

    @never_raise
    def _record_model(self) -> None:
        if self._save_path is None and self._final_epoch in self._files.by_epoch:
            self.models.set_last(self._files.by_epoch[self._final_epoch])  # a checkpoint contains the same model
        else:
            self.saved(self._save_path, name=own_name(self.model), epoch=self._final_epoch)

    def done(self, *, error: BaseException | None = None) -> None:
        """Save the model if that is still to be done, then end and save what is open."""
        try:
            self._save()
        finally:
            super().done(error=error)

    # ---- evaluate

    def on_test_begin(self, logs: Any = None) -> None:
        stack = inspect_call_stack(self._model, self._fit_model)
        call_once_in_order(self, stack.callback_lists)
        if "fit" not in stack.calls:
            self._save()
        self._begin_test(stack)

    @never_raise
    def _begin_test(self, stack: CallStack) -> None:
        is_inside_fit = self.stage is not None and ("fit" in stack.calls or not stack.calls)
        if is_inside_fit and not stack.is_inside_callback:
            self._begin_validation(stack.calls.get("fit", {}))
            return
        if is_inside_fit:
            self.open_epoch()
        else:
            self.end_training(error=self.interruption())
        arguments = stack.calls.get("evaluate", {})
        self.data.reset("test")
        using = self.data.get("test", lambda: record_arguments(self.run, arguments, "test"))
        stage = self.begin_evaluation(using=using, model=self.model)
        stage.parameters(batch_size=batch_size(arguments))

    def _begin_validation(self, arguments: dict[str, Any]) -> None:
        epoch = self.open_epoch()
        if epoch is not None:
            using = self.data.get("validation", lambda: record_arguments(self.run, arguments, "validation"))
            self._validation.begin(epoch, using)

    @never_raise
    def on_test_end(self, logs: Any = None) -> None:
        measures = dict(logs or {})
        if self.evaluation_stage is not None:
            self.end_evaluation(measures)
        else:
            self._validation.end(measures)


def own_name(model: Any) -> str:
    """Return the name that the user gave to a model, such as "teacher"; empty if Keras named it."""
    name = str(getattr(model, "name", ""))
    class_name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(model).__name__).lower()
    is_default = DEFAULT_NAME.fullmatch(name) or re.fullmatch(rf"{re.escape(class_name)}(_\d+)?", name)
    return "" if is_default else name
