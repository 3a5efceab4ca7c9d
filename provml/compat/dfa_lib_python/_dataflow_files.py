"""Dataflow files in the home: one script declares a dataflow, another one executes its tasks."""

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
from provml.paths import default_home
from provml.recording.inherit import inherited_run


def _path(tag: str) -> Path:
    safe = "".join(c if c.isalnum() or c in "._-" else f"%{ord(c):x}" for c in tag)
    return Path(inherited_run()[1] or default_home()) / "dataflows" / f"{safe}.json"


def save_dataflow(tag: str, fields: dict[str, Any]) -> None:
    """Write a dataflow to the home. If that fails, the script continues: its own tasks do not need the file."""
    if os.environ.get("PROVML_DISABLED", "").lower() not in ("", "0", "false", "no"):
        return
    path = _path(tag)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps(fields, indent=1), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        logging.getLogger("provml").warning(
            "provml: the dataflow %r is not available to other processes (%s)", tag, error
        )


def load_dataflow(tag: str) -> dict[str, Any] | None:
    """Return a dataflow that another process wrote; None if there is none that can be read."""
    try:
        fields: dict[str, Any] = json.loads(_path(tag).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return fields


def restore_transformation(fields: dict[str, Any]) -> Transformation:
    """Return a transformation from its plain data."""
    transformation = Transformation(fields["tag"], [_set(item) for item in fields.get("sets", [])])
    transformation.programs = [Program(item["name"], item["path"]) for item in fields.get("programs", [])]
    return transformation


def _set(fields: dict[str, Any]) -> Set:
    attributes = [Attribute(item["name"], AttributeType(item["type"])) for item in fields.get("attributes", [])]
    extractors = [
        Extractor(item["tag"], ExtractorCartridge(item["cartridge"]), ExtractorExtension(item["extension"]))
        for item in fields.get("extractors", [])
    ]
    return Set(fields["tag"], SetType(fields["type"]), attributes, extractors, fields.get("dependency", ""))
