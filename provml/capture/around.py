"""What stands around a hook of Keras: the callbacks beside it with their files, and what its callers were given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from provml.capture.caller import FRAMES


def around(model: Any, fitted: Any = None) -> tuple[list[Any], dict[str, dict[str, Any]]]:
    """The callbacks beside a hook, and what `fit` and `evaluate` of this model were given, as their callers hold them.

    "callback" is among those where `evaluate` was called by a callback inside `fit`, which may be of another model.
    Keras tells a callback none of it. The frames are only read; what is not found there is not recorded.
    """
    beside: list[Any] = []
    calls: dict[str, dict[str, Any]] = {}
    between = False
    frame = sys._getframe(1)
    for _ in range(FRAMES):
        if frame.f_back is None:
            break
        frame = frame.f_back
        held = frame.f_locals
        caller = held.get("self")
        if isinstance(caller, keras.callbacks.CallbackList):
            beside = list(caller.callbacks)
            if "evaluate" in calls:
                between = True
        elif caller is not None and caller in (model, fitted) and frame.f_code.co_name in ("fit", "evaluate"):
            if between and frame.f_code.co_name == "fit":
                calls.setdefault("callback", {})
            calls.setdefault(frame.f_code.co_name, dict(held))
    return beside, calls


def files(checkpoints: list[Any], epoch: int, logs: dict[str, Any]) -> Iterator[str]:
    """The files that checkpoints write after an epoch, if they do."""
    for one in checkpoints:
        try:
            yield one.filepath.format(epoch=epoch + 1, **logs)
        except (KeyError, ValueError, IndexError):  # it is named by batches, or by what was not measured
            continue


def mark_of(path: str) -> tuple[int, int] | None:
    """What tells one state of a file from the next; None where there is no file."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
