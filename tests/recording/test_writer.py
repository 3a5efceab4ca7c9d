"""The parts of a journal writer: its target, its error counter, its background thread, and the guard of captures."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from journal_events import read_events

from provml.journal import events
from provml.journal.capture_errors import MAX_MESSAGES, ErrorSummary
from provml.journal.file import JournalFile, open_journal
from provml.recording.context import Limits
from provml.recording.disk_sync import DiskSync
from provml.recording.error_counter import MAX_ERROR_CHARS, MAX_LOGGED, ErrorCounter
from provml.recording.journal_target import JournalTarget
from provml.recording.safety import EndsOnExit, never_raise
from provml.recording.writer import JournalWriter

HEADER = events.Header(events.VERSION, "r", "main", "flowers", 0.0)


def target(folder: Path, **limits: float) -> JournalTarget:
    return JournalTarget(folder, HEADER, Limits(**limits))  # type: ignore[arg-type]


# ---- the target


def test_a_target_keeps_a_bounded_backlog_until_its_folder_can_be_created(tmp_path: Path):
    (tmp_path / "home").write_text("a file, not a directory")
    journal = target(tmp_path / "home" / "r", retry_seconds=0.0, max_backlog=2)
    assert journal.open() is None
    assert journal.is_retry_due
    for index in range(5):
        journal.keep(events.encode(events.Measured("training", {"index": index})))
    assert len(journal.backlog) == 2
    (tmp_path / "home").unlink()
    file = journal.open()
    assert file is not None
    file.close()
    assert (journal.error, journal.backlog) == (None, [])
    assert [type(event) for event in read_events(file.path)] == [events.Header, events.Measured, events.Measured]


def test_a_target_takes_another_name_if_the_journal_exists(tmp_path: Path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "main.jsonl").touch()
    journal = target(tmp_path / "r")
    file = journal.open()
    assert file is not None
    file.close()
    assert file.path.stem == journal.header.writer != "main"


def test_a_deleted_journal_is_not_opened_again(tmp_path: Path):
    journal = target(tmp_path, retry_seconds=0.0)
    journal.mark_deleted(FileNotFoundError("deleted"))
    assert not journal.is_retry_due
    journal.keep(b"line\n")
    assert journal.backlog == []


def test_the_journal_of_a_forked_child_names_its_parent(tmp_path: Path):
    journal = target(tmp_path).for_child()
    journal.identify_child()
    assert (journal.header.parent, journal.header.main) == ("main", False)
    assert journal.header.writer != "main"


# ---- errors


def test_the_error_count_is_due_at_each_doubling():
    errors = ErrorCounter(strict=False)
    due = []
    for number in range(1, 10):
        assert bool(errors.add(ValueError("x" * 1000))) is (number == 1)
        if errors.is_due:
            due.append(number)
            errors.mark_written(errors.event())
    assert due == [1, 2, 4, 8]
    assert len(errors.first_message) == MAX_ERROR_CHARS


def test_errors_are_counted_by_message_whatever_the_address_of_their_object():
    errors = ErrorCounter(strict=False)
    messages = ["<a at 0x7f10ab>", "no number", "<a at 0x7f99cd>", "no number"]
    logged = [errors.add(TypeError(message)) for message in messages]
    assert errors.messages == {"TypeError: <a at 0x…>": 2, "TypeError: no number": 2}
    assert logged == ["TypeError: <a at 0x…>", "TypeError: no number", "", ""]


def test_a_new_message_is_written_at_once_and_only_changes_are_written():
    errors = ErrorCounter(strict=False)
    written: list[dict[str, int]] = []
    for message in ("a", "a", "a", "b", "a"):
        errors.add(ValueError(message))
        if errors.is_due:
            event = errors.event()
            errors.mark_written(event)
            written.append(event.messages)
    first, second = "ValueError: a", "ValueError: b"
    assert written == [{first: 1}, {first: 2}, {first: 3, second: 1}]
    assert errors.event().messages == {first: 4}
    assert not errors.is_written


def test_the_number_of_messages_is_limited_and_all_errors_are_counted():
    errors, summary = ErrorCounter(strict=False), ErrorSummary()
    logged = [errors.add(ValueError(f"value {number}")) for number in range(500)]
    assert len([message for message in logged if message]) == MAX_LOGGED
    summary.update(errors.event())
    assert len(summary.messages) == MAX_MESSAGES
    assert summary.rows()[-1] == ("errors with other messages than these 100", 400)
    assert sum(count or 0 for _, count in summary.rows()) == summary.count == 500


def test_short_events_have_one_new_message_at_most():
    errors = ErrorCounter(strict=False)
    for message in ("a", "b", "c"):
        errors.add(ValueError(message))
    short = errors.event(is_short=True)
    assert (short.count, short.first, short.messages) == (3, "ValueError: a", {"ValueError: b": 1})
    errors.mark_written(short)
    errors.add(ValueError("b"))
    assert errors.event(is_short=True).messages == {"ValueError: c": 1}
    assert not errors.is_due, "the reserve of a full disk is for counts"


def test_a_strict_counter_raises_an_error_and_does_not_count_it_again():
    errors, error = ErrorCounter(strict=True), ValueError("no")
    assert errors.is_new(error)
    with pytest.raises(ValueError, match="no"):
        errors.raise_if_strict(error)
    assert not errors.is_new(error)


@pytest.mark.parametrize("strict", [True, False])
def test_an_error_of_the_background_thread_is_raised_once_by_the_next_call(strict: bool):
    errors = ErrorCounter(strict=strict)
    errors.defer(OSError("disk"))
    if strict:
        with pytest.raises(OSError, match="disk"):
            errors.raise_deferred()
    else:
        errors.raise_deferred()
    errors.raise_deferred()


# ---- the background thread


class Owner:
    """Notes the calls of a `DiskSync`."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_heartbeat(self) -> None:
        self.calls.append("heartbeat")

    def on_deleted(self, file: JournalFile) -> None:
        self.calls.append("deleted")

    def on_sync_error(self, error: Exception) -> None:
        self.calls.append(str(error))


def test_the_background_thread_keeps_the_heartbeat_and_notices_a_deleted_journal(tmp_path: Path):
    file, ended, owner = open_journal(tmp_path / "main.jsonl"), threading.Event(), Owner()
    sync = DiskSync(file, ended, owner, Limits(sync_seconds=0.01, heartbeat_seconds=0.02))
    sync.start()
    deadline = time.monotonic() + 10
    while "heartbeat" not in owner.calls and time.monotonic() < deadline:
        time.sleep(0.01)
    file.path.unlink()
    while "deleted" not in owner.calls and time.monotonic() < deadline:
        time.sleep(0.01)
    ended.set()
    sync.close()
    assert owner.calls[-1] == "deleted"
    assert set(owner.calls) == {"heartbeat", "deleted"}


def test_a_writer_takes_its_limits_as_a_parameter(tmp_path: Path):
    (tmp_path / "runs").write_text("a file, not a directory")
    writer = JournalWriter(tmp_path / "runs" / "r", HEADER, limits=Limits(max_backlog=1))
    assert not writer.emit(events.Measured("training", {"loss": 0.5}))
    assert writer.error_count == 2
    writer.close(events.End(time.time()))


# ---- the guard of captures


class Reporter:
    """Counts errors as a run does."""

    def __init__(self, *, disabled: bool = False) -> None:
        self.disabled = disabled
        self.errors: list[Exception] = []

    def _report_error(self, error: Exception) -> None:
        self.errors.append(error)


class Member(EndsOnExit):
    def __init__(self, run: Reporter) -> None:
        self.run = run
        self.calls: list[object] = []

    @never_raise
    def divide(self, number: int) -> None:
        self.calls.append(1 / number)

    def _end(self, error: BaseException | None) -> None:
        self.calls.append(error)


def test_a_guarded_method_reports_its_exception_and_does_nothing_if_disabled():
    member, disabled = Member(Reporter()), Member(Reporter(disabled=True))
    member.divide(0)
    member.divide(2)
    disabled.divide(2)
    assert [type(error) for error in member.run.errors] == [ZeroDivisionError]
    assert (member.calls, disabled.calls) == ([0.5], [])


def test_a_with_block_ends_with_its_exception():
    member = Member(Reporter())
    with member:
        pass
    error = KeyError("x")
    with pytest.raises(KeyError), member:
        raise error
    assert member.calls == [None, error]
