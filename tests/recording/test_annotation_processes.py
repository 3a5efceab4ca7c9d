"""Tags, notes and names of a run that is being recorded, also by other processes, and under `kill -9`."""

from __future__ import annotations

import pickle
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from journal_events import read_events

import provml
from provml.errors import InvalidAnnotation
from provml.journal.annotations import present_name, present_texts, read, resolve
from provml.journal.events import CaptureErrors, End
from provml.journal.process import user_name

pytestmark = pytest.mark.usefixtures("isolated_home")


def tags(run: str = "r") -> tuple[str, ...]:
    return present_texts(resolve(read(Path(".provml", "runs", run))), "tag")


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-c", textwrap.dedent(program), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def record(run: str = "r", **settings: object) -> provml.Run:
    return provml.record("flowers", run=run, capture_environment=False, **{"strict": True, **settings})


def test_a_live_run_takes_tags_notes_and_a_name():
    with record(by="ada") as run:
        run.tag("baseline", "v1")
        run.note("first\nsecond", by="bob")
        run.rename("good run")
        run.untag("v1")
        assert (run.name, run.experiment) == ("good run", "flowers")
        with provml.open() as store:
            info = store.run("good run")
            assert (info.tags, info.status) == (("baseline",), "RUNNING")
            assert [(note.text, note.by) for note in info.notes] == [("first\nsecond", "bob")]
            assert {a.by for a in store.annotations("r")} == {"ada", "bob"}
    events = read_events(Path(".provml/runs/r/main.jsonl"))
    assert len(events) == 2, "header and end: annotations are not in the journal of the run"


def test_a_run_that_has_ended_still_takes_annotations():
    with record() as run:
        pass
    run.tag("good")
    with provml.open() as store:
        assert (store.run("r").tags, store.run("r").status) == (("good",), "FINISHED")
        assert store.annotations("r")[0].by == user_name()


def test_an_invalid_tag_is_a_capture_error_and_strict_raises():
    with record(strict=False) as run:
        run.tag("good")
        for tag in ("", "a\nb", "x" * 1000):
            run.tag(tag)
        run.untag("nope")
        assert run.capture_errors == 4
    *_, errors, end = read_events(Path(".provml/runs/r/main.jsonl"))
    assert isinstance(errors, CaptureErrors)
    assert isinstance(end, End)
    assert (errors.count, end.status) == (4, "FINISHED")
    assert errors.first == "InvalidAnnotation: The tag is empty. Pass the text of the tag."
    assert tags() == ("good",)
    with pytest.raises(InvalidAnnotation), record("s") as run:
        run.tag("")


def test_a_disabled_run_writes_no_annotations(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    with record() as run:
        run.tag("a")
        run.note("b")
        run.rename("c")
    assert not Path(".provml").exists()


def test_a_renamed_run_keeps_its_experiment_in_other_processes():
    with record() as run:
        run.rename("good run")
        program = """
            import pickle, sys
            run = pickle.loads(bytes.fromhex(sys.argv[1]))
            run.tag("from the worker")
            run.finish()
        """
        worker = start(program, pickle.dumps(run).hex())
        worker.communicate(timeout=60)
        assert worker.returncode == 0
    with provml.open() as store:
        info = store.run("r")
        assert (info.name, info.experiment, info.tags) == ("good run", "flowers", ("from the worker",))
        assert store.query("SELECT ?e { ?e a provml:LearningExperiment }").rows == [
            ("https://w3id.org/provml/plan/flowers",)
        ]


def test_a_forked_child_has_a_file_of_its_own():
    program = """
        import os, provml
        with provml.record("flowers", run="r", strict=True, capture_environment=False) as run:
            run.tag("parent")
            child = os.fork()
            if not child:
                run.tag("child")
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            run.tag("parent again")
    """
    process = start(program)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(list(Path(".provml/runs/r/annotations").iterdir())) == 2
    assert sorted(tags()) == ["child", "parent", "parent again"]


def test_many_processes_annotate_a_running_run_and_nothing_is_lost():
    """The status of the run, and its journal, do not change by that."""
    program = """
        import sys, provml
        from provml.store.annotations import add_annotations
        from pathlib import Path
        sys.stdin.readline()
        for number in range(20):
            add_annotations(Path(".provml"), "r", "tag", [f"{sys.argv[1]}-{number}"])
            add_annotations(Path(".provml"), "r", "name", [f"{sys.argv[1]}-{number}"])
    """
    with record() as run:
        journal = Path(".provml/runs/r/main.jsonl").read_bytes()
        writers = [start(program, str(number)) for number in range(4)]
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for number in range(20):
            run.tag(f"live-{number}")
        for writer in writers:
            writer.communicate(timeout=120)
            assert writer.returncode == 0
        assert Path(".provml/runs/r/main.jsonl").read_bytes() == journal
        with provml.open() as store:
            assert store.run("r").status == "RUNNING"
            assert set(store.run("r").tags) == {f"{who}-{n}" for who in (*"0123", "live") for n in range(20)}
            assert store.problems == []
            names = store.query("SELECT ?name { ?run provlake:status 'RUNNING' ; rdfs:label ?name }").column("name")
            assert names == [store.run("r").name]
            assert store.run("r").name.endswith("-19")


ANNOTATING = """
    import os, sys, provml
    with provml.record("x", run=sys.argv[1], strict=True, capture_environment=False) as run:
        print("ready", flush=True)
        for number in range(10**9):
            run.note(f"{number} " + "x" * 9000)
            run.rename(f"name {number}")
            os.write(1, b"%d\\n" % number)
"""


def test_kill_9_loses_no_annotation_whose_call_returned():
    chance = random.Random(3)
    for number in range(6):
        process = start(ANNOTATING, f"r{number}")
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        acknowledged = [process.stdout.readline() for _ in range(chance.randrange(1, 20))]
        time.sleep(chance.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.read().splitlines(keepends=True)
        process.communicate()
        count = len([line for line in acknowledged if line.endswith("\n")])
        log = read(Path(".provml", "runs", f"r{number}"))
        assert log.problems == []
        notes = present_texts(resolve(log), "note")
        assert [int(note.split()[0]) for note in notes] == list(range(len(notes)))
        assert count <= len(notes) <= count + 1
        assert present_name(resolve(log)) in {f"name {count - 1}", f"name {count}"}
        with provml.open() as store:
            info = store.run(f"r{number}")
            assert (info.status, len(info.notes)) == ("KILLED", len(notes))
            assert store.tag(f"r{number}", "killed").tags == ("killed",), "a run that was killed can be annotated"
