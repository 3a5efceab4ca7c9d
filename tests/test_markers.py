"""`make quick` works where no machine-learning framework is installed, and groups of tests stay in one worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
COLLECT_WITHOUT_FRAMEWORKS = """
import sys
import pytest

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name in ("keras", "lightgbm", "lightning", "sklearn", "torch", "transformers", "xgboost"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
sys.exit(pytest.main([*sys.argv[1:], "-p", "no:cacheprovider", "--collect-only", "-qq"]))
"""


def test_quick_tests_can_be_collected_without_any_framework() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    quick = makefile.split("\nquick:\n", 1)[1].split("\n", 1)[0]
    expression = quick.split("-m ")[-1].strip('"')
    assert expression.startswith("not ")

    run = subprocess.run(
        [sys.executable, "-c", COLLECT_WITHOUT_FRAMEWORKS, "-m", expression],
        cwd=REPOSITORY, env={**os.environ, "PROVML_NO_SKIP": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip

    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


@pytest.mark.xdist_group("example")
def test_a_group_of_tests_is_known_to_xdist(request: pytest.FixtureRequest) -> None:
    """Otherwise each worker builds the site, and starts the browser and the services, of its own."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@example")
