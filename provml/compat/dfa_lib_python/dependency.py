"""A dependency: tasks that come before, by tag and id."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject
from provml.errors import WrongType, WrongValue


class Dependency(ProvenanceObject):
    """Tasks that come before: the tags of their transformations, and their ids in the same order."""

    def __init__(self, tags: list[str], ids: list[Any]) -> None:
        super().__init__("")
        self.tags = tags
        self.ids = ids
        if len(tags) != len(ids):
            raise WrongValue(
                "Dependency", "ids", ids, f"{len(tags)} ids, one for each tag", "Give one id for each tag."
            )

    @property
    def tags(self) -> list[dict[str, Any]]:
        """The tags, as a specification has them."""
        return [{"tag": tag} for tag in self._tags]

    @tags.setter
    def tags(self, tags: list[str]) -> None:
        self._tags = _several("tags", tags)

    @property
    def ids(self) -> list[dict[str, Any]]:
        """The ids, as a specification has them."""
        return [{"id": one} for one in self._ids]

    @ids.setter
    def ids(self, ids: list[Any]) -> None:
        self._ids = _several("ids", ids)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The tasks: tag of the transformation in lower case, and id."""
        return [(str(tag).lower(), str(one)) for tag, one in zip(self._tags, self._ids, strict=False)]

    def _said(self) -> dict[str, Any]:
        return {"tags": self.tags, "ids": self.ids}


def _several(field: str, given: Any) -> list[Any]:
    if not isinstance(given, (list, tuple)):
        raise WrongType("Dependency", field, given, "a list", f"Give a list of {field}.")
    return list(given)
