"""A service in another process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .services import TOKEN, ServiceParent, ServiceProcess


@pytest.fixture(scope="session")
def service_parent() -> Iterator[ServiceParent]:
    """The process that services are forked from."""
    parent = ServiceParent()
    yield parent
    parent.close()


@pytest.fixture
def service(service_parent: ServiceParent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceProcess]:
    """A service that runs; its token is in the environment."""
    monkeypatch.setenv("PROVML_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)
    process = ServiceProcess(service_parent, tmp_path / "service")
    process.start()
    yield process
    process.kill()
