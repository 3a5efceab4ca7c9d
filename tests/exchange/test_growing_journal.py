"""The journal of a run that another program records piece by piece is sealed when the run is over."""

from __future__ import annotations

from pathlib import Path

from provml.exchange.growing_journal import GrowingJournal
from provml.journal import events
from provml.journal.seals import Ledger
from provml.store import Store

HEADER = events.Header(events.VERSION, "r", "tool", "flowers", 1_700_000_000.0, host="elsewhere")
BEGIN = events.Begin("training", "training", 1_700_000_001.0, "training")
END = events.End(1_700_000_002.0)


def kinds(home: Path) -> list[str]:
    return [line.entry["kind"] for line in Ledger(home).lines()]


def test_a_run_is_sealed_when_it_is_over_and_again_when_it_changes(tmp_path: Path):
    journal = GrowingJournal(tmp_path, "r", "tool")
    journal.update([HEADER, BEGIN], 1_700_000_001.0)
    journal.seal(is_over=False)
    assert kinds(tmp_path) == []
    journal.update([HEADER, BEGIN, END], 1_700_000_002.0)
    for _ in range(2):
        journal.seal(is_over=True)
        assert kinds(tmp_path) == ["sealed"]
    later = GrowingJournal(tmp_path, "r", "tool")  # of a service that was started again
    later.update([HEADER, END], 1_700_000_002.0)  # an event is no longer right: the journal is replaced
    later.seal(is_over=True)
    assert kinds(tmp_path) == ["sealed", "removed", "rewritten"]
    with Store(tmp_path) as store:
        report = store.check_seals()
        assert (report.problems, report.unsealed) == ([], [])
