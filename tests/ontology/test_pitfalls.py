"""The ontologies avoid the pitfalls of modelling and wording that can be searched for; and each search can find some.

Each file `pitfalls/<slug>.rq` is one pitfall: a query over all ontologies, every row of which is a fault. Its first
line says what is wrong, the next where the pitfall is described: OOPS! is the catalogue of Poveda-Villalón et al.
(https://oops.linkeddata.es), ROBOT the report of the tool of that name (http://robot.obolibrary.org/report). Beside it,
`<slug>.bad.ttl` makes the mistake: each of its terms whose name begins with Bad must be found, and none whose name
begins with Good. Each ontology is a named graph of that name, and the default graph is the union of all.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox
import pytest

from .files import HERE, OWN, load, read

FOLDER = HERE / "pitfalls"
PITFALLS = sorted(FOLDER.glob("*.rq"))
by_name = pytest.mark.parametrize("pitfall", PITFALLS, ids=lambda file: file.stem)


@pytest.fixture(scope="module")
def ontologies() -> ox.Store:
    return load(*OWN)


def faults(pitfall: Path, store: ox.Store) -> set[str]:
    """The rows that the pitfall's query finds, each as a line of text."""
    rows = store.query(pitfall.read_text(encoding="utf-8"), use_default_graph_as_union=True)
    return {"  ".join(str(cell) for cell in row) for row in rows}


def test_every_query_has_its_bad_example() -> None:
    assert PITFALLS
    assert {file.stem for file in PITFALLS} == {file.name.removesuffix(".bad.ttl") for file in FOLDER.glob("*.bad.ttl")}


@by_name
def test_the_ontologies_avoid_it(pitfall: Path, ontologies: ox.Store) -> None:
    if found := faults(pitfall, ontologies):
        what = pitfall.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        pytest.fail("\n".join([f"{pitfall.name}: {what}", *sorted(found)]), pytrace=False)


@by_name
def test_the_bad_example_is_found(pitfall: Path, ontologies: ox.Store) -> None:
    bad_example = pitfall.with_suffix(".bad.ttl")
    found = " ".join(faults(pitfall, load(*OWN, bad_example)) - faults(pitfall, ontologies))
    assert "<https://example.org/bad" in found
    terms = {term for triple in read(bad_example) for term in triple if isinstance(term, ox.NamedNode)}
    for term in terms:
        if re.search("#[Bb]ad", term.value):
            assert str(term) in found
        elif re.search("#[Gg]ood", term.value):
            assert str(term) not in found
