"""A file of a task."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.provenance_object import ProvenanceObject, expect


class File(ProvenanceObject):
    """A file by path and name."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__(name)
        self.path = expect(self, "path", path, str)
        self.name = name

    def _said(self) -> dict[str, Any]:
        return {"tag": self._tag, "path": self.path, "name": self.name}
