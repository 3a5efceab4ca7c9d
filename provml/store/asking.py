"""Questions by name: a query of the catalog, bound with values that may be the names that people use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from provml.answer import Answer, Curve, one_line
from provml.catalog import ENDLESS, Parameter, Query
from provml.errors import BrokenFile, BrokenQuery
from provml.store import naming

if TYPE_CHECKING:
    from provml.store.home import Store


def ask(
    store: Store, query: Query, values: Mapping[str, Any], timeout: float | None = None, service: bool = False
) -> Answer:
    """The answer to a question of the catalog."""
    given = _looked_up(store, query, values)
    sparql = query.bind(given)
    try:
        answer = store.query(sparql, sync=False, timeout=timeout, service=service)
    except BrokenQuery as error:
        raise BrokenQuery(error.reason, error.advice, file=str(query.path)) from error
    if not isinstance(answer, Answer):
        raise BrokenQuery("a question is a SELECT query, and this is another", file=str(query.path))
    if query.columns and set(query.columns) != set(answer.columns):
        reason = f"its header has the columns {', '.join(query.columns)}, and its SELECT {', '.join(answer.columns)}"
        raise BrokenFile(reason, "Let them be the same.", file=str(query.path))
    answer.types = query.columns
    if query.plot is not None:
        answer.curve = _curve(query, query.given(values))
    if not answer.rows or any(all(cell is None for cell in cells) for cells in zip(*answer.rows, strict=True)):
        said = query.given(values)
        naming.check(store, query, said)
        answer.note = missing = _not_there(store, query, said)
        if not answer.rows:
            answer.note = naming.unknown(store, query, given) or _asked_with(query, said, missing)
    return answer


def _asked_with(query: Query, values: Mapping[str, Any], missing: str) -> str:
    """The values that a question without an answer was asked with, also those that nobody gave, and what it needs."""
    words = [f"{name} {one_line(str(value))}" for name, value in values.items() if value is not None]
    words += [
        f"{name} {str(one.default).lower() if isinstance(one.default, bool) else one.default} (the default)"
        for name, one in query.params.items()
        if values.get(name) is None and one.default not in (None, ENDLESS)
    ]
    asked = f"It was asked with {', '.join(words)}." if words else ""
    needs = f"It needs {query.needs}." if query.needs else ""
    return " ".join(filter(None, (asked, missing, needs)))


def _not_there(store: Store, query: Query, values: Mapping[str, Any]) -> str:
    """What to say where a question takes a name by itself that nothing here has."""
    for name, one in query.params.items():
        if values.get(name) is None and isinstance(one.default, str) and one.names in naming.CALLED:
            names = naming.called(store, one.names)
            if names and one.default not in names:
                others = naming.near(one.default, names)
                return f"No {one.names} is called {one.default} here: give another as {name}, such as {others}."
    return ""


def _curve(query: Query, values: Mapping[str, Any]) -> Curve:
    """The curve that the question is; a parameter may say what it shows, such as the loss."""
    plot: Mapping[str, Any] = query.plot or {}
    named = plot["named"]
    called = (values.get(named) or query.params[named].default or "") if named else ""
    return Curve(plot["x"], tuple(plot["y"]), tuple(plot["by"]), str(called), plot["unit"])


def bound(store: Store, query: Query, values: Mapping[str, Any]) -> str:
    """The SPARQL that a question becomes; names are looked up in the store, which is synced first."""
    return query.bind(_looked_up(store, query, values))


def _looked_up(store: Store, query: Query, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with what names stand for."""
    store.sync()
    given = query.given(values)
    return {name: _found(store, query, query.params.get(name), value) for name, value in given.items()}


def _found(store: Store, query: Query, one: Parameter | None, value: Any) -> Any:
    """What a name stands for, where a parameter takes a node or a digest."""
    if one is None or value is None:
        return value
    if one.type == "iri":
        return naming.stands_for(store, query, one, value)
    return naming.whole_digest(store, query, one, value) if one.names == "content" else value
