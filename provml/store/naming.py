"""Names that people use: which node a name stands for, and whether anything is called so."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from provml.answer import Answer, one_line
from provml.catalog import Parameter, Query
from provml.errors import NoSuchRun, NotAnIRI, WrongParameter
from provml.run import find
from provml.values import IRI

if TYPE_CHECKING:
    from provml.store.home import Store

DIGEST = re.compile("[0-9a-f]{64}")
SHOWN = 6
"""How many names an error lists."""
OURS = "https://w3id.org/provml/"
"""What a table leaves out of the names of nodes."""

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
  FILTER NOT EXISTS { ?node prov:specializationOf ?content }
  OPTIONAL { { ?node provlake:sha256 ?other } UNION { ?node provlake:path ?other } }
}"""
RUNS = """
SELECT DISTINCT ?run WHERE {
  ?it prov:specializationOf? $node .
  { ?step prov:used ?it } UNION { ?it prov:wasGeneratedBy ?step }
  { ?step provlake:wasMemberOfWorkflowExecution ?run }
  UNION { ?step provml:wasSectionOf/provlake:wasMemberOfWorkflowExecution ?run }
} ORDER BY ?run LIMIT 3"""
CALLED = {
    "model": "SELECT DISTINCT ?name { ?one a provml:ModelProspection ; rdfs:label ?name }",
    "measure": "SELECT DISTINCT ?name { ?one a provml:EvaluationMeasure ; rdfs:label ?name }",
    "hyperparameter": "SELECT DISTINCT ?name { ?one a provml:LearningHyperparameter ; rdfs:label ?name }",
    "person": "SELECT DISTINCT ?name { ?one a provml:Persona ; rdfs:label ?name }",
    "content": "SELECT DISTINCT ?name { ?one provlake:sha256 ?name }",
}
"""What a text can be the name of."""
Known = dict[str, set[IRI]]


def stands_for(store: Store, query: Query, one: Parameter, value: Any) -> Any:
    """The IRI that a person's name stands for; an IRI stands for itself, and so does what has one, such as a run."""
    if isinstance(value, (list, tuple)):
        return [stands_for(store, query, one, item) for item in value]
    if isinstance(iri := getattr(value, "iri", None), IRI):
        return iri
    if not isinstance(value, str) or isinstance(value, IRI):
        return value
    if one.of == "run":
        return _iri(value) or store.run(value).iri
    known: Known = {}
    for look in (_models, _datasets) if not one.of else (_models,) if one.of == "model" else (_datasets,):
        for name, nodes in look(store).items():
            known.setdefault(name, set()).update(nodes)
    found = known.get(value, set())
    if not found and (node := _node(store, value)) is not None:
        return node
    if not found and "@" in value:
        found = _of_run(known, value)
    if not found and not one.of:
        try:
            return store.run(value).iri
        except NoSuchRun:
            pass
    if not found and len(value) > 3:
        like = [name for name in known if name.startswith(value) or name.endswith(f"/{value}")]
        found = set().union(*(known[name] for name in like))
    if len(found) == 1:
        return next(iter(found))
    what = one.of or "model, dataset or run"
    expected = f"one {what} ({len(found)} are called so)" if found else f"the name of one {what}"
    sure = [name for name, nodes in known.items() if len(nodes) == 1 and (not found or nodes <= found)]
    if found:
        sure.reverse()
        sure.sort(key=_is_digest)
        told = {name: _runs_of(store, *known[name]) for name in sure[:SHOWN] if _is_digest(name)}
        said = listed(sure, told)
        if any(len(nodes) == 1 and name.startswith(f"{value}@") for name, nodes in known.items()):
            said += "; each is the last model that its run told under that name"
    else:  # a name alone is what people look for
        sure = [name for name in sure if "@" not in name or name.partition("@")[0] not in sure]
        said = near(value, sure)
    advice = f"Say which: {said}." if sure else f"There is no {what} here yet."
    raise WrongParameter(query.id, one.name, value, expected, advice)


def near(value: str, names: Iterable[str]) -> str:
    """The names that are like one, or the first of them; digests come last."""
    ordered = sorted(names, key=lambda name: (_is_digest(name), name))
    like = difflib.get_close_matches(value, ordered, SHOWN, 0.3)
    return listed(like + [name for name in ordered if name not in like])


def listed(names: list[str], told: Mapping[str, str] | None = None) -> str:
    """The first of some names, with what is `told` of them and how many more there are; digests are cut."""
    short = [(name[:12] if _is_digest(name) else one_line(name)) + (told or {}).get(name, "") for name in names]
    more = len(short) - SHOWN
    return ", ".join(short[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _is_digest(name: str) -> bool:
    return DIGEST.fullmatch(name) is not None


def _runs_of(store: Store, node: IRI) -> str:
    """In which runs a dataset was, where that tells it from others of its name."""
    rows = store.query(RUNS.replace("$node", f"<{node}>"), sync=False)
    runs = [run.name for (run,) in rows] if isinstance(rows, Answer) else []
    return f" (in {', '.join(runs[:2])}{', …' if len(runs) > 2 else ''})" if runs else ""


def check(store: Store, query: Query, values: dict[str, Any]) -> None:
    """Refuse a text that is the name of nothing, where other things of that kind have names: it is misspelt."""
    for name, value in values.items():
        one = query.params.get(name)
        if one is None or one.names not in CALLED or not isinstance(value, str):
            continue
        names = called(store, one.names)
        begins = one.names == "content" and any(name.startswith(value.lower()) for name in names)
        if names and value not in names and not begins:
            advice = f"There is {near(value, names)}."
            raise WrongParameter(query.id, name, value, f"the name of a {one.names} that there is", advice)


def unknown(store: Store, query: Query, values: Mapping[str, Any]) -> str:
    """What to say of IRIs that nothing here has: they are no names, so they are not looked up."""
    for name, value in values.items():
        for iri in value if isinstance(value, (list, tuple)) else [value]:
            node = _iri(iri) if isinstance(iri, str) and query.params[name].type == "iri" else None
            if node is not None and not store.query(
                f"ASK {{ {{ <{node}> ?p ?o }} UNION {{ ?s ?p <{node}> }} }}", sync=False
            ):
                return f"Nothing here has the IRI {node}, which {name} is."
    return ""


def whole_digest(store: Store, query: Query, one: Parameter, value: Any) -> Any:
    """The digest that begins so; one that is whole stands for itself."""
    if not isinstance(value, str):
        return value
    if not value:
        raise WrongParameter(query.id, one.name, value, "a digest", "Give it, or its first digits.")
    value = value.lower()
    if len(value) >= 64:
        return value
    begun = [name for name in called(store, "content") if name.startswith(value)]
    if len(begun) > 1:
        advice = f"Give more digits: {near(value, begun)}."
        raise WrongParameter(query.id, one.name, value, f"one digest ({len(begun)} begin so)", advice)
    return begun[0] if begun else value


def called(store: Store, kind: str) -> list[str]:
    """What things of a kind are called."""
    rows = store.query(CALLED[kind], sync=False)
    return sorted(str(name) for (name,) in rows) if isinstance(rows, Answer) else []


def _iri(value: str) -> IRI | None:
    """The IRI that a text is, if it is one."""
    try:
        return IRI(value)
    except NotAnIRI:
        return None


def _node(store: Store, value: str) -> IRI | None:
    """The node whose IRI a text is, whole or as a table shows it; a name such as llama3:8b only looks like one."""
    iri = _iri(value)
    if iri is not None and "//" in iri:
        return iri
    iri = iri or _iri(OURS + value)
    return iri if iri is not None and store.query(f"ASK {{ <{iri}> ?p ?o }}", sync=False) else None


def _of_run(known: Known, value: str) -> set[IRI]:
    """The models that are named with a part of the id of their run."""
    name, _, part = value.rpartition("@")
    runs = [key.rpartition("@")[2] for key in known if key.startswith(f"{name}@") and key != f"{name}@latest"]
    try:
        return known[f"{name}@{find(part, runs, lambda: 'latest')}"]
    except NoSuchRun:
        return set()


def _models(store: Store) -> Known:
    """Models by name, and by name and run: alexnet, alexnet@20261116-…, alexnet@latest; the last that a run told."""
    rows = store.query(MODELS, sync=False)
    last: dict[tuple[str, str], IRI] = {}
    for node, name, run, _ in rows if isinstance(rows, Answer) else ():
        key = (str(name), run.name)
        if key not in last or _natural(node) > _natural(last[key]):
            last[key] = node
    known: Known = {}
    for (name, run), node in last.items():
        known.setdefault(name, set()).add(node)
        known[f"{name}@{run}"] = {node}
        known[f"{name}@latest"] = {node}  # runs come in the order in which they began
    return known


def _natural(text: str) -> list[Any]:
    """A key by which net-10 comes after net-2, and net before both."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", text)]


def _datasets(store: Store) -> Known:
    """Datasets by name, by digest and by path."""
    rows = store.query(DATASETS, sync=False)
    known: Known = {}
    for node, name, other in rows if isinstance(rows, Answer) else ():
        known.setdefault(str(name), set()).add(node)
        if other is not None:
            known.setdefault(str(other), set()).add(node)
    return known
