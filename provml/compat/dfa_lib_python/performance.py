"""Durations that a script reports."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from provml.compat.dfa_lib_python.method_type import MethodType
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect
from provml.errors import WrongValue

TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
"""Time format of the originals."""


class Performance(ProvenanceObject):
    """Start and end of a part of a task as text, the kind of work, and a description."""

    def __init__(self, start_time: str, end_time: str, method: MethodType | str = "", description: str = "") -> None:
        super().__init__("")
        self.startTime = start_time
        self.endTime = end_time
        self._method = method
        self.description = description

    @property
    def method(self) -> MethodType | str:
        """Kind of work."""
        return self._method

    @method.setter
    def method(self, method: MethodType) -> None:
        self._method = str(expect(self, "method", method, MethodType).value)

    @property
    def kind(self) -> str:
        """Name of the kind of work, or an empty text."""
        return str(self._method.value if isinstance(self._method, MethodType) else self._method)

    @property
    def seconds(self) -> tuple[float, float]:
        """Start and end in seconds since 1970; a time without a zone is local time."""
        started, ended = (self._timestamp(field) for field in ("startTime", "endTime"))
        return started, max(started, ended)

    def _timestamp(self, field: str) -> float:
        text = getattr(self, field)
        try:
            return datetime.fromisoformat(str(text)).timestamp()
        except (ValueError, OverflowError, OSError) as error:
            raise WrongValue(
                "Performance", field, text, "a time such as 2026-01-31 10:00:00", "Use this format."
            ) from error

    def _fields(self) -> dict[str, Any]:
        fields = {"startTime": self.startTime, "endTime": self.endTime, "method": self.kind}
        return fields | {"description": self.description}
