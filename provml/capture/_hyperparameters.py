"""Hyperparameters of a training: which are recorded, which changed by more than rounding, and why."""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

from provml.errors import MAX_SUGGESTIONS, WrongType
from provml.journal.redaction import redact
from provml.recording.kinds import hyperparameter_of
from provml.recording.safety import try_or
from provml.recording.stages import Stage

if TYPE_CHECKING:
    from provml.recording.run import Run

MANUAL = "by hand"
"""The technique of a change that no scheduler known to the capture made."""
DISABLED = "None"
"""The recorded value of a hyperparameter that is switched off and was on before, or is on later."""
RELATIVE_TOLERANCE = 1e-6
"""Values that differ by a smaller fraction are equal: frameworks store rates in 32 bits."""
FLOAT32_ROUNDING = 1.2e-7
"""The largest fraction of a value that rounding to 32 bits changes."""
MAX_FLOAT32 = 3.4e38
"""Larger numbers do not fit into 32 bits."""
ALIASES = {"decay": "weight_decay"}
"""Keras-Prov's names of hyperparameters that have another meaning elsewhere."""
KERAS_PROV_NAMES = {"optimizer", "learning_rate", "weight_decay", "momentum", "epochs", "batch_size", "num_layers"}
"""Names that Keras-Prov selects for every optimizer, so a missing one is not worth a warning."""
SIMILARITY = 0.76
"""Names at least this similar are suggested for a misspelled name."""
Technique = tuple[str, dict[str, Any]]
"""What changed a hyperparameter: a name and parameters."""


class Selection:
    """The hyperparameters to record: all, or those that a mapping such as {"LEARNING_RATE": True} selects."""

    def __init__(self, choices: Mapping[str, bool] | None = None) -> None:
        if choices is not None and not _are_choices(choices):
            advice = "Use hyperparameters={'learning_rate': True}."
            raise WrongType("Capture", "hyperparameters", choices, "names with True or False", advice)
        self.names: set[str] | None = None
        self._unseen: dict[str, str] = {}
        if choices is not None:
            chosen_names = (name for name, chosen in choices.items() if chosen)
            self._unseen = {_selected_name(name): name for name in chosen_names}
            self.names = set(self._unseen)

    def includes(self, name: str) -> bool:
        """Return whether a hyperparameter is recorded; "group_2.learning_rate" is selected by "learning_rate", too."""
        if self.names is None:
            return True
        matches = {name.lower(), name.rpartition(".")[2].lower()} & self.names
        for match in matches:
            self._unseen.pop(match, None)
        return bool(matches)

    def warn_unknown(self, names: Iterable[str], *, is_over: bool = False) -> None:
        """Log once each selected name that does not exist: a misspelling now, any other when the training is over."""
        bare_names = {name.rpartition(".")[2] for name in names}
        for name in bare_names:
            self.includes(name)
        for selected, written in list(self._unseen.items()):
            suggestions = get_close_matches(selected, sorted(bare_names), MAX_SUGGESTIONS, SIMILARITY)
            if suggestions or (is_over and selected not in KERAS_PROV_NAMES):
                del self._unseen[selected]
                hint = f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
                logging.getLogger("provml").warning("provml: No hyperparameter named %r to record.%s", written, hint)

    def select(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to record, without secrets and without a framework's private settings (`_instantiator`)."""
        public = {name: value for name, value in values.items() if not name.rpartition(".")[2].startswith("_")}
        return {name: value for name, value in redact(public).items() if self.includes(name)}


def _selected_name(name: str) -> str:
    """Return the name of a hyperparameter that a user selects by this name."""
    return ALIASES.get(name.lower(), hyperparameter_of(name.lower()))


def _are_choices(choices: object) -> bool:
    """Return whether these are names with True or False, of Python or of numpy."""
    if not isinstance(choices, Mapping):
        return False
    return all(isinstance(name, str) and type(chosen).__name__ in ("bool", "bool_") for name, chosen in choices.items())


class ChangeTracker:
    """The last recorded values. `added` and `changes` return what is different now and remember it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)

    def added(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of new names, such as those of a parameter group that was added."""
        new = {name: value for name, value in values.items() if name not in self.values}
        self.values |= new
        return {name: value for name, value in new.items() if value is not None}

    def changes(self, values: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return the old and new value of each name that changed, also from or to None. New names are no change."""
        changed = {}
        for name, new in values.items():
            if name in self.values and not is_same(old := self.values[name], new):
                changed[name] = old, new
                self.values[name] = new
        return changed


class HyperparameterSource:
    """Where a framework keeps the hyperparameters that may change during a training. This default has none."""

    __slots__ = ()

    def current_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters that may change, as they are now."""
        return {}

    def technique_of_change(self, name: str, old: Any, new: Any) -> Technique:
        """Return what changed a hyperparameter."""
        return MANUAL, {}

    def reason_for_change(self, names: list[str]) -> str:
        """Return a remark on the change of these hyperparameters."""
        return ""

    def may_have_changed(self) -> bool:
        """Return False if a cheap check shows that no hyperparameter changed since the last comparison."""
        return True

    def is_check_due(self, watches_batches: bool) -> bool:
        """Return whether to look for changes before a batch that is not the first of its epoch."""
        return watches_batches

    def on_training_begin(self) -> None:
        """Forget the state of the training before."""

    def on_epoch_deferred(self) -> None:
        """Expect an epoch or an adaptation, which is recorded with the next batch or step."""

    def on_compared(self) -> None:
        """Remember the state of the framework after current values were compared with recorded ones."""

    def on_checked(self) -> None:
        """Remember the state of the framework after a check, whether or not values had to be compared."""


class Hyperparameters:
    """The hyperparameters of a training: initial values, and changes recorded as adaptations."""

    def __init__(self, run: Run, selection: Selection, source: HyperparameterSource, *, watches_batches: bool) -> None:
        self.selection = selection
        self.watches_batches = watches_batches
        self.source = source
        self._run = run
        self._tracker = ChangeTracker({})
        self._announced: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def begin(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a training with these hyperparameters; return those to record."""
        self.selection.warn_unknown(values)
        selected = self.selection.select(values)
        self._tracker = ChangeTracker(selected)
        self.source.on_training_begin()
        return {name: value for name, value in selected.items() if value is not None}

    def end(self) -> None:
        """End a training: log the selected names that it did not have."""
        self._announced = []
        self.selection.warn_unknown((), is_over=True)

    def select(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to record, without secrets."""
        return self.selection.select(values)

    def recorded_value(self, name: str) -> Any:
        """Return the last recorded value of a hyperparameter, or None."""
        return self._tracker.values.get(name)

    def announce(self, values: Mapping[str, Any], **details: Any) -> None:
        """Announce a change that the user reports: it is recorded at the next check, when something is trained with it.

        The same change is then not observed once more.
        """
        self._announced.append(({hyperparameter_of(name): value for name, value in values.items()}, details))
        self.source.on_epoch_deferred()

    def is_check_due(self) -> bool:
        """Return whether to look for changes before a batch that is not the first of its epoch."""
        return bool(self._announced) or self.source.is_check_due(self.watches_batches)

    def record_changes(self, stage: Stage, *, during: int | None = None) -> None:
        """Record what changed since the last check, for the open epoch or the epoch `during` that is about to begin."""
        announced, self._announced = self._announced, []
        for values, details in announced:
            self._tracker.values |= values
            stage.adapted(**details, during=during, **self.selection.select(values))
        if self.source.may_have_changed():
            self._compare(stage, during)
            self.source.on_compared()
        self.source.on_checked()

    def _compare(self, stage: Stage, during: int | None) -> None:
        values = self.selection.select(self.source.current_hyperparameters())
        if added := self._tracker.added(values):
            stage.parameters(**added)
        changes = self._tracker.changes(values)
        if enabled := {name: DISABLED for name, (old, _) in changes.items() if old is None}:
            stage.parameters(**enabled)  # an adaptation needs an old value
        manual: Technique = MANUAL, {}
        by_technique: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        for name, (old, new) in changes.items():
            technique, parameters = try_or(self._run, partial(self.source.technique_of_change, name, old, new), manual)
            by_technique.setdefault(technique, ({}, parameters))[0][name] = DISABLED if new is None else new
        for technique, (changed, parameters) in by_technique.items():
            reason = try_or(self._run, partial(self.source.reason_for_change, list(changed)), "")
            stage.adapted(technique=technique, reason=reason, parameters=parameters, during=during, **changed)


# ---- values


def is_same(old: Any, new: Any) -> bool:
    """Return whether two values are equal; numbers, up to rounding."""
    if isinstance(old, (tuple, list)) and isinstance(new, (tuple, list)):
        return len(old) == len(new) and all(is_same(*pair) for pair in zip(old, new, strict=True))
    try:
        old_number, new_number = float(old), float(new)
    except (TypeError, ValueError, RuntimeError):
        try:
            return bool(old == new)
        except (ValueError, RuntimeError):  # several values, such as an array
            return str(old) == str(new)
    if math.isnan(old_number) or math.isnan(new_number):
        return math.isnan(old_number) and math.isnan(new_number)
    return math.isclose(old_number, new_number, rel_tol=RELATIVE_TOLERANCE)


def shortest_float(value: Any) -> Any:
    """Return a float that was stored in 32 bits with as few digits as possible: 0.001, not 0.0010000000474974513."""
    if not isinstance(value, float) or not math.isfinite(value) or to_float32(value) != value:
        return value
    candidates = (float(f"{value:.{digits}g}") for digits in range(1, 17))
    return next((short for short in candidates if math.isclose(short, value, rel_tol=FLOAT32_ROUNDING)), value)


def to_float32(value: float) -> float:
    """Round a float to 32 bits; a number that is too large stays as it is."""
    return float(struct.unpack("f", struct.pack("f", value))[0]) if abs(value) <= MAX_FLOAT32 else value
