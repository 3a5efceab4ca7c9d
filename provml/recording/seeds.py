"""Seeds of random number generators."""

from __future__ import annotations

import os
import sys
from typing import Any


def seeds() -> dict[str, int]:
    """Return the current seed by library. A library that is not loaded, or whose seed is unknown, is left out."""
    result: dict[str, int] = {}
    hash_seed = os.environ.get("PYTHONHASHSEED", "")
    if hash_seed.isdigit():
        result["python hash"] = int(hash_seed)
    for name, probe in (("numpy", _numpy_seed), ("torch", _torch_seed)):
        module = sys.modules.get(name)
        if module is not None:
            try:
                result[name] = int(probe(module))
            except Exception:  # a library that is half loaded or unusual
                continue
    return result


def _numpy_seed(numpy: Any) -> int:
    """Return the seed of the global generator: the first word of its state, if that seed gives this state.

    It does not if nobody set a seed, or if numbers were drawn since. Then the seed is unknown.
    """
    kind, key, *_ = numpy.random.get_state()
    seed = int(key[0])
    if kind != "MT19937" or (numpy.random.RandomState(seed).get_state()[1] != key).any():
        raise ValueError(f"The generator {kind} is not at its seed.")
    return seed


def _torch_seed(torch: Any) -> int:
    return int(torch.initial_seed())
