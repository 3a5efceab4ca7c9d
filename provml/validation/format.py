"""A report in other formats: JSON and RDF for programs, Markdown and HTML for people."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

from provml.errors import NotAnIRI
from provml.values import IRI

if TYPE_CHECKING:
    from provml.validation.report import Report, Result

SH = "http://www.w3.org/ns/shacl#"
XSD = "http://www.w3.org/2001/XMLSchema#"
EXAMPLES = 10
"""How many nodes a page shows of each broken promise."""
NO_VALUE = frozenset({"MinCount", "MaxCount", "QualifiedMinCount", "QualifiedMaxCount", "UniqueLang"})
"""Components whose results have no sh:value; a report shows people the values all the same."""


def as_json(report: Report) -> str:
    """A report as a JSON object."""
    promises = [
        {
            "severity": group.severity,
            "promise": group.message,
            "nodes": len(group.nodes) if group.is_whole else None,
            "results": group.count,
            "has_more": group.has_more,
            "examples": [{"node": node, "values": list(held)} for node, held in list(group.nodes.items())[:EXAMPLES]],
        }
        for group in report.groups().values()
    ]
    said = {
        "conforms": report.conforms,
        "summary": report.summary,
        "checked": asdict(report.checked) if report.checked is not None else None,
        "promises": promises,
        "results": [asdict(result) for result in report],
    }
    return json.dumps(said, indent=1, ensure_ascii=False)


def as_markdown(report: Report) -> str:
    """A report as Markdown: a heading, what was checked, an item a promise."""
    lines = [f"## {report.summary}", ""]
    if report.checked is not None:
        lines += [f"Checked {report.checked}.", ""]
    for group in report.groups().values():
        lines.append(f"- **{group.severity}** {group.told}: {_plain_markdown(group.promise)}")
        lines += [f"  - {_code(example)}" for example in group.examples(EXAMPLES)]
        lines += [f"  - {more}" for more in [group.rest(EXAMPLES)] if more]
    return "\n".join(lines).rstrip() + "\n"


def _code(text: str) -> str:
    text = " ".join(text.split())
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _plain_markdown(text: str) -> str:
    return re.sub(r"([\\*_\[\]<>|])", r"\\\1", " ".join(text.split()))


def as_html(report: Report) -> str:
    """A report as a piece of HTML; nothing in it is taken for markup."""
    parts = [f"<p><strong>{escape(report.summary)}.</strong>"]
    if report.checked is not None:
        parts.append(f" Checked {escape(str(report.checked))}.")
    parts.append("</p>")
    if groups := report.groups().values():
        parts.append("<ul>")
        for group in groups:
            shown = [f"<li><code>{escape(example)}</code></li>" for example in group.examples(EXAMPLES)]
            shown += [f"<li>{more}</li>" for more in [group.rest(EXAMPLES)] if more]
            said = f"<strong>{escape(group.severity)}</strong> {group.told}: {escape(group.promise)}"
            parts.append(f"<li><details><summary>{said}</summary><ul>{''.join(shown)}</ul></details></li>")
        parts.append("</ul>")
    return f'<div class="provml-report">{"".join(parts)}</div>'


# ---- RDF


def as_turtle(report: Report) -> str:
    """A report as a sh:ValidationReport."""
    lines = [f"@prefix sh: <{SH}> .", f"@prefix xsd: <{XSD}> .", ""]
    lines += ["[] a sh:ValidationReport ;", f"    sh:conforms {str(not report.results).lower()}"]
    for result in report:
        said = [f"{name} {term}" for name, term in _statements(result)]
        lines[-1] += " ;"
        lines.append("    sh:result [\n        " + " ;\n        ".join(said) + "\n    ]")
    lines[-1] += " ."
    return "\n".join(lines) + "\n"


def _statements(result: Result) -> list[tuple[str, str]]:
    component = result.component
    if component and ":" not in component:
        component = f"{SH}{component}ConstraintComponent"
    said = [("a", "sh:ValidationResult"), ("sh:focusNode", _node(result.focus))]
    if result.path is not None:
        said.append(("sh:resultPath", as_path(result.path)))
    if value := _value(result):
        said.append(("sh:value", value))
    severity = result.severity if ":" in result.severity else f"{SH}{result.severity}"
    said.append(("sh:resultSeverity", f"<{severity}>"))
    if component:
        said.append(("sh:sourceConstraintComponent", f"<{component}>"))
    if result.shape:
        said.append(("sh:sourceShape", _node(result.shape)))
    if result.message:
        said.append(("sh:resultMessage", _text(result.message)))
    return said


def _value(result: Result) -> str:
    """The value that SHACL reports: as it is known, else as it is shown, unless it is cut there."""
    if result.value:
        return result.value
    if len(result.values) != 1 or result.component in NO_VALUE or "…" in result.values[0]:
        return ""
    (shown,) = result.values
    return _blank(shown) if shown.startswith("_:") else shown


def _node(text: str) -> str:
    """A node by its IRI, blank node or literal; what is none of these is written as text."""
    if text.startswith("_:"):
        return _blank(text)
    if text.startswith('"'):
        return text
    try:
        return f"<{IRI(text)}>"
    except NotAnIRI:
        return _text(text)


def _blank(text: str) -> str:
    return "_:" + re.sub(r"\W", "", text[2:])


def _text(text: str) -> str:
    import pyoxigraph as ox

    return str(ox.Literal(text))


_TOKEN = re.compile(r"\s*(<[^>]*>|[()/|^*+?])")


def as_path(text: str) -> str:
    """A property path, written as SPARQL does, in the terms of SHACL."""
    if "<" not in text:
        return f"<{text}>"
    tokens = _TOKEN.findall(text)
    path, rest = _alternatives(tokens)
    if rest:
        raise ValueError(f"{text!r} is no property path")
    return path


def _alternatives(tokens: list[str]) -> tuple[str, list[str]]:
    parts, tokens = _parts(tokens, "|", lambda left: _parts(left, "/", _step))
    # Each part is a sequence: a list of steps, of which one alone stands for itself.
    made = [_sequence(one) for one in parts]
    return (made[0] if len(made) == 1 else f"[ sh:alternativePath ( {' '.join(made)} ) ]"), tokens


def _sequence(steps: list[str]) -> str:
    return steps[0] if len(steps) == 1 else f"( {' '.join(steps)} )"


def _parts(tokens: list[str], between: str, one: Any) -> tuple[list[Any], list[str]]:
    part, tokens = one(tokens)
    parts = [part]
    while tokens and tokens[0] == between:
        part, tokens = one(tokens[1:])
        parts.append(part)
    return parts, tokens


KINDS = {"*": "zeroOrMorePath", "+": "oneOrMorePath", "?": "zeroOrOnePath"}


def _step(tokens: list[str]) -> tuple[str, list[str]]:
    if tokens[:1] == ["^"]:
        path, tokens = _step(tokens[1:])
        return f"[ sh:inversePath {path} ]", tokens
    if tokens[:1] == ["("]:
        path, tokens = _alternatives(tokens[1:])
        tokens = tokens[1:]
    else:
        path, tokens = tokens[0], tokens[1:]
    while tokens and tokens[0] in KINDS:
        path, tokens = f"[ sh:{KINDS[tokens[0]]} {path} ]", tokens[1:]
    return path, tokens
