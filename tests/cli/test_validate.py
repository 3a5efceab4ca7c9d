"""`provml validate`: check a run, all runs or a file; exit with 0 if it conforms, 1 if not, 2 for bad input."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest
import rdflib
from click.testing import CliRunner, Result

from provml.cli import main
from provml.errors import ValidationFailed
from provml.recording.run import Run
from provml.store import Store

EXAMPLES = Path(__file__).parents[1] / "shapes"
INVALID_FILE = EXAMPLES / "end-before-start" / "fail-start-after-end.ttl"
USER_SHAPE = """
@prefix ex: <http://example.org/> .
@prefix provlake: <https://w3id.org/provlake#> .
@prefix provml: <https://w3id.org/provml#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
ex:UserShape a sh:NodeShape ; sh:targetClass provml:LearningProcessExecution ;
    sh:property [ sh:path provlake:exceptionType ; sh:minCount 1 ; sh:message "A user shape is violated."@en ] .
"""


def record(home: Path, run: str, *, with_model: bool = True) -> None:
    """Record a run whose evaluation names its model, or not."""
    with Run("flowers", model="alexnet", home=home, run=run, strict=True) as recorded:
        photos = recorded.dataset(b"photos", name="photos")
        with recorded.training(using=photos, learning_rate=0.1) as training:
            for epoch in training.epochs(2):
                epoch.measured(loss=1 / epoch.index)
            model = training.produced(b"weights")
        with recorded.evaluation(of=model if with_model else None) as test:
            test.measured(accuracy=0.5)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two valid runs, and one whose latest run does not name the model that it evaluated."""
    folder = tmp_path_factory.mktemp("homes")
    for run in ("monday", "tuesday"):
        record(folder / "good", run)
    record(folder / "bad", "monday")
    record(folder / "bad", "tuesday", with_model=False)
    return folder


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["validate", *map(str, arguments)])


def test_the_latest_run_is_validated_unless_another_is_named(homes: Path):
    result = invoke("--home", homes / "good")
    assert result.exit_code == 0, result.output
    assert "The graph conforms to all shapes." in result.output
    assert "checked run tuesday: " in result.output
    assert "checked run monday: " in invoke("mon", "--home", homes / "good").output


def test_a_violated_constraint_exits_with_1_and_says_what_to_do(homes: Path):
    result = invoke("--home", homes / "bad")
    assert result.exit_code == 1
    assert "Violation at 1 node: The evaluation does not name the model that it evaluated. Pass it as" in result.output
    assert invoke("monday", "--home", homes / "bad").exit_code == 0


def test_all_runs_are_validated_at_once(homes: Path):
    result = invoke("--all", "--home", homes / "bad")
    assert result.exit_code == 1
    assert "run/tuesday/evaluation>" in result.output
    assert invoke("--all", "--home", homes / "good").exit_code == 0


def test_a_file_is_read_in_the_format_of_its_extension():
    result = invoke(INVALID_FILE)
    assert result.exit_code == 1
    assert "The start is after the end." in result.output
    assert invoke(EXAMPLES / "plan-without-name" / "pass-a-measure.ttl").exit_code == 0


@pytest.mark.parametrize("engine", ["sparql", "pyshacl"])
def test_the_engine_can_be_chosen(engine: str):
    result = invoke(INVALID_FILE, "--engine", engine, "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.output)["scope"]["engine"] == engine


@pytest.mark.parametrize("package", ["rdflib", "pyshacl"])
def test_pyshacl_that_is_not_installed_is_an_error_with_the_extra(package: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, package, None)
    result = invoke(INVALID_FILE, "--engine", "pyshacl")
    assert result.exit_code == 2
    assert "pip install 'provml[shacl]'" in result.output


def test_warnings_are_printed_and_exit_with_0(homes: Path):
    result = invoke(EXAMPLES / "plan-without-name" / "fail-no-name.ttl")
    assert result.exit_code == 0
    assert "conforms, with 1 remark" in result.output


@pytest.mark.parametrize("role", ["", "test"])
@pytest.mark.parametrize("engine", ["sparql", "pyshacl"])
def test_evaluation_data_in_a_training_is_a_warning(role: str, engine: str, tmp_path: Path):
    with Run("leak", model="net", home=tmp_path, run="leak", strict=True) as run:
        data = run.dataset(b"T", name="test.csv", role=role)
        with run.training(using=data) as training:
            model = training.produced(b"weights")
        with run.evaluation(of=model, using=data) as test:
            test.measured(accuracy=0.5)
    result = invoke("--home", tmp_path, "--engine", engine)
    assert result.exit_code == 0, result.output
    assert "Warning at 1 node: The training used data that is reserved for the evaluation" in result.output


# ---- formats


def test_a_report_is_printed_in_all_formats(tmp_path: Path):
    assert invoke(INVALID_FILE, "--format", "markdown").output.startswith("## The graph violates 1 constraint\n")
    assert json.loads(invoke(INVALID_FILE, "--format", "json").output)["conforms"] is False
    assert invoke(INVALID_FILE, "--format", "html").output.startswith("<div")
    graph = rdflib.Graph().parse(data=invoke(INVALID_FILE, "--format", "turtle").output, format="turtle")
    sh = rdflib.Namespace("http://www.w3.org/ns/shacl#")
    assert list(graph.subjects(rdflib.RDF.type, sh.ValidationReport))


@pytest.mark.parametrize(
    ("name", "prefix"), [("r.md", "## "), ("r.json", "{"), ("r.ttl", "@prefix"), ("r.html", "<div")]
)
def test_a_report_is_written_in_the_format_of_the_extension(name: str, prefix: str, tmp_path: Path):
    result = invoke(INVALID_FILE, "-o", tmp_path / name)
    assert result.exit_code == 1
    assert (tmp_path / name).read_text().startswith(prefix)
    assert "Wrote the report to" in result.output


# ---- shapes of the user


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    folder = tmp_path / "user-shapes"
    folder.mkdir()
    (folder / "user.ttl").write_text(USER_SHAPE)
    return folder


def test_shapes_of_the_user_come_from_an_option_the_environment_or_the_home(
    homes: Path, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for path in (shapes, shapes / "user.ttl"):
        result = invoke("--home", homes / "good", "--shapes", path)
        assert result.exit_code == 1
        assert "A user shape is violated." in result.output
    monkeypatch.setenv("PROVML_SHAPES", str(shapes))
    assert "A user shape is violated." in invoke("--home", homes / "good").output
    monkeypatch.delenv("PROVML_SHAPES")
    record(tmp_path / "home", "monday")
    shapes.rename(tmp_path / "home" / "shapes")
    assert "A user shape is violated." in invoke("--home", tmp_path / "home").output
    with Store(tmp_path / "home") as store:
        assert not store.validate()


def test_a_folder_of_shapes_can_be_empty_or_contain_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    record(tmp_path, "monday")
    (tmp_path / "shapes").mkdir()
    assert invoke("--home", tmp_path).exit_code == 0
    (tmp_path / "shapes" / "notes.ttl").write_text("<urn:a> <urn:b> <urn:c> .")
    assert invoke("--home", tmp_path).exit_code == 0
    (tmp_path / "shapes" / "user.ttl").write_text(USER_SHAPE)
    assert "A user shape is violated." in invoke("--home", tmp_path).output
    monkeypatch.setenv("PROVML_SHAPES", str(tmp_path / "shapes" / "notes.ttl"))
    result = invoke("--home", tmp_path)
    assert (result.exit_code, "the file has no SHACL shape" in result.output) == (2, True), "a named file needs shapes"


# ---- PROV-CONSTRAINTS


def test_constraints_check_any_prov_document_and_name_the_violated_constraint(tmp_path: Path, homes: Path):
    path = tmp_path / "any.ttl"
    path.write_text(
        "@prefix prov: <http://www.w3.org/ns/prov#> . @prefix ex: <http://example.org/> .\n"
        "ex:e a prov:Entity , prov:Activity ."
    )
    result = invoke("--constraints", path)
    assert result.exit_code == 1
    assert "55" in result.output
    assert "PROV-CONSTRAINTS" in result.output
    result = invoke(
        "--constraints", "--shapes", EXAMPLES.parents[1] / "shapes" / "end-before-start.ttl", "--home", homes / "good"
    )
    assert result.exit_code == 0
    assert "The graph conforms to all shapes and constraints." in result.output
    assert " (SPARQL engine) and 35 constraints (PROV-CONSTRAINTS)" in result.output
    alone = invoke("--constraints", "--home", homes / "good").output
    triples = alone.split("run tuesday: ")[1].split(" triples")[0]
    assert f"run tuesday: {triples} triples" in result.output, "counted while they are read"


# ---- bad input


def test_bad_input_exits_with_2_and_names_its_position(homes: Path, tmp_path: Path):
    def write(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    (tmp_path / "empty").mkdir()
    home = ("--home", homes / "good")
    invalid = """
        @prefix ex: <http://example.org/> . @prefix sh: <http://www.w3.org/ns/shacl#> .
        ex:Again a sh:NodeShape ; sh:targetNode ex:a ; sh:property [ sh:path ex:p ; sh:minCount -1 ] ."""
    cases = [
        ([tmp_path / "none.ttl"], "none.ttl"),
        ([write("broken.ttl", "\n\n,,")], "broken.ttl:3"),
        ([write("data.csv", "a,b")], "data.csv"),
        (["friday", *home], "No run 'friday'"),
        ([*home, "--shapes", tmp_path / "nowhere"], "nowhere"),
        ([*home, "--shapes", tmp_path / "empty"], "the folder has no shape file"),
        ([*home, "--shapes", write("worse.ttl", "@prefix sh: <urn:x> .\n;;")], "worse.ttl:2"),
        ([*home, "--shapes", write("other.ttl", "<urn:a> <urn:b> <urn:c> .")], "the file has no SHACL shape"),
        ([*home, "--shapes", write("again.ttl", invalid)], "http://example.org/Again"),
        (["monday", "--all", *home], "not several"),
        (["--all", "--owl", *home], "--owl checks one run"),
        (["--home", tmp_path / "no-home"], "No provml home at"),
        ([*home, "-o", tmp_path / "no" / "report.md"], "No directory"),
    ]
    for arguments, message in cases:
        result = invoke(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert message in result.output, (arguments, result.output)
        assert "Traceback" not in result.output


# ---- when a run ends


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.jsonld", '{"urn:a:b":' * 4000 + "1" + "}" * 4000, "nested in more than 500 levels"),
        (
            "a.ttl",
            f"<urn:a:s> <urn:a:p> {'<<( <urn:a:s> <urn:a:p> ' * 20_000}1{' )>>' * 20_000} .",
            "the parser crashed",
        ),
        ("a.nt", f'<urn:a:s> <urn:a:p> "{"x" * 30_000_000}" .', "longer than 16 MiB"),
    ],
    ids=["json", "triple-terms", "literal"],
)
def test_a_hostile_file_exits_with_2_and_one_line(tmp_path: Path, name: str, text: str, reason: str):
    path = tmp_path / name
    path.write_text(text)
    for arguments in ([path], [path, "--constraints"], [INVALID_FILE, "--shapes", path]):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert isinstance(result.exception, SystemExit)
        (line,) = result.output.splitlines()
        assert line.startswith(f"provml: {path}: ")
        assert reason in line


def test_a_run_validated_at_its_end_has_the_result_in_status_and_show(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    validated = Run("flowers", home=tmp_path, validate=True)
    with caplog.at_level(logging.INFO, "provml"), validated as run, run.evaluation():
        pass
    assert "The evaluation does not name the model that it evaluated." in caplog.text
    for command in ("status", "show"):
        result = CliRunner().invoke(main, [command, "--home", str(tmp_path)])
        assert "The graph violates 1 constraint" in result.output
    with Store(tmp_path) as store:
        assert store.run("latest").status == "FINISHED"


def test_only_a_strict_run_raises_and_only_after_everything_is_written(tmp_path: Path):
    run = Run("flowers", home=tmp_path, strict=True, validate=True)
    with run.evaluation():
        pass
    with pytest.raises(ValidationFailed):
        run.finish()
    with Store(tmp_path) as store:
        assert store.run("latest").status == "FINISHED"


def test_a_failed_run_raises_its_own_error_and_not_that_of_the_validation(tmp_path: Path):
    with (
        pytest.raises(ZeroDivisionError),
        Run("flowers", home=tmp_path, strict=True, validate=True) as run,
        run.evaluation(),
    ):
        raise ZeroDivisionError
    with Store(tmp_path) as store:
        assert store.run("latest").status == "FAILED"


def test_broken_shapes_do_not_raise_in_the_training(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes" / "bad.ttl").write_text(",,")
    with Run("flowers", home=tmp_path, validate=True) as run, run.training():
        pass
    assert "could not be validated" in caplog.text
    with Store(tmp_path) as store:
        assert store.run("latest").status == "FINISHED"
