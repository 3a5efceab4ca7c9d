"""A store that keeps up with the journals, and the pace at which a load is given more."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import provml
from provml.store.pace import Pace, held

COUNT = "SELECT (COUNT(?m) AS ?n) { ?m a provml:ModelEvaluation }"


def wait_until(holds: object, seconds: float = 30.0) -> bool:
    late = time.monotonic() + seconds
    while time.monotonic() < late:
        if holds():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def count(store: provml.store.Store) -> int:
    return store.query(COUNT, sync=False)[0][0]


def test_a_store_that_keeps_up_has_what_was_recorded_without_being_synced(tmp_path: Path) -> None:
    with provml.open(tmp_path) as store, store.keeping_up(every=0.05), provml.record("flowers", home=tmp_path) as run:
        training = run.training()
        training.measured(loss=0.5)
        assert wait_until(lambda: count(store) == 1)
        training.measured(accuracy=0.5)
        assert wait_until(lambda: count(store) == 2)


def test_what_came_last_is_taken_in_when_keeping_up_ends(tmp_path: Path) -> None:
    with provml.open(tmp_path) as store:
        with store.keeping_up(every=600), provml.record("flowers", home=tmp_path) as run:
            run.training().measured(loss=0.5)
        assert count(store) == 1


def test_a_script_that_never_stops_keeping_up_ends_with_everything_indexed(tmp_path: Path) -> None:
    script = """if True:
        import sys, provml
        store = provml.open(sys.argv[1])
        store.keeping_up(every=600)
        run = provml.record("flowers", home=sys.argv[1])
        run.training().measured(loss=0.5)
        run.finish()
    """
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=120)
    with provml.open(tmp_path) as store:
        assert count(store) == 1


def test_a_store_closed_under_it_is_told_once_and_disturbs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = provml.open(tmp_path)
    with caplog.at_level(logging.WARNING, "provml"), store.keeping_up(every=0.02):
        store.close()
        assert wait_until(lambda: caplog.records)
        time.sleep(0.2)
    assert ["could not index" in record.message for record in caplog.records] == [True]


def test_a_load_waits_until_memory_is_given_back() -> None:
    pace = Pace(64 << 20)
    taken = [bytearray(b"x") * (256 << 20)]
    assert pace.is_kept
    threading.Timer(0.3, taken.clear).start()
    began = time.monotonic()
    pace.keep()
    assert time.monotonic() - began > 0.2
    assert not taken


def test_memory_that_stays_taken_holds_a_load_up_once_only() -> None:
    pace = Pace(128 << 20, patience=0.3)
    taken = bytearray(b"x") * (192 << 20)
    began = time.monotonic()
    pace.keep()
    between = time.monotonic()
    assert between - began > 0.2
    pace.keep()
    assert time.monotonic() - between < 0.2
    assert taken


def test_without_a_limit_nothing_waits() -> None:
    pace = Pace(None)
    taken = bytearray(b"x") * (64 << 20)
    pace.keep()
    assert not pace.is_kept
    assert taken
    assert held()
