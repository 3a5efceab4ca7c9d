"""Child runs: how they begin and end, in one process, in others and on ranks, and the data that they share."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from journal_events import read_events

import provml
from provml.errors import RunNotFound
from provml.journal.events import Data, Header

pytestmark = pytest.mark.usefixtures("isolated_home")


def record(name: str = "flowers", **settings: Any) -> provml.Run:
    return provml.record(name, **{"strict": True, "capture_environment": False, **settings})


def run_program(program: str, *arguments: str, **variables: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    return done.stdout


def header(run: str, file: str = "main") -> Header:
    first = read_events(Path(".provml", "runs", run, f"{file}.jsonl"))[0]
    assert isinstance(first, Header)
    return first


def parents() -> dict[str, str]:
    with provml.open() as store:
        return {info.name: info.parent for info in store.runs()}


# ---- begin and end


def test_a_child_has_the_experiment_and_the_settings_of_its_parent():
    settings = {"by": "ada", "study": "spring", "task": "classify", "detail": "epoch", "every": 3}
    with record(model="net", home="lab", **settings) as run, run.child("fold 1", every=5) as fold:
        assert (fold.name, fold.experiment, fold.model, fold.home) == ("fold 1", "flowers", "net", run.home)
        assert (fold.detail, fold.every, fold.strict) == ("epoch", 5, True)
        assert fold.id != run.id
        with fold.child("inner") as inner:
            pass
    with provml.open("lab") as store:
        info = store.run("fold 1")
        assert (info.parent, info.experiment, info.model, info.status) == (run.id, "flowers", "net", "FINISHED")
        assert store.run("inner").parent == fold.id == info.id
        assert [child.name for child in store.children(run.id)] == ["fold 1"]
        assert [child.id for child in store.descendants([run.id])] == [fold.id, inner.id]
        assert set(store.query("SELECT ?c ?p { ?c provml:wasChildOf ?p ; prov:wasInformedBy ?p }").rows) == {
            (store.run(fold.id).iri, store.run(run.id).iri),
            (store.run(inner.id).iri, store.run(fold.id).iri),
        }
        assert store.query("SELECT ?l { ?c provml:wasChildOf ?p ; rdfs:label ?l } ORDER BY ?l").column("l") == [
            *("fold 1", "inner")
        ]
        people = store.query("SELECT DISTINCT ?n { ?r provml:addressedTask ?t ; prov:wasAssociatedWith/rdfs:label ?n }")
        assert people.rows == [("ada",)]
        for run_id in (run.id, fold.id, inner.id):
            assert store.validate(run_id), str(store.validate(run_id))


def test_a_child_that_fails_does_not_fail_its_parent():
    with record() as run:
        with pytest.raises(ValueError), run.child("a"):
            raise ValueError("diverged")
        with run.child("b"):
            pass
    with provml.open() as store:
        assert {info.name: info.status for info in store.runs()} == {
            "flowers": "FINISHED",
            "a": "FAILED",
            "b": "FINISHED",
        }


def test_a_child_that_nobody_ended_ends_with_its_parent():
    def sweep() -> None:
        with record() as run:
            run.child("a").training()
            raise ValueError("no more memory")

    with pytest.raises(ValueError):
        sweep()
    with provml.open() as store:
        assert store.run("a").status == "FAILED"
        assert store.run("a").error == "ValueError: no more memory"
    assert not provml.recording.run.CONTEXT.active_runs


def test_child_processes_join_the_child_while_it_is_open_and_then_the_parent(monkeypatch: pytest.MonkeyPatch):
    program = "import provml\nwith provml.record('x', capture_environment=False) as run: print(run.id)"
    with record() as run:
        with run.child("a") as child:
            assert run_program(program).strip() == child.id
        assert run_program(program).strip() == run.id


def test_the_name_of_a_child_may_be_any_text():
    with record() as run:
        for name in ("", "a\nb\tc", "x" * 500, {"lr": 0.1}, None, 3):
            run.child(name).finish()
        assert run.capture_errors == 0
    names = set(parents()) - {"flowers"}
    assert names == {"a b c", "x" * 199 + "…", "{'lr': 0.1}", "3"}


def test_a_disabled_run_has_disabled_children(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    with record() as run, run.child("a") as child, child.training() as training:
        training.measured(loss=1.0)
    assert child.disabled
    assert not Path(".provml").exists()


# ---- record(parent=...)


def test_record_takes_a_run_a_summary_an_id_a_part_of_it_or_a_name_as_parent():
    with record(run="sweep-1") as run:
        run.rename("big sweep")
    with provml.open() as store:
        info = store.run("sweep-1")
    for number, parent in enumerate(("latest", run, info, "sweep-1", "sweep", "big sweep")):
        with record(f"trial {number}", parent=parent):
            pass
        assert parents()[f"trial {number}"] == "sweep-1"
    with record("no parent", parent=None), record("none either", parent=""):
        pass
    assert parents()["no parent"] == parents()["none either"] == ""


def test_a_parent_of_another_machine_is_accepted_by_its_complete_id():
    with record(parent="20260102-030405-abcdef"):
        pass
    assert parents() == {"flowers": "20260102-030405-abcdef"}
    with provml.open() as store:
        assert store.validate("latest"), str(store.validate("latest"))
        assert store.children("latest") == []


def test_an_unknown_parent_is_a_capture_error():
    with record(parent="nope", strict=False) as run:
        assert run.capture_errors == 1
    assert parents() == {"flowers": ""}
    with pytest.raises(RunNotFound, match="No run 'nope'"):
        record(parent="nope")


def test_wrong_parents_are_refused():
    with pytest.raises(TypeError, match=r"parent takes a run or the id of one, not 3 \(int\)"):
        record(parent=3)
    with record(run="a"), pytest.raises(ValueError, match="A run cannot be its own parent"):
        record(run="a", parent="a")


# ---- other processes


def test_a_process_that_the_sweep_starts_records_a_child_and_its_own_processes_join_that():
    worker = """
        import subprocess, sys, provml
        settings = {"capture_environment": False, "strict": True}
        with provml.record("trial", parent=sys.argv[1], run_name="trial 1", **settings) as run:
            inner = "import sys, provml\\n" \\
                "with provml.record('trial', parent=sys.argv[1], capture_environment=False) as run: print(run.id)"
            joined = subprocess.check_output([sys.executable, "-c", inner, sys.argv[1]], text=True)
            assert joined.strip() == run.id, (joined, run.id)
            print(run.id, run.home)
    """
    with record(home="lab") as run:
        child, home = run_program(worker, run.id).split()
        assert (child != run.id, home) == (True, str(run.home))
    with provml.open("lab") as store:
        info = store.run("trial 1")
        assert (info.id, info.parent, info.writers) == (child, run.id, 2)


def test_a_run_that_was_sent_to_a_worker_begins_children_there():
    worker = """
        import pickle, sys
        run = pickle.loads(bytes.fromhex(sys.argv[1]))
        with run.child("from the worker"):
            pass
        run.finish()
    """
    with record() as run:
        run_program(worker, pickle.dumps(run).hex())
    assert parents()["from the worker"] == run.id


def test_all_ranks_record_the_same_children():
    program = """
        import sys, provml
        with provml.record("x", capture_environment=False, strict=True) as run:
            for name in ("fold", "fold", "fold 3"):
                with run.child(name) as child, child.training() as training:
                    training.measured(loss=1.0)
    """
    for rank in ("0", "1"):
        run_program(program, PROVML_RUN="job-7", RANK=rank)
    with provml.open() as store:
        assert {info.id: (info.parent, info.writers) for info in store.runs()} == {
            "job-7": ("", 2),
            "job-7.fold": ("job-7", 2),
            "job-7.fold.2": ("job-7", 2),
            "job-7.fold-3": ("job-7", 2),
        }
        assert store.problems == []


def test_a_killed_sweep_leaves_its_children_with_their_true_status():
    program = """
        import sys, time, provml
        with provml.record("x", run="sweep", capture_environment=False, strict=True) as run:
            with run.child("done"):
                pass
            with run.child("open") as child, child.training() as training:
                training.measured(loss=1.0)
                print("ready", flush=True)
                time.sleep(600)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with provml.open() as store:
        assert [child.status for child in store.children("sweep")] == ["FINISHED", "RUNNING"]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with provml.open() as store:
        assert store.run("sweep").status == "KILLED"
        assert {child.name: child.status for child in store.children("sweep")} == {"done": "FINISHED", "open": "KILLED"}


# ---- data of another run


def test_a_child_uses_the_data_and_the_models_of_its_parent():
    Path("train.csv").write_text("1,2")
    with record(run="sweep", model="net") as run:
        data = run.dataset("train.csv", role="training", instances=2)
        unnamed = run.dataset(object(), name="stream", role="validation")
        with run.training(using=data) as training:
            model = training.produced(b"weights")
            live = training.produced(None, name="live")
        with run.child("a", run="a") as child:
            with child.training(using=[data, unnamed, data], lr=0.1) as training:
                training.used(model, role="model")
            with child.evaluation(of=live) as test:
                test.measured(accuracy=0.5)
            with child.child("b", run="b") as grandchild, grandchild.evaluation(of=live, using=unnamed) as test:
                test.measured(accuracy=0.6)
    described = [event for event in read_events(Path(".provml/runs/a/main.jsonl")) if isinstance(event, Data)]
    assert [(event.ref, event.name) for event in described] == [
        (data.ref, "train.csv"),
        ("run:sweep/dataset-stream", "stream"),
        ("run:sweep/net", "net"),
        ("run:sweep/live", "live"),
    ]
    base = "https://w3id.org/provml/run"
    with provml.open() as store:
        assert store.problems == []
        used = store.query(
            f"SELECT ?d {{ <{base}/a/training> prov:used ?d . ?d a provlake:DataReference }} ORDER BY ?d"
        )
        assert set(used.column("d")) == {
            f"{base}/sweep/data/dataset-stream",
            f"{base}/sweep/data/net",
            f"urn:sha256:{model.sha256}",
            f"urn:{data.ref}",
        }
        roles = store.query(
            f"""SELECT ?d ?role {{
              <{base}/a/training> prov:qualifiedUsage [ prov:entity ?d ; prov:hadRole/rdfs:label ?role ]
            }} ORDER BY ?role"""
        )
        assert [tuple(row) for row in roles] == [
            (f"urn:{data.ref}", "training role"),
            (f"{base}/sweep/data/dataset-stream", "validation role"),
        ]
        makers = store.query(
            """SELECT ?run ?training {
              ?test a provml:EvaluationExecution ; provml:evaluated/prov:wasGeneratedBy ?training ;
                    provlake:wasMemberOfWorkflowExecution ?run
            } ORDER BY ?run"""
        )
        assert [tuple(row) for row in makers] == [(f"{base}/{run}", f"{base}/sweep/training") for run in "ab"]
        for run_id in ("sweep", "a", "b"):
            assert store.validate(run_id), str(store.validate(run_id))
