"""Lightning: its entry point `callbacks_factory` asks for callbacks whenever a Trainer is made. Nothing is wrapped."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import Any

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session

GROUPS = {
    "lightning.pytorch": "lightning.pytorch.callbacks_factory",
    "pytorch_lightning": "pytorch_lightning.callbacks_factory",
}
"""The group of entry points of each package."""


def activate(session: Session, patches: Patches) -> None:
    """Check that Lightning will ask; where provml runs from its sources without installation, make it ask."""
    for package, group in GROUPS.items():
        if package in sys.modules and not any(
            point.value == f"{__name__}:callbacks" for point in entry_points(group=group)
        ):
            connector = sys.modules[f"{package}.trainer.connectors.callback_connector"]
            _ask(connector, group, patches)


def _ask(connector: Any, group: str, patches: Patches) -> None:
    def make_load(original: Any) -> Any:
        def load(requested: str) -> list[Any]:
            loaded: list[Any] = original(requested)
            return [*loaded, *callbacks()] if requested == group else loaded

        return load

    patches.wrap(connector, "_load_external_callbacks", make_load)


def callbacks() -> list[Any]:
    """Return the callbacks for a new Trainer: none if autolog is off. Lightning calls this."""
    from provml.capture.autolog import current

    autolog = current()
    if autolog is None or not {"lightning", "pytorch_lightning"} & autolog.patches.keys():
        return []
    from provml.capture.autolog._lightning_callback import AutologCallback

    return [AutologCallback()]
