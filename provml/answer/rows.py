"""An answer: rows of Python values, sorted, cut, and given in many ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, overload

from provml.answer import form, table
from provml.answer.curve import Curve, Curves
from provml.answer.table import Row
from provml.errors import WrongType

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import polars

    from provml.answer.form import Terms

SHOWN = 50
"""How many rows a notebook or a prompt shows; `print` shows them all."""


class Answer:
    """The rows of a question, in order, with the names of their columns.

    `curve` says which columns make a curve, and `types` what the columns hold, where the question tells. `is_graph`
    where the rows are the triples of CONSTRUCT or DESCRIBE. `note` says why there may be no rows, or
    nothing in a column.
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
        # The terms of rows that came from a graph, by the identity of the row, which is kept with them: rows may be
        # sorted, picked and added to, and each still knows its own.
        self._exact: dict[int, tuple[Row, Terms]] = {}

    @classmethod
    def from_terms(cls, columns: list[str], rows: Iterable[Terms]) -> Answer:
        """An answer of rows of RDF terms, which it keeps: a value alone does not say how its term was written."""
        from provml.rdf import value

        answer = cls(columns, [])
        for terms in rows:
            row = tuple([None if term is None else value(term) for term in terms])
            answer.rows.append(row)
            answer._exact[id(row)] = (row, terms)
        return answer

    def _with(self, rows: list[Row]) -> Answer:
        """The same with other rows."""
        other = Answer(self.columns, rows, curve=self.curve, types=self.types, is_graph=self.is_graph)
        other._exact = self._exact
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
        terms = self.terms() if self._exact else None
        return _restored, (self.columns, self.rows, terms, self.curve, dict(self.types), self.is_graph)

    def column(self, name: str) -> list[Any]:
        """The values of one column."""
        index = self._place(name)
        return [row[index] for row in self.rows]

    def _place(self, name: str) -> int:
        if name not in self.columns:
            raise KeyError(f"There is no column {name!r}. There is {', '.join(self.columns)}.")
        return self.columns.index(name)

    def sorted(self, by: str | Sequence[str], *, reverse: bool = False) -> Answer:
        """The same rows in the order of one or more columns.

        Values of different kinds stand kind by kind. NaN comes after all else, and what is missing comes last, also
        where the order is reversed.
        """
        rows = list(self.rows)
        for name in reversed([by] if isinstance(by, str) else list(by)):
            index = self._place(name)
            known = [row for row in rows if _is_known(row[index])]
            known.sort(key=lambda row: _rank(row[index]), reverse=reverse)
            strange = [row for row in rows if row[index] is not None and not _is_known(row[index])]
            rows = known + strange + [row for row in rows if row[index] is None]
        return self._with(rows)

    def terms(self) -> list[Terms]:
        """The rows as RDF terms (of pyoxigraph), just as the graph has them."""
        from provml.rdf import term

        return [
            self._exact[id(row)][1]
            if id(row) in self._exact
            else tuple(None if value is None else term(value) for value in row)
            for row in self.rows
        ]

    # ---- for people

    def __str__(self) -> str:
        return table.as_text(self.columns, self.rows)

    def __repr__(self) -> str:
        return table.as_text(self.columns, self.rows[:SHOWN], max(len(self.rows) - SHOWN, 0))

    def _repr_html_(self) -> str:
        return table.as_html(self.columns, self.rows[:SHOWN], max(len(self.rows) - SHOWN, 0))

    def plot(
        self,
        x: str | None = None,
        y: str | Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        *,
        ax: matplotlib.axes.Axes | None = None,
    ) -> matplotlib.axes.Axes:
        """Draw the curves of this answer with matplotlib, on axes of their own unless `ax` is given.

        Where the question is no curve, say which columns make one: `x`, one or more for `y`, and `by` which they are
        told apart.
        """
        from provml.answer.curve import draw

        return draw(self.curves(x, y, by), ax)

    def chart(self, width: int = 80, height: int = 17, *, ascii: bool = False) -> str:  # noqa: A002  # as `repr` has it
        """The curves of this answer drawn with characters."""
        from provml.answer.chart import draw

        return draw(self.curves(), width, height, plain=ascii)

    def curves(
        self, x: str | None = None, y: str | Sequence[str] | None = None, by: str | Sequence[str] | None = None
    ) -> Curves:
        """The points of the curves, for `plot` and `chart`."""
        from provml.answer.curve import curves

        return curves(self.columns, self.rows, self.curve, x, y, by)

    # ---- for programs

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame of pandas (`pip install 'provml[pandas]'`)."""
        from provml.answer import frame

        return frame.to_pandas(self.columns, self.rows, self.types)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a data frame of polars (`pip install 'provml[polars]'`)."""
        from provml.answer import frame

        return frame.to_polars(self.columns, self.rows, self.types)

    def to_csv(self) -> str:
        """The rows as CSV."""
        return form.as_csv(self.columns, self.rows)

    def to_tsv(self) -> str:
        """The rows as CSV with tabs."""
        return form.as_csv(self.columns, self.rows, "\t")

    def to_json(self) -> str:
        """The rows as a JSON list of objects."""
        return form.as_json(self.to_dicts())

    def to_sparql(self, as_: str = "json") -> str:
        """The rows in a result format of W3C's SPARQL 1.1 (json, xml, csv, tsv); all but csv have the exact terms."""
        return form.as_sparql(self.columns, self.terms(), as_)

    def to_rdf(self, as_: str = "ttl") -> str:
        """The triples of CONSTRUCT and DESCRIBE as RDF (ttl, nt, jsonld)."""
        if not self.is_graph:
            columns = f"the columns {', '.join(self.columns)}" if self.columns else "no columns"
            advice = "Ask by CONSTRUCT or DESCRIBE, or write these rows by to_sparql()."
            raise WrongType("Answer", "to_rdf", columns, "the triples of CONSTRUCT or DESCRIBE", advice)
        return form.as_rdf(self.terms(), as_)


def _restored(
    columns: list[str],
    rows: list[Row],
    terms: list[Terms] | None,
    curve: Curve | None,
    types: dict[str, str],
    is_graph: bool = False,
) -> Answer:
    """An answer from a pickle."""
    answer = Answer(columns, rows, curve=curve, types=types, is_graph=is_graph)
    answer._exact = {id(row): (row, exact) for row, exact in zip(rows, terms or (), strict=False)}
    return answer


def _is_known(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and value != value)


_ORDER: dict[type, int] = {bool: 0, int: 1, float: 1, Decimal: 1, timedelta: 2, date: 5, time: 6, str: 8}


def _rank(value: Any) -> tuple[int, Any]:
    """Where a value stands among values of any kind: by its kind, then by itself."""
    if isinstance(value, str):
        return _ORDER[str], str(value)
    if isinstance(value, datetime):
        return (3, value) if value.tzinfo is not None else (4, value)
    if isinstance(value, time):
        return (6, value) if value.tzinfo is None else (7, value.isoformat())
    kind = _ORDER.get(value.__class__)
    return (9, str(value)) if kind is None else (kind, value)
