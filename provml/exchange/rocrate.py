"""Run crates of RO-Crate (Process, Workflow and Provenance Run Crate): a folder or a zip with ro-crate-metadata.json.

Only the metadata is read, of a zip too: files in it are not unpacked. An action is a step of the run, what it took and
made are data; values (PropertyValue) are parameters and measures.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provml.errors import FileFormatError
from provml.exchange.activity_graph import ACTIVITIES, RELATIONS, GraphActivity, GraphEntity, GraphRun, is_model_name
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.foreign_run import SourceInfo, run_id
from provml.exchange.losses import DATASETS, OTHERS, PARAMETERS, POINTS
from provml.exchange.sacred import to_time
from provml.exchange.source_files import MAX_TEXT_BYTES, parse_json, read_text, sha256_of, sniff
from provml.exchange.typed_text import parse_text, to_number

METADATA = "ro-crate-metadata.json"
ACTIONS = ("CreateAction", "ActivateAction", "UpdateAction")
CONTROL = ("OrganizeAction", "ControlAction", "HowToStep")
STATUSES = {"CompletedActionStatus": "FINISHED", "FailedActionStatus": "FAILED", "ActiveActionStatus": ""}
Item = dict[str, Any]


class RunCrate:
    """Importer of run crates."""

    name = "rocrate"
    summary = "a run crate of RO-Crate: a folder or a zip with ro-crate-metadata.json"

    def recognises(self, path: Path) -> bool:
        """Return whether a folder or a zip has the metadata of a crate."""
        if path.is_dir():
            return (path / METADATA).is_file()
        if path.name == METADATA:
            return True
        try:
            return sniff(path, 4) == b"PK\x03\x04" and METADATA in _names(path)
        except FileFormatError:
            return False

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the crate as a run."""
        text, digest = _metadata(path)
        content = parse_json(text, path)
        graph = content.get("@graph") if isinstance(content, dict) else None
        if not isinstance(graph, list):
            raise FileFormatError("its metadata has no @graph", f"Pass {self.summary}.", file=str(path))
        items = {str(item["@id"]): item for item in graph if isinstance(item, dict) and "@id" in item}
        crate = _Crate(items, path, digest, options)
        if not crate.run.activities:
            yield SkippedPart(crate.run.name, "the crate describes no action, so it is not a run crate")
            return
        yield crate.run.to_source_run()


def _names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise FileFormatError(f"the zip cannot be read ({error})", "Create it again.", file=str(path)) from error


def _metadata(path: Path) -> tuple[str, str]:
    """Return the metadata and its digest; of a zip, no more than a limited number of bytes is unpacked."""
    if path.is_dir():
        path = path / METADATA
    if path.name == METADATA or path.suffix == ".json":
        return read_text(path), sha256_of(path)
    try:
        with zipfile.ZipFile(path) as archive, archive.open(METADATA) as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except (zipfile.BadZipFile, KeyError, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        raise FileFormatError(f"its metadata cannot be read ({error})", "Create it again.", file=str(path)) from error
    if len(data) > MAX_TEXT_BYTES:
        reason = f"its metadata has more than {MAX_TEXT_BYTES >> 20} MiB"
        raise FileFormatError(reason, "Check the crate.", file=str(path))
    try:
        return data.decode("utf-8"), hashlib.sha256(data).hexdigest()
    except UnicodeDecodeError as error:
        raise FileFormatError("its metadata is not UTF-8 text", "Create it again.", file=str(path)) from error


class _Crate:
    """The items of a crate as a run."""

    def __init__(self, items: dict[str, Item], path: Path, digest: str, options: ImportOptions) -> None:
        self.items = items
        root = items.get("./") or {}
        name = _text(root.get("name")) or path.stem
        folder = path if path.exists() else path.parent
        source = SourceInfo("rocrate", folder, "", "", digest)
        self.run = GraphRun(run_id("rocrate", digest, name=name), name, source, options.model)
        self.run.description = _text(root.get("description"))[:10_000]
        for item in items.values():
            kinds = _types(item)
            if any(kind in ACTIONS for kind in kinds):
                self._add_action(item)
            elif any(kind in ("File", "Dataset", "MediaObject") for kind in kinds) and item["@id"] != "./":
                self._add_entity(item)
            elif any(kind in CONTROL for kind in kinds):
                self.run.losses.count(OTHERS)
                self.run.losses.leave_out(OTHERS, str(kinds[0]), "the control of an engine has no place in a run")

    def _add_action(self, item: Item) -> None:
        run, key = self.run, str(item["@id"])
        activity = GraphActivity(key, _text(item.get("name")) or key)
        activity.started, activity.ended = to_time(item.get("startTime")), to_time(item.get("endTime"))
        status = item.get("actionStatus")
        word = str(status.get("@id") if isinstance(status, dict) else status or "").rpartition("/")[2]
        activity.status = STATUSES.get(word, "")
        if activity.status == "FAILED" and item.get("error"):
            activity.error = ["ActionFailed", _text(item["error"])]
        for reference in _list(item.get("agent")):
            activity.person = self._name(reference)
        for reference in _list(item.get("instrument")):
            activity.software = self._name(reference)
        for reference in _list(item.get("object")):
            self._add_object(activity, reference)
        for reference in _list(item.get("result")):
            self._add_result(activity, reference)
        run.losses.count(ACTIVITIES)
        run.activities[key] = activity

    def _add_object(self, activity: GraphActivity, reference: Any) -> None:
        item = self._item(reference)
        if "PropertyValue" in _types(item):
            self.run.losses.count(PARAMETERS)
            self.run.losses.preserve(PARAMETERS)
            activity.values[_text(item.get("name")) or str(item.get("@id"))] = _value(item.get("value"))
        else:
            self._relate()
            activity.used.append((str(item.get("@id")), ""))

    def _add_result(self, activity: GraphActivity, reference: Any) -> None:
        item = self._item(reference)
        if "PropertyValue" not in _types(item):
            self._relate()
            activity.generated.append(str(item.get("@id")))
            return
        name, value = _text(item.get("name")) or str(item.get("@id")), _value(item.get("value"))
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        kind = POINTS if is_number else PARAMETERS
        self.run.losses.count(kind)
        self.run.losses.preserve(kind)
        (activity.measures if is_number else activity.values)[name] = value

    def _relate(self) -> None:
        self.run.losses.count(RELATIONS)
        self.run.losses.preserve(RELATIONS)

    def _add_entity(self, item: Item) -> None:
        key = str(item["@id"])
        name = _text(item.get("name")) or key
        entity = GraphEntity(key, name, is_model_name(key, _text(item.get("additionalType"))), key)
        digest = _text(item.get("sha256"))
        entity.sha256 = digest if len(digest) == 64 else ""
        size = to_number(item.get("contentSize"))
        entity.size = int(size) if size is not None and 0 <= size < 1 << 62 else -1
        entity.media_type = _text(_list(item.get("encodingFormat"))[0]) if item.get("encodingFormat") else ""
        self.run.losses.count(DATASETS)
        self.run.entities[key] = entity

    def _item(self, reference: Any) -> Item:
        if isinstance(reference, dict):
            return self.items.get(str(reference.get("@id")), reference)
        return self.items.get(str(reference), {"@id": str(reference)})

    def _name(self, reference: Any) -> str:
        item = self._item(reference)
        return _text(item.get("name")) or str(item.get("@id"))


def _types(item: Item) -> list[str]:
    return [str(kind).rpartition("/")[2] for kind in _list(item.get("@type"))]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("@value") or value.get("@id") or "")
    return "" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _value(value: Any) -> Any:
    if isinstance(value, dict) and "@value" in value:
        value = value["@value"]
    return parse_text(value).value if isinstance(value, str) else value
