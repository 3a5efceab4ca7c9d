"""A data set: rows of one of a transformation's sets."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.element import Element
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect_all


class DataSet(ProvenanceObject):
    """Rows of the set that has this tag."""

    def __init__(self, tag: str, elements: list[Element]) -> None:
        super().__init__(tag)
        self.elements = elements

    @property
    def elements(self) -> list[list[str]]:
        """Rows as text; provml records the values themselves."""
        return [row.values for row in self.rows]

    @elements.setter
    def elements(self, elements: list[Element]) -> None:
        self.rows: list[Element] = expect_all(self, "elements", elements, Element)

    def _fields(self) -> dict[str, Any]:
        return {"tag": self._tag, "elements": self.elements}
