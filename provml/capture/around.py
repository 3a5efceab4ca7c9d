"""What stands around a hook of Keras: the callbacks beside it with their files, and what its callers were given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from provml.capture.caller import FRAMES

CHAINED = 32
"""How many parts of a pipeline of data are looked at."""
ARRAYS_OF = 32
"""The batch size of `fit` where arrays are given and none is said."""
TOLD = ("validation_split", "initial_epoch", "class_weight")
"""Arguments of `fit` that are told as they are."""


def around(capture: Any, model: Any, fitted: Any = None) -> tuple[list[Any], dict[str, dict[str, Any]]]:
    """The callbacks beside a hook, and what `fit` and `evaluate` of this model were given, as their callers hold them.

    "callback" is among those where `evaluate` was called by a callback inside `fit`, which may be of another model.
    Keras tells a callback none of it. The frames are only read; what is not found there is not recorded.
    It is the list of callbacks alone that is changed, where the capture would be called twice, or out of its turn.
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
            _take_turns(capture, caller)
            beside = list(caller.callbacks)
            if "evaluate" in calls:
                between = True
        elif caller is not None and caller in (model, fitted) and frame.f_code.co_name in ("fit", "evaluate"):
            if between and frame.f_code.co_name == "fit":
                calls.setdefault("callback", {})
            calls.setdefault(frame.f_code.co_name, dict(held))
    return beside, calls


def _take_turns(capture: Any, listed: Any) -> None:
    """Have a capture called once for each thing, also if it was handed over twice, and in its turn.

    What was handed over without a list is not asked whether it can be called from other threads: Keras does so when a
    batch ends, by when others have begun.
    """
    places = [at for at, one in enumerate(listed.callbacks) if one is capture]
    for at in reversed(places[1:]):
        del listed.callbacks[at]
    if places and getattr(listed, "_async_train", False):
        listed._async_train = False


def arguments(fit: dict[str, Any]) -> dict[str, Any]:
    """What `fit` was given that matters to what is learned, besides data and callbacks."""
    said = {name: fit[name] for name in TOLD if fit.get(name)}
    said |= {"shuffle": fit["shuffle"]} if fit.get("shuffle") and _is_shuffled(fit.get("x")) else {}
    return said | {"batch_size": batch_size(fit), "sample_weight": _weights(fit.get("sample_weight"))}


def batch_size(given: dict[str, Any]) -> int | None:
    """The size of a batch: as it was said, as the loader has it, or Keras's own where arrays are given."""
    x = given.get("x")
    if given.get("batch_size"):
        return int(given["batch_size"])
    held: Any = getattr(x, "batch_size", None)
    if held is None and _are_arrays(x):
        return ARRAYS_OF
    for _ in range(CHAINED):  # a pipeline of TensorFlow's: the part of it that makes batches knows
        if held is not None or x is None:
            break
        held, x = getattr(x, "_batch_size", None), getattr(x, "_input_dataset", None)
    held = held.numpy() if hasattr(held, "numpy") else held
    return int(held) if hasattr(held, "__index__") else None


def _is_shuffled(x: Any) -> bool:
    """Whether Keras shuffles this data if it is told to: loaders, pipelines and generators it takes as they come."""
    is_counted = isinstance(x, keras.utils.PyDataset) and getattr(x, "num_batches", None) is not None
    return is_counted or _are_arrays(x)


def _are_arrays(x: Any) -> bool:
    """Whether this is an array, or several inputs that are."""
    if not isinstance(x, (dict, list, tuple)):
        return hasattr(x, "shape")
    parts = list(x.values()) if isinstance(x, dict) else x
    return bool(parts) and all(map(_are_arrays, parts))


def _weights(given: Any) -> str | None:
    """That samples have weights, and what holds them."""
    if given is None:
        return None
    return type(given).__name__ + (f" of shape {tuple(given.shape)}" if hasattr(given, "shape") else "")


def files(checkpoints: list[Any], epoch: int, logs: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """The files that checkpoints write after an epoch, if they do; and whether they are the model as that leaves it."""
    for one in checkpoints:
        try:
            yield one.filepath.format(epoch=epoch + 1, **logs), one.save_freq == "epoch"
        except (KeyError, ValueError, IndexError):  # it is named by batches, or by what was not measured
            continue


def backup(one: Any) -> str:
    """The file that BackupAndRestore keeps the model in, to go on from if `fit` is interrupted."""
    return str(Path(one.backup_dir) / "latest.weights.h5")


def mark_of(path: str) -> tuple[int, int] | None:
    """What tells one state of a file from the next; None where there is no file."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
