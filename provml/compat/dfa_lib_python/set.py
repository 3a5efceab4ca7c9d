"""A set: the columns of an input or an output of a transformation."""

from __future__ import annotations

import copy
from typing import Any

from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.extractor import Extractor
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect, expect_all, specifications
from provml.compat.dfa_lib_python.set_type import SetType


class Set(ProvenanceObject):
    """An input or output of a transformation; with a dependency, the output of another one.

    `columns` and `extractor_objects` are objects; `attributes` and `extractors` are plain data, as in the originals.
    """

    def __init__(
        self,
        tag: str,
        type: SetType,
        attributes: list[Attribute],
        extractors: list[Extractor] | None = None,
        dependency: str = "",
    ) -> None:
        super().__init__(tag)
        self.attributes = attributes
        self.extractors = extractors or []
        self.dependency = dependency
        self.set_type(type)

    @property
    def type(self) -> str:
        """Name of the type."""
        return self.side.name

    @type.setter
    def type(self, type: SetType) -> None:
        self.set_type(type)

    def set_type(self, type: SetType) -> None:
        """Set the type: input or output."""
        self.side: SetType = expect(self, "type", type, SetType)

    @property
    def attributes(self) -> list[dict[str, Any]]:
        """Columns as plain data."""
        return specifications(self.columns)

    @attributes.setter
    def attributes(self, attributes: list[Attribute]) -> None:
        self.columns: list[Attribute] = expect_all(self, "attributes", attributes, Attribute)

    def add_attribute(self, attribute: Attribute) -> None:
        """Add a column."""
        self.columns.append(expect(self, "attributes", attribute, Attribute))

    @property
    def extractors(self) -> list[dict[str, Any]]:
        """Extractors as plain data."""
        return specifications(self.extractor_objects)

    @extractors.setter
    def extractors(self, extractors: list[Extractor]) -> None:
        self.extractor_objects: list[Extractor] = expect_all(self, "extractors", extractors, Extractor)

    def add_extractor(self, extractor: Extractor) -> None:
        """Add an extractor."""
        self.extractor_objects.append(expect(self, "extractors", extractor, Extractor))

    def copy(self) -> Set:
        """Return a copy: scripts change a set after adding it to a transformation."""
        duplicate = copy.copy(self)
        duplicate.columns, duplicate.extractor_objects = list(self.columns), list(self.extractor_objects)
        return duplicate

    def _fields(self) -> dict[str, Any]:
        return {
            "tag": self._tag,
            "attributes": self.attributes,
            "type": self.type,
            "extractors": self.extractors,
            "dependency": self.dependency,
        }
