"""The layers of a network in order, as dictionaries that `training.layers` takes; nested networks are blocks.

Nothing is imported: a network is asked in the words of its own framework.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from provml.secret import is_secret

UNTOLD = {"name", "trainable", "dtype", "batch_shape", "batch_input_shape", "build_config", "data_format", "layers"}
"""What a Keras layer's config has besides its parameters."""
LAMBDA = "__lambda__"
"""What the code of a function is called in a Keras layer's config."""
OWN = {"training"}
"""What a PyTorch module's attributes have besides its parameters."""


# ---- Keras


def of_keras(model: Any, block: str = "", counted: set[int] | None = None) -> Iterator[dict[str, Any]]:
    """The layers of a Keras model; a model inside it is a block, with its own layers after it.

    Weights that are shared are counted with the first layer that has them.
    """
    counted = set() if counted is None else counted
    for layer in model.layers:
        is_block = isinstance(getattr(layer, "layers", None), list)
        told = {"name": layer.name, "type": type(layer).__name__, "block": block or None}
        told |= {"input_shape": _shape(layer, "input"), "output_shape": _shape(layer, "output")}
        if told["output_shape"] is None:
            told |= _built_for(layer)
        if is_block:
            yield told | {"is_block": True}
            yield from of_keras(layer, layer.name, counted)
        else:
            own = [one for one in layer.weights if id(one) not in counted]
            counted |= {id(one) for one in own}
            count = sum(math.prod(one.shape) for one in own) if layer.built else None
            frozen = {"trainable": False} if layer.weights and not layer.trainable else {}
            yield told | {"parameter_count": count, "parameters": _settings(layer) | frozen}


def _shape(layer: Any, side: str) -> str | None:
    """The shape of what goes in or out, where the layer has one place in a graph."""
    try:
        held = getattr(layer, side)
    except Exception:  # not built yet, or used in several places
        return None
    if isinstance(held, (list, tuple)):
        return str([tuple(one.shape) for one in held])
    return str(tuple(held.shape)) if hasattr(held, "shape") else None


def _built_for(layer: Any) -> dict[str, str]:
    """The shapes of a layer that no graph holds: the one that it was built for, and the one that it makes of it.

    A layer of the user's own is not asked for the latter, since Keras would call it to know; batches are of any size.
    """
    try:
        (given,) = layer.get_build_config().values()
        given = (None, *given[1:])
        if not all(one is None or isinstance(one, int) for one in given):
            return {}
        told = {"input_shape": str(given)}
        if _is_of_keras(layer):
            told["output_shape"] = str(tuple(layer.compute_output_shape(given)))
    except Exception:  # not built yet, or of several inputs
        return {}
    return told


def _is_of_keras(layer: Any) -> bool:
    """Whether a layer, and those that it holds, are Keras's own and none has code of the user's."""
    inside = [one for one in vars(layer).values() if hasattr(one, "get_build_config")]
    is_own = type(layer).__module__.startswith("keras.") and type(layer).__name__ != "Lambda"
    return is_own and all(_is_of_keras(one) for one in inside)


def _settings(layer: Any) -> dict[str, Any]:
    """The parameters of a Keras layer: of its config what is plain, and the names of functions and regularizers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a lambda is unsafe to load: nothing is saved here
            config = layer.get_config()
    except Exception:  # a layer of the user's own need not have one
        return {}
    told = {}
    for key, value in config.items():
        if isinstance(value, dict):
            if key.endswith("_initializer") or value.get("class_name") == LAMBDA:
                continue
            value = _called(value) if "class_name" in value else _function(layer, key)
        if key not in UNTOLD and _is_plain(value) and not _is_secret(key, value):
            told[key] = value
    return told


def _function(layer: Any, key: str) -> str | None:
    """The name of a function that a layer's config has as its code, as that of a lambda."""
    held = getattr(layer, key, None)
    return held.__name__ if isinstance(held, FunctionType) else None


def _called(held: dict[str, Any]) -> str:
    """A serialized object as one would write it: L2(l2=0.01)."""
    config = held.get("config")
    said = ", ".join(f"{k}={v}" for k, v in config.items() if _is_plain(v)) if isinstance(config, dict) else ""
    return f"{held['class_name']}({said})" if said else str(config if isinstance(config, str) else held["class_name"])


# ---- PyTorch


def of_torch(network: Any) -> list[dict[str, Any]]:
    """The modules of a PyTorch module tree, in the order they were made; those that hold others are blocks.

    A module's own parameters are counted with it, and one that is shared with the first that has it.
    """
    told = []
    counted: set[int] = set()
    for name, module in network.named_modules():
        own = [p for p in module.parameters(recurse=False) if id(p) not in counted]
        counted |= {id(p) for p in own}
        if not name:  # the network itself
            continue
        block = name.rpartition(".")[0]
        inside = next(module.children(), None) is not None
        one = {"name": name, "type": type(module).__name__, "block": block or None}
        one["parameter_count"] = sum(_numel(p) for p in own)
        if inside:
            one["is_block"] = True
        one["parameters"] = _attributes(module)
        told.append(one)
    if not told:  # a network of one layer
        count = sum(_numel(p) for p in network.parameters())
        one = {"name": type(network).__name__, "type": type(network).__name__, "parameter_count": count}
        told.append(one | {"parameters": _attributes(network)})
    return told


def _numel(parameter: Any) -> int:
    """How many numbers a parameter holds; a lazy one does not know yet."""
    try:
        return int(parameter.numel())
    except Exception:  # not yet initialized
        return 0


def _attributes(module: Any) -> dict[str, Any]:
    """The plain attributes of a module, which are its parameters: in_features, kernel_size, p."""
    return {
        key: value
        for key, value in vars(module).items()
        if not key.startswith("_") and key not in OWN and _is_plain(value) and not _is_secret(key, value)
    }


def _is_secret(key: str, value: Any) -> bool:
    """Whether a text goes by the name of a secret; a number that does is a size, as that of the keys of attention."""
    return is_secret(key) and (isinstance(value, str) or any(isinstance(one, str) for one in _inside(value)))


def _inside(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else ()


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= 8 and all(isinstance(one, (bool, int, float, str)) for one in value)
    return isinstance(value, (bool, int, float, str))
