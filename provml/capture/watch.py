"""Hyperparameters under watch: which are kept, which changed by more than rounding, and how a float is written."""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from provml.errors import WrongType
from provml.secret import without_secrets

CLOSE = 1e-6
"""Two values that differ by less than this part of them are the same: frameworks keep rates in 32 bits."""
ROUNDING = 1.2e-7
"""How much of a value 32 bits may round off."""
LARGEST = 3.4e38
"""More than 32 bits hold."""
SAME = {"optimizer_name": "optimizer", "num_epochs": "epochs", "decay": "weight_decay", "lr": "learning_rate"}
"""Keras-Prov's names of hyperparameters, where ours differ."""
COMMON = {"optimizer", "learning_rate", "weight_decay", "momentum", "epochs", "batch_size", "num_layers"}
"""What Keras-Prov asks for, whether or not an optimizer has it."""
NEAR = 0.76
"""So much alike are a name and the slip of a pen."""


class Selection:
    """Which hyperparameters are recorded: all, or those that a mapping such as {"LEARNING_RATE": True} says yes to."""

    def __init__(self, said: Mapping[str, bool] | None = None) -> None:
        if said is not None and not _are_choices(said):
            advice = "Say hyperparameters={'learning_rate': True}."
            raise WrongType("Capture", "hyperparameters", said, "names with True or False", advice)
        self.names: set[str] | None = None
        self._unmet: dict[str, str] = {}
        if said is not None:
            self._unmet = {SAME.get(name.lower(), name.lower()): name for name, wanted in said.items() if wanted}
            self.names = set(self._unmet)

    def keeps(self, name: str) -> bool:
        """Whether it is one of those; of several optimizers or groups, each one's goes by the bare name too."""
        if self.names is None:
            return True
        found = {name.lower(), name.rpartition(".")[2].lower()} & self.names
        for one in found & self._unmet.keys():
            del self._unmet[one]
        return bool(found)

    def doubt(self, seen: Iterable[str], *, is_over: bool = False) -> None:
        """Log once what was asked for and is not there: now what looks like a slip of the pen, at the end the rest."""
        names = {name.rpartition(".")[2] for name in seen}
        for name in names:
            self.keeps(name)
        for one, said in list(self._unmet.items()):
            near = get_close_matches(one, sorted(names), 3, NEAR)
            if near or (is_over and one not in COMMON):
                del self._unmet[one]
                more = f"; did you mean {' or '.join(near)}?" if near else ""
                logging.getLogger("provml").warning(
                    "provml: no hyperparameter %r is there to be recorded%s", said, more
                )

    def of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Those of some values that are kept; what goes by the name of a secret never is."""
        return {name: value for name, value in without_secrets(values).items() if self.keeps(name)}


def _are_choices(said: object) -> bool:
    """Whether these are names with True or False, be they numpy's."""
    if not isinstance(said, Mapping):
        return False
    return all(isinstance(name, str) and type(wanted).__name__ in ("bool", "bool_") for name, wanted in said.items())


class Watch:
    """Hyperparameters as they were last told; `appeared` and `changes` give what is other now, and remember it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)

    def appeared(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """Those that were not there before, such as the rate of a parameter group that was added."""
        found = {name: new for name, new in now.items() if name not in self.values}
        self.values |= found
        return {name: new for name, new in found.items() if new is not None}

    def changes(self, now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Old and new of each that has changed, to or from None too; one that was not there before is no change."""
        found = {}
        for name, new in now.items():
            if name in self.values and not is_same(old := self.values[name], new):
                found[name] = old, new
                self.values[name] = new
        return found


def is_same(old: Any, new: Any) -> bool:
    """Whether two values are the same; numbers, up to rounding."""
    if isinstance(old, (tuple, list)) and isinstance(new, (tuple, list)):
        return len(old) == len(new) and all(is_same(*pair) for pair in zip(old, new, strict=True))
    try:
        old_number, new_number = float(old), float(new)
    except (TypeError, ValueError, RuntimeError):
        try:
            return bool(old == new)
        except (ValueError, RuntimeError):  # what holds several values, as an array does
            return str(old) == str(new)
    if math.isnan(old_number) or math.isnan(new_number):
        return math.isnan(old_number) and math.isnan(new_number)
    return math.isclose(old_number, new_number, rel_tol=CLOSE)


def as_written(value: Any) -> Any:
    """A float that came through 32 bits as one would write it: 0.001, not 0.0010000000474974513."""
    if not isinstance(value, float) or not math.isfinite(value) or in_32_bits(value) != value:
        return value
    written = (float(f"{value:.{digits}g}") for digits in range(1, 17))
    return next((short for short in written if math.isclose(short, value, rel_tol=ROUNDING)), value)


def in_32_bits(value: float) -> float:
    """The float of 32 bits that is nearest to one; one that is too large for them stays."""
    return float(struct.unpack("f", struct.pack("f", value))[0]) if abs(value) <= LARGEST else value
