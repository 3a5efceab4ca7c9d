"""The ontologies avoid the pitfalls of modelling and wording that a query can find; and each query finds a bad example.

Each file `pitfalls/<slug>.rq` is one pitfall: a query over all ontologies, every row of which is a fault. Its first
line states the fault, the second its source: OOPS! is the catalogue of Poveda-Villalón et al.
(https://oops.linkeddata.es), ROBOT the report of the tool of that name (http://robot.obolibrary.org/report). The file
`<slug>.bad.ttl` makes the mistake: the query must find each of its terms whose name begins with Bad, and none whose
name begins with Good. Each ontology is a named graph of that name, and the default graph is the union of all.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox
import pytest

from .helpers import HERE, MODULES, load, read

FOLDER = HERE / "pitfalls"
PITFALLS = sorted(FOLDER.glob("*.rq"))
each_pitfall = pytest.mark.parametrize("pitfall", PITFALLS, ids=lambda file: file.stem)


@pytest.fixture(scope="module")
def ontologies() -> ox.Store:
    return load(*MODULES)


def faults(pitfall: Path, store: ox.Store) -> set[str]:
    """Return the rows of the pitfall's query, each as a line of text."""
    rows = store.query(pitfall.read_text(encoding="utf-8"), use_default_graph_as_union=True)
    return {"  ".join(str(cell) for cell in row) for row in rows}


def test_every_query_has_a_bad_example() -> None:
    assert PITFALLS
    assert {file.stem for file in PITFALLS} == {file.name.removesuffix(".bad.ttl") for file in FOLDER.glob("*.bad.ttl")}


@each_pitfall
def test_ontologies_avoid_the_pitfall(pitfall: Path, ontologies: ox.Store) -> None:
    if rows := faults(pitfall, ontologies):
        title = pitfall.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        pytest.fail("\n".join([f"{pitfall.name}: {title}", *sorted(rows)]), pytrace=False)


@each_pitfall
def test_query_finds_the_bad_example(pitfall: Path, ontologies: ox.Store) -> None:
    bad_example = pitfall.with_suffix(".bad.ttl")
    rows = " ".join(faults(pitfall, load(*MODULES, bad_example)) - faults(pitfall, ontologies))
    assert "<https://example.org/bad" in rows
    terms = {term for triple in read(bad_example) for term in triple if isinstance(term, ox.NamedNode)}
    for term in terms:
        if re.search("#[Bb]ad", term.value):
            assert str(term) in rows
        elif re.search("#[Gg]ood", term.value):
            assert str(term) not in rows
