"""Remove a secret that was recorded: no byte of it is left, everything else stays, and the ledger has a trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.helpers import invoke

import provml
from provml.errors import FileFormatError
from provml.evidence import scrub
from provml.journal.seals import Ledger
from provml.store import Store

SECRET = 'correct "horse" bättery'


@pytest.fixture
def home(isolated_home: Path) -> Path:
    home = isolated_home / "home"
    config = isolated_home / "config.txt"
    config.write_text(f"name = {SECRET}\n")
    harmless = isolated_home / "harmless.txt"
    harmless.write_text("nothing\n")
    with provml.record("digits", home=home, run="leaky") as run, run.training(greeting=SECRET, epochs=2) as training:
        for epoch in training.epochs(2):
            epoch.measured(loss=0.25)
        run.keep(config)
        run.keep(harmless)
    with Store(home) as store:
        store.note("leaky", f"remember {SECRET}")
        assert store.query(f"ASK {{ ?x ?p {json.dumps(SECRET, ensure_ascii=False)} }}") is True
    return home


def files_with(home: Path, secret: str) -> list[str]:
    patterns = (secret.encode(), json.dumps(secret, ensure_ascii=False)[1:-1].encode())
    return [
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.is_file() and any(pattern in path.read_bytes() for pattern in patterns)
    ]


@pytest.mark.parametrize("packed", [False, True])
def test_no_byte_of_a_secret_is_left(home: Path, packed: bool):
    assert len(files_with(home, SECRET)) >= 3
    with Store(home) as store:
        losses = store.query("SELECT ?v { ?m provml:hasValue ?v } ORDER BY ?v")
        if packed:
            store.pack()
        report = scrub(store, "leaky", [SECRET])
        assert report.remaining == []
        assert len(report.artifacts) == 1
        assert len(report.lines) == 2  # the journal and the note
        assert store.query(f"ASK {{ ?x ?p {json.dumps(SECRET, ensure_ascii=False)} }}") is False
        assert store.query('ASK { ?x ?p "***" }') is True
        assert list(store.query("SELECT ?v { ?m provml:hasValue ?v } ORDER BY ?v")) == list(losses)
        assert store.verify() == []
    assert files_with(home, SECRET) == []
    entries = [line.entry for line in Ledger(home).lines() if not line.error]
    assert [entry["kind"] for entry in entries] == ["sealed", "rewritten", "scrubbed-artifact"]
    assert entries[1]["former_sha256"] == entries[0]["sha256"]


def test_a_dry_run_changes_nothing(home: Path):
    before = {path: path.read_bytes() for path in home.rglob("*.jsonl")}
    with Store(home) as store:
        assert scrub(store, "leaky", [SECRET], dry_run=True)
    assert {path: path.read_bytes() for path in home.rglob("*.jsonl")} == before


def test_what_looks_like_a_secret_is_removed_without_naming_it(isolated_home: Path):
    home = isolated_home / "home"
    with provml.record("digits", home=home, run="leaky") as run, run.training(epochs=1, optimizer="Adam"):
        pass
    journal = next((home / "runs" / "leaky").glob("*.jsonl"))
    key = "hf_" + "abcdefghij" * 3
    text = journal.read_text().replace('"Adam"', json.dumps(key))  # as an earlier version recorded it
    assert key in text
    journal.write_text(text)

    with Store(home) as store:
        report = scrub(store, "leaky")
        assert [len(numbers) for numbers in report.lines.values()] == [1]
        assert not scrub(store, "leaky")
    assert files_with(home, key) == []
    assert '"epochs"' in journal.read_text()


def test_a_harmless_run_is_left_alone(isolated_home: Path):
    home = isolated_home / "home"
    data = isolated_home / "tokens.csv"
    data.write_text("1,2\n")
    with provml.record("digits", home=home, run="clean") as run:
        dataset = run.dataset(data, role="training")
        with run.training(using=dataset, max_tokens=512, tokenizer="bert-base", sha="a" * 64, key_dim=64):
            pass
    with Store(home) as store:
        assert not scrub(store, "clean", dry_run=True)


def test_the_command_asks_and_reports(home: Path):
    listed = invoke(home, "scrub", "leaky", "--from", "-", "--dry-run", text=f"{SECRET}\n")
    assert listed.exit_code == 0
    assert "runs/leaky/" in listed.stdout
    assert SECRET not in listed.output
    refused = invoke(home, "scrub", "leaky", "--prompt", text=f"{SECRET}\nn\n")
    assert refused.exit_code == 1
    assert files_with(home, SECRET)
    done = invoke(home, "scrub", "leaky", "--prompt", "--yes", text=f"{SECRET}\n")
    assert done.exit_code == 0, done.output
    assert files_with(home, SECRET) == []
    assert "Nothing to remove" in invoke(home, "scrub", "leaky", "--prompt", text=f"{SECRET}\n").stdout


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\x84\xff\n", "is not text in UTF-8"), (b"", "has no secret"), (b" \n\n", "has no secret")],
)
def test_a_file_without_secrets_is_refused(home: Path, tmp_path: Path, content: bytes, reason: str):
    (tmp_path / "secrets.txt").write_bytes(content)
    before = next((home / "runs" / "leaky").glob("*.jsonl")).read_bytes()
    refused = invoke(home, "scrub", "leaky", "--from", str(tmp_path / "secrets.txt"), "--yes")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"secrets.txt: {reason}. Write each secret as a line." in refused.stderr
    assert next((home / "runs" / "leaky").glob("*.jsonl")).read_bytes() == before


def test_a_short_secret_and_a_running_run_are_refused(home: Path):
    with Store(home) as store, pytest.raises(FileFormatError, match="too short"):
        scrub(store, "leaky", ["abc"])
    with (
        provml.record("running", home=home, run="running") as run,
        run.training(),
        Store(home) as store,
        pytest.raises(FileFormatError, match="still running"),
    ):
        scrub(store, "running", [SECRET])
