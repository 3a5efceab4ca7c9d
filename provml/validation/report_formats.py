"""Reports as JSON and RDF for programs, and as Markdown and HTML for people."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from html import escape
from typing import Any, Protocol, TypeVar

from provml.errors import InvalidIRI
from provml.model.values import IRI
from provml.rdf.namespaces import DCTERMS, SH, XSD
from provml.validation.results import PATH_SUFFIXES, CycleStep, GroupKey, Result, ResultGroup, ValidationScope

MAX_EXAMPLES = 10
"""Nodes shown per violated constraint."""
WITHOUT_VALUE = frozenset({"MinCount", "MaxCount", "QualifiedMinCount", "QualifiedMaxCount", "UniqueLang"})
"""Components whose results have no sh:value. Reports for people show the values nevertheless."""

RARE_FIELDS = frozenset({"messages", "bundle", "reason", "rules", "cycle"})

T = TypeVar("T")


class RenderableReport(Protocol):
    """The parts of a report that the formats show."""

    @property
    def results(self) -> tuple[Result, ...]: ...
    @property
    def scope(self) -> ValidationScope | None: ...
    @property
    def conforms(self) -> bool: ...
    @property
    def summary(self) -> str: ...
    def groups(self) -> Mapping[GroupKey, ResultGroup]: ...


def as_json(report: RenderableReport) -> str:
    """Return a report as a JSON object."""
    constraints = [
        {
            "severity": group.severity,
            "constraint": group.message,
            "nodes": len(group.nodes) if group.is_complete else None,
            "results": group.count,
            "has_more": group.has_more,
            "examples": [
                {"node": node, "values": list(values)} for node, values in list(group.nodes.items())[:MAX_EXAMPLES]
            ],
        }
        for group in report.groups().values()
    ]
    fields = {
        "conforms": report.conforms,
        "summary": report.summary,
        "scope": asdict(report.scope) if report.scope is not None else None,
        "constraints": constraints,
        "results": [_result_fields(result) for result in report.results],
    }
    return json.dumps(fields, indent=1, ensure_ascii=False)


def _result_fields(result: Result) -> dict[str, Any]:
    """Return the fields of a result as JSON; those that few results have are left out if they are empty."""
    fields = {name: value for name, value in asdict(result).items() if value or name not in RARE_FIELDS}
    if result.messages:
        fields["messages"] = [{"text": text, "language": language} for text, language in result.messages]
    return fields


def as_markdown(report: RenderableReport) -> str:
    """Return a report as Markdown: a heading, the scope, and an item per violated constraint."""
    lines = [f"## {report.summary}", ""]
    if report.scope is not None:
        lines += [f"Checked {report.scope}.", "", *(f"- {_escape_markdown(text)}" for text in report.scope.details())]
        lines += [""] if report.scope.details() else []
    for group in report.groups().values():
        lines.append(f"- **{group.severity}** {group.extent}: {_escape_markdown(group.description)}")
        lines += [f"  - {_code(example)}" for example in group.examples(MAX_EXAMPLES)]
        if remainder := group.remainder(MAX_EXAMPLES):
            lines.append(f"  - {remainder}")
    return "\n".join(lines).rstrip() + "\n"


def _code(text: str) -> str:
    """Return a code span, delimited by more backticks than the text contains in a row."""
    text = " ".join(text.split())
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\*_\[\]<>|])", r"\\\1", " ".join(text.split()))


def as_html(report: RenderableReport) -> str:
    """Return a report as an HTML fragment; all texts are escaped."""
    parts = [f"<p><strong>{escape(report.summary)}.</strong>"]
    if report.scope is not None:
        parts.append(f" Checked {escape(str(report.scope))}.")
    parts.append("</p>")
    if groups := report.groups().values():
        parts.append("<ul>")
        for group in groups:
            items = [f"<li><code>{escape(example)}</code></li>" for example in group.examples(MAX_EXAMPLES)]
            if remainder := group.remainder(MAX_EXAMPLES):
                items.append(f"<li>{remainder}</li>")
            head = f"<strong>{escape(group.severity)}</strong> {group.extent}: {escape(group.description)}"
            parts.append(f"<li><details><summary>{head}</summary><ul>{''.join(items)}</ul></details></li>")
        parts.append("</ul>")
    return f'<div class="provml-report">{"".join(parts)}</div>'


# ---- RDF


def as_turtle(results: Iterable[Result]) -> str:
    """Return results as a sh:ValidationReport in Turtle."""
    blocks = [
        "    sh:result [\n        "
        + " ;\n        ".join(f"{name} {term}" for name, term in _properties(result))
        + "\n    ]"
        for result in results
    ]
    prefixes = {"dcterms": DCTERMS, "sh": SH, "xsd": XSD}
    head = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in prefixes.items())
    head += "\n[] a sh:ValidationReport ;\n"
    return head + " ;\n".join([f"    sh:conforms {str(not blocks).lower()}", *blocks]) + " .\n"


def _properties(result: Result) -> list[tuple[str, str]]:
    """Return the properties of a sh:ValidationResult as pairs of a name and a term."""
    component = result.component
    if component and ":" not in component:
        component = f"{SH}{component}ConstraintComponent"
    properties = [("a", "sh:ValidationResult"), ("sh:focusNode", _node(result.focus))]
    if result.path is not None:
        properties.append(("sh:resultPath", as_path(result.path)))
    if value := _value(result):
        properties.append(("sh:value", value))
    severity = result.severity if ":" in result.severity else f"{SH}{result.severity}"
    properties.append(("sh:resultSeverity", f"<{severity}>"))
    if component:
        properties.append(("sh:sourceConstraintComponent", f"<{component}>"))
    if result.shape:
        properties.append(("sh:sourceShape", _node(result.shape)))
    properties += [("sh:resultMessage", message) for message in _messages(result)]
    if result.bundle:
        properties.append(("dcterms:isPartOf", _node(result.bundle)))
    properties += [("dcterms:references", f"<{rule}>") for rule in result.rules]
    properties += [("sh:detail", _step(step)) for step in result.cycle]
    return properties


def _messages(result: Result) -> list[str]:
    """Return the messages of a result as literals, each in its language."""
    if result.messages:
        return [_literal(text, language) for text, language in result.messages]
    text = f"{result.message} {result.reason}".strip()
    return [_literal(text)] if text else []


def _step(step: CycleStep) -> str:
    """Return a step of a cycle as a result that explains another one."""
    nodes = [node if node.startswith("<") else _blank_node(node) for node in step.nodes]
    rules = [("sh:sourceConstraint", f"<{rule}>") for rule in step.rules]
    properties = [
        ("a", "sh:ValidationResult"),
        ("sh:focusNode", nodes[0]),
        ("sh:value", nodes[1]),
        ("sh:resultSeverity", "sh:Violation"),
        ("sh:resultMessage", _literal(str(step))),
        *rules,
    ]
    return f"[ {' ; '.join(f'{name} {term}' for name, term in properties)} ]"


def _value(result: Result) -> str:
    """Return the term of sh:value: the complete value, else the displayed one unless it was shortened."""
    if result.value or result.reason:
        return result.value
    if len(result.values) != 1 or result.component in WITHOUT_VALUE or "…" in result.values[0]:
        return ""
    (value,) = result.values
    return _blank_node(value) if value.startswith("_:") else value


def _node(text: str) -> str:
    """Return an IRI, blank node or literal in Turtle syntax; any other text becomes a literal."""
    if text.startswith("_:"):
        return _blank_node(text)
    if text.startswith('"'):
        return text
    try:
        return f"<{IRI(text)}>"
    except InvalidIRI:
        return _literal(text)


def _blank_node(text: str) -> str:
    return "_:" + re.sub(r"\W", "", text[2:])


def _literal(text: str, language: str = "") -> str:
    import pyoxigraph as ox

    return str(ox.Literal(text, language=language or None))


# ---- property paths

PATH_TOKEN = re.compile(r"\s*(<[^>]*>|[()/|^*+?])")
PATH_BY_SUFFIX = {suffix: kind for kind, suffix in PATH_SUFFIXES.items()}


def as_path(text: str) -> str:
    """Convert a property path from SPARQL syntax to a SHACL path in Turtle."""
    if "<" not in text:
        return f"<{text}>"
    path, remaining = _parse_alternatives(PATH_TOKEN.findall(text))
    if remaining:
        raise ValueError(f"{text!r} is not a property path")
    return path


def _parse_alternatives(tokens: list[str]) -> tuple[str, list[str]]:
    sequences, tokens = _parse_separated(tokens, "|", _parse_sequence)
    if len(sequences) == 1:
        return sequences[0], tokens
    return f"[ sh:alternativePath ( {' '.join(sequences)} ) ]", tokens


def _parse_sequence(tokens: list[str]) -> tuple[str, list[str]]:
    steps, tokens = _parse_separated(tokens, "/", _parse_step)
    return (steps[0] if len(steps) == 1 else f"( {' '.join(steps)} )"), tokens


def _parse_separated(
    tokens: list[str], separator: str, parse: Callable[[list[str]], tuple[T, list[str]]]
) -> tuple[list[T], list[str]]:
    part, tokens = parse(tokens)
    parts = [part]
    while tokens and tokens[0] == separator:
        part, tokens = parse(tokens[1:])
        parts.append(part)
    return parts, tokens


def _parse_step(tokens: list[str]) -> tuple[str, list[str]]:
    if tokens[:1] == ["^"]:
        path, tokens = _parse_step(tokens[1:])
        return f"[ sh:inversePath {path} ]", tokens
    if tokens[:1] == ["("]:
        path, tokens = _parse_alternatives(tokens[1:])
        tokens = tokens[1:]
    else:
        path, tokens = tokens[0], tokens[1:]
    while tokens and tokens[0] in PATH_BY_SUFFIX:
        path, tokens = f"[ sh:{PATH_BY_SUFFIX[tokens[0]]} {path} ]", tokens[1:]
    return path, tokens
