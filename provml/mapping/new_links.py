"""What one journal says about the use and production of data: the index derives links between steps from it."""

from __future__ import annotations

import msgspec


class EpochValue(msgspec.Struct, array_like=True, frozen=True):
    """The value of a measure in a section of a stage: the index of the section, the value's IRI and its rank."""

    index: int
    iri: str
    rank: float | None


def latest_key(value: EpochValue) -> tuple[int, str]:
    """Return the sort key by which the greatest value is the latest, in whatever order values arrive."""
    return value.index, value.iri


def best_key(value: EpochValue) -> tuple[float, int, str]:
    """Return the sort key by which the greatest value is the best; of equal ones the earliest."""
    return value.rank if value.rank is not None else float("-inf"), -value.index, value.iri


class NewLinks(msgspec.Struct):
    """Statements that links are derived from and have not been derived from yet.

    `uses` and `products` are pairs of a whole step or stage and an entity; `stages` are learning stages that began.
    `latest` and `best` hold, by stage and measure, the latest and the best of the new values.
    """

    uses: set[tuple[str, str]] = set()
    products: set[tuple[str, str]] = set()
    stages: set[str] = set()
    latest: dict[tuple[str, str], EpochValue] = {}
    best: dict[tuple[str, str], EpochValue] = {}

    def __bool__(self) -> bool:
        return bool(self.uses or self.products or self.stages or self.latest)

    def add_use(self, step: str, entity: str) -> None:
        """Add the use of an entity by a step."""
        self.uses.add((str(step), str(entity)))

    def add_product(self, step: str, entity: str) -> None:
        """Add the production of an entity by a step."""
        self.products.add((str(step), str(entity)))

    def add_measure(self, stage: str, measure: str, value: EpochValue) -> None:
        """Add the value that a measure had in a section of a stage."""
        self._add_value((str(stage), str(measure)), value)

    def _add_value(self, key: tuple[str, str], value: EpochValue) -> None:
        latest, best = self.latest.get(key), self.best.get(key)
        if latest is None or latest_key(value) > latest_key(latest):
            self.latest[key] = value
        if value.rank is not None and (best is None or best_key(value) > best_key(best)):
            self.best[key] = value

    def update(self, other: NewLinks) -> None:
        """Add the statements of another one, of a later part of the journals."""
        self.uses |= other.uses
        self.products |= other.products
        self.stages |= other.stages
        for values in (other.latest, other.best):
            for key, value in values.items():
                self._add_value(key, value)

    def clear(self) -> None:
        """Remove all statements."""
        for statements in (self.uses, self.products, self.stages, self.latest, self.best):
            statements.clear()
