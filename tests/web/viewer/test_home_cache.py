"""What pages compute from all runs of a home is computed once for each position of the index."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from provml.web.viewer.home_cache import HomeCache


@pytest.fixture
def cache() -> Iterator[tuple[HomeCache, list[str]]]:
    position = ["first"]
    cache = HomeCache(lambda: position[0])
    yield cache, position
    cache.close()


def test_a_value_is_computed_once_for_each_position(cache: tuple[HomeCache, list[str]]):
    values, position = cache
    calls: list[int] = []
    for _ in range(3):
        values.get("runs", lambda: calls.append(1))
    assert len(calls) == 1
    position[0] = "second"
    assert values.get("runs", lambda: "new") == "new"


def test_pages_show_the_old_value_while_a_costly_new_one_is_computed(cache: tuple[HomeCache, list[str]]):
    values, position = cache
    values.get("table", lambda: time.sleep(0.1) or "old")
    position[0] = "second"
    gate = threading.Event()
    assert values.get("table", lambda: gate.wait(10) and "new") == "old"
    gate.set()
    assert values.prepare(lambda: None).result(timeout=10) is None  # the thread is through with the value
    assert values.get("table", lambda: "not computed") == "new"
