"""A transformation: a step of a dataflow, with the sets that it takes in and gives out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provml.compat.dfa_lib_python.provenance_object import ProvenanceObject, expect, expect_all
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.errors import WrongValue


class Transformation(ProvenanceObject):
    """A step of a dataflow."""

    def __init__(self, tag: str, sets: Sequence[Set] = ()) -> None:
        super().__init__(tag)
        self.sets: list[Set] = []
        self.set_sets(sets)

    @property
    def input(self) -> list[Set]:
        """The sets that it takes in."""
        return [one for one in self.sets if one.side is SetType.INPUT]

    @input.setter
    def input(self, sets: Sequence[Set]) -> None:
        self.sets = [*self.output, *self._of(SetType.INPUT, sets)]

    @property
    def output(self) -> list[Set]:
        """The sets that it gives out."""
        return [one for one in self.sets if one.side is SetType.OUTPUT]

    @output.setter
    def output(self, sets: Sequence[Set]) -> None:
        self.sets = [*self.input, *self._of(SetType.OUTPUT, sets)]

    def _of(self, side: SetType, sets: Sequence[Set]) -> list[Set]:
        for one in expect_all(self, side.value.lower(), sets, Set):
            if one.side is not side:
                advice = f"Say {one.tag}.set_type(SetType.{side.value})."
                raise WrongValue("Transformation", side.value.lower(), one, f"sets of type {side.value}", advice)
        return [one.as_it_is() for one in sets]

    def set_sets(self, sets: Sequence[Set]) -> None:
        """Add several sets."""
        self.sets += [one.as_it_is() for one in expect_all(self, "sets", sets, Set)]

    def add_set(self, set: Set) -> None:
        """Add a set."""
        self.sets.append(expect(self, "sets", set, Set).as_it_is())

    def _said(self) -> dict[str, Any]:
        return {"tag": self._tag, "sets": [one.get_specification() for one in self.sets]}
