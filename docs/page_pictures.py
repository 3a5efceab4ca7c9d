"""Draw the pictures of some pages by running the code on them.

python docs/page_pictures.py [PAGE...]
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PAGES = {"tutorial/index.md": "tutorial", "how-to/draw.md": "draw"}
"""The prefix of the pictures of each page."""


def draw(page: str) -> list[Path]:
    """Run a page in a folder of its own, and copy each picture that it both saves and shows."""
    text, prefix = (HERE / page).read_text(), PAGES[page]
    names: dict[str, object] = {}
    pictures = []
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            for language, code in re.findall(r"^```(python|sh)\n(.*?)^```", text, re.S | re.M):
                if language == "python":
                    exec(compile(code, page, "exec"), names)
                elif code.startswith("provml "):
                    for line in code.strip().splitlines():
                        command = [sys.executable, "-m", "provml.cli", *shlex.split(line)[1:]]
                        subprocess.run(command, check=True, capture_output=True)
            for name in re.findall(rf"\]\(\.\./pictures/{prefix}-([\w.]+)\)", text):
                pictures.append(Path(shutil.copy(name, HERE / "pictures" / f"{prefix}-{name}")))
        finally:
            os.chdir(before)
    return pictures


if __name__ == "__main__":
    for each in sys.argv[1:] or PAGES:
        for picture in draw(each):
            print(picture)  # noqa: T201  # what was drawn
