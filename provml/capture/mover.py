"""Who moved the learning rate of a Keras optimizer: told by when it moved, and by the state of callbacks beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras

from provml.capture.watch import as_written, is_same

RATE = "learning_rate"
BATCH, WITHIN, END, BEGIN, FIRST, OVER = "batch", "within", "end", "begin", "first", "over"
"""Moments at which a capture sees the rates: before a batch inside an epoch and at its end, when it is told of an
epoch's end and of the next one's begin, before the first batch of that, and when it is told that the training is over.
"""
AT_END, AT_BEGIN, AT_BATCH, AFTER_BATCH = "on_epoch_end", "on_epoch_begin", "on_train_batch_begin", "on_train_batch_end"
ALSO = {AT_BATCH: "on_batch_begin", AFTER_BATCH: "on_batch_end"}
"""The older names of hooks."""
BETWEEN = {
    END: ((AT_END, True),),
    BEGIN: ((AT_END, False), (AT_BEGIN, True)),
    FIRST: ((AT_BEGIN, False), (AT_BATCH, True)),
    WITHIN: ((AT_BATCH, False),),  # what is set at a batch's end is of the next one, and seen with that
    OVER: ((AT_END, False), ("on_train_end", True)),
    BATCH: (),
}
"""The hooks that are called before each moment and after the one before it, and of which callbacks: those that stand
before the capture, or after it."""


class Waiting(NamedTuple):
    """How a callback that waits for a plateau stands."""

    best: Any
    wait: int
    cooldown: int

    @classmethod
    def of(cls, one: Any) -> Waiting:
        return cls(getattr(one, "best", None), one.wait, one.cooldown_counter)


class Mover:
    """What moved each rate last: a callback, a hand (None), or nobody knows ("unknown")."""

    def __init__(self, beside: list[Any], capture: Any, rates: Mapping[str, Any]) -> None:
        self._beside = beside
        self._at = beside.index(capture) if capture in beside else None
        self._rates = dict(rates)
        self._by: dict[str, Any] = {}
        self._is_first = True
        self.is_inside = False
        """Whether a rate is known to have moved while the epoch that ends ran, and not only at its end."""
        self._plateaus = {id(one): Waiting.of(one) for one in self._of(keras.callbacks.ReduceLROnPlateau)}
        self.in_batch = self._may_be_by_hand(WITHIN)
        """Whether somebody who has their turn after the capture may set a rate for a batch that has begun."""
        self.with_batches = any(_is_users(one) and (_has(one, AT_BATCH) or _has(one, AFTER_BATCH)) for one in beside)
        """Whether a callback of the user's has a turn with every batch."""

    def by(self, name: str) -> Any:
        """What moved a rate last."""
        return self._by.get(name)

    def see(self, moment: str, rates: Mapping[str, Any]) -> None:
        """The rates as they are at a moment: who moved those that have moved?"""
        moved = {name: new for name, new in rates.items() if not is_same(self._rates.get(name, new), new)}
        by = {name: self._who(moment, self._rates[name], new) for name, new in moved.items()}
        self.is_inside = moment == END and None in by.values() and not self._may_be_by_hand(END)
        self._is_first = False
        self._by |= by
        self._rates = dict(rates)
        self._plateaus = {id(one): Waiting.of(one) for one in self._of(keras.callbacks.ReduceLROnPlateau)}

    def _who(self, moment: str, old: Any, new: Any) -> Any:
        for one in self._of(keras.callbacks.ReduceLROnPlateau):
            if self._called(moment, one, AT_END) and _fell(one, self._plateaus.get(id(one)), old, new):
                return one
        for one in self._of(keras.callbacks.LearningRateScheduler):
            if self._called(moment, one, AT_BEGIN):
                return "unknown" if self._may_be_by_hand(moment) else one
        for one in self._of(keras.callbacks.BackupAndRestore):
            if self._is_first and not self._stands_before(one):  # it restores the optimizer too, when a training begins
                return "unknown" if self._may_be_by_hand(moment) else one
        return None

    def _of(self, kind: type) -> list[Any]:
        return [one for one in self._beside if isinstance(one, kind)]

    def _called(self, moment: str, one: Any, hook: str) -> bool:
        """Whether a hook of a callback was called since the moment before; where the capture stands decides."""
        is_before = self._stands_before(one)
        return any(hook == name and (self._at is None or before == is_before) for name, before in BETWEEN[moment])

    def _stands_before(self, one: Any) -> bool:
        """Whether a callback has its turn before the capture."""
        return self._at is not None and self._beside.index(one) < self._at

    def _may_be_by_hand(self, moment: str) -> bool:
        """Whether a callback of the user's has had its turn too."""
        return any(
            _is_users(one) and _has(one, hook) and self._called(moment, one, hook)
            for one in self._beside
            for hook, _ in BETWEEN[moment]
        )


def _fell(one: Any, before: Waiting | None, old: Any, new: Any) -> bool:
    """Whether one that waits for a plateau has just found it: it counts anew, and nothing was better."""
    now = Waiting.of(one)
    if before is None or now.wait or now.best != before.best or now.cooldown != one.cooldown or before.cooldown > 1:
        return False
    waited = 0 if before.cooldown else before.wait
    return waited + 1 >= one.patience and is_same(new, max(old * one.factor, one.min_lr))


def _is_users(one: Any) -> bool:
    is_keras = type(one).__module__.partition(".")[0] == "keras"
    is_capture = type(one).__module__.startswith("provml.")
    return not is_capture and (not is_keras or isinstance(one, keras.callbacks.LambdaCallback))


def _has(one: Any, hook: str) -> bool:
    names = {hook, ALSO.get(hook, hook)}
    kind = keras.callbacks.Callback
    return any(name in vars(one) or getattr(type(one), name, None) is not getattr(kind, name) for name in names)


def rate(optimizer: Any) -> Any:
    """The rate of an optimizer as it is now."""
    return as_written(float(keras.ops.convert_to_numpy(optimizer.learning_rate)))


def stamp(optimizer: Any) -> tuple[Any, Any]:
    """What holds a rate, and what changes when that is set; nothing for a schedule, which moves by itself.

    PyTorch counts how often it was written, which costs next to nothing to ask. Elsewhere it is the rate itself.
    """
    held: Any = getattr(optimizer, "_learning_rate", None)
    if not hasattr(held, "assign"):
        return None, None
    value = held.value
    written = getattr(value, "_version", None)
    return (held, rate(optimizer)) if written is None else (value, written)
