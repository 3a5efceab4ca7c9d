"""The query builder: datasets of the dataflow, attributes to show, conditions and an order become SPARQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from provml.errors import ProvmlError
from provml.rdf.literals import format_literal
from provml.web.problems import Problem
from provml.web.viewer import dataflow_page
from provml.web.viewer.dataflow_page import DataSet
from provml.web.viewer.links import with_query
from provml.web.viewer.viewer import Page, Viewer

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "contains")
MAX_CONDITIONS = 8
DEFAULT_LIMIT, MAX_LIMIT = 100, 10_000
QUERY_SECONDS = 30.0
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")


@dataclass(frozen=True)
class Attribute:
    """An attribute that can be shown: its key in forms, its variable, and how it is read from an execution."""

    key: str
    iri: str
    label: str
    variable: str
    step: str
    kind: str


def build(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of the query builder."""
    plans = dataflow_page.plans(viewer)
    if not plans:
        return Page("build.html", "Build", {"plans": []})
    plan = params.get("plan", "")
    plan = plan if plan in dict(plans) else plans[0][0]
    flow = dataflow_page.load(viewer, plan)
    chosen_sets = params.getlist("set")
    attributes = _attributes(flow)
    shown = [attributes[key] for key in params.getlist("show") if key in attributes]
    conditions = _conditions(params, attributes)
    sparql = to_sparql(plan, shown, conditions, attributes.get(params.get("order", "")), params) if shown else ""
    context: dict[str, Any] = {
        "plans": plans,
        "plan": plan,
        "sets": [(each, _attributes_of(each, attributes)) for each in flow.sets.values() if _is_readable(each)],
        "chosen_sets": chosen_sets,
        "picture": dataflow_page.draw(
            flow, lambda name: with_query("/build", _toggled(params, plan, name)) + "#attributes", chosen_sets
        ),
        "attributes": list(attributes.values()),
        "shown": {attribute.key for attribute in shown},
        "conditions": _condition_rows(params),
        "can_add": len(_condition_rows(params)) < MAX_CONDITIONS,
        "operators": OPERATORS,
        "order": params.get("order", ""),
        "descending": params.get("desc") == "1",
        "limit": params.get("limit", str(DEFAULT_LIMIT)),
        "sparql": sparql,
        "editor": with_query("/query", {"query": sparql}) if sparql else "",
        "answer": None,
        "error": "",
        "state": urlencode([pair for pair in params.multi_items() if pair[0] != "name"]),
    }
    if sparql and params.get("run") == "1":
        try:
            context["answer"] = viewer.store.query(sparql, timeout=QUERY_SECONDS)
        except ProvmlError as error:
            context["error"] = str(error)
    return Page("build.html", "Build", context)


def save(viewer: Viewer, fields: QueryParams) -> str:
    """Save a built query as a question of the home, and return its address."""
    name, summary = fields.get("name", "").strip(), " ".join(fields.get("summary", "").split())
    if not NAME.fullmatch(name):
        raise Problem(400, "InvalidForm", "A name has small letters, digits and hyphens, such as best-by-dropout.")
    if name in viewer.store.catalog:
        raise Problem(409, "NameTaken", f"A question has the name {name!r} already. Choose another one.")
    params = QueryParams(fields.get("state", ""))
    page = build(viewer, params)
    sparql = page.context.get("sparql", "")
    if not sparql:
        raise Problem(400, "InvalidForm", "Choose attributes to show first.")
    folder = viewer.store.home / "queries"
    folder.mkdir(exist_ok=True)
    header = f"#+ name: {name}\n#+ summary: {format_literal(summary or name)}\n"
    (folder / f"{name}.rq").write_text(f"{header}{sparql}\n", encoding="utf-8")
    viewer.store.reload_catalog()
    return viewer.links.question(name)


def _toggled(params: QueryParams, plan: str, name: str) -> dict[str, Any]:
    sets = params.getlist("set")
    sets = [each for each in sets if each != name] if name in sets else [*sets, name]
    others = {key: params.getlist(key) for key in ("show", "where", "op", "value", "order", "desc", "limit", "rows")}
    return {"plan": plan, "set": sets, **others}


def _is_readable(each: DataSet) -> bool:
    return bool(each.attributes)


def _attributes(flow: dataflow_page.Dataflow) -> dict[str, Attribute]:
    """Return all attributes by key, each with a variable of its own."""
    attributes: dict[str, Attribute] = {}
    variables: set[str] = set()
    makers = {name: step for step, name in (*flow.inputs, *flow.outputs)}
    for number, (name, each) in enumerate(flow.sets.items()):
        step = makers[name]
        for position, (iri, label) in enumerate(each.attributes.items()):
            base = re.sub(r"\W+", "_", label).strip("_") or "value"
            base = f"{re.sub(r'W+', '_', flow.steps[step])}_{base}" if base in variables else base
            variable = re.sub(r"\W+", "_", base)
            while variable in variables or variable == "run":
                variable += "_"
            variables.add(variable)
            key = f"{number}.{position}"
            attributes[key] = Attribute(key, iri, label, variable, step, each.kind)
    return attributes


def _attributes_of(each: DataSet, attributes: dict[str, Attribute]) -> list[Attribute]:
    return [item for item in attributes.values() if item.iri in each.attributes and _belongs(item, each)]


def _belongs(item: Attribute, each: DataSet) -> bool:
    return item.kind == each.kind and (each.id == item.iri or each.id.startswith(f"{item.step}#"))


def _condition_fields(params: QueryParams) -> list[tuple[str, str, str]]:
    names, operators, values = (params.getlist(key) for key in ("where", "op", "value"))
    fields = list(zip(names, operators, values, strict=False))
    return [(name, operator, value) for name, operator, value in fields if name and value.strip()]


def _condition_rows(params: QueryParams) -> list[tuple[str, str, str]]:
    """Return the conditions of the form, with an empty one at least, or as many as were asked for."""
    fields = _condition_fields(params)
    text = params.get("rows", "")
    count = max(int(text) if text.isdecimal() and len(text) < 3 else 1, len(fields) + (not fields))
    return [*fields, *[("", "=", "")] * count][: min(count, MAX_CONDITIONS)]


def _conditions(params: QueryParams, attributes: dict[str, Attribute]) -> list[tuple[Attribute, str, str]]:
    return [
        (attributes[name], operator, value.strip())
        for name, operator, value in _condition_fields(params)
        if name in attributes and operator in OPERATORS
    ]


def to_sparql(
    plan: str,
    shown: list[Attribute],
    conditions: list[tuple[Attribute, str, str]],
    order: Attribute | None,
    params: QueryParams,
) -> str:
    """Return the query: a row for each run of the plan and each combination of values."""
    needed = list(dict.fromkeys([*shown, *(attribute for attribute, *_ in conditions), *([order] if order else [])]))
    steps = {step: f"?step{number}" for number, step in enumerate(dict.fromkeys(item.step for item in needed), 1)}
    lines = [f"  ?run provlake:wasDerivedFromWorkflow <{plan}> ."]
    for step, variable in steps.items():
        lines.append(f"  {variable} provlake:wasMemberOfWorkflowExecution ?run ;")
        lines.append(f"    provlake:wasDerivedFromDataTransformation <{step}> .")
    for item in needed:
        lines += _pattern(item, steps[item.step])
    for attribute, operator, value in conditions:
        lines.append(f"  FILTER({_condition(attribute.variable, operator, value)})")
    text = params.get("limit", "")
    limit = min(int(text), MAX_LIMIT) if text.isdecimal() and len(text) < 9 and int(text) else DEFAULT_LIMIT
    columns = " ".join(f"?{item.variable}" for item in shown)
    sort = (
        f" ORDER BY {'DESC' if params.get('desc') == '1' else 'ASC'}(?{order.variable})" if order else " ORDER BY ?run"
    )
    return "\n".join([f"SELECT DISTINCT ?run {columns} WHERE {{", *lines, f"}}{sort} LIMIT {limit}"])


def _pattern(item: Attribute, step: str) -> list[str]:
    node = f"?{item.variable}_node"
    if item.kind == "measures":
        return [
            f"  {{ {node} prov:wasGeneratedBy {step} }} UNION {{ {step} provml:latestEvaluation {node} }}",
            f"  {node} provlake:wasDerivedFromAttribute <{item.iri}> ; prov:value ?{item.variable} .",
        ]
    if item.kind == "settings":
        return [
            f"  {step} prov:used {node} .",
            f"  {node} provlake:wasDerivedFromAttribute <{item.iri}> ; prov:value ?{item.variable} .",
        ]
    return [
        f"  {{ {step} prov:used ?{item.variable} }} UNION {{ ?{item.variable} prov:wasGeneratedBy {step} }}",
        f"  ?{item.variable} provlake:wasDerivedFromAttribute <{item.iri}> .",
    ]


def _condition(variable: str, operator: str, value: str) -> str:
    if operator == "contains":
        return f"CONTAINS(LCASE(STR(?{variable})), {format_literal(value.lower())})"
    term = value if NUMBER.fullmatch(value) else value.lower() if value.lower() in ("true", "false") else ""
    return f"?{variable} {operator} {term}" if term else f"STR(?{variable}) {operator} {format_literal(value)}"
