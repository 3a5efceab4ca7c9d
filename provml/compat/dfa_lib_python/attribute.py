"""An attribute: a column of a set."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.attribute_type import AttributeType
from provml.compat.dfa_lib_python.provenance_object import ProvenanceObject, expect


class Attribute(ProvenanceObject):
    """A column of a set: its name and the type of its values."""

    kind: AttributeType

    def __init__(self, tag: str, type: AttributeType) -> None:
        super().__init__(tag)
        self.kind = expect(self, "type", type, AttributeType)

    @property
    def name(self) -> str:
        """Its name, as it was written."""
        return self.tag

    @property
    def type(self) -> str:
        """The name of its type."""
        return str(self.kind.value)

    def _said(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type}
