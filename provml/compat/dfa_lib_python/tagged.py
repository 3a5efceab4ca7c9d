"""What belongs to a transformation by the tags that it is given, as the programs and extractors of the originals do."""

from __future__ import annotations

from typing import Any, TypeVar

from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect

TAGS = ("dataflowTag", "transformationTag", "setTag")
T = TypeVar("T", bound="Tagged")
_all: list[Tagged] = []


class Tag:
    """A tag that says where something belongs; from then on it is found there."""

    def __set_name__(self, owner: type[Tagged], name: str) -> None:
        self.name = name

    def __get__(self, held: Tagged, owner: type[Tagged]) -> str:
        return held.tags.get(self.name, "")

    def __set__(self, held: Tagged, tag: str) -> None:
        held.tags[self.name] = expect(held, self.name, tag, str)
        if held not in _all:
            _all.append(held)


class Tagged(ProvenanceObject):
    """Something that belongs where its tags say; `tags` has those that it was given."""

    transformationTag = Tag()
    dataflowTag = Tag()

    def __init__(self, tag: str) -> None:
        super().__init__(tag)
        self.tags: dict[str, str] = {}

    def _said(self) -> dict[str, Any]:
        return self.tags


def add(known: list[T], more: list[T]) -> None:
    """Add to a list what it does not have yet."""
    known += [one for one in more if one not in known]


def tagged(cls: type[T], *place: str) -> list[T]:
    """Those of a class whose tags name a dataflow, a transformation of it, and a set of that: the last one itself, and
    those before it or nothing."""
    *above, last = zip(TAGS, place, strict=False)
    return [
        one
        for one in _all
        if isinstance(one, cls)
        and one.tags.get(last[0], "").lower() == last[1].lower()
        and all(one.tags.get(name, "").lower() in ("", tag.lower()) for name, tag in above)
    ]
