"""A dependency: tasks that come before, by tag and id."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.provenance_object import ProvenanceObject
from provml.errors import WrongType, WrongValue


class Dependency(ProvenanceObject):
    """Tasks that come before: the tags of their transformations, and their ids in the same order."""

    def __init__(self, tags: list[str], ids: list[Any]) -> None:
        super().__init__("")
        for field, given in (("tags", tags), ("ids", ids)):
            if not isinstance(given, (list, tuple)):
                raise WrongType("Dependency", field, given, "a list", f"Give a list of {field}.")
        if len(tags) != len(ids):
            raise WrongValue(
                "Dependency", "ids", ids, f"{len(tags)} ids, one for each tag", "Give one id for each tag."
            )
        self.tags = [str(tag) for tag in tags]
        self.ids = [str(one) for one in ids]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The tasks: tag of the transformation in lower case, and id."""
        return [(tag.lower(), one) for tag, one in zip(self.tags, self.ids, strict=True)]

    def _said(self) -> dict[str, Any]:
        return {"tags": [{"tag": tag} for tag in self.tags], "ids": [{"id": one} for one in self.ids]}
