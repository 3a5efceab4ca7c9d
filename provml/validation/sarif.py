"""Reports as SARIF 2.1.0, which tools of code review show next to the lines of the data."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from provml.rdf.positions import in_turtle, in_xml
from provml.validation.report_formats import RenderableReport
from provml.validation.results import Result

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"Violation": "error", "Warning": "warning", "Info": "note"}
MAX_LOCATED_BYTES = 20 << 20
"""Size of a data file in which lines are searched."""


def as_sarif(report: RenderableReport) -> str:
    """Return a report as SARIF: a rule per shape and component, and a result per violation, with its line if known."""
    label = report.scope.label if report.scope is not None else ""
    lines = _lines(label)
    rules: dict[str, dict[str, Any]] = {}
    results = []
    for result in report.results:
        rule = _rule_id(result)
        if rule not in rules:
            rules[rule] = {"id": rule, "shortDescription": {"text": result.message or rule}}
            if result.shape.startswith(("http:", "https:")):
                rules[rule]["helpUri"] = result.shape
        results.append(_result(result, rule, list(rules).index(rule), label, lines))
    driver = {
        "name": "provml",
        "version": version("provml"),
        "informationUri": "https://w3id.org/provml",
        "rules": list(rules.values()),
    }
    run: dict[str, Any] = {"tool": {"driver": driver}, "results": results, "columnKind": "utf16CodeUnits"}
    notes = report.scope.details() if report.scope is not None else []
    if notes:
        messages = [{"level": "note", "message": {"text": text}} for text in notes]
        run["invocations"] = [{"executionSuccessful": True, "toolExecutionNotifications": messages}]
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False)


def _rule_id(result: Result) -> str:
    shape = result.path or "" if result.shape.startswith("_:") else result.shape
    return "/".join(part for part in (shape, result.component) if part) or "constraint"


def _result(result: Result, rule: str, index: int, label: str, lines: dict[str, int]) -> dict[str, Any]:
    details = [result.node, *(f"with {value}" for value in result.values if value != result.node)]
    text = " ".join(part for part in (result.message, result.reason) if part)
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": result.focus, "kind": "resource"}]}
    if _is_file(label):
        path = Path(label)
        uri = path.as_posix() if not path.is_absolute() else path.as_uri()
        location["physicalLocation"] = {
            "artifactLocation": {"uri": uri},
            "region": {"startLine": lines.get(result.focus, 1)},
        }
    properties = {"focusNode": result.focus, "path": result.path, "severity": result.severity, "shape": result.shape}
    if result.bundle:
        properties["bundle"] = result.bundle
    return {
        "ruleId": rule,
        "ruleIndex": index,
        "level": LEVELS.get(result.severity, "warning"),
        "message": {"text": f"{text} At {' '.join(details)}".strip()},
        "locations": [location],
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


def _is_file(label: str) -> bool:
    try:
        return bool(label) and Path(label).is_file()
    except (OSError, ValueError):
        return False


def _lines(label: str) -> dict[str, int]:
    """Return the line that first describes each node of a data file in Turtle or RDF/XML."""
    if not _is_file(label) or Path(label).stat().st_size > MAX_LOCATED_BYTES:
        return {}
    path = Path(label)
    if path.suffix in (".ttl", ".nt", ".n3", ".trig", ".nq"):
        mentions = list(in_turtle(path.read_text(errors="replace")))
    elif path.suffix in (".rdf", ".owl", ".xml"):
        mentions = in_xml(path.read_bytes())
    else:
        return {}
    lines: dict[str, int] = {}
    for role in ("subject", "object"):
        for mention in mentions:
            if mention.role == role:
                lines.setdefault(mention.iri, mention.line)
    return lines
