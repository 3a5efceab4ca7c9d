"""Where things are: `ontologies/`, `shapes/` and `queries/`, in a checkout and a wheel alike, and the home of runs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP, errno.EINVAL)
"""How a system says that a path leads to nothing."""


def folder(name: str) -> Path:
    """The folder `name`: inside the package where a wheel put it, else beside it, as in a checkout."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def ontologies() -> Path:
    """What can be said: the OWL files."""
    return folder("ontologies")


def shapes() -> Path:
    """What must hold: the SHACL files."""
    return folder("shapes")


def queries() -> Path:
    """What can be asked: the SPARQL files."""
    return folder("queries")


def default_home() -> Path:
    """Where runs are kept unless another folder is given: PROVML_HOME, or `.provml` here."""
    return Path(os.environ.get("PROVML_HOME") or ".provml")


def absolute(home: Path) -> Path:
    """A home that stays where it is when the training changes its directory."""
    try:
        return home.resolve()
    except (OSError, RuntimeError):  # the directory is gone, or links go in circles: who writes there will say so
        return home


def mode(path: Path) -> int:
    """The kind of what is at a path, as `stat` has it; 0 where nothing is.

    What the system refuses to look at is an error. From Python 3.14 on, pathlib's own `exists` takes it for nothing.
    """
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno not in NOWHERE:
            raise
    except ValueError:  # no path is such a text
        pass
    return 0
