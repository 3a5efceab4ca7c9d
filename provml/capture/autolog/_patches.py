"""Replacements of attributes of a framework, with everything that is needed to undo them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

MISSING: Any = object()
"""Stands for an attribute that the owner itself did not have: it inherited it, or nothing had it."""


class Patch(NamedTuple):
    """An attribute that was replaced."""

    owner: Any
    name: str
    original: Any
    """The value in the owner's own dictionary, or `MISSING`."""
    replacement: Any


class Patches:
    """The replaced attributes of one framework. `undo` restores those that nobody else has replaced since."""

    def __init__(self) -> None:
        self._patches: list[Patch] = []
        self._undo: list[Callable[[], None]] = []

    def __iter__(self) -> Any:
        return iter(self._patches)

    def replace(self, owner: Any, name: str, replacement: Any) -> None:
        """Replace an attribute of a module or a class."""
        original = vars(owner).get(name, MISSING)
        setattr(owner, name, replacement)
        self._patches.append(Patch(owner, name, original, replacement))

    def wrap(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace a function by `make(original)`, with its name, documentation and signature.

        An attribute that does not exist raises AttributeError: the version of the framework is not the one that the
        wrapper was written for.
        """
        original = vars(owner).get(name, MISSING)
        original = getattr(owner, name) if original is MISSING else original
        self.replace(owner, name, wraps(original)(make(original)))

    def on_undo(self, function: Callable[[], None]) -> None:
        """Call a function at `undo`, to remove what is not an attribute, such as a hook."""
        self._undo.append(function)

    def undo(self) -> None:
        """Restore the originals, the last replacement first."""
        while self._undo:
            self._undo.pop()()
        while self._patches:
            owner, name, original, replacement = self._patches.pop()
            if vars(owner).get(name) is not replacement:
                continue  # another package wrapped it since: its wrapper calls ours, which does nothing any more
            if original is MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
