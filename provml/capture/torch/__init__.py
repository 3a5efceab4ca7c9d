"""PyTorch: capture of a plain training loop through its network, optimizers, schedulers and loaders."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import Any, Self, Unpack

from provml.capture._data import record_data
from provml.capture._hyperparameters import MANUAL
from provml.capture._layers import layer_count
from provml.capture._section import SafeEpoch, SafeSection
from provml.capture._settings import CaptureSettings, Watch
from provml.capture.base import CaptureBase, check_save_path
from provml.capture.torch._batch_means import BatchMeans
from provml.capture.torch._loaders import LoaderTracker
from provml.capture.torch._optimizers import OptimizerTracker, name_of, register_step_hook
from provml.capture.torch._schedulers import initial_settings
from provml.errors import MissingDependency, WrongType, WrongValue
from provml.journal.batch_buffer import BatchBuffer
from provml.recording.batches import Batch, RecordedBatches
from provml.recording.data import Data
from provml.recording.frames import Loop, LoopIterable, raised_in_method
from provml.recording.inherit import world_size
from provml.recording.safety import as_epoch_count, as_first, never_raise
from provml.recording.stages import Epoch, Stage

try:
    import torch

    from provml.capture.torch._networks import Networks
    from provml.capture.torch._validation import ValidationLoop
except ImportError as error:
    raise MissingDependency("torch", "torch") from error

TENSOR = torch.Tensor
VALIDATION_ROLES = ("validation", "test")
if hasattr(torch.serialization, "add_safe_globals"):  # an epoch in a checkpoint is pickled as a call of `int`
    torch.serialization.add_safe_globals([int])


class Capture(CaptureBase):
    """Records a plain training loop.

    Pass what the loop uses: `network`, `optimizer` and `scheduler` (one, or several by name), `loss`, the loaders with
    `data={"training": loader, …}`, and more hyperparameters with `parameters=vars(args)`. Then write
    `for epoch in capture.epochs(10):` and inside it `for x, y in capture.batches(loader):`, within
    `with capture.training():`. The weights are saved to `save_model` after the last epoch; the file names of several
    networks contain `{network}`. Other settings are those of `provml.record`.
    """

    __slots__ = ("batch", "buffer")  # read for every batch; slots are found faster than keys of a large dictionary
    default_watch: Watch = "batch"

    def __init__(
        self,
        name: str = "",
        network: Any = None,
        optimizer: Any = (),
        *,
        scheduler: Any = (),
        loss: Any = None,
        scaler: Any = None,
        save_model: str | os.PathLike[str] | None = None,
        **settings: Unpack[CaptureSettings],
    ) -> None:
        optimizers, schedulers = _by_name(optimizer), list(_by_name(scheduler).values())
        self._networks = Networks(network)
        _check_objects(optimizers, schedulers, scaler)
        self._step_hooks: list[Any] = []
        self.buffer: BatchBuffer | None = None
        self._save_path = check_save_path(save_model)
        self._networks.check_save_path(self._save_path)
        self._optimizers = OptimizerTracker(optimizers, schedulers, self._on_step)
        super().__init__(name, source=self._optimizers, **settings)
        self.network = network
        self._loader = LoaderTracker(self.run, self.data, self.hyperparameters.selection)
        self._loss = loss
        self._scaler = scaler
        self._has_unknown_layers = False
        self._loop: Loop | None = None
        self._planned: int | None = None
        self._is_open_ended = False
        """Whether the loop over epochs has no end of its own."""
        self._validation: ValidationLoop | None = None
        """The validation or evaluation that a loop over its batches began."""
        self._interrupted: tuple[Batch, float] | None = None
        self._batch_thread = 0
        self._means = BatchMeans()
        self._section: SafeEpoch | None = None
        self._has_warned = False
        for optimizer in optimizers.values():
            step_hook = self.try_or(partial(register_step_hook, optimizer, self._optimizers.on_step), None)
            self._step_hooks += [step_hook] if step_hook is not None else []
        self._sees_steps = bool(optimizers) and len(self._step_hooks) == len(optimizers)

    def done(self, *, error: BaseException | None = None) -> None:
        """End and save what is open; remove the hooks from the optimizers."""
        for step_hook in self._step_hooks:
            step_hook.remove()
        self._step_hooks = []
        try:
            self._end_loop(error)
        finally:
            super().done(error=error)

    def _on_cell_error(self, error: BaseException) -> None:
        """End the training if the exception of a notebook's cell left the loop over its epochs."""
        if self._loop is not None and self._loop.is_left:
            self._end_loop(error)

    # ---- the loop of the user

    @contextmanager
    def training(self) -> Iterator[Self]:
        """End the training with this block: `with capture.training():` around the loop over `epochs`.

        The training ends with its last epoch, or with the block: FAILED if an exception leaves it, otherwise FINISHED.
        That needs no inspection of frames. An exception that is caught inside the block is only seen by inspection.
        """
        self._end_loop(sys.exc_info()[1])
        try:
            yield self
        except BaseException as error:
            self._end_loop(error)
            raise
        else:
            self._end_loop(None)

    def epochs(self, count: int | Iterable[Any] | None = None, *, first: int | None = None) -> Iterator[SafeEpoch]:
        """Yield the epochs of a training, numbers with methods: `for epoch in capture.epochs(10):`.

        `count` is a number, or items: an epoch is equal to its item if that is a whole number, as in
        `epochs(range(10))`. Without it, the training ends when the loop is left. `first` is the number of the first
        epoch, if an earlier training is resumed.
        """
        return LoopIterable(self._iterate_epochs(count, first), self._on_epoch)

    def _iterate_epochs(self, count: Any, first: int | None) -> Generator[SafeEpoch, None, None]:
        items = _epoch_items(count)
        planned = self.try_or(lambda: len(items) if isinstance(items, Sized) else None, None)
        self._end_loop(sys.exc_info()[1])
        first = max(getattr(items, "start", 1), 1) if first is None else as_first(first, "epoch")
        self._begin(planned, first)
        self._planned, self._is_open_ended = planned, count is None
        for index, item in enumerate(items, first):
            self._defer(index)
            self._means = BatchMeans()
            number = item if count is not None and not isinstance(count, int) and _is_whole(item) else index
            data = partial(self.data.get, "validation")
            self._section = SafeEpoch(self.run, self.open_epoch, index, data, number=number)
            yield self._section
            self._close()
        self._loop = None
        self._conclude()

    def _on_epoch(self, epoch: SafeEpoch, loop: Loop) -> None:
        """Note the loop over epochs."""
        self._loop = loop

    def batches(self, loader: Iterable[Any], *, role: str = "") -> RecordedBatches:
        """Iterate over the batches of a loader unchanged; `measured` belongs to the current batch.

        The length and the attributes, such as `dataset` and `sampler`, are those of the loader. A loader with the role
        "validation" or "test", here or in `data=`, records the validation of the epoch, or an evaluation outside of
        epochs; measures after the loop belong to it: `batches.measured(accuracy=…)`.
        """
        if not role:
            role = next((name for name, value in self.data.provided.items() if value is loader), "training")
        if role == "training":
            return RecordedBatches(loader, self)
        if role not in VALIDATION_ROLES:
            raise WrongValue("batches", "role", role, "training, validation or test", "Leave it out for training.")
        return RecordedBatches(loader, ValidationLoop(self.run, partial(self._begin_validation, role)))

    def _begin_validation(self, role: str, loop: ValidationLoop, loader: Any) -> Epoch | Stage | None:
        """Begin the validation of the open epoch, or an evaluation outside of epochs, for a loop over a loader."""
        self._end_validation()
        if self._loop is not None and not self._loop.is_running():
            self._end_loop(sys.exc_info()[1])
        sections: list[Epoch | Stage] = []
        self._record_validation(role, loader, sections)
        self._validation = loop if sections else None
        return sections[0] if sections else None

    @never_raise
    def _record_validation(self, role: str, loader: Any, sections: list[Epoch | Stage]) -> None:
        loader = getattr(loader, "iterable", loader)
        observe = partial(record_data, self.run, loader, role, f"{role} data")
        using = self.data.get(role, observe, source=getattr(loader, "dataset", None))
        epoch = self.open_epoch() if self.stage is not None else None
        if epoch is not None:
            sections.append(epoch.validation(using=using))
        else:
            stages: list[Stage] = []
            self._begin_evaluation(None, "evaluation", {}, stages, using=using)
            sections += stages

    def _end_validation(self, error: BaseException | None = None) -> None:
        loop, self._validation = self._validation, None
        if loop is not None:
            self.try_or(partial(loop.end, error), None)

    def on_first_batch(self, loader: Any) -> Epoch | None:
        """Return the open epoch, at the first batch of a loop in it."""
        self._updates += 1
        self._on_loader(loader)
        self._begin_batches()
        return self.epoch

    def on_loop_left(self, batch: Batch) -> None:
        """Note that a loop over batches was left: after a `break` its last batch is complete, after an error not."""
        if batch is self.batch:
            self._interrupted, self.batch = (batch, perf_counter()), None

    def measured(self, /, **values: Any) -> None:
        """Record measures of the current batch, or else of the epoch.

        After a `break` they belong to the epoch, unless something such as a named progress bar still holds the
        batches: then the last batch continues until the epoch ends, or another loop over batches begins.
        """
        batch = self.batch
        if batch is None:
            self._epoch_measured(values)
            return
        buffer = self.buffer
        try:
            if buffer is not None and buffer.current is batch and buffer.put(values, TENSOR):
                return
        except Exception:  # a value that cannot be converted: reported below
            pass
        self._batch_measured(batch, values)

    @never_raise
    def _batch_measured(self, batch: Batch, values: dict[str, Any]) -> None:
        """Record any measures of a batch."""
        is_in_buffer, errors = batch._record_values(values)
        if not is_in_buffer:  # the buffer computes totals only of its own measures
            self._means.add(values)
        for error in errors:
            self.run._report_error(error)

    @never_raise
    def _epoch_measured(self, values: dict[str, Any]) -> None:
        if self._validation is not None and self._validation.batch is not None:  # inside a loop over validation data
            self._validation.measured(**values)
            return
        section = self.open_epoch() or self.last_training
        if self._section is not None:
            self._section.recorded_names.update(values)
        if section is not None:
            section.measured(**values)
        elif not self._has_warned:
            self._has_warned = True
            message = "provml: Measures outside of epochs are not recorded. Use `for epoch in capture.epochs(…):`."
            logging.getLogger("provml").warning(message)

    def evaluation(self, model: Any = None, *, name: str = "evaluation", **values: Any) -> SafeSection:
        """Begin an evaluation of the model, during its training or after it: `with capture.evaluation() as test:`.

        `model` is another object, or the file of a saved model.
        """
        self._end_validation()
        self._end_left_loop()
        stages: list[Stage] = []
        self._begin_evaluation(model, name, values, stages)
        return SafeSection(self.run, lambda: stages[0] if stages else None)

    def saved(self, path: Any, *, network: Any = None, **fields: Any) -> Data | None:
        """Record that the model of the last training was saved in this file or folder; None: it is in memory only.

        `network` is one of several networks, or its name.
        """
        self._end_validation()
        self._end_left_loop()
        names = list(self._networks.by_name)
        part = network if network in names else self._networks.name_of(network)
        if part is None and len(names) > 1:
            advice = f"Use saved(path, network={names[0]!r})."
            self.run._report_error(WrongValue("saved", "network", str(network), " or ".join(names), advice))
            return None
        return self._record_saved(path, part or "", fields)

    def progress(self) -> object:
        """Return a value that is different after every epoch, loop over batches, step, or write to the weights.

        PyTorch counts the writes to a tensor. The value is not known inside a batch, or if an optimizer has no hook.
        """
        if not self._sees_steps or self.batch is not None:
            return None
        weights = self._networks.weights()
        groups = [group for optimizer in self._optimizers.optimizers.values() for group in optimizer.param_groups]
        weights += [parameter for group in groups for parameter in group["params"]]
        try:
            versions = [weight._version for weight in weights]
            return self.last_training, self._updates, self._optimizers.steps, versions
        except RuntimeError:  # tensors of the inference mode have no count
            return None

    # ---- begin and end of a training

    @never_raise
    def _begin(self, planned: int | None, first: int) -> None:
        layers: list[dict[str, Any]] = self.try_or(self._networks.layers, [])
        values = self._settings(planned) | {"num_layers": layer_count(layers)}
        self.data.reset("training", "validation")
        trained, using = self._trained_object(), self._loader.initial_data()
        stage = self.begin_training(values, using=using, model=trained, after=self._resumed_from(trained, first))
        for kind in dict.fromkeys(type(optimizer).__name__ for optimizer in self._optimizers.optimizers.values()):
            stage.implemented_by(kind, software="torch", version=torch.__version__)
        if len(self._networks.by_name) > 1:
            self._begin_parts(stage)
        self._has_unknown_layers = self._networks.are_lazy()
        if layers and not self._has_unknown_layers:
            stage.layers(layers)

    def _begin_parts(self, stage: Stage) -> None:
        """Set the networks of the training, each a model of its own."""
        for name, network in self._networks.by_name.items():
            initial = self.models.lookup(network)
            if initial is not None:
                stage.used(initial, role="model")
            self.models.begin_part(name, network, stage, initial)

    def _settings(self, planned: int | None) -> dict[str, Any]:
        """Return the hyperparameters that a training begins with."""
        optimizers, schedulers = self._optimizers.optimizers.values(), self._optimizers.schedulers
        values: dict[str, Any] = {"optimizer": ", ".join(type(item).__name__ for item in optimizers) or None}
        values |= self._optimizers.current_hyperparameters()
        values |= {"loss": name_of(self._loss), "epochs": planned, **self._loader.settings()}
        for number, scheduler in enumerate(schedulers, 1):
            name = "scheduler" if len(schedulers) == 1 else f"scheduler_{number}"
            settings = self.try_or(partial(initial_settings, scheduler), dict[str, Any]())
            values |= {name: type(scheduler).__name__, **{f"{name}.{key}": value for key, value in settings.items()}}
        if self._scaler is not None and self._scaler.is_enabled():
            values |= {"amp.scale": self._scaler.get_scale(), "amp.growth_factor": self._scaler.get_growth_factor()}
        size = world_size()
        return values | ({"world_size": size} if size is not None and size > 1 else {})

    def _trained_object(self, model: Any = None) -> Any:
        """Return the network that is trained, or an optimizer with its parameters; or another model that is passed.

        None stands for several networks.
        """
        name = self._networks.name_of(model)
        if name is not None:
            return self._networks.by_name[name]
        if model is not None and (self._networks or not self._is_optimized(model)):
            return model
        if self._networks:
            return self.network if "" in self._networks.by_name else None
        return next(iter(self._optimizers.optimizers.values()), None)

    def _is_optimized(self, model: Any) -> bool:
        """Return whether an optimizer has parameters of a model."""
        groups = [group for optimizer in self._optimizers.optimizers.values() for group in optimizer.param_groups]
        trained = {id(parameter) for group in groups for parameter in group["params"]}
        return hasattr(model, "parameters") and any(id(parameter) in trained for parameter in model.parameters())

    def _resumed_from(self, trained: Any, first: int) -> Data | None:
        """Return the model that a training continues from if it begins with a later epoch and is new to the capture."""
        model = self.data.provided.get("model")
        is_resumed = first > 1 and model is not None and self.models.lookup(trained) is None
        return self.models.resolve(model) if is_resumed else None

    @never_raise
    def _defer(self, index: int) -> None:
        if self.stage is not None:
            self.defer_epoch(index)

    @never_raise
    def _close(self) -> None:
        self._end_validation()
        self._end_interrupted_batch()
        self._record_means()
        self.close_epoch()
        if self._has_unknown_layers and self.stage is not None:  # lazy layers know their sizes after the first batch
            self._has_unknown_layers = False
            self.stage.layers(self._networks.layers())

    def _record_means(self) -> None:
        """Record the means of the batches for measures that the epoch does not have: questions compare epochs."""
        if self.epoch is not None:
            self.epoch._release_buffer()
            self._means.add_totals(self.epoch._totals)
        means = self._means.means(exclude=self._section.recorded_names if self._section is not None else ())
        epoch = self.open_epoch() if means else None
        if epoch is not None:
            epoch.measured(**means)
        self._means, self._section = BatchMeans(), None

    def _end_left_loop(self) -> None:
        if self._loop is not None and not self._loop.is_running():
            self._end_loop(sys.exc_info()[1])

    def _end_loop(self, error: BaseException | None) -> None:
        """End the training of a loop that was left: by `break`, which stops the training early, or by an error."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        exit_error = loop.exit_error(error)
        if exit_error is not None:
            self._fail(exit_error)
            return
        has_optimizers = bool(self._optimizers.optimizers)
        if loop.exhausted and has_optimizers and self._pending_epoch is not None:  # `zip` took an epoch without a step
            self._pending_epoch = self._section = None
        else:
            self._close()
        self._stop()
        self._conclude()

    @never_raise
    def _fail(self, error: BaseException) -> None:
        self._end_validation(error)
        self._interrupted, self._means, self._section = None, BatchMeans(), None
        if raised_in_method(error, "step", self._optimizers.optimizers.values()):  # its hook was not called
            self._on_step()
        self.end_training(error=error)

    @never_raise
    def _stop(self) -> None:
        if self.epochs_done != self._planned and not self._is_open_ended:
            self.record_early_stop(self.epochs_done, MANUAL, "the loop over its epochs was left", {})

    def _conclude(self) -> None:
        """Save the weights, even if recording is disabled, and end the training. Of several ranks, the first saves."""
        if self._save_path is not None and not self.run.rank:
            self._networks.save(self._save_path)
        self._record_end()

    @never_raise
    def _record_end(self) -> None:
        if self.stage is not None:
            last = self.stage.current_epoch.index if self.stage.current_epoch is not None else None
            self.end_training()
            if self._save_path is None or not self.run.rank:
                self._record_models(last)

    def _record_models(self, last: int | None) -> None:
        """Record the network, or each of several, in its file or in memory."""
        for name in list(self._networks.by_name) or [""]:
            path = self._networks.file_of(self._save_path, name) if self._save_path is not None else None
            self._record_saved(path, name, {"epoch": last})

    def end_training(self, *, error: BaseException | None = None) -> None:
        """End the training; record its data if no loader was known before."""
        try:
            if self.stage is not None:
                self._loader.end(self.stage)
        finally:
            super().end_training(error=error)

    # ---- batches, steps and evaluations

    @never_raise
    def _on_loader(self, loader: Any) -> None:
        if self.stage is not None:
            self._loader.on_loader(self.stage, loader)

    @never_raise
    def _begin_batches(self) -> None:
        self._end_validation()
        previous_thread, self._batch_thread = self._batch_thread, get_ident()
        if self._interrupted is not None or previous_thread == self._batch_thread:  # another thread's batch continues
            self._end_interrupted_batch()
        self.open_epoch()

    def _end_interrupted_batch(self) -> None:
        """End the last batch of a loop that was left by `break`: when it was left, or now if that is unknown."""
        interrupted, self._interrupted = self._interrupted, None
        batch, self.batch = self.batch, None
        if interrupted is not None:
            interrupted[0].done(ago=perf_counter() - interrupted[1])
        elif batch is not None:
            batch._interrupted()

    @never_raise
    def _on_step(self) -> None:
        """Record the epoch that a step begins, or the hyperparameters that changed before it."""
        if self._pending_epoch is not None:
            self.open_epoch()
        elif self.hyperparameters.is_check_due():
            self.record_changes()

    @never_raise
    def _begin_evaluation(
        self, model: Any, name: str, values: dict[str, Any], stages: list[Stage], using: list[Data] | None = None
    ) -> None:
        if self.stage is not None:
            self.open_epoch()
        if using is None:
            self.data.reset("test")
            using = self.data.get("test")
        trained = self._trained_object(model)
        first, *others = list(self._networks.by_name.values()) if trained is None and self._networks else [trained]
        stages.append(self.begin_evaluation(name=name, using=using, model=first, **values))
        for network in others:
            stages[0].used(self.models.resolve(network), role="model")


def _epoch_items(count: Any) -> Iterable[Any]:
    """Return the items to iterate over: a range for a number, numbers without an end for None."""
    if count is None:
        return itertools.count()
    items: Iterable[Any] = range(as_epoch_count(count)) if hasattr(count, "__index__") else count
    if isinstance(count, (str, bytes)) or not hasattr(items, "__iter__"):
        raise WrongType("Capture", "epochs", count, "a number or an iterable", "Use a number: epochs(3).")
    return items


def _is_whole(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool)


def _check_objects(optimizers: Mapping[str, Any], schedulers: Sequence[Any], scaler: Any) -> None:
    """Reject objects without the attribute by which their kind is recognized."""
    advice = "Use optimizer=…, several in a list or by name; the network comes before it."
    for optimizer in optimizers.values():
        if not hasattr(optimizer, "param_groups"):
            raise WrongType("Capture", "optimizer", optimizer, "optimizers of PyTorch", advice)
    for scheduler in schedulers:
        if not hasattr(scheduler, "step"):
            advice = "Use scheduler=…, several in a list."
            raise WrongType("Capture", "scheduler", scheduler, "schedulers of PyTorch", advice)
    if scaler is not None and not hasattr(scaler, "get_scale"):
        raise WrongType("Capture", "scaler", scaler, "a torch.amp.GradScaler", "Leave it out if there is none.")


def _by_name(values: Any) -> dict[str, Any]:
    """Return objects by name: a single one has the name "", unnamed ones are numbered, and None is left out."""
    if isinstance(values, Mapping):
        return {name: value for name, value in values.items() if value is not None}
    items = [item for item in (values if isinstance(values, (list, tuple)) else [values]) if item is not None]
    return {"": items[0]} if len(items) == 1 else {f"optimizer_{number}": item for number, item in enumerate(items, 1)}
