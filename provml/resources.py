"""Where things are: `ontologies/`, `shapes/` and `queries/`, in a checkout and a wheel alike, and the home of runs."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


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
