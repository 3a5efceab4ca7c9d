"""Documents of W3C PROV: PROV-N, PROV-JSON, PROV-XML, PROV-JSONLD and RDF, through the package `prov`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from provml.exchange.activity_graph import (
    ACTIVITIES,
    RELATIONS,
    GraphActivity,
    GraphEntity,
    GraphRun,
    count_unused,
    is_model_name,
)
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.foreign_run import SourceInfo, run_id
from provml.exchange.losses import DATASETS, OTHERS, PARAMETERS
from provml.exchange.source_files import sha256_of, sniff
from provml.journal.statuses import STATUSES
from provml.rdf import prov_documents
from provml.rdf.namespaces import PROV
from provml.rdf.prov_carrier import CARRIER
from provml.rdf.prov_documents import PROV_MARK, prov_format

RDF_FORMATS = {
    ".ttl": "turtle", ".nt": "nt", ".nq": "nquads", ".trig": "trig", ".rdf": "xml", ".owl": "xml", ".n3": "n3",
}  # fmt: skip
ENDED = tuple(status for status in STATUSES if status != "RUNNING")


class ProvDocumentFile:
    """Importer of PROV documents."""

    name = "prov"
    summary = "a PROV document: PROV-N, PROV-JSON, PROV-XML, PROV-JSONLD or RDF with PROV-O"

    def recognises(self, path: Path) -> bool:
        """Return whether a file is a PROV document, by its suffix and beginning."""
        return path.is_file() and bool(format_of(path))

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the document as a run."""
        document = read_document(path)
        yield _to_run(document, path, options).to_source_run()
        options.advance(path.stat().st_size)


def format_of(path: Path) -> str:
    """Return the format of a document in words of the package `prov`; empty if it is none."""
    is_rdf = path.suffix.lower() in RDF_FORMATS and PROV_MARK in sniff(path)
    return prov_format(path) or ("rdf" if is_rdf else "")


def read_document(path: Path) -> Any:
    """Return a document of the package `prov`, also of RDF. Raises FileFormatError and MissingDependency."""
    fmt = format_of(path)
    options = {"rdf_format": RDF_FORMATS[path.suffix.lower()]} if fmt == "rdf" else {}
    return prov_documents.read_document(path, fmt, **options)


def _to_run(document: Any, path: Path, options: ImportOptions) -> GraphRun:
    digest = sha256_of(path)
    source = SourceInfo("prov", path, "", "", digest)
    run = GraphRun(run_id("prov", digest, name=path.stem), path.stem, source, options.model)
    flat = document.flattened() if document.has_bundles() else document
    if document.has_bundles():
        count = len(list(document.bundles))
        run.losses.count(OTHERS, count)
        run.losses.leave_out(OTHERS, "bundles", "their records are in the run, their borders are not", count)
    agents: dict[str, str] = {}
    relations: Counter[str] = Counter()
    for record in flat.unified().get_records():
        if record.identifier is None or record.identifier.uri != CARRIER:  # see `provml.rdf.prov_carrier`
            _add_record(run, record, agents, relations)
    for name, count in relations.items():
        count_unused(run.losses, name, count)
    for activity in run.activities.values():
        activity.person = agents.get(activity.person, activity.person)
    return run


def _add_record(run: GraphRun, record: Any, agents: dict[str, str], relations: Counter[str]) -> None:
    kind = record.get_type().localpart
    if kind == "Activity":
        _add_activity(run, record)
    elif kind == "Entity":
        _add_entity(run, record)
    elif kind in ("Agent", "Person", "SoftwareAgent", "Organization"):
        agents[record.identifier.uri] = _label(record)
        run.losses.count(OTHERS)
        run.losses.preserve(OTHERS)
    else:
        _add_relation(run, record, kind, relations)


def _add_activity(run: GraphRun, record: Any) -> None:
    activity = _activity(run, record.identifier)
    activity.name = _label(record)
    start, end = record.get_startTime(), record.get_endTime()
    activity.started = _time(start) if start is not None else activity.started
    activity.ended = _time(end) if end is not None else activity.ended
    for name, value in _attributes(record).items():
        if name.rpartition(".")[2] == "status" and str(value) in ENDED:
            activity.status = str(value)
        run.losses.count(PARAMETERS)
        run.losses.preserve(PARAMETERS)
        activity.values[name] = value
    run.losses.count(ACTIVITIES)


def _add_entity(run: GraphRun, record: Any) -> None:
    values = _attributes(record)
    entity = run.entities.setdefault(record.identifier.uri, GraphEntity(record.identifier.uri, ""))
    entity.name = _label(record)
    types = " ".join(str(item) for item in record.get_asserted_types())
    entity.is_model = is_model_name(entity.name, types)
    entity.values |= values
    entity.path = str(values.get("path") or values.get("location") or "")
    digest = str(values.get("sha256") or "")
    entity.sha256 = digest if len(digest) == 64 else ""
    run.losses.count(DATASETS)


def _add_relation(run: GraphRun, record: Any, kind: str, relations: Counter[str]) -> None:
    ends = [value for _, value in record.formal_attributes if value is not None]
    names = {name.localpart: value for name, value in record.formal_attributes if value is not None}
    activity, entity = names.get("activity"), names.get("entity")
    if kind == "Usage" and activity is not None and entity is not None:
        roles = [str(getattr(value, "localpart", value)) for value in record.get_attribute("prov:role")]
        _activity(run, activity).used.append((entity.uri, roles[0] if roles else ""))
    elif kind == "Generation" and activity is not None and entity is not None:
        _activity(run, activity).generated.append(entity.uri)
    elif kind == "Association" and activity is not None and names.get("agent") is not None:
        _activity(run, activity).person = names["agent"].uri
    elif kind == "Communication" and names.get("informed") is not None and names.get("informant") is not None:
        _activity(run, names["informed"]).informed_by = names["informant"].uri
    else:
        relations[kind] += bool(ends) or 1
        return
    run.losses.count(RELATIONS)
    run.losses.preserve(RELATIONS)


def _activity(run: GraphRun, identifier: Any) -> GraphActivity:
    key = identifier.uri
    if key not in run.activities:
        run.activities[key] = GraphActivity(key, identifier.localpart)
    return run.activities[key]


def _label(record: Any) -> str:
    labels = sorted(str(getattr(label, "value", label)) for label in record.get_attribute("prov:label"))
    return labels[0] if labels else str(record.identifier.localpart or record.identifier)


def _attributes(record: Any) -> dict[str, Any]:
    """Return the attributes of a record by their names; several values of a name are a list."""
    values: dict[str, list[Any]] = {}
    for name, value in record.extra_attributes:
        if name.localpart in ("label", "type") and name.namespace.uri == PROV:
            continue
        values.setdefault(name.localpart, []).append(_plain(value))
    return {name: items[0] if len(items) == 1 else items for name, items in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    return str(getattr(value, "value", getattr(value, "uri", value)))


def _time(moment: datetime) -> float:
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
