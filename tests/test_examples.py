"""Every script of examples/ runs and prints an answer with rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(set((ROOT / "examples").glob("*.py")) - {ROOT / "examples" / "verify_evidence.py"})  # has own tests
FRAMEWORKS = ("keras", "lightgbm", "lightning", "sklearn", "torch", "transformers", "xgboost")


def test_there_is_an_example_for_each_framework():
    assert {path.stem.split("_")[0] for path in SCRIPTS} >= set(FRAMEWORKS) - {"torch"} | {"pytorch"}
    table = (ROOT / "examples" / "README.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+\.py)`", table, re.M)) == [path.name for path in SCRIPTS]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_example_runs(script: Path, tmp_path: Path):
    for name in re.findall(r"^(?:from|import) (\w+)", script.read_text(), re.M):
        if name in FRAMEWORKS and find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PROVML_")}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip().splitlines()) >= 3, f"no rows:\n{done.stdout}{done.stderr}"
