"""Help, shell completion, progress bars and encodings."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from provml.cli import MODULES, main
from provml.recording.run import record

from .helpers import TrainingProcess, start_python


def test_help_does_not_import_the_store():
    program = "import sys\nfrom provml.cli import main\nmain(['--help'], standalone_mode=False)\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.splitlines()[-1].split())
    assert "provml.cli" in loaded
    assert not loaded & {"pyoxigraph", "provml.vocab", "provml.store", "msgspec", "numpy", "rdflib"}


def test_a_command_imports_no_module_of_another_command():
    program = (
        "import sys\nfrom provml.cli import main\nmain(['runs', '--help'], standalone_mode=False)\nprint(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.splitlines()[-1].split())
    assert "provml.cli.runs" in loaded
    assert not loaded & {f"provml.cli.{module}" for module in MODULES if module != "runs"}


def test_the_table_of_commands_names_those_of_the_modules():
    for module, names in MODULES.items():
        assert {command.name for command in import_module(f"provml.cli.{module}").COMMANDS} == set(names)


def test_status_and_log_of_a_running_training_do_not_import_the_store(home: Path, training: TrainingProcess):
    program = "import sys\nfrom provml.cli import main\nmain(sys.argv[1:], standalone_mode=False)\nprint(*sys.modules)"
    for command in ("status", "log"):
        result = subprocess.run(
            [sys.executable, "-c", program, command, "--home", str(home)], capture_output=True, text=True, check=True
        )
        assert "watched" in result.stdout
        assert not set(result.stdout.splitlines()[-1].split()) & {"pyoxigraph", "provml.vocab", "provml.store"}


def test_the_home_comes_from_the_environment_variable(recorded_home: Path):
    result = CliRunner().invoke(main, ["runs", "--format", "json"], env={"PROVML_HOME": str(recorded_home)})
    assert len(json.loads(result.stdout)) == 2


def test_shell_completion_offers_commands_and_runs(recorded_home: Path):
    def complete(words: str, index: int) -> str:
        variables = {"_PROVML_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
        program = "from provml.cli import main; main(prog_name='provml')"
        environment = {**os.environ, **variables, "PROVML_HOME": str(recorded_home)}
        return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True).stdout

    commands = ["rebuild", "remove", "rename", "replay", "report", "rerun"]
    assert complete("provml re", 1).split() == [f"plain,{command}" for command in commands]
    assert complete("provml show flo", 2).split() == ["plain,flowers-1"]
    assert complete("provml log ", 2).split() == ["plain,flowers-1", "plain,broken-1", "plain,latest"]


PROGRAM_WITH_PROGRESS = """
import sys
from provml.cli import main, options
options.PROGRESS_MIN_EVENTS = 10
main(sys.argv[1:], prog_name="provml")
"""


@pytest.mark.parametrize("command", ["runs", "rebuild"])
def test_a_progress_bar_is_shown_only_on_a_terminal(command: str, home: Path):
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    arguments = ["-c", PROGRAM_WITH_PROGRESS, command, "--home", str(home)]
    process = start_python(*arguments, stderr=terminal, env=environment)
    output, _ = process.communicate()
    os.close(terminal)
    progress = os.read(controller, 1 << 16).decode()
    os.close(controller)
    assert process.returncode == 0
    assert "100%" in progress or "/" in progress
    assert "#" in progress
    assert "#" not in output
    shutil.rmtree(home / "index")
    without_terminal = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    assert without_terminal.stderr == ""


def test_characters_outside_the_terminal_encoding_are_replaced(home: Path):
    with record("blüte 花", home=home, strict=True, run="odd-1"):
        pass
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    arguments = [sys.executable, "-m", "provml.cli", "log", "odd", "--home", str(home)]
    result = subprocess.run(arguments, env=environment, capture_output=True, check=True)
    assert "blüte ? began" in result.stdout.decode("latin-1")


def test_the_list_of_commands_shows_complete_sentences():
    listed = CliRunner().invoke(main, ["--help"], terminal_width=80).output.partition("Commands:")[2]
    assert all(line.endswith(".") and not line.endswith("...") for line in listed.strip().splitlines())


def test_messages_are_wrapped_between_words_to_the_width_of_the_terminal(recorded_home: Path):
    wide = CliRunner().invoke(main, ["ask", "q55", "--home", str(recorded_home)], env={"COLUMNS": ""}).stderr
    narrow = CliRunner().invoke(main, ["ask", "q55", "--home", str(recorded_home)], env={"COLUMNS": "50"}).stderr
    assert len(wide.splitlines()) == 1
    assert all(len(line) <= 50 for line in narrow.splitlines())
    assert narrow.split() == wide.split()


def test_the_lines_of_a_query_are_not_wrapped(recorded_home: Path):
    query = f"SELECT ?a {{ ?a rdfs:label '{'x' * 60}' }} SELEC"
    arguments = ["query", query, "--home", str(recorded_home)]
    message = CliRunner().invoke(main, arguments, env={"COLUMNS": "40"}).stderr
    assert f"  {query}" in message.splitlines()
