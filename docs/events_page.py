"""The page of events: the lines of a journal, from the event types."""

from __future__ import annotations

import inspect
import json

from provml.journal.schema import event_schema, event_types


def schema_file() -> str:
    """Return the JSON Schema of an event as a file."""
    return json.dumps(event_schema(), indent=2, ensure_ascii=False) + "\n"


def _type(schema: dict[str, object]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return ", ".join(_type(option) for option in schema["anyOf"])  # type: ignore[attr-defined]
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"array of {_type(schema['items'])}" if isinstance(schema.get("items"), dict) else kind  # type: ignore[arg-type]
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"  # type: ignore[arg-type]
    return kind


def events_page(head: str) -> str:
    """Return the page of events."""
    definitions = event_schema()["$defs"]
    parts = [
        f"{head}\n# Events\n",
        "A journal has one event in each line, as JSON. The field `e` says which.\n",
        "As JSON Schema: [events.schema.json](events.schema.json), or `/api/v1/events.schema.json` of a service.",
        "",
        "[Record from elsewhere](../how-to/record-from-elsewhere.md) shows how any program sends events.\n",
    ]
    for kind in event_types():
        definition = definitions[kind.__name__]
        properties = definition["properties"]
        tag = properties["e"]["enum"][0]
        summary, _, rest = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
        parts += [f"## {tag}\n", f"{summary}\n"]
        if rest:
            parts += [f"{rest}\n"]
        parts += ["| field | type | required |", "|---|---|---|"]
        for name, schema in properties.items():
            if name != "e":
                parts.append(f"| `{name}` | {_type(schema)} | {'yes' if name in definition['required'] else ''} |")
        parts.append("")
    return "\n".join(parts)
