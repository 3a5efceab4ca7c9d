"""Lightning: a callback for a Trainer's `fit`, `validate` and `test`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provml.capture import facts, layer
from provml.capture.optimizing import Optimizing
from provml.capture.recording import BY_HAND, hook
from provml.content import Data
from provml.errors import MissingPart
from provml.sections import Epoch, Stage

try:
    from lightning import pytorch as lightning
except ImportError:
    try:
        import pytorch_lightning as lightning  # the same under its older name
    except ImportError as error:
        raise MissingPart("lightning", "lightning") from error

PREFIXES = ("train", "training", "val", "valid", "validation", "test")
"""By what users begin the names of measures; the stage says it, and the name is told without."""
SETTINGS = ("accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm", "precision", "max_steps")
"""Settings of a Trainer that matter to what is learned."""


class Capture(Optimizing, lightning.Callback):
    """Records what a Trainer does: `Trainer(callbacks=[capture])`.

    A LightningModule's saved hyperparameters are recorded too. `checkpoints=False` leaves files of ModelCheckpoint
    unread. A run of its own takes the settings of `provml.record`.
    """

    def __init__(self, name: str = "", *, checkpoints: bool = True, **settings: Any) -> None:
        lightning.Callback.__init__(self)
        Optimizing.__init__(self, name, **settings)
        self.optimizers, self.schedulers = {}, []
        self._reads_files = checkpoints
        self._twin: Epoch | None = None
        self._validates: Stage | None = None
        self._before: set[str] = set()
        self._validated: set[str] = set()
        self._files: dict[str, Any] = {}
        self._kept: dict[int, Data] = {}
        self._ended: Epoch | None = None

    # ---- fit

    @hook
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        several = list(trainer.optimizers)
        self.optimizers = (
            {"": several[0]} if len(several) == 1 else {f"optimizer_{n}": one for n, one in enumerate(several, 1)}
        )
        self.schedulers = [held.scheduler for held in trainer.lr_scheduler_configs]
        kinds = list(dict.fromkeys(type(one).__name__ for one in several))
        values: dict[str, Any] = dict(pl_module.hparams) if pl_module.hparams else {}
        values = {key: value for key, value in values.items() if isinstance(value, (bool, int, float, str))}
        values |= {"optimizer": ", ".join(kinds) or None, **self.now()}
        values["epochs"] = trainer.max_epochs if (trainer.max_epochs or 0) >= 0 else None  # -1: steps decide
        values |= {name: getattr(trainer, name, None) for name in SETTINGS}
        values["max_steps"] = trainer.max_steps if trainer.max_steps >= 0 else None
        if self.schedulers:
            values["scheduler"] = ", ".join(type(one).__name__ for one in self.schedulers)
        if trainer.world_size > 1:
            values["world_size"] = trainer.world_size
        loader = trainer.train_dataloader
        values |= facts.loading(loader) if loader is not None else {}
        layers: list[dict[str, Any]] = self.tried(lambda: layer.of_torch(pl_module), [])
        values["num_layers"] = len(layers)
        self.anew("training", "validation")
        held = getattr(loader, "dataset", loader)
        seen = self.data("training", lambda: facts.tell(self.run, loader, "training", "training data"), of=held)
        before = None
        if trainer.ckpt_path:
            values["resumed_from"] = str(trainer.ckpt_path)
            before = self.checkpoint(trainer.ckpt_path, read=self._reads_files)
        stage = self.begin_training(values, using=seen, model=pl_module, after=before)
        for kind in kinds:
            stage.implemented_by(kind, software="lightning", version=lightning.__version__)
        stage.layers(layers)
        self._files, self._kept, self._ended, self._validated = {}, {}, None, set()

    @hook
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._tell_files(trainer)
        self.expect_epoch(trainer.current_epoch + 1)

    @hook
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if not batch_idx:  # callbacks may have put others in
            held = [one.scheduler for one in trainer.lr_scheduler_configs]
            self.schedulers += [one for one in held if not any(one is known for known in self.schedulers)]
        self.begin_batch(batch_idx + 1)

    @hook
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is not None and trainer.accumulate_grad_batches != 1:
            loss = (
                loss * trainer.accumulate_grad_batches
            )  # it is handed over as its part of the step that several batches make
        self.end_batch({"loss": loss} if loss is not None else {})

    @hook
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._ended = self.open_epoch()
        measures = {n: v for n, v in trainer.callback_metrics.items() if n not in self._validated}
        self.close_epoch(_told(measures))

    @hook
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._tell_files(trainer)
        if self.stage is None:
            return
        last = self._ended.index if self._ended is not None else 0
        if trainer.max_epochs and trainer.max_epochs > 0 and 0 < last < trainer.max_epochs:
            self.stopped(last, *_why_stopped(trainer, last))
        if last in self._kept:
            self.left(self._kept[last])
        else:
            self.saved(None, epoch=last)
        self.end_training()

    @hook
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.end_training(error=exception)
        self.end_evaluation(error=exception)

    # ---- validation and test

    @hook
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        self._before = set(trainer.callback_metrics)
        loaders = trainer.val_dataloaders
        if self.stage is None:
            self.anew("validation")
        held = getattr(loaders, "dataset", loaders)
        seen = self.data("validation", lambda: facts.tell(self.run, loaders, "validation", "validation data"), of=held)
        epoch = self.open_epoch() if self.stage is not None else None
        if epoch is not None:
            self._twin = epoch.validation(using=seen)
        elif self.stage is None:
            self._validates = self.run.validation(of=self._judged(trainer, pl_module), using=seen)

    @hook
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        new = {n: v for n, v in trainer.callback_metrics.items() if n not in self._before or n.startswith("val")}
        twin, self._twin = self._twin, None
        stage, self._validates = self._validates, None
        if twin is not None:
            self._validated |= set(new)
            twin.measured(**_told(trainer.callback_metrics, only=self._validated))
            twin.done()
        elif stage is not None:
            stage.measured(**_told(trainer.callback_metrics))
            stage.done()

    @hook
    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        loaders = trainer.test_dataloaders
        self.anew("test")
        held = getattr(loaders, "dataset", loaders)
        seen = self.data("test", lambda: facts.tell(self.run, loaders, "test", "test data"), of=held)
        self._judged(trainer, pl_module)
        self.begin_evaluation(using=seen, model=pl_module)

    @hook
    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        self.end_evaluation(_told(trainer.callback_metrics))

    def _judged(self, trainer: Any, pl_module: Any) -> Data:
        """The model that is judged: what a checkpoint was just loaded into is that of its file from now on."""
        if trainer.ckpt_path:
            self.is_now(pl_module, self.found(trainer.ckpt_path))
        return self.found(pl_module)

    # ---- files

    def _tell_files(self, trainer: Any) -> None:
        """Tell the files that ModelCheckpoint has written since the last epoch ended."""
        if self._ended is None or not self._reads_files:
            return
        for one in trainer.checkpoint_callbacks:
            paths = {str(path) for path in (getattr(one, "best_k_models", None) or {})}
            paths |= {getattr(one, "best_model_path", ""), getattr(one, "last_model_path", "")}
            for path in sorted(paths - {""}):
                status = Path(path).stat() if Path(path).exists() else None
                if status is not None and self._files.get(path) != status.st_mtime_ns:
                    self._files[path] = status.st_mtime_ns
                    self._kept[self._ended.index] = self.kept(self._ended, path, epoch=self._ended.index)


def _told(metrics: Mapping[str, Any], only: set[str] | None = None) -> dict[str, Any]:
    """Measures by bare name: without what says the stage, and not again for each step."""
    found = {}
    for name, value in metrics.items():
        if name.endswith("_step") or (only is not None and name not in only):
            continue
        name = name.removesuffix("_epoch")
        for sign in "_/":
            head, _, rest = name.partition(sign)
            if rest and head.lower() in PREFIXES:
                name = rest
                break
        found[name] = value
    return found


def _why_stopped(trainer: Any, last: int) -> tuple[str, str, dict[str, Any]]:
    """What stopped a training after an epoch: technique, reason and parameters."""
    for one in trainer.early_stopping_callbacks:
        if one.stopped_epoch + 1 == last:
            said = {"monitor": one.monitor, "patience": one.patience, "min_delta": abs(one.min_delta)}
            return type(one).__name__, f"{one.monitor} was best with {float(one.best_score):.6g}", said
    if 0 <= trainer.max_steps <= trainer.global_step:
        return "max_steps", f"{trainer.max_steps} steps were done", {"max_steps": trainer.max_steps}
    return BY_HAND, "should_stop was set", {}
