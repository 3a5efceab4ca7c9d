"""A service over a home with a recorded run, called in process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from provml.web.app import create_app
from provml.web.service import Service
from provml.web.settings import ServiceSettings, Tokens

READ, WRITE = "read-token-of-the-tests", "write-token-of-the-tests"
HOST = "http://127.0.0.1:8420"


def bearer(token: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    return ServiceSettings(tmp_path / "home", tokens=Tokens(READ, WRITE))


@pytest.fixture
def service(settings: ServiceSettings) -> Iterator[Service]:
    with Service(settings) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    """A client with the write token."""
    with TestClient(create_app(service), base_url=HOST, headers=bearer(WRITE)) as client:
        yield client
