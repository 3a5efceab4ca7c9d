"""An attribute: a column of a set."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.attribute_type import AttributeType
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect


class Attribute(ProvenanceObject):
    """A column of a set: its name and the type of its values."""

    kind: AttributeType

    def __init__(self, tag: str, type: AttributeType) -> None:
        super().__init__(tag)
        self.type = type

    @property
    def name(self) -> str:
        """Name as written."""
        return self.tag

    @name.setter
    def name(self, name: str) -> None:
        self._set_tag(expect(self, "name", name, str))

    @property
    def type(self) -> str:
        """Name of the type."""
        return str(self.kind.value)

    @type.setter
    def type(self, type: AttributeType) -> None:
        self.kind = expect(self, "type", type, AttributeType)

    def _fields(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type}

    def __repr__(self) -> str:
        return f"{self.name}:{self.type}"
