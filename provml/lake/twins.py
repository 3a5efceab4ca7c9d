"""Questions of the catalog that have an SQL twin, and the conversion of its rows to an answer.

A twin is `sql/<name of the question>.sql`. It has the parameters and the columns of the question; a column whose values
may be of any type is three, `value__number`, `value__text` and `value__type`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from provml.answers import Answer
from provml.catalog import Catalog, Query
from provml.errors import QueryError
from provml.lake.names import LakeNames, Select
from provml.lake.values import from_columns
from provml.model.values import IRI
from provml.store import questions

FOLDER = Path(__file__).with_name("sql")
RUN_TABLE = "runs"
"""Name of the table of runs among the questions: `lake.table()`."""


@cache
def twins() -> Mapping[str, str]:
    """Return the SQL of each question that has a twin, by the name of the question."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.sql"))}


def find_twin(catalog: Catalog, question: str | Query) -> tuple[Query, str]:
    """Return a question and its SQL; raise QueryNotFound, or QueryError if it has no twin."""
    query = question if isinstance(question, Query) else catalog[question]
    sql = twins().get(query.name) if query.is_packaged else None
    if sql is None:
        names = ", ".join(f"{name} ({', '.join(catalog[name].aliases)})" for name in twins())
        advice = f"Ask the store of a home, or one of these questions: {names}."
        raise QueryError(f"the question {query.name} has no SQL twin for a lake", advice)
    return query, sql


def ask(select_rows: Any, select: Select, query: Query, sql: str, values: Mapping[str, Any]) -> Answer:
    """Return the answer to a question. `select_rows` returns columns and rows, `select` only rows."""
    names = LakeNames(select)
    args = query.normalize(values)
    bound = questions._resolve_all(names, query, args)
    query.bind(bound)  # checks names and types of the values
    params = {
        name: _plain(param.default if bound.get(name) is None else bound[name]) for name, param in query.params.items()
    }
    answer = to_answer(query, *select_rows(sql, params))
    if query.plot is not None:
        answer.curve = questions._curve(query, args)
    if not answer.rows or any(all(cell is None for cell in cells) for cells in zip(*answer.rows, strict=True)):
        answer.note = questions._explain_empty(names, query, args, bound, has_rows=bool(answer.rows))
    return answer


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


def to_answer(query: Query, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Answer:
    """Return rows as the answer to a question: nodes are IRIs, and values have their own types."""
    by_name = dict(zip(columns, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(columns, ())
    values: list[Sequence[Any]] = []
    for name, kind in query.columns.items():
        if name in by_name:
            values.append(_as_iris(by_name[name]) if kind == "iri" else by_name[name])
        else:
            numbers, texts, kinds = (by_name[f"{name}__{part}"] for part in ("number", "text", "type"))
            is_plain = set(kinds) <= {"double"} and None not in numbers
            values.append(numbers if is_plain else list(map(from_columns, numbers, texts, kinds)))
    return Answer(list(query.columns), list(zip(*values, strict=True)), types=query.columns)


def _as_iris(texts: Sequence[str | None]) -> list[IRI | None]:
    nodes = {text: IRI(text) for text in set(texts) if text is not None}
    return [None if text is None else nodes[text] for text in texts]
