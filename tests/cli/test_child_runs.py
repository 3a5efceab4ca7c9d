"""Child runs on the command line: listed with their parents, and removed with or without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from provml.journal.events import VERSION, Header, encode
from provml.recording.run import record
from provml.store import Store

from .helpers import invoke, json_of, output_of


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a sweep of two trials, one of which has a child of its own."""
    settings = {"strict": True, "capture_environment": False}
    with record("flowers", home=tmp_path / "home", run="sweep-1", **settings) as run:
        with run.child("rate 0.1", run="trial-1") as trial, trial.training(learning_rate=0.1) as training:
            training.measured(loss=0.5)
        with run.child("rate 0.2", run="trial-2") as trial, trial.child("fold", run="fold-1"):
            pass
    with record("other", home=tmp_path / "home", run="other-1", **settings):
        pass
    return tmp_path / "home"


def test_runs_shows_the_parent_of_each_child(home: Path):
    assert {run["run"]: (run["name"], run["parent"]) for run in json_of(home, "runs")} == {
        "sweep-1": ("flowers", ""),
        "trial-1": ("rate 0.1", "sweep-1"),
        "trial-2": ("rate 0.2", "sweep-1"),
        "fold-1": ("fold", "trial-2"),
        "other-1": ("other", ""),
    }
    lines = output_of(home, "runs").splitlines()
    assert lines[0].endswith("parent")
    assert next(line for line in lines if line.startswith("trial-1")).endswith("sweep-1")


def test_show_and_status_name_the_parent_and_show_lists_the_children(home: Path):
    shown = output_of(home, "show", "rate 0.2").splitlines()
    assert ["parent", "sweep-1", "(flowers)"] in [line.split() for line in shown]
    assert json_of(home, "show", "rate 0.2")["parent"] == json_of(home, "status", "trial-2")["parent"] == "sweep-1"
    children = json_of(home, "show", "sweep-1")["children"]
    assert [(child["run"], child["name"], child["status"]) for child in children] == [
        ("trial-1", "rate 0.1", "FINISHED"),
        ("trial-2", "rate 0.2", "FINISHED"),
    ]
    assert "children\nrun      name" in output_of(home, "show", "sweep-1")
    assert "children" not in output_of(home, "show", "other-1")


def test_children_and_repetitions_are_found_without_a_list_of_all_runs(home: Path, monkeypatch: pytest.MonkeyPatch):
    for second, run in enumerate(("again 2", "again 1")):
        (home / "runs" / run).mkdir()
        header = Header(VERSION, run, "main", "other", 1.7e9 + second, rerun_of="other-1")
        (home / "runs" / run / "main.jsonl").write_bytes(encode(header))
    listed: list[None] = []
    monkeypatch.setattr(Store, "runs", lambda *_: listed.append(None))
    shown = json_of(home, "show", "other-1")
    assert (shown["repeated by"], shown["children"]) == ("again 2, again 1", [])
    assert json_of(home, "show", "again 1")["rerun of"] == "other-1"
    assert [child["run"] for child in json_of(home, "show", "trial-2")["children"]] == ["fold-1"]
    assert listed == []


def test_a_child_that_the_graph_only_mentions_is_not_listed(home: Path, tmp_path: Path):
    link = "<https://w3id.org/provml/run/elsewhere> <https://w3id.org/provml#wasChildOf> "
    (tmp_path / "link.nt").write_text(f"{link}<https://w3id.org/provml/run/other-1> .\n")
    with Store(home) as store:
        store.load(tmp_path / "link.nt")
        assert store.children("other-1") == []


def test_remove_leaves_the_children_and_says_so(home: Path):
    declined = invoke(home, "remove", "sweep-1", text="n\n")
    assert "its 2 child runs will stay" in declined.stderr
    assert output_of(home, "remove", "sweep-1", "-y") == "Deleted sweep-1\n"
    assert {run["run"] for run in json_of(home, "runs")} == {"trial-1", "trial-2", "fold-1", "other-1"}
    assert "sweep-1 (not in this home)" in output_of(home, "show", "trial-1")
    assert invoke(home, "validate", "--all").exit_code == 0


def test_remove_with_children_removes_all_below_a_run(home: Path):
    removed = output_of(home, "remove", "sweep-1", "--children", "-y").splitlines()
    assert removed[0] == "Deleted sweep-1"
    assert set(removed) == {f"Deleted {run}" for run in ("sweep-1", "trial-1", "trial-2", "fold-1")}
    assert [run["run"] for run in json_of(home, "runs")] == ["other-1"]


def test_runs_without_children_have_no_column_for_parents(recorded_home: Path):
    assert "parent" not in output_of(recorded_home, "runs")
