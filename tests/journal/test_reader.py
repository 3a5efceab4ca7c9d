"""The reader: from any position, each event once, also while a run is recorded and after it was killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import provml
from provml.errors import FileFormatError
from provml.journal import events
from provml.journal.reader import JournalReader, count_events, first_events, has_lines, read_data, read_end, read_header

FIXTURES = Path(__file__).parents[1] / "fixtures" / "journals"
JOURNALS = sorted(FIXTURES.glob("*/runs/*/*.jsonl"))


def read_all(reader: JournalReader, *, is_over: bool) -> list[events.AnyEvent]:
    return [event for record in reader.read(is_over=is_over) for event in record.events]


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: "-".join(path.parts[-4:]))
def test_reading_can_stop_after_any_record(path: Path) -> None:
    whole, pieces = JournalReader(path), []
    expected = read_all(whole, is_over=True)
    offset = number = rows = 0
    while True:
        reader = JournalReader(path, offset=offset, number=number, batch_rows=rows)
        record = next(reader.read(is_over=True), None)
        if record is None or (reader.offset, reader.batch_rows) == (offset, rows):
            pieces += record.events if record is not None else []  # the open batch of a killed run
            break
        pieces += record.events
        offset, number, rows = reader.offset, reader.number, reader.batch_rows
    assert pieces == expected
    assert (offset, number) == (whole.offset, whole.number)


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: "-".join(path.parts[-4:]))
def test_lines_without_batches_and_counts(path: Path) -> None:
    everything = read_all(JournalReader(path), is_over=False)
    few = [event for record in JournalReader(path).read(batches=False) for event in record.events]
    kinds = (events.Measured, events.BatchEnd)
    assert few == [event for event in everything if not isinstance(event, kinds)]
    assert read_header(path) == first_events(path)[0] == everything[0]
    end = everything[-1]
    assert read_end(path) == (end if isinstance(end, events.End) else None)
    if not path.with_suffix(".slate").exists():
        assert count_events(path) >= len(everything)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[provml.Run]:
    with provml.record("x", run="r", home=tmp_path, strict=True, capture_environment=False) as run:
        yield run


def test_batches_that_move_from_the_buffer_into_the_journal_are_read_once(run: provml.Run, tmp_path: Path) -> None:
    reader = JournalReader(tmp_path / "runs" / "r" / "main.jsonl")
    ends: list[str] = []
    for epoch in run.training().epochs(2):
        for batch in epoch.batches(range(200)):
            batch.measured(loss=1.0)
            if batch.index % 7 == 0:
                read = read_all(reader, is_over=False)
                ends += [event.location for event in read if isinstance(event, events.BatchEnd)]
                assert len(ends) == (epoch.index - 1) * 200 + batch.index - 1
    ends += [event.location for event in read_all(reader, is_over=False) if isinstance(event, events.BatchEnd)]
    assert ends == [f"training/{epoch}/{batch}" for epoch in (1, 2) for batch in range(1, 201)]


def test_a_damaged_line_is_a_record_with_an_error(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    path.write_bytes(b'{"e":"end","t":1.0}\n{oh no\n{"e":"end","t":2.0}\n')
    records = list(JournalReader(path).read())
    assert [record.number for record in records] == [1, 2, 3]
    assert [record.error is None for record in records] == [True, False, True]


@pytest.mark.parametrize("depth", [events.MAX_DEPTH + 1, 500, 5000, 200_000])
@pytest.mark.parametrize(
    "line",
    [
        b'{"e":"layers","at":"training","layers":[{"a":%s}]}',
        b'{"e":"workflow","said":{"a":%s}}',
        b'{"e":"environment","machine":{"a":%s}}',
    ],
)
def test_a_line_that_is_nested_too_deeply_is_damaged(tmp_path: Path, line: bytes, depth: int) -> None:
    path = tmp_path / "main.jsonl"
    nested = (line % (b"[" * depth + b"]" * depth), line % (b'{"a":' * depth + b"1" + b"}" * depth))
    path.write_bytes(b"\n".join([*nested, b'{"e":"end","t":2.0}', b""]))
    records = list(JournalReader(path).read())
    assert [str(record.error) for record in records[:2]] == [events.TOO_DEEP] * 2
    assert [event.__class__ for event in records[2].events] == [events.End]
    assert read_end(path) is not None


def test_a_line_with_moderate_nesting_is_read() -> None:
    inner = events.MAX_DEPTH - 1
    event = events.decode(b'{"e":"workflow","said":{"a":%s}}' % (b"[" * inner + b"]" * inner))
    assert isinstance(event, events.Workflow)


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    path.write_bytes(events.encode(events.Header(events.VERSION + 1, "r", "main", "x", 0.0)))
    with pytest.raises(FileFormatError, match="newer than the latest supported"):
        list(JournalReader(path).read())


def test_a_damaged_second_line_does_not_hide_the_header(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    path.write_bytes(events.encode(events.Header(events.VERSION, "r", "main", "x", 0.0)) + b"{oh no\n")
    assert read_header(path) is not None
    assert len(first_events(path, 2)) == 1
    assert has_lines(path, 2)
    assert not has_lines(path, 3)


def test_events_about_data_are_read_and_damaged_lines_passed_on(tmp_path: Path):
    (tmp_path / "train.csv").write_text("1,2")
    with provml.record("r", home=tmp_path / "home") as run:
        run.dataset("train", path=tmp_path / "train.csv")
        with run.training() as training:
            training.measured(loss=1.0)
    (journal,) = (tmp_path / "home").glob("runs/*/*.jsonl")
    (number,) = [number for number, _ in read_data(journal)]
    with journal.open("ab") as file:
        file.write(b'{"e":"data","sha256":"cut\nnot an event\n')
    (_, event), *damaged = read_data(journal)
    assert isinstance(event, events.Data)
    assert number > 1
    assert [line for _, line in damaged] == [b'{"e":"data","sha256":"cut', b"not an event"]


def test_only_the_journal_package_knows_the_text_of_events():
    package = Path(provml.__file__).parent
    texts = {path.relative_to(package): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert {path.parts[0] for path, text in texts.items() if '{"e":' in text} == {"journal"}
