"""A transformation: a step of a dataflow with its input and output sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provml.compat.dfa_lib_python.program import Program
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect, expect_all, specifications
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.errors import WrongValue


class Transformation(ProvenanceObject):
    """A step of a dataflow. `set_objects` are its sets; `sets` are plain data, as in the originals."""

    def __init__(self, tag: str, sets: Sequence[Set] = ()) -> None:
        super().__init__(tag)
        self.programs: list[Program] = []
        self.sets = sets

    @property
    def sets(self) -> list[dict[str, Any]]:
        """Sets as plain data."""
        return specifications(self.set_objects)

    @sets.setter
    def sets(self, sets: Sequence[Set]) -> None:
        self.set_objects: list[Set] = []
        self.set_sets(sets)

    def sets_of(self, side: SetType) -> list[Set]:
        """Return the input sets or the output sets."""
        return [item for item in self.set_objects if item.side is side]

    @property
    def input(self) -> list[dict[str, Any]]:
        """Input sets as plain data."""
        return specifications(self.sets_of(SetType.INPUT))

    @input.setter
    def input(self, sets: Sequence[Set]) -> None:
        self.set_objects = [*self.sets_of(SetType.OUTPUT), *self._check_side(SetType.INPUT, sets)]

    @property
    def output(self) -> list[dict[str, Any]]:
        """Output sets as plain data."""
        return specifications(self.sets_of(SetType.OUTPUT))

    @output.setter
    def output(self, sets: Sequence[Set]) -> None:
        self.set_objects = [*self.sets_of(SetType.INPUT), *self._check_side(SetType.OUTPUT, sets)]

    def _check_side(self, side: SetType, sets: Sequence[Set]) -> list[Set]:
        for item in expect_all(self, side.value.lower(), sets, Set):
            if item.side is not side:
                advice = f"Call {item.tag}.set_type(SetType.{side.value})."
                raise WrongValue("Transformation", side.value.lower(), item, f"sets of type {side.value}", advice)
        return [item.copy() for item in sets]

    def set_sets(self, sets: Sequence[Set]) -> None:
        """Add several sets."""
        self.set_objects += [item.copy() for item in expect_all(self, "sets", sets, Set)]

    def add_set(self, set: Set) -> None:
        """Add a set."""
        self.set_objects.append(expect(self, "sets", set, Set).copy())

    def add_program(self, program: Program) -> None:
        """Add the program that implements the transformation. The originals have no such call."""
        self.programs.append(expect(self, "programs", program, Program))

    def _fields(self) -> dict[str, Any]:
        return {"tag": self._tag, "sets": self.sets, "programs": specifications(self.programs)}
