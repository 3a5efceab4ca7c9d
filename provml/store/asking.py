"""Questions by name: a query of the catalog, bound with values that may be the names that people use."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from provml.answer import Answer, Curve
from provml.catalog import Parameter, Query
from provml.errors import NotAnIRI, WrongParameter
from provml.values import IRI

if TYPE_CHECKING:
    from provml.store.home import Store

MODELS = """
SELECT DISTINCT ?node ?name ?run ?began WHERE {
  ?node a provml:Model ; provlake:wasDerivedFromAttribute/rdfs:label ?name ; prov:wasGeneratedBy ?made .
  { ?made provlake:wasMemberOfWorkflowExecution ?run }
  UNION { ?made provml:wasSectionOf/provlake:wasMemberOfWorkflowExecution ?run }
  OPTIONAL { ?run prov:startedAtTime ?began }
} ORDER BY ?began ?run ?node"""
DATASETS = """
SELECT DISTINCT ?node ?name ?other WHERE {
  ?node a provml:LearningDataset ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL { { ?node provlake:sha256 ?other } UNION { ?node provlake:path ?other } }
}"""


def ask(store: Store, query: Query, values: Mapping[str, Any]) -> Answer:
    """The answer to a question of the catalog."""
    answer = store.query(bound(store, query, values), sync=False)
    if not isinstance(answer, Answer):
        raise TypeError(f"{query.id} is not a SELECT query")
    answer.types = query.columns
    if query.plot is not None:
        answer.curve = _curve(query, query.given(values))
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
    named = {
        name: _stands_for(store, query, query.params[name], value)
        if name in query.params and query.params[name].of and value is not None
        else value
        for name, value in query.given(values).items()
    }
    return query.bind(named)


def _stands_for(store: Store, query: Query, one: Parameter, value: Any) -> Any:
    """The IRI that a person's name stands for; an IRI stands for itself."""
    if isinstance(value, (list, tuple)):
        return [_stands_for(store, query, one, item) for item in value]
    if not isinstance(value, str) or isinstance(value, IRI):
        return value
    if ":" in value:
        try:
            return IRI(value)
        except NotAnIRI:
            pass
    if one.of == "run":
        return store.run(value).iri
    known = _models(store) if one.of == "model" else _datasets(store)
    found = {node for name, node in known if name == value}
    if not found:
        found = {node for name, node in known if len(value) > 3 and (name.startswith(value) or name.endswith(value))}
    if len(found) == 1:
        return found.pop()
    names = sorted({name for name, node in known if not found or node in found}, key=lambda n: (len(n) == 64, n))
    near = difflib.get_close_matches(value, names, 6, 0.3) or names[:6]
    advice = f"Say which: {', '.join(near)}." if near else f"There is no {one.of} here yet."
    expected = f"the name of one {one.of}" if not found else f"one {one.of} ({len(found)} are called so)"
    raise WrongParameter(query.id, one.name, value, expected, advice)


def _models(store: Store) -> list[tuple[str, IRI]]:
    """Models by name, and by name and run: alexnet, alexnet@20261116-…, alexnet@latest."""
    rows = store.query(MODELS, sync=False)
    names, latest = [], {}
    for node, name, run, _ in rows if isinstance(rows, Answer) else ():
        names += [(str(name), node), (f"{name}@{run.name}", node)]
        latest[f"{name}@latest"] = node
    return [*names, *latest.items()]


def _datasets(store: Store) -> list[tuple[str, IRI]]:
    """Datasets by name, by digest and by path."""
    rows = store.query(DATASETS, sync=False)
    names = []
    for node, name, other in rows if isinstance(rows, Answer) else ():
        names.append((str(name), node))
        if other is not None:
            names.append((str(other), node))
    return names
