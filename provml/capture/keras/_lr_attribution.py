"""What changed the learning rate of a Keras optimizer, inferred from when it changed and from the other callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

import keras

from provml.capture._hyperparameters import is_same, shortest_float

RATE = "learning_rate"
UNKNOWN = "unknown"
"""The cause of a change that a callback of Keras or a callback of the user may have made."""
OLD_HOOK_NAMES = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}


class Moment(Enum):
    """When a capture reads the learning rates."""

    EPOCH_BEGIN = auto()
    FIRST_BATCH = auto()
    """Before the first batch of an epoch."""
    BATCH_BEGIN = auto()
    """Before any other batch."""
    BATCH_END = auto()
    EPOCH_END = auto()
    TRAINING_END = auto()


BEFORE, AFTER = True, False
HOOKS = {
    Moment.EPOCH_END: (("on_epoch_end", BEFORE),),
    Moment.EPOCH_BEGIN: (("on_epoch_end", AFTER), ("on_epoch_begin", BEFORE)),
    Moment.FIRST_BATCH: (("on_epoch_begin", AFTER), ("on_train_batch_begin", BEFORE)),
    Moment.BATCH_END: (("on_train_batch_begin", AFTER),),  # a rate set at the end of a batch is that of the next batch
    Moment.TRAINING_END: (("on_epoch_end", AFTER), ("on_train_end", BEFORE)),
    Moment.BATCH_BEGIN: (),
}
"""The hooks that were called since the moment before, and on which callbacks: those before the capture in the list of
callbacks, or those after it."""


class PlateauState(NamedTuple):
    """The state of a ReduceLROnPlateau."""

    best: Any
    wait: int
    cooldown: int

    @classmethod
    def of(cls, callback: Any) -> PlateauState:
        """Return the current state of a callback."""
        return cls(getattr(callback, "best", None), callback.wait, callback.cooldown_counter)


class RateAttribution:
    """The cause of the last change of each learning rate."""

    def __init__(self, callbacks: list[Any], capture: Any, rates: Mapping[str, Any]) -> None:
        self._callbacks = callbacks
        self._position = callbacks.index(capture) if capture in callbacks else None
        self._rates = dict(rates)
        self._causes: dict[str, Any] = {}
        self._is_first = True
        self._plateaus = self._plateau_states()
        self.changed_in_epoch = False
        """Whether a rate changed before the end of the epoch that is ending, and not only at its end."""
        self.may_change_in_batch = self._user_may_act(Moment.BATCH_END)
        """Whether a user's callback after the capture may set a rate for a batch that has begun."""
        self.has_batch_callbacks = any(
            _is_user_callback(callback) and any(_overrides(callback, hook) for hook in OLD_HOOK_NAMES)
            for callback in callbacks
        )
        """Whether a user's callback is called with every batch."""

    def cause(self, name: str) -> Any:
        """Return the callback that changed a rate last, UNKNOWN, or None for a change by hand."""
        return self._causes.get(name)

    def observe(self, moment: Moment, rates: Mapping[str, Any]) -> None:
        """Compare the rates with those of the moment before, and find the cause of each change."""
        changed = {name: new for name, new in rates.items() if not is_same(self._rates.get(name, new), new)}
        causes = {name: self._find_cause(moment, self._rates[name], new) for name, new in changed.items()}
        is_epoch_end = moment is Moment.EPOCH_END
        self.changed_in_epoch = is_epoch_end and None in causes.values() and not self._user_may_act(moment)
        self._is_first = False
        self._causes |= causes
        self._rates = dict(rates)
        self._plateaus = self._plateau_states()

    def _find_cause(self, moment: Moment, old: Any, new: Any) -> Any:
        for callback in self._callbacks_of(keras.callbacks.ReduceLROnPlateau):
            state = self._plateaus.get(id(callback))
            if self._was_called(moment, callback, "on_epoch_end") and _plateau_triggered(callback, state, old, new):
                return callback
        for callback in self._callbacks_of(keras.callbacks.LearningRateScheduler):
            if self._was_called(moment, callback, "on_epoch_begin"):
                return UNKNOWN if self._user_may_act(moment) else callback
        for callback in self._callbacks_of(keras.callbacks.BackupAndRestore):
            if self._is_first and not self._precedes(callback):  # restores the optimizer, too, when a training begins
                return UNKNOWN if self._user_may_act(moment) else callback
        return None

    def _callbacks_of(self, kind: type) -> list[Any]:
        return [callback for callback in self._callbacks if isinstance(callback, kind)]

    def _plateau_states(self) -> dict[int, PlateauState]:
        plateaus = self._callbacks_of(keras.callbacks.ReduceLROnPlateau)
        return {id(callback): PlateauState.of(callback) for callback in plateaus}

    def _was_called(self, moment: Moment, callback: Any, hook: str) -> bool:
        """Return whether a hook of a callback was called since the moment before, by the position of the capture."""
        precedes = self._precedes(callback)
        return any(hook == name and (self._position is None or side == precedes) for name, side in HOOKS[moment])

    def _precedes(self, callback: Any) -> bool:
        """Return whether a callback is called before the capture."""
        return self._position is not None and self._callbacks.index(callback) < self._position

    def _user_may_act(self, moment: Moment) -> bool:
        """Return whether a callback of the user was called since the moment before."""
        return any(
            _is_user_callback(callback) and _overrides(callback, hook) and self._was_called(moment, callback, hook)
            for callback in self._callbacks
            for hook, _ in HOOKS[moment]
        )


def _plateau_triggered(callback: Any, before: PlateauState | None, old: Any, new: Any) -> bool:
    """Return whether a ReduceLROnPlateau just reduced the rate: it restarts counting, and no value was better."""
    now = PlateauState.of(callback)
    if before is None or now.wait or now.best != before.best:
        return False
    if now.cooldown != callback.cooldown or before.cooldown > 1:
        return False
    waited = 0 if before.cooldown else before.wait
    return waited + 1 >= callback.patience and is_same(new, max(old * callback.factor, callback.min_lr))


def _is_user_callback(callback: Any) -> bool:
    """Return whether the user wrote the code of a callback, also as the functions of a LambdaCallback."""
    module = type(callback).__module__
    is_from_keras = module.partition(".")[0] == "keras"
    is_capture = module.startswith("provml.")
    return not is_capture and (not is_from_keras or isinstance(callback, keras.callbacks.LambdaCallback))


def _overrides(callback: Any, hook: str) -> bool:
    """Return whether a callback has its own version of a hook, under its name or its old name."""
    base = keras.callbacks.Callback
    return any(
        name in vars(callback) or getattr(type(callback), name, None) is not getattr(base, name)
        for name in {hook, OLD_HOOK_NAMES.get(hook, hook)}
    )


def current_rate(optimizer: Any) -> Any:
    """Return the learning rate of an optimizer as it is now."""
    return shortest_float(float(keras.ops.convert_to_numpy(optimizer.learning_rate)))


def rate_version(optimizer: Any) -> tuple[Any, Any]:
    """Return the object that holds a rate, and a value that is different after the rate was set.

    PyTorch counts the writes to a tensor, which is cheap to read; on other backends the value is the rate itself. A
    schedule changes by itself and has no version: (None, None).
    """
    variable: Any = getattr(optimizer, "_learning_rate", None)
    if not hasattr(variable, "assign"):
        return None, None
    tensor = variable.value
    writes = getattr(tensor, "_version", None)
    return (variable, current_rate(optimizer)) if writes is None else (tensor, writes)
