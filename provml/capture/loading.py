"""Loaders and models that a loop of the user's brings along: told when it meets them, if nobody handed them over."""

from __future__ import annotations

import logging
from typing import Any

from provml.capture import facts
from provml.capture.optimizing import Optimizing, unwrapped
from provml.capture.recording import hook
from provml.content import Data


class Loading(Optimizing):
    """A recording that may see the loader of a training only when its batches are gone over."""

    network: Any = None
    _loader: Any = None
    _has_data = True
    """Whether the training has been told its data: what was handed over, or what its loader loads."""
    _is_outside_said = False

    def loader_settings(self) -> dict[str, Any]:
        """The settings of the loader that a training begins with, if there is one by then."""
        loader = self._data.get("training", self._loader)
        return facts.loading(loader) if facts.is_loader(loader) else {}

    def loader_data(self) -> list[Data]:
        """The data that a training begins with, if there is some by then."""
        self._has_data = "training" in self._data
        return self.data("training") if self._has_data else []

    @hook
    def meet(self, loader: Any) -> None:
        """Batches come from this loader, which may be inside a progress bar. Those of no training are not told."""
        held = getattr(loader, "iterable", loader)
        if self.stage is not None and not self._has_data and facts.is_loader(held):
            self._loader = held
            self.stage.parameters(**self.selection.of(self.loader_settings()))
            self._tell_data()

    def end_training(self, *, error: BaseException | None = None) -> None:
        """End the training stage; it had data, known or not."""
        try:
            if self.stage is not None and not self._has_data:
                self._tell_data()
        finally:
            self._loader = None
            super().end_training(error=error)

    def _tell_data(self) -> None:
        self._has_data = True
        for data in self._training_data():
            if self.stage is not None:
                self.stage.used(data)

    def _training_data(self) -> list[Data]:
        held = self._loader
        if held is None:
            return self.data("training")
        return self.data("training", lambda: facts.tell(self.run, held, "training", "training data"), of=held.dataset)

    def trained_one(self, model: Any = None) -> Any:
        """The object that is trained, the network or an optimizer that holds its parameters; or one that is given."""
        if model is not None and not self._is_trained(model):
            return model
        return self.network if self.network is not None else next(iter(self.optimizers.values()), None)

    def _is_trained(self, model: Any) -> bool:
        """Whether this is the network; where none was handed over, whether an optimizer holds parameters of it."""
        if self.network is not None:
            return unwrapped(model) is unwrapped(self.network)
        groups = [group for one in self.optimizers.values() for group in one.param_groups]
        held = {id(one) for group in groups for one in group["params"]}
        return hasattr(model, "parameters") and any(id(one) in held for one in model.parameters())

    def resumed(self, one: Any, first: int) -> Data | None:
        """What a training goes on from that begins with a later epoch, where this capture has not trained it before."""
        held = self._data.get("model")
        return self.found(held) if first > 1 and held is not None and self.known(one) is None else None

    def outside(self) -> None:
        """Something was said that is of no training: say so, once."""
        if not self._is_outside_said and not self.run.off:
            self._is_outside_said = True
            said = "provml: what is measured outside of epochs is not recorded; say `for epoch in capture.epochs(…):`"
            logging.getLogger("provml").warning(said)
