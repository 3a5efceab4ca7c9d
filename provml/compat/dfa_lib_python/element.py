"""An element: a row of a set."""

from __future__ import annotations

from typing import Any

from provml.errors import WrongType


class Element:
    """A row: values in the order of the set's attributes."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    @property
    def values(self) -> list[str]:
        """Values as text; provml records the values themselves."""
        return [str(value) for value in self.raw_values]

    @values.setter
    def values(self, values: list[Any]) -> None:
        if not isinstance(values, (list, tuple)):
            advice = "Pass a list, as in Element([0.1, 3])."
            raise WrongType("Element", "values", values, "a list of values", advice)
        self.raw_values = list(values)
