"""A large home: the first page does not wait for its reading, and later pages do not compute everything again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from provml.web.app import create_app
from provml.web.service import Service
from provml.web.settings import ServiceSettings, Tokens
from provml.web.viewer.home_cache import HomeCache
from web.conftest import HOST, READ, WRITE, bearer
from web.viewer.homes import record_long


@pytest.fixture
def cache() -> Iterator[tuple[HomeCache, list[str]]]:
    position = ["first"]
    cache = HomeCache(lambda: position[0])
    yield cache, position
    cache.close()


def test_the_first_page_of_a_large_home_shows_how_far_it_is_read(tmp_path: Path):
    record_long(tmp_path / "home", epochs=60, batches=700)
    settings = ServiceSettings(tmp_path / "home", tokens=Tokens(READ, WRITE))
    with Service(settings) as service, TestClient(create_app(service), base_url=HOST, headers=bearer(READ)) as client:
        first = client.get("/runs/long")
        assert "Reading the runs" in first.text
        assert first.headers["cache-control"] == "no-store"
        deadline = time.monotonic() + 60
        while "data-reading" in (page := client.get("/runs/long").text) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert "Epochs 60" in page


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
