"""A program that a transformation runs."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python._registry import Tagged
from provml.compat.dfa_lib_python.ProvenanceObject import expect


class Program(Tagged):
    """A program by name and path, which implements the transformation that it is added to or tagged with."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name)
        self.path = path

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.tag

    @name.setter
    def name(self, name: str) -> None:
        self._set_tag(expect(self, "name", name, str))

    @property
    def path(self) -> str:
        """Path of the program."""
        return self._path

    @path.setter
    def path(self, path: str) -> None:
        self._path: str = expect(self, "path", path, str)

    def _fields(self) -> dict[str, Any]:
        return {"name": self.name, "path": self.path, **super()._fields()}
