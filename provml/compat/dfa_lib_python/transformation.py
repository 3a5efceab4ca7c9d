"""A transformation: a step of a dataflow, with the sets that it takes in and gives out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provml.compat.dfa_lib_python.program import Program
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect, expect_all, specifications
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.errors import WrongValue


class Transformation(ProvenanceObject):
    """A step of a dataflow. `held` are its sets; by the names of the originals they are plain data."""

    def __init__(self, tag: str, sets: Sequence[Set] = ()) -> None:
        super().__init__(tag)
        self.programs: list[Program] = []
        self.sets = sets

    @property
    def sets(self) -> list[dict[str, Any]]:
        """The sets as plain data."""
        return specifications(self.held)

    @sets.setter
    def sets(self, sets: Sequence[Set]) -> None:
        self.held: list[Set] = []
        self.set_sets(sets)

    def on(self, side: SetType) -> list[Set]:
        """The sets on one of its sides."""
        return [one for one in self.held if one.side is side]

    @property
    def input(self) -> list[dict[str, Any]]:
        """The sets that it takes in, as plain data."""
        return specifications(self.on(SetType.INPUT))

    @input.setter
    def input(self, sets: Sequence[Set]) -> None:
        self.held = [*self.on(SetType.OUTPUT), *self._of(SetType.INPUT, sets)]

    @property
    def output(self) -> list[dict[str, Any]]:
        """The sets that it gives out, as plain data."""
        return specifications(self.on(SetType.OUTPUT))

    @output.setter
    def output(self, sets: Sequence[Set]) -> None:
        self.held = [*self.on(SetType.INPUT), *self._of(SetType.OUTPUT, sets)]

    def _of(self, side: SetType, sets: Sequence[Set]) -> list[Set]:
        for one in expect_all(self, side.value.lower(), sets, Set):
            if one.side is not side:
                advice = f"Say {one.tag}.set_type(SetType.{side.value})."
                raise WrongValue("Transformation", side.value.lower(), one, f"sets of type {side.value}", advice)
        return [one.as_it_is() for one in sets]

    def set_sets(self, sets: Sequence[Set]) -> None:
        """Add several sets."""
        self.held += [one.as_it_is() for one in expect_all(self, "sets", sets, Set)]

    def add_set(self, set: Set) -> None:
        """Add a set."""
        self.held.append(expect(self, "sets", set, Set).as_it_is())

    def add_program(self, program: Program) -> None:
        """Say which program carries it out, which the originals have no call for."""
        self.programs.append(expect(self, "programs", program, Program))

    def _said(self) -> dict[str, Any]:
        return {"tag": self._tag, "sets": self.sets, "programs": specifications(self.programs)}
