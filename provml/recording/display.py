"""HTML of recording objects for notebooks."""

from __future__ import annotations

from collections.abc import Mapping


def html_table(title: str, rows: Mapping[str, object]) -> str:
    """Return a table of two columns under a bold title; empty values are left out."""
    from html import escape

    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in rows.items()
        if value not in (None, "", 0)
    )
    return f"<div><strong>{escape(title)}</strong><table>{cells}</table></div>"
