"""Lightning: a callback for a Trainer's `fit`, `validate` and `test`."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, Unpack

from provml.capture import _data, _layers
from provml.capture._hyperparameters import MANUAL
from provml.capture._settings import CaptureSettings
from provml.capture.base import CaptureBase
from provml.capture.torch._optimizers import OptimizerTracker
from provml.capture.torch._schedulers import initial_settings
from provml.errors import MissingDependency
from provml.journal.values import COUNTERS
from provml.recording.data import Data
from provml.recording.kinds import hyperparameter_of
from provml.recording.safety import never_raise
from provml.recording.stages import Epoch, Stage

try:
    from lightning import pytorch as lightning
except ImportError:
    try:
        import pytorch_lightning as lightning  # the same package under its older name
    except ImportError as error:
        raise MissingDependency("lightning", "lightning") from error

PREFIXES = ("train", "training", "val", "valid", "validation", "test")
"""Prefixes of measure names that only repeat the stage and are removed."""
SETTINGS = ("accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm", "precision", "max_steps")
"""Settings of a Trainer that influence what is learned."""


class Capture(CaptureBase, lightning.Callback):
    """Records what a Trainer does: `Trainer(callbacks=[capture])`.

    The saved hyperparameters of a LightningModule are recorded, too. With `checkpoints=False` the files of
    ModelCheckpoint are not read. Other settings are those of `provml.record`.
    """

    framework = lightning.__name__.partition(".")[0]

    def __init__(self, name: str = "", *, checkpoints: bool = True, **settings: Unpack[CaptureSettings]) -> None:
        lightning.Callback.__init__(self)
        self._optimizers = OptimizerTracker()
        CaptureBase.__init__(self, name, source=self._optimizers, **settings)
        self._reads_files = checkpoints
        self._validation_epoch: Epoch | None = None
        self._validation_stage: Stage | None = None
        self._earlier_names: set[str] = set()
        """Names of the metrics before a validation."""
        self._validation_names: set[str] = set()
        self._file_times: dict[str, int] = {}
        self._checkpoints: dict[int, Data] = {}
        """The last checkpoint of each epoch."""
        self._ended_epoch: Epoch | None = None

    # ---- fit

    @never_raise
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        optimizers = list(trainer.optimizers)
        is_single = len(optimizers) == 1
        self._optimizers.optimizers = {
            "" if is_single else f"optimizer_{number}": optimizer for number, optimizer in enumerate(optimizers, 1)
        }
        self._optimizers.schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
        kinds = list(dict.fromkeys(type(optimizer).__name__ for optimizer in optimizers))
        layers: list[dict[str, Any]] = self.try_or(lambda: _layers.torch_layers(pl_module), [])
        values = self._settings(trainer, pl_module, kinds) | {"num_layers": len(layers)}
        self.data.reset("training", "validation")
        using = self._observed_data("training", trainer.train_dataloader)
        initial = None
        if trainer.ckpt_path:
            values["resumed_from"] = str(trainer.ckpt_path)
            initial = self.models.checkpoint(trainer.ckpt_path, read=self._reads_files)
        stage = self.begin_training(values, using=using, model=pl_module, after=initial)
        for kind in kinds:
            stage.implemented_by(kind, software="lightning", version=lightning.__version__)
        stage.layers(layers)
        self._file_times, self._checkpoints, self._ended_epoch, self._validation_names = {}, {}, None, set()

    def _settings(self, trainer: Any, pl_module: Any, kinds: list[str]) -> dict[str, Any]:
        """Return the hyperparameters that a training begins with."""
        values: dict[str, Any] = dict(pl_module.hparams) if pl_module.hparams else {}
        values = {
            hyperparameter_of(key): value for key, value in values.items() if isinstance(value, (Real, Decimal, str))
        }
        values |= {"optimizer": ", ".join(kinds) or None, **self._optimizers.current_hyperparameters()}
        values["epochs"] = trainer.max_epochs if (trainer.max_epochs or 0) >= 0 else None  # -1: limited by steps
        values |= {name: getattr(trainer, name, None) for name in SETTINGS}
        values["max_steps"] = trainer.max_steps if trainer.max_steps >= 0 else None
        if self._optimizers.schedulers:
            values["scheduler"] = ", ".join(type(scheduler).__name__ for scheduler in self._optimizers.schedulers)
            for scheduler in self._optimizers.schedulers[:1]:
                values |= {f"scheduler.{name}": value for name, value in initial_settings(scheduler).items()}
        if trainer.world_size > 1:
            values["world_size"] = trainer.world_size
        loader = trainer.train_dataloader
        return values | (_data.loader_settings(loader) if loader is not None else {})

    def _observed_data(self, role: str, loader: Any) -> list[Data]:
        """Return the datasets of a role, by default those of a loader."""
        dataset = getattr(loader, "dataset", loader)
        return self.data.get(role, lambda: _data.record_data(self.run, loader, role, f"{role} data"), source=dataset)

    @never_raise
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._record_files(trainer)
        self.defer_epoch(trainer.current_epoch + 1)

    @never_raise
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if not batch_idx:  # callbacks may have added schedulers
            schedulers = self._optimizers.schedulers
            configured = [config.scheduler for config in trainer.lr_scheduler_configs]
            schedulers += [new for new in configured if not any(new is scheduler for scheduler in schedulers)]
        self.begin_batch(batch_idx + 1)

    @never_raise
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is not None and trainer.accumulate_grad_batches != 1:
            loss = loss * trainer.accumulate_grad_batches  # Lightning divides it by the number of batches per step
        self.end_batch({"loss": loss} if loss is not None else {})

    @never_raise
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._ended_epoch = self.open_epoch()
        metrics = {
            name: value for name, value in trainer.callback_metrics.items() if name not in self._validation_names
        }
        self.close_epoch(_measures(metrics))

    @never_raise
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._record_files(trainer)
        if self.stage is None:
            return
        last = self._ended_epoch.index if self._ended_epoch is not None else 0
        if trainer.max_epochs and trainer.max_epochs > 0 and 0 < last < trainer.max_epochs:
            self.record_early_stop(last, *_stop_cause(trainer, last))
        if last in self._checkpoints:
            self.models.set_last(self._checkpoints[last])
        else:
            self.saved(None, epoch=last)
        self.end_training()

    @never_raise
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.end_training(error=exception)
        self.end_evaluation(error=exception)

    # ---- validation and test

    @never_raise
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        self._earlier_names = set(trainer.callback_metrics)
        if self.stage is None:
            self.data.reset("validation")
        using = self._observed_data("validation", trainer.val_dataloaders)
        epoch = self.open_epoch() if self.stage is not None else None
        if epoch is not None:
            self._validation_epoch = epoch.validation(using=using)
        elif self.stage is None:
            self._validation_stage = self.run.validation(of=self._evaluated_model(trainer, pl_module), using=using)

    @never_raise
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        metrics = trainer.callback_metrics
        epoch, self._validation_epoch = self._validation_epoch, None
        stage, self._validation_stage = self._validation_stage, None
        if epoch is not None:
            self._validation_names |= {
                name for name in metrics if name not in self._earlier_names or name.startswith("val")
            }
            epoch.measured(**_measures(metrics, names=self._validation_names))
            epoch.done()
        elif stage is not None:
            stage.measured(**_measures(metrics))
            stage.done()

    @never_raise
    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        self.data.reset("test")
        using = self._observed_data("test", trainer.test_dataloaders)
        self._evaluated_model(trainer, pl_module)
        self.begin_evaluation(using=using, model=pl_module)

    @never_raise
    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        self.end_evaluation(_measures(trainer.callback_metrics))

    def _evaluated_model(self, trainer: Any, pl_module: Any) -> Data:
        """Return the model that is evaluated; after a checkpoint was loaded, the module is the model of that file."""
        if trainer.ckpt_path:
            self.models.rebind(pl_module, self.models.resolve(trainer.ckpt_path))
        return self.models.resolve(pl_module)

    # ---- files

    def _record_files(self, trainer: Any) -> None:
        """Record the files that ModelCheckpoint wrote since the last epoch ended."""
        epoch = self._ended_epoch
        if epoch is None or not self._reads_files:
            return
        for callback in trainer.checkpoint_callbacks:
            paths = {str(path) for path in (getattr(callback, "best_k_models", None) or {})}
            paths |= {getattr(callback, "best_model_path", ""), getattr(callback, "last_model_path", "")}
            for path in sorted(paths - {""}):
                modified = Path(path).stat().st_mtime_ns if Path(path).exists() else None
                if modified is not None and self._file_times.get(path) != modified:
                    self._file_times[path] = modified
                    self._checkpoints[epoch.index] = self.models.record_file(epoch, path, epoch=epoch.index)


def _measures(metrics: Mapping[str, Any], names: set[str] | None = None) -> dict[str, Any]:
    """Return measures without the prefix of their stage; counters and those of single steps are left out."""
    measures = {}
    for name, value in metrics.items():
        if name.endswith("_step") or name in COUNTERS or (names is not None and name not in names):
            continue
        name = name.removesuffix("_epoch")
        for separator in "_/":
            prefix, _, rest = name.partition(separator)
            if rest and prefix.lower() in PREFIXES:
                name = rest
                break
        measures[name] = value
    return measures


def _stop_cause(trainer: Any, last: int) -> tuple[str, str, dict[str, Any]]:
    """Return what stopped a training after an epoch: technique, reason and parameters."""
    for callback in trainer.early_stopping_callbacks:
        if callback.stopped_epoch + 1 == last:
            reason = f"{callback.monitor} was best with {float(callback.best_score):.6g}"
            parameters = {"monitor": callback.monitor, "patience": callback.patience}
            return type(callback).__name__, reason, parameters | {"min_delta": abs(callback.min_delta)}
    if 0 <= trainer.max_steps <= trainer.global_step:
        return "max_steps", f"{trainer.max_steps} steps were done", {"max_steps": trainer.max_steps}
    return MANUAL, "should_stop was set", {}
