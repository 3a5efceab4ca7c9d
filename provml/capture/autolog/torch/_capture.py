"""The capture of a plain PyTorch loop that autolog observes."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

from provml.capture import _data
from provml.capture._hyperparameters import Technique, is_same
from provml.capture._layers import layer_count
from provml.capture.autolog._loop_capture import EVALUATIONS, Change, LoopCapture, Steps, to_floats
from provml.capture.autolog._timeline import Phase, Row
from provml.capture.torch._networks import Networks
from provml.capture.torch._optimizers import OptimizerTracker, unwrap_network
from provml.capture.torch._schedulers import SchedulerState, initial_settings, state_of
from provml.recording import inherit
from provml.recording.data import Data
from provml.recording.safety import never_raise, report_errors


class WeakList:
    """Objects of the script in the order in which they were added, which keeps none of them alive."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._references = [weakref.ref(item) for item in items]

    def __iter__(self) -> Iterator[Any]:
        return (item for reference in self._references if (item := reference()) is not None)

    def __contains__(self, item: object) -> bool:
        return any(item is other for other in self)

    def __len__(self) -> int:
        """Return how many were added, also those that are gone."""
        return len(self._references)

    def append(self, item: Any) -> None:
        """Add an object."""
        self._references.append(weakref.ref(item))

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Yield the objects that exist with their numbers, from 1."""
        for number, reference in enumerate(self._references, 1):
            if (item := reference()) is not None:
                yield number, item


class ObservedTracker(OptimizerTracker):
    """The hyperparameters of optimizers as they were at a step."""

    __slots__ = ("_weak_schedulers", "observed")

    def __init__(self) -> None:
        self._weak_schedulers = WeakList()
        super().__init__()
        self.observed: Any = None

    @property
    def schedulers(self) -> list[Any]:  # a scheduler would keep its optimizer alive
        """The schedulers that exist."""
        return list(self._weak_schedulers)

    @schedulers.setter
    def schedulers(self, schedulers: Iterable[Any]) -> None:
        self._weak_schedulers = WeakList(schedulers)

    def _undeclared_of(self, optimizer: Any) -> list[Any]:
        """Return none: autolog knows all schedulers that were made since it began."""
        return [] if self._weak_schedulers else super()._undeclared_of(optimizer)

    def on_compared(self) -> None:
        """Remember nothing: the mirror of each optimizer notices changes."""

    def on_checked(self) -> None:
        """Remember the schedulers as they are at a step, not as they are when an earlier step is recorded."""
        if self.observed is None:
            super().on_checked()

    def begin_with(self, states: dict[int, SchedulerState]) -> None:
        """Begin with the states that schedulers had at the first step: they may have changed the next one already."""
        self._states |= states

    def current_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the step that is being recorded, otherwise those of now."""
        return dict(self.observed.values) if self.observed is not None else super().current_hyperparameters()

    def technique_of_change(self, name: str, old: Any, new: Any) -> Technique:
        """Return what changed a hyperparameter, as it was known at the step."""
        if self.observed is not None and name in self.observed.techniques:
            technique: Technique = self.observed.techniques[name]
            return technique
        return super().technique_of_change(name, old, new)

    def may_have_changed(self) -> bool:
        """Compare whenever values of a step are recorded."""
        return self.observed is not None or super().may_have_changed()


class Setup:
    """What a training begins with, as far as it was observed."""

    def __init__(self) -> None:
        self.networks = WeakList()
        self.optimizers = WeakList()
        self.schedulers = WeakList()
        self.scheduler_states: dict[int, SchedulerState] = {}
        """The states of the schedulers at the first step of their optimizers, by identity."""
        self.loaders: list[Any] = []
        self.loss = ""
        self.scaler: Any = None
        self.resumed_from: Any = None
        """The file that the network was loaded from."""
        self.initial: dict[tuple[int, int, str], Any] = {}
        """Values of the first step, by optimizer, number of the parameter group, and key."""

    def add_optimizer(self, optimizer: Any) -> None:
        """Add an optimizer with the hyperparameters of its first step."""
        self.optimizers.append(optimizer)
        for number, group in enumerate(optimizer.param_groups):
            self.initial |= {(id(optimizer), number, key): value for key, value in group.items() if key != "params"}

    def named_networks(self) -> dict[str, Any]:
        """Return the networks by name: a single one has no name, several have that of their class."""
        networks = list(self.networks)
        kinds = [type(unwrap_network(network)).__name__ for network in networks]
        names = []
        for number, kind in enumerate(kinds):
            is_shared = kinds.count(kind) > 1
            names.append(f"{kind}_{kinds[:number].count(kind) + 1}" if is_shared else kind)
        return dict(zip(names if len(networks) > 1 else [""], networks, strict=False))

    def add_scheduler(self, scheduler: Any) -> None:
        """Add a scheduler. It stands for the schedulers that it contains, which were made before it."""
        parts = getattr(scheduler, "_schedulers", None) or ()
        self.schedulers = WeakList(item for item in self.schedulers if all(item is not part for part in parts))
        self.schedulers.append(scheduler)
        self.scheduler_states[id(scheduler)] = state_of(scheduler)


def _has_waiting_optimizers() -> bool:
    """Return whether some optimizer has made no step yet: its network may join the training."""
    from provml.capture.autolog import current

    autolog = current()
    observer = autolog.session.torch_observer if autolog is not None else None
    return observer is not None and bool(observer.needs_calls)


class Capture(LoopCapture):
    """Records the training loops that the observer of autolog recognizes, one after the other."""

    tracker: ObservedTracker

    def __init__(self, **settings: Any) -> None:
        super().__init__(ObservedTracker(), **settings)
        self.setup = Setup()
        self.whole_losses: set[str] = set()
        """Functions whose result was the whole loss of a step."""
        self._observed_values: dict[str, Any] = {}
        self._pending_layers: list[dict[str, Any]] = []
        """The layers of the networks so far, until no other network can join the training."""

    # ---- begin and end

    def begin(self, setup: Setup, began: float) -> None:
        """Begin a training whose first step was observed; the training before it is over."""
        self.conclude()
        self._start_over()
        self.setup, self.whole_losses = setup, set()
        self._set_optimizers()
        self._begin_stage(began)

    def _set_optimizers(self) -> None:
        optimizers = self.setup.optimizers
        named = {"" if len(optimizers) == 1 else f"optimizer_{number}": item for number, item in optimizers.numbered()}
        self.tracker.optimizers = weakref.WeakValueDictionary(named)  # type: ignore[assignment]  # used as a mapping
        self.tracker.schedulers = list(self.setup.schedulers)

    @never_raise
    def _begin_stage(self, began: float) -> None:
        self.data.reset("training", "validation")
        setup = self.setup
        layers = self.try_or(self._layers, list[dict[str, Any]]())
        after = self.models.checkpoint(setup.resumed_from, read=True) if setup.resumed_from is not None else None
        named = setup.named_networks()
        model = named.get("") or next(iter(setup.optimizers), None)
        parts = [(name, network, self.models.lookup(network)) for name, network in named.items() if name]
        may_grow = _has_waiting_optimizers()
        values = self._settings() | ({} if may_grow else {"num_layers": layer_count(layers)})
        using = self._training_data()
        stage = self.begin_training(values, using=using, model=model, after=after, ago=perf_counter() - began)
        self.tracker.begin_with(setup.scheduler_states)
        for name, network, initial in parts:
            if initial is not None:
                stage.used(initial, role="model")
            self.models.begin_part(name, network, stage, initial)
        torch = sys.modules["torch"]
        for kind in dict.fromkeys(type(optimizer).__name__ for optimizer in setup.optimizers):
            stage.implemented_by(kind, software="torch", version=torch.__version__)
        self._pending_layers = layers if may_grow else []
        if layers and not may_grow:
            stage.layers(layers)

    def _layers(self) -> list[dict[str, Any]]:
        return Networks(self.setup.named_networks()).layers()

    def _settings(self) -> dict[str, Any]:
        setup = self.setup
        values: dict[str, Any] = {"optimizer": ", ".join(type(item).__name__ for item in setup.optimizers) or None}
        values |= self._initial_hyperparameters()
        for loader in setup.loaders[:1]:
            values |= _data.loader_settings(loader)
        schedulers = self.tracker.schedulers
        for number, scheduler in enumerate(schedulers, 1):
            name = "scheduler" if len(schedulers) == 1 else f"scheduler_{number}"
            values[name] = type(scheduler).__name__
            values |= {f"{name}.{key}": value for key, value in initial_settings(scheduler).items()}
        if setup.scaler is not None:
            values |= {"amp.scale": setup.scaler.get_scale(), "amp.growth_factor": setup.scaler.get_growth_factor()}
        if (size := inherit.world_size() or 1) > 1:
            values["world_size"] = size
        return values

    def _initial_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the first step: a scheduler may have changed them since."""
        values = self.tracker.current_hyperparameters()
        for name, (optimizer, number, _, key) in self.tracker.entries().items():
            value = self.setup.initial.get((id(optimizer), number, key))
            if isinstance(value, (bool, int, float, str)):
                values[name] = value
        self._observed_values = dict(values)
        return values

    def observe_hyperparameters(self, optimizer: Any) -> Change | None:
        """Return the hyperparameters of a step of an optimizer if some of its own changed since its step before."""
        before = self._observed_values
        own = {name for name, entry in self.tracker.entries().items() if entry.optimizer is optimizer}
        current = self.tracker.current_hyperparameters()
        values = before | {name: value for name, value in current.items() if name in own}
        changed = [name for name, value in values.items() if name not in before or not is_same(before[name], value)]
        change = None
        if changed and self.stage is not None:
            revised = [name for name in changed if name in before]
            techniques = {name: self.tracker.technique_of_change(name, before[name], values[name]) for name in revised}
            change = Change(values, techniques)
        self._observed_values = values
        self.tracker.on_checked()
        return change

    def _training_data(self) -> list[Data]:
        if not self.setup.loaders:
            return self.data.get("training")
        datasets: list[Data] = []
        for number, loader in enumerate(self.setup.loaders, 1):
            name = "training data" if number == 1 else f"training data {number}"
            datasets += self.try_or(partial(_data.record_data, self.run, loader, "training", name), list[Data]())
        return datasets

    @never_raise
    def join(self, optimizer: Any, network: Any, schedulers: list[Any]) -> None:
        """Add an optimizer that takes turns with those of the training."""
        self.setup.add_optimizer(optimizer)
        for scheduler in schedulers:
            self.setup.add_scheduler(scheduler)
        is_new = network is not None and network not in self.setup.networks
        if is_new:
            self.setup.networks.append(network)
            if self.stage is not None:
                for name, item in self.setup.named_networks().items():
                    self.models.join_part(name, item, self.stage)
        self._set_optimizers()
        if self.stage is not None:
            names = [type(item).__name__ for item in self.setup.optimizers]
            self.stage.parameters(optimizer=", ".join(names), **self._new_hyperparameters())
            if is_new:
                self._pending_layers = self.try_or(self._layers, list[dict[str, Any]]())
            if not _has_waiting_optimizers():
                self._record_layers()

    def _record_layers(self) -> None:
        """Record the layers of all networks, once: a graph cannot take back a number of layers."""
        layers, self._pending_layers = self._pending_layers, []
        if layers and self.stage is not None:
            self.stage.parameters(**self.hyperparameters.select({"num_layers": layer_count(layers)}))
            self.stage.layers(layers)

    def _close_epoch(self, before: float = math.inf, error: BaseException | None = None) -> None:
        """End the epoch; a network that made no step in the first one cannot join."""
        super()._close_epoch(before, error)
        if self.epochs_done:
            self._record_layers()

    def save_file(self, path: Any, parts: Collection[str]) -> None:
        """Record a file that was saved, after the layers of its model."""
        self._record_layers()
        super().save_file(path, parts)

    def end_training(self, *, error: BaseException | None = None) -> None:
        """End the training; one without epochs has its layers then."""
        with report_errors(self.run):
            self._record_layers()
        super().end_training(error=error)

    def _new_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters by the names that they have with several optimizers."""
        values = self.hyperparameters.select(self.tracker.current_hyperparameters())
        self.hyperparameters.begin(values)
        self._observed_values = dict(values)
        return {name: value for name, value in values.items() if value is not None}

    @never_raise
    def use_loader(self, loader: Any) -> None:
        """Record a loader of the training that was not known when it began."""
        if self.stage is None or any(loader is other for other in self.setup.loaders):
            return
        is_first = not self.setup.loaders
        self.setup.loaders.append(loader)
        if is_first:
            self.stage.parameters(**self.hyperparameters.select(_data.loader_settings(loader)))
        for data in _data.record_data(self.run, loader, "training", "training data"):
            self.stage.used(data)

    @never_raise
    def name_loss(self, name: str) -> None:
        """Record the function of the loss."""
        if name not in self.whole_losses:
            self.whole_losses.add(name)
            if self.stage is not None and not self.setup.loss:
                self.setup.loss = name
                self.stage.parameters(**self.hyperparameters.select({"loss": name}))

    def _loss_names(self) -> dict[int, str]:
        """Return the names of the losses by the number of their optimizer: with several, each has its own."""
        count = len(self.setup.optimizers)
        return {n: "loss" if count <= 1 else f"optimizer_{n + 1}.loss" for n in range(max(count, 1))}

    # ---- what PyTorch knows

    def _row_values(self, rows: list[Row]) -> list[dict[str, float]]:
        """Return the losses of each row. This waits for the device that computed them."""
        names, values = self._loss_names(), []
        flat = iter(to_floats([loss for row in rows for losses in row.losses.values() for loss in losses]))
        for row in rows:
            measures = {
                names.get(key, "loss"): sum(next(flat) for _ in losses) for key, losses in row.losses.items() if losses
            }
            if row.closures:
                measures[EVALUATIONS] = row.closures
            values.append(measures)
        return values

    def add_steps(self, number: int, losses: list[Any], began: float, ends: list[float]) -> None:
        """Add steps of an optimizer in the open epoch, one after the other, without a change."""
        self._add_steps(Steps(number, self._loss_names().get(number, "loss"), losses, began, ends))

    def _measure_name(self, name: str) -> str:
        """Return the name of a loss of a phase. Only the whole loss of the training is named so."""
        return "loss" if name in self.whole_losses else name

    def _phase_source(self, phase: Phase) -> Any:
        """Return the dataset, or the loader without one."""
        loader = phase.source.loader if phase.source is not None else None
        return getattr(loader, "dataset", loader)

    def _phase_data(self, phase: Phase, role: str) -> list[Data]:
        """Return the data of the loader."""
        if phase.source is None:
            return []
        observe = partial(_data.record_data, self.run, phase.source.loader, role, f"{role} data")
        return self.data.get(role, observe, source=self._phase_source(phase))

    def _evaluated_model(self, phase: Phase) -> Data:
        """Return the model of the file that was loaded, otherwise the network that was trained."""
        if phase.model is not None:
            return self.models.resolve(phase.model)
        return self.models.resolve(next(iter(self.setup.networks), None))
