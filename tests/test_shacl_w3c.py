"""The W3C suite of SHACL Core and SHACL-SPARQL: the compiled engine gives its reports, result by result."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from results import by_compiled, by_reference, in_report, load

from provml.errors import BrokenFile
from provml.validation.compiled import compile_shapes, validate

SUITES = Path(os.environ.get("PROVML_SUITES") or Path(__file__).parents[2] / "shared" / "suites")
SUITE = SUITES / "shacl-w3c"
WITH_SHAPES_GRAPH = "sparql/pre-binding/shapesGraph-001"
"""Its query asks the shapes graph, which SHACL leaves optional; it is handed over, and pySHACL cannot do it either."""

needs_suite = pytest.mark.skipif(
    not SUITE.exists(), reason=f"the W3C suite is not in the repository; {SUITE} is not there (set PROVML_SUITES)"
)


def cases() -> list[dict[str, str]]:
    if not SUITE.exists():
        return []
    with (SUITE / "MANIFEST.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


@needs_suite
def test_the_suite_is_whole():
    assert len(cases()) == 121


@needs_suite
@pytest.mark.parametrize("test", cases(), ids=lambda test: test["id"])
def test_the_report_is_the_one_that_w3c_and_pyshacl_give(test: dict[str, str]):
    folder = SUITE / "tests"
    data, shapes = folder / test["data"], folder / test["shapes"]
    if test["expected"] == "failure":
        with pytest.raises(BrokenFile, match="has a query that"):
            compile_shapes(shapes)
        return
    store, compiled = load(data), compile_shapes(shapes)
    if test["id"] == WITH_SHAPES_GRAPH:
        assert "$shapesGraph" in str(compiled.handed_over)
        with pytest.raises(BrokenFile, match="pySHACL"):
            validate(store, compiled)
        return
    assert not compiled.handed_over
    found = by_compiled(store, compiled)
    assert found == in_report(load(folder / f"{test['id']}.ttl"))
    assert found == by_reference(data, shapes)
    assert len(validate(store, compiled)) == found.total()
