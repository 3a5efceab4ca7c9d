"""The questions as they are published: queries.ttl says in SHACL's words what the catalog says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyoxigraph as ox
import pytest

from provml import rdf, resources
from provml.catalog import Catalog

SH, HERE = "http://www.w3.org/ns/shacl#", "https://w3id.org/provml/query/"
CATALOG = Catalog()
CLASSES = {"LearningProcessExecution": "run", "Model": "model", "LearningDataset": "dataset"}


@pytest.fixture(scope="module")
def published() -> ox.Store:
    store = ox.Store()
    store.load(path=str(resources.queries() / "queries.ttl"), format=ox.RdfFormat.TURTLE)
    return store


def said(store: ox.Store, subject: Any, name: str) -> list[Any]:
    return [quad.object for quad in store.quads_for_pattern(subject, ox.NamedNode(SH + name), None)]


def one(store: ox.Store, subject: Any, name: str) -> Any:
    values = [rdf.value(term) for term in said(store, subject, name)]
    assert len(values) <= 1, f"{subject} has several {name}"
    return values[0] if values else None


def test_every_question_is_published_and_no_other(published: ox.Store):
    kind = ox.NamedNode(f"{SH}SPARQLSelectExecutable")
    found = {quad.subject.value for quad in published.quads_for_pattern(None, ox.NamedNode(f"{rdf.RDF}type"), kind)}
    assert found == {HERE + name for name in CATALOG}


@pytest.mark.parametrize("name", list(CATALOG))
def test_parameters_are_published_as_the_catalog_has_them(published: ox.Store, name: str):
    nodes = sorted(said(published, ox.NamedNode(HERE + name), "parameter"), key=lambda n: one(published, n, "order"))
    assert [one(published, node, "name") for node in nodes] == list(CATALOG[name].params)
    for node, parameter in zip(nodes, CATALOG[name].params.values(), strict=True):
        assert one(published, node, "path").name == parameter.name
        datatype = one(published, node, "datatype")
        assert (datatype.name if datatype else "iri") == parameter.type
        assert (one(published, node, "nodeKind") is not None) == (parameter.type == "iri")
        stands_for = one(published, node, "class")
        assert (CLASSES[stands_for.name] if stands_for else "") == parameter.of
        assert bool(one(published, node, "optional")) is not parameter.required
        assert (one(published, node, "maxCount") is None) is parameter.many
        assert one(published, node, "defaultValue") == parameter.default
        assert str(one(published, node, "description") or "") == parameter.help


@pytest.mark.parametrize("name", list(CATALOG))
def test_the_published_sparql_runs_and_gives_the_columns(published: ox.Store, name: str):
    node = ox.NamedNode(HERE + name)
    (prefixes,) = said(published, node, "prefixes")
    declared = "".join(
        f"PREFIX {one(published, each, 'prefix')}: <{one(published, each, 'namespace')}>\n"
        for each in said(published, prefixes, "declare")
    )
    query = replace(CATALOG[name], text=declared + one(published, node, "select"))
    samples = {"string": "x", "integer": 1, "double": 0.5, "iri": "http://example.org/x", "boolean": True}
    for params in (query.params, {key: each for key, each in query.params.items() if each.required}):
        values = {key: samples[each.type] for key, each in params.items()}
        answer = ox.Store().query(query.bind(values))
        assert isinstance(answer, ox.QuerySolutions)
        assert [variable.value for variable in answer.variables] == list(query.columns)
        assert CATALOG[name].bind(values).endswith(query.bind(values).removeprefix(declared))
