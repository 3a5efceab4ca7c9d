"""The SHACL tests of the DASH vocabulary: the SPARQL engine, or pySHACL in its place, gives the expected results."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provml.validation import validate
from provml.validation.graph import load_graph
from provml.validation.shacl import compile_shapes
from validation.results import by_sparql, in_report

ROOT = Path(__file__).parents[2]
SUITE = Path(os.environ.get("PROVML_DASH_TESTS", ROOT / "build" / "dash-tests"))
FILES = sorted(path for path in SUITE.rglob("*.ttl") if "dash:GraphValidationTestCase" in path.read_text())
DELEGATED = {"expression/booleans-001", "function/callSPARQLFunction", "target/sparqlTargetType-001"}
"""They use extensions of SHACL that only pySHACL has."""
NAMELESS = {"shapedefs/anon-shape-001", "shapedefs/anon-shape-002"}
"""Their expected results have an empty blank node in place of a shape without a name."""

needs_suite = pytest.mark.skipif(not FILES, reason=f"the tests are not at {SUITE}: run .ci/dash-tests")


def name_of(path: Path) -> str:
    return str(path.relative_to(SUITE)).removesuffix(".test.ttl")


@needs_suite
def test_the_suite_is_complete():
    assert len(FILES) == 99


@needs_suite
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_results_are_those_of_the_suite(path: Path):
    graph = load_graph(path)
    shapes = compile_shapes(path, has_preserved_datatypes=graph.has_preserved_datatypes)
    expected = in_report(graph.store)
    assert bool(shapes.delegated) == (name_of(path) in DELEGATED)
    if name_of(path) not in DELEGATED | NAMELESS:
        assert by_sparql(graph, shapes) == expected
    report = validate(path, only_shapes=path)
    assert len(report.results) == expected.total()
