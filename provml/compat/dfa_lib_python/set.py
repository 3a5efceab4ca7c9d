"""A set: the columns of what a transformation takes in or gives out."""

from __future__ import annotations

import copy
from typing import Any

from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.extractor import Extractor
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect, expect_all, specifications
from provml.compat.dfa_lib_python.set_type import SetType


class Set(ProvenanceObject):
    """What a transformation takes in or gives out; with a dependency, what another gave out.

    `columns` are its attributes and `readers` its extractors; by the names of the originals they are plain data.
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
        """The name of its side."""
        return self.side.name

    @type.setter
    def type(self, type: SetType) -> None:
        self.set_type(type)

    def set_type(self, type: SetType) -> None:
        """Say which side it is on."""
        self.side: SetType = expect(self, "type", type, SetType)

    @property
    def attributes(self) -> list[dict[str, Any]]:
        """The columns as plain data."""
        return specifications(self.columns)

    @attributes.setter
    def attributes(self, attributes: list[Attribute]) -> None:
        self.columns: list[Attribute] = expect_all(self, "attributes", attributes, Attribute)

    def add_attribute(self, attribute: Attribute) -> None:
        """Add a column."""
        self.columns.append(expect(self, "attributes", attribute, Attribute))

    @property
    def extractors(self) -> list[dict[str, Any]]:
        """The extractors as plain data."""
        return specifications(self.readers)

    @extractors.setter
    def extractors(self, extractors: list[Extractor]) -> None:
        self.readers: list[Extractor] = expect_all(self, "extractors", extractors, Extractor)

    def add_extractor(self, extractor: Extractor) -> None:
        """Add an extractor."""
        self.readers.append(expect(self, "extractors", extractor, Extractor))

    def as_it_is(self) -> Set:
        """A copy: a transformation keeps a set as it is when it gets it, for scripts go on to change it."""
        held = copy.copy(self)
        held.columns, held.readers = list(self.columns), list(self.readers)
        return held

    def _said(self) -> dict[str, Any]:
        return {
            "tag": self._tag,
            "attributes": self.attributes,
            "type": self.type,
            "extractors": self.extractors,
            "dependency": self.dependency,
        }
