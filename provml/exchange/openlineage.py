"""Events of OpenLineage as runs: a run of a job with the datasets that it read and wrote.

Events may come late and more than once; the time of an event counts, not that of its arrival. A dataset is known by its
namespace and name, which all runs share. Addresses in events are never opened.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from provml.journal import events
from provml.journal.redaction import redact_text, redact_url
from provml.journal.run_files import RUN_ID
from provml.recording.encoding import encode_parameters
from provml.recording.kinds import kind_of

Fields = dict[str, Any]
WRITER = "openlineage"
ENDS = {"COMPLETE": "FINISHED", "FAIL": "FAILED", "ABORT": "KILLED"}
MODEL_SUFFIXES = (".h5", ".keras", ".pt", ".pth", ".ckpt", ".onnx", ".pkl", ".joblib", ".safetensors", ".pb")
KNOWN_FACETS = ("parent", "errorMessage", "sourceCodeLocation", "documentation", "ownership")
"""Facets that are recorded as what they mean; all others are recorded as JSON."""
ROLES = (("train", "training"), ("val", "validation"), ("test", "test"))


def run_id_of(event: Fields) -> str:
    """Return the id of the run of an event; empty for an event about a job or a dataset alone."""
    run_id = _dict(event.get("run")).get("runId")
    if run_id is None:
        return ""
    text = str(run_id)
    return text if RUN_ID.fullmatch(text) else f"openlineage-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


class OpenLineageRun:
    """The events of one run."""

    def __init__(self) -> None:
        self.client = ""
        self.agent = ""
        self.last_time = 0.0
        self._events: dict[str, tuple[float, Fields]] = {}

    def feed(self, event: Fields, time: float) -> None:
        """Take in an event that was received at a time."""
        self.last_time = max(self.last_time, time)
        text = json.dumps(event, sort_keys=True, default=str)
        if text not in self._events:
            self._events[text] = (_time(event.get("eventTime"), time), event)

    @property
    def in_order(self) -> list[tuple[float, Fields]]:
        """Events with their times, in the order in which they happened."""
        ranks = {"START": 0, "RUNNING": 1, "OTHER": 1}
        ordered = sorted(
            self._events.items(), key=lambda item: (item[1][0], ranks.get(str(item[1][1].get("eventType")), 2), item[0])
        )
        return [entry for _, entry in ordered]

    @property
    def end(self) -> tuple[float, Fields] | None:
        """The last event that ended the run."""
        ends = [entry for entry in self.in_order if entry[1].get("eventType") in ENDS]
        return ends[-1] if ends else None

    def all_events(self) -> list[events.Event]:
        """Return the events of the run."""
        return list(_RunEvents(self).all_events())


class _RunEvents:
    """Writes the events of a run."""

    def __init__(self, run: OpenLineageRun) -> None:
        self.run = run
        self.entries = run.in_order
        self.job = _dict(self.entries[0][1].get("job"))
        self.name = str(self.job.get("name") or "job")
        kind = kind_of(self.name.rpartition(".")[2])
        self.kind = "step" if kind == "adaptation" else kind
        self.location = "".join(c if c.isalnum() or c in "._-" else "-" for c in self.name).strip("-.") or "job"
        self.described: set[str] = set()
        self.linked: set[tuple[str, str]] = set()

    def all_events(self) -> Iterator[events.Event]:
        started, first = self.entries[0]
        header = events.Header(events.VERSION, run_id_of(first), WRITER, self.name, started, self.name)
        header.study, header.host = str(self.job.get("namespace") or ""), self.run.client
        header.by, header.parent_run = self._owner(), self._parent()
        yield header
        yield events.Begin(self.location, self.kind, started, self.name)
        yield from self._implementation()
        for _, event in self.entries:
            yield from self._facets(event)
            for item in _dicts(event.get("inputs")):
                yield from self._dataset(item, is_output=False)
            for item in _dicts(event.get("outputs")):
                yield from self._dataset(item, is_output=True)
        end = self.run.end
        if end is not None:
            time, event = end
            status = ENDS[str(event["eventType"])]
            error = self._error() if status == "FAILED" else []
            yield events.Done(self.location, time, max(time - started, 0.0), status, error)
            yield events.End(time, status, error)

    def _all_facets(self, side: str, name: str) -> Iterator[Fields]:
        """Yield a facet of the run or the job in each event that has it."""
        for _, event in self.entries:
            facet = _dict(_dict(event.get(side)).get("facets")).get(name)
            if isinstance(facet, dict):
                yield facet

    def _owner(self) -> str:
        for facet in self._all_facets("job", "ownership"):
            for owner in _dicts(facet.get("owners")):
                return str(owner.get("name") or "").removeprefix("user:")
        return ""

    def _parent(self) -> str:
        for facet in self._all_facets("run", "parent"):
            parent = run_id_of(facet)
            if parent != run_id_of(self.entries[0][1]):
                return parent
        return ""

    def _implementation(self) -> Iterator[events.Event]:
        for facet in self._all_facets("job", "sourceCodeLocation"):
            parts = [str(facet.get(name) or "") for name in ("repoUrl", "url", "path")]
            source = redact_url(next((part for part in parts if part), ""))
            path = parts[2] if parts[2] != source else ""
            version = str(facet.get("version") or "")
            yield events.Implementation(self.location, path or self.name, version=version, source=source)
            return

    def _facets(self, event: Fields) -> Iterator[events.Event]:
        """Write the facets of the run and the job that have no meaning here as JSON."""
        texts = {"facet.client": self.run.agent}
        for side in ("run", "job"):
            for name, facet in _dict(_dict(event.get(side)).get("facets")).items():
                if name == "documentation":
                    texts["facet.documentation"] = str(_dict(facet).get("description") or "")
                elif name not in KNOWN_FACETS:
                    texts[f"facet.{name}"] = _json(facet)
        new = {name: text for name, text in texts.items() if text and (name, text) not in self.linked}
        self.linked |= set(new.items())
        if new:
            yield events.Parameter(self.location, encode_parameters(new)[0])

    def _dataset(self, item: Fields, *, is_output: bool) -> Iterator[events.Event]:
        namespace, name = str(item.get("namespace") or ""), str(item.get("name") or "")
        ref = f"{events.SHARED_NAME}{namespace}/{name}"
        is_model = is_output and self.kind == "training" and _is_model(name)
        kind = "model" if is_model or ("model", ref) in self.linked else "dataset"
        label = PurePosixPath(name).name or name or "dataset"
        path, store = redact_url(name), redact_url(namespace)
        if ref not in self.described:
            self.described.add(ref)
            yield events.Data(ref, kind, self.name if kind == "model" else label, path, store=store)
        for values in _facet_values(item):
            key = f"{ref} {json.dumps(values, sort_keys=True, default=str)}"
            if key not in self.described and kind == "dataset":
                self.described.add(key)
                yield events.Data(ref, kind, label, path, store=store, values=values)
        direction = "output" if is_output else "input"
        if (direction, ref) in self.linked:
            return
        self.linked |= {(direction, ref), (kind, ref)}
        if is_output:
            yield events.Produced(self.location, ref)
        else:
            is_evaluated = self.kind == "evaluation" and _is_model(name)
            yield events.Used(self.location, ref, "model" if is_evaluated else _role(label, self.kind))

    def _error(self) -> list[str]:
        for facet in self._all_facets("run", "errorMessage"):
            message = redact_text(str(facet.get("message") or ""))
            kind, separator, rest = message.partition(": ")
            return [kind, rest] if separator and kind.isidentifier() else ["JobFailed", message]
        return ["JobFailed", "the job failed without a message"]


def _facet_values(item: Fields) -> Iterator[events.Values]:
    """Yield the facets of a dataset: numbers and texts of known ones by name, all others as JSON."""
    for side in ("facets", "inputFacets", "outputFacets"):
        for name, facet in _dict(item.get(side)).items():
            fields = {key: value for key, value in _dict(facet).items() if not key.startswith("_")}
            if name in ("outputStatistics", "inputStatistics", "dataQualityMetrics"):
                plain = {key: value for key, value in fields.items() if isinstance(value, (int, float, str))}
                rest = {key: value for key, value in fields.items() if key not in plain and value}
                yield encode_parameters({**plain, **rest})[0]
            elif fields:
                yield encode_parameters({name: _json(fields)})[0]


def _json(value: Any) -> str:
    fields = {key: item for key, item in value.items() if not key.startswith("_")} if isinstance(value, dict) else value
    return json.dumps(fields, sort_keys=True, default=str)


def _is_model(name: str) -> bool:
    return "model" in name.lower() or name.lower().endswith(MODEL_SUFFIXES)


def _role(name: str, kind: str) -> str:
    role = next((role for word, role in ROLES if word in name.lower()), "")
    return role or {"training": "training", "validation": "validation", "evaluation": "test"}.get(kind, "")


def _time(value: Any, default: float) -> float:
    """Return a time in seconds since 1970; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(str(value))
        seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return default
    return seconds if events.MIN_TIME <= seconds <= events.MAX_TIME else default


def _dict(value: Any) -> Fields:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Fields]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
