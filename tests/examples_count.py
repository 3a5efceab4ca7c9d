"""The number of examples that hypothesis draws for a test."""

from __future__ import annotations

from hypothesis import settings


def examples(number: int) -> int:
    """Return a number of examples for `@settings(max_examples=…)`; `make quick` draws fewer."""
    return min(number, settings().max_examples) if settings().max_examples < 100 else number
