"""docs/reference/lake.md: the tables of a lake with their columns, and the questions that have an SQL twin."""

from __future__ import annotations

from provml.catalog import Catalog
from provml.lake.schema import SCHEMA_VERSION, TABLES
from provml.lake.twins import twins

INTRODUCTION = f"""
# Tables of a lake

`provml lake build` writes these tables as Parquet ([how to use them](../how-to/lake.md)). The schema has the version
{SCHEMA_VERSION}; a reader refuses a newer one. `text` is a string, `integer` has 64 bits, `double` too, and `time` is a
timestamp in UTC with microseconds.
"""


def lake_page(head: str) -> str:
    """Return the page."""
    parts = [head + INTRODUCTION]
    for name, table in TABLES.items():
        rows = "\n".join(f"| `{column.name}` | {column.type} | {column.help} |" for column in table.columns)
        parts.append(f"## {name}\n\n{table.help}\n\n| column | type | what it holds |\n|---|---|---|\n{rows}\n")
    catalog = Catalog()
    questions = "\n".join(
        f"| `{name}` | {', '.join(f'`{alias}`' for alias in catalog[name].aliases)} | {catalog[name].summary} |"
        for name in twins()
    )
    parts.append(
        "## Questions\n\nThese questions have an SQL twin; `lake.table()` is the table of runs.\n\n"
        f"| name | alias | question |\n|---|---|---|\n{questions}\n"
    )
    return "\n".join(parts)
