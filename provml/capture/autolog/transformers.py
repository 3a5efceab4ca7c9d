"""Transformers: adds a callback to the list of callbacks that every Trainer has. Nothing is wrapped."""

from __future__ import annotations

import sys

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session


def activate(session: Session, patches: Patches) -> None:
    """Add the callback to `transformers.trainer.DEFAULT_CALLBACKS`."""
    from provml.capture.autolog._transformers_callback import AutologCallback

    defaults = sys.modules["transformers.trainer"].DEFAULT_CALLBACKS
    defaults.append(AutologCallback)

    def remove() -> None:
        if AutologCallback in defaults:
            defaults.remove(AutologCallback)

    patches.on_undo(remove)
