"""Observes a plain PyTorch loop: passes over loaders, backward passes, steps, modes, losses and files.

Every method is called by a hook or a wrapper inside the training. It never raises, reads no value of a tensor (that
would wait for a GPU) and keeps no tensor but copies of losses.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any

from provml.capture.autolog._session import Session
from provml.capture.autolog._timeline import LOADER, Pass, Phase, Row, now
from provml.capture.autolog.torch._capture import Capture, Setup
from provml.capture.autolog.torch._losses import Mirror
from provml.capture.autolog.torch._networks import find_network
from provml.capture.autolog.torch._steady import MAX_MISSES, SteadyLoop
from provml.recording.context import CONTEXT
from provml.recording.frames import CallTracker, CodePlace, ForeignLoop, LoopPosition, caller_places, is_called_from

LIBRARIES = ("torch", "provml", "accelerate", "apex", "deepspeed", "lightning", "lightning_fabric")
"""Packages whose functions are not the user's."""
WRAPPERS = LIBRARIES[2:]
"""Those of them whose optimizers may leave a step out."""
FRAMEWORKS = ("keras", "lightning.pytorch", "pytorch_lightning", "transformers.trainer", "provml.capture.torch")
"""Modules that record their trainings themselves."""
IN_EVALUATION_MODE, WITHOUT_GRADIENTS = "network in evaluation mode", "losses without gradients"
OVER_LOADER = "pass over a loader without gradients"
"""The rules by which a validation is recognized."""
ONLY_OPTIMIZER: list[tuple[Mirror, list[Any]]] = []
"""Stands for the state of the gradients of the only optimizer, which is not needed."""
MAX_CALLED = 256
MAX_FIRST_ROWS = 8
"""Steps after which another optimizer begins a training of its own, if no loader joins the two."""


class Observer:
    """Turns what PyTorch reveals into rows and phases of a capture."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.torch = sys.modules["torch"]
        self._tensor_type = self.torch.Tensor
        self._is_grad_enabled = self.torch.is_grad_enabled
        self.whole_losses: set[str] = set()
        """Functions that are known to compute the whole loss of the training."""
        self._optimizer_count = 0
        self._serials: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Optimizers by the order of their construction, from 1."""
        self._made_at: weakref.WeakKeyDictionary[Any, list[CodePlace]] = weakref.WeakKeyDictionary()
        """Where the script made each optimizer."""
        self._schedulers: list[weakref.ref[Any]] = []
        self.steady = SteadyLoop(self.hand_on_steady)
        self.mirrors: dict[int, Mirror] = {}
        """The losses in the gradients of each optimizer, by its identity."""
        self._reset()
        _observers.add(self)

    def _reset(self) -> None:
        self._is_forked = False
        self._thread = 0
        self._owner: weakref.ref[threading.Thread] | None = None
        self._capture: Capture | None = None
        self._setup: Setup | None = None
        """The training whose first row is not complete yet."""
        self._began = 0.0
        self.steady.clear()
        self.mirrors.clear()
        self._numbers: dict[int, int] = {}
        """The number of each optimizer in the training, by its identity."""
        self._ignored: weakref.WeakSet[Any] = weakref.WeakSet()
        """Optimizers that something else records."""
        self._captured: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those of them that a capture of the user records."""
        self._unassigned: list[Any] = []
        self._passes: weakref.WeakKeyDictionary[Any, Pass] = weakref.WeakKeyDictionary()
        self._latest: tuple[Callable[[], Any], Pass] | None = None
        """The iterator that gave the last batch, by a weak reference, and its pass."""
        self._last_pass: Pass | None = None
        self._training_pass: Pass | None = None
        self._row: Row | None = None
        self._previous_end = 0.0
        self._phase: Phase | None = None
        self._calls = CallTracker(*LIBRARIES)
        self._called: dict[int, weakref.ref[Any]] = {}
        self._is_inside_call = False
        self.functional: tuple[weakref.ref[Any], str] | None = None
        """The last result of a loss function that may be the whole loss of the training, and its name."""
        self._scaled: tuple[weakref.ref[Any], weakref.ref[Any]] | None = None
        self._scaler: weakref.ref[Any] | None = None
        self._loaded: list[tuple[weakref.ref[Any], Any]] = []
        self._loaded_modules: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._zeroed: weakref.WeakKeyDictionary[Any, list[Mirror]] = weakref.WeakKeyDictionary()
        self._pending_losses: list[Any] = []
        self._is_by_hand = False
        self._position = LoopPosition(*LIBRARIES)
        self._noted_pass: Pass | None = None
        self._last_serial = 0
        """The last optimizer that existed when the training began."""

    # ---- who observes

    def is_observing(self) -> bool:
        """Return whether this thread of this process is observed."""
        session = self.session
        if session._owners or not session.is_active:
            return False
        if self._is_forked:
            self._is_forked = False
            is_worker = "torch.utils.data._utils.worker" in sys.modules
            if is_worker and self.torch.utils.data.get_worker_info() is not None:
                self._thread = -1  # a worker of a loader trains nothing
        return not self._thread or self._thread == get_ident() or self._takes_over()

    def _takes_over(self) -> bool:
        """Return whether this thread is observed from now on: the one that was observed has ended."""
        thread = self._owner() if self._owner is not None else None
        if self._thread < 0 or (thread is not None and thread.is_alive()):
            return False
        self._thread = 0
        return True

    def _observe_this_thread(self) -> None:
        """Observe only this thread from now on, as long as it lives: another one may get its number later."""
        self._thread, self._owner = get_ident(), weakref.ref(threading.current_thread())

    def after_fork(self) -> None:
        """Start from nothing in a forked child, which knows later whether it is a worker of a loader."""
        self._reset()
        self._is_forked = True

    # ---- the short path

    def enter_steady(self, optimizer: Any, mirror: Mirror) -> None:
        """Take the short path if everything is known about the next step, other than its loss."""
        steady, capture, source, latest = self.steady, self._capture, self._training_pass, self._latest
        if steady.misses >= MAX_MISSES or capture is None or capture.epoch is None or self._setup is not None:
            return
        if source is None or source.is_over or latest is None or latest[1] is not source or self._scaler is not None:
            return
        if len(self._serials) > 1 and self.needs_calls:
            return
        if capture.timeline.rule != LOADER or len(self.mirrors) != 1 or mirror.has_tensors or self._phase is not None:
            return
        if self._pending_losses:
            return  # a step inside of a backward pass
        if not mirror.has_hooks:
            return
        module = getattr(type(optimizer).step, "__module__", "")
        is_plain = module.startswith("torch.optim.") and not isinstance(optimizer, self.torch.optim.LBFGS)
        if is_plain:  # other optimizers may set hyperparameters in a step
            steady.enter(source, latest[0], optimizer, mirror)

    def leave_steady(self) -> None:
        """Leave the short path, if it is taken: all is as if it had not been."""
        steady, source = self.steady, self.steady.source
        if source is None:
            return
        steady.thread = 0
        self.hand_on_steady()
        source.batches += steady.batches
        source.is_fresh = steady.batches != steady.used_batch
        if steady.pending is not None:
            self._pending_losses = [steady.pending]
        optimizer, is_stepping = steady.optimizer(), steady.is_stepping
        steady.misses = 0 if steady.steps > 1 else steady.misses + 1
        steady.clear()
        if is_stepping and optimizer is not None:
            self.before_step(optimizer)

    def hand_on_steady(self) -> None:
        """Hand on the steps of the short path, but not the last one, which stays open."""
        steady, source, capture = self.steady, self.steady.source, self._capture
        losses, ends = steady.take()
        if not ends or source is None or capture is None:
            return
        self._end_row()
        number, began, last = next(iter(self._numbers.values())), self._previous_end, losses.pop()
        if losses:
            capture.add_steps(number, losses, began, ends[:-1])
            began = ends[-2]
        row = self._row = Row(began, source, source.batches + steady.step_batch, self._calls.number, ends[-1])
        row.losses[number], row.steps[number] = last if type(last) is list else [last], 1
        self._previous_end = capture.last_activity = row.ended
        capture.steps += len(ends)

    @property
    def needs_calls(self) -> bool:
        """Whether the network of some optimizer is not known yet."""
        live = list(self._serials)
        return not (live or self._is_by_hand) or any(
            id(item) not in self._numbers and item not in self._ignored for item in live
        )

    # ---- construction

    def on_optimizer(self, optimizer: Any) -> None:
        """Note a new optimizer."""
        self.leave_steady()
        self._optimizer_count += 1
        self._serials[optimizer] = self._optimizer_count
        self._made_at[optimizer] = caller_places(*LIBRARIES)
        self._numbers.pop(id(optimizer), None)  # of an optimizer that is gone
        self._add_mirror(optimizer)

    def _add_mirror(self, optimizer: Any) -> None:
        """Follow the gradients of an optimizer as long as it lives."""
        mirrors, identity = self.mirrors, id(optimizer)
        mirrors[identity] = Mirror(optimizer, lambda: mirrors.pop(identity, None))
        self._zeroed = weakref.WeakKeyDictionary()

    def on_scheduler(self, scheduler: Any) -> None:
        """Note a new scheduler."""
        self._schedulers = [reference for reference in self._schedulers if reference() is not None]
        self._schedulers.append(weakref.ref(scheduler))
        capture = self._capture
        optimizer = getattr(scheduler, "optimizer", None)
        if capture is not None and optimizer in capture.setup.optimizers:
            capture.setup.add_scheduler(scheduler)
            capture.tracker.schedulers = list(capture.setup.schedulers)

    def _schedulers_of(self, optimizer: Any) -> list[Any]:
        live = [reference() for reference in self._schedulers]
        return [item for item in live if item is not None and getattr(item, "optimizer", None) is optimizer]

    def on_call(self, module: Any) -> None:
        """Note an outermost call of a module with gradients."""
        if len(self._called) < MAX_CALLED:
            self._called[id(module)] = weakref.ref(module)

    # ---- loaders

    def on_pass(self, loader: Any, iterator: Any) -> None:
        """Note that a loop over a loader begins, unless a framework loops."""
        self.leave_steady()
        self.steady.misses = 0
        self._check_captures()
        if is_called_from(*FRAMEWORKS):
            return
        began = now()
        if self._phase is not None and (self._phase.losses or self._phase.batches):
            self._end_phase(began)
        self._passes[iterator] = Pass(
            loader, began, loop=ForeignLoop(iterator, *LIBRARIES), iterator=weakref.ref(iterator)
        )
        if self._latest is not None and self._latest[0]() is iterator:  # persistent workers use it again
            self._latest = None

    def on_batch(self, iterator: Any, asked: float) -> None:
        """Note that a loader gave a batch."""
        self.leave_steady()
        self._note_compiled_steps(asked)
        latest = self._latest
        if latest is not None and latest[0]() is iterator:
            source = latest[1]
        else:
            observed = self._passes.get(iterator)
            if observed is None:
                return
            source = observed
            self._latest = weakref.ref(iterator), source
        source.batches += 1
        source.is_fresh = True
        if source.batches == 1 and source.loop is not None:
            source.loop.note_item()
        self._last_pass = source
        if self._capture is not None and not self._is_grad_enabled():
            self._phase_of(asked, OVER_LOADER, source).batches += 1
        elif self._phase is not None and source is not self._training_pass:
            self._phase.source = source
            if self._phase.is_in_evaluation_mode:
                self._phase.batches += 1

    def on_last_batch(self, iterator: Any) -> None:
        """Note that a loader has no more batches."""
        if self.steady.thread == get_ident():
            self.leave_steady()
        self._note_compiled_steps(now())
        source = self._passes.get(iterator)
        if source is not None:
            source.is_over = True
            training = self._training_pass
            is_of_training = training is not None and source.loader is training.loader
            if is_of_training and source is not self._noted_pass and self._is_grad_enabled():
                self._position.forget_items()  # a pass without a step
            if self._phase is not None and self._phase.source is source:
                self._phase.ended = now()

    # ---- losses

    def on_training_loss(self, name: str, value: Any) -> None:
        """Note the result of a loss function of PyTorch with gradients, which may be the whole loss or a part of it."""
        self.functional = weakref.ref(value), name

    def on_functional(self, name: str, value: Any, rows: int, is_sum: bool) -> None:
        """Note the result of a loss function of PyTorch without gradients."""
        self.leave_steady()
        self._note_compiled_steps(now())
        if self._capture is not None or self._setup is not None:
            phase = self._phase_of(now(), WITHOUT_GRADIENTS, None)
            phase.losses.append((name, value.detach().clone(), rows, is_sum))
            phase.ended = now()

    def on_scale(self, scaler: Any, unscaled: Any, scaled: Any) -> None:
        """Note a loss that a GradScaler scaled."""
        self.leave_steady()
        self._scaler = weakref.ref(scaler)
        if isinstance(unscaled, self.torch.Tensor):
            self._scaled = weakref.ref(scaled), weakref.ref(unscaled)

    def before_backward(self, tensors: Any) -> list[tuple[Mirror, list[Any]]]:
        """Note the loss of a backward pass; return the state of the gradients."""
        self.leave_steady()
        self._note_compiled_steps(now())
        source, phase = self._last_pass, self._phase
        if phase is not None and phase.source is source and phase.batches == 1 and not phase.losses:
            self._phase = None  # the only batch is one of the training, in evaluation mode
        elif phase is not None:
            self._end_phase(now())
        if source is not None and source.is_fresh:
            self._use_pass(source)
        if type(tensors) is self._tensor_type:
            self._pending_losses = [self._copy(tensors)] if tensors.numel() == 1 else []
            self._position.watch(tensors)
        else:
            self._pending_losses = [self._copy(tensor) for tensor in _as_list(tensors) if _is_scalar(tensor)]
        mirrors = self.mirrors
        if len(mirrors) == 1:  # no other optimizer could be meant
            return ONLY_OPTIMIZER
        return [(mirror, mirror.state()) for mirror in mirrors.values()]

    def after_backward(self, states: list[tuple[Mirror, list[Any]]]) -> None:
        """Assign the loss to the optimizers that the backward pass reached."""
        self.leave_steady()
        losses, self._pending_losses = self._pending_losses, []
        if not losses:
            return
        if states is ONLY_OPTIMIZER and len(self.mirrors) == 1:
            for mirror in self.mirrors.values():
                mirror.add_unless_taken(losses)
            return
        reached = [mirror for mirror, state in states if not state or mirror.is_stepping or mirror.state() != state]
        reached += [mirror for mirror, _ in states if mirror.has_taken and mirror not in reached]
        for mirror in reached:
            mirror.add_unless_taken(losses)
        if reached:
            return
        if self._is_by_hand or (self._unassigned and not self.mirrors and self._adopt_by_hand()):
            self._step_by_hand(losses)
        else:
            self._unassigned = [*self._unassigned, *losses][-8:]

    def _adopt_by_hand(self) -> bool:
        """Begin a training without an optimizer, if two backward passes were not followed by a step."""
        if self._serials or self._setup is not None or is_called_from(*FRAMEWORKS) or self.session.run() is None:
            return False
        optimizer_types = (self.torch.optim.Optimizer, *self.session.other_optimizers)
        if any(issubclass(type(item), optimizer_types) for item in gc.get_objects()):
            return False  # it was made before autolog began, and adds up gradients
        called = [module for reference in self._called.values() if (module := reference()) is not None]
        self._observe_this_thread()
        self._is_by_hand, self._setup = True, Setup()
        self._position, self._noted_pass = LoopPosition(*LIBRARIES), None
        if called:
            self._setup.networks.append(max(called, key=lambda module: sum(1 for _ in module.parameters())))
        self._began, first, self._unassigned = now(), self._unassigned, []
        for loss in first:
            self._step_by_hand([loss])
        return True

    def _step_by_hand(self, losses: list[Any]) -> None:
        """Note a backward pass after which the script changes the weights itself."""
        self._end_row()
        self._note_call()
        source = self._training_pass
        row = self._row = Row(
            self._row_began(source), source, source.batches if source is not None else 0, self._calls.number
        )
        row.losses[0], row.steps[0], row.ended = losses, 1, now()
        self._previous_end = row.ended
        if self._capture is not None:
            self._capture.steps += 1
            self._capture.last_activity = row.ended

    @property
    def training_pass(self) -> Pass | None:
        """The pass over a loader that gave the batch of the last backward pass."""
        return self._training_pass

    def take_losses(self) -> list[Any]:
        """Return the losses of the backward passes since the last step of an optimizer that is not PyTorch's."""
        losses, self._unassigned = self._unassigned, []
        return losses

    def copy_scalar(self, loss: Any) -> Any:
        """Return a loss as it is now; None if it is not a tensor of one element."""
        return self._copy(loss) if type(loss) is self._tensor_type and loss.numel() == 1 else None

    def _copy(self, loss: Any) -> Any:
        """Return a loss as it is now, without scaling: a number if it is in main memory, otherwise a copy.

        Nothing is transferred: that would wait for the device.
        """
        if self._scaled is not None and self._scaled[0]() is loss:
            unscaled = self._scaled[1]()
            loss = unscaled if unscaled is not None else loss
        functional, self.functional = self.functional, None
        capture = self._capture
        is_new = functional is not None and capture is not None and functional[1] not in capture.whole_losses
        if is_new and functional is not None and capture is not None and functional[0]() is loss:
            capture.name_loss(functional[1])
        if type(loss) is self._tensor_type and loss.is_cpu and not self.torch.compiler.is_compiling():
            try:
                return loss.item()
            except Exception:  # a tensor without a value, such as one of a transformed function
                return loss.detach().clone()
        return loss.detach().clone()

    def _use_pass(self, source: Pass) -> None:
        """Decide which loader the training uses, when a backward pass follows a batch."""
        training = self._training_pass
        if training is not None and training.is_fresh and training is not source and training.is_open:
            if self._capture is not None and self._row is None:
                self._capture.use_loader(source.loader)
        else:
            self._training_pass = source
        for item in (source, training):
            if item is not None:
                item.is_fresh = False

    def on_zero_grad(self, mirror: Mirror) -> None:
        """Note that the gradients of an optimizer are set to zero."""
        if not mirror.has_hooks:
            self._note_compiled_steps(now())
        mirror.clear()

    def on_module_zero_grad(self, module: Any) -> None:
        """Note that the gradients of a module are set to zero."""
        self._note_compiled_steps(now())
        mirrors = self._zeroed.get(module)
        if mirrors is None:
            identities = {id(parameter) for parameter in module.parameters()}
            mirrors = self._zeroed[module] = [item for item in self.mirrors.values() if item.holds(identities)]
        for mirror in mirrors:
            mirror.clear()

    # ---- steps

    def before_hooked_step(self, optimizer: Any) -> None:
        """Note that a hook says that an optimizer is about to make a step."""
        mirror = self.mirrors.get(id(optimizer))
        if mirror is not None:
            mirror.has_hooks = True
        self.before_step(optimizer)

    def before_step(self, optimizer: Any) -> None:
        """Note that an optimizer is about to make a step."""
        self.leave_steady()
        number, candidate = self._numbers.get(id(optimizer)), self.mirrors.get(id(optimizer))
        if number is None or candidate is None or candidate.optimizer() is not optimizer:
            if optimizer in self._ignored or not self._adopt(optimizer):
                return
            number = self._numbers[id(optimizer)]
        mirror = self.mirrors[id(optimizer)]
        if self._phase is not None:
            self._end_phase(now())
        row, source, capture = self._row, self._training_pass, self._capture
        batch = source.batches if source is not None else 0
        if source is None or source is not self._noted_pass or capture is None or capture.timeline.rule != LOADER:
            self._note_call()
        is_same = row is not None and number not in row.steps and row.source is source and row.batch == batch
        if row is None or not is_same or (source is None and row.call != self._calls.number):
            self._end_row()
            capture = self._capture
            row = self._row = Row(self._row_began(source), source, batch, self._calls.number)
        if capture is not None and self._setup is None and mirror.has_changed(optimizer):
            row.change = capture.observe_hyperparameters(optimizer) or row.change
            mirror.watch(optimizer)
        mirror.is_stepping = True

    def _note_call(self) -> None:
        """Note which call of the user's function makes the step, as long as that may matter."""
        source, capture = self._training_pass, self._capture
        if source is None or source is not self._noted_pass:
            self._noted_pass = source
            if source is not None and capture is not None and not capture.setup.loaders:
                capture.use_loader(source.loader)  # the first step had no batch of a loader
            loops = 2 if source is not None else 1  # over the epochs and batches, or over the steps
            self._position.note(loops, may_skip=self._scaler is not None, wrappers=WRAPPERS)
        if self._capture is None or self._capture.timeline.rule != LOADER:
            self._calls.on_action()

    def _row_began(self, source: Pass | None) -> float:
        return self._previous_end or (source.began if source is not None else now())

    def _note_compiled_steps(self, ended: float) -> None:
        """Note steps that ended at this time at the latest, and that no hook showed.

        If a compiled function makes a whole step, the backward pass is seen, and the step is a part of a graph: the
        weights have changed since.
        """
        for mirror in list(self.mirrors.values()):
            optimizer = mirror.optimizer() if mirror.losses and not mirror.has_hooks else None
            if optimizer is not None and mirror.take_new_weights() and optimizer not in self._ignored:
                self.before_step(optimizer)
                self.after_step(optimizer, ended)

    def after_step(self, optimizer: Any, ended: float | None = None) -> None:
        """Note that an optimizer has made a step, now or at another time."""
        self.leave_steady()
        number, row = self._numbers.get(id(optimizer)), self._row
        if number is None or row is None:
            return
        mirror = self.mirrors[id(optimizer)]
        losses, closures = mirror.take()
        if not losses:  # a step inside its backward pass, or gradients that the probes did not show
            losses, mirror.has_taken = self._pending_losses or self._unassigned, bool(self._pending_losses)
        self._unassigned = []
        row.losses.setdefault(number, []).extend(losses)
        row.steps[number] = row.steps.get(number, 0) + 1
        row.closures += closures if closures > 1 else 0
        row.ended = self._previous_end = now() if ended is None else ended
        if self._capture is not None:
            self._capture.steps += 1
            self._capture.last_activity = row.ended
            self.enter_steady(optimizer, mirror)

    def _end_row(self) -> None:
        """Hand the row on; the first one begins the training."""
        row, self._row = self._row, None
        if row is None or not row.steps:
            return
        if self._setup is not None:
            setup, self._setup = self._setup, None
            capture = self._capture = self._make_capture()
            if capture is None:
                return
            if row.source is not None:
                setup.loaders = [row.source.loader]
            capture.begin(setup, self._began)
            self.whole_losses = capture.whole_losses
            capture.position = self._position
            capture.last_activity = row.ended
            capture.steps += 1
        if self._capture is not None:
            self._capture.timeline.add_row(row)

    def _make_capture(self) -> Any:
        capture = self.session.capture("torch loop", "provml.capture.autolog.torch._capture")
        if capture is not None:
            capture.conclude_observation, capture.on_training_end = self.conclude, self._forget_training
        return capture

    def _forget_training(self) -> None:
        """Let the next step of any optimizer begin a training."""
        self._numbers, self._is_by_hand = {}, False

    # ---- trainings

    def _adopt(self, optimizer: Any) -> bool:
        """Make an optimizer that makes its first step part of the training, or begin a training with it."""
        is_of_framework = is_called_from(*FRAMEWORKS)
        if is_of_framework or _is_captured(optimizer, self._captures_of_user()):
            self._ignored.add(optimizer)
            if not is_of_framework:
                self._captured.add(optimizer)
            self.mirrors.pop(id(optimizer), None)
            return False
        run = self.session.run()
        if run is None:
            return False
        self._observe_this_thread()
        self._serials.setdefault(optimizer, 0)  # made before autolog began
        called = [module for reference in self._called.values() if (module := reference()) is not None]
        network = find_network(optimizer, called, self.torch.nn.Module)
        mirror = self.mirrors.get(id(optimizer))
        if mirror is None or mirror.optimizer() is not optimizer:  # made before autolog began
            self._add_mirror(optimizer)
        if self._joins(optimizer):
            self._numbers[id(optimizer)] = len(self._numbers)
            if self._setup is not None:
                self._add(self._setup, optimizer, network)
            elif self._capture is not None:
                self._capture.join(optimizer, network, self._schedulers_of(optimizer))
        else:
            self._begin(optimizer, network)
        self._called = {}
        return True

    def _begin(self, optimizer: Any, network: Any) -> None:
        """Begin another training: what is open is over."""
        capture = self._capture
        if capture is not None:
            capture.conclude()
        self._end_row()
        self._numbers, self._capture, self._is_by_hand = {id(optimizer): 0}, None, False
        self._position = LoopPosition(*LIBRARIES, begin=self._made_at.get(optimizer, ()))
        self._noted_pass, self.whole_losses = None, set()
        source = self._training_pass
        self._began = source.began if source is not None and source.began >= self._previous_end else now()
        self._previous_end, self._setup, self._last_serial = self._began, Setup(), self._optimizer_count
        self._setup.scaler = self._scaler() if self._scaler is not None else None
        self._add(self._setup, optimizer, network)
        if network is not None and network in self._loaded_modules:
            self._setup.resumed_from = self._loaded_modules.pop(network)
        self._make_capture()  # the end of the run asks it for the training, which may have one step only

    def _add(self, setup: Setup, optimizer: Any, network: Any) -> None:
        setup.add_optimizer(optimizer)
        for scheduler in self._schedulers_of(optimizer):
            setup.add_scheduler(scheduler)
        if network is not None and network not in setup.networks:
            setup.networks.append(network)

    def _joins(self, optimizer: Any) -> bool:
        """Return whether an optimizer takes turns with those of the open training.

        It does if it existed when the training began, and the training is still in its first epoch: in the same pass
        over a loader, or within its first steps.
        """
        row, capture, source = self._row, self._capture, self._training_pass
        if row is None or self._serials.get(optimizer, 0) > self._last_serial:
            return False
        if self._setup is not None:
            return True
        if capture is None or capture.stage is None or capture.run is not self.session.run():
            return False
        if capture.epochs_done or (capture.epoch is not None and capture.epoch.index > 1):
            return False
        is_same_pass = source is not None and source.batches > 1 and row.source is source
        return is_same_pass or capture.row_total + len(capture.timeline.waiting) < MAX_FIRST_ROWS

    def _check_captures(self) -> None:
        """End the training if a capture of the user goes on with one of its optimizers; observe those of ended ones."""
        capture, captures = self._capture, self._captures_of_user() if CONTEXT.active_runs else []
        optimizers = capture.setup.optimizers if capture is not None and capture.stage is not None else ()
        if capture is not None and any(_is_captured(optimizer, captures) for optimizer in optimizers):
            capture.conclude()
        for optimizer in list(self._captured):
            if not _is_captured(optimizer, captures):
                self._captured.discard(optimizer)
                self._ignored.discard(optimizer)

    def _captures_of_user(self) -> list[Any]:
        """Return the open captures for PyTorch that the user made for the run."""
        module = sys.modules.get("provml.capture.torch")
        run = self.session.run() if module is not None else None
        return [item for item in run._open if isinstance(item, module.Capture)] if run is not None else []  # type: ignore[union-attr]

    # ---- validations

    def on_mode(self, module: Any, mode: bool) -> None:
        """Note that a network is switched between training and evaluation."""
        if self._capture is None and self._setup is None:
            return
        if mode and self.steady.source is not None:
            return  # there is no phase that would end
        self.leave_steady()
        if self._capture is None or self._capture.timeline.rule != LOADER:
            self._calls.on_event()
        if mode:
            if self._phase is not None:
                self._end_phase(now())
        else:
            phase = self._phase_of(now(), IN_EVALUATION_MODE, None)
            phase.is_in_evaluation_mode = True
            phase.model = phase.model or self._loaded_modules.get(module)

    def _phase_of(self, began: float, rule: str, source: Pass | None) -> Phase:
        """Return the open phase, or begin one."""
        phase = self._phase
        if phase is None:
            training = self._training_pass
            is_inside = training is not None and not training.is_over
            phase = self._phase = Phase(began, rule, source, is_inside_pass=is_inside, ended=began)
            if self._capture is None or self._capture.timeline.rule != LOADER:
                self._calls.on_event()
        if source is not None and source is not self._training_pass:
            phase.source = source
        return phase

    def _end_phase(self, ended: float) -> None:
        """Hand the phase on, after the row before it."""
        phase, self._phase = self._phase, None
        if phase is None or not phase.counts:
            return
        phase.ended = max(phase.ended, phase.began)
        self._end_row()
        if self._capture is not None:
            self._capture.last_activity = max(self._capture.last_activity, phase.ended)
            self._capture.add_phase(phase)
        self._previous_end = ended

    def conclude(self) -> None:
        """Hand on what is open, at the end of a training."""
        self.leave_steady()
        self._note_compiled_steps(now())
        self._end_phase(now())
        self._end_row()

    # ---- files

    def on_save(self, value: Any, file: Any) -> None:
        """Note that a file was saved."""
        if self._capture is None and self._setup is None:
            return
        self.leave_steady()
        self._end_phase(now())
        self._end_row()
        capture, path = self._capture, file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", None)
        if capture is None or not isinstance(path, (str, os.PathLike)):
            return
        parts = self._parts_in(value)
        if path is file:
            capture.save_file(path, parts)
        else:
            capture.save_later(path, parts)
        capture.last_activity = now()

    def _parts_in(self, value: Any) -> list[str]:
        """Return the names of the trained networks whose weights a value contains; any network counts as trained."""
        capture = self._capture
        named = capture.setup.named_networks() if capture is not None else {}
        saved = {tensor.data_ptr() for tensor in _tensors(value)} - {0}  # that of an empty tensor
        parts = [
            name
            for name, network in named.items()
            if any(weight.data_ptr() in saved for weight in network.parameters())
        ]
        return parts or ([""] if isinstance(value, self.torch.nn.Module) else [])

    def on_load(self, value: Any, file: Any) -> None:
        """Note what was loaded from a file."""
        self.leave_steady()
        if self._phase is not None:
            self._end_phase(now())
        if not isinstance(file, (str, os.PathLike)):
            file = getattr(file, "name", None)
        if not isinstance(file, (str, os.PathLike)):
            return
        if isinstance(value, self.torch.nn.Module):
            self._loaded_modules[value] = file
        self._loaded = [pair for pair in self._loaded if pair[0]() is not None][-64:]
        self._loaded += [(weakref.ref(tensor), file) for tensor in _first(_tensors(value), 4)]

    def on_load_state_dict(self, module: Any, state: Any) -> None:
        """Note that a network takes over weights that were loaded from a file."""
        tensors = {id(tensor) for tensor in _tensors(state)}
        file = next((file for reference, file in self._loaded if id(reference()) in tensors), None)
        if file is not None:
            self._loaded_modules[module] = file


_observers: weakref.WeakSet[Observer] = weakref.WeakSet()


def _after_fork() -> None:
    for observer in list(_observers):
        observer.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _is_captured(optimizer: Any, captures: list[Any]) -> bool:
    """Return whether one of some captures records an optimizer."""
    return any(
        capture.stage is not None or any(optimizer is other for other in capture._optimizers.optimizers.values())
        for capture in captures
    )


def _as_list(tensors: Any) -> list[Any]:
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def _is_scalar(tensor: Any) -> bool:
    return hasattr(tensor, "detach") and tensor.numel() == 1


def _tensors(value: Any, depth: int = 4) -> Iterable[Any]:
    """Return the tensors in nested dictionaries and lists."""
    if hasattr(value, "data_ptr") and hasattr(value, "requires_grad"):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value[:1000]:
            yield from _tensors(item, depth - 1)
    elif depth and hasattr(value, "state_dict") and hasattr(value, "parameters"):
        yield from value.parameters()


def _first(items: Iterable[Any], count: int) -> list[Any]:
    return [item for item, _ in zip(items, range(count), strict=False)]
