"""The events of a journal as a JSON Schema, made from the event types, for programs in any language."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, get_args

import msgspec

from provml.journal import events
from provml.rdf.namespaces import NODES

SCHEMA_ID = f"{NODES}events.schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def event_schema() -> dict[str, Any]:
    """Return the JSON Schema of one line of a journal."""
    schema = msgspec.json.schema(events.AnyEvent)
    for name, definition in schema["$defs"].items():
        definition["description"] = inspect.cleandoc(definition.get("description", name))
    return {
        "$schema": DIALECT,
        "$id": SCHEMA_ID,
        "title": f"Events of provml, version {events.VERSION}",
        "description": "One line of a journal. The first line of every journal is a Header (`run`).",
        **schema,
    }


def event_types() -> list[type[events.Event]]:
    """Return the types of events, in the order in which a journal usually has them."""
    return list(get_args(events.AnyEvent))
