"""Transformers: adds a callback to the list of callbacks that every Trainer has, and records folders of saved models.

There is no callback for `save_model` and `save_pretrained`, so they are wrapped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session


def activate(session: Session, patches: Patches) -> None:
    """Add the callback to `transformers.trainer.DEFAULT_CALLBACKS`, and wrap the methods that save a model."""
    from provml.capture.autolog._transformers_callback import AutologCallback

    trainer = sys.modules["transformers.trainer"]
    trainer.DEFAULT_CALLBACKS.append(AutologCallback)

    def remove() -> None:
        if AutologCallback in trainer.DEFAULT_CALLBACKS:
            trainer.DEFAULT_CALLBACKS.remove(AutologCallback)

    patches.on_undo(remove)
    model_type = trainer.PreTrainedModel

    def make_save_model(original: Callable[..., Any]) -> Callable[..., Any]:
        def save_model(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            if not isinstance(self.model, model_type):  # otherwise it called `save_pretrained`
                folder = args[0] if args else kwargs.get("output_dir")
                session.guard(_record_folder, session, self.model, self.args.output_dir if folder is None else folder)
            return result

        return save_model

    def make_save_pretrained(original: Callable[..., Any]) -> Callable[..., Any]:
        def save_pretrained(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            session.guard(_record_folder, session, self, args[0] if args else kwargs.get("save_directory"))
            return result

        return save_pretrained

    patches.wrap(trainer.Trainer, "save_model", make_save_model)
    patches.wrap(model_type, "save_pretrained", make_save_pretrained)


def _record_folder(session: Session, model: Any, folder: Any) -> None:
    """Record the file of weights in a folder that a trained model was saved in; checkpoints have a callback."""
    if session.is_busy or not session.has_capture("transformers"):
        return
    from provml.capture.torch._optimizers import unwrap_network
    from provml.capture.transformers import weights_in

    path = weights_in(folder)
    if path is not None:
        session.record_model_file("transformers", unwrap_network(model), path)
