"""The network that an optimizer trains, found by the modules that were called."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from provml.capture.torch._optimizers import unwrap_network


def find_network(optimizer: Any, called: Iterable[Any], module_type: type) -> Any:
    """Return the network of an optimizer; None if no module has its parameters.

    It is the largest of the called modules that has parameters of the optimizer: an optimizer of the last layers trains
    the whole network. If that module lacks some parameters, as after `network.forward(x)`, it is the smallest module of
    all that has the parameters of the optimizer and of the called modules.
    """
    trained = {id(item) for group in optimizer.param_groups for item in group["params"]}
    candidates = {id(module): module for module in map(unwrap_network, called)}
    sizes = {key: _parameters(module) for key, module in candidates.items()}
    reached = [key for key, parameters in sizes.items() if parameters & trained]
    if reached:
        best = max(reached, key=lambda key: len(sizes[key]))
        if trained <= sizes[best]:
            return candidates[best]
    required = trained.union(*(sizes[key] for key in reached))
    modules = [item for item in gc.get_objects() if issubclass(type(item), module_type)]
    whole = [(len(parameters), module) for module in modules if required <= (parameters := _parameters(module))]
    if not whole and required != trained:
        return candidates[max(reached, key=lambda key: len(sizes[key]))]
    return unwrap_network(min(whole, key=lambda pair: pair[0])[1]) if whole else None


def _parameters(module: Any) -> set[int]:
    """Return the identities of all parameters of a module."""
    try:
        return {id(parameter) for parameter in module.parameters()}
    except Exception:  # a class that overrides it, or a module that is being built
        return set()
