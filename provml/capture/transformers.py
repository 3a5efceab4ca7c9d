"""Hugging Face Transformers: a callback for its Trainer."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any, Unpack

from provml.capture import _data, _layers
from provml.capture._hyperparameters import MANUAL, Technique, is_same
from provml.capture._settings import CaptureSettings
from provml.capture.base import CaptureBase
from provml.capture.torch._optimizers import OptimizerTracker, unwrap_network, wrapped_optimizer
from provml.errors import MissingDependency
from provml.recording.data import Data
from provml.recording.frames import caller_arguments
from provml.recording.safety import never_raise
from provml.recording.stages import Epoch, Stage

try:
    import transformers
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingDependency("transformers", "transformers") from error

SETTINGS = (
    "lr_scheduler_kwargs", "gradient_accumulation_steps", "max_grad_norm", "lr_scheduler_type",
    "warmup_steps", "warmup_ratio", "label_smoothing_factor", "seed", "data_seed", "fp16", "bf16", "optim",
    "load_best_model_at_end", "metric_for_best_model",
)  # fmt: skip
"""Training arguments that influence what is learned."""
IGNORED_LOGS = ("epoch", "learning_rate", "total_flos", "step", "num_input_tokens_seen")
TIME_SUFFIXES = ("_runtime", "_per_second", "_preparation_time")
"""Suffixes of logged values that do not measure the model."""
WEIGHT_FILES = (
    "model.safetensors", "adapter_model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
)  # fmt: skip
"""Files in which `save_model` writes weights."""
CLOCK_LAG_NS = 20_000_000
"""Nanoseconds by which the clock of a file system may be behind."""
EPOCH_ROUNDING = 1e-6
"""The Trainer counts epochs as fractions, which may be too small by this much."""


class TrainerTracker(OptimizerTracker):
    """The hyperparameters of a Trainer's optimizer, changed by the schedule that its arguments name."""

    __slots__ = ("arguments",)

    def __init__(self) -> None:
        super().__init__()
        self.arguments: Any = None

    def technique_of_change(self, name: str, old: Any, new: Any) -> Technique:
        """Return the schedule that changed a learning rate, or MANUAL."""
        _, group, _, key = self.entries()[name]
        for scheduler in self.schedulers:
            if key == "lr" and is_same(scheduler.get_last_lr()[group], new):
                parameters = {"warmup_steps": getattr(self.arguments, "warmup_steps", None)}
                return f"{_plain(self.arguments.lr_scheduler_type)} schedule", parameters
        return MANUAL, {}

    def peak_rate(self) -> dict[str, Any]:
        """Return the learning rate of the arguments if a schedule begins with another one, such as 0 for a warm-up."""
        rate = getattr(self.arguments, "learning_rate", None)
        optimizer = self.optimizers.get("")
        group = (getattr(optimizer, "param_groups", None) or [{}])[0]
        uses_rate = is_same(group.get("initial_lr"), rate)  # an optimizer of the user has its own rate
        current = self.current_hyperparameters().get("learning_rate")
        return {"peak_learning_rate": rate} if uses_rate and not is_same(current, rate) else {}


class Capture(CaptureBase, TrainerCallback):
    """Records what a Trainer does: `Trainer(…, callbacks=[capture])`.

    A batch is a step of the optimizer, as the Trainer counts. With `checkpoints=False` the folders that it saves are
    not read. Other settings are those of `provml.record`.
    """

    framework = "transformers"

    def __init__(self, name: str = "", *, checkpoints: bool = True, **settings: Unpack[CaptureSettings]) -> None:
        self._optimizers = TrainerTracker()
        CaptureBase.__init__(self, name, source=self._optimizers, **settings)
        self._reads_files = checkpoints
        self._validation_epoch: Epoch | None = None
        self._first_step = 0
        """The Trainer's count of steps before the epoch."""
        self._step_ended = 0.0
        self._is_epoch_over = False
        self._validation_sources: list[Any] = []
        """The datasets that validated the epoch, in the order of their use."""
        self._validations_at = (0, 0)
        """The Trainer's count of steps at the last validation, and how many there were at this step."""
        self._validates_at_steps = False
        """Whether validations are numbered by the Trainer's count of steps: an epoch has several of them."""
        self._other_validations: list[Stage] = []
        """The validations with the second and further evaluation sets."""
        self._began_ns = 0
        self._output: Path | None = None
        """The folder of the last training until a model was looked for in it."""
        self._checkpoints: dict[int, Data] = {}
        """Checkpoints by the Trainer's count of steps."""

    # ---- train

    @never_raise
    def on_train_begin(self, /, args: Any, state: Any, control: Any, **context: Any) -> None:
        optimizer, scheduler = context.get("optimizer"), context.get("lr_scheduler")
        self._optimizers.arguments = args
        self._optimizers.optimizers = {"": optimizer} if optimizer is not None else {}
        self._optimizers.schedulers = [scheduler] if scheduler is not None else []
        kind = type((*wrapped_optimizer(optimizer), optimizer)[0]).__name__
        layers: list[dict[str, Any]] = self.try_or(lambda: _layers.torch_layers(unwrap_network(context["model"])), [])
        loader = context.get("train_dataloader")
        values = self._settings(args, state, kind, loader) | {"num_layers": len(layers)}
        self.data.reset("training", "validation")
        using = self._observed_data("training", loader)
        resumed = caller_arguments("transformers.trainer", "_inner_training_loop", "train").get(
            "resume_from_checkpoint"
        )
        initial = None
        if isinstance(resumed, (str, PathLike)):
            values["resumed_from"] = str(resumed)
            initial = self.models.checkpoint(resumed, read=self._reads_files)
        model = unwrap_network(context.get("model"))
        if initial is None and self.models.lookup(model) is None:
            initial = self.try_or(lambda: self._base_model(model, values), None)
        stage = self.begin_training(values, using=using, model=model, after=initial)
        self._began_ns, self._output = time.time_ns() - CLOCK_LAG_NS, Path(args.output_dir)
        stage.implemented_by(kind, software="transformers", version=transformers.__version__)
        stage.layers(layers)
        self._checkpoints, self._is_epoch_over, self._validation_epoch = {}, False, None
        self._validations_at = (0, 0)
        self._validates_at_steps = _plain(getattr(args, "eval_strategy", None)) == "steps"

    def _settings(self, args: Any, state: Any, kind: str, loader: Any) -> dict[str, Any]:
        """Return the hyperparameters that a training begins with."""
        values = {name: _plain(getattr(args, name, None)) for name in SETTINGS}
        values = {name: value for name, value in values.items() if value not in (None, False, {})}
        values |= {"optimizer": kind, **self._optimizers.current_hyperparameters()}
        values |= {"epochs": _planned_epochs(state), "steps": state.max_steps, **self._optimizers.peak_rate()}
        values |= _data.loader_settings(loader) if loader is not None else {}
        values["batch_size"] = args.train_batch_size
        return values | ({"world_size": args.world_size} if args.world_size > 1 else {})

    def _base_model(self, model: Any, values: dict[str, Any]) -> Data | None:
        """Record the model that is fine-tuned: by name and revision, and by content if it is a folder here."""
        config = getattr(model, "config", None)
        name = str(getattr(config, "_name_or_path", "") or "")
        if not name:
            return None
        revision = getattr(config, "_commit_hash", None)
        values |= {"base_model": name, "base_model_revision": revision}
        folder = Path(name)
        is_here = self._reads_files and folder.is_dir()
        characteristics = {"revision": revision} if revision else {}
        return self.run._register_data(
            "model", folder if is_here else None, name=folder.name if is_here else name, characteristics=characteristics
        )

    def _record_saved_folder(self) -> None:
        """Record the model that `save_model` or `push_to_hub` wrote after the training; the Trainer reports neither."""
        output, self._output = self._output, None
        if output is None or not self._reads_files or self.last_training is None:
            return
        weights = weights_in(output)
        if weights is not None and weights.stat().st_mtime_ns >= self._began_ns:
            self.saved(weights)

    def done(self, *, error: BaseException | None = None) -> None:
        """Record the folder of the model, then end and save what is open."""
        if self.stage is None:
            self.try_or(self._record_saved_folder, None)
        super().done(error=error)

    def _observed_data(self, role: str, loader: Any) -> list[Data]:
        """Return the datasets of a role, by default those of a loader."""
        dataset = getattr(loader, "dataset", loader)
        return self.data.get(role, lambda: _data.record_data(self.run, loader, role, f"{role} data"), source=dataset)

    @never_raise
    def on_epoch_begin(self, /, args: Any, state: Any, control: Any, **context: Any) -> None:
        self._close_epoch()
        self._is_epoch_over = False
        position = state.epoch or 0.0
        whole = int(position + EPOCH_ROUNDING)
        done = round(state.global_step * (position - whole) / position) if position else 0  # resumed inside an epoch
        self._first_step = state.global_step - done
        self.defer_epoch(whole + 1)

    @never_raise
    def on_step_begin(self, /, args: Any, state: Any, control: Any, **context: Any) -> None:
        self._end_step()
        self.begin_batch(state.global_step - self._first_step + 1)

    @never_raise
    def on_step_end(self, /, args: Any, state: Any, control: Any, **context: Any) -> None:
        self._step_ended = perf_counter()  # recorded at the next callback: values of this step are logged after this

    @never_raise
    def on_epoch_end(self, /, args: Any, state: Any, control: Any, **context: Any) -> None:
        self._end_step()
        self._is_epoch_over = True  # what is logged and evaluated after this still belongs to the epoch

    @never_raise
    def on_log(self, /, args: Any, state: Any, control: Any, logs: Any = None, **context: Any) -> None:
        measures = {
            name: value for name, value in (logs or {}).items() if _is_measure(name) and not _is_of_evaluation(name)
        }
        if self.stage is None or not measures:
            return
        if "train_loss" in measures:  # the last log is about the whole training
            self.stage.measured(loss=measures["train_loss"])
            return
        section = self.batch if self.batch is not None and not self._is_epoch_over else self.epoch
        if section is not None:
            section.measured(**measures)

    @never_raise
    def on_save(self, /, args: Any, state: Any, control: Any, **context: Any) -> None:
        step = state.global_step
        folder = Path(args.output_dir) / f"checkpoint-{step}"
        epoch = self.open_epoch()
        if epoch is not None and self._reads_files and folder.exists():
            self._checkpoints[step] = self.models.record_file(epoch, folder, epoch=epoch.index, step=step)

    @never_raise
    def on_train_end(self, /, args: Any, state: Any, control: Any, **context: Any) -> None:
        self._close_epoch()
        if self.stage is None:
            return
        last = self.stage.current_epoch.index if self.stage.current_epoch is not None else 0
        if state.global_step < state.max_steps:
            self.record_early_stop(last, *_stop_cause(state))
        step = state.global_step
        if args.load_best_model_at_end and state.best_model_checkpoint:
            step = int(str(state.best_model_checkpoint).rpartition("-")[2])
        if step in self._checkpoints:
            self.models.set_last(self._checkpoints[step])
        else:
            self.saved(None, epoch=last, step=step)
        self.end_training()

    def _end_step(self) -> None:
        batch, self.batch = self.batch, None
        if batch is not None:
            batch.done(ago=perf_counter() - self._step_ended)

    def _close_epoch(self) -> None:
        self._end_step()
        if self.epoch is not None:
            self.close_epoch()

    # ---- evaluate and predict

    @never_raise
    def on_prediction_step(self, /, args: Any, state: Any, control: Any, **context: Any) -> None:
        if self.evaluation_stage is None and self._validation_epoch is None:
            self._begin_evaluation(context, state.global_step)

    @never_raise
    def on_evaluate(self, /, args: Any, state: Any, control: Any, metrics: Any = None, **context: Any) -> None:
        self._end_evaluation(metrics or {}, context, state.global_step)

    @never_raise
    def on_predict(self, /, args: Any, state: Any, control: Any, metrics: Any, **context: Any) -> None:
        self._end_evaluation(metrics or {}, context, state.global_step)

    def _begin_evaluation(self, context: Mapping[str, Any], step: int) -> None:
        epoch = self.open_epoch() if self.stage is not None else None
        dataset = getattr(context.get("eval_dataloader"), "dataset", None)
        is_validation = epoch is not None or any(source is dataset for source in self._validation_sources)
        role = "validation" if is_validation else "test"  # a set that validated the training keeps its role
        if epoch is None:
            self.try_or(self._record_saved_folder, None)
            self.data.reset(role)
        using = self._observed_data(role, context.get("eval_dataloader"))
        if epoch is not None:
            self._validation_epoch = self._begin_validation(epoch, dataset, using, step)
        else:
            self.begin_evaluation(using=using, model=unwrap_network(context.get("model")))

    def _begin_validation(self, epoch: Epoch, dataset: Any, using: list[Data], step: int) -> Epoch:
        """Begin the validation of an epoch. Several evaluation sets, used after the same step, have a stage each.

        Their objects do not tell them apart: the Trainer may make a new one of the same set for every evaluation.
        """
        last, count = self._validations_at
        number = count if step == last else 0
        self._validations_at = step, number + 1
        self._validation_sources[number:] = [dataset] if dataset is not None else []
        index, kind = (step, "step") if self._validates_at_steps else (epoch.index, "epoch")
        if not number:
            return epoch._begin_validation(index, using, {}, kind=kind)
        if number > len(self._other_validations):
            self._other_validations.append(Stage(self.run, "validation", "validation", using, {}))
            self.run._unregister(self)
            self.run._register_open(self)  # registered after the stage, the capture is ended before it
        return self._other_validations[number - 1].epoch(index, kind=kind, during=epoch._location)

    def end_training(self, *, error: BaseException | None = None) -> None:
        """End the training and its validations."""
        stages, self._other_validations = self._other_validations, []
        try:
            for stage in stages:
                stage.done(error=error)
        finally:
            super().end_training(error=error)

    def _end_evaluation(self, metrics: Mapping[str, Any], context: Mapping[str, Any], step: int) -> None:
        if self.evaluation_stage is None and self._validation_epoch is None:
            self._begin_evaluation(context, step)
        measures = {
            name.partition("_")[2]: value
            for name, value in metrics.items()
            if _is_measure(name) and _is_of_evaluation(name)
        }
        epoch, self._validation_epoch = self._validation_epoch, None
        if epoch is not None:
            epoch.measured(**measures)
            epoch.done()
        else:
            self.end_evaluation(measures)


def weights_in(folder: str | PathLike[str]) -> Path | None:
    """Return the file of weights in a folder that `save_model` wrote; None if there is none."""
    return next((path for name in WEIGHT_FILES if (path := Path(folder, name)).is_file()), None)


def _planned_epochs(state: Any) -> int | None:
    """Return the planned number of epochs; None for a stream without an end."""
    planned: int = state.num_train_epochs
    return planned if planned < sys.maxsize else None


def _is_measure(name: str) -> bool:
    return name not in IGNORED_LOGS and not name.endswith(TIME_SUFFIXES)


def _is_of_evaluation(name: str) -> bool:
    """Return whether a logged value belongs to an evaluation or a prediction, which records it itself."""
    return name.startswith(("eval_", "test_"))


def _plain(value: Any) -> Any:
    """Return the value of an enumeration member; any other value as it is."""
    return getattr(value, "value", value)


def _stop_cause(state: Any) -> tuple[str, str, dict[str, Any]]:
    """Return what stopped a training before its last step: technique, reason and parameters."""
    for name, callback in (getattr(state, "stateful_callbacks", None) or {}).items():
        if "EarlyStopping" in name and isinstance(callback, dict):
            return name, f"the best value was {state.best_metric}", dict(callback.get("args", {}))
    return MANUAL, "should_training_stop was set", {}
