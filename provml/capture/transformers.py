"""Hugging Face Transformers: a callback for its Trainer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any

from provml.capture import facts, layer
from provml.capture.caller import caller
from provml.capture.optimizing import Optimizing, inner, unwrapped
from provml.capture.recording import BY_HAND, Technique, hook
from provml.capture.watch import is_same
from provml.content import Data
from provml.errors import MissingPart
from provml.sections import Epoch

try:
    import transformers
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingPart("transformers", "transformers") from error

SETTINGS = (
    "gradient_accumulation_steps", "max_grad_norm", "lr_scheduler_type", "warmup_steps", "warmup_ratio",
    "label_smoothing_factor", "seed", "data_seed", "fp16", "bf16", "optim", "load_best_model_at_end",
    "metric_for_best_model",
)  # fmt: skip
"""Settings of a training that matter to what is learned."""
UNTOLD = ("epoch", "learning_rate", "total_flos", "step", "num_input_tokens_seen")
ROUNDING = 1e-6
"""So much may be missing where the Trainer counts epochs in parts."""
TIMES = ("_runtime", "_per_second", "_preparation_time")
"""What the Trainer logs besides measures of the model."""


class Capture(Optimizing, TrainerCallback):
    """Records what a Trainer does: `Trainer(…, callbacks=[capture])`.

    A batch is an optimizer's step, as the Trainer counts. `checkpoints=False` leaves the folders that it saves unread.
    A run of its own takes the settings of `provml.record`.
    """

    def __init__(self, name: str = "", *, checkpoints: bool = True, **settings: Any) -> None:
        Optimizing.__init__(self, name, **settings)
        self.optimizers, self.schedulers = {}, []
        self._reads_files = checkpoints
        self._arguments: Any = None
        self._twin: Epoch | None = None
        self._started = 0
        self._stepped = 0.0
        self._is_over = False
        self._kept: dict[int, Data] = {}

    # ---- train

    @hook
    def on_train_begin(self, /, args: Any, state: Any, control: Any, **around: Any) -> None:
        self._arguments = args
        optimizer, loader = around.get("optimizer"), around.get("train_dataloader")
        self.optimizers = {"": optimizer} if optimizer is not None else {}
        self.schedulers = [around["lr_scheduler"]] if around.get("lr_scheduler") is not None else []
        kind = type((*inner(optimizer), optimizer)[0]).__name__
        values = {name: _plain(getattr(args, name, None)) for name in SETTINGS}
        values = {name: value for name, value in values.items() if value not in (None, False)}
        values |= {"optimizer": kind, **self.now(), "epochs": _epochs(state), "steps": state.max_steps}
        values |= self._peak(optimizer, values)
        values |= facts.loading(loader) if loader is not None else {}
        values["batch_size"] = args.train_batch_size
        values |= {"world_size": args.world_size} if args.world_size > 1 else {}
        layers: list[dict[str, Any]] = self.tried(lambda: layer.of_torch(unwrapped(around["model"])), [])
        values["num_layers"] = len(layers)
        self.anew("training", "validation")
        held = getattr(loader, "dataset", loader)
        seen = self.data("training", lambda: facts.tell(self.run, loader, "training", "training data"), of=held)
        resumed = caller("transformers.trainer", "_inner_training_loop", "train").get("resume_from_checkpoint")
        before = None
        if isinstance(resumed, (str, PathLike)):
            values["resumed_from"] = str(resumed)
            before = self.checkpoint(resumed, read=self._reads_files)
        model = unwrapped(around.get("model"))
        stage = self.begin_training(values, using=seen, model=model, after=before)
        stage.implemented_by(kind, software="transformers", version=transformers.__version__)
        stage.layers(layers)
        self._kept, self._is_over, self._twin = {}, False, None

    @hook
    def on_epoch_begin(self, /, args: Any, state: Any, control: Any, **around: Any) -> None:
        self._settle()
        self._is_over = False
        at = state.epoch or 0.0
        whole = int(at + ROUNDING)
        within = round(state.global_step * (at - whole) / at) if at else 0  # where it goes on in the middle of one
        self._started = state.global_step - within
        self.expect_epoch(whole + 1)

    @hook
    def on_step_begin(self, /, args: Any, state: Any, control: Any, **around: Any) -> None:
        self._end_step()
        self.begin_batch(state.global_step - self._started + 1)

    @hook
    def on_step_end(self, /, args: Any, state: Any, control: Any, **around: Any) -> None:
        self._stepped = perf_counter()  # it is told at the next hook: what is logged of it comes after this one

    @hook
    def on_epoch_end(self, /, args: Any, state: Any, control: Any, **around: Any) -> None:
        self._end_step()
        self._is_over = True  # what is logged and evaluated after this is still of this epoch

    @hook
    def on_log(self, /, args: Any, state: Any, control: Any, logs: Any = None, **around: Any) -> None:
        said = {name: value for name, value in (logs or {}).items() if _is_measure(name) and not _is_judged(name)}
        if self.stage is None or not said:
            return
        if "train_loss" in said:  # the last word of a training is on all of it
            self.stage.measured(loss=said["train_loss"])
            return
        section = self.batch if self.batch is not None and not self._is_over else self.epoch
        if section is not None:
            section.measured(**said)

    @hook
    def on_save(self, /, args: Any, state: Any, control: Any, **around: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        epoch = self.open_epoch()
        if epoch is not None and self._reads_files and folder.exists():
            self._kept[state.global_step] = self.kept(epoch, folder, epoch=epoch.index, step=state.global_step)

    @hook
    def on_train_end(self, /, args: Any, state: Any, control: Any, **around: Any) -> None:
        self._settle()
        if self.stage is None:
            return
        last = self.stage.epoch_now.index if self.stage.epoch_now is not None else 0
        if state.global_step < state.max_steps:
            self.stopped(last, *_why_stopped(state))
        held = state.global_step
        if args.load_best_model_at_end and state.best_model_checkpoint:
            held = int(str(state.best_model_checkpoint).rpartition("-")[2])
        if held in self._kept:
            self.left(self._kept[held])
        else:
            self.saved(None, epoch=last, step=held)
        self.end_training()

    def _end_step(self) -> None:
        batch, self.batch = self.batch, None
        if batch is not None:
            batch.done(ago=perf_counter() - self._stepped)

    def _settle(self) -> None:
        """Close the epoch that is over."""
        self._end_step()
        if self.epoch is not None:
            self.close_epoch()

    # ---- evaluate and predict

    @hook
    def on_prediction_step(self, /, args: Any, state: Any, control: Any, **around: Any) -> None:
        if self.test is None and self._twin is None:
            self._begin_judging(around)

    @hook
    def on_evaluate(self, /, args: Any, state: Any, control: Any, metrics: Any = None, **around: Any) -> None:
        self._end_judging(metrics or {}, around)

    @hook
    def on_predict(self, /, args: Any, state: Any, control: Any, metrics: Any, **around: Any) -> None:
        self._end_judging(metrics or {}, around)

    def _begin_judging(self, around: Mapping[str, Any]) -> None:
        loader = around.get("eval_dataloader")
        epoch = self.open_epoch() if self.stage is not None else None
        role = "validation" if epoch is not None else "test"
        if epoch is None:
            self.anew(role)
        held = getattr(loader, "dataset", loader)
        seen = self.data(role, lambda: facts.tell(self.run, loader, role, f"{role} data"), of=held)
        if epoch is not None:
            self._twin = epoch.validation(using=seen)
        else:
            self.begin_evaluation(using=seen, model=unwrapped(around.get("model")))

    def _end_judging(self, metrics: Mapping[str, Any], around: Mapping[str, Any]) -> None:
        if self.test is None and self._twin is None:
            self._begin_judging(around)
        measures = {n.partition("_")[2]: v for n, v in metrics.items() if _is_measure(n) and _is_judged(n)}
        twin, self._twin = self._twin, None
        if twin is not None:
            twin.measured(**measures)
            twin.done()
        else:
            self.end_evaluation(measures)

    # ---- hyperparameters

    def _peak(self, optimizer: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """The rate that was given, where it is the optimizer's and a schedule begins with another: warm-up, with 0."""
        given = getattr(self._arguments, "learning_rate", None)
        groups = getattr(optimizer, "param_groups", None) or [{}]
        is_given = is_same(groups[0].get("initial_lr"), given)  # an optimizer of the user's own has its own rate
        return {"peak_learning_rate": given} if is_given and not is_same(values.get("learning_rate"), given) else {}

    def technique(self, name: str, old: Any, new: Any) -> Technique:
        """What changed a hyperparameter: the schedule that the settings name, or another way."""
        _, number, _, key = self.places()[name]
        for one in self.schedulers:
            if key == "lr" and is_same(one.get_last_lr()[number], new):
                said = {"warmup_steps": getattr(self._arguments, "warmup_steps", None)}
                return f"{_plain(self._arguments.lr_scheduler_type)} schedule", said
        return BY_HAND, {}


def _epochs(state: Any) -> int | None:
    """How many epochs are planned; of a stream without an end, nobody knows."""
    planned: int = state.num_train_epochs
    return planned if planned < sys.maxsize else None


def _is_measure(name: str) -> bool:
    return name not in UNTOLD and not name.endswith(TIMES)


def _is_judged(name: str) -> bool:
    """Whether it is of an evaluation or a prediction, which tell it themselves."""
    return name.startswith(("eval_", "test_"))


def _plain(value: Any) -> Any:
    """A setting as a number or text; settings may be of an enumeration."""
    return getattr(value, "value", value)


def _why_stopped(state: Any) -> tuple[str, str, dict[str, Any]]:
    """What stopped a training before its last step: technique, reason and parameters."""
    for name, held in (getattr(state, "stateful_callbacks", None) or {}).items():
        if "EarlyStopping" in name and isinstance(held, dict):
            return name, f"the best value was {state.best_metric}", dict(held.get("args", {}))
    return BY_HAND, "should_training_stop was set", {}
