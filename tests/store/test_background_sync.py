"""Background sync, and the memory throttle of a bulk load."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import provml
from provml.store import memory_throttle
from provml.store.memory_throttle import MemoryThrottle, release_freed_memory, rss_bytes

COUNT = "SELECT (COUNT(?m) AS ?n) { ?m a provml:ModelEvaluation }"


def wait_until(condition: object, seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def count(store: provml.store.Store) -> int:
    return store.query(COUNT, sync=False)[0][0]


def test_background_sync_indexes_what_is_recorded(tmp_path: Path) -> None:
    with (
        provml.open(tmp_path, create=True) as store,
        store.sync_in_background(every=0.05),
        provml.record("flowers", home=tmp_path) as run,
    ):
        training = run.training()
        training.measured(loss=0.5)
        assert wait_until(lambda: count(store) == 1)
        training.measured(accuracy=0.5)
        assert wait_until(lambda: count(store) == 2)


def test_stopping_the_background_sync_indexes_the_last_events(tmp_path: Path) -> None:
    with provml.open(tmp_path, create=True) as store:
        with store.sync_in_background(every=600), provml.record("flowers", home=tmp_path) as run:
            run.training().measured(loss=0.5)
        assert count(store) == 1


def test_a_script_that_never_stops_the_background_sync_ends_with_everything_indexed(tmp_path: Path) -> None:
    script = """if True:
        import sys, provml
        store = provml.open(sys.argv[1], create=True)
        store.sync_in_background(every=600)
        run = provml.record("flowers", home=sys.argv[1])
        run.training().measured(loss=0.5)
        run.finish()
    """
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=120)
    with provml.open(tmp_path) as store:
        assert count(store) == 1


def test_background_sync_of_a_closed_store_logs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = provml.open(tmp_path, create=True)
    with caplog.at_level(logging.WARNING, "provml"), store.sync_in_background(every=0.02):
        store.close()
        assert wait_until(lambda: caplog.records)
        time.sleep(0.2)
    assert ["indexing failed" in record.message for record in caplog.records] == [True]


def new_throttle(max_growth: int | None, **settings: float) -> MemoryThrottle:
    """Return a throttle whose limit does not count memory that the tests before have freed."""
    gc.collect()
    release_freed_memory()
    return MemoryThrottle(max_growth, **settings)  # type: ignore[arg-type]


def test_the_throttle_waits_until_memory_is_released() -> None:
    throttle = new_throttle(64 << 20)
    taken = [bytearray(b"x") * (256 << 20)]
    assert throttle.is_active
    start = time.monotonic()
    threading.Timer(0.3, taken.clear).start()
    throttle.wait()
    assert time.monotonic() - start > 0.2
    assert not taken


def test_a_store_that_is_closed_during_a_sync_loses_nothing_of_the_index(tmp_path: Path) -> None:
    with provml.open(tmp_path, create=True) as store:
        store.sync()
    with provml.record("flowers", home=tmp_path, strict=True) as run, run.training() as training:
        for epoch in training.epochs(5):
            epoch.measured(loss=1.0)
    mapped, goes_on = threading.Event(), threading.Event()

    def pause(events: int) -> None:
        mapped.set()  # what is mapped counts as read, and is not loaded yet
        goes_on.wait(30)

    store = provml.open(tmp_path)
    syncing = threading.Thread(target=store.sync, args=(pause,))
    syncing.start()
    assert mapped.wait(30)
    closing = threading.Thread(target=store.close)
    closing.start()
    closing.join(0.3)
    goes_on.set()
    closing.join(30)
    syncing.join(30)
    assert not closing.is_alive()
    with provml.open(tmp_path) as store:
        store.sync()
        assert count(store) == 5


@contextlib.contextmanager
def other_work() -> Iterator[None]:
    """Let another thread work without the lock of the interpreter."""
    has_ended, data = threading.Event(), bytes(1 << 20)

    def work() -> None:
        while not has_ended.is_set():
            hashlib.sha256(data)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def test_the_throttle_raises_its_limit_after_some_cpu_time() -> None:
    throttle = new_throttle(128 << 20, timeout=0.3)
    taken = bytearray(b"x") * (192 << 20)
    start = time.process_time()
    with other_work():
        throttle.wait()
    assert time.process_time() - start > 0.3
    limit = throttle._limit
    throttle.wait()
    assert throttle._limit == limit, "it did not wait again, which would end with a higher limit"
    assert taken


def test_the_throttle_keeps_its_limit_while_the_loader_gets_no_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_throttle, "is_at_work", lambda: True)  # it waits for a core
    throttle = new_throttle(64 << 20, timeout=0.5)
    taken = [bytearray(b"x") * (96 << 20)]
    threading.Timer(1.0, taken.clear).start()
    throttle.wait()
    assert not taken


def test_the_throttle_does_not_wait_for_an_idle_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_throttle, "IDLE_SECONDS", 0.2)
    throttle = new_throttle(64 << 20, timeout=3600)
    taken = bytearray(b"x") * (96 << 20)
    throttle.wait()
    throttle.wait()
    throttle.wait()
    assert taken


def test_the_throttle_waits_while_another_thread_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_throttle, "IDLE_SECONDS", 0.1)
    throttle = new_throttle(64 << 20, timeout=3600)
    taken = [bytearray(b"x") * (96 << 20)]
    threading.Timer(0.5, taken.clear).start()
    with other_work():
        throttle.wait()
    assert not taken


def test_the_throttle_does_not_wait_for_memory_that_was_freed() -> None:
    throttle = new_throttle(64 << 20, timeout=3600)
    taken = [b"x" * index for index in range(1000, 1500) for _ in range(500)]
    topmost = b"x" * 1000  # keeps the allocator from giving back what is below
    assert (rss_bytes() or 0) > (throttle._limit or 0)
    taken.clear()
    with other_work():
        throttle.wait()
    assert topmost


def test_the_throttle_does_not_wait_below_its_least_limit() -> None:
    throttle = new_throttle(1 << 20, timeout=3600, min_limit=1 << 40)
    taken = bytearray(b"x") * (64 << 20)
    throttle.wait()
    assert taken


def test_the_throttle_without_a_limit_does_not_wait() -> None:
    throttle = new_throttle(None)
    taken = bytearray(b"x") * (64 << 20)
    throttle.wait()
    assert not throttle.is_active
    assert taken
    assert rss_bytes()
