"""Child runs: the parent that a setting names, and the names of children."""

from __future__ import annotations

import re
from pathlib import Path

from provml.errors import RunNotFound
from provml.journal.annotations import MAX_CHARS
from provml.journal.run_files import RUN_ID, HasId, find_run_folder, has_run
from provml.recording.encoding import to_text

GENERATED_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
"""An id that provml generated. The home of such a parent may be on another machine."""
MAX_SLUG_CHARS = 60


def find_parent(parent: HasId | str | None, home: Path) -> tuple[str, Exception | None]:
    """Return the id of the parent; empty, and why, if there is no such run."""
    if parent is None or parent == "":
        return "", None
    if not isinstance(parent, str):
        run_id = getattr(parent, "id", None)
        if not isinstance(run_id, str):
            raise TypeError(f"parent takes a run or the id of one, not {parent!r} ({type(parent).__name__}).")
        return run_id, None
    if GENERATED_ID.fullmatch(parent) or (RUN_ID.fullmatch(parent) and has_run(home, parent)):
        return parent, None
    try:
        return find_run_folder(home, parent).name, None
    except RunNotFound as error:
        return "", error


def shorten_name(name: object) -> str:
    """Return a name on one line and not too long, since the name of a child is often its hyperparameters as text."""
    text = " ".join(to_text(name).split())
    text = "".join(c for c in text if c.isprintable() or ord(c) > 127)
    limit = MAX_CHARS["name"]
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def slugify(name: object) -> str:
    """Return the part of a run id that stands for a name."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", to_text(name)).strip("-")[:MAX_SLUG_CHARS]
