"""The dataflow of a workflow: vertices are datasets with their attributes, and steps lead from one to the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import QueryParams

from provml.drawing import lineage_svg
from provml.drawing.graph import Edge, Graph, Node
from provml.drawing.text import single_line
from provml.errors import plural
from provml.store.lineage_walk import rows_about
from provml.web.viewer.links import with_query
from provml.web.viewer.viewer import Page, Viewer

MAX_LINES = 4
MAX_STATIC_FLOWS = 20
"""Workflows that the page of a static site shows."""
PLANS = """SELECT DISTINCT ?plan ?label {
  ?run provlake:wasDerivedFromWorkflow ?plan . ?plan rdfs:label ?label
} ORDER BY ?label"""
PLAN_OF_RUN = "SELECT ?node ?plan { ?node provlake:wasDerivedFromWorkflow ?plan }"
STEPS = """SELECT DISTINCT ?step ?label {
  { $plan provlake:hasDataTransformation ?step } UNION { $plan provml:hasLearningStage ?step }
  ?step rdfs:label ?label FILTER NOT EXISTS { ?step a provml:Adaptation }
} ORDER BY ?label"""
VERSIONS = (
    """SELECT DISTINCT ?version ?label { ?version prov:specializationOf $plan ; rdfs:label ?label } ORDER BY ?label"""
)
DECLARED = """SELECT DISTINCT ?step ?attribute ?label ?kind ?direction {
  { $plan provlake:hasDataTransformation ?step } UNION { $plan provml:hasLearningStage ?step }
  { ?step provlake:hasInputAttribute ?attribute BIND("in" AS ?direction) }
  UNION { ?step provlake:hasOutputAttribute ?attribute BIND("out" AS ?direction) }
  ?attribute rdfs:label ?label . OPTIONAL { ?attribute provlake:tag ?kind }
}"""
USED = """SELECT DISTINCT ?step ?attribute ?label ?kind {
  { $plan provlake:hasDataTransformation ?step } UNION { $plan provml:hasLearningStage ?step }
  ?execution provlake:wasDerivedFromDataTransformation ?step ; prov:used ?data .
  ?data a provlake:DataReference ; provlake:wasDerivedFromAttribute ?attribute .
  ?attribute rdfs:label ?label . OPTIONAL { ?attribute provlake:tag ?kind }
}"""
_STEP = "{ $plan provlake:hasDataTransformation ?step } UNION { $plan provml:hasLearningStage ?step }"
_ATTRIBUTE = "?attribute rdfs:label ?label . OPTIONAL { ?attribute provlake:tag ?kind }"
GENERATED = f"""SELECT ?step ?attribute ?label ?kind {{
  {{ SELECT DISTINCT ?step ?attribute {{
    {_STEP} ?execution provlake:wasDerivedFromDataTransformation ?step .
    ?node prov:wasGeneratedBy ?execution ; provlake:wasDerivedFromAttribute ?attribute
  }} }} {_ATTRIBUTE}
}}"""
GENERATED_IN_SECTIONS = GENERATED.replace(
    "?node prov:wasGeneratedBy ?execution ;",
    "?section provml:wasSectionOf ?execution . ?node prov:wasGeneratedBy ?section ;",
)
VALUES = """
SELECT (COUNT(?value) AS ?count) (MIN(?value) AS ?least) (MAX(?value) AS ?greatest) (SAMPLE(?value) AS ?sample) {
  ?node provlake:wasDerivedFromAttribute $attribute ; prov:value ?value
}"""
DATA_KINDS = ("Dataset", "Features", "Model", "File")


@dataclass
class DataSet:
    """A vertex: data or a model, or the settings or the measures of a step, with its attributes by IRI."""

    id: str
    title: str
    kind: str
    attributes: dict[str, str] = field(default_factory=dict)
    role: str = "intermediate"


@dataclass
class Dataflow:
    """The datasets of a workflow by id, its steps by IRI, and what each step takes and gives."""

    sets: dict[str, DataSet]
    steps: dict[str, str]
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]


def dataflow(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of a dataflow."""
    listed = plans(viewer)
    if not listed:
        return Page("dataflow.html", "Dataflow", {"plans": [], "pictures": []})
    if viewer.links.is_static:
        return _all_dataflows(viewer, listed)
    plan = params.get("plan") or listed[0][0]
    if plan not in dict(listed):
        plan = listed[0][0]
    chosen = params.get("set", "")
    versions = [(str(version), str(label)) for version, label in viewer.select(VERSIONS, plan=plan)]
    flows = [(label, load(viewer, iri)) for iri, label in versions] if len(versions) > 1 else [("", load(viewer, plan))]
    merged = {key: each for _, flow in flows for key, each in flow.sets.items()}
    context = {
        "plans": listed,
        "plan": plan,
        "plan_label": dict(listed)[plan],
        "pictures": [
            (label, draw(flow, lambda name: f"{_address(plan, name)}#attributes", (chosen,))) for label, flow in flows
        ],
        "sets": [(each, _address(plan, key)) for key, each in merged.items()],
        "chosen": merged.get(chosen),
        "attributes": [
            (label, iri, *viewer.select(VALUES, attribute=iri)[0])
            for iri, label in (merged[chosen].attributes.items() if chosen in merged else ())
        ],
    }
    return Page("dataflow.html", "Dataflow", context)


def _all_dataflows(viewer: Viewer, listed: list[tuple[str, str]]) -> Page:
    """Return one page with the dataflows of all workflows, and with the attributes of all datasets."""
    shown = {str(plan) for _, plan in rows_about(viewer.store, PLAN_OF_RUN, [info.iri for info in viewer.runs()])}
    listed = [(plan, label) for plan, label in listed if plan in shown][:MAX_STATIC_FLOWS]
    flows = [(label, load(viewer, plan)) for plan, label in listed]
    sets = [each for _, flow in flows for each in flow.sets.values()]
    context = {
        "plans": listed,
        "plan_label": flows[0][0] if len(flows) == 1 else plural(len(flows), "workflow"),
        "pictures": [(label if len(flows) > 1 else "", draw(flow, lambda name: "")) for label, flow in flows],
        "sets": [(each, "") for each in sets],
        "chosen": None,
    }
    return Page("dataflow.html", "Dataflow", context)


def _address(plan: str, name: str) -> str:
    return with_query("/dataflow", {"plan": plan, "set": name})


def load(viewer: Viewer, plan: str) -> Dataflow:
    """Return the dataflow of a plan, as it was declared and as its executions show it."""
    return viewer.cached(f"dataflow {plan}", lambda: _load(viewer, plan))


def plans(viewer: Viewer) -> list[tuple[str, str]]:
    """Return the plans with runs: their IRIs and labels."""
    return viewer.cached("plans", lambda: [(str(plan), str(label)) for plan, label in viewer.select(PLANS)])


def _load(viewer: Viewer, plan: str) -> Dataflow:
    steps = {str(step): str(label) for step, label in viewer.select(STEPS, plan=plan)}
    flow = Dataflow({}, steps, [], [])
    taken = [(*row[:4], row[4]) for row in viewer.select(DECLARED, plan=plan)]
    taken += [(*row, "in") for row in viewer.select(USED, plan=plan)]
    taken += [
        (*row, "out") for sparql in (GENERATED, GENERATED_IN_SECTIONS) for row in viewer.select(sparql, plan=plan)
    ]
    for step, attribute, label, kind, direction in taken:
        _add(flow, str(step), str(attribute), str(label), str(kind or ""), is_input=str(direction) == "in")
    sources, targets = {name for _, name in flow.outputs}, {name for _, name in flow.inputs}
    for name, each in flow.sets.items():
        is_made, is_used = name in sources, name in targets
        each.role = "intermediate" if is_made and is_used else "output" if is_made else "input"
    return flow


def _add(flow: Dataflow, step: str, attribute: str, label: str, kind: str, *, is_input: bool) -> None:
    """Add an attribute: data is a dataset of its own; parameters and measures are the datasets of their step."""
    if step not in flow.steps:
        return
    if kind in DATA_KINDS:
        key, title = attribute, label
    else:
        word = "settings" if is_input else "measures"
        key, title, kind = f"{step}#{word}", f"{flow.steps[step]} {word}", word
    each = flow.sets.setdefault(key, DataSet(key, title, kind.lower()))
    each.attributes[attribute] = label
    pairs = flow.inputs if is_input else flow.outputs
    if (step, key) not in pairs:
        pairs.append((step, key))


def draw(flow: Dataflow, link: Any, chosen: Collection[str] = ()) -> str:
    """Return the picture of a dataflow; `link` returns the address of a dataset. Chosen datasets stand out."""
    nodes = [
        Node(
            each.id,
            "entity",
            single_line(each.title),
            (f"{each.role} · {each.kind}", *_attribute_lines(each)),
            details="\n".join(map(single_line, [f"{each.role}: {each.title}", *each.attributes.values()])),
            is_start=each.id in chosen,
            iris=(each.id,),
            role=each.role,
        )
        for each in flow.sets.values()
    ]
    used = {step for step, _ in (*flow.inputs, *flow.outputs)}
    nodes += [Node(step, "activity", single_line(label)) for step, label in flow.steps.items() if step in used]
    edges = [Edge(step, name, "used") for step, name in flow.inputs]
    edges += [Edge(name, step, "wasGeneratedBy") for step, name in flow.outputs]
    graph = Graph("", "", tuple(nodes), tuple(_without_cycles(edges)))
    return lineage_svg.draw(graph, lambda node: link(node.id) if node.kind == "entity" else "")


def _attribute_lines(each: DataSet) -> Iterable[str]:
    if each.kind in ("dataset", "model", "features", "file"):
        return ()
    names = [single_line(label) for label in each.attributes.values()]
    lines = [", ".join(names[start : start + 3]) for start in range(0, len(names), 3)]
    return (*lines[:MAX_LINES], *(["…"] if len(lines) > MAX_LINES else []))


def _without_cycles(edges: list[Edge]) -> list[Edge]:
    """Return the edges without those from a node to itself."""
    return [edge for edge in edges if edge.later != edge.earlier]
