"""What every object of a specification is: tagged, and plain data when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from provml.errors import WrongType


class ProvenanceObject:
    """An object with a tag; tags are compared without regard to case."""

    def __init__(self, tag: str) -> None:
        self._call(expect(self, "tag", tag, str))

    def _call(self, tag: str) -> None:
        self.tag = tag
        self._tag = tag.lower()

    def get_specification(self) -> dict[str, Any]:
        """The object as plain data; what is empty is left out."""
        return {name: held for name, held in self._said().items() if held}

    def _said(self) -> dict[str, Any]:
        return {"tag": self._tag}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tag}>"


def specifications(held: Iterable[ProvenanceObject]) -> list[dict[str, Any]]:
    """Several of them as plain data."""
    return [one.get_specification() for one in held]


def expect(owner: object, field: str, value: Any, cls: type[Any]) -> Any:
    """A value of a class, or a clear error at the line that gave another."""
    if isinstance(value, cls):
        return value
    said = "text" if cls is str else f"a {cls.__name__}"
    raise WrongType(type(owner).__name__, field, value, said, f"Give {said}.")


def expect_all(owner: object, field: str, values: Any, cls: type[Any]) -> list[Any]:
    """A list of values of a class."""
    if not isinstance(values, (list, tuple)):
        raise WrongType(
            type(owner).__name__, field, values, f"a list of {cls.__name__}", f"Give a list, as in [{cls.__name__}(…)]."
        )
    return [expect(owner, field, value, cls) for value in values]
