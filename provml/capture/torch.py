"""PyTorch: a plain training loop, watched through its network, optimizers, schedulers and loaders."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import index as as_index
from threading import get_ident
from time import perf_counter
from typing import Any

from provml.batch import BatchNow, handed
from provml.capture import layer
from provml.capture.loading import Loading
from provml.capture.loop import Loop
from provml.capture.optimizing import hooked, is_of_step, named, unwrapped
from provml.capture.recording import BY_HAND, hook, save_to
from provml.capture.section import Section
from provml.content import Data
from provml.errors import MissingPart, WrongType
from provml.sections import Epoch, Stage
from provml.slate import TOLD, VALUES, Slate

try:
    import torch
except ImportError as error:
    raise MissingPart("torch", "torch") from error

TENSOR = torch.Tensor


class Capture(Loading):
    """Records a plain training loop.

    Give it what the loop uses: `network`, `optimizer` and `scheduler` (one, several, or several by name), `loss`, and
    the loaders with `data={"training": loader, …}`. Then `for epoch in capture.epochs(10):` and in it
    `for x, y in capture.batches(loader):`. `save_model` is where to save the weights when the epochs are over. A run of
    its own takes the settings of `provml.record`.
    """

    __slots__ = ("_only", "batch", "slate")  # asked with every batch, and found sooner here than in a large dictionary
    usual_watch = "batch"

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
        **settings: Any,
    ) -> None:
        self.optimizers = _by_name(optimizer)
        self.schedulers = list(_by_name(scheduler).values())
        advice = "Say optimizer=…, several in a list or by name; the network goes before it."
        for one in self.optimizers.values():
            _has("param_groups", "optimizer", one, "optimizers of PyTorch", advice)
        for one in self.schedulers:
            _has("step", "scheduler", one, "schedulers of PyTorch", "Say scheduler=…, several in a list.")
        if network is not None:
            _has("named_modules", "network", network, "a torch.nn.Module", "The network comes before the optimizer.")
        if scaler is not None:
            _has("get_scale", "scaler", scaler, "a torch.amp.GradScaler", "Leave it out where there is none.")
        self._only = None
        self._handles: list[Any] = []
        self.slate: Slate | None = None
        self._save_to = save_to(save_model)
        super().__init__(name, **settings)
        self.network = network
        self._loss = loss
        self._scaler = scaler
        self._lazy = False
        self._loop: Loop | None = None
        self._planned: int | None = None
        self._left: tuple[BatchNow, float] | None = None
        self._thread = 0
        self._sums: dict[str, list[float]] = {}
        self._now: Section | None = None
        for one in self.optimizers.values():
            handle = self.tried(partial(hooked, one, self._on_step), None)
            self._handles += [handle] if handle is not None else []

    def done(self, *, error: BaseException | None = None) -> None:
        """End and save what waits for an end; the optimizers are as they were."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        try:
            self._settle(error)
        finally:
            super().done(error=error)

    # ---- the loop

    def epochs(self, count: int | Iterable[Any], *, first: int = 1) -> Iterator[Section]:
        """The epochs of a training, each with its `index` and verbs: `for epoch in capture.epochs(10):`."""
        given: Any = count
        items: Iterable[Any] = range(as_index(given)) if hasattr(given, "__index__") else given
        if isinstance(given, (str, bytes)) or not hasattr(items, "__iter__"):
            raise WrongType("Capture", "epochs", count, "how many, or what to go over", "Give a number: epochs(3).")
        planned = len(items) if isinstance(items, Sequence) else None
        self._settle(sys.exc_info()[1])
        self._begin(planned, first)
        self._planned = planned
        loop: Loop | None = None
        for index, _ in enumerate(items, first):
            frame = sys._getframe(1)
            if loop is None or not loop.is_at(frame):
                loop = Loop(frame)
            self._loop = loop
            del frame
            self._expect(index)
            self._sums = {}
            self._now = Section(self.run, self.open_epoch, index, lambda: self.data("validation"))
            try:
                yield self._now
            except GeneratorExit:
                loop.leave(sys._getframe().f_back)
                raise
            self._close()
        self._loop = None
        self._conclude()

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The batches of a loader, just as it gives them; `measured` is of the batch while its turn lasts."""
        return handed(loader, self)

    def begun(self, loader: Any) -> Epoch | None:
        """The epoch that is open, for the first has come of a loop's batches in it."""
        self.meet(loader)
        self._begin_batches()
        return self.epoch

    def broke_off(self, batch: BatchNow) -> None:
        """A loop over batches was left: by a break, or by an error, and then its last batch has no end."""
        if batch is self.batch:
            self._left, self.batch = (batch, perf_counter()), None

    def measured(self, /, **values: Any) -> None:
        """Measures of the batch that is worked on, or else of the epoch.

        After a `break` they are of the epoch, unless something such as a progress bar with a name still holds the
        batches: then their last one goes on until the epoch ends, or another loop over batches begins.
        """
        batch = self.batch
        if batch is None:
            self._measured(values)
            return
        slate = self.slate
        try:  # as a rule it is one number, which is said with every batch, and so in as few steps as there may be
            if slate is not None and slate.now is batch and not slate.told and len(values) == 1:
                value: Any = values.get(slate.only)
                if type(value) is TENSOR:
                    value = value.tolist()
                if type(value) is float:
                    row, view = slate.row, slate.view
                    view[row + VALUES] = value
                    view[row + TOLD] = slate.told = 1
                    return
        except Exception:  # no row: a signal's handler, as rows are told; or no number, which is told below
            pass
        self._batch_measured(batch, values)

    @hook
    def _batch_measured(self, batch: BatchNow, values: dict[str, Any]) -> None:
        """Any measures of a batch."""
        slate = batch.slate
        if slate is not None and slate.now is batch and slate.measured(values, TENSOR):
            return
        is_held, wrong = batch.take(values)
        if not is_held:
            self._add(values)
        for error in wrong:
            self.run.fault(error)

    def _add(self, values: Mapping[str, Any]) -> None:
        """Measures of a batch that the slate does not add up."""
        for name, value in values.items():
            number = _number(value)
            if isinstance(number, (int, float)):
                total, count = self._sums.get(name, (0.0, 0.0))
                self._sums[name] = [total + number, count + 1]

    @hook
    def _measured(self, values: dict[str, Any]) -> None:
        section = self.open_epoch() or self.trained
        if self._now is not None:
            self._now.told.update(values)
        if section is not None:
            section.measured(**values)
        else:
            self.outside()

    @hook
    def parameters(self, /, **values: Any) -> None:
        """The training has these hyperparameters too."""
        if self.trained is not None:
            self.trained.parameters(**self.selection.of(values))

    def evaluation(self, model: Any = None, *, name: str = "evaluation", **values: Any) -> Section:
        """An evaluation of the model, in its training or after it: `with capture.evaluation() as test:`.

        Or of another object, or of a file that was saved.
        """
        self._settle_left()
        found: list[Stage] = []
        self._begin_test(model, name, values, found)
        return Section(self.run, lambda: found[0] if found else None)

    def saved(self, path: Any, **said: Any) -> Data | None:
        """The model of the last training is in this file or folder; None: it is in memory only."""
        self._settle_left()
        return super().saved(path, **said)

    # ---- the same, safely

    @hook
    def _begin(self, planned: int | None, first: int) -> None:
        values: dict[str, Any] = {
            "optimizer": ", ".join(type(one).__name__ for one in self.optimizers.values()) or None
        }
        values |= self.now() | {"loss": named(self._loss), "epochs": planned}
        values |= self.loader_settings()
        for number, one in enumerate(self.schedulers, 1):
            values["scheduler" if len(self.schedulers) == 1 else f"scheduler_{number}"] = type(one).__name__
        if self._scaler is not None and self._scaler.is_enabled():
            values |= {"amp.scale": self._scaler.get_scale(), "amp.growth_factor": self._scaler.get_growth_factor()}
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            values["world_size"] = int(os.environ["WORLD_SIZE"])
        network = self.network
        layers: list[dict[str, Any]] = self.tried(
            lambda: layer.of_torch(unwrapped(network)) if network is not None else [], []
        )
        values["num_layers"] = len(layers) or None
        self.anew("training", "validation")
        one, using = self.trained_one(), self.loader_data()
        stage = self.begin_training(values, using=using, model=one, after=self.resumed(one, first))
        for kind in dict.fromkeys(type(one).__name__ for one in self.optimizers.values()):
            stage.implemented_by(kind, software="torch", version=torch.__version__)
        self._lazy = self.network is not None and _is_lazy(self.network)
        if layers and not self._lazy:
            stage.layers(layers)

    @hook
    def _expect(self, index: int) -> None:
        if self.stage is not None:
            self.expect_epoch(index)

    @hook
    def _close(self) -> None:
        self._end_left_batch()
        self._tell_means()
        self.close_epoch()
        if self._lazy and self.stage is not None:  # its layers know their sizes only now
            self._lazy = False
            self.stage.layers(layer.of_torch(unwrapped(self.network)))

    def _tell_means(self) -> None:
        """What only batches were told is the epoch's too, as the mean of them: questions go by epochs."""
        told = self._now.told if self._now is not None else set()
        sums = self._sums
        if self.epoch is not None:
            self.epoch.free()
            for name, (total, count) in self.epoch.totals.items():
                held = sums.get(name, (0.0, 0.0))
                sums[name] = [held[0] + total, held[1] + count]
        means = {name: total / count for name, (total, count) in sums.items() if name not in told}
        epoch = self.open_epoch() if means else None
        if epoch is not None:
            epoch.measured(**means)
        self._sums, self._now = {}, None

    @hook
    def _end(self) -> None:
        if self.stage is not None:
            last = self.stage.epoch_now.index if self.stage.epoch_now is not None else None
            self.end_training()
            if self._save_to is None or not self.run.rank:
                self.saved(self._save_to, epoch=last)

    def _settle_left(self) -> None:
        if self._loop is not None and not self._loop.goes_on():
            self._settle(sys.exc_info()[1])

    def _settle(self, error: BaseException | None) -> None:
        """A loop over epochs was left: by `break`, and the training stopped there, or by an error."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        failed = loop.failed(error)
        if failed is not None:
            self._fail(failed)
            return
        if loop.ran_out and self.optimizers and self._coming is not None:  # nothing was done in it: `zip` took it too
            self._coming = self._now = None
        else:
            self._close()
        self._stop()
        self._conclude()

    @hook
    def _fail(self, error: BaseException) -> None:
        self._left, self._sums, self._now = None, {}, None
        if is_of_step(error, self.optimizers.values()):  # which is seen only when it is over
            self._look_at_step()
        self.end_training(error=error)

    @hook
    def _stop(self) -> None:
        if self.epochs_done != self._planned:
            self.stopped(self.epochs_done, BY_HAND, "the loop over its epochs was left", {})

    def _conclude(self) -> None:
        """Save the weights, which was asked for whether or not they are recorded; and tell them. Of several processes
        that train one network, the first does."""
        if self._save_to is not None and not self.run.rank:
            self._save_to.parent.mkdir(parents=True, exist_ok=True)
            torch.save(unwrapped(self.network).state_dict(), self._save_to)
        self._end()

    @hook
    def _begin_batches(self) -> None:
        before, self._thread = self._thread, get_ident()
        if self._left is not None or before == self._thread:  # that of another thread may go on
            self._end_left_batch()
        self.open_epoch()

    def _end_left_batch(self) -> None:
        """A loop over batches was left by `break`: the last of them ended then, or ends now if that was not seen."""
        left, self._left = self._left, None
        batch, self.batch = self.batch, None
        if left is not None:
            left[0].done(ago=perf_counter() - left[1])
        elif batch is not None:
            batch.left()

    @hook
    def _begin_test(self, model: Any, name: str, values: dict[str, Any], found: list[Stage]) -> None:
        if self.stage is not None:
            self.open_epoch()
        self.anew("test")
        using = self.data("test")
        found.append(self.begin_evaluation(name=name, using=using, model=self.trained_one(model), **values))

    def _on_step(self, optimizer: Any, given: Any, named: Any) -> None:
        """At an optimizer's step: what it uses is in force."""
        only = self._only
        try:
            if only is not None:  # as in `moved`, in as few steps as there may be
                groups, group, were = only
                if group == were and optimizer.param_groups is groups and len(groups) == 1 and groups[0] is group:
                    return
            elif self._coming is None and self._glance is not None and not self._glance():
                return
        except Exception:  # what cannot be compared may be another; asked at every step
            pass
        self._look_at_step()

    @hook
    def _look_at_step(self) -> None:
        if self._coming is not None:
            self.open_epoch()
        elif self.moved():
            self.look()


def _has(what: str, given: str, one: Any, expected: str, advice: str) -> None:
    """Refuse what lacks the method or attribute by which its kind is known."""
    if not hasattr(one, what):
        raise WrongType("Capture", given, one, expected, advice)


def _number(value: Any) -> Any:
    """The number in a tensor or an array of one element; anything else as it is."""
    return value.item() if hasattr(value, "item") and math.prod(getattr(value, "shape", ())) == 1 else value


def _by_name(given: Any) -> dict[str, Any]:
    """One or several, by name: the only one has none, of several each has its own or its number; None is none."""
    if isinstance(given, Mapping):
        return {name: one for name, one in given.items() if one is not None}
    several = [one for one in (given if isinstance(given, (list, tuple)) else [given]) if one is not None]
    return {"": several[0]} if len(several) == 1 else {f"optimizer_{n}": one for n, one in enumerate(several, 1)}


def _is_lazy(network: Any) -> bool:
    return any(isinstance(one, torch.nn.parameter.UninitializedTensorMixin) for one in network.parameters())
