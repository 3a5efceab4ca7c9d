"""A service over a home with recorded runs, called in process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import provml
from provml.web.app import create_app
from provml.web.service import Service
from provml.web.settings import ServiceSettings, Tokens

READ, WRITE = "read-token-of-the-tests", "write-token-of-the-tests"
HOST = "http://127.0.0.1:8420"


def bearer(token: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"Authorization": f"Bearer {token}"}


def record_runs(home: Path) -> None:
    """Record two runs: the second changes its learning rate and stores a model."""
    for name, rate in (("monday", 0.1), ("tuesday", 0.2)):
        with provml.record("flowers", model="net", home=home, run=name, capture_environment=False) as run:
            data = run.dataset(b"1,2\n3,4\n", name="petals", role="training", keep=True)
            with run.training(using=data, learning_rate=rate) as training:
                training.layers([{"name": "hidden", "type": "Dense", "units": 24}])
                for epoch in training.epochs(3):
                    epoch.measured(loss=1.0 / epoch.index, accuracy=0.5 + epoch.index / 10)
                    if epoch.index == 2 and name == "tuesday":
                        training.adapted(learning_rate=0.05, technique="step decay")
                model = training.produced(f"weights of {name}".encode(), keep=True)
            with run.evaluation(of=model) as test:
                test.measured(accuracy=0.9)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two runs, which must not be changed."""
    home = tmp_path_factory.mktemp("recorded") / "home"
    record_runs(home)
    with provml.open(home) as store:
        store.sync()
    return home


@pytest.fixture
def home(recorded: Path, tmp_path: Path) -> Path:
    """A copy of the recorded home."""
    target = tmp_path / "home"
    shutil.copytree(recorded, target)
    return target


@pytest.fixture
def settings(home: Path) -> ServiceSettings:
    return ServiceSettings(home, tokens=Tokens(READ, WRITE))


@pytest.fixture
def service(settings: ServiceSettings) -> Iterator[Service]:
    with Service(settings) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    """A client with the write token."""
    with TestClient(create_app(service), base_url=HOST, headers=bearer(WRITE)) as client:
        yield client


@pytest.fixture(scope="module")
def reader(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client with the read token, for tests that change nothing."""
    home = tmp_path_factory.mktemp("served") / "home"
    shutil.copytree(recorded, home)
    settings = ServiceSettings(home, tokens=Tokens(READ, WRITE))
    with Service(settings) as service, TestClient(create_app(service), base_url=HOST, headers=bearer(READ)) as client:
        yield client
