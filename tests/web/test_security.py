"""The defences of a service: each attack of the security checklist is refused."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "localhost@evil.example", ""]
)
def test_a_foreign_host_is_refused(client: TestClient, host: str):
    for path in ("/healthz", "/nowhere"):
        assert client.get(path, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8420"])
def test_the_own_host_is_answered(client: TestClient, host: str):
    answer = client.get("/healthz", headers={"Host": host})
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
