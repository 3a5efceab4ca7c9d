"""`provml ask` and `Store.ask`: questions of the catalog about recorded runs, with values named as users do."""

from __future__ import annotations

import hashlib
import json
import os
import re
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
from provml.answers import Curve
from provml.answers.plot import Curves, Series
from provml.answers.terminal_chart import draw
from provml.cli import main
from provml.errors import InvalidParameter, QueryError, QueryNotFound, RunNotFound
from provml.model.values import IRI
from provml.store import Store


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
    with provml.open(home) as store:
        yield store


def test_a_question_is_asked_by_its_id(store: Store):
    answer = store.ask("q6", model="alexnet")
    row = answer.to_dicts()[0]
    assert (row["epoch"], row["old"], row["new"], row["technique"]) == (2, 0.1, 0.01, "LRS")


def test_a_run_can_be_named_by_its_iri_its_id_or_the_end_of_its_id(store: Store):
    older = store.runs()[-1]
    by_iri = store.ask("q3", model="alexnet", run=older.iri)
    assert by_iri.rows == store.ask("q3", model="alexnet", run=older.id).rows
    assert by_iri.rows == store.ask("q3", model="alexnet", run=older.id[-6:]).rows
    assert by_iri.rows != store.ask("q3", model="alexnet").rows
    with pytest.raises(RunNotFound):
        store.ask("q3", model="alexnet", run="nothing-like-it")


def test_a_model_can_be_named_by_its_name_and_run(store: Store):
    with pytest.raises(InvalidParameter, match="alexnet@"):
        store.ask("b3", model="alexnet")
    answer = store.ask("b3", model=f"alexnet@{store.runs()[0].id}")
    assert len(answer) > 0
    with pytest.raises(InvalidParameter, match="Available: alexnet"):
        store.ask("b3", model="resnet")


def test_a_value_with_a_colon_is_a_name_if_one_exists_and_otherwise_an_iri(tmp_path: Path):
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
        with pytest.raises(InvalidParameter, match="Available: llama3:8b"):
            store.ask("b3", model="lama3:8b")


def test_a_dataset_can_be_named_by_its_name(store: Store):
    assert len(store.ask("b5", dataset="photos")) == 2
    assert store.ask("b5", dataset="gray-photos").rows
    with pytest.raises(InvalidParameter, match=r"Available: .*photos"):
        store.ask("b5", dataset="xyz")


def test_sparql_returns_the_query_with_its_values(store: Store):
    text = store.sparql("q1", model='a"b', epoch=3)
    assert r'"a\"b"' in text
    assert "$" not in "".join(line for line in text.splitlines() if not line.startswith("#"))


def test_an_unknown_question_or_a_wrong_value_is_an_error(store: Store):
    with pytest.raises(QueryNotFound):
        store.ask("q99")
    with pytest.raises(InvalidParameter, match="a whole number"):
        store.ask("q1", model="alexnet", epoch="ten")


def test_the_implementation_of_a_stage_is_in_the_graph(store: Store):
    answer = store.query(
        """SELECT ?name ?algorithm ?software ?commit WHERE {
             ?stage a provml:TrainingExecution ; prov:wasAssociatedWith ?i .
             ?i a provml:Implementation ; rdfs:label ?name ; provml:implementsAlgorithm/rdfs:label ?algorithm ;
                provml:isPartOfSoftware/rdfs:label ?software ;
                provml:hasImplementationCharacteristic [ rdfs:label "commit" ; prov:value ?commit ] }"""
    )
    assert not isinstance(answer, bool)
    assert answer.rows == [("alexnet.py", "CNN", "numpy", "abc")] * 2


def test_a_list_as_a_hyperparameter_is_stored_as_text(store: Store):
    answer = store.ask("b7", hyperparameter="betas", text="[0.9, 0.99]")
    assert len(answer) == 2


def test_the_command_answers_lists_and_shows_questions(home: Path):
    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["ask", *arguments, "--home", str(home)])
        return result.exit_code, result.output

    code, output = run("q4", "--model", "alexnet", "--format", "csv")
    assert code == 0
    assert output.splitlines()[1].endswith(",0.1,0.1")
    assert run("--list")[1].count("\n") > 30
    assert "SELECT" in run("q4", "--model=alexnet", "--show")[1]
    assert run("q1", "--model", "alexnet", "--epoch", "ten")[0] == 2
    assert run("q1", "--model")[0] == 2
    assert run("q99")[0] == 2
    assert run("q4", "--format", "csv") == (code, output), "the only model of a home can be left out"
    assert "loss-now: missing required parameter 'k' (a number)" in run("loss-now")[1]


def run_ask(home: Path, *arguments: str, code: int = 0) -> str:
    """Return what `provml ask` prints; it must exit with `code`."""
    result = CliRunner().invoke(main, ["ask", *arguments, "--home", str(home)])
    assert result.exit_code == code, result.output
    return result.output


def test_the_list_is_grouped_by_intent_with_one_line_per_question_and_has_one_row_each_as_json(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = run_ask(home).splitlines()
        assert lines[0] == "Find the best"
        assert lines.index("Compare") < lines.index("Audit")
        assert max(map(len, lines)) <= columns
        assert sum(line.startswith("layers-of-model ") for line in lines) == 1
    rows = json.loads(run_ask(home, "--list", "--format", "json"))
    assert {
        "name": "layers-of-model",
        "aliases": "q2",
        "intent": "follow a training",
        "question": "What are the layers of a model?",
        "parameters": "--model [--run]",
    } in rows


def test_a_parameter_with_the_name_of_an_option_gets_an_option_with_an_underscore(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    params = "#+ params: {list: {type: string}, home: {type: string, default: x}, question: {type: string, default: y}}"
    select = "SELECT ($list AS ?a) ($home AS ?b) ($question AS ?c) {}\n"
    (tmp_path / "u1.rq").write_text(f"#+ id: u1\n#+ summary: Which?\n{params}\n{select}")
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    assert "--list_ [--home_] [--question]" in run_ask(home, "--list", "--format", "csv")
    assert "value  x  z" in run_ask(home, "u1", "--list_", "value", "--question", "z")
    with provml.open(home) as store:
        assert '"z" AS ?c' in store.sparql("u1", list="l", question="z")


def test_a_header_whose_columns_differ_from_its_select_is_an_error(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, columns in {
        "u1": "{nope: iri}",
        "u2": "{a: integer}",
        "u3": "{a: integer, b: integer, c: integer}",
    }.items():
        text = f"#+ id: {name}\n#+ summary: Which?\n#+ columns: {columns}\nSELECT (1 AS ?a) (2 AS ?b) {{}}\n"
        (tmp_path / f"{name}.rq").write_text(text)
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    assert "u1.rq: the header has the columns nope, but SELECT has a, b." in run_ask(home, "u1", code=2)
    assert "the header has the columns a, but SELECT has a, b." in run_ask(home, "u2", code=2)
    assert "the header has the columns a, b, c, but SELECT has a, b." in run_ask(home, "u3", code=2)


def test_a_missing_folder_of_questions_is_a_warning(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path / "nowhere"))
    output = run_ask(home, "q4", "--model", "alexnet")
    assert "nowhere: no such folder. Check PROVML_QUERIES." in output
    assert "0.1" in output


def test_the_help_of_a_question_describes_its_parameters(home: Path):
    page = " ".join(run_ask(home, "h8", "--help").split())
    assert "What was the best loss" in page
    assert "--model TEXT the model's name, such as densed [required]" in page
    assert "--learning_rate NUMBER" in page
    assert "[default: loss]" in page
    assert "training, epoch, value, layers" in page
    assert "Pina, dissertation, 2020, Table 4.10" in page


def test_options_can_precede_the_question_and_be_written_with_hyphens(home: Path):
    options_first = CliRunner().invoke(
        main, ["ask", "--home", str(home), "--format", "csv", "q4", "--model", "alexnet"]
    )
    assert options_first.output == run_ask(home, "q4", "--model", "alexnet", "--format", "csv")
    values = ("--model", "alexnet", "--k", "1", "--l", "1")
    assert run_ask(home, "h8", *values, "--learning-rate", "1") == run_ask(home, "h8", *values, "--learning_rate", "1")


def test_a_parameter_with_several_values_is_a_repeated_option(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "u2-names.rq").write_text(
        "#+ id: u2\n#+ summary: Which?\n#+ params:\n#+   name: {type: string, many: true}\n"
        "#+   format: {type: integer, default: 3}\n#+ columns: {name: string, format: integer}\n"
        "SELECT ?name ?format { VALUES ?name { $name } BIND($format AS ?format) } ORDER BY ?name\n"
    )
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    assert run_ask(home, "u2", "--name", "b", "--name", "a", "--format", "csv") == "name,format\na,3\nb,3\n"
    assert run_ask(home, "u2", "--name", "-1", "--format_", "-4", "--format", "csv") == "name,format\n-1,-4\n"


def test_errors_about_a_question_suggest_a_correction(home: Path):
    assert "Did you mean best-hyperparameters" in run_ask(home, "best-hyperparameter", code=2)
    assert "No question 'q99'" in run_ask(home, "q99", code=2)
    assert "Did you mean '--model'?" in run_ask(home, "q1", "--modl", "x", code=2)
    assert "Pass k=… or --k …." in run_ask(home, "loss-now", code=2)
    without_curve = run_ask(home, "q1", "--model", "alexnet", "--plot", code=2)
    assert re.search(r"Questions with a curve: [\w-]+, [\w-]+, [\w-]+ and \d+ more\.", without_curve)
    assert "exclude each other" in run_ask(home, "q3", "--model", "alexnet", "--plot", "--format", "csv", code=2)


def test_show_needs_no_home(tmp_path: Path):
    shown = run_ask(tmp_path / "none", "q1", "--model", "alexnet", "--show")
    assert '"alexnet"' in shown
    assert not (tmp_path / "none").exists()


FORMATS = ["table", "json", "csv", "tsv", "sparql-json", "sparql-xml", "sparql-csv", "sparql-tsv"]


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
def test_show_prints_the_query_that_is_run(home: Path, store: Store, question: str, values: dict[str, str]):
    options = [argument for name, value in values.items() for argument in (f"--{name}", value)]
    typed = {name: store.catalog[question].params[name].from_text(value) for name, value in values.items()}
    assert run_ask(home, question, *options, "--show") == store.sparql(question, **typed)


@pytest.mark.parametrize("answer_format", FORMATS)
def test_an_answer_is_the_same_on_standard_output_and_in_a_file_in_every_format(
    home: Path, tmp_path: Path, answer_format: str
):
    shown = run_ask(home, "q3", "--model", "alexnet", "--format", answer_format)
    assert "0.5" in shown
    file = tmp_path / "answer"
    assert "Wrote 3 rows to" in run_ask(home, "q3", "--model", "alexnet", "--format", answer_format, "-o", str(file))
    assert file.read_bytes().decode() == shown.replace("\r\n", "\n").replace(
        "\n", "\r\n" if answer_format == "sparql-csv" else "\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["answer"]


@pytest.mark.parametrize(
    ("extension", "prefix"),
    [("csv", "training,"), ("json", "["), ("srj", '{"head"'), ("srx", "<?xml"), ("txt", "training ")],
)
def test_the_extension_of_a_file_sets_the_format(home: Path, tmp_path: Path, extension: str, prefix: str):
    file = tmp_path / f"answer.{extension}"
    run_ask(home, "q3", "--model", "alexnet", "-o", str(file))
    assert file.read_text().startswith(prefix)


def test_a_failed_question_does_not_change_the_file(home: Path, tmp_path: Path):
    file = tmp_path / "answer.csv"
    file.write_text("before")
    run_ask(home, "q1", "--model", "alexnet", "--epoch", "ten", "-o", str(file), code=2)
    assert file.read_text() == "before"
    assert "Add --plot" in run_ask(home, "q3", "--model", "alexnet", "-o", str(tmp_path / "a.png"), code=2)
    assert "No directory" in run_ask(home, "q3", "--model", "alexnet", "-o", str(tmp_path / "none" / "a.csv"), code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["answer.csv"]


def test_a_curve_is_plotted_in_the_terminal_and_in_an_image_file(home: Path, tmp_path: Path):
    lines = run_ask(home, "q3", "--model", "alexnet", "--plot").splitlines()
    assert lines[0].startswith("loss by epoch, run/")
    assert lines[-1].split() == ["1", "epoch", "3"]
    result = subprocess.run(
        [sys.executable, "-m", "provml.cli", "ask", "e1", "--plot", "--home", str(home)],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "60"},
        capture_output=True,
        check=True,
    )
    assert result.stdout.isascii()
    assert b"?" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 60
    for extension, prefix in {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}.items():
        file = tmp_path / f"loss.{extension}"
        run_ask(home, "q3", "--model", "alexnet", "--plot", "-o", str(file))
        assert file.read_bytes().startswith(prefix)


def test_a_plot_is_not_written_to_a_file_with_an_unknown_extension(home: Path, tmp_path: Path):
    arguments = ("q3", "--model", "alexnet", "--plot", "-o")
    assert "Unknown extension '.jpg' for a plot" in run_ask(home, *arguments, str(tmp_path / "x.jpg"), code=2)
    assert list(tmp_path.iterdir()) == []
    run_ask(home, *arguments, str(tmp_path / "x.txt"))
    assert "by epoch" in (tmp_path / "x.txt").read_text()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone of the process cannot be set")
def test_a_curve_over_time_names_the_time_zone(monkeypatch: pytest.MonkeyPatch):
    series = Series("loss", [(datetime(2026, 1, 1, 12, tzinfo=UTC), 1.0), (datetime(2026, 1, 1, 13, tzinfo=UTC), 0.5)])
    monkeypatch.setenv("TZ", "XST-3")
    time.tzset()
    try:
        axis = draw(Curves("time", "loss", [series], 0)).splitlines()[-1]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert axis.split() == ["2026-01-01", "15:00:00", "XST", "time", "2026-01-01", "16:00:00", "XST"]


def test_a_plot_of_no_rows_prints_that_there_are_none(home: Path):
    arguments = ("h1", "--model", "alexnet")
    assert run_ask(home, *arguments, "--plot") == run_ask(home, *arguments)
    assert run_ask(home, *arguments).startswith("No rows.\n")


def test_a_default_measure_that_was_not_recorded_is_a_hint_with_the_recorded_measures(tmp_path: Path):
    run = provml.record("trees", model="trees", home=tmp_path, capture_environment=False)
    with run, run.training() as training:
        for epoch in training.epochs(2):
            epoch.measured(mlogloss=0.5, merror=0.25)
    result = CliRunner().invoke(main, ["ask", "q1", "--model", "trees", "--epoch", "1", "--home", str(tmp_path)])
    assert result.stdout == "No rows.\n"
    assert "measure loss (the default)" in result.stderr
    hint = "No measure named 'loss' (the default): pass measure, for example mlogloss, merror."
    assert hint in result.stderr
    q3 = ["ask", "q3", "--model", "trees", "--home", str(tmp_path)]
    epochs = CliRunner().invoke(main, q3)
    assert len(epochs.stdout.splitlines()) == 2 + 2
    assert hint in epochs.stderr
    epochs = CliRunner().invoke(main, [*q3, "--measure", "merror"])
    assert "0.25" in epochs.stdout
    assert not epochs.stderr


def test_an_answer_without_rows_has_a_note_on_the_parameters(home: Path, store: Store):
    result = CliRunner().invoke(main, ["ask", "q1", "--model", "alexnet", "--home", str(home)])
    assert result.stdout == "No rows.\n"
    assert (
        result.stderr
        == "provml: The parameters were model alexnet, epoch 10 (the default), measure loss (the default).\n"
    )
    unknown_node = CliRunner().invoke(main, ["ask", "b1", "--start", "http://example.org/no", "--home", str(home)])
    assert (unknown_node.exit_code, unknown_node.stdout) == (0, "No rows.\n")
    assert unknown_node.stderr == "provml: The graph has no node <http://example.org/no> (parameter start).\n"
    assert "the IRI" not in store.ask("b2", start=store.run("latest").iri).note
    assert store.ask("q1", model="alexnet", epoch=2).note == ""


def test_an_answer_has_a_curve_and_the_types_of_its_columns(store: Store):
    answer = store.ask("q3", model="alexnet")
    assert answer.curve == Curve("epoch", ("value",), ("training",), "loss")
    assert store.ask("h1", model="alexnet", measure="loss").curves().y == "loss"
    assert store.ask("q4", model="alexnet").curve is None
    assert str(store.ask("h1", model="alexnet").to_polars()["epoch"].dtype) == "Int64"
    assert store.ask("l5", from_=1, to=2).rows == []


def test_answers_of_queries_have_the_same_formats_and_plots(home: Path, tmp_path: Path):
    def query(sparql: str, *options: str, code: int = 0) -> str:
        result = CliRunner().invoke(main, ["query", sparql, *options, "--home", str(home)])
        assert result.exit_code == code, result.output
        return result.output

    assert query("ASK {}") == query("ASK {}", "--format", "csv") == "true\n"
    assert json.loads(query("ASK {}", "--format", "sparql-json")) == {"head": {}, "boolean": True}
    assert json.loads(query("ASK {}", "--format", "json")) is True
    exact = query("SELECT ?x { VALUES ?x { '01'^^<http://example.org/kind> } }", "--format", "sparql-tsv")
    assert exact == '?x\n"01"^^<http://example.org/kind>\n'
    plot = query("SELECT ?t ?x ?y { VALUES (?t ?x ?y) { ('a' 1 2) ('b' 2 3) } }", "--plot").splitlines()
    assert plot[0] == "y by x"
    assert plot[-2:] == ["* a", "+ b"]
    assert "Select a column of numbers" in query("SELECT ?x { VALUES ?x { 1 } }", "--plot", code=2)
    assert "cannot be plotted" in query("ASK {}", "--plot", code=2)


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        (["ask"], "lo", {"loss-at-epoch", "loss-now"}),
        (["ask", "q3"], "--m", {"--model", "--measure"}),
        (["ask", "q3", "--run"], "lat", {"latest"}),
        (["ask", "q99"], "--m", set()),
    ],
)
def test_shell_completion_offers_questions_parameters_and_runs(words: list[str], incomplete: str, expected: set[str]):
    complete = ShellComplete(main, {}, "provml", "_PROVML_COMPLETE")
    assert expected <= {item.value for item in complete.get_completions(words, incomplete)}


def test_questions_of_a_user_work_like_built_in_questions(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "u1-stages.rq").write_text(
        "#+ id: u1\n#+ summary: Which stages ran?\n#+ params:\n#+   run: {type: iri, of: run}\n"
        "#+ columns: {stage: iri}\n"
        "PREFIX provlake: <https://w3id.org/provlake#>\n"
        "SELECT ?stage WHERE { ?stage provlake:wasMemberOfWorkflowExecution $run } ORDER BY ?stage\n"
    )
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    assert "Yours" in run_ask(home, "--list").splitlines()
    assert "Which stages ran?" in run_ask(home, "u1", "--help")
    assert run_ask(home, "u1", "--run", "latest").count("\n") == 6
    with provml.open(home) as store:
        rows = store.ask("u1", run="latest").rows
    assert IRI(f"{rows[0][0]}").startswith("https://w3id.org/provml/run/")
    assert len(rows) == 4


def test_the_error_for_an_unknown_name_lists_the_names_that_exist(home: Path, store: Store):
    for name, values in {
        "q1": {"model": "alexnt"},
        "q3": {"model": "alexnet", "measure": "los"},
        "q6": {"model": "alexnet", "hyperparameter": "learning_rat"},
        "b7": {"hyperparameter": "learning_rat"},
    }.items():
        with pytest.raises(InvalidParameter, match=r"Available: (alexnet|loss|learning_rate)"):
            store.ask(name, **values)
    assert "Available: alexnet." in run_ask(home, "h1", "--model", "alexnt", code=2)
    with pytest.raises(InvalidParameter, match=r"no parameter 'modle'. Did you mean 'model'"):
        store.ask("q3", modle="x")


def test_the_loss_is_that_of_the_requested_epoch(store: Store):
    assert store.ask("q1", model="alexnet", epoch=2).column("value") == [0.5]


def test_content_is_found_by_the_first_digits_of_its_digest(store: Store):
    digest = hashlib.sha256(b"raw").hexdigest()
    assert store.ask("b4", sha256=digest[:12]).rows == store.ask("b4", sha256=digest).rows != []
    with pytest.raises(InvalidParameter, match="Available: "):
        store.ask("b4", sha256="0" * 12)


def test_the_name_of_a_model_that_a_run_saved_several_times_means_the_last(tmp_path: Path):
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
        with pytest.raises(InvalidParameter) as caught:
            store.ask("b3", model="net")
        names = str(caught.value).partition("Use one of: ")[2].partition(".")[0].split(", ")
        assert str(caught.value).endswith(" Each is the last model of that name in its run.")
        assert {f"net@{run_id}" for run_id in ids} <= set(names)
        for name in names:
            assert store.ask("b3", model=name).rows


def test_a_node_can_be_named_by_its_name_or_by_its_iri_as_tables_print_it(store: Store):
    run = store.run("latest")
    by_iri = store.ask("b1", start=f"{run.iri}/data/alexnet")
    assert by_iri.rows
    assert store.ask("b1", start=f"run/{run.id}/data/alexnet").rows == by_iri.rows
    assert store.ask("b1", start="alexnet@latest").rows == by_iri.rows
    assert store.ask("b2", start="photos").rows
    assert store.ask("q3", model="alexnet", run=run).rows == store.ask("q3", model="alexnet", run=run.id).rows


def test_the_origin_of_a_model_has_separate_columns_for_people_and_software(tmp_path: Path):
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


def test_a_broken_question_file_of_a_user_does_not_affect_other_questions(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "u6-bad.rq").write_text("SELECT")
    (tmp_path / "u7.rq").write_text("#+ id: u7\n#+ summary: Which?\nSELECT ?x {{ ?x ?y }\n")
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    output = run_ask(home, "q4", "--model", "alexnet")
    assert output.count("u6-bad.rq") == 1
    assert "0.1" in output
    assert "has no name and no summary" in run_ask(home, "u6", code=2)
    assert "u7.rq: invalid query at line 3, column 20: the triple has no object" in run_ask(home, "u7", code=2)
    with provml.open(home) as store:
        assert store.ask("q4", model="alexnet").rows
    assert "u6-bad.rq" in caplog.text
    command = [sys.executable, "-m", "provml", "ask", "q4", "--model", "alexnet", "--home", str(home)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr.count("u6-bad.rq") == 1


def test_a_question_of_a_user_has_a_time_limit_and_calls_no_service_unless_allowed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    head = "#+ id: {0}\n#+ summary: Which?\n"
    endless = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . FILTER(?a < ?d && ?g < ?l) }"
    (tmp_path / "u8.rq").write_text(head.format("u8") + endless)
    call = "SELECT * { SERVICE <http://127.0.0.1:9/none> { ?a ?b ?c } }"
    (tmp_path / "u9.rq").write_text(head.format("u9") + call)
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    assert "its time limit" in run_ask(home, "u8", "--timeout", "0.5", code=1)
    assert "--allow-service" in run_ask(home, "u9", code=2)
    assert "Check that the SERVICE endpoint responds" in run_ask(home, "u9", "--allow-service", code=2)


def test_triples_are_written_as_rdf_in_the_format_of_the_extension(home: Path, tmp_path: Path):
    def query(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(main, ["query", *arguments, "--timeout", "0", "--home", str(home)])
        assert result.exit_code == code, result.output
        return result.output

    import pyoxigraph as ox

    construct = "CONSTRUCT { ?m a provml:Model } { ?m a provml:Model }"
    graphs = []
    for extension, rdf_format in {"ttl": "TURTLE", "nt": "N_TRIPLES", "jsonld": "JSON_LD"}.items():
        file = tmp_path / f"m.{extension}"
        query(construct, "-o", str(file))
        graphs.append({quad.triple for quad in ox.parse(file.read_bytes(), format=getattr(ox.RdfFormat, rdf_format))})
        assert sorted(query(construct, "--format", extension)) == sorted(file.read_text())
    assert len(graphs[0]) == 2
    assert graphs[0] == graphs[1] == graphs[2]
    assert "CONSTRUCT or DESCRIBE" in query("SELECT * {}", "--format", "ttl", code=2)
    assert "Unknown extension '.xlsx'" in query("SELECT * {}", "-o", str(tmp_path / "m.xlsx"), code=2)
    assert not (tmp_path / "m.xlsx").exists()


def test_an_error_in_sparql_names_the_cause(store: Store):
    for sparql, cause in {
        "INSERT DATA { <a:b> <a:b> <a:b> }": "cannot change the data",
        "SELECT * { ?s ex:p ?o }": "the prefix ex: is not declared",
    }.items():
        with pytest.raises(QueryError, match=cause):
            store.query(sparql)


def test_invalid_text_paths_and_time_limits_are_errors(home: Path, tmp_path: Path):
    def run(*arguments: str, stdin: bytes = b"", code: int = 2) -> str:
        result = CliRunner().invoke(main, [*arguments, "--home", str(home)], input=stdin)
        assert result.exit_code == code, result.output
        return result.output

    assert "model takes text" in run("ask", "q1", "--model", "\udcff")
    assert "standard input: the text is not UTF-8" in run("query", "-", stdin=b"\xff")
    assert "'\\udcff' at character 14 is not a Unicode character" in run("query", 'ASK { ?x ?y "\udcff" }')
    assert f"{tmp_path}: it is a directory" in run("query", str(tmp_path))
    assert "timeout must be a number of seconds from 0 to 1,000,000, not nan" in run(
        "query", "ASK {}", "--timeout", "nan"
    )
    (tmp_path / "bom.rq").write_text("\ufeffASK {}")
    assert run("query", str(tmp_path / "bom.rq"), code=0) == "true\n"
    assert run("query", "-", stdin="\ufeffASK {}".encode(), code=0) == "true\n"


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 1e10, "1"])
def test_a_time_limit_outside_its_range_is_an_error(store: Store, timeout: float):
    with pytest.raises(
        QueryError, match=r"timeout must be a number of seconds from 0 to 1,000,000, not .*\. 0 means no limit\."
    ):
        store.query("ASK {}", timeout=timeout)


def test_any_invalid_value_of_a_question_raises_an_error_of_provml(store: Store):
    with pytest.raises(InvalidParameter, match="value takes a number"):
        store.ask("q7", model="alexnet", value=10**400)
    with pytest.raises(QueryNotFound):
        store.ask(None)  # type: ignore[arg-type]


def test_a_plot_of_only_nan_values_is_an_error(tmp_path: Path):
    with (
        provml.record("x", model="nan", home=tmp_path, strict=True, capture_environment=False) as run,
        run.training() as training,
    ):
        for epoch in training.epochs(2):
            epoch.measured(loss=float("nan"))
    assert "all points are NaN or infinite" in run_ask(tmp_path, "q3", "--model", "nan", "--plot", code=2)


def test_the_error_for_an_ambiguous_name_lists_unambiguous_names_in_one_line(tmp_path: Path):
    for number in range(2):
        with provml.record("x", home=tmp_path, run=f"r{number}", strict=True, capture_environment=False) as run:
            same = run.dataset(f"{number}".encode(), name="same", role="raw")
            with run.filter("crop", using=same) as step:
                step.produced(f"cut {number}".encode(), name=f"long name\n{number}", role="training")
    digests = [hashlib.sha256(f"{number}".encode()).hexdigest()[:12] for number in range(2)]
    with provml.open(tmp_path) as store:
        with pytest.raises(InvalidParameter, match="is the name of 2 nodes") as caught:
            store.ask("b5", dataset="same")
        for number, digest in enumerate(digests):
            assert f"{digest} (in r{number})" in str(caught.value)
        with pytest.raises(InvalidParameter, match=r"Use one of: long name [01], long name [01], [0-9a-f]{12} \(in r"):
            store.ask("b5", dataset="long")


def test_lineage_includes_adaptations_and_starts_at_runs_epochs_and_measures(store: Store):
    run = store.run("latest")

    def nodes(question: str, start: str) -> set[tuple[str, object]]:
        rows = store.ask(question, start=f"{run.iri}{start}").to_dicts()
        return {(row["kind"], row["name"] if row["value"] is None else row["value"]) for row in rows}

    for start in ("", "/data/alexnet", "/training/3/measure/loss"):
        origins = nodes("b1", start)
        assert {("Hyperparameter", 0.01), ("Hyperparameter", 0.001), ("Adaptation", "LRS")} <= origins, start
        assert {("Dataset", "photos"), ("Filter", "gray-scale")} <= origins, start
    assert ("Adaptation", "LRS") not in nodes("b1", "/training/1/measure/loss"), "the adaptation was later"
    assert ("Hyperparameter", 0.001) not in nodes("b1", "/training/1/measure/loss")
    assert ("Training", "training") in nodes("b1", "/training/adaptation/1")
    for start in ("", "/training/1", "/training/adaptation/1", "/training/parameter/learning_rate"):
        assert ("Model", "alexnet") in nodes("b2", start), start


def test_a_digest_can_be_in_capitals_but_not_empty(store: Store):
    digest = hashlib.sha256(b"gray").hexdigest()
    assert store.ask("b4", sha256=digest.upper()).rows == store.ask("b4", sha256=digest).rows != []
    with pytest.raises(InvalidParameter, match="first digits"):
        store.ask("b4", sha256="")


def test_the_note_of_an_empty_answer_names_what_has_to_be_recorded(tmp_path: Path):
    with (
        provml.record("flowers", model="net", home=tmp_path, strict=True, capture_environment=False) as run,
        run.training(using=run.dataset(b"raw", name="photos"), learning_rate=0.1) as training,
    ):
        for epoch in training.epochs(2):
            epoch.measured(accuracy=0.5)
    with provml.open(tmp_path) as store:
        assert "needs an evaluation of the model, such as `with run.evaluation(" in store.ask("q4", model="net").note
        assert "needs a preparation" in store.ask("l5", from_=1, to=9).note


QUESTIONS_WITH_NEEDS: dict[str, dict[str, object]] = {
    "b11": {},
    "h6": {"model": "net"},
    "h7": {"model": "net", "k": 32, "l": 4},
    "h8": {"model": "net", "k": 32, "l": 4, "learning_rate": 0.05},
    "l2": {"model": "net@latest"},
    "l4": {"dataset": "tiles"},
    "q2": {"model": "net"},
}


def test_a_question_has_rows_once_its_needs_are_recorded(tmp_path: Path):
    with (
        provml.record("bare", model="net", home=tmp_path, strict=True, capture_environment=False) as run,
        run.training(using=run.dataset(b"tiles", name="tiles")) as training,
    ):
        for _ in training.epochs(1):
            pass
        training.produced(b"weights")
    with provml.open(tmp_path) as store:
        for question, values in QUESTIONS_WITH_NEEDS.items():
            answer = store.ask(question, **values)
            assert not answer.rows, question
            assert f"The question needs {store.catalog[question].needs}." in answer.note, question
    with provml.record(
        "complete", model="net", home=tmp_path, strict=True, by="alice", capture_environment=False
    ) as run:
        data = run.prepared(b"cut", name="cut", step="tiling", using=run.dataset(b"tiles", name="tiles"), tile=64)
        with run.training(using=[data, run.dataset(b"tiles", name="tiles")], learning_rate=0.05, K=32, L=4) as training:
            training.layers([{"name": "hidden", "type": "Dense", "units": 24}])
            for epoch in training.epochs(1):
                for _ in epoch.batches([1, 2]):
                    pass
                epoch.measured(loss=0.5)
                training.adapted(learning_rate=0.025, technique="step decay")
            training.produced(b"more weights")
    with provml.open(tmp_path) as store:
        for question, values in QUESTIONS_WITH_NEEDS.items():
            assert store.ask(question, **values).rows, question
