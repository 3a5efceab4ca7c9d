"""Keras 3, on any backend: a callback for `fit` and `evaluate`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from provml.capture import facts, layer
from provml.capture.recording import BY_HAND, Recording, Technique, hook
from provml.capture.watch import as_written, is_same
from provml.content import Data
from provml.errors import MissingPart, WrongValue
from provml.sections import Epoch

try:
    import keras
except ImportError as error:
    raise MissingPart("keras", "keras") from error

FRAMES = 24
"""How far up the caller of a hook is looked for."""
CHAINED = 32
"""How many parts of a pipeline of data are looked at."""
RATE = "learning_rate"
SAME = {"initial_scale": "loss_scale"}
"""Keras's names of hyperparameters, where ours differ."""
PLAIN = (bool, int, float, str)
CLOCK_NS = 20_000_000
"""How much a file system's clock may be behind."""
ENDINGS = (".keras", ".h5", ".hdf5")
"""How the files are called that Keras saves models in."""
ARRAYS_OF = 32
"""The batch size of `fit` where arrays are given and none is said."""


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
        self._unsaved = False
        self._best = 0
        self._reads_files = checkpoints
        self._beside: list[Any] = []
        self._twin: Epoch | None = None
        self._validated: set[str] = set()
        self._marks: dict[str, tuple[int, int]] = {}
        self._since = 0
        self._awaited: list[tuple[Epoch, str]] = []
        self._kept: dict[int, Data] = {}
        self._has_layers = False

    # ---- fit

    def on_train_begin(self, logs: Any = None) -> None:
        self._beside, calls = _around(self._model)
        self._unsaved = False
        self._begin_fit(calls.get("fit", {}))

    @hook
    def _begin_fit(self, fit: dict[str, Any]) -> None:
        model = self.model
        optimizer = type(_inner(model.optimizer)).__name__
        values = {"optimizer": optimizer, **self.now(), **_schedule(model.optimizer)}
        values |= {"loss": _named(model.loss), "epochs": (self.params or {}).get("epochs")}
        values |= {"batch_size": _batch_size(fit), "steps_per_epoch": (self.params or {}).get("steps")}
        values |= {name: fit[name] for name in ("validation_split", "shuffle", "initial_epoch") if fit.get(name)}
        values |= {"class_weight": fit["class_weight"]} if fit.get("class_weight") else {}
        values |= {"sample_weight": _weights(fit.get("sample_weight"))}
        each = getattr(model, "steps_per_execution", 1)
        values |= {"steps_per_execution": each} if each != 1 else {}
        policy = getattr(getattr(model, "dtype_policy", None), "name", "float32")
        values |= {"dtype_policy": policy} if policy != "float32" else {}
        layers: list[dict[str, Any]] = self.tried(lambda: list(layer.of_keras(model)), [])
        values["num_layers"] = len(layers)
        stage = self.begin_training(values, using=self.data("training", lambda: self._seen(fit, "training")))
        said = {"software": "keras", "version": keras.__version__, "backend": keras.backend.backend()}
        stage.implemented_by(optimizer, **said)
        self._has_layers = bool(layers) and model.built
        if self._has_layers:
            stage.layers(layers)
        self._twin, self._awaited, self._kept = None, [], {}
        self._marks, self._since = {}, time.time_ns() - CLOCK_NS

    @hook
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._tell_files()
        self._twin, self._awaited = None, []
        self.expect_epoch(epoch + 1)

    @hook
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.begin_batch(batch + 1)

    @hook
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.end_batch(logs or {})
        if not self._has_layers and self.stage is not None:  # a model that was not built before its first batch
            self._has_layers = True
            self.stage.layers(layer.of_keras(self.model))

    @hook
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = logs or {}
        if self._twin is not None:
            more = {name[4:]: value for name, value in logs.items() if name.startswith("val_")}
            self._twin.measured(**{name: value for name, value in more.items() if name not in self._validated})
        section = self.open_epoch()
        self.close_epoch({n: v for n, v in logs.items() if not n.startswith("val_") and not n.startswith(RATE)})
        if section is not None:
            self._awaited = [(section, path) for path in _files(self._checkpoints(), epoch, logs)]
        self._tell_files()

    def on_train_end(self, logs: Any = None) -> None:
        restored = [one for one in self._of(keras.callbacks.EarlyStopping) if one.restore_best_weights]
        self._end_fit(logs or {}, restored)
        self._unsaved = True
        at = self._beside.index(self) if self in self._beside else 0  # another callback may hold this one
        if self._save_to is None or not any(one in self._beside[at:] for one in restored):
            self._save()  # else the best weights are restored after this, and it waits until `fit` has ended

    @hook
    def _end_fit(self, logs: dict[str, Any], restored: list[Any]) -> None:
        self._tell_files()
        if self.stage is None:
            return
        planned = (self.params or {}).get("epochs")
        last = self.stage.epoch_now.index if self.stage.epoch_now is not None else 0
        if planned is not None and 0 < last < planned:
            self.stopped(last, *self._why_stopped(last, logs))
        self._best = restored[-1].best_epoch + 1 if restored else last
        self.end_training()

    def _save(self) -> None:
        """Save the model that a training left, which was asked for whether or not it is recorded; and tell it."""
        if self._unsaved:
            self._unsaved = False
            if self._save_to is not None:
                self._save_to.parent.mkdir(parents=True, exist_ok=True)
                self.model.save(self._save_to)
            self._tell_model()

    @hook
    def _tell_model(self) -> None:
        if self._save_to is None and self._best in self._kept:
            self.made = self._kept[self._best]  # a checkpoint is just this model
        else:
            self.saved(self._save_to, epoch=self._best)

    def finish(self, *, error: BaseException | None = None) -> None:
        """End what is open, and the run if it is the capture's own."""
        try:
            self._save()
        finally:
            super().finish(error=error)

    # ---- evaluate

    def on_test_begin(self, logs: Any = None) -> None:
        _, calls = _around(self._model)
        if "fit" not in calls:
            self._save()
        self._begin_test(calls)

    @hook
    def _begin_test(self, calls: dict[str, dict[str, Any]]) -> None:
        given = calls.get("evaluate", {})
        if self.stage is not None and ("fit" in calls or not calls):
            epoch = self.open_epoch()
            if epoch is not None:
                fit = calls.get("fit", {})
                self._twin = epoch.validation(using=self.data("validation", lambda: self._seen(fit, "validation")))
            return
        self.end_training(error=RuntimeError("fit was left before its end"))
        stage = self.begin_evaluation(using=self.data("test", lambda: self._seen(given, "test")))
        stage.parameters(batch_size=_batch_size(given))

    @hook
    def on_test_end(self, logs: Any = None) -> None:
        measures = dict(logs or {})
        if self.test is not None:
            self.end_evaluation(measures)
        elif self._twin is not None:
            self._validated = set(measures)
            self._twin.measured(**measures)
            self._twin.done()

    def _seen(self, given: dict[str, Any], role: str) -> list[Data]:
        """What the caller of a hook was given to learn from or to be judged on."""
        if role == "validation":
            pair = given.get("validation_data")
            given = dict(zip("xy", pair[:2], strict=False)) if isinstance(pair, (tuple, list)) else {"x": pair}
        head = "" if role == "training" else f"{role} "
        return [data for name in "xy" for data in facts.tell(self.run, given.get(name), role, head + name)]

    # ---- hyperparameters

    def now(self) -> dict[str, Any]:
        """All hyperparameters of the optimizer, or of several, each under its name."""
        optimizer = self.model.optimizer
        several = getattr(optimizer, "optimizers", None)
        if several:
            return {f"{one.name}.{name}": value for one in several for name, value in _settings(one).items()}
        return _settings(optimizer)

    def technique(self, name: str, old: Any, new: Any) -> Technique:
        """What changed a hyperparameter: the optimizer's own schedule, a callback that is there, or a hand."""
        if name.rpartition(".")[2] != RATE:
            return BY_HAND, {}
        schedule = _schedule(self.model.optimizer)
        if schedule:
            kind = schedule.pop("learning_rate_schedule")
            return kind, {key.removeprefix("learning_rate_schedule."): value for key, value in schedule.items()}
        for one in self._of(keras.callbacks.ReduceLROnPlateau):
            if is_same(new, max(old * one.factor, one.min_lr)):
                said = {"monitor": one.monitor, "factor": one.factor, "patience": one.patience}
                return type(one).__name__, {**said, "min_delta": one.min_delta, "min_lr": one.min_lr}
        for one in self._of(keras.callbacks.LearningRateScheduler):
            return type(one).__name__, {"schedule": _named(one.schedule)}
        return BY_HAND, {}

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

    def _checkpoints(self) -> list[Any]:
        return self._of(keras.callbacks.ModelCheckpoint) if self._reads_files else []

    def _tell_files(self) -> None:
        """Tell the files that ModelCheckpoint has written since; it may stand before or after this callback."""
        for section, path in self._awaited:
            mark = _mark(path)
            if mark is not None and mark != self._marks.get(path) and mark[0] >= self._since:
                self._marks[path] = mark
                self._kept[section.index] = section.produced(path, epoch=section.index)


def _around(model: Any) -> tuple[list[Any], dict[str, dict[str, Any]]]:
    """The callbacks beside a hook, and what `fit` and `evaluate` of this model were given, as their callers hold them.

    Keras tells a callback neither. The frames are only read; what is not found there is not recorded.
    """
    beside: list[Any] = []
    calls: dict[str, dict[str, Any]] = {}
    frame = sys._getframe(1)
    for _ in range(FRAMES):
        if frame.f_back is None:
            break
        frame = frame.f_back
        held = frame.f_locals
        caller = held.get("self")
        if isinstance(caller, keras.callbacks.CallbackList):
            beside = list(caller.callbacks)
        elif caller is model and frame.f_code.co_name in ("fit", "evaluate"):
            calls.setdefault(frame.f_code.co_name, dict(held))
    return beside, calls


def _settings(optimizer: Any) -> dict[str, Any]:
    """The hyperparameters of an optimizer, with the rate as it is now."""
    config = dict(optimizer.get_config())
    config.pop("name", None)
    inner = _inner(optimizer)
    values = _settings(inner) if inner is not optimizer else {}
    plain = {name: value for name, value in config.items() if value is None or isinstance(value, PLAIN)}
    values |= {SAME.get(name, name): as_written(value) for name, value in plain.items()}
    if inner is optimizer:
        values[RATE] = as_written(float(keras.ops.convert_to_numpy(optimizer.learning_rate)))
    return values


def _inner(optimizer: Any) -> Any:
    """The optimizer that does the work: one that scales the loss for mixed precision holds another."""
    return getattr(optimizer, "inner_optimizer", None) or optimizer


def _schedule(optimizer: Any) -> dict[str, Any]:
    """The schedule that is an optimizer's learning rate, and its parameters; nothing where the rate is a number."""
    held = _inner(optimizer).get_config().get(RATE)
    if not isinstance(held, dict) or "class_name" not in held:
        return {}
    config = held.get("config")
    config = config if isinstance(config, dict) else {}
    plain = {name: value for name, value in config.items() if isinstance(value, (bool, int, float)) and name != "name"}
    head = f"{RATE}_schedule"
    return {head: held["class_name"], **{f"{head}.{name}": as_written(value) for name, value in plain.items()}}


def _batch_size(given: dict[str, Any]) -> int | None:
    """The size of a batch: as it was said, as the loader has it, or Keras's own where arrays are given."""
    x = given.get("x")
    if given.get("batch_size"):
        return int(given["batch_size"])
    held: Any = getattr(x, "batch_size", None)
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else [x]
    if held is None and parts and all(hasattr(one, "shape") for one in parts):
        return ARRAYS_OF
    for _ in range(CHAINED):  # a pipeline of TensorFlow's: the part of it that makes batches knows
        if held is not None or x is None:
            break
        held, x = getattr(x, "_batch_size", None), getattr(x, "_input_dataset", None)
    held = held.numpy() if hasattr(held, "numpy") else held
    return int(held) if hasattr(held, "__index__") else None


def _weights(given: Any) -> str | None:
    """That samples have weights, and what holds them."""
    if given is None:
        return None
    return type(given).__name__ + (f" of shape {tuple(given.shape)}" if hasattr(given, "shape") else "")


def _named(one: Any) -> str | None:
    """A loss or a schedule by its name."""
    if one is None or isinstance(one, str):
        return one
    if isinstance(one, dict):
        return ", ".join(f"{key}: {_named(value)}" for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return ", ".join(str(_named(value)) for value in one)
    return getattr(one, "__name__", None) or getattr(one, "name", None) or type(one).__name__


def _is_finite(value: Any) -> bool:
    return value is not None and float(value) - float(value) == 0.0


def _files(checkpoints: list[Any], epoch: int, logs: dict[str, Any]) -> Iterator[str]:
    """The files that checkpoints write after an epoch, if they do."""
    for one in checkpoints:
        try:
            yield one.filepath.format(epoch=epoch + 1, **logs)
        except (KeyError, ValueError, IndexError):  # it is named by batches, or by what was not measured
            continue


def _mark(path: str) -> tuple[int, int] | None:
    """What tells one state of a file from the next; None where there is no file."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
