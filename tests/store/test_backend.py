"""The embedded engine releases its files when it is closed, and collects garbage only if it has to."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from provml.store.backend import OxigraphBackend, has_open_files

ALL = "SELECT * { ?s ?p ?o }"


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[OxigraphBackend]:
    backend = OxigraphBackend(tmp_path)
    backend.load(b"<urn:a> <urn:b> <urn:c> .\n<urn:a> <urn:b> <urn:d> .\n")
    gc.disable()
    yield backend
    gc.enable()
    backend.close()


def test_rows_in_a_reference_cycle_do_not_keep_a_closed_store_open(backend: OxigraphBackend, tmp_path: Path):
    rows = backend.query(ALL)
    next(iter(rows))
    cycle = [rows]
    cycle.append(cycle)
    del rows, cycle
    assert has_open_files(tmp_path / "store")
    backend.close()
    assert not has_open_files(tmp_path / "store")


def test_closing_collects_no_garbage_without_need(backend: OxigraphBackend, tmp_path: Path):
    assert len(list(backend.query(ALL))) == 2
    collections = gc.get_stats()[2]["collections"]
    backend.close()
    assert not has_open_files(tmp_path / "store")
    assert gc.get_stats()[2]["collections"] == collections
