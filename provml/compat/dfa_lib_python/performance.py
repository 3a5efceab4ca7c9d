"""How long something took, as a script tells it."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.method_type import MethodType
from provml.compat.dfa_lib_python.provenance_object import ProvenanceObject


class Performance(ProvenanceObject):
    """When something began and ended, as text."""

    def __init__(self, start_time: str, end_time: str, method: MethodType | str = "", description: str = "") -> None:
        super().__init__("")
        self.start_time = start_time
        self.end_time = end_time
        self.method = method
        self.description = description

    def _said(self) -> dict[str, Any]:
        method = self.method.value if isinstance(self.method, MethodType) else self.method
        said = {"startTime": self.start_time, "endTime": self.end_time, "method": method}
        return said | {"description": self.description}
