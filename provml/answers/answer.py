"""The answer to a query: rows of Python values that can be sorted, sliced, shown and converted."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, overload

from provml.answers import formats, table
from provml.answers.plot import Columns, Curve, Curves
from provml.answers.stream import RowStream
from provml.answers.table import Row
from provml.errors import WrongType

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import polars

    from provml.answers.formats import Terms

MAX_SHOWN_ROWS = 50
"""Number of rows that a notebook or a prompt shows; `print` shows all."""


class Answer:
    """Rows in order, with the names of their columns.

    `curve` names the columns that make a curve, `types` the types of the columns, if the question declares them.
    `is_graph` is True if the rows are the triples of CONSTRUCT or DESCRIBE. `note` explains an answer without rows or
    with an empty column, or names unknown terms of the query.
    """

    note = ""

    def __init__(
        self,
        columns: list[str],
        rows: list[Row],
        *,
        curve: Curve | None = None,
        types: Mapping[str, str] | None = None,
        is_graph: bool = False,
    ) -> None:
        self.is_graph = is_graph
        self.columns = columns
        self.rows = rows
        self.curve = curve
        self.types = types or {}
        # RDF terms by the identity of their row. The row is stored with them, so that its identity stays valid when
        # rows are sorted, picked or removed.
        self._terms: dict[int, tuple[Row, Terms]] = {}

    @classmethod
    def from_terms(cls, columns: list[str], rows: Iterable[Terms], *, is_graph: bool = False) -> Answer:
        """Make an answer of rows of RDF terms. The terms are kept: a value does not say how its term is written."""
        from provml.rdf import value

        answer = cls(columns, [], is_graph=is_graph)
        for terms in rows:
            row = tuple([None if term is None else value(term) for term in terms])
            answer.rows.append(row)
            answer._terms[id(row)] = (row, terms)
        return answer

    @classmethod
    def from_stream(cls, stream: RowStream) -> Answer:
        """Read a stream to its end."""
        return cls.from_terms(stream.columns, stream.terms(), is_graph=stream.is_graph)

    def _with(self, rows: list[Row]) -> Answer:
        """Return a copy with other rows."""
        other = Answer(self.columns, rows, curve=self.curve, types=self.types, is_graph=self.is_graph)
        other._terms = self._terms
        return other

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Answer: ...

    def __getitem__(self, index: int | slice) -> Row | Answer:
        return self._with(self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def __reduce__(self) -> tuple[object, ...]:
        terms = self.terms() if self._terms else None
        settings = {"curve": self.curve, "types": dict(self.types), "is_graph": self.is_graph}
        return _restore, (self.columns, self.rows, terms, settings, self.note)

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        index = self._index(name)
        return [row[index] for row in self.rows]

    def _index(self, name: str) -> int:
        if name not in self.columns:
            raise KeyError(f"No column {name!r}. Columns: {', '.join(self.columns)}.")
        return self.columns.index(name)

    def sorted(self, by: str | Sequence[str], *, reverse: bool = False) -> Answer:
        """Return the rows sorted by one or more columns.

        Values of different types are sorted type by type. NaN comes after all numbers and missing values come last,
        also in reverse order.
        """
        rows = list(self.rows)
        for name in reversed([by] if isinstance(by, str) else list(by)):
            index = self._index(name)
            ordered = [row for row in rows if _is_orderable(row[index])]
            ordered.sort(key=lambda row: _sort_key(row[index]), reverse=reverse)
            nan = [row for row in rows if row[index] is not None and not _is_orderable(row[index])]
            rows = ordered + nan + [row for row in rows if row[index] is None]
        return self._with(rows)

    def terms(self) -> list[Terms]:
        """Return the rows as RDF terms of pyoxigraph, exactly as the graph has them."""
        from provml.rdf import term

        return [
            self._terms[id(row)][1]
            if id(row) in self._terms
            else tuple(None if value is None else term(value) for value in row)
            for row in self.rows
        ]

    # ---- for people

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int | None = None) -> str:
        """Return the rows as a table for people, at most `width` columns wide."""
        return table.text_table(self.columns, self.rows, width=width)

    def __repr__(self) -> str:
        text = table.text_table(self.columns, self.rows[:MAX_SHOWN_ROWS], max(len(self.rows) - MAX_SHOWN_ROWS, 0))
        return f"{text}\n{self.note}" if self.note else text

    def _repr_html_(self) -> str:
        from html import escape  # not at the top: it is slow to load

        html = table.html_table(self.columns, self.rows[:MAX_SHOWN_ROWS], max(len(self.rows) - MAX_SHOWN_ROWS, 0))
        return f"{html}\n<p>{escape(self.note)}</p>" if self.note else html

    def plot(
        self,
        x: str | None = None,
        y: str | Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        *,
        ax: matplotlib.axes.Axes | None = None,
        label: str = "",
    ) -> matplotlib.axes.Axes:
        """Draw the curves with matplotlib, on new axes unless `ax` is given.

        For a question without a plot, name the columns: `x`, one or more for `y`, and `by` for one curve per value.
        Several answers can be drawn on the same axes: the legend has the curves of all. `label` names those of this
        one.
        """
        from provml.answers.plot import draw

        return draw(self.curves(x, y, by), ax, label)

    def chart(self, width: int = 80, height: int = 17, *, ascii: bool = False) -> str:  # noqa: A002  # as `repr` has it
        """Return the curves drawn with characters, `width` columns wide and `height` lines high."""
        from provml.answers.terminal_chart import draw

        return draw(self.curves(), width, height, plain=ascii)

    def curves(
        self, x: str | None = None, y: str | Sequence[str] | None = None, by: str | Sequence[str] | None = None
    ) -> Curves:
        """Return the points of the curves, for `plot` and `chart`."""
        from provml.answers.plot import curves

        return curves(Columns(self.columns, self.rows), self.curve, x, y, by)

    # ---- for programs

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame (`pip install 'provml[pandas]'`)."""
        from provml.answers import dataframe

        return dataframe.to_pandas(self.columns, self.rows, self.types)

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a polars DataFrame (`pip install 'provml[polars]'`)."""
        from provml.answers import dataframe

        return dataframe.to_polars(self.columns, self.rows, self.types)

    def to_csv(self, *, escape_formulas: bool = False) -> str:
        """Return the rows as CSV. For spreadsheets, `escape_formulas` puts an apostrophe before what looks like one."""
        return "".join(formats.iter_csv(self.columns, self.rows, escape_formulas=escape_formulas))

    def to_tsv(self, *, escape_formulas: bool = False) -> str:
        """Return the rows as CSV with tabs."""
        return "".join(formats.iter_csv(self.columns, self.rows, "\t", escape_formulas=escape_formulas))

    def to_json(self) -> str:
        """Return the rows as a JSON list of objects."""
        return formats.as_json(self.to_dicts())

    def to_sparql(self, fmt: str = "json") -> str:
        """Return the rows in a result format of W3C's SPARQL 1.1: json, xml, tsv (with exact terms) or csv."""
        return formats.as_sparql(self.columns, self.terms(), fmt)

    def to_rdf(self, fmt: str = "ttl") -> str:
        """Return the triples of CONSTRUCT and DESCRIBE as RDF: ttl, nt or jsonld."""
        if not self.is_graph:
            columns = f"the columns {', '.join(self.columns)}" if self.columns else "no columns"
            advice = "Use CONSTRUCT or DESCRIBE, or to_sparql()."
            raise WrongType("Answer", "to_rdf", columns, "the triples of CONSTRUCT or DESCRIBE", advice)
        buffer = io.BytesIO()
        formats.write_rdf(self.terms(), buffer, fmt)
        return buffer.getvalue().decode()


def _restore(
    columns: list[str], rows: list[Row], terms: list[Terms] | None, settings: dict[str, Any], note: str = ""
) -> Answer:
    """Restore an answer from a pickle."""
    answer = Answer(columns, rows, **settings)
    answer.note = note
    answer._terms = {id(row): (row, row_terms) for row, row_terms in zip(rows, terms or (), strict=False)}
    return answer


def _is_orderable(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and value != value)


_TYPE_ORDER: dict[type, int] = {bool: 0, int: 1, float: 1, Decimal: 1, timedelta: 2, date: 5, time: 6, str: 8}


def _sort_key(value: Any) -> tuple[int, Any]:
    """Return a sort key for values of any type: the type first, then the value."""
    if isinstance(value, str):
        return _TYPE_ORDER[str], str(value)
    if isinstance(value, datetime):
        return (3, value) if value.tzinfo is not None else (4, value)
    if isinstance(value, time):
        return (6, value) if value.tzinfo is None else (7, value.isoformat())
    rank = _TYPE_ORDER.get(value.__class__)
    return (9, str(value)) if rank is None else (rank, value)
