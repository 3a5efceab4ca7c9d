"""Workflow files: the prospective side of an experiment, as YAML, read and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def load(path: Path) -> dict[str, Any]:
    """A workflow file as plain data."""
    import yaml

    said: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return said
