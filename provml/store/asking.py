"""Questions by name: a query of the catalog, bound with values that may be the names that people use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from provml.answer import Answer, Curve
from provml.catalog import Parameter, Query
from provml.errors import BrokenQuery
from provml.store import naming

if TYPE_CHECKING:
    from provml.store.home import Store


def ask(
    store: Store, query: Query, values: Mapping[str, Any], timeout: float | None = None, service: bool = False
) -> Answer:
    """The answer to a question of the catalog."""
    sparql = bound(store, query, values)
    try:
        answer = store.query(sparql, sync=False, timeout=timeout, service=service)
    except BrokenQuery as error:
        raise BrokenQuery(error.reason, error.advice, file=str(query.path)) from error
    if not isinstance(answer, Answer):
        raise BrokenQuery("a question is a SELECT query, and this is another", file=str(query.path))
    answer.types = query.columns
    if query.plot is not None:
        answer.curve = _curve(query, query.given(values))
    if any(all(cell is None for cell in cells) for cells in zip(*answer.rows, strict=True)) or not answer.rows:
        naming.check(store, query, query.given(values))
    return answer


def _curve(query: Query, values: Mapping[str, Any]) -> Curve:
    """The curve that the question is; a parameter may say what it shows, such as the loss."""
    plot: Mapping[str, Any] = query.plot or {}
    named = plot["named"]
    called = (values.get(named) or query.params[named].default or "") if named else ""
    return Curve(plot["x"], tuple(plot["y"]), tuple(plot["by"]), str(called), plot["unit"])


def bound(store: Store, query: Query, values: Mapping[str, Any]) -> str:
    """The SPARQL that a question becomes; names are looked up in the store, which is synced first."""
    store.sync()
    given = query.given(values)
    return query.bind({name: _found(store, query, query.params.get(name), value) for name, value in given.items()})


def _found(store: Store, query: Query, one: Parameter | None, value: Any) -> Any:
    """What a name stands for, where a parameter takes a node or a digest."""
    if one is None or value is None:
        return value
    if one.type == "iri":
        return naming.stands_for(store, query, one, value)
    return naming.whole_digest(store, query, one, value) if one.names == "content" else value
