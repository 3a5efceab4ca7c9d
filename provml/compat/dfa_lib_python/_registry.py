"""Objects that belong to a transformation by their tags, as programs and extractors of the originals do."""

from __future__ import annotations

from typing import Any, TypeVar

from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect

TAGS = ("dataflowTag", "transformationTag", "setTag")
T = TypeVar("T", bound="Tagged")
_tagged_objects: list[Tagged] = []


class Tag:
    """A descriptor for a tag that assigns an object to a dataflow, a transformation or a set."""

    def __set_name__(self, owner: type[Tagged], name: str) -> None:
        self.name = name

    def __get__(self, instance: Tagged, owner: type[Tagged]) -> str:
        return instance.tags.get(self.name, "")

    def __set__(self, instance: Tagged, tag: str) -> None:
        instance.tags[self.name] = expect(instance, self.name, tag, str)
        if instance not in _tagged_objects:
            _tagged_objects.append(instance)


class Tagged(ProvenanceObject):
    """An object that its `tags` assign to a dataflow, a transformation or a set."""

    transformationTag = Tag()
    dataflowTag = Tag()

    def __init__(self, tag: str) -> None:
        super().__init__(tag)
        self.tags: dict[str, str] = {}

    def _fields(self) -> dict[str, Any]:
        return self.tags


def add_missing(items: list[T], more: list[T]) -> None:
    """Append the items that a list does not contain yet."""
    items += [item for item in more if item not in items]


def find_tagged(cls: type[T], *tags: str) -> list[T]:
    """Return the objects of a class with these tags: dataflow, transformation, set.

    The last tag has to match; a tag before it may also be empty.
    """
    *above, last = zip(TAGS, tags, strict=False)
    return [
        item
        for item in _tagged_objects
        if isinstance(item, cls)
        and item.tags.get(last[0], "").lower() == last[1].lower()
        and all(item.tags.get(name, "").lower() in ("", tag.lower()) for name, tag in above)
    ]
