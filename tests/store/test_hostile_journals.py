"""Journals with huge or invalid values: the problem stays in that journal, and every other run can be queried."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provml.journal import events
from provml.journal.reader import JournalReader
from provml.mapping import EventMapper, iris
from provml.recording.run import Run
from provml.store import Store
from provml.store.checkpoint import Problem

HUGE = 'line with "quotes"\n' * 900_000
"""17 MB: more than a parser of Oxigraph accepts as one literal."""
LONG = "\N{GRINNING FACE}" * (events.MAX_TEXT + 1)
"""The longest text that is cut, in the characters that take most bytes."""
EPOCHS = "SELECT ?e { ?e a provml:TrainingEpochExecution }"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one small run."""
    train(tmp_path / "home", "small", lambda run: None)
    return tmp_path / "home"


def train(home: Path, run_id: str, call: Callable[[Run], object], **settings: Any) -> Path:
    """Record a run of two epochs, with a call before its training, and return its journal."""
    with Run("e", home=home, run=run_id, strict=True, capture_environment=False, **settings) as run:
        call(run)
        with run.training(lr=0.1) as training:
            for epoch in training.epochs(2):
                for batch in epoch.batches(range(2)):
                    batch.measured(loss=1.0)
                epoch.measured(loss=0.5)
    return home / "runs" / run_id / "main.jsonl"


def record_output(run: Run) -> None:
    """As another program records it: provml stores a long text as an artifact."""
    with run.step("convert") as step:
        run._emit(events.ExecutionDetails(step._location, output=HUGE))


def record_hyperparameter(run: Run) -> None:
    with run.training() as training:
        run._emit(events.Parameter(training._location, {"prompt": HUGE}))


def record_name(run: Run) -> None:
    run.dataset(b"data", name=HUGE)


def record_long_names(run: Run) -> None:
    data = run.dataset(b"data", name=LONG, note=LONG)
    with run.training(using=data, **{LONG: 1}) as training:
        training.execution(errors=LONG, directory=LONG, resource=LONG)
        training.layers([{"name": LONG, "type": LONG, "note": LONG}])
        training.adapted(lr=1.0, reason=LONG, technique=LONG)
        training.measured(**{LONG: 1.0})


@pytest.mark.parametrize("call", [record_output, record_hyperparameter, record_name, record_long_names])
def test_a_run_with_huge_texts_can_be_queried_like_any_other(home: Path, call: Callable[[Run], object]):
    journal = train(home, "huge", call)
    with Store(home) as store:
        assert {info.id: info.status for info in store.runs()} == {"small": "FINISHED", "huge": "FINISHED"}
        assert len(store.query(EPOCHS)) == 4
        assert store.problems == store.verify() == []
        texts = store.query("SELECT DISTINCT ?text { ?s ?p ?text FILTER(isLiteral(?text) && STRLEN(?text) > 20000) }")
        assert texts
        for (text,) in texts:
            assert len(text) < events.MAX_TEXT + 200
            assert "[cut: the journal has all " in text[events.MAX_TEXT :]
        assert store.export("huge", io.BytesIO(), "ttl") > 0
    assert journal.stat().st_size > 4 * events.MAX_TEXT


def test_a_run_with_a_huge_header_and_end_can_be_queried_like_any_other(home: Path):
    journal = train(home, "huge", lambda run: None)
    first, *lines, end = journal.read_bytes().splitlines()
    header = {**json.loads(first), "name": LONG, "model": LONG, "by": LONG, "study": LONG, "task": LONG}
    failed = {**json.loads(end), "status": "FAILED", "error": [LONG, HUGE]}
    journal.write_bytes(b"\n".join([json.dumps(header).encode(), *lines, json.dumps(failed).encode(), b""]))
    with Store(home) as store:
        assert {info.id: info.status for info in store.runs()} == {"small": "FINISHED", "huge": "FAILED"}
        assert len(store.query(EPOCHS)) == 4
        assert [problem for problem in store.verify() if "sealed" not in problem.reason] == []


def test_a_huge_text_is_cut_in_the_graph_and_complete_in_the_journal():
    event = events.Parameter("training", {"a": "x" * events.MAX_TEXT, "b": "x" * (events.MAX_TEXT + 1)})
    short = events.shorten(event)
    assert isinstance(short, events.Parameter)
    assert short.values["a"] == event.values["a"]
    text = short.values["b"]
    assert isinstance(text, str)
    head, sign = text[: events.MAX_TEXT], text[events.MAX_TEXT :]
    assert head == event.values["a"]
    assert sign.startswith(f"… [cut: the journal has all {events.MAX_TEXT + 1:,} characters, SHA-256 ")


def test_a_reader_cuts_texts_only_if_asked(home: Path):
    journal = train(home, "huge", record_output)
    (whole,) = [e for r in JournalReader(journal).read() for e in r.events if isinstance(e, events.ExecutionDetails)]
    assert whole.output == HUGE


def test_long_names_with_the_same_start_have_different_iris():
    start = "n" * iris.MAX_NAME
    assert iris.quote_segment(start) == start
    names = {iris.quote_segment(start + end) for end in ("a", "b", "b" * 17_000_000)}
    assert len(names) == 3
    assert all(len(name) < iris.MAX_NAME + 100 for name in names)


def rewrite(journal: Path, change: Callable[[bytes], bytes]) -> None:
    journal.write_bytes(b"".join(map(change, journal.read_bytes().splitlines(keepends=True))))


@pytest.mark.parametrize("name", ["a b", "a\\nb", "a> <urn:x:y> <urn:x:z> .\\n<urn:x:a", "a\\\\b", "100%"])
def test_a_location_that_is_no_iri_is_a_problem_of_its_journal(home: Path, name: str):
    journal = train(home, "wrong", lambda run: None)
    rewrite(journal, lambda line: line.replace(b'"at":"training', b'"at":"' + name.encode()))
    with Store(home) as store:
        assert {info.id for info in store.runs()} == {"small", "wrong"}
        assert len(store.query(EPOCHS)) == 2
        assert store.query("ASK { <urn:x:a> ?p ?o }") is False
        assert {problem.file for problem in store.problems} == {"runs/wrong/main.jsonl"}
        assert all(problem.line for problem in store.problems)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"pid":', b'"pid":9999999999999999999999'),
        (b'"kind":"training"', b'"kind":"unknown"'),
        (b"training/1/", b"training/9999999999999999999999/"),
    ],
)
def test_an_impossible_value_is_a_problem_of_its_journal(home: Path, old: bytes, new: bytes):
    journal = train(home, "wrong", lambda run: None)
    lines = [b'{"e":"measured","at":"training/1/5","values":{"loss":1.0}}', b'{"e":"batch","at":"training/1/x","t":1}']
    rewrite(journal, lambda line: line.replace(old, new))
    with journal.open("ab") as file:
        file.write(b"".join(line.replace(old, new) + b"\n" for line in lines))
    for _ in range(2):
        with Store(home) as store:
            assert "small" in {info.id for info in store.runs()}
            assert {problem.file for problem in store.problems} == {"runs/wrong/main.jsonl"}


def test_an_error_in_the_mapping_of_one_journal_does_not_stop_the_others(home: Path, monkeypatch: pytest.MonkeyPatch):
    journal = train(home, "wrong", lambda run: None)
    take = EventMapper.take_ntriples

    def failing(mapper: EventMapper) -> bytes:
        if mapper.run.endswith("wrong"):
            raise RuntimeError("no idea")
        return take(mapper)

    with Store(home) as store:
        with monkeypatch.context() as patched:
            patched.setattr(EventMapper, "take_ntriples", failing)
            assert {info.id for info in store.runs()} == {"small", "wrong"}
            assert len(store.query(EPOCHS)) == 2
            reason = "cannot be indexed (RuntimeError: no idea)"
            assert store.problems == [Problem("runs/wrong/main.jsonl", 0, reason)]
        assert len(store.query(EPOCHS)) == 2
        with journal.open("ab") as file:
            file.write(events.encode(events.CaptureErrors(1, "x")))
        assert len(store.query(EPOCHS)) == 4
        assert store.problems == []
