"""Calls a function when a module has been imported, for frameworks that a script imports after `autolog()`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


class PostImportFinder:
    """A finder of `sys.meta_path` that finds nothing itself.

    For the modules it waits for it asks the other finders, and replaces `exec_module` of the loader until the module
    has been executed.
    """

    def __init__(self, actions: Mapping[str, Callable[[], None]]) -> None:
        self._actions = dict(actions)

    def install(self) -> None:
        """Run the actions of modules that are imported already, and wait for the others."""
        sys.meta_path.insert(0, self)
        for name in list(self._actions):
            if name in sys.modules and not _is_initializing(sys.modules[name]):
                self._run(name)

    def uninstall(self) -> None:
        """Wait no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Return the specification of a module that is waited for, from the other finders; None for any other."""
        if name not in self._actions:
            return None
        for finder in list(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec is not None and type(finder) is not type(self) else None
            if spec is not None:
                self._watch(name, spec.loader)
                return spec
        return None

    def _watch(self, name: str, loader: Any) -> None:
        """Run the action of a module after its loader has executed it."""
        if loader is None or isinstance(loader, type) or not hasattr(loader, "exec_module"):
            return
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # nothing stays on the loader
            original(module)
            self._run(name)

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader with slots
            logging.getLogger("provml").debug("provml: the import of %s cannot be followed.", name)

    def _run(self, name: str) -> None:
        action = self._actions.pop(name, None)
        if action is not None:
            action()


def _is_initializing(module: ModuleType) -> bool:
    """Return whether a module is being imported: its functions may not exist yet."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
