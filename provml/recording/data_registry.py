"""Registry of a run's data: files by path, other objects by identity."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from provml.recording.data import Data
from provml.recording.hashing import is_path

T = TypeVar("T")
MAX_PATH_CHARS = 4096
"""Longer strings are not looked up as paths."""


class IdentityMap(Generic[T]):
    """Mapping from objects, by identity, to values. It keeps no object alive. A pickled copy is empty."""

    def __init__(self) -> None:
        self._items: dict[int, tuple[weakref.ref[Any], T]] = {}

    def __reduce__(self) -> tuple[type[IdentityMap[T]], tuple[()]]:
        return type(self), ()

    def get(self, key: Any) -> T | None:
        """Return the value of an object; None if it has none."""
        ref, value = self._items.get(id(key), (None, None))
        return value if ref is not None and ref() is key else None

    def pop(self, key: Any) -> None:
        """Remove an object."""
        self._items.pop(id(key), None)

    def set(self, key: Any, value: T) -> None:
        """Set the value of an object while it lives. Ignore objects without weak references: None, numbers, lists."""
        items, key_id = self._items, id(key)

        def remove(dead: weakref.ref[Any]) -> None:
            if items.get(key_id, (None,))[0] is dead:
                items.pop(key_id, None)

        try:
            items[key_id] = weakref.ref(key, remove), value
        except TypeError:
            return


class DataRegistry:
    """Data of a run by its source: a file by its real path, any other object by identity."""

    def __init__(self) -> None:
        self._files: dict[str, Data] = {}
        self._objects: IdentityMap[Data | Callable[[Any], Data]] = IdentityMap()

    def add(self, source: Any, data: Data) -> Data:
        """Register the data of a source and return it."""
        if not isinstance(source, (str, os.PathLike)):
            self._objects.set(source, data)
        elif data.sha256:  # only a file that exists has a digest
            self._files[os.path.realpath(os.fsdecode(source))] = data
        return data

    def add_later(self, source: Any, register: Callable[[Any], Data]) -> None:
        """Call `register` with the source when `find` is called for it, and not before."""
        self._objects.set(source, register)

    def find(self, source: Any) -> Data | None:
        """Return the data of a source; None if there is none. A file may have changed since it was registered."""
        if not isinstance(source, (str, os.PathLike)):
            data = self._objects.get(source)
            return data(source) if callable(data) else data
        if not self._files or (isinstance(source, str) and (len(source) > MAX_PATH_CHARS or not is_path(source))):
            return None
        try:
            return self._files.get(os.path.realpath(os.fsdecode(source)))
        except ValueError:  # a string that cannot be a path
            return None
