"""`provml validate`: a run, all runs or a file; 0 where it holds, 1 where it does not, 2 for bad input."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import rdflib
from click.testing import CliRunner, Result

from provml.cli import main
from provml.errors import BrokenPromise
from provml.recorder import Recorder
from provml.store import Store

EXAMPLES = Path(__file__).parent / "shapes"
BROKEN = EXAMPLES / "clock" / "fail-start-after-end.ttl"
MINE = """
@prefix ex: <http://example.org/> .
@prefix provlake: <https://w3id.org/provlake#> .
@prefix provml: <https://w3id.org/provml#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
ex:Mine a sh:NodeShape ; sh:targetClass provml:LearningProcessExecution ;
    sh:property [ sh:path provlake:exceptionType ; sh:minCount 1 ; sh:message "Mine says so."@en ] .
"""


def record(home: Path, run: str, *, of: bool = True) -> None:
    with Recorder("flowers", model="alexnet", home=home, run=run, strict=True) as made:
        photos = made.dataset(b"photos", name="photos")
        with made.training(using=photos, learning_rate=0.1) as training:
            for epoch in training.epochs(2):
                epoch.measured(loss=1 / epoch.index)
            model = training.produced(b"weights")
        with made.evaluation(of=model if of else None) as test:
            test.measured(accuracy=0.5)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two good runs, and one whose latest run does not say which model it judged."""
    folder = tmp_path_factory.mktemp("homes")
    for run in ("monday", "tuesday"):
        record(folder / "good", run)
    record(folder / "bad", "monday")
    record(folder / "bad", "tuesday", of=False)
    return folder


def invoke(*given: object) -> Result:
    return CliRunner().invoke(main, ["validate", *map(str, given)])


def test_the_latest_run_is_validated_unless_another_is_named(homes: Path):
    done = invoke("--home", homes / "good")
    assert done.exit_code == 0, done.output
    assert "The graph conforms to all shapes." in done.output
    assert "checked run tuesday: " in done.output
    assert "checked run monday: " in invoke("mon", "--home", homes / "good").output


def test_it_ends_with_1_where_a_promise_is_broken_and_says_what_to_do(homes: Path):
    done = invoke("--home", homes / "bad")
    assert done.exit_code == 1
    assert "Violation at 1 node: An evaluation says which model it judged. Name it with" in done.output
    assert invoke("monday", "--home", homes / "bad").exit_code == 0


def test_all_runs_are_validated_at_once(homes: Path):
    done = invoke("--all", "--home", homes / "bad")
    assert done.exit_code == 1
    assert "run/tuesday/evaluation>" in done.output
    assert invoke("--all", "--home", homes / "good").exit_code == 0


def test_a_file_is_validated_by_its_ending():
    done = invoke(BROKEN)
    assert done.exit_code == 1
    assert "The start is not after the end." in done.output
    assert invoke(EXAMPLES / "named" / "pass-a-measure.ttl").exit_code == 0


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_either_engine_can_be_chosen(engine: str):
    done = invoke(BROKEN, "--engine", engine, "--format", "json")
    assert done.exit_code == 1
    assert json.loads(done.output)["checked"]["engine"] == engine


def test_warnings_are_told_and_break_nothing(homes: Path):
    done = invoke(EXAMPLES / "named" / "fail-no-name.ttl")
    assert done.exit_code == 0
    assert "conforms, with 1 remark" in done.output


# ---- formats


def test_a_report_comes_in_all_formats(tmp_path: Path):
    assert invoke(BROKEN, "--format", "markdown").output.startswith("## The graph breaks 1 promise\n")
    assert json.loads(invoke(BROKEN, "--format", "json").output)["conforms"] is False
    assert invoke(BROKEN, "--format", "html").output.startswith("<div")
    graph = rdflib.Graph().parse(data=invoke(BROKEN, "--format", "turtle").output, format="turtle")
    sh = rdflib.Namespace("http://www.w3.org/ns/shacl#")
    assert list(graph.subjects(rdflib.RDF.type, sh.ValidationReport))


@pytest.mark.parametrize(
    ("name", "begins"), [("r.md", "## "), ("r.json", "{"), ("r.ttl", "@prefix"), ("r.html", "<div")]
)
def test_a_file_is_written_in_the_format_of_its_ending(name: str, begins: str, tmp_path: Path):
    done = invoke(BROKEN, "-o", tmp_path / name)
    assert done.exit_code == 1
    assert (tmp_path / name).read_text().startswith(begins)
    assert "see" in done.output


# ---- shapes of the user


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "mine.ttl").write_text(MINE)
    return folder


def test_shapes_of_the_user_are_added_by_option_by_environment_and_by_home(
    homes: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for given in (mine, mine / "mine.ttl"):
        done = invoke("--home", homes / "good", "--shapes", given)
        assert done.exit_code == 1
        assert "Mine says so." in done.output
    monkeypatch.setenv("PROVML_SHAPES", str(mine))
    assert "Mine says so." in invoke("--home", homes / "good").output
    monkeypatch.delenv("PROVML_SHAPES")
    record(tmp_path / "home", "monday")
    mine.rename(tmp_path / "home" / "shapes")
    assert "Mine says so." in invoke("--home", tmp_path / "home").output
    with Store(tmp_path / "home") as store:
        assert not store.validate()


def test_a_folder_of_shapes_may_be_empty_or_hold_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    record(tmp_path, "monday")
    (tmp_path / "shapes").mkdir()
    assert invoke("--home", tmp_path).exit_code == 0
    (tmp_path / "shapes" / "notes.ttl").write_text("<urn:a> <urn:b> <urn:c> .")
    assert invoke("--home", tmp_path).exit_code == 0
    (tmp_path / "shapes" / "mine.ttl").write_text(MINE)
    assert "Mine says so." in invoke("--home", tmp_path).output
    monkeypatch.setenv("PROVML_SHAPES", str(tmp_path / "shapes" / "notes.ttl"))
    done = invoke("--home", tmp_path)
    assert (done.exit_code, "no SHACL shape is in it" in done.output) == (2, True), "a file that was named has to have"


# ---- PROV-CONSTRAINTS


def test_constraints_hold_any_prov_document_and_name_the_rule(tmp_path: Path, homes: Path):
    path = tmp_path / "any.ttl"
    path.write_text(
        "@prefix prov: <http://www.w3.org/ns/prov#> . @prefix ex: <http://example.org/> .\n"
        "ex:e a prov:Entity , prov:Activity ."
    )
    done = invoke("--constraints", path)
    assert done.exit_code == 1
    assert "55" in done.output
    assert "PROV-CONSTRAINTS" in done.output
    done = invoke("--constraints", "--shapes", EXAMPLES.parents[1] / "shapes" / "clock.ttl", "--home", homes / "good")
    assert done.exit_code == 0
    assert "The graph conforms to all shapes and constraints." in done.output
    assert ", by the compiled engine, and 35 constraints, by PROV-CONSTRAINTS" in done.output
    alone = invoke("--constraints", "--home", homes / "good").output
    triples = alone.split("run tuesday: ")[1].split(" triples")[0]
    assert f"run tuesday: {triples} triples" in done.output, "they are counted as they pass"


# ---- bad input


def test_bad_input_ends_with_2_and_names_its_place(homes: Path, tmp_path: Path):
    def text(name: str, said: str) -> Path:
        (tmp_path / name).write_text(said)
        return tmp_path / name

    (tmp_path / "empty").mkdir()
    home = ("--home", homes / "good")
    recursive = """
        @prefix ex: <http://example.org/> . @prefix sh: <http://www.w3.org/ns/shacl#> .
        ex:Again a sh:NodeShape ; sh:targetNode ex:a ; sh:property [ sh:path ex:p ; sh:node ex:Again ] ."""
    cases = [
        ([tmp_path / "none.ttl"], "none.ttl"),
        ([text("broken.ttl", "\n\n,,")], "broken.ttl:3"),
        ([text("data.csv", "a,b")], "data.csv"),
        (["friday", *home], "There is no run 'friday'"),
        ([*home, "--shapes", tmp_path / "nowhere"], "nowhere"),
        ([*home, "--shapes", tmp_path / "empty"], "no shape file is in it"),
        ([*home, "--shapes", text("worse.ttl", "@prefix sh: <urn:x> .\n;;")], "worse.ttl:2"),
        ([*home, "--shapes", text("other.ttl", "<urn:a> <urn:b> <urn:c> .")], "no SHACL shape is in it"),
        ([*home, "--shapes", text("again.ttl", recursive)], "http://example.org/Again"),
        (["monday", "--all", *home], "not both"),
        (["--all", "--owl", *home], "--owl is for a run"),
        (["--home", tmp_path / "no-home"], "there is no such home"),
        ([*home, "-o", tmp_path / "no" / "report.md"], "no folder"),
    ]
    for given, place in cases:
        done = invoke(*given)
        assert done.exit_code == 2, (given, done.output)
        assert place in done.output, (given, done.output)
        assert "Traceback" not in done.output


# ---- when a run ends


def test_a_run_can_be_validated_when_it_ends_and_its_status_says_how_it_stood(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    recorder = Recorder("flowers", home=tmp_path, validate=True)
    with caplog.at_level(logging.INFO, "provml"), recorder as run, run.evaluation():
        pass
    assert "An evaluation says which model it judged." in caplog.text
    for command in ("status", "show"):
        done = CliRunner().invoke(main, [command, "--home", str(tmp_path)])
        assert "The graph breaks 1 promise" in done.output
    with Store(tmp_path) as store:
        assert store.run("latest").status == "FINISHED"


def test_only_a_strict_recorder_raises_and_only_after_all_is_written(tmp_path: Path):
    run = Recorder("flowers", home=tmp_path, strict=True, validate=True)
    with run.evaluation():
        pass
    with pytest.raises(BrokenPromise):
        run.finish()
    with Store(tmp_path) as store:
        assert store.run("latest").status == "FINISHED"


def test_a_run_that_fails_ends_with_its_own_error_whatever_validation_says(tmp_path: Path):
    with (
        pytest.raises(ZeroDivisionError),
        Recorder("flowers", home=tmp_path, strict=True, validate=True) as run,
        run.evaluation(),
    ):
        raise ZeroDivisionError
    with Store(tmp_path) as store:
        assert store.run("latest").status == "FAILED"


def test_shapes_that_are_broken_do_not_reach_the_training(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes" / "bad.ttl").write_text(",,")
    with Recorder("flowers", home=tmp_path, validate=True) as run, run.training():
        pass
    assert "could not be validated" in caplog.text
    with Store(tmp_path) as store:
        assert store.run("latest").status == "FINISHED"
