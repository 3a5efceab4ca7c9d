"""The published questions: queries.ttl describes in SHACL what the catalog has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyoxigraph as ox
import pytest

from provml import paths, rdf
from provml.catalog import Catalog

SH, HERE = "http://www.w3.org/ns/shacl#", "https://w3id.org/provml/query/"
CATALOG = Catalog()
CLASSES = {"LearningProcessExecution": "run", "Model": "model", "LearningDataset": "dataset"}


@pytest.fixture(scope="module")
def published() -> ox.Store:
    store = ox.Store()
    store.load(path=str(paths.queries() / "queries.ttl"), format=ox.RdfFormat.TURTLE)
    return store


def objects(store: ox.Store, subject: Any, name: str) -> list[Any]:
    return [quad.object for quad in store.quads_for_pattern(subject, ox.NamedNode(SH + name), None)]


def single_value(store: ox.Store, subject: Any, name: str) -> Any:
    values = [rdf.value(term) for term in objects(store, subject, name)]
    assert len(values) <= 1, f"{subject} has several {name}"
    return values[0] if values else None


def test_every_question_is_published_and_no_other(published: ox.Store):
    kind = ox.NamedNode(f"{SH}SPARQLSelectExecutable")
    iris = {quad.subject.value for quad in published.quads_for_pattern(None, ox.NamedNode(f"{rdf.RDF}type"), kind)}
    assert iris == {HERE + name for name in CATALOG}


@pytest.mark.parametrize("name", list(CATALOG))
def test_parameters_are_published_as_the_catalog_has_them(published: ox.Store, name: str):
    nodes = sorted(
        objects(published, ox.NamedNode(HERE + name), "parameter"), key=lambda n: single_value(published, n, "order")
    )
    assert [single_value(published, node, "name") for node in nodes] == list(CATALOG[name].params)
    for node, parameter in zip(nodes, CATALOG[name].params.values(), strict=True):
        assert single_value(published, node, "path").name == parameter.name
        datatype = single_value(published, node, "datatype")
        assert (datatype.name if datatype else "iri") == parameter.type
        assert (single_value(published, node, "nodeKind") is not None) == (parameter.type == "iri")
        node_class = single_value(published, node, "class")
        assert (CLASSES[node_class.name] if node_class else "") == parameter.node_kind
        assert bool(single_value(published, node, "optional")) is not parameter.required
        assert (single_value(published, node, "maxCount") is None) is parameter.multiple
        assert single_value(published, node, "defaultValue") == parameter.default
        assert str(single_value(published, node, "description") or "") == parameter.help


@pytest.mark.parametrize("name", list(CATALOG))
def test_the_published_sparql_runs_and_gives_the_columns(published: ox.Store, name: str):
    node = ox.NamedNode(HERE + name)
    (prefixes,) = objects(published, node, "prefixes")
    declared = "".join(
        f"PREFIX {single_value(published, param, 'prefix')}: <{single_value(published, param, 'namespace')}>\n"
        for param in objects(published, prefixes, "declare")
    )
    query = replace(CATALOG[name], text=declared + single_value(published, node, "select"))
    samples = {"string": "x", "integer": 1, "double": 0.5, "iri": "http://example.org/x", "boolean": True}
    for params in (query.params, {key: param for key, param in query.params.items() if param.required}):
        values = {key: samples[param.type] for key, param in params.items()}
        answer = ox.Store().query(query.bind(values))
        assert isinstance(answer, ox.QuerySolutions)
        assert [variable.value for variable in answer.variables] == list(query.columns)
        assert CATALOG[name].bind(values).endswith(query.bind(values).removeprefix(declared))
