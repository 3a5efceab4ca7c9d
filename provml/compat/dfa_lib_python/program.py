"""A program that a transformation runs."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.ProvenanceObject import expect
from provml.compat.dfa_lib_python.tagged import Tagged


class Program(Tagged):
    """A program by name and path: it carries out the transformation that it is added to, or tagged with."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name)
        self.path = path

    @property
    def name(self) -> str:
        """Its name."""
        return self.tag

    @name.setter
    def name(self, name: str) -> None:
        self._call(expect(self, "name", name, str))

    @property
    def path(self) -> str:
        """Where it lies."""
        return self._path

    @path.setter
    def path(self, path: str) -> None:
        self._path: str = expect(self, "path", path, str)

    def _said(self) -> dict[str, Any]:
        return {"name": self.name, "path": self.path, **super()._said()}
