"""What is recorded so that a run can be repeated: script, uncommitted changes, packages, environment variables."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import provml
from provml.recording import repetition
from provml.recording.repetition import packages, redact_patch, uncommitted_changes, variables

SCRIPT = """
import provml
import helper
with provml.record("flowers", home=HOME, run="first", capture_code=CODE, strict=True) as run:
    run.training().done()
"""
TOKEN = "hf_" + "a1B2c3D4" * 4


def git(where: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *arguments],
        cwd=where, check=True, capture_output=True,
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
    )  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    top = tmp_path / "flowers"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "config.txt").write_text("rate = 1\n")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "first")
    return top


def execute(checkout: Path, home: Path, *, code: bool = True, **environment: str) -> None:
    """Run the script in a process, as a user does."""
    text = SCRIPT.replace("HOME", repr(str(home))).replace("CODE", str(code))
    (checkout / "train.py").write_text(text)
    (checkout / "helper.py").write_text("RATE = 1\n")
    paths = os.pathsep.join(filter(None, [str(Path(provml.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    own = {name: value for name, value in os.environ.items() if name != repetition.SWITCH}
    own |= {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "API_TOKEN": "hunter2hunter2"}
    subprocess.run([sys.executable, "train.py"], cwd=checkout, env=own | environment, check=True)


def environment_of(store: provml.Store) -> dict[str, str]:
    rows = store.query("""SELECT ?name ?value WHERE {
      ?run prov:wasAssociatedWith ?environment . ?environment a provlake:ExecutionEnvironment ; ?property ?value .
      BIND(REPLACE(STR(?property), "^.*[/#]", "") AS ?name) FILTER(isLiteral(?value)) }""")
    assert not isinstance(rows, bool)
    return {str(name): str(value) for name, value in rows}


def test_a_run_records_what_is_needed_to_repeat_it(checkout: Path, tmp_path: Path):
    (checkout / "config.txt").write_text("rate = 2\n")
    execute(checkout, tmp_path / "home", PROVML_VARIABLES="FOLD", FOLD="3")
    with provml.open_store(tmp_path / "home") as store:
        facts = environment_of(store)
        patch, installed = (artifact.read() for artifact in store.artifacts("first"))
        chosen = store.query("SELECT ?value WHERE { ?environment provlake:environmentVariable ?value }")
    assert facts["gitDirectory"] == str(checkout)
    assert facts["scriptPath"] == str(checkout / "train.py")
    assert facts["scriptSha256"] == hashlib.sha256((checkout / "train.py").read_bytes()).hexdigest()
    assert facts["gitDiffSha256"] == hashlib.sha256(patch).hexdigest()
    assert b"-rate = 1\n+rate = 2" in patch  # a changed file
    assert b"+++ b/helper.py" in patch  # a loaded module, and the script, that git does not have
    assert b"+++ b/train.py" in patch
    assert f"msgspec=={__import__('msgspec').__version__}\n".encode() in installed
    assert not isinstance(chosen, bool)
    assert {"FOLD=3", "OMP_NUM_THREADS=1"} <= {row[0] for row in chosen}
    assert not any("hunter2" in path.read_text() for path in (tmp_path / "home" / "runs").glob("*/*.jsonl"))
    git(checkout, "checkout", "-q", "config.txt")
    (checkout / "train.py").unlink()
    (checkout / "helper.py").unlink()
    (tmp_path / "kept.patch").write_bytes(patch)
    git(checkout, "apply", str(tmp_path / "kept.patch"))
    assert (checkout / "config.txt").read_text() == "rate = 2\n"
    assert (checkout / "helper.py").read_text() == "RATE = 1\n"


@pytest.mark.parametrize("how", ["setting", "variable"])
def test_code_is_not_stored_if_it_is_switched_off(checkout: Path, tmp_path: Path, how: str):
    switch = {repetition.SWITCH: "0"} if how == "variable" else {}
    execute(checkout, tmp_path / "home", code=how == "variable", **switch)
    with provml.open_store(tmp_path / "home") as store:
        assert list(store.artifacts("first")) == []
        assert "gitDiffSha256" not in environment_of(store)


def test_a_patch_is_redacted_and_bounded(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    assert uncommitted_changes(checkout, 30, []) is None
    (checkout / "config.txt").write_text(f"rate = 1\nlogin({TOKEN})\n")
    changes = uncommitted_changes(checkout, 30, [])
    assert changes is not None
    assert TOKEN.encode() in changes.patch
    assert TOKEN.encode() not in redact_patch(changes.patch)
    monkeypatch.setattr(repetition, "MAX_PATCH_BYTES", len(changes.patch) - 1)
    assert uncommitted_changes(checkout, 30, []) == (changes.sha256, b"")


def test_the_digest_of_changes_does_not_depend_on_the_settings_of_git(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    (checkout / "config.txt").write_text("rate = 2\n")
    before = uncommitted_changes(checkout, 30, [])
    for name, value in {"diff.noprefix": "true", "diff.context": "9", "color.ui": "always"}.items():
        git(checkout, "config", name, value)
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as in a hook
    assert uncommitted_changes(checkout, 30, []) == before != None  # noqa: E711


def test_secrets_in_chosen_variables_are_redacted():
    environment = {
        "PROVML_VARIABLES": "MY_TOKEN, URL",
        "MY_TOKEN": "hunter2hunter2",
        "URL": "https://a:b@c/d",
        "B": "1",
    }
    assert variables(environment) == ["MY_TOKEN=***", "URL=https://***@c/d"]


def test_packages_are_listed_by_their_metadata_folders(tmp_path: Path):
    for name in ("Flask_Login-0.6.3.dist-info", "old-1.0-py3.11.egg-info", "torch-2.1.0+cpu.dist-info", "numpy"):
        (tmp_path / name).mkdir()
    assert packages([str(tmp_path), "/nowhere"]) == "flask-login==0.6.3\nold==1.0\ntorch==2.1.0+cpu\n"
