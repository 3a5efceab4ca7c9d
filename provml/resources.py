"""Where `ontologies/`, `shapes/` and `queries/` are, in a checkout and in an installed wheel alike."""

from __future__ import annotations

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
