"""Asking by name: questions of the catalog over runs that were really recorded, with the names that people use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import provml
from provml.cli import main
from provml.errors import NoSuchQuery, NoSuchRun, WrongParameter
from provml.store import Store
from provml.values import IRI


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for rate in (0.1, 0.01):
        with provml.record("flowers", model="alexnet", home=home, strict=True, capture_environment=False) as run:
            raw = run.dataset(b"raw", name="photos", role="raw")
            with run.filter("gray-scale", using=raw) as step:
                train = step.produced(b"gray", name="gray-photos", role="training")
            with run.training(using=train, learning_rate=rate, dropout=0.4, betas=(0.9, 0.99)) as training:
                training.implemented_by("alexnet.py", algorithm="CNN", software="numpy", version="2.0", commit="abc")
                for epoch in training.epochs(3):
                    epoch.measured(loss=1 / epoch.index)
                    if epoch.index == 2:
                        training.adapted(learning_rate=rate / 10, technique="LRS")
                model = training.produced(f"weights {rate}".encode())
            with run.evaluation(of=model) as test:
                test.measured(accuracy=rate)
    return home


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with provml.open(home) as opened:
        yield opened


def test_a_question_is_asked_by_its_name(store: Store):
    answer = store.ask("q6", model="alexnet")
    row = answer.to_dicts()[0]
    assert (row["epoch"], row["old"], row["new"], row["technique"]) == (2, 0.1, 0.01, "LRS")


def test_a_run_may_be_given_by_a_part_of_its_id(store: Store):
    older = store.runs()[-1]
    by_iri = store.ask("q3", model="alexnet", run=older.iri)
    assert by_iri.rows == store.ask("q3", model="alexnet", run=older.id).rows
    assert by_iri.rows == store.ask("q3", model="alexnet", run=older.id[-6:]).rows
    assert by_iri.rows != store.ask("q3", model="alexnet").rows
    with pytest.raises(NoSuchRun):
        store.ask("q3", model="alexnet", run="nothing-like-it")


def test_a_model_may_be_given_by_its_name_and_run(store: Store):
    with pytest.raises(WrongParameter, match="alexnet@"):
        store.ask("b3", model="alexnet")
    answer = store.ask("b3", model=f"alexnet@{store.runs()[0].id}")
    assert len(answer) > 0
    with pytest.raises(WrongParameter, match="Say which"):
        store.ask("b3", model="resnet")


def test_a_dataset_may_be_given_by_its_name(store: Store):
    assert len(store.ask("b5", dataset="photos")) == 2
    assert store.ask("b5", dataset="gray-photos").rows


def test_the_sparql_that_runs_can_be_seen(store: Store):
    text = store.sparql("q1", model='a"b', epoch=3)
    assert r'"a\"b"' in text
    assert "$" not in "".join(line for line in text.splitlines() if not line.startswith("#"))


def test_an_unknown_question_and_a_wrong_value_are_told(store: Store):
    with pytest.raises(NoSuchQuery):
        store.ask("q99")
    with pytest.raises(WrongParameter, match="a whole number"):
        store.ask("q1", model="alexnet", epoch="ten")


def test_what_implements_a_stage_is_in_the_graph(store: Store):
    answer = store.query(
        """SELECT ?name ?algorithm ?software ?commit WHERE {
             ?stage a provml:TrainingExecution ; prov:wasAssociatedWith ?i .
             ?i a provml:Implementation ; rdfs:label ?name ; provml:implementsAlgorithm/rdfs:label ?algorithm ;
                provml:isPartOfSoftware/rdfs:label ?software ;
                provml:hasImplementationCharacteristic [ rdfs:label "commit" ; prov:value ?commit ] }"""
    )
    assert not isinstance(answer, bool)
    assert answer.rows == [("alexnet.py", "CNN", "numpy", "abc")] * 2


def test_a_list_as_a_hyperparameter_is_kept_as_its_text(store: Store):
    answer = store.ask("b7", hyperparameter="betas", text="[0.9, 0.99]")
    assert len(answer) == 2


def test_the_command_asks_lists_and_shows(home: Path):
    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["ask", *words, "--home", str(home)])
        return done.exit_code, done.output

    code, said = run("q4", "--model", "alexnet", "--format", "csv")
    assert code == 0
    assert said.splitlines()[1].endswith(",0.1,0.1")
    assert run("--list")[1].count("\n") > 30
    assert "SELECT" in run("q4", "--model=alexnet", "--show")[1]
    assert run("q1", "--model", "alexnet", "--epoch", "ten")[0] == 2
    assert run("q1", "--model")[0] == 2
    assert run("q99")[0] == 2
    assert "q1: model takes" in run("q1")[1]


def test_questions_of_a_user_work_the_same(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "u1-stages.rq").write_text(
        "#+ id: u1\n#+ summary: Which stages ran?\n#+ params:\n#+   run: {type: iri, of: run}\n"
        "#+ columns: {stage: iri}\n"
        "PREFIX provlake: <https://w3id.org/provlake#>\n"
        "SELECT ?stage WHERE { ?stage provlake:wasMemberOfWorkflowExecution $run } ORDER BY ?stage\n"
    )
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    with provml.open(home) as store:
        rows = store.ask("u1", run="latest").rows
    assert IRI(f"{rows[0][0]}").startswith("https://w3id.org/provml/run/")
    assert len(rows) == 4
