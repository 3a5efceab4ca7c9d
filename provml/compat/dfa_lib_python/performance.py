"""How long something took, as a script tells it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from provml.compat.dfa_lib_python.method_type import MethodType
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect
from provml.errors import WrongValue

FORM = "%Y-%m-%d %H:%M:%S"
"""How the originals write a time."""


class Performance(ProvenanceObject):
    """When a part of a task began and ended, as text, what kind of work that was, and a description."""

    def __init__(self, start_time: str, end_time: str, method: MethodType | str = "", description: str = "") -> None:
        super().__init__("")
        self.startTime = start_time
        self.endTime = end_time
        self._method = method
        self.description = description

    @property
    def method(self) -> MethodType | str:
        """What kind of work it was."""
        return self._method

    @method.setter
    def method(self, method: MethodType) -> None:
        self._method = str(expect(self, "method", method, MethodType).value)

    @property
    def kind(self) -> str:
        """The name of the kind of work, if one is said."""
        return str(self._method.value if isinstance(self._method, MethodType) else self._method)

    @property
    def seconds(self) -> tuple[float, float]:
        """When it began and ended, in seconds since 1970; a time without a zone is one of this machine."""
        began, ended = (self._moment(field) for field in ("startTime", "endTime"))
        return began, max(began, ended)

    def _moment(self, field: str) -> float:
        said = getattr(self, field)
        try:
            return datetime.fromisoformat(str(said)).timestamp()
        except (ValueError, OverflowError, OSError) as error:
            raise WrongValue(
                "Performance", field, said, "a time such as 2026-01-31 10:00:00", "Write it so."
            ) from error

    def _said(self) -> dict[str, Any]:
        said = {"startTime": self.startTime, "endTime": self.endTime, "method": self.kind}
        return said | {"description": self.description}
