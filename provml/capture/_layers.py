"""The layers of a network in order, as dictionaries for `training.layers`; nested networks are blocks.

No framework is imported: each network is read through its own interface.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

from provml.journal.redaction import is_secret

IGNORED_KEYS = {
    "name", "trainable", "dtype", "batch_shape", "batch_input_shape", "build_config", "data_format", "layers",
}  # fmt: skip
"""Keys of a Keras layer's config that are not parameters."""
LAMBDA = "__lambda__"
"""Class name of the code of a function in a Keras layer's config."""
IGNORED_ATTRIBUTES = {"training"}
"""Attributes of a PyTorch module that are not parameters."""
MAX_ITEMS = 8
"""Longer lists are not recorded as a parameter of a layer."""


# ---- Keras


def keras_layers(model: Any, block: str = "", counted: set[int] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the layers of a Keras model. A model inside it is a block, followed by its own layers.

    Shared weights are counted with the first layer that has them.
    """
    counted = set() if counted is None else counted
    for layer in model.layers:
        fields = {"name": layer.name, "type": type(layer).__name__, "block": block or None}
        fields |= {"input_shape": _shape(layer, "input"), "output_shape": _shape(layer, "output")}
        if fields["output_shape"] is None:
            fields |= _build_shapes(layer)
        if isinstance(getattr(layer, "layers", None), list):
            yield fields | {"is_block": True}
            yield from keras_layers(layer, layer.name, counted)
        else:
            weights = [weight for weight in layer.weights if id(weight) not in counted]
            counted |= {id(weight) for weight in weights}
            count = sum(math.prod(weight.shape) for weight in weights) if layer.built else None
            frozen = {"trainable": False} if layer.weights and not layer.trainable else {}
            yield fields | {"parameter_count": count, "parameters": _keras_parameters(layer) | frozen}


def _shape(layer: Any, side: str) -> str | None:
    """Return the shape of the "input" or "output" of a layer that is used once in a graph."""
    try:
        tensors = getattr(layer, side)
    except Exception:  # not built yet, or used several times
        return None
    if isinstance(tensors, (list, tuple)):
        return str([tuple(tensor.shape) for tensor in tensors])
    return str(tuple(tensors.shape)) if hasattr(tensors, "shape") else None


def _build_shapes(layer: Any) -> dict[str, str]:
    """Return the shapes of a layer outside of a graph, for batches of any size: its input, and its output.

    The output shape of a user-defined layer is left out, because Keras would call the layer to compute it.
    """
    try:
        (built_for,) = layer.get_build_config().values()
        shape = (None, *built_for[1:])
        if not all(size is None or isinstance(size, int) for size in shape):
            return {}
        shapes = {"input_shape": str(shape)}
        if _is_from_keras(layer):
            shapes["output_shape"] = str(tuple(layer.compute_output_shape(shape)))
    except Exception:  # not built yet, or several inputs
        return {}
    return shapes


def _is_from_keras(layer: Any) -> bool:
    """Return whether a layer and the layers inside it are defined by Keras and contain no code of the user."""
    inner = [value for value in vars(layer).values() if hasattr(value, "get_build_config")]
    is_own = type(layer).__module__.startswith("keras.") and type(layer).__name__ != "Lambda"
    return is_own and all(map(_is_from_keras, inner))


def _keras_parameters(layer: Any) -> dict[str, Any]:
    """Return the plain values of a layer's config, and the names of its functions and regularizers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about loading lambdas, but nothing is saved here
            config = layer.get_config()
    except Exception:  # a user-defined layer without a config
        return {}
    parameters = {}
    for key, value in config.items():
        if isinstance(value, dict):
            if key.endswith("_initializer") or value.get("class_name") == LAMBDA:
                continue
            value = _format_object(value) if "class_name" in value else _function_name(layer, key)
        if key not in IGNORED_KEYS and _is_plain(value) and not _is_secret(key, value):
            parameters[key] = value
    return parameters


def _function_name(layer: Any, key: str) -> str | None:
    """Return the name of a function whose code is in a layer's config."""
    function = getattr(layer, key, None)
    return function.__name__ if isinstance(function, FunctionType) else None


def _format_object(serialized: dict[str, Any]) -> str:
    """Return a serialized object as source code: L2(l2=0.01)."""
    name, config = serialized["class_name"], serialized.get("config")
    if not isinstance(config, dict):
        return str(config if isinstance(config, str) else name)
    arguments = ", ".join(f"{key}={value}" for key, value in config.items() if _is_plain(value))
    return f"{name}({arguments})" if arguments else str(name)


# ---- PyTorch


def torch_layers(network: Any) -> list[dict[str, Any]]:
    """Return the modules of a PyTorch module tree in the order of their definition; those with children are blocks.

    A module's own parameters are counted with it, shared ones with the first module that has them.
    """
    layers = []
    counted: set[int] = set()
    for name, module in network.named_modules():
        parameters = [parameter for parameter in module.parameters(recurse=False) if id(parameter) not in counted]
        counted |= {id(parameter) for parameter in parameters}
        if not name:  # the network itself
            continue
        layer = {"name": name, "type": type(module).__name__, "block": name.rpartition(".")[0] or None}
        layer["parameter_count"] = sum(map(_size, parameters))
        if next(module.children(), None) is not None:
            layer["is_block"] = True
        layer["parameters"] = _torch_parameters(module)
        layers.append(layer)
    if not layers:  # a network of one layer
        kind = type(network).__name__
        count = sum(map(_size, network.parameters()))
        layer = {"name": kind, "type": kind, "parameter_count": count, "parameters": _torch_parameters(network)}
        layers.append(layer)
    return layers


def _size(parameter: Any) -> int:
    """Return the number of elements of a parameter; 0 for a lazy one."""
    try:
        return int(parameter.numel())
    except Exception:  # not initialized yet
        return 0


def _torch_parameters(module: Any) -> dict[str, Any]:
    """Return the plain attributes of a module, such as in_features, kernel_size and p."""
    return {
        key: value
        for key, value in vars(module).items()
        if not key.startswith("_") and key not in IGNORED_ATTRIBUTES and _is_plain(value) and not _is_secret(key, value)
    }


# ---- values


def layer_count(layers: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the number of layers, without the networks around them; None if there are none."""
    return sum(not layer.get("is_network") for layer in layers) or None


def _is_secret(key: str, value: Any) -> bool:
    """Return whether a text has the name of a secret; a number with such a name is a size, as of attention keys."""
    items = value if isinstance(value, (list, tuple)) else (value,)
    return is_secret(key) and any(isinstance(item, str) for item in items)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= MAX_ITEMS and all(isinstance(item, (bool, int, float, str)) for item in value)
    return isinstance(value, (bool, int, float, str))
