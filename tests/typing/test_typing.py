"""mypy infers the types of the public API, and refuses misspelt settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.xdist_group("mypy")  # run one after another, because they share the cache of mypy
def test_mypy_accepts_correct_uses_of_the_api_and_refuses_wrong_ones():
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "tests/typing/usage.py"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (process.stdout, process.stderr, process.returncode) == ("", "", 0)
