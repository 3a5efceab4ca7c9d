"""All epochs of all runs as one table, with a column for each measure."""

from __future__ import annotations

from typing import Any

from provml.lake.names import Select

MEASURES = """SELECT DISTINCT CASE WHEN s.trains THEN '' ELSE 'val_' END AS prefix, m.name
FROM measures m JOIN sections s ON s.section = m.section
WHERE m.name IS NOT NULL AND (s.trains OR s.validates IS NOT NULL) ORDER BY prefix, m.name"""
BASE_COLUMNS = ("run", "name", "model", "training", "epoch", "started", "seconds", "batches", "batch_seconds", "status")
STATEMENT = """SELECT s.run, r.name, r.model, s.stage AS training, s.idx AS epoch, s.started, s.seconds, s.batches,
  s.mean_seconds AS batch_seconds, s.status{columns}
FROM sections s
JOIN runs r ON r.run = s.run{join}
WHERE s.trains
ORDER BY r.started NULLS FIRST, s.run, training, epoch, s.section"""
VALUES = """
LEFT JOIN (
  SELECT coalesce(v.validates, v.section) AS section{columns}
  FROM measures m JOIN sections v ON v.section = m.section
  WHERE v.trains OR v.validates IS NOT NULL
  GROUP BY coalesce(v.validates, v.section)
) x ON x.section = s.section"""


def statement(select: Select) -> tuple[str, dict[str, Any]]:
    """Return the SELECT of all epochs, and its parameters. Of repeated measures, the greatest value counts.

    A measure of a validation has the prefix `val_`, and a name that another column has gets the prefix `measure_`.
    """
    inner, outer, params, taken = "", "", dict[str, Any](), {*BASE_COLUMNS}
    for number, (prefix, name) in enumerate(select(MEASURES, {})):
        column = name if prefix and name.startswith(prefix) else f"{prefix}{name}"
        while column.lower() in taken:
            column = f"measure_{column}"
        taken.add(column.lower())
        params[f"m{number}"] = name
        condition = "v.trains" if not prefix else "v.validates IS NOT NULL AND NOT v.trains"
        inner += f",\n    max(CASE WHEN m.name = :m{number} AND {condition} THEN m.number END) AS c{number}"
        quoted = column.replace('"', '""')
        outer += f',\n  x.c{number} AS "{quoted}"'
    join = VALUES.format(columns=inner) if params else ""
    return STATEMENT.format(columns=outer, join=join), params
