"""Answer questions of the catalog: resolve names, bind parameters, execute, and explain an empty answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provml.answers import Answer, Curve, single_line
from provml.catalog import UNLIMITED, Parameter, Query
from provml.errors import FileFormatError, QueryError
from provml.store import name_lookup, query_terms
from provml.store.name_lookup import Queryable


def ask(
    store: Queryable, query: Query, values: Mapping[str, Any], timeout: float | None = None, *, service: bool = False
) -> Answer:
    """Return the answer to a question. The store must be in sync."""
    dialect = store.backend.dialect
    if query.is_packaged and query.name in dialect.unanswered:
        raise QueryError(f"{dialect.title} does not answer {query.name} correctly", "Ask another engine, or a home.")
    args = query.normalize(values)
    bound = _resolve_all(store, query, args)
    sparql = query.bind(bound)
    try:
        answer = _answer(store, sparql, timeout, service=service)
    except QueryError as error:
        raise error.in_file(str(query.path)) from error
    if not isinstance(answer, Answer):
        raise QueryError("a question has to be a SELECT query", file=str(query.path))
    if query.columns and set(query.columns) != set(answer.columns):
        reason = f"the header has the columns {', '.join(query.columns)}, but SELECT has {', '.join(answer.columns)}"
        raise FileFormatError(reason, "Make them the same.", file=str(query.path))
    answer.types = query.columns
    if query.plot is not None:
        answer.curve = _curve(query, args)
    notes = [] if query.is_packaged else [query_terms.note_on_unknown_terms(sparql, store.backend)]
    if not answer.rows or any(all(cell is None for cell in cells) for cells in zip(*answer.rows, strict=True)):
        notes.append(_explain_empty(store, query, args, bound, has_rows=bool(answer.rows)))
    answer.note = " ".join(filter(None, notes))
    return answer


def _answer(store: Queryable, sparql: str, timeout: float | None, *, service: bool) -> Answer | bool:
    """Execute a query as rewritten for the engine; an invalid one as it is, so that the error shows its own text."""
    rewritten = store.backend.dialect.rewrite_question(sparql)
    if rewritten != sparql:
        try:
            return store._answer(rewritten, sync=False, timeout=timeout, service=service)
        except QueryError as error:
            if error.line is None:  # no syntax error
                raise
    return store._answer(sparql, sync=False, timeout=timeout, service=service)


def bind(store: Queryable, query: Query, values: Mapping[str, Any]) -> str:
    """Return the SPARQL of a question with names resolved. The store must be in sync."""
    return query.bind(_resolve_all(store, query, query.normalize(values)))


def _resolve_all(store: Queryable, query: Query, args: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve the names among the values; a model that is not passed is the only one of the home."""
    missing = [param for name, param in query.params.items() if param.required and args.get(name) is None]
    defaults = {param.name: name_lookup.only_choice(store, query, param) for param in missing}
    args = {**args, **{name: value for name, value in defaults.items() if value is not None}}
    return {name: _resolve(store, query, query.params.get(name), value) for name, value in args.items()}


def _resolve(store: Queryable, query: Query, param: Parameter | None, value: Any) -> Any:
    """Resolve a name if the parameter takes a node or a digest."""
    if param is None or value is None:
        return value
    if param.type == "iri":
        return name_lookup.resolve(store, query, param, value)
    return name_lookup.complete_digest(store, query, param, value) if param.name_kind == "content" else value


def _explain_empty(
    store: Queryable, query: Query, args: Mapping[str, Any], bound: Mapping[str, Any], *, has_rows: bool
) -> str:
    """Return a note on an answer without rows, or with an empty column; raise an error for a misspelt name."""
    name_lookup.check_names(store, query, args)
    note = _unknown_default(store, query, args)
    if has_rows:
        return note
    return name_lookup.explain_missing(store, query, bound) or _describe_args(query, args, note)


def _describe_args(query: Query, args: Mapping[str, Any], note: str) -> str:
    """Return the values of all parameters, also of those with a default, and what the question needs."""
    words = [f"{name} {single_line(str(value))}" for name, value in args.items() if value is not None]
    words += [
        f"{name} {str(param.default).lower() if isinstance(param.default, bool) else param.default} (the default)"
        for name, param in query.params.items()
        if args.get(name) is None and param.default not in (None, UNLIMITED)
    ]
    parameters = f"The parameters were {', '.join(words)}." if words else ""
    needs = f"The question needs {query.needs}." if query.needs else ""
    return " ".join(filter(None, (parameters, note, needs)))


def _unknown_default(store: Queryable, query: Query, args: Mapping[str, Any]) -> str:
    """Return a note about a default that is not the name of anything here."""
    for name, param in query.params.items():
        if args.get(name) is None and isinstance(param.default, str) and param.name_kind in name_lookup.NAME_QUERIES:
            names = name_lookup.names_of(store, param.name_kind)
            if names and param.default not in names:
                others = name_lookup.suggest(param.default, names)
                return f"No {param.name_kind} named {param.default!r} (the default): pass {name}, for example {others}."
    return ""


def _curve(query: Query, args: Mapping[str, Any]) -> Curve:
    """Return the curve of a question; a parameter may name what y is, such as the loss."""
    plot: Mapping[str, Any] = query.plot or {}
    named = plot["named"]
    label = (args.get(named) or query.params[named].default or "") if named else ""
    return Curve(plot["x"], tuple(plot["y"]), tuple(plot["by"]), str(label), plot["unit"])
