"""A set: the columns of what a transformation takes in or gives out."""

from __future__ import annotations

import copy
from typing import Any

from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.extractor import Extractor
from provml.compat.dfa_lib_python.provenance_object import ProvenanceObject, expect, expect_all
from provml.compat.dfa_lib_python.set_type import SetType


class Set(ProvenanceObject):
    """What a transformation takes in or gives out; with a dependency, what another gave out."""

    def __init__(
        self,
        tag: str,
        type: SetType,
        attributes: list[Attribute],
        extractors: list[Extractor] | None = None,
        dependency: str = "",
    ) -> None:
        super().__init__(tag)
        self.attributes: list[Attribute] = expect_all(self, "attributes", attributes, Attribute)
        self.extractors: list[Extractor] = expect_all(self, "extractors", extractors or [], Extractor)
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

    def add_attribute(self, attribute: Attribute) -> None:
        """Add a column."""
        self.attributes.append(expect(self, "attributes", attribute, Attribute))

    def add_extractor(self, extractor: Extractor) -> None:
        """Add an extractor."""
        self.extractors.append(expect(self, "extractors", extractor, Extractor))

    def as_it_is(self) -> Set:
        """A copy: a transformation keeps a set as it is when it gets it, for scripts go on to change it."""
        held = copy.copy(self)
        held.attributes, held.extractors = list(self.attributes), list(self.extractors)
        return held

    def _said(self) -> dict[str, Any]:
        return {
            "tag": self._tag,
            "attributes": [one.get_specification() for one in self.attributes],
            "type": self.type,
            "extractors": [one.get_specification() for one in self.extractors],
            "dependency": self.dependency,
        }
