"""The workshop, for every test of the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import provml.vocab  # noqa: F401  # our own classes are known before any test makes more
from provml.things import CLASSES

from .workshop import Workshop, forget


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Workshop]:
    known = dict(CLASSES)
    yield Workshop(tmp_path)
    forget(known)
