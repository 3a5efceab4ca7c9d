"""The call stack of a Keras hook: the list of callbacks, and the arguments of `fit` and `evaluate`.

Keras passes neither to a callback, so they are read from the frames of the callers. PROVML_NO_FRAME_INSPECTION=1
switches that off, see `provml.recording.frames`. Then, as for anything that the frames do not contain:

- data is recorded only if it is passed to the capture, and arguments of `fit` such as `batch_size` are not recorded
- every evaluation during `fit` counts as its validation, also that of a callback
- every change of the learning rate counts as made by hand unless the optimizer has a schedule, and `EarlyStopping` is
  not named as the reason of an early end
- files of checkpoints are not recorded
- `save_model` saves the model before callbacks that come after the capture restore the best weights
- a capture that is passed twice, or without a list, is called as Keras does: twice, or from other threads
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras

from provml.recording.frames import callers


class CallStack(NamedTuple):
    """The lists of callbacks around a hook, the innermost first, and the arguments of `fit` and `evaluate`."""

    callback_lists: list[Any]
    calls: dict[str, dict[str, Any]]
    is_inside_callback: bool
    """Whether a callback of `fit` called `evaluate`, possibly of another model."""

    @property
    def callbacks(self) -> list[Any]:
        """The callbacks of the outermost list."""
        return list(self.callback_lists[-1].callbacks) if self.callback_lists else []


def inspect_call_stack(model: Any, trained: Any = None) -> CallStack:
    """Return the call stack of the hook that calls this function, of `model` or of the model that `fit` trains."""
    callback_lists: list[Any] = []
    calls: dict[str, dict[str, Any]] = {}
    is_nested = is_inside_callback = False
    for caller in callers():
        function, variables = caller.function, caller.variables
        owner = variables.get("self")
        if isinstance(owner, keras.callbacks.CallbackList):
            callback_lists.append(owner)
            is_nested = is_nested or "evaluate" in calls
        elif function in ("fit", "evaluate") and owner is not None and (owner is model or owner is trained):
            is_inside_callback = is_inside_callback or (is_nested and function == "fit")
            calls.setdefault(function, variables)
    return CallStack(callback_lists, calls, is_inside_callback)


def call_once_in_order(capture: Any, callback_lists: list[Any]) -> None:
    """Change Keras's lists of callbacks so that a capture that was passed twice is called once, and in order.

    Keras calls a callback that was passed without a list from other threads at the end of a batch, when the next one
    may have begun.
    """
    for callback_list in callback_lists:
        positions = [index for index, callback in enumerate(callback_list.callbacks) if callback is capture]
        for index in reversed(positions[1:]):
            del callback_list.callbacks[index]
        if positions and getattr(callback_list, "_async_train", False):
            callback_list._async_train = False
