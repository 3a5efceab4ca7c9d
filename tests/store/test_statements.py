"""What runs state about nodes that they share: each line is passed on once, and the digests of a run are complete."""

from __future__ import annotations

from pathlib import Path

from example_runs import seismic

from provml.journal.run_files import list_journals
from provml.store.checkpoint import JournalCheckpoint
from provml.store.journal_mapping import JournalSource, map_events
from provml.store.siblings import FirstJournalCache
from provml.store.statements import DIGEST_BYTES, SharedStatements, digest, stated_by

RUN = "https://w3id.org/provml/run/"


def line(subject: str, value: str) -> bytes:
    return f"<{subject}> <http://example.org/p> <http://example.org/{value}> .".encode()


def split(digests: bytes) -> set[bytes]:
    return {digests[start : start + DIGEST_BYTES] for start in range(0, len(digests), DIGEST_BYTES)}


def test_a_line_about_a_shared_node_is_passed_on_once_and_belongs_to_each_run():
    shared = SharedStatements()
    plan, own = line("http://example.org/plan", "a"), line(f"{RUN}r1/training", "b")
    text, digests = shared.take(b"\n".join([plan, own, plan, own]) + b"\n", "r1")
    assert text == plan + b"\n" + own + b"\n"
    assert digests == digest(plan)
    other = line(f"{RUN}r11/training", "b")  # of another run, although it starts alike
    text, digests = shared.take(b"\n".join([plan, other]) + b"\n", "r1")
    assert text == other + b"\n"
    assert len(digests) == 2 * DIGEST_BYTES
    assert stated_by([digest(plan), digest(other)], [digests]) == {digest(plan), digest(other)}
    assert shared.take(plan + b"\n", "r2") == (b"", digest(plan))


def test_what_is_remembered_is_limited():
    shared = SharedStatements(max_lines=2)
    lines = [line("http://example.org/plan", str(number)) + b"\n" for number in range(4)]
    assert [shared.take(text, "r1")[0] for text in lines] == lines
    assert shared.take(lines[-1], "r1")[0] == b""
    assert shared.take(lines[0], "r1")[0] == lines[0], "the first were forgotten"


def test_no_statement_of_several_journals_is_lost(tmp_path: Path):
    seismic.life_cycle().write(tmp_path)
    shared, first_journals = SharedStatements(), FirstJournalCache()
    every, passed_on = set[bytes](), list[bytes]()
    for key in list_journals(tmp_path):
        source = JournalSource(key, tmp_path / "runs" / key, first_journals)
        alone, together = JournalCheckpoint(), JournalCheckpoint()
        for _, text in map_events(source, alone):
            every.update(text.splitlines())
        for _, text in map_events(source, together, shared=shared):
            passed_on += text.splitlines()
        assert split(alone.foreign) == split(together.foreign)
    assert set(passed_on) == every
    assert len(passed_on) == len(every)
