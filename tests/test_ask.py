"""Asking by name: questions of the catalog over runs that were really recorded, with the names that people use."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import provml
from provml.answer import Curve
from provml.answer.chart import draw
from provml.answer.curve import Curves, Series
from provml.cli import main
from provml.errors import BrokenQuery, NoSuchQuery, NoSuchRun, WrongParameter
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


def test_a_name_with_a_colon_is_looked_up_before_it_is_taken_for_an_iri(tmp_path: Path):
    with provml.record("chat", model="llama3:8b", home=tmp_path, strict=True, capture_environment=False) as run:
        photos = run.dataset(b"raw", name="photos:v2", role="training")
        with run.training(using=photos) as training:
            training.produced(b"weights")
    with provml.open(tmp_path) as store:
        assert store.ask("b3", model="llama3:8b").rows
        assert store.ask("b5", dataset="photos:v2").rows
        [(node,)] = store.query("SELECT ?m { ?m a provml:Model }").rows  # type: ignore[union-attr]
        assert store.ask("b3", model=str(node)).rows == store.ask("b3", model="llama3:8b").rows
        assert store.ask("b3", model="http://example.org/unknown").rows == []
        with pytest.raises(WrongParameter, match="Say which: llama3:8b"):
            store.ask("b3", model="lama3:8b")


def test_a_dataset_may_be_given_by_its_name(store: Store):
    assert len(store.ask("b5", dataset="photos")) == 2
    assert store.ask("b5", dataset="gray-photos").rows
    with pytest.raises(WrongParameter, match=r"Say which: .*photos"):
        store.ask("b5", dataset="xyz")


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


def said(home: Path, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["ask", *words, "--home", str(home)])
    assert done.exit_code == code, done.output
    return done.output


def test_the_list_is_in_families_for_people_and_in_rows_for_programs(home: Path):
    lines = said(home).splitlines()
    assert lines[0] == "One training or many"
    assert lines.index("The whole life cycle, from raw files to models") < lines.index("Beyond the papers")
    assert "     --model [--run] [--measure] [--first] [--plot]" in lines
    rows = json.loads(said(home, "--list", "--format", "json"))
    assert {
        "id": "q2",
        "family": lines[0],
        "question": "What are the layers of a model?",
        "parameters": "--model [--run]",
    } in rows


def test_a_parameter_that_is_called_like_an_option_has_another_option(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    params = "#+ params: {list: {type: string}, home: {type: string, default: x}, question: {type: string, default: y}}"
    select = "SELECT ($list AS ?a) ($home AS ?b) ($question AS ?c) {}\n"
    (tmp_path / "u1.rq").write_text(f"#+ id: u1\n#+ summary: Which?\n{params}\n{select}")
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    assert "--list_ [--home_] [--question]" in said(home, "--list")
    assert "given  x  z" in said(home, "u1", "--list_", "given", "--question", "z")
    with provml.open(home) as store:
        assert '"z" AS ?c' in store.sparql("u1", list="l", question="z")


def test_columns_of_a_header_are_those_of_its_select(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, columns in {
        "u1": "{nope: iri}",
        "u2": "{a: integer}",
        "u3": "{a: integer, b: integer, c: integer}",
    }.items():
        text = f"#+ id: {name}\n#+ summary: Which?\n#+ columns: {columns}\nSELECT (1 AS ?a) (2 AS ?b) {{}}\n"
        (tmp_path / f"{name}.rq").write_text(text)
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    assert "u1.rq: its header has the columns nope, and its SELECT a, b." in said(home, "u1", code=2)
    assert "its header has the columns a, and its SELECT a, b." in said(home, "u2", code=2)
    assert "its header has the columns a, b, c, and its SELECT a, b." in said(home, "u3", code=2)


def test_a_folder_of_questions_that_is_none_is_told(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path / "nowhere"))
    told = said(home, "q4", "--model", "alexnet")
    assert "nowhere: there is no such folder. See what PROVML_QUERIES names." in told
    assert "0.1" in told


def test_a_question_tells_of_its_parameters(home: Path):
    told = " ".join(said(home, "h8", "--help").split())
    assert "What was the best loss" in told
    assert "--model TEXT the model's name, such as densed [required]" in told
    assert "--learning_rate NUMBER" in told
    assert "[default: loss]" in told
    assert "training, epoch, value, layers" in told
    assert "Pina, dissertation, 2020, Table 4.10" in told


def test_options_may_stand_before_the_question_and_be_written_with_hyphens(home: Path):
    before = CliRunner().invoke(main, ["ask", "--home", str(home), "--format", "csv", "q4", "--model", "alexnet"])
    assert before.output == said(home, "q4", "--model", "alexnet", "--format", "csv")
    values = ("--model", "alexnet", "--k", "1", "--l", "1")
    assert said(home, "h8", *values, "--learning-rate", "1") == said(home, "h8", *values, "--learning_rate", "1")


def test_a_parameter_of_many_values_is_repeated(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "u2-names.rq").write_text(
        "#+ id: u2\n#+ summary: Which?\n#+ params:\n#+   name: {type: string, many: true}\n"
        "#+   format: {type: integer, default: 3}\n#+ columns: {name: string, format: integer}\n"
        "SELECT ?name ?format { VALUES ?name { $name } BIND($format AS ?format) } ORDER BY ?name\n"
    )
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    assert said(home, "u2", "--name", "b", "--name", "a", "--format", "csv") == "name,format\na,3\nb,3\n"
    assert said(home, "u2", "--name", "-1", "--format_", "-4", "--format", "csv") == "name,format\n-1,-4\n"


def test_what_is_wrong_with_a_question_is_told(home: Path):
    assert "Ask one of q1, q2" in said(home, "q99", code=2)
    assert "Did you mean '--model'?" in said(home, "q1", "--modl", "x", code=2)
    assert "Give model=…, or --model …." in said(home, "q1", code=2)
    assert "Plot one of e1, h1" in said(home, "q1", "--model", "alexnet", "--plot", code=2)
    assert "without --format" in said(home, "q3", "--model", "alexnet", "--plot", "--format", "csv", code=2)


def test_the_sparql_can_be_seen_where_there_is_no_home_yet(tmp_path: Path):
    shown = said(tmp_path / "none", "q1", "--model", "alexnet", "--show")
    assert '"alexnet"' in shown
    assert not (tmp_path / "none").exists()


FORMS = ["table", "json", "csv", "tsv", "sparql-json", "sparql-xml", "sparql-csv", "sparql-tsv"]


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("b4", {"sha256": hashlib.sha256(b"raw").hexdigest()[:8]}),
        ("b1", {"start": "alexnet@latest"}),
        ("b1", {"start": "photos"}),
        ("q3", {"model": "alexnet", "run": "latest"}),
        ("q1", {"model": "alexnet", "epoch": "2"}),
    ],
)
def test_what_is_shown_is_what_runs(home: Path, store: Store, question: str, values: dict[str, str]):
    options = [word for name, value in values.items() for word in (f"--{name}", value)]
    typed = {name: store.catalog[question].params[name].from_text(value) for name, value in values.items()}
    assert said(home, question, *options, "--show") == store.sparql(question, **typed)


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_leaves_in_every_format_to_the_screen_and_to_a_file_alike(home: Path, tmp_path: Path, form: str):
    shown = said(home, "q3", "--model", "alexnet", "--format", form)
    assert "0.5" in shown
    file = tmp_path / "answer"
    assert "3 rows in" in said(home, "q3", "--model", "alexnet", "--format", form, "-o", str(file))
    assert file.read_bytes().decode() == shown.replace("\r\n", "\n").replace(
        "\n", "\r\n" if form == "sparql-csv" else "\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["answer"]


@pytest.mark.parametrize(
    ("ending", "begins"),
    [("csv", "training,"), ("json", "["), ("srj", '{"head"'), ("srx", "<?xml"), ("txt", "training ")],
)
def test_the_ending_of_a_file_says_the_format(home: Path, tmp_path: Path, ending: str, begins: str):
    file = tmp_path / f"answer.{ending}"
    said(home, "q3", "--model", "alexnet", "-o", str(file))
    assert file.read_text().startswith(begins)


def test_a_file_is_left_alone_when_nothing_can_be_written(home: Path, tmp_path: Path):
    file = tmp_path / "answer.csv"
    file.write_text("mine")
    said(home, "q1", "--model", "alexnet", "--epoch", "ten", "-o", str(file), code=2)
    assert file.read_text() == "mine"
    assert "give --plot" in said(home, "q3", "--model", "alexnet", "-o", str(tmp_path / "a.png"), code=2)
    assert "no folder" in said(home, "q3", "--model", "alexnet", "-o", str(tmp_path / "none" / "a.csv"), code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["answer.csv"]


def test_a_curve_is_drawn_in_the_terminal_and_in_a_picture(home: Path, tmp_path: Path):
    drawn = said(home, "q3", "--model", "alexnet", "--plot").splitlines()
    assert drawn[0].startswith("loss by epoch, run/")
    assert drawn[-1].split() == ["1", "epoch", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "provml.cli", "ask", "e1", "--plot", "--home", str(home)],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "60"},
        capture_output=True,
        check=True,
    )
    assert done.stdout.isascii()
    assert b"?" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 60
    for ending, begins in {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}.items():
        file = tmp_path / f"loss.{ending}"
        said(home, "q3", "--model", "alexnet", "--plot", "-o", str(file))
        assert file.read_bytes().startswith(begins)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the system's zone cannot be set there")
def test_a_drawing_gets_no_ending_that_it_is_not(home: Path, tmp_path: Path):
    asked = ("q3", "--model", "alexnet", "--plot", "-o")
    assert "No drawing ends in .jpg" in said(home, *asked, str(tmp_path / "x.jpg"), code=2)
    assert list(tmp_path.iterdir()) == []
    said(home, *asked, str(tmp_path / "x.txt"))
    assert "by epoch" in (tmp_path / "x.txt").read_text()


def test_a_curve_over_time_says_in_which_zone_its_times_are(monkeypatch: pytest.MonkeyPatch):
    series = Series("loss", [(datetime(2026, 1, 1, 12, tzinfo=UTC), 1.0), (datetime(2026, 1, 1, 13, tzinfo=UTC), 0.5)])
    monkeypatch.setenv("TZ", "XST-3")
    time.tzset()
    try:
        below = draw(Curves("time", "loss", [series], 0)).splitlines()[-1]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert below.split() == ["2026-01-01", "15:00:00", "XST", "time", "2026-01-01", "16:00:00", "XST"]


def test_a_question_of_no_rows_says_so_also_where_it_should_be_drawn(home: Path):
    asked = ("h1", "--model", "alexnet")
    assert said(home, *asked, "--plot") == said(home, *asked)
    assert said(home, *asked).startswith("No rows.\n")


def test_a_measure_that_nobody_gave_and_nobody_measured_is_told_with_those_that_there_are(tmp_path: Path):
    run = provml.record("trees", model="trees", home=tmp_path, capture_environment=False)
    with run, run.training() as training:
        for epoch in training.epochs(2):
            epoch.measured(mlogloss=0.5, merror=0.25)
    asked = CliRunner().invoke(main, ["ask", "q1", "--model", "trees", "--epoch", "1", "--home", str(tmp_path)])
    assert asked.stdout == "No rows.\n"
    assert "measure loss (the default)" in asked.stderr
    hint = "No measure is called loss here: give another as measure, such as mlogloss, merror."
    assert hint in asked.stderr
    q3 = ["ask", "q3", "--model", "trees", "--home", str(tmp_path)]
    epochs = CliRunner().invoke(main, q3)
    assert len(epochs.stdout.splitlines()) == 2 + 2
    assert hint in epochs.stderr
    epochs = CliRunner().invoke(main, [*q3, "--measure", "merror"])
    assert "0.25" in epochs.stdout
    assert not epochs.stderr


def test_an_answer_without_rows_says_what_was_asked(home: Path, store: Store):
    asked = CliRunner().invoke(main, ["ask", "q1", "--model", "alexnet", "--home", str(home)])
    assert asked.stdout == "No rows.\n"
    assert (
        asked.stderr == "provml: It was asked with model alexnet, epoch 10 (the default), measure loss (the default).\n"
    )
    nothing = CliRunner().invoke(main, ["ask", "b1", "--start", "http://example.org/no", "--home", str(home)])
    assert (nothing.exit_code, nothing.stdout) == (0, "No rows.\n")
    assert nothing.stderr == "provml: Nothing here has the IRI http://example.org/no, which start is.\n"
    assert "the IRI" not in store.ask("b2", start=store.run("latest").iri).note
    assert store.ask("q1", model="alexnet", epoch=2).note == ""


def test_an_answer_knows_its_curve_and_the_types_of_its_columns(store: Store):
    answer = store.ask("q3", model="alexnet")
    assert answer.curve == Curve("epoch", ("value",), ("training",), "loss")
    assert store.ask("h1", model="alexnet", measure="loss").curves().y == "loss"
    assert store.ask("q4", model="alexnet").curve is None
    assert str(store.ask("h1", model="alexnet").to_polars()["epoch"].dtype) == "Int64"
    assert store.ask("l5", from_=1, to=2).rows == []


def test_sparql_of_ones_own_leaves_the_same_ways(home: Path, tmp_path: Path):
    def query(text: str, *words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["query", text, *words, "--home", str(home)])
        assert done.exit_code == code, done.output
        return done.output

    assert query("ASK {}") == query("ASK {}", "--format", "csv") == "true\n"
    assert json.loads(query("ASK {}", "--format", "sparql-json")) == {"head": {}, "boolean": True}
    assert json.loads(query("ASK {}", "--format", "json")) is True
    exact = query("SELECT ?x { VALUES ?x { '01'^^<http://example.org/kind> } }", "--format", "sparql-tsv")
    assert exact == '?x\n"01"^^<http://example.org/kind>\n'
    drawn = query("SELECT ?t ?x ?y { VALUES (?t ?x ?y) { ('a' 1 2) ('b' 2 3) } }", "--plot").splitlines()
    assert drawn[0] == "y by x"
    assert drawn[-2:] == ["* a", "+ b"]
    assert "Select a column of numbers" in query("SELECT ?x { VALUES ?x { 1 } }", "--plot", code=2)
    assert "cannot be drawn" in query("ASK {}", "--plot", code=2)


@pytest.mark.parametrize(
    ("words", "incomplete", "found"),
    [
        (["ask"], "q", {"q1", "q8"}),
        (["ask", "q3"], "--m", {"--model", "--measure"}),
        (["ask", "q3", "--run"], "lat", {"latest"}),
        (["ask", "q99"], "--m", set()),
    ],
)
def test_the_shell_completes_questions_parameters_and_runs(words: list[str], incomplete: str, found: set[str]):
    complete = ShellComplete(main, {}, "provml", "_PROVML_COMPLETE")
    assert found <= {item.value for item in complete.get_completions(words, incomplete)}


def test_questions_of_a_user_work_the_same(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "u1-stages.rq").write_text(
        "#+ id: u1\n#+ summary: Which stages ran?\n#+ params:\n#+   run: {type: iri, of: run}\n"
        "#+ columns: {stage: iri}\n"
        "PREFIX provlake: <https://w3id.org/provlake#>\n"
        "SELECT ?stage WHERE { ?stage provlake:wasMemberOfWorkflowExecution $run } ORDER BY ?stage\n"
    )
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    assert "Yours" in said(home, "--list")
    assert "Which stages ran?" in said(home, "u1", "--help")
    assert said(home, "u1", "--run", "latest").count("\n") == 6
    with provml.open(home) as store:
        rows = store.ask("u1", run="latest").rows
    assert IRI(f"{rows[0][0]}").startswith("https://w3id.org/provml/run/")
    assert len(rows) == 4


def test_a_name_that_nothing_has_is_told_with_what_there_is(home: Path, store: Store):
    for name, values in {
        "q1": {"model": "alexnt"},
        "q3": {"model": "alexnet", "measure": "los"},
        "q6": {"model": "alexnet", "hyperparameter": "learning_rat"},
        "b7": {"hyperparameter": "learning_rat"},
    }.items():
        with pytest.raises(WrongParameter, match=r"There is (alexnet|loss|learning_rate)"):
            store.ask(name, **values)
    assert "There is alexnet." in said(home, "h1", "--model", "alexnt", code=2)
    with pytest.raises(WrongParameter, match=r"it has no parameter modle. Did you mean model"):
        store.ask("q3", modle="x")


def test_the_loss_of_the_epoch_that_is_named_is_given(store: Store):
    assert store.ask("q1", model="alexnet", epoch=2).column("value") == [0.5]


def test_content_is_found_by_the_first_digits_of_its_digest(store: Store):
    digest = hashlib.sha256(b"raw").hexdigest()
    assert store.ask("b4", sha256=digest[:12]).rows == store.ask("b4", sha256=digest).rows != []
    with pytest.raises(WrongParameter, match="There is"):
        store.ask("b4", sha256="0" * 12)


def test_a_model_that_a_run_saved_often_is_the_last_of_them(tmp_path: Path):
    ids = []
    for _ in range(2):
        with provml.record("wine", model="net", home=tmp_path, strict=True, capture_environment=False) as run:
            ids.append(run.id)
            with run.training() as training:
                for number in range(11):
                    training.produced(f"{run.id} {number}".encode())
        with provml.open(tmp_path) as store:
            shown = store.sparql("b3", model=f"net@{run.id}")
            assert f"/run/{run.id}/data/net-11>" in shown
            assert store.sparql("b3", model=f"net@{run.id[-6:]}") == store.sparql("b3", model="net@latest") == shown
            if len(ids) == 1:
                assert store.sparql("b3", model="net") == shown
    with provml.open(tmp_path) as store:
        with pytest.raises(WrongParameter) as caught:
            store.ask("b3", model="net")
        told = str(caught.value).partition("Say which: ")[2].partition(";")[0].split(", ")
        assert str(caught.value).endswith("; each is the last model that its run told under that name.")
        assert {f"net@{one}" for one in ids} <= set(told)
        for name in told:
            assert store.ask("b3", model=name).rows


def test_a_thing_may_be_given_by_its_name_or_as_a_table_shows_it(store: Store):
    run = store.run("latest")
    whole = store.ask("b1", start=f"{run.iri}/data/alexnet")
    assert whole.rows
    assert store.ask("b1", start=f"run/{run.id}/data/alexnet").rows == whole.rows
    assert store.ask("b1", start="alexnet@latest").rows == whole.rows
    assert store.ask("b2", start="photos").rows
    assert store.ask("q3", model="alexnet", run=run).rows == store.ask("q3", model="alexnet", run=run.id).rows


def test_where_a_model_came_from_tells_people_and_software_apart(tmp_path: Path):
    with (
        provml.record("wine", model="net", by="alice", home=tmp_path, strict=True, capture_environment=False) as run,
        run.training() as training,
    ):
        training.implemented_by("Adam")
        training.implemented_by("SGD")
        training.produced(b"weights")
    with provml.open(tmp_path) as store:
        answer = store.ask("b3", model="net")
    assert answer.column("by") == ["alice"]
    assert answer.column("implementation") == ["Adam, SGD"]


def test_one_broken_file_of_a_user_leaves_the_other_questions(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "u6-bad.rq").write_text("SELECT")
    (tmp_path / "u7.rq").write_text("#+ id: u7\n#+ summary: Which?\nSELECT ?x {{ ?x ?y }\n")
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    told = said(home, "q4", "--model", "alexnet")
    assert told.count("u6-bad.rq") == 1
    assert "0.1" in told
    assert "has no id and summary" in said(home, "u6", code=2)
    assert "u7.rq: the query cannot be run" in said(home, "u7", code=2)
    with provml.open(home) as store:
        assert store.ask("q4", model="alexnet").rows
    assert "u6-bad.rq" in caplog.text
    command = [sys.executable, "-m", "provml", "ask", "q4", "--model", "alexnet", "--home", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.count("u6-bad.rq") == 1


def test_a_question_of_a_user_has_a_time_limit_and_calls_no_machine_unless_allowed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    head = "#+ id: {0}\n#+ summary: Which?\n"
    endless = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . FILTER(?a < ?d && ?g < ?l) }"
    (tmp_path / "u8.rq").write_text(head.format("u8") + endless)
    call = "SELECT * { SERVICE <http://127.0.0.1:9/none> { ?a ?b ?c } }"
    (tmp_path / "u9.rq").write_text(head.format("u9") + call)
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    assert "its time limit" in said(home, "u8", "--timeout", "0.5", code=1)
    assert "--allow-service" in said(home, "u9", code=2)
    assert "See whether the machine that SERVICE names answers" in said(home, "u9", "--allow-service", code=2)


def test_triples_leave_as_rdf_and_no_file_gets_another_format_than_it_says(home: Path, tmp_path: Path):
    def query(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["query", *words, "--timeout", "0", "--home", str(home)])
        assert done.exit_code == code, done.output
        return done.output

    import pyoxigraph as ox

    made = "CONSTRUCT { ?m a provml:Model } { ?m a provml:Model }"
    graphs = []
    for ending, kind in {"ttl": "TURTLE", "nt": "N_TRIPLES", "jsonld": "JSON_LD"}.items():
        file = tmp_path / f"m.{ending}"
        query(made, "-o", str(file))
        graphs.append({quad.triple for quad in ox.parse(file.read_bytes(), format=getattr(ox.RdfFormat, kind))})
        assert sorted(query(made, "--format", ending)) == sorted(file.read_text())
    assert len(graphs[0]) == 2
    assert graphs[0] == graphs[1] == graphs[2]
    assert "CONSTRUCT or DESCRIBE" in query("SELECT * {}", "--format", "ttl", code=2)
    assert "No answer ends in .xlsx" in query("SELECT * {}", "-o", str(tmp_path / "m.xlsx"), code=2)
    assert not (tmp_path / "m.xlsx").exists()


def test_what_is_wrong_with_sparql_is_said_in_its_words(store: Store):
    for sparql, word in {
        "INSERT DATA { <a:b> <a:b> <a:b> }": "only reads",
        "SELECT * { ?s ex:p ?o }": "the prefix ex: is not declared",
    }.items():
        with pytest.raises(BrokenQuery, match=word):
            store.query(sparql)


def test_what_is_no_text_no_file_and_no_number_of_seconds_is_told(home: Path, tmp_path: Path):
    def told(*words: str, given: bytes = b"", code: int = 2) -> str:
        done = CliRunner().invoke(main, [*words, "--home", str(home)], input=given)
        assert done.exit_code == code, done.output
        return done.output

    assert "model takes text" in told("ask", "q1", "--model", "\udcff")
    assert "the input: it is not text in UTF-8" in told("query", "-", given=b"\xff")
    assert "'\\udcff' at character 14 is no text" in told("query", 'ASK { ?x ?y "\udcff" }')
    assert f"{tmp_path}: it is a folder" in told("query", str(tmp_path))
    assert "its timeout is nan, not a number of seconds from 0" in told("query", "ASK {}", "--timeout", "nan")
    (tmp_path / "bom.rq").write_text("\ufeffASK {}")
    assert told("query", str(tmp_path / "bom.rq"), code=0) == "true\n"
    assert told("query", "-", given="\ufeffASK {}".encode(), code=0) == "true\n"


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 1e10, "1"])
def test_a_time_limit_is_a_number_of_seconds(store: Store, timeout: float):
    with pytest.raises(BrokenQuery, match="not a number of seconds from 0 to 1,000,000"):
        store.query("ASK {}", timeout=timeout)


def test_whatever_is_given_to_a_question_ends_in_an_error_of_ours(store: Store):
    with pytest.raises(WrongParameter, match="value takes a number"):
        store.ask("q7", model="alexnet", value=10**400)
    with pytest.raises(NoSuchQuery):
        store.ask(None)  # type: ignore[arg-type]


def test_points_that_are_all_not_numbers_are_told(tmp_path: Path):
    with (
        provml.record("x", model="nan", home=tmp_path, strict=True, capture_environment=False) as run,
        run.training() as training,
    ):
        for epoch in training.epochs(2):
            epoch.measured(loss=float("nan"))
    assert "All 2 points are NaN or infinite" in said(tmp_path, "q3", "--model", "nan", "--plot", code=2)


def test_names_that_fit_several_are_told_apart_in_one_line(tmp_path: Path):
    for number in range(2):
        with provml.record("x", home=tmp_path, run=f"r{number}", strict=True, capture_environment=False) as run:
            same = run.dataset(f"{number}".encode(), name="same", role="raw")
            with run.filter("crop", using=same) as step:
                step.produced(f"cut {number}".encode(), name=f"long name\n{number}", role="training")
    digests = [hashlib.sha256(f"{number}".encode()).hexdigest()[:12] for number in range(2)]
    with provml.open(tmp_path) as store:
        with pytest.raises(WrongParameter, match="2 are called so") as caught:
            store.ask("b5", dataset="same")
        for number, digest in enumerate(digests):
            assert f"{digest} (in r{number})" in str(caught.value)
        with pytest.raises(WrongParameter, match=r"Say which: long name [01], long name [01], [0-9a-f]{12} \(in r"):
            store.ask("b5", dataset="long")


def test_lineage_goes_through_adaptations_and_back_from_runs_epochs_and_measures(store: Store):
    run = store.run("latest")

    def found(question: str, start: str) -> set[tuple[str, object]]:
        rows = store.ask(question, start=f"{run.iri}{start}").to_dicts()
        return {(row["kind"], row["name"] if row["value"] is None else row["value"]) for row in rows}

    for start in ("", "/data/alexnet", "/training/3/measure/loss"):
        behind = found("b1", start)
        assert {("Hyperparameter", 0.01), ("Hyperparameter", 0.001), ("Adaptation", "LRS")} <= behind, start
        assert {("Dataset", "photos"), ("Filter", "gray-scale")} <= behind, start
    assert ("Adaptation", "LRS") not in found("b1", "/training/1/measure/loss"), "it came later"
    assert ("Hyperparameter", 0.001) not in found("b1", "/training/1/measure/loss")
    assert ("Training", "training") in found("b1", "/training/adaptation/1")
    for start in ("", "/training/1", "/training/adaptation/1", "/training/parameter/learning_rate"):
        assert ("Model", "alexnet") in found("b2", start), start


def test_a_digest_may_be_in_capitals_and_is_none_if_it_is_empty(store: Store):
    digest = hashlib.sha256(b"gray").hexdigest()
    assert store.ask("b4", sha256=digest.upper()).rows == store.ask("b4", sha256=digest).rows != []
    with pytest.raises(WrongParameter, match="first digits"):
        store.ask("b4", sha256="")


def test_a_question_without_an_answer_says_what_has_to_be_recorded_for_one(tmp_path: Path):
    with (
        provml.record("flowers", model="net", home=tmp_path, strict=True, capture_environment=False) as run,
        run.training(using=run.dataset(b"raw", name="photos"), learning_rate=0.1) as training,
    ):
        for epoch in training.epochs(2):
            epoch.measured(accuracy=0.5)
    with provml.open(tmp_path) as store:
        assert "needs an evaluation of the model, such as `with run.evaluation(" in store.ask("q4", model="net").note
        assert "needs a preparation" in store.ask("l5", from_=1, to=9).note


NEEDS: dict[str, dict[str, object]] = {
    "b11": {},
    "h6": {"model": "net"},
    "h7": {"model": "net", "k": 32, "l": 4},
    "h8": {"model": "net", "k": 32, "l": 4, "learning_rate": 0.05},
    "l2": {"model": "net@latest"},
    "l4": {"dataset": "tiles"},
    "q2": {"model": "net"},
}


def test_what_a_question_needs_gives_it_an_answer(tmp_path: Path):
    with (
        provml.record("bare", model="net", home=tmp_path, strict=True, capture_environment=False) as run,
        run.training(using=run.dataset(b"tiles", name="tiles")) as training,
    ):
        for _ in training.epochs(1):
            pass
        training.produced(b"weights")
    with provml.open(tmp_path) as store:
        for question, values in NEEDS.items():
            answer = store.ask(question, **values)
            assert not answer.rows, question
            assert f"It needs {store.catalog[question].needs}." in answer.note, question
    with provml.record("told", model="net", home=tmp_path, strict=True, by="alice", capture_environment=False) as run:
        data = run.prepared(b"cut", name="cut", by="tiling", using=run.dataset(b"tiles", name="tiles"), tile=64)
        with run.training(using=[data, run.dataset(b"tiles", name="tiles")], learning_rate=0.05, K=32, L=4) as training:
            training.layers([{"name": "hidden", "type": "Dense", "units": 24}])
            for epoch in training.epochs(1):
                for _ in epoch.batches([1, 2]):
                    pass
                epoch.measured(loss=0.5)
                training.adapted(learning_rate=0.025, technique="step decay")
            training.produced(b"more weights")
    with provml.open(tmp_path) as store:
        for question, values in NEEDS.items():
            assert store.ask(question, **values).rows, question
