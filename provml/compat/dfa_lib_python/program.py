"""A program that a transformation runs."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.provenance_object import ProvenanceObject, expect


class Program(ProvenanceObject):
    """A program by name and path."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name)
        self.name = name
        self.path = expect(self, "path", path, str)

    def _said(self) -> dict[str, Any]:
        return {"name": self.name, "path": self.path}
