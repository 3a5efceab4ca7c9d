"""The demo: a real training that is valid PROV typed by PROV-ML and answers what it is asked."""

from __future__ import annotations

import pyoxigraph as ox
import pytest
from click.testing import CliRunner

from provml import demo, rdf
from provml.cli import main
from provml.vocab import LearningHyperparameterValue, TrainingEpochExecution

PREFIXES = """
PREFIX prov: <http://www.w3.org/ns/prov#>
PREFIX provml: <https://w3id.org/provml#>
PREFIX provlake: <https://w3id.org/provlake#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
"""


@pytest.fixture(scope="module")
def things() -> list[object]:
    return list(rdf.reachable(demo.training()))


@pytest.fixture(scope="module")
def store(things) -> ox.Store:
    store = ox.Store()
    store.bulk_load(rdf.ntriples(things), format=ox.RdfFormat.N_TRIPLES)
    return store


def test_the_command_compiles_emits_validates_and_asks():
    done = CliRunner().invoke(main, ["demo"], catch_exceptions=False)
    assert done.exit_code == 0
    for word in ("compiled", "emitted", "validated", "asked", "learning_rate"):
        assert word in done.output
    assert "conforms" in done.output


def test_it_really_learns(store):
    columns, rows = demo.ask(rdf.ntriples(rdf.reachable(demo.training())), "e1-epochs.rq")
    losses = [row[columns.index("loss")] for row in rows]
    assert len(losses) == 8
    assert losses[-1] < losses[0] < 0.6931  # ln 2, the loss of a coin


def test_the_answer_follows_the_adaptation():
    columns, rows = demo.ask(rdf.ntriples(rdf.reachable(demo.training(adapt_at=3))), "e1-epochs.rq")
    rates = [row[columns.index("learning_rate")] for row in rows]
    assert rates == [0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01, 0.01]


def test_a_node_reads_back_as_the_thing_that_was_written(store, things):
    for thing in things:
        if isinstance(thing, (TrainingEpochExecution, LearningHyperparameterValue)):
            assert rdf.read(store, thing.iri) == thing


WITH_PROVML = """SELECT ?name ?v ?loss WHERE {
  ?training a provml:TrainingExecution .
  ?epoch prov:wasInformedBy ?training ; a provml:TrainingSectionExecution .
  ?h prov:wasGeneratedBy ?epoch ; a provml:ModelHyperparameterValue ; prov:value ?v ; prov:wasDerivedFrom ?p .
  ?p a provml:LearningHyperparameterSetting ; rdfs:label ?name .
  ?model prov:wasGeneratedBy ?epoch ; a provml:Model .
  ?evaluation prov:wasGeneratedBy ?epoch ; a provml:ModelEvaluation ; prov:value ?loss .
} ORDER BY ?v ?loss"""

WITHOUT_PROVML = """SELECT ?name ?v ?loss WHERE {
  ?training a provlake:DataTransformationExecution ; prov:wasInfluencedBy ?tp .
  ?tp a provlake:DataTransformation ; provlake:tag "Training" .
  ?epoch prov:wasInformedBy ?training ; a provlake:DataTransformationExecution ; prov:wasInfluencedBy ?ep .
  ?ep a provlake:DataTransformation ; rdfs:label "Epoch Execution" .
  ?h prov:wasGeneratedBy ?epoch ; a provlake:AttributeValue ; prov:value ?v ; prov:wasDerivedFrom ?p .
  ?p a provlake:Attribute ; provlake:tag "Hyperparameter" ; rdfs:label ?name .
  ?model a provlake:AttributeValue ; prov:wasGeneratedBy ?epoch ; prov:wasDerivedFrom ?mp .
  ?mp a provlake:Attribute ; provlake:tag "Model" .
  ?evaluation prov:wasGeneratedBy ?epoch ; a provlake:AttributeValue ; prov:value ?loss ; prov:wasDerivedFrom ?vp .
  ?vp a provlake:Attribute ; provlake:tag "Model Evaluation" .
} ORDER BY ?v ?loss"""


def test_the_papers_pattern_gives_the_same_with_and_without_provml_types():
    """Seed 002's Listings 1 and 2: the same question by PROV-ML's types and by PROVLake's tags."""
    from provml.vocab import Model, ModelHyperparameter, ModelHyperparameterValue

    things = list(rdf.reachable(demo.training(epochs=3)))
    plan = demo.Plan()
    chosen = ModelHyperparameter("http://example.org/demo/plan/epoch-of-model", label="epoch", tag="Hyperparameter")
    for epoch in [thing for thing in things if isinstance(thing, TrainingEpochExecution)]:
        things.append(
            ModelHyperparameterValue(
                f"{epoch.iri}/chosen",
                was_derived_from_attribute=chosen,
                was_generated_by=epoch,
                value=epoch.section_index,
            )
        )
        things.append(Model(f"{epoch.iri}/model", was_derived_from_attribute=plan.model, was_generated_by=epoch))
    store = ox.Store()
    store.bulk_load(rdf.ntriples([*things, chosen]), format=ox.RdfFormat.N_TRIPLES)

    def answer(query: str) -> list[tuple[str, ...]]:
        rows = store.query(PREFIXES + query)
        return [tuple(str(node) for node in row) for row in rows]

    with_types, without = answer(WITH_PROVML), answer(WITHOUT_PROVML)
    assert with_types == without
    assert len(with_types) == 6  # three epochs, each with a loss and an accuracy
