"""A dependency: preceding tasks by tag and id."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject
from provml.errors import WrongType, WrongValue


class Dependency(ProvenanceObject):
    """Preceding tasks: the tags of their transformations, and their ids in the same order."""

    def __init__(self, tags: list[str], ids: list[Any]) -> None:
        super().__init__("")
        self.tags = tags
        self.ids = ids
        if len(tags) != len(ids):
            raise WrongValue(
                "Dependency", "ids", ids, f"{len(tags)} ids, one for each tag", "Pass one id for each tag."
            )

    @property
    def tags(self) -> list[dict[str, Any]]:
        """Tags as plain data."""
        return [{"tag": tag} for tag in self._tags]

    @tags.setter
    def tags(self, tags: list[str]) -> None:
        self._tags = _as_list("tags", tags)

    @property
    def ids(self) -> list[dict[str, Any]]:
        """Ids as plain data."""
        return [{"id": task_id} for task_id in self._ids]

    @ids.setter
    def ids(self, ids: list[Any]) -> None:
        self._ids = _as_list("ids", ids)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Tag of the transformation in lower case, and id, of each task."""
        return [(str(tag).lower(), str(task_id)) for tag, task_id in zip(self._tags, self._ids, strict=False)]

    def _fields(self) -> dict[str, Any]:
        return {"tags": self.tags, "ids": self.ids}


def _as_list(field: str, values: Any) -> list[Any]:
    if not isinstance(values, (list, tuple)):
        raise WrongType("Dependency", field, values, "a list", f"Pass a list of {field}.")
    return list(values)
