"""Notes on the terms of a query: those that no ontology defines, and those that no triple has."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import provml
from provml import paths
from provml.answers import Answer
from provml.catalog import Catalog
from provml.store import Store
from provml.store.ontology_terms import ontology_terms, similar
from provml.store.query_terms import note_on_unknown_terms


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    home = tmp_path_factory.mktemp("home")
    run = provml.record("flowers", model="alexnet", home=home, strict=True, capture_environment=False)
    with run, run.training(learning_rate=0.1) as training:
        training.measured(loss=0.5)
    with provml.open(home) as store:
        yield store


def note(store: Store, sparql: str) -> str:
    answer = store.query(sparql)
    assert isinstance(answer, Answer)
    return answer.note


@pytest.mark.parametrize(
    ("sparql", "expected"),
    [
        (
            "SELECT ?m { ?m a provml:Modl }",
            "provml:Modl is not a term of the ontology; did you mean provml:Model?",
        ),
        (
            "SELECT ?m { ?m a <https://w3id.org/provml#Modl> }",
            "provml:Modl is not a term of the ontology; did you mean provml:Model?",
        ),
        (
            "PREFIX p: <https://w3id.org/provml#> SELECT ?m { ?m a p:model }",
            "p:model is not a term of the ontology; did you mean provml:Model or mls:Model?",
        ),
        (
            "SELECT ?m { ?m provml:status ?s }",
            "provml:status is not a term of the ontology; did you mean provlake:status?",
        ),
        ("SELECT ?m { ?m prov:usd ?s }", "prov:usd is not a term of PROV-O; did you mean prov:used?"),
        ("SELECT ?m { ?m rdfs:lable ?s }", "rdfs:lable is not a term of RDF Schema; did you mean rdfs:label?"),
        ("SELECT ?m { ?m provml:xyzzy ?s }", "provml:xyzzy is not a term of the ontology."),
        (
            "SELECT ?m { ?m a provml:xyzzy ; !(^prov:usd|rdf:type)/provml:xyzzy 1 }",
            "provml:xyzzy is not a term of the ontology. prov:usd is not a term of PROV-O; did you mean prov:used?",
        ),
        (
            "SELECT ?t ?x { ?t a provml:TrainingExecution OPTIONAL { ?t provml:status ?x } }",
            "provml:status is not a term of the ontology; did you mean provlake:status?",
        ),
        ("CONSTRUCT { ?m a ?t } { ?m a provml:Modl, ?t }", "provml:Modl is not a term of the ontology"),
    ],
)
def test_an_unknown_term_is_noted_with_similar_ones(store: Store, sparql: str, expected: str):
    assert note(store, sparql).startswith(expected)


@pytest.mark.parametrize(
    "sparql",
    [
        "SELECT ?t { ?t a provml:TrainingExecution }",
        "SELECT ?t { ?t a provml:TrainingExecution ; rdfs:label 'provml:Modl' } # provml:Modl",
        'SELECT ?t { ?t rdfs:label """a \'provml:Modl\' <https://w3id.org/provml#Modl>""" }',
        "PREFIX ex: <http://example.org/> SELECT ?t { ?t a ex:Modl }",
        "PREFIX provml: <http://example.org/> SELECT ?t { ?t a provml:Modl }",
        "SELECT ?p ?o { <https://w3id.org/provml/run/nope> ?p ?o }",
        "SELECT ?g { GRAPH ?g { ?s a <http://example.org/Modl> } }",
        "SELECT ?x { ?x rdf:_1 ?y FILTER(STRSTARTS(STR(?x), 'https://w3id.org/provml#')) }",
    ],
)
def test_names_of_others_texts_and_comments_are_not_noted(store: Store, sparql: str):
    assert "is not a term" not in note(store, sparql)


def test_a_term_that_the_graph_has_is_not_noted(tmp_path: Path):
    (tmp_path / "own.ttl").write_text("<urn:a:b> <https://w3id.org/provml#colour> 'red' .")
    with provml.open(tmp_path / "home", create=True) as store:
        sparql = "SELECT ?x { ?x provml:colour ?y FILTER(?y = 'blue') }"
        assert note(store, sparql).startswith("provml:colour is not a term of the ontology")
        store.load(tmp_path / "own.ttl")
        assert note(store, sparql) == ""


def test_an_answer_without_rows_names_terms_that_no_triple_has(store: Store):
    assert note(store, "SELECT ?m { ?m prov:generated ?x }") == "No triple here has prov:generated."
    several = "SELECT ?m { ?m prov:generated ?x ; prov:invalidated ?y ; a provml:TrainingExecution }"
    assert note(store, several) == "No triple here has prov:generated or prov:invalidated."
    assert note(store, "SELECT ?m { ?m a provml:TrainingExecution FILTER(false) }") == ""
    assert note(store, "SELECT ?m { GRAPH <urn:a:b> { ?m prov:generated ?x } }") == ""
    assert note(store, "SELECT ?t { ?t a provml:TrainingExecution OPTIONAL { ?t prov:generated ?x } }") == ""


def test_the_note_is_shown_with_the_answer_and_survives_a_pickle(store: Store):
    answer = store.query("SELECT ?m { ?m a provml:Modl }")
    assert isinstance(answer, Answer)
    assert repr(answer).endswith("\nprovml:Modl is not a term of the ontology; did you mean provml:Model?")
    assert "did you mean provml:Model?</p>" in answer._repr_html_()
    assert pickle.loads(pickle.dumps(answer)).note == answer.note


def test_a_stream_has_the_note(store: Store):
    stream = store.stream("SELECT ?m { ?m a provml:Modl }")
    assert not isinstance(stream, bool)
    with stream:
        assert "did you mean provml:Model?" in stream.note
        assert stream.write(io.BytesIO(), "csv") == 0


def test_a_question_of_the_user_has_the_note(tmp_path: Path):
    (tmp_path / "queries").mkdir()
    header = "#+ id: u1\n#+ summary: A question?\n#+ params: {n: {type: integer, default: 3}}\n"
    (tmp_path / "queries" / "u1.rq").write_text(f"{header}SELECT ?m {{ ?m a provml:Modl }} LIMIT $n\n")
    with provml.open(tmp_path, create=True) as store:
        assert store.ask("u1").note.startswith("provml:Modl is not a term of the ontology; did you mean provml:Model?")


@pytest.mark.parametrize("path", sorted(paths.queries().glob("*.rq")), ids=lambda path: path.stem)
def test_the_questions_of_provml_have_no_unknown_terms(store: Store, path: Path):
    assert note_on_unknown_terms(path.read_text(encoding="utf-8"), store.backend) == ""
    assert path.stem in Catalog()


def test_similar_terms_are_those_of_the_namespace_first():
    assert len(ontology_terms()) > 300
    assert similar("wasgeneratedby") == ["prov:wasGeneratedBy"]
    assert similar("Model", "http://www.w3.org/ns/mls#") == ["mls:Model", "provml:Model"]
    assert similar("pth", "https://w3id.org/provml#") == ["provlake:path"]
    assert similar("xyzzy") == []
