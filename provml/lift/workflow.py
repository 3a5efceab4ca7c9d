"""A workflow file as things: the prospective side as its author gives it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from provml.things import Thing
from provml.values import IRI

if TYPE_CHECKING:
    from provml.lift.plan import Plan


def things(plan: Plan, run: IRI, said: dict[str, Any]) -> Iterator[Thing]:
    """The plans that a workflow file tells."""
    yield from ()
