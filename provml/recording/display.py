"""HTML of recording objects for notebooks."""

from __future__ import annotations

from collections.abc import Mapping


def html_table(title: str, rows: Mapping[str, object]) -> str:
    """Return a table of two columns under a bold title; empty values are left out."""
    from html import escape

    from provml.answers.table import NOTEBOOK_STYLE

    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in rows.items()
        if value not in (None, "", 0)
    )
    table = f'<table class="provml-table">{cells}</table>'
    return f"<div><style>{NOTEBOOK_STYLE}</style><strong>{escape(title)}</strong>{table}</div>"
