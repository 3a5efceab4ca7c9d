"""Means of the measures of batches, recorded for their epoch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

from provml.journal.values import COUNTERS


class BatchMeans:
    """Sums and counts of measures by name."""

    def __init__(self) -> None:
        self._totals: dict[str, tuple[float, float]] = {}

    def add(self, values: Mapping[str, Any]) -> None:
        """Add the measures of a batch; counters and values that are not numbers are ignored."""
        for name, value in values.items():
            number = _number(value)
            if isinstance(number, (Real, Decimal)) and name not in COUNTERS:
                self._add(name, float(number), 1)

    def add_totals(self, totals: Mapping[str, Sequence[float]]) -> None:
        """Add the sum and the count of measures."""
        for name, (total, count) in totals.items():
            self._add(name, total, count)

    def means(self, exclude: Collection[str]) -> dict[str, float]:
        """Return the means by name, except those of excluded names."""
        return {name: total / count for name, (total, count) in self._totals.items() if name not in exclude}

    def _add(self, name: str, total: float, count: float) -> None:
        earlier_total, earlier_count = self._totals.get(name, (0.0, 0.0))
        self._totals[name] = earlier_total + total, earlier_count + count


def _number(value: Any) -> Any:
    """Return the number in a tensor or an array of one element; any other value as it is."""
    has_one = hasattr(value, "item") and math.prod(getattr(value, "shape", ())) == 1
    return value.item() if has_one and str(getattr(value, "device", "")) != "meta" else value
