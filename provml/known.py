"""What data a run has been told, to be known again: files by where they lie, objects by identity."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from provml.content import Data, is_path

T = TypeVar("T")
LONGEST = 4096
"""No path has more characters."""


class Memory(Generic[T]):
    """Something for each of some objects, none of which is kept alive by it. A copy of a memory is empty."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[Any], T]] = {}

    def __reduce__(self) -> tuple[type[Memory[T]], tuple[()]]:
        return type(self), ()

    def get(self, one: Any) -> T | None:
        """What this very object is remembered as; None where it is not."""
        ref, what = self._held.get(id(one), (None, None))
        return what if ref is not None and ref() is one else None

    def pop(self, one: Any) -> None:
        """Remember it no more."""
        self._held.pop(id(one), None)

    def set(self, one: Any, what: T) -> None:
        """Remember it while it lives, unless it is of a kind that cannot be held weakly (None, a number or a list)."""
        held, key = self._held, id(one)

        def forget(gone: weakref.ref[Any]) -> None:
            if held.get(key, (None,))[0] is gone:
                held.pop(key, None)

        try:
            held[key] = weakref.ref(one, forget), what
        except TypeError:
            return


class Known:
    """The data of a run, by what it was told of: a file by its real path, any other object by identity."""

    def __init__(self) -> None:
        self._files: dict[str, Data] = {}
        self._objects: Memory[Data | Callable[[Any], Data]] = Memory()

    def add(self, source: Any, data: Data) -> Data:
        """This source was told as this data, which is given back."""
        if not isinstance(source, (str, os.PathLike)):
            self._objects.set(source, data)
        elif data.sha256:  # there is such a file
            self._files[os.path.realpath(os.fsdecode(source))] = data
        return data

    def add_later(self, source: Any, tell: Callable[[Any], Data]) -> None:
        """This source is told as data once somebody asks for it."""
        self._objects.set(source, tell)

    def find(self, source: Any) -> Data | None:
        """What a source was told as; a text has to look like a path. The file may have been changed since."""
        if not isinstance(source, (str, os.PathLike)):
            told = self._objects.get(source)
            return told(source) if callable(told) else told
        if not self._files or (isinstance(source, str) and (len(source) > LONGEST or not is_path(source))):
            return None
        try:
            return self._files.get(os.path.realpath(os.fsdecode(source)))
        except ValueError:  # a text that no path can have
            return None
