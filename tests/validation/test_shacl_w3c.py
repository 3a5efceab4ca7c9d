"""The W3C suite of SHACL Core and SHACL-SPARQL: the SPARQL engine gives the expected results."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from provml.errors import FileFormatError
from provml.validation import pyshacl_engine
from provml.validation.graph import load_graph
from provml.validation.shacl import compile_shapes, validate
from validation.results import by_pyshacl, by_sparql, in_report

SUITES = Path(os.environ.get("PROVML_SUITES") or Path(__file__).parents[3] / "shared" / "suites")
SUITE = SUITES / "shacl-w3c"
WITH_SHAPES_GRAPH = "sparql/pre-binding/shapesGraph-001"
"""Its query uses the shapes graph, which is optional in SHACL; pySHACL does not support it either."""
NOT_BY_PYSHACL = {"sparql/node/prefixes-001", *(f"sparql/pre-binding/pre-binding-00{number}" for number in (3, 4, 5))}
"""pySHACL binds variables differently in Oxigraph, and finds some prefixes only in the file of the data."""

needs_suite = pytest.mark.skipif(not SUITE.exists(), reason=f"the W3C suite is not at {SUITE} (set PROVML_SUITES)")


def cases() -> list[dict[str, str]]:
    if not SUITE.exists():
        return []
    with (SUITE / "MANIFEST.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


@needs_suite
def test_the_suite_is_complete():
    assert len(cases()) == 121


@needs_suite
@pytest.mark.parametrize("test", cases(), ids=lambda test: test["id"])
def test_the_results_are_those_of_the_suite_and_of_pyshacl(test: dict[str, str]):
    folder = SUITE / "tests"
    data, shapes = folder / test["data"], folder / test["shapes"]
    if test["expected"] == "failure":
        with pytest.raises(FileFormatError, match="has a query that"):
            compile_shapes(shapes)
        return
    graph = load_graph(data)
    compiled = compile_shapes(shapes, has_preserved_datatypes=graph.has_preserved_datatypes)
    if test["id"] == WITH_SHAPES_GRAPH:
        assert "$shapesGraph" in str(compiled.delegated)
        with pytest.raises(FileFormatError, match="pySHACL"):
            validate(graph, compiled)
        return
    assert not compiled.delegated
    results = by_sparql(graph, compiled)
    assert results == in_report(load_graph(folder / f"{test['id']}.ttl").store)
    assert results == by_pyshacl(data, shapes)
    assert len(validate(graph, compiled)) == results.total()
    if test["id"] not in NOT_BY_PYSHACL:
        assert len(pyshacl_engine.validate(data, shapes)) == results.total()
