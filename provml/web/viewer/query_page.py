"""SPARQL: an editor, and the result as a table, a chart or a graph. The query runs in a worker process."""

from __future__ import annotations

import shlex
import time
from typing import Any

import pyoxigraph as ox
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from provml.answers import Answer, format_cell
from provml.answers.plot import Columns
from provml.drawing import lineage_svg
from provml.drawing.graph import Edge, Graph, Node, NodeKind
from provml.drawing.text import single_line
from provml.errors import PlotError, ProvmlError
from provml.model.values import IRI
from provml.rdf.namespaces import MLS, PREFIXES, PROV, PROVLAKE, PROVML, RDF_TYPE
from provml.store import query_guard
from provml.store.ontology_terms import abbreviate, ontology_terms
from provml.web.negotiation import GRAPHS, RESULTS
from provml.web.problems import Problem
from provml.web.routing import service_of
from provml.web.viewer.links import EXAMPLE_ORIGIN, with_query
from provml.web.viewer.ontology_page import term_counts
from provml.web.viewer.render import MAX_STYLED_SERIES, charts
from provml.web.viewer.viewer import Page, Viewer

MAX_ROWS = 10_000
MAX_BYTES = 4 << 20
"""Of a longer result, the page shows the start; the downloads have all."""
MAX_GRAPH_TRIPLES = 400
MAX_USED = 2000
"""Classes and properties of the data that the editor completes."""
EXAMPLES = {
    "Runs and their status": """SELECT ?run ?status ?started {
  ?run a provml:LearningProcessExecution ; provlake:status ?status .
  OPTIONAL { ?run prov:startedAtTime ?started }
} ORDER BY DESC(?started)""",
    "Loss by epoch": """SELECT ?epoch ?loss ?training {
  ?section provml:wasSectionOf ?training ; provml:sectionIndex ?epoch .
  ?training a provml:TrainingExecution .
  ?measure prov:wasGeneratedBy ?section ; prov:value ?loss ;
           provlake:wasDerivedFromAttribute/rdfs:label "loss" .
} ORDER BY ?training ?epoch""",
    "Hyperparameters of trainings": """SELECT ?training ?name ?value {
  ?training a provml:TrainingExecution ; prov:used ?setting .
  ?setting a provml:LearningHyperparameterValue ; prov:value ?value ;
           provlake:wasDerivedFromAttribute/rdfs:label ?name .
} ORDER BY ?training ?name""",
    "What generated what": """CONSTRUCT { ?data prov:wasGeneratedBy ?step . ?step prov:used ?source } WHERE {
  ?data a provlake:DataReference ; prov:wasGeneratedBy ?step .
  ?step prov:used ?source . ?source a provlake:DataReference .
}""",
    "How often each class occurs": """SELECT ?class (COUNT(?node) AS ?count) {
  ?node a ?class
} GROUP BY ?class ORDER BY DESC(?count)""",
}


async def query_page(viewer: Viewer, request: Request) -> Page:
    """Return the editor, with the result of the query of the address."""
    params = request.query_params
    text = params.get("query", "")
    context: dict[str, Any] = {
        "text": text or next(iter(EXAMPLES.values())),
        "examples": [(title, with_query("/query", {"query": query})) for title, query in EXAMPLES.items()],
        "prefixes": PREFIXES,
        "completions": await run_in_threadpool(completions, viewer),
        "error": "",
        "line": 0,
        "answer": None,
        "outcome": None,
        "charts": [],
        "picture": "",
        "is_cut": False,
        "milliseconds": 0.0,
        "limits": service_of(request).limits,
        "downloads": [],
        "ways": [],
        "view": params.get("view", ""),
    }
    status = 200
    if text:
        try:
            context |= await _result(request, text)
        except (ProvmlError, Problem) as error:
            problem = Problem.of(error)
            context |= {"error": problem.detail, "line": problem.extra.get("line", 0)}
            status = problem.status
        context["ways"] = _ways(text)
    return Page("query.html", "SPARQL", context, status=status)


def completions(viewer: Viewer) -> list[str]:
    """Return what the editor completes: prefixes, and classes and properties of the ontology and of the data."""
    return viewer.cached("completions", lambda: _completions(viewer))


def _completions(viewer: Viewer) -> list[str]:
    own = {abbreviate(iri) for iri in ontology_terms() if iri.startswith((PROVML, PROVLAKE, PROV, MLS))}
    used = {abbreviate(iri) for iri in sorted(term_counts(viewer))[:MAX_USED]}
    names = sorted(own | used, key=lambda name: (name not in used, name))
    return [*(f"{prefix}:" for prefix in PREFIXES), *names]


async def _result(request: Request, text: str) -> dict[str, Any]:
    """Execute a query and return what the page shows of its result."""
    query_guard.check(text)
    service = service_of(request)
    await service.fresh(0.25)
    media_types = {"solutions": RESULTS["tsv"], "boolean": RESULTS["json"], "graph": GRAPHS["nt"]}
    began = time.perf_counter()
    pool_request = {
        "kind": "query",
        "text": text,
        "base": str(request.url.replace(query="", fragment="")),
        "prefixes": PREFIXES,
        "media_types": media_types,
    }
    data, is_cut = b"", False
    async with service.pool.execute(pool_request, text=text) as answer:
        async for piece in answer.pieces:
            data += piece
            if len(data) > MAX_BYTES:
                is_cut = True
                break
    result: dict[str, Any] = {"milliseconds": 1000 * (time.perf_counter() - began), "is_cut": is_cut}
    kind = answer.head["kind"]
    if kind == "boolean":
        return {**result, "outcome": b"true" in data}
    complete = data[: data.rfind(b"\n") + 1] if is_cut else data
    formats = RESULTS if kind == "solutions" else GRAPHS
    result["downloads"] = [(fmt, with_query("/sparql", {"query": text, "format": fmt})) for fmt in formats]
    return {**result, **await run_in_threadpool(_shown, kind, complete)}


def _shown(kind: str, data: bytes) -> dict[str, Any]:
    if kind == "graph":
        triples = [quad.triple for quad in ox.parse(data, format=ox.RdfFormat.N_TRIPLES)][:MAX_ROWS]
        rows = [(triple.subject, triple.predicate, triple.object) for triple in triples]
        answer = Answer.from_terms(["subject", "predicate", "object"], rows, is_graph=True)
        return {"answer": answer, "picture": _picture(triples) if 0 < len(triples) <= MAX_GRAPH_TRIPLES else ""}
    solutions: Any = ox.parse_query_results(data, format=ox.QueryResultsFormat.TSV)
    columns = [variable.value for variable in solutions.variables]
    terms = [tuple(solution) for _, solution in zip(range(MAX_ROWS), solutions, strict=False)]
    answer = Answer.from_terms(columns, terms)
    return {"answer": answer, "charts": _charts(answer)}


def _charts(answer: Answer) -> list[dict[str, Any]]:
    """Return the second column of numbers by the first, with a curve for each of a few values of another column."""
    columns = Columns(answer.columns, answer.rows)
    numbers = columns.plottable()
    if len(numbers) < 2 or len(answer.rows) < 2:
        return []
    others = [name for name in answer.columns if name not in numbers]
    by = next((name for name in others if 1 < len(set(map(str, columns.values(name)))) <= MAX_STYLED_SERIES), None)
    try:
        return charts([answer.curves(numbers[0], numbers[1], by)])
    except PlotError:
        return []


def _picture(triples: list[ox.Triple]) -> str:
    """Return triples as a graph; literals are lines of their node."""
    lines: dict[str, list[str]] = {}
    kinds: dict[str, NodeKind] = {}
    edges: list[Edge] = []
    for triple in triples:
        subject, predicate = str(getattr(triple.subject, "value", triple.subject)), triple.predicate.value
        lines.setdefault(subject, [])
        name = format_cell(IRI(predicate))
        if predicate == RDF_TYPE:
            words = {f"{PROV}Activity": "activity", f"{PROV}Agent": "agent"}
            kinds[subject] = words.get(str(getattr(triple.object, "value", "")), kinds.get(subject, "entity"))  # type: ignore[assignment]
        elif isinstance(triple.object, ox.NamedNode):
            lines.setdefault(triple.object.value, [])
            is_activity = name in ("prov:used", "prov:wasAssociatedWith")
            kinds.setdefault(
                subject if is_activity else triple.object.value if name == "prov:wasGeneratedBy" else "", "activity"
            )
            edges.append(Edge(subject, triple.object.value, name.rpartition(":")[2], name.rpartition(":")[2]))
        else:
            lines[subject].append(f"{name.rpartition(':')[2]} {single_line(str(getattr(triple.object, 'value', '')))}")
    nodes = [
        Node(iri, kinds.get(iri, "entity"), _name(iri), tuple(texts[:3]), details=iri, iris=(iri,))
        for iri, texts in lines.items()
    ]
    graph = Graph("", "", tuple(nodes), tuple(edge for edge in edges if edge.later != edge.earlier))
    return lineage_svg.draw(graph, lambda node: with_query("/nodes", {"iri": node.id}))


def _name(iri: str) -> str:
    text = single_line(format_cell(IRI(iri)) if ":" in iri else iri)
    return "/".join(text.split("/")[-2:])


def _ways(text: str) -> list[tuple[str, str]]:
    """Return the query in Python, on the command line and with curl."""
    header = 'curl -H "Authorization: Bearer $PROVML_READ_TOKEN" -H "Accept: text/csv"'
    data = f"--data-urlencode {shlex.quote(f'query={text}')}"
    return [
        ("Link to share", f"{EXAMPLE_ORIGIN}{with_query('/query', {'query': text})}"),
        ("Python", f'import provml\n\nwith provml.open() as store:\n    print(store.query("""{text}"""))'),
        ("Command line", f"provml query {shlex.quote(text)}"),
        ("curl", f"{header} \\\n  {data} {EXAMPLE_ORIGIN}/sparql"),
    ]
