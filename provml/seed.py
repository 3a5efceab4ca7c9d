"""The seeds of random number generators, as far as the libraries that are loaded tell them."""

from __future__ import annotations

import os
import sys
from typing import Any


def seeds() -> dict[str, int]:
    """By library, the seed that is in force now; a library that is not loaded, or does not tell, is absent."""
    found: dict[str, int] = {}
    hashing = os.environ.get("PYTHONHASHSEED", "")
    if hashing.isdigit():
        found["python hash"] = int(hashing)
    for name, ask in (("numpy", _numpy), ("torch", _torch)):
        module = sys.modules.get(name)
        if module is not None:
            try:
                found[name] = int(ask(module))
            except Exception:  # a half-loaded or unusual library: it does not tell
                continue
    return found


def _numpy(numpy: Any) -> int:
    """The seed of the global generator: the first word of its key, if that seed gives this key.

    It does not where nobody gave a seed, or where numbers were drawn since: then the seed is not to be known.
    """
    kind, key, *_ = numpy.random.get_state()
    seed = int(key[0])
    if kind != "MT19937" or (numpy.random.RandomState(seed).get_state()[1] != key).any():
        raise ValueError(f"this {kind} is no longer at its seed")
    return seed


def _torch(torch: Any) -> int:
    return int(torch.initial_seed())
