"""Homes with sample runs, and a training in another process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .helpers import TrainingProcess, record_failed_run, record_flowers, stop


@pytest.fixture(scope="session")
def recorded_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a finished and a failed run, for commands that change nothing."""
    folder = tmp_path_factory.mktemp("recorded")
    record_flowers(folder / "home", folder)
    record_failed_run(folder / "home")
    return folder / "home"


@pytest.fixture
def home(recorded_home: Path, tmp_path: Path) -> Path:
    """A copy of the runs of `recorded_home`, for commands that change them."""
    shutil.copytree(recorded_home / "runs", tmp_path / "home" / "runs")
    return tmp_path / "home"


@pytest.fixture
def training(home: Path) -> Iterator[TrainingProcess]:
    """A training that is running in `home`."""
    process = TrainingProcess(home)
    yield process
    stop(process.process)
