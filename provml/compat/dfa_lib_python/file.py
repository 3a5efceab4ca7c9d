"""A file of a task."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect


class File(ProvenanceObject):
    """A file by path and name, as a value of an element or as a file of a task."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__(name)
        self.path = expect(self, "path", path, str)
        self.name = name

    def __fspath__(self) -> str:
        """Return the path of the file: `path` is its directory, as in DfAnalyzer, or the file itself."""
        path = Path(self.path)
        return self.path if path.name == Path(self.name).name or path.is_file() else os.fspath(path / self.name)

    __str__ = __fspath__

    def _fields(self) -> dict[str, Any]:
        return {"tag": self._tag, "path": self.path, "name": self.name}
