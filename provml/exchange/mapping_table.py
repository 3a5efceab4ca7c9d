"""What an export format takes from a run, field by field: data of which the pages of the documentation are made."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A part of a run, where it is in the format, and what is lost."""

    run: str
    there: str
    lost: str = ""


class MappingTable(NamedTuple):
    """The table of one or more formats: a title, paragraphs, and the rows."""

    title: str
    text: str
    rows: tuple[Row, ...]
    formats: tuple[str, ...]
    example: str = ""
    """Commands that the page shows, for a run `latest`."""
