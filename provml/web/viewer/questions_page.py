"""Questions: the catalog by intent, a form made from the declared parameters, and the answer in many ways."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import QueryParams
from starlette.responses import Response

from provml.answers import Answer
from provml.catalog import INTENTS, UNLIMITED, USER_INTENT, Parameter, Query
from provml.errors import InvalidParameter, PlotError, ProvmlError
from provml.store import name_lookup
from provml.web.problems import Problem
from provml.web.viewer.links import EXAMPLE_ORIGIN
from provml.web.viewer.render import charts
from provml.web.viewer.viewer import Page, Viewer

MAX_CHOICES = 200
USER_SECONDS = 30.0
"""Time that a question of a user may take; it runs in a process of its own."""
FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "json": "application/json",
}


def questions(viewer: Viewer, params: QueryParams) -> Page:
    """Return the list of the questions."""
    return Page("questions.html", "Questions", {"groups": catalog_groups(viewer), "query": None})


def catalog_groups(viewer: Viewer) -> list[tuple[str, list[Query]]]:
    """Return the questions by intent."""
    catalog = viewer.store.catalog
    queries = [catalog[name] for name in catalog]
    groups = [(intent, [query for query in queries if query.intent == intent]) for intent in (*INTENTS, USER_INTENT)]
    return [(intent, members) for intent, members in groups if members]


def question(viewer: Viewer, params: QueryParams, name: str) -> Page | Response:
    """Return the page of a question with its answer, or the answer in a format."""
    query = viewer.store.catalog[name]
    values = _values(query, params)
    missing = [param.name for param in query.params.values() if param.required and param.name not in values]
    for param_name in missing:
        with contextlib.suppress(InvalidParameter):  # several names: the form lets the reader choose
            only = name_lookup.only_choice(viewer.store, query, query.params[param_name])
            if only is not None:
                values[param_name] = only
    is_complete = viewer.shows_all and all(param_name in values for param_name in missing)
    context: dict[str, Any] = {
        "groups": catalog_groups(viewer),
        "query": query,
        "fields": [_field(viewer, param, values.get(param.name)) for param in query.params.values()],
        "answer": None,
        "shows_all": viewer.shows_all,
        "error": "",
        "charts": [],
        "sparql": query.text,
        "ways": _ways(viewer, query, values),
        "downloads": [],
    }
    if is_complete:
        try:
            answer, context["sparql"] = _ask(viewer, query, values)
        except ProvmlError as error:
            context["error"] = str(error)
            return Page("questions.html", query.name, context, status=400)
        fmt = "" if "format" in query.params else params.get("format", "")
        if fmt:
            return download(answer, fmt, query.name)
        context |= {"answer": answer, "charts": _charts(answer)}
        if not viewer.links.is_static:
            shown = {name: value for name, value in values.items() if not isinstance(value, list) or value}
            context["downloads"] = [(fmt, viewer.links.question(query.name, **shown, format=fmt)) for fmt in FORMATS]
    return Page("questions.html", query.name, context)


def download(answer: Answer, fmt: str, name: str) -> Response:
    """Return an answer as a file."""
    if fmt not in FORMATS:
        raise Problem(400, "UnknownFormat", f"No format {fmt[:50]!r} here. Use one of {', '.join(FORMATS)}.")
    text = {"csv": answer.to_csv, "tsv": answer.to_tsv, "json": answer.to_json}[fmt]()
    file_name = re.sub("[^A-Za-z0-9._-]", "-", name)[:80]
    headers = {"Content-Disposition": f'attachment; filename="{file_name}.{fmt}"'}
    return Response(text, 200, headers, FORMATS[fmt])


def _values(query: Query, params: QueryParams) -> dict[str, Any]:
    """Return the values of an address by parameter; empty fields count as not filled in."""
    values: dict[str, Any] = {}
    for name, param in query.params.items():
        texts = [text.strip() for text in params.getlist(name) if text.strip()]
        if texts:
            values[name] = [param.from_text(text) for text in texts] if param.multiple else param.from_text(texts[-1])
    return values


def _field(viewer: Viewer, param: Parameter, value: Any) -> dict[str, Any]:
    """Return a field of the form."""
    default = "" if param.default is None or param.default == UNLIMITED else param.default
    values = value if isinstance(value, list) else [value] if value is not None else []
    return {
        "param": param,
        "values": [*values, ""] if param.multiple else [values[0] if values else ""],
        "placeholder": str(default if default != "" else param.example or ""),
        "choices": _choices(viewer, param),
    }


def _choices(viewer: Viewer, param: Parameter) -> list[str]:
    """Return the names that exist for a parameter."""
    if param.node_kind == "run":
        return viewer.latest_ids(MAX_CHOICES)
    if param.node_kind:
        kind = param.node_kind
        return viewer.cached(f"{kind} names", lambda: name_lookup.node_names(viewer.store, kind))[:MAX_CHOICES]
    if param.name_kind in name_lookup.NAME_QUERIES:
        kind = param.name_kind
        return viewer.cached(f"names of {kind}", lambda: name_lookup.names_of(viewer.store, kind))[:MAX_CHOICES]
    return ["true", "false"] if param.type == "boolean" else []


def _ask(viewer: Viewer, query: Query, values: Mapping[str, Any]) -> tuple[Answer, str]:
    """Return the answer and its SPARQL."""

    def ask() -> tuple[Answer, str]:
        answer = viewer.store.ask(query, timeout=None if query.is_packaged else USER_SECONDS, **values)
        return answer, viewer.store.sparql(query, **values)

    return viewer.cached_answer(f"{query.name} {query.text} {sorted(values.items())}", ask)


def _charts(answer: Answer) -> list[dict[str, Any]]:
    if answer.curve is None or not answer.rows:
        return []
    try:
        return charts([answer.curves()])
    except PlotError:
        return []


def _ways(viewer: Viewer, query: Query, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the question in Python, on the command line, with curl and as an address."""
    arguments = "".join(f", {name}={value!r}" for name, value in values.items())
    options = [
        f"--{name.replace('_', '-')} {shlex.quote(str(item))}"
        for name, value in values.items()
        for item in (value if isinstance(value, list) else [value])
    ]
    address = viewer.links.question(query.name, **values)
    header, sign = 'curl -H "Authorization: Bearer $PROVML_READ_TOKEN"', "&" if "?" in address else "?"
    return [
        ("Python", f"import provml\n\nwith provml.open() as store:\n    print(store.ask({query.name!r}{arguments}))"),
        ("Command line", " ".join(["provml ask", query.name, *options])),
        ("curl", f"{header} \\\n  '{EXAMPLE_ORIGIN}{address}{sign}format=csv'"),
        ("URL", f"{EXAMPLE_ORIGIN}{address}"),
    ]
