"""Alignments: the same question in the terms of provml and of another vocabulary has the same answer."""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox
import pytest
from click.testing import CliRunner

import provml
from provml.cli import main
from provml.errors import FileFormatError, InvalidParameter
from provml.rdf.namespaces import PREFIXES
from provml.store import Store
from provml.store.alignments import NOT_EXPORTED, alignments

SAME = {
    "p-plan": [
        ("?plan provlake:hasDataTransformation ?step", "?step p-plan:isStepOfPlan ?plan"),
        ("?e provlake:wasDerivedFromDataTransformation ?step", "?e a p-plan:Activity ; p-plan:correspondsToStep ?step"),
    ],
    "provone": [
        ("?e provlake:wasMemberOfWorkflowExecution ?run", "?e provone:wasPartOf ?run . ?run a provone:Execution"),
        ("?plan provlake:hasDataTransformation ?step", "?plan provone:hasSubProgram ?step . ?step a provone:Program"),
    ],
    "fair4ml": [
        (
            "?m a provml:Model ; prov:wasGeneratedBy/provml:learnedFrom ?d",
            "?m a fair4ml:MLModel ; fair4ml:trainedOn ?d",
        ),
        ("?e provml:evaluated ?m ; provml:evaluatedOn ?data", "?m fair4ml:evaluatedOn ?data"),
    ],
    "schema": [
        ("?e a prov:Activity ; prov:startedAtTime ?t", "?e a schema:CreateAction ; schema:startTime ?t"),
        ("?m a provml:Model ; prov:wasGeneratedBy ?e", "?m a schema:CreativeWork . ?e schema:result ?m"),
        ("?d a provml:LearningDataset ; provlake:sha256 ?h", "?d a schema:Dataset ; schema:sha256 ?h"),
    ],
    "dcat": [
        ("?d a provml:LearningDataset", "?d a dcat:Dataset"),
        ("?m a provml:Model", "?m a it6:MachineLearningModel"),
    ],
    "wfprov": [
        ("?e provlake:wasMemberOfWorkflowExecution ?run", "?e a wfprov:ProcessRun ; wfprov:wasPartOfWorkflowRun ?run"),
        (
            "?run provlake:wasDerivedFromWorkflow ?p",
            "?run wfprov:describedByWorkflow ?p . ?p a wfdesc:Workflow",
        ),
    ],
    "sosa": [
        ("?m a provml:EvaluationMeasure", "?m a sosa:ObservableProperty"),
        ("?v a provml:ModelEvaluation", "?v a sosa:Result"),
    ],
    "qudt": [("?a provlake:unit ?u", "?a a qudt:QuantityKind ; provlake:unit ?u")],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("alignments") / "home"
    with provml.record("flowers", model="net", home=home, run="monday", capture_environment=False) as run:
        raw, test = run.dataset(b"rose", name="rose.csv"), run.dataset(b"tulip", name="tulip.csv")
        with run.training(using=raw, learning_rate=0.1) as training:
            training.measured(loss=0.5)
            model = training.produced(b"weights", name="net.pt")
        with run.evaluation(of=model, using=[test]) as evaluation:
            evaluation.measured(accuracy=0.9)
    with Store(home) as store:
        store.update("INSERT { ?m provlake:unit '1' } WHERE { ?m a provml:EvaluationMeasure }")
    return home


def rows(store: Store, pattern: str, names: list[str], prefixes: dict[str, str], *, inference: bool) -> list[object]:
    declared = "".join(f"PREFIX {prefix}: <{iri}> " for prefix, iri in prefixes.items())
    answer = store.query(f"{declared}SELECT DISTINCT {' '.join(names)} {{ {pattern} }}", inference=inference)
    assert not isinstance(answer, bool)
    return sorted(tuple(map(str, row)) for row in answer)


def test_every_alignment_has_an_example():
    assert SAME.keys() == alignments().keys() - NOT_EXPORTED


@pytest.mark.parametrize("name", SAME)
def test_a_question_has_the_same_answer_in_both_vocabularies(home: Path, name: str):
    item = alignments()[name]
    with Store(home) as store:
        store.load(item.path, graph="http://example.org/alignment", replace=True)
        for ours, theirs in SAME[name]:
            names = sorted(set(re.findall(r"\?\w+", ours)).intersection(re.findall(r"\?\w+", theirs)))
            expected = rows(store, ours, names, {}, inference=False)
            assert expected, ours
            assert rows(store, theirs, names, item.prefixes, inference=True) == expected, theirs


def test_measures_are_not_trained_on_data(home: Path):
    with Store(home) as store:
        store.load(alignments()["fair4ml"].path, graph="http://example.org/alignment", replace=True)
        query = "PREFIX f: <https://w3id.org/fair4ml/> SELECT DISTINCT ?x { ?x f:trainedOn ?data }"
        answer = store.query(query, inference=True)
        assert not isinstance(answer, bool)
        assert [str(row[0]).rpartition("/")[2] for row in answer] == ["net.pt"]


def test_an_export_has_the_terms_of_the_vocabularies_that_were_named(home: Path, tmp_path: Path):
    with Store(home) as store:
        plain = store.export("monday", tmp_path / "plain.nt")
        count = store.export("monday", tmp_path / "run.ttl", vocabularies="fair4ml, schema")
        with pytest.raises(InvalidParameter, match=r"fair4ml, p-plan, provone, qudt"):
            store.export("monday", tmp_path / "no.ttl", vocabularies="foaf")
        with pytest.raises(FileFormatError, match="has no option"):
            store.export("monday", tmp_path / "run.json", "prov-json", vocabularies="schema")
    assert count > plain + 10
    text = (tmp_path / "run.ttl").read_text()
    assert "@prefix fair4ml:" in text
    lines = set((tmp_path / "plain.nt").read_text().splitlines())
    added = {f"{quad.triple} ." for quad in ox.parse(path=tmp_path / "run.ttl", format=ox.RdfFormat.TURTLE)} - lines
    theirs = tuple(iri for name in ("fair4ml", "schema") for iri in alignments()[name].prefixes.values())
    assert all(any(f"<{iri}" in line for iri in theirs) for line in added)
    assert not (tmp_path / "no.ttl").exists()
    result = CliRunner().invoke(main, ["export", "monday", "--with", "fair4ml", "--home", str(home)])
    assert "fair4ml:MLModel" in result.output


def test_prefixes_of_alignments_do_not_replace_those_of_provml():
    assert all(not item.prefixes.keys() & PREFIXES.keys() for name, item in alignments().items() if name in SAME)
