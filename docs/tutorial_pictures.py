"""Draws the pictures of docs/tutorial.md anew, by running the code on that page: what a reader gets.

python docs/tutorial_pictures.py
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def draw() -> list[Path]:
    """Run the page in a folder of its own, and keep each picture that it both saves and shows."""
    page = (HERE / "tutorial.md").read_text()
    names: dict[str, object] = {}
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            for code in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M):
                exec(compile(code, "docs/tutorial.md", "exec"), names)
            for name in re.findall(r"\]\(pictures/tutorial-(\w+\.png)\)", page):
                kept.append(Path(shutil.copy(name, HERE / "pictures" / f"tutorial-{name}")))
        finally:
            os.chdir(before)
    return kept


if __name__ == "__main__":
    for picture in draw():
        print(picture)  # noqa: T201  # what was drawn
