"""Keras 3, on any backend: a callback for `fit` and `evaluate`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from provml.capture import facts, layer, table
from provml.capture.recording import BY_HAND, Recording, Technique, hook
from provml.content import Data
from provml.errors import MissingPart, WrongValue
from provml.sections import Epoch

try:
    import keras

    from provml.capture import compiled, mover
    from provml.capture.around import arguments, around, backup, batch_size, files, mark_of
except ImportError as error:
    raise MissingPart("keras", "keras") from error

RATE = mover.RATE
CLOCK_NS = 20_000_000
"""How much a file system's clock may be behind."""
ENDINGS = (".keras", ".h5", ".hdf5")
"""How the files are called that Keras saves models in."""


class Capture(Recording, keras.callbacks.Callback):
    """Records `fit` as a training and `evaluate` as an evaluation: `model.fit(…, callbacks=[capture])`.

    `data` gives what was trained on by role, `hyperparameters` narrows what is recorded, `watch="batch"` looks for
    adaptations before every batch, `save_model` is where to save the model when a training ends, `checkpoints=False`
    leaves files of ModelCheckpoint unread. A run of its own takes the settings of `provml.record`.
    """

    def __init__(
        self,
        name: str = "",
        *,
        save_model: str | PathLike[str] | None = None,
        checkpoints: bool = True,
        hyperparameters: Mapping[str, bool] | None = None,
        **settings: Any,
    ) -> None:
        if save_model is not None and not str(save_model).endswith(ENDINGS):
            said = f"a file that ends with {' or '.join(ENDINGS)}"
            raise WrongValue("Capture", "save_model", str(save_model), said, "Keras saves a model in no other.")
        keras.callbacks.Callback.__init__(self)
        Recording.__init__(self, name, hyperparameters=hyperparameters, **settings)
        self._save_to = Path(save_model) if save_model is not None else None
        self._unsaved: Any = None
        self._best = 0
        self._reads_files = checkpoints
        self._beside: list[Any] = []
        self._twin: Epoch | None = None
        self._validated: set[str] = set()
        self._marks: dict[str, tuple[int, int]] = {}
        self._since = 0
        self._awaited: list[tuple[Epoch, str, bool]] = []
        self._kept: dict[int, Data] = {}
        self._has_layers = False
        self._fitted: Any = None
        self._planned: int | None = None
        self._mover: mover.Mover | None = None
        self._optimizers: dict[str, Any] = {}
        self._stamps: list[tuple[Any, Any]] = []
        self._first: int | None = None

    # ---- fit

    def on_train_begin(self, logs: Any = None) -> None:
        self._save()
        self._beside, calls = around(self, self._model)
        self._begin_fit(calls.get("fit", {}))

    @hook
    def _begin_fit(self, fit: dict[str, Any]) -> None:
        model = self._fitted = self.model
        self._optimizers = compiled.optimizers(model)
        kinds = compiled.kinds(self._optimizers)
        self._planned = (self.params or {}).get("epochs")
        self._mover = mover.Mover(self._beside, self, self._rates())
        values: dict[str, Any] = {"optimizer": ", ".join(kinds), **self.now()}
        for head, one in self._optimizers.items():
            values |= {head + name: value for name, value in compiled.schedule(one).items()}
        values |= {**compiled.losses(model), "epochs": self._planned}
        values |= {"loss_weights": compiled.loss_weights(model), "steps_per_epoch": (self.params or {}).get("steps")}
        values |= arguments(fit)
        each = getattr(model, "steps_per_execution", 1)
        values |= {"steps_per_execution": each} if each != 1 else {}
        policy = getattr(getattr(model, "dtype_policy", None), "name", "float32")
        values |= {"dtype_policy": policy} if policy != "float32" else {}
        layers: list[dict[str, Any]] = self.tried(lambda: list(layer.of_keras(model)), [])
        values["num_layers"] = len(layers)
        self.anew("training", "validation")
        seen = self.data("training", lambda: self._seen_in(fit, "training"))
        stage = self.begin_training(values, using=seen, model=model, after=self.tried(self._restored, None))
        said = {"software": "keras", "version": keras.__version__, "backend": keras.backend.backend()}
        for kind in dict.fromkeys(kinds):
            stage.implemented_by(kind, **said)
        self._has_layers = bool(layers) and model.built
        if self._has_layers:
            stage.layers(layers)
        self._twin, self._awaited, self._kept = None, [], {}
        self._marks, self._since = {}, time.time_ns() - CLOCK_NS
        self._first = fit.get("initial_epoch") or 0

    @hook
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._see(mover.BEGIN)
        self._tell_files()
        self._twin, self._awaited = None, []
        if self._first not in (None, epoch) and self.stage is not None:  # BackupAndRestore goes on from there
            self.stage.parameters(**self.selection.of({"initial_epoch": epoch}))
        self._first = None
        self.expect_epoch(epoch + 1)

    def open_epoch(self) -> Epoch | None:
        """The epoch that is open; one that was expected begins now, after what was adapted for it."""
        if self._coming is not None:
            self._see(mover.FIRST)
        return super().open_epoch()

    @hook
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.begin_batch(batch + 1)

    @hook
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._moved_in_batch():
            self.look()
        self.end_batch(logs or {})
        if not self._has_layers and self.stage is not None:  # a model that was not built before its first batch
            self._has_layers = True
            self.stage.layers(layer.of_keras(self._fitted))

    @hook
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = logs or {}
        if self._twin is not None:
            more = {name[4:]: value for name, value in logs.items() if name.startswith("val_")}
            self._twin.measured(**{name: value for name, value in more.items() if name not in self._validated})
        section = self.open_epoch()
        self._see(mover.END)
        is_inside = self._mover is not None and self._mover.is_inside and not self._sees_batches
        if is_inside and not self._has_schedule():
            self.look()
        self.close_epoch({n: v for n, v in logs.items() if not n.startswith("val_") and not n.startswith(RATE)})
        if section is not None:
            kept = list(files(self._files_of(keras.callbacks.ModelCheckpoint), epoch, logs))
            kept += [(backup(one), False) for one in self._files_of(keras.callbacks.BackupAndRestore)]
            self._awaited = [(section, *one) for one in kept]
        self._tell_files()

    def on_train_end(self, logs: Any = None) -> None:
        restored = [one for one in self._of(keras.callbacks.EarlyStopping) if one.restore_best_weights]
        self._end_fit(logs or {}, restored)
        self._unsaved, self._fitted = self.model, None
        at = self._beside.index(self) if self in self._beside else 0  # another callback may hold this one
        if self._save_to is None or not any(one in self._beside[at:] for one in restored):
            self._save()  # else the best weights are restored after this, and it waits until `fit` has ended

    @hook
    def _end_fit(self, logs: dict[str, Any], restored: list[Any]) -> None:
        self._tell_files()
        if self.stage is None:
            return
        self._see(mover.OVER)
        last = self.stage.epoch_now.index if self.stage.epoch_now is not None else 0
        if self._planned is not None and 0 < last < self._planned:
            self.stopped(last, *self._why_stopped(last, logs))
        self._best = restored[-1].best_epoch + 1 if restored else last
        self.end_training()

    def _save(self) -> None:
        """Save the model that a training left, which was asked for whether or not it is recorded; and tell it."""
        model, self._unsaved = self._unsaved, None
        if model is not None:
            if self._save_to is not None:
                self._save_to.parent.mkdir(parents=True, exist_ok=True)
                model.save(self._save_to)
            self._tell_model()

    @hook
    def _tell_model(self) -> None:
        if self._save_to is None and self._best in self._kept:
            self.left(self._kept[self._best])  # a checkpoint is just this model
        else:
            self.saved(self._save_to, epoch=self._best)

    def done(self, *, error: BaseException | None = None) -> None:
        """End and save what waits for an end: `fit` is over, however the rest went."""
        try:
            self._save()
        finally:
            super().done(error=error)

    # ---- evaluate

    def on_test_begin(self, logs: Any = None) -> None:
        _, calls = around(self, self._model, self._fitted)
        if "fit" not in calls:
            self._save()
        self._begin_test(calls)

    @hook
    def _begin_test(self, calls: dict[str, dict[str, Any]]) -> None:
        given = calls.get("evaluate", {})
        if self.stage is not None and "callback" in calls:
            self.open_epoch()
        elif self.stage is not None and ("fit" in calls or not calls):
            epoch = self.open_epoch()
            if epoch is not None:
                fit = calls.get("fit", {})
                self._twin = epoch.validation(using=self.data("validation", lambda: self._seen_in(fit, "validation")))
            return
        else:
            self.end_training(error=RuntimeError("fit was left before its end"))
        self.anew("test")
        seen = self.data("test", lambda: self._seen_in(given, "test"))
        stage = self.begin_evaluation(using=seen, model=self.model)
        stage.parameters(batch_size=batch_size(given))

    @hook
    def on_test_end(self, logs: Any = None) -> None:
        measures = dict(logs or {})
        if self.test is not None:
            self.end_evaluation(measures)
        elif self._twin is not None:
            self._validated = set(measures)
            self._twin.measured(**measures)
            self._twin.done()

    def _seen_in(self, given: dict[str, Any], role: str) -> list[Data]:
        """What the caller of a hook was given to learn from or to be judged on."""
        if role == "validation":
            pair = given.get("validation_data")
            given = dict(zip("xy", pair[:2], strict=False)) if isinstance(pair, (tuple, list)) else {"x": pair}
        head = "" if role == "training" else f"{role} "
        pairs = [(head + name, given.get(name)) for name in "xy"]
        several = (list, tuple, dict)
        return [
            data
            for name, one in pairs
            for data in (facts if isinstance(one, several) else table).tell(self.run, one, role, name)
        ]

    # ---- hyperparameters

    def now(self) -> dict[str, Any]:
        """All hyperparameters of the optimizer, or of several, each under its name."""
        self._optimizers = compiled.optimizers(self._trained())
        self._stamps = self._stamped()
        told = {head: compiled.settings(one) for head, one in self._optimizers.items()}
        return {head + name: value for head, values in told.items() for name, value in values.items()}

    def technique(self, name: str, old: Any, new: Any) -> Technique:
        """What changed a hyperparameter: the optimizer's own schedule, a callback that is there, or a hand."""
        if not name.endswith(RATE):
            return BY_HAND, {}
        optimizer = self._optimizers.get(name.removesuffix(RATE))
        schedule = compiled.schedule(optimizer) if optimizer is not None else {}
        if schedule:
            kind = schedule.pop("learning_rate_schedule")
            return kind, {key.removeprefix("learning_rate_schedule."): value for key, value in schedule.items()}
        one = self._mover.by(name) if self._mover is not None else None
        if isinstance(one, keras.callbacks.ReduceLROnPlateau):
            said = {"monitor": one.monitor, "factor": one.factor, "patience": one.patience}
            return type(one).__name__, {**said, "min_delta": one.min_delta, "min_lr": one.min_lr}
        if isinstance(one, keras.callbacks.LearningRateScheduler):
            return type(one).__name__, {"schedule": compiled.named(one.schedule)}
        if isinstance(one, keras.callbacks.BackupAndRestore):
            return type(one).__name__, {}
        return (BY_HAND if one is None else one), {}

    def reason(self, names: list[str]) -> str:
        """What is not in force: where `fit` is compiled, all but the rate stays as it was when that was done."""
        fixed = [name for name in names if not name.endswith(RATE)]
        backend, model = keras.backend.backend(), self._trained()
        if not fixed or backend == "torch" or getattr(model, "run_eagerly", False) or not self._has_trained():
            return ""
        return f"{backend} goes on with the {' and '.join(fixed)} of before until the model is compiled anew"

    def _has_trained(self) -> bool:
        """Whether a step was ever done with one of the optimizers."""
        return any(int(keras.ops.convert_to_numpy(one.iterations)) for one in self._optimizers.values())

    def _has_schedule(self) -> bool:
        return any(compiled.schedule(one) for one in self._optimizers.values())

    def moved(self) -> bool:
        """Whether a rate was set since the last look; what a schedule does with every batch is told once an epoch."""
        is_moved = self.watches_batches or self._is_set()
        if is_moved:
            self._see(mover.BATCH)
        return is_moved

    def _moved_in_batch(self) -> bool:
        """Whether a callback that stands after this one may have set a rate when the batch that ends began.

        A schedule has moved on with the step that was done: what it says now is of the next batch.
        """
        if self._mover is None or not self._mover.in_batch:
            return False
        self._trained()
        is_moved = self._is_set() or (self.watches_batches and not self._has_schedule())
        if is_moved:
            self._see(mover.WITHIN)
        return is_moved

    def _is_set(self) -> bool:
        """Whether a rate is known to be set since the last look."""
        stamps = self._stamped()
        return len(stamps) != len(self._stamps) or any(
            one[0] is not other[0] or one[1] != other[1] for one, other in zip(stamps, self._stamps, strict=True)
        )

    @property
    def _sees_batches(self) -> bool:
        """Whether a rate that is set inside an epoch is seen there: always on PyTorch, where that costs nothing; on
        TensorFlow, which takes long to read it, and on JAX if a callback of the user's has a turn with every batch."""
        return keras.backend.backend() == "torch" or (self._mover is not None and self._mover.with_batches)

    def _stamped(self) -> list[tuple[Any, Any]]:
        """What holds each rate, and what changes when that is set."""
        if not self._sees_batches:
            return []
        if keras.backend.backend() == "jax" and not getattr(self._fitted, "_jax_state_synced", True):
            return self._stamps  # on JAX, only who asks for a callback's model can set it, and that brings it back
        return [mover.stamp(compiled.inner(one)) for one in self._optimizers.values()]

    def _see(self, moment: str) -> None:
        if self._mover is not None:
            self._mover.see(moment, self._rates())

    def _rates(self) -> dict[str, Any]:
        self._trained()
        return {head + RATE: mover.rate(compiled.inner(one)) for head, one in self._optimizers.items()}

    def _trained(self) -> Any:
        """The model of `fit`; another may be judged while it goes on."""
        model = self._fitted if self._fitted is not None else self.model
        if keras.backend.backend() == "jax":
            model.jax_state_sync()  # as a callback's own model is: while an epoch runs, its state is elsewhere
        return model

    def _why_stopped(self, last: int, logs: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        """What stopped a training after an epoch: technique, reason and parameters."""
        for one in self._of(keras.callbacks.EarlyStopping):
            if one.stopped_epoch + 1 == last:
                why = f"{one.monitor} was best at epoch {one.best_epoch + 1} ({one.best:.6g})"
                why += ", whose weights were restored" if one.restore_best_weights else ""
                said = {"monitor": one.monitor, "patience": one.patience, "min_delta": abs(one.min_delta)}
                return type(one).__name__, why, {**said, "restore_best_weights": one.restore_best_weights}
        if self._of(keras.callbacks.TerminateOnNaN) and not _is_finite(logs.get("loss")):
            return "TerminateOnNaN", f"the loss was {logs.get('loss')}", {}
        return BY_HAND, "stop_training was set", {}

    # ---- what is beside it

    def _of(self, kind: type) -> list[Any]:
        return [one for one in self._beside if isinstance(one, kind)]

    def _files_of(self, kind: type) -> list[Any]:
        """The callbacks of a kind whose files are read."""
        return self._of(kind) if self._reads_files else []

    def _restored(self) -> Data | None:
        """What BackupAndRestore goes on from, where it has kept the model of a `fit` that was interrupted."""
        for one in self._files_of(keras.callbacks.BackupAndRestore):
            if mark_of(backup(one)) is not None:
                return self.run.refer("model", backup(one), "", self.run.model, (), "", "", {})
        return None

    def _tell_files(self) -> None:
        """Tell the files that callbacks have written since; they may stand before or after this one."""
        for section, path, lasts in self._awaited:
            mark = mark_of(path)
            if mark is not None and mark != self._marks.get(path) and mark[0] >= self._since:
                self._marks[path] = mark
                made = self.kept(section, path, epoch=section.index)
                if lasts:
                    self._kept[section.index] = made


def _is_finite(value: Any) -> bool:
    return value is not None and float(value) - float(value) == 0.0
