"""Fixtures of the compiler tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import provml.vocab  # noqa: F401  # registers the bundled classes before a test adds its own
from provml.model.thing import CLASSES

from .helpers import OntologyCompiler, restore_classes


@pytest.fixture
def compile_turtle(tmp_path: Path) -> Iterator[OntologyCompiler]:
    classes = dict(CLASSES)
    yield OntologyCompiler(tmp_path)
    restore_classes(classes)
