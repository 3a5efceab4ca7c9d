"""Dataflows kept in the home: a script may declare one, and another have the tasks of it."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.attribute_type import AttributeType
from provml.compat.dfa_lib_python.extractor import Extractor
from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.extractor_extension import ExtractorExtension
from provml.compat.dfa_lib_python.program import Program
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.compat.dfa_lib_python.transformation import Transformation
from provml.process import handed_down
from provml.resources import default_home


def _path(tag: str) -> Path:
    safe = "".join(c if c.isalnum() or c in "._-" else f"%{ord(c):x}" for c in tag)
    return Path(handed_down()[1] or default_home()) / "dataflows" / f"{safe}.json"


def keep(tag: str, said: dict[str, Any]) -> None:
    """Keep what a dataflow says; where that fails, the script goes on: its own tasks do not need it."""
    if os.environ.get("PROVML_DISABLED", "").lower() not in ("", "0", "false", "no"):
        return
    path = _path(tag)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps(said, indent=1), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        logging.getLogger("provml").warning("the dataflow %r is not kept for other processes (%s)", tag, error)


def kept(tag: str) -> dict[str, Any] | None:
    """What a dataflow says that another process kept; None where there is none that can be read."""
    try:
        said: dict[str, Any] = json.loads(_path(tag).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return said


def transformation(said: dict[str, Any]) -> Transformation:
    """A transformation as it was kept."""
    made = Transformation(said["tag"], [_set(one) for one in said.get("sets", [])])
    made.programs = [Program(one["name"], one["path"]) for one in said.get("programs", [])]
    return made


def _set(said: dict[str, Any]) -> Set:
    attributes = [Attribute(one["name"], AttributeType(one["type"])) for one in said.get("attributes", [])]
    extractors = [
        Extractor(one["tag"], ExtractorCartridge(one["cartridge"]), ExtractorExtension(one["extension"]))
        for one in said.get("extractors", [])
    ]
    return Set(said["tag"], SetType(said["type"]), attributes, extractors, said.get("dependency", ""))
