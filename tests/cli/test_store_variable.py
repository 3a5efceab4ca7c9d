"""PROVML_STORE: all commands that read runs use it, and those that need a folder say so if it is a URL."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from engines import servers

import provml
from provml.cli import main
from provml.recording.run import record

from .helpers import error_of, json_of, output_of

READING = (
    "runs",
    "status",
    "show",
    "log",
    "compare new new-2",
    "artifacts",
    "query 'SELECT ?run { ?run a provml:LearningProcessExecution }'",
    "ask failed-runs",
    "ask own-question",
    "ask --list",
    "validate",
    "report new-2 -o report.html",
    "export new-2 -o run.ttl",
    "bundle new-2 -o runs.zip",
    "graphs",
    "verify",
    "rebuild",
    "pack",
    "unpack",
    "seal",
    "gc",
    "rerun new-2 --dry-run",
    "tag new-2 good",
    "note new-2 text",
    "rename new-2 better",
)
"""Commands that succeed where run `new` is, and do not if they read the home that PROVML_HOME has."""
QUESTION = """#+ name: own-question
#+ summary: How many runs are there?
SELECT (COUNT(?run) AS ?runs) WHERE { ?run a provml:LearningProcessExecution }
"""
FILES = ("verify", "rebuild", "pack", "unpack", "seal", "gc", "status", "log", "ui", "serve", "tag new x")
"""Commands that need a folder."""


def train(home: Path, run_id: str) -> None:
    with record("flowers", model="alexnet", home=home, run=run_id) as run, run.training(learning_rate=0.1) as training:
        training.measured(loss=0.5)


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The home that PROVML_HOME has, and that of PROVML_STORE."""
    old, new = tmp_path / "old", tmp_path / "new"
    train(old, "old")
    train(new, "new")
    train(new, "new-2")
    (new / "queries").mkdir()
    (new / "queries" / "own-question.rq").write_text(QUESTION)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROVML_HOME", str(old))
    monkeypatch.setenv("PROVML_STORE", str(new))
    return old, new


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("command", READING)
def test_a_command_reads_the_store_of_the_environment(command: str, homes: tuple[Path, Path]):
    before = files_of(homes[0])
    done = CliRunner().invoke(main, shlex.split(command))
    assert "Traceback" not in done.output
    assert not isinstance(done.exception, Exception) or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 0 or command.startswith("rerun"), done.output  # the run was no script
    assert "not found" not in done.output
    assert files_of(homes[0]) == before


def test_the_option_counts_before_the_variable(homes: tuple[Path, Path]):
    for command in ("status", "runs"):
        assert "old" in output_of(homes[0], command)
        assert "new" in output_of(None, command)  # type: ignore[arg-type]


def test_runs_are_recorded_and_sent_from_the_home(homes: tuple[Path, Path], tmp_path: Path):
    old, new = homes
    with provml.record("flowers", run="third"):
        pass
    assert (old / "runs" / "third").is_dir()
    done = CliRunner().invoke(main, ["merge", str(new)])
    assert done.exit_code == 0, done.output
    assert (old / "runs" / "new").is_dir()
    assert f"--home {old}" in done.stderr
    assert CliRunner().invoke(main, ["lake", "build", "-o", str(tmp_path / "lake")]).exit_code == 0
    assert "4 runs" in output_of(None, "lake", "show", str(tmp_path / "lake"))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.oxigraph(tmp_path_factory.mktemp("oxigraph")) as server:
        yield server


@pytest.mark.parametrize("command", FILES)
def test_a_command_that_needs_a_folder_says_so(command: str, homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch):
    before = files_of(homes[0])
    monkeypatch.setenv("PROVML_STORE", "sparql+http://ann:pass-word@127.0.0.1:9/ds")
    message = error_of(None, *shlex.split(command), code=1)
    assert "PROVML_STORE is set to this URL. Pass a directory with --home" in message
    assert "sparql+http://127.0.0.1:9/ds" in message
    assert "pass-word" not in message
    assert files_of(homes[0]) == before


def test_an_endpoint_in_the_environment_is_asked(
    server: servers.Server, homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    url = f"sparql+{server.url}"
    monkeypatch.setenv("PROVML_STORE", url)
    done = CliRunner().invoke(main, ["sync", "--to", url])  # of PROVML_HOME
    assert "Sent 1 run" in done.output
    assert [row["run"] for row in json_of(None, "runs")] == ["old"]  # type: ignore[arg-type]
    homes[1].rename(homes[1].with_name("service"))
    assert "own-question" in output_of(None, "ask", "--list", "--store", str(homes[1].with_name("service")))  # type: ignore[arg-type]
