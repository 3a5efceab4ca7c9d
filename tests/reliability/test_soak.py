"""The short form of `make soak`: the same checks, with small numbers.

They run in a process of their own, which forks: this process may have opened stores, whose threads a fork has not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("soak")  # one worker runs the checks, once
SOAK = Path(__file__).with_name("soak.py")
CHECKS = [
    "kills of recorders",
    "kills of indexers",
    "faults while recording",
    "faults while indexing",
    "clock jumps",
    "damaged files",
    "changed inputs",
    "runs",
    "batches",
    "epochs followed",
]


@pytest.fixture(scope="module")
def results() -> dict[str, list[str]]:
    process = subprocess.run(
        [sys.executable, str(SOAK), "--short", "--json"], stdout=subprocess.PIPE, text=True, timeout=600, check=False
    )
    parsed: dict[str, list[str]] = json.loads(process.stdout)
    return parsed


def test_all_checks_have_run(results: dict[str, list[str]]):
    assert list(results) == CHECKS


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_is_lost_and_nothing_breaks(results: dict[str, list[str]], check: str):
    assert results[check] == []
