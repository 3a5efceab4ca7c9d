"""Implied types: the same data has the same results as a file, as N-Triples, in a store, and loaded into a home."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyoxigraph as ox
import pytest
from store.test_store import train

from provml.store import Store
from provml.validation import EngineName, Report, validate
from provml.validation.class_hierarchy import implied_triples
from provml.validation.engine import ENGINES

PREFIXES = """@prefix ex: <http://example.org/> . @prefix prov: <http://www.w3.org/ns/prov#> .
@prefix provml: <https://w3id.org/provml#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
ENTITY = "ex:e a prov:Entity ; prov:wasAttributedTo ex:a ."
OWN_CLASS = "ex:Researcher rdfs:subClassOf prov:Person ."
CASES = {
    "an agent": (f"{ENTITY} ex:a a prov:Agent .", 0),
    "a person where an agent is required": (f"{ENTITY} ex:a a prov:Person .", 0),
    "a software agent": (f"{ENTITY} ex:a a prov:SoftwareAgent .", 0),
    "an instance of an own subclass": (f"{ENTITY} {OWN_CLASS} ex:a a ex:Researcher .", 0),
    "an instance of a subclass of that": (
        f"{ENTITY} {OWN_CLASS} ex:PhD rdfs:subClassOf ex:Researcher . ex:a a ex:PhD .",
        0,
    ),
    "a role of the ontology": (
        "ex:u a prov:Usage ; prov:hadRole provml:TrainingRole ; prov:entity ex:d . ex:d a prov:Entity .",
        0,
    ),
    "a stage where a data transformation is required": (
        """ex:plan a provml:LearningExperiment ; rdfs:label "plan" ; provml:hasLearningStage ex:fit .
           ex:fit a provml:Training ; rdfs:label "fit" .""",
        0,
    ),
    "an activity where an agent is required": (f"{ENTITY} ex:a a prov:Activity .", 1),
    "nothing known of the agent": (ENTITY, 1),
    "a plan, which is an entity, that is an activity": ("ex:a a prov:Plan , prov:Activity .", 1),
    "two faults": (f"{ENTITY} ex:a a prov:Plan , prov:Activity ; prov:startedAtTime 'now' .", 2),
}


def count_results(report: Report) -> Counter[tuple[str, str | None, str]]:
    return Counter((result.focus, result.path, result.component) for result in report)


def write(folder: Path, text: str, name: str = "data.ttl") -> Path:
    path = folder / name
    path.write_text(PREFIXES + text)
    return path


@pytest.mark.parametrize("name", CASES)
def test_data_has_the_same_results_in_all_forms(name: str, tmp_path: Path):
    text, minimum = CASES[name]
    path = write(tmp_path, text)
    expected = count_results(validate(path))
    assert (len(expected) >= minimum) if minimum else not expected
    store = ox.Store()
    store.load(path=str(path), format=ox.RdfFormat.TURTLE)
    size = len(store)
    assert count_results(validate(store)) == expected
    assert len(store) == size, "the store is not changed"
    ntriples = ox.serialize(store, format=ox.RdfFormat.N_TRIPLES)
    assert ntriples is not None
    assert count_results(validate(ntriples)) == expected
    with Store(tmp_path / "home", create=True) as home:
        home.load(path)
        assert count_results(home.validate(None)) == expected
        assert len([quad for quad in home.graph() if isinstance(quad.graph_name, ox.DefaultGraph)]) == size


def test_both_engines_use_the_implied_types(tmp_path: Path):
    text = " ".join(text for text, minimum in CASES.values() if not minimum)
    path = write(tmp_path, text)
    with Store(tmp_path / "home", create=True) as home:
        home.load(path)
        for engine in ENGINES:
            assert len(validate(path, engine=engine)) == 0
            assert len(home.validate(None, engine=engine)) == 0


@pytest.mark.parametrize("first", ["classes", "data"])
def test_the_order_in_which_files_are_loaded_does_not_matter(first: str, tmp_path: Path):
    texts = {"classes": OWN_CLASS, "data": f"{ENTITY} ex:a a ex:Researcher ."}
    with Store(tmp_path / "home", create=True) as home:
        for name in sorted(texts, key=lambda name: name != first):
            home.load(write(tmp_path, texts[name], f"{name}.ttl"))
        assert len(home.validate(None)) == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_named_graphs_are_validated_together_with_the_default_graph(engine: EngineName, tmp_path: Path):
    path = write(tmp_path, f"{ENTITY} ex:g {{ ex:a a prov:Person ; prov:startedAtTime 'now' . }}", "data.trig")
    expected = count_results(validate(path, engine=engine))
    assert expected
    with Store(tmp_path / "home", create=True) as home:
        home.load(path)
        assert count_results(home.validate(None, engine=engine)) == expected
    with Store(tmp_path / "other", create=True) as home:
        home.load(write(tmp_path, f"{ENTITY} ex:a a prov:Person ; prov:startedAtTime 'now' ."), graph="urn:g")
        assert count_results(home.validate(None, engine=engine)) == expected


def test_added_files_are_validated_together_with_the_runs(tmp_path: Path):
    run = train(tmp_path / "home")
    path = write(tmp_path, f"{ENTITY} ex:a a prov:Person .")
    with Store(tmp_path / "home", create=True) as home:
        recorded = count_results(home.validate(run))
        home.load(path)
        assert count_results(home.validate(None)) == recorded
        home.load(write(tmp_path, "ex:f prov:wasAttributedTo ex:g . ex:f a prov:Entity .", "bad.ttl"))
        assert count_results(home.validate(None)) - recorded


def test_recorded_runs_lack_no_type(tmp_path: Path):
    run = train(tmp_path / "home")
    with Store(tmp_path / "home", create=True) as home:
        assert implied_triples(home.graph(run)) == []
