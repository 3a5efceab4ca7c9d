"""Base class of the objects of a dataflow specification."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from provml.errors import WrongType


class ProvenanceObject:
    """An object with a tag; tags are compared without regard to case."""

    def __init__(self, tag: str) -> None:
        self._set_tag(expect(self, "tag", tag, str))

    def _set_tag(self, tag: str) -> None:
        self.tag = tag
        self._tag = tag.lower()

    def get_specification(self) -> dict[str, Any]:
        """Return the object as plain data, without empty fields."""
        return {name: value for name, value in self._fields().items() if value}

    def _fields(self) -> dict[str, Any]:
        return {"tag": self._tag}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tag}>"


def specifications(objects: Iterable[ProvenanceObject]) -> list[dict[str, Any]]:
    """Return several objects as plain data."""
    return [item.get_specification() for item in objects]


def expect(owner: object, field: str, value: Any, cls: type[Any]) -> Any:
    """Return a value of the expected class, or raise WrongType."""
    if isinstance(value, cls):
        return value
    expected = "text" if cls is str else f"a {cls.__name__}"
    raise WrongType(type(owner).__name__, field, value, expected, f"Pass {expected}.")


def expect_all(owner: object, field: str, values: Any, cls: type[Any]) -> list[Any]:
    """Return a list of values of the expected class, or raise WrongType."""
    if not isinstance(values, (list, tuple)):
        raise WrongType(
            type(owner).__name__, field, values, f"a list of {cls.__name__}", f"Pass a list, as in [{cls.__name__}(…)]."
        )
    return [expect(owner, field, value, cls) for value in values]
