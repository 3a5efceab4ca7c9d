"""Copies of the index for worker processes: nobody removes one that is in use, and none is left behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from provml.store.gc import collect
from provml.web.query_pool import QueryPool
from provml.web.service import Service
from web.serving import Server, running

COUNT = f"/sparql?query={quote('SELECT (COUNT(*) AS ?n) { ?s ?p ?o }')}"


def copies(home: Path) -> list[Path]:
    """Return the folders of copies."""
    return list((home / "index").glob("reader-*"))


def count(server: Server, number: int) -> int:
    """Return the number of triples, by a query that no cache knows."""
    answer = server.send("GET", f"{COUNT}%23{number}")
    assert answer.status == 200, answer.body
    return int(answer.json()["results"]["bindings"][0]["n"]["value"])


def test_the_copy_of_a_running_service_stays(home: Path) -> None:
    with running(home, "--quiet", "--no-token") as server:
        triples = count(server, 1)
        used = copies(home)
        assert len(used) == 1
        assert used[0] not in [path for path, _ in collect(home, min_age_seconds=0)]
        assert copies(home) == used
        assert count(server, 2) == triples
    assert not copies(home)


def test_the_copy_of_a_killed_service_is_removed(home: Path) -> None:
    with running(home, "--quiet", "--no-token") as server:
        count(server, 1)
        server.process.kill()
        server.process.wait()
    abandoned = copies(home)
    assert len(abandoned) == 1
    with running(home, "--quiet", "--no-token") as server:
        assert not abandoned[0].exists()
        count(server, 1)
        used = copies(home)
        server.process.kill()
        server.process.wait()
    assert [path for path, _ in collect(home, min_age_seconds=0)] == used


def test_a_copy_that_somebody_removed_is_made_again(client: TestClient, service: Service, home: Path) -> None:
    assert client.get(COUNT).status_code == 200
    for copy in copies(home):
        shutil.rmtree(copy)
    client.portal.call(service.pool.close)  # type: ignore[union-attr]
    service.pool = QueryPool(service.limits, service.snapshots)
    answer = client.get(f"{COUNT}%23again")
    assert answer.status_code == 200, answer.json()


@pytest.mark.parametrize(
    ("kind", "message", "status"),
    [
        ("OSError", "IO error: No such file or directory: CURRENT", 500),
        ("OSError", "IO error: No space left on device", 507),
        ("RuntimeError", "Corruption: block checksum mismatch", 500),
    ],
)
def test_a_fault_of_the_service_is_no_mistake_in_the_query(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, kind: str, message: str, status: int
) -> None:
    failure = json.dumps({"error": kind, "message": message}).encode()

    async def frame(worker: object) -> tuple[bytes, bytes]:
        return b"X", failure

    monkeypatch.setattr("provml.web.query_pool.Worker.frame", frame)
    assert client.get(COUNT).status_code == status
