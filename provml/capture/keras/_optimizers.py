"""Keras optimizers during a training: their hyperparameters, when these change, and what changed them."""

from __future__ import annotations

from typing import Any

import keras

from provml.capture._hyperparameters import MANUAL, HyperparameterSource, Technique
from provml.capture.keras import _compile_config
from provml.capture.keras._lr_attribution import RATE, UNKNOWN, Moment, RateAttribution, current_rate, rate_version

PLATEAU_SETTINGS = ("monitor", "factor", "patience", "min_delta", "min_lr")


class OptimizerTracker(HyperparameterSource):
    """The hyperparameters of the optimizers of the model that `fit` trains."""

    def __init__(self) -> None:
        self._model: Any = None
        self._optimizers: dict[str, Any] = {}
        self._attribution: RateAttribution | None = None
        self._versions: list[tuple[Any, Any]] = []
        """The versions of the rates at the last comparison."""

    def begin_fit(self, model: Any, callbacks: list[Any], capture: Any) -> None:
        """Track the optimizers of a model that is trained with these callbacks."""
        self._model = model
        self._optimizers = _compile_config.optimizers(model)
        self._attribution = RateAttribution(callbacks, capture, self._rates())

    def end_fit(self) -> None:
        """Forget the model."""
        self._model = None

    @property
    def kinds(self) -> list[str]:
        """The names of the optimizers' classes."""
        return [type(_compile_config.inner_optimizer(optimizer)).__name__ for optimizer in self._optimizers.values()]

    def initial_settings(self) -> dict[str, Any]:
        """Return the optimizers' classes, hyperparameters and schedules."""
        values = {"optimizer": ", ".join(self.kinds), **self.current_hyperparameters()}
        for prefix, optimizer in self._optimizers.items():
            schedule = _compile_config.schedule_settings(optimizer)
            values |= {prefix + name: value for name, value in schedule.items()}
        return values

    # ---- a source of hyperparameters

    def current_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of all optimizers; those of one of several begin with its name."""
        self._sync()
        if self._model is not None:
            self._optimizers = _compile_config.optimizers(self._model)
        self._versions = self._current_versions()
        return {
            prefix + name: value
            for prefix, optimizer in self._optimizers.items()
            for name, value in _compile_config.optimizer_settings(optimizer).items()
        }

    def technique_of_change(self, name: str, old: Any, new: Any) -> Technique:
        """Return what changed a hyperparameter: the schedule of its optimizer, a callback, UNKNOWN or MANUAL."""
        if not name.endswith(RATE):
            return MANUAL, {}
        optimizer = self._optimizers.get(name.removesuffix(RATE))
        schedule = _compile_config.schedule_settings(optimizer) if optimizer is not None else {}
        if schedule:
            kind = schedule.pop(_compile_config.SCHEDULE)
            prefix = f"{_compile_config.SCHEDULE}."
            return kind, {key.removeprefix(prefix): value for key, value in schedule.items()}
        cause = self._attribution.cause(name) if self._attribution is not None else None
        if cause is None or cause == UNKNOWN:
            return cause or MANUAL, {}
        return type(cause).__name__, _callback_settings(cause)

    def reason_for_change(self, names: list[str]) -> str:
        """Return a remark on changes that are not in effect: a compiled `fit` only reads the learning rate again."""
        compiled_in = [name for name in names if not name.endswith(RATE)]
        backend = keras.backend.backend()
        self._sync()
        is_compiled = backend != "torch" and not getattr(self._model, "run_eagerly", False)
        if not compiled_in or not is_compiled or not self._has_made_steps():
            return ""
        return f"{backend} uses the old {' and '.join(compiled_in)} until the model is compiled again"

    def is_check_due(self, watches_batches: bool) -> bool:
        """Return whether to look for changes before a batch: if a rate was set, or if every batch is watched.

        A schedule changes the rate with every batch. By default its changes are recorded once per epoch.
        """
        is_due = watches_batches or self._rate_was_set()
        if is_due:
            self.observe(Moment.BATCH_BEGIN)
        return is_due

    # ---- changes of the learning rate

    def observe(self, moment: Moment) -> None:
        """Find the causes of the changes since the moment before."""
        if self._attribution is not None:
            self._attribution.observe(moment, self._rates())

    def changed_in_batch(self, watches_batches: bool) -> bool:
        """Return whether a callback after the capture may have set a rate when the batch that is ending began.

        A schedule is not read: after the step it already has the rate of the next batch.
        """
        if self._attribution is None or not self._attribution.may_change_in_batch:
            return False
        self._sync()
        is_changed = self._rate_was_set() or (watches_batches and not self._has_schedule())
        if is_changed:
            self.observe(Moment.BATCH_END)
        return is_changed

    def changed_in_epoch(self) -> bool:
        """Return whether a rate changed inside the epoch that is ending, without being noticed before a batch."""
        if self._attribution is None or not self._attribution.changed_in_epoch:
            return False
        return not self._sees_batches() and not self._has_schedule()

    def _rate_was_set(self) -> bool:
        """Return whether a rate was set since the last comparison."""
        versions = self._current_versions()
        return len(versions) != len(self._versions) or any(
            new[0] is not old[0] or new[1] != old[1] for new, old in zip(versions, self._versions, strict=True)
        )

    def _current_versions(self) -> list[tuple[Any, Any]]:
        if not self._sees_batches():
            return []
        if keras.backend.backend() == "jax" and not getattr(self._model, "_jax_state_synced", True):
            return self._versions  # whoever sets a rate on JAX reads the model of a callback first, which syncs it
        return [rate_version(_compile_config.inner_optimizer(optimizer)) for optimizer in self._optimizers.values()]

    def _sees_batches(self) -> bool:
        """Return whether a rate that is set inside an epoch is noticed there.

        PyTorch: always, because the check is cheap. On JAX and TensorFlow reading a rate is slow: only if a callback of
        the user is called with every batch.
        """
        if keras.backend.backend() == "torch":
            return True
        return self._attribution is not None and self._attribution.has_batch_callbacks

    def _has_made_steps(self) -> bool:
        optimizers = self._optimizers.values()
        return any(int(keras.ops.convert_to_numpy(optimizer.iterations)) for optimizer in optimizers)

    def _has_schedule(self) -> bool:
        return any(_compile_config.schedule_settings(optimizer) for optimizer in self._optimizers.values())

    def _rates(self) -> dict[str, Any]:
        self._sync()
        return {
            prefix + RATE: current_rate(_compile_config.inner_optimizer(optimizer))
            for prefix, optimizer in self._optimizers.items()
        }

    def _sync(self) -> None:
        """Update the variables of the model on JAX, where the state of a running epoch is outside of the model."""
        if keras.backend.backend() == "jax" and self._model is not None:
            self._model.jax_state_sync()


def _callback_settings(callback: Any) -> dict[str, Any]:
    """Return the settings of a callback that changes rates."""
    if isinstance(callback, keras.callbacks.ReduceLROnPlateau):
        return {name: getattr(callback, name) for name in PLATEAU_SETTINGS}
    if isinstance(callback, keras.callbacks.LearningRateScheduler):
        return {"schedule": _compile_config.display_name(callback.schedule)}
    return {}
