"""Annotations: what a tag, a note or a name may be, and what the events of several files add up to."""

from __future__ import annotations

import os
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.errors import InvalidAnnotation
from provml.journal import annotations as annotations_module
from provml.journal.annotations import (
    MAX_CHARS,
    VERSION,
    Annotation,
    AnnotationEvent,
    AnnotationFile,
    AnnotationHeader,
    AnnotationLog,
    annotate,
    check_text,
    present_name,
    present_texts,
    read,
    resolve,
)
from provml.journal.events import encode
from provml.journal.process import user_name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "r").mkdir()
    return tmp_path / "r"


def events(*items: AnnotationEvent) -> AnnotationLog:
    return AnnotationLog([(f"w/{number}", event) for number, event in enumerate(items)], [])


def present(folder: Path, kind: str = "tag") -> tuple[str, ...]:
    return present_texts(resolve(read(folder)), kind)  # type: ignore[arg-type]


# ---- texts


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("tag", "", "The tag is empty. Pass the text of the tag."),
        ("tag", " \n ", "is empty"),
        ("tag", None, "is empty"),
        ("tag", "x" * 101, "has 101 characters. Shorten it to 100 characters"),
        ("tag", "two\nlines", "contains the character '\\n'. Write the tag on one line"),
        ("tag", "a\x1b[31m", "contains the character"),
        ("tag", "a\u2028b", "contains the character"),
        ("tag", "a,b", "The tag 'a,b' contains a comma. Pass several tags as separate arguments."),
        ("tag", "\udcff", "contains the character '\\udcff'"),
        ("name", "x" * 201, "has 201 characters"),
        ("name", "a\tb", "contains the character"),
        ("name", "latest", "stands for the run that began last. Choose another name."),
        ("note", "x" * 10_001, "has 10001 characters. Shorten it to 10000 characters"),
        ("note", "a\0b", "The note 'a\\x00b' contains the character '\\x00'. Remove it."),
    ],
)
def test_an_unsuitable_text_is_refused_with_advice(kind, text, words: str, folder: Path):
    with pytest.raises(InvalidAnnotation) as caught:
        annotate(AnnotationFile(folder), kind, ["good", text])
    assert words in str(caught.value)
    assert not (folder / "annotations").exists(), "nothing is written if one of the texts is refused"


@pytest.mark.parametrize(
    ("kind", "text", "result"),
    [
        ("tag", " baseline ", "baseline"),
        ("tag", "stage=prod", "stage=prod"),
        ("tag", "größe 日本 👩‍🔬", "größe 日本 👩‍🔬"),
        ("tag", "x" * 100, "x" * 100),
        ("tag", 3, "3"),
        ("note", "one\n\ttwo\r\n", "one\n\ttwo"),
        ("name", "fold 3", "fold 3"),
    ],
)
def test_a_suitable_text_is_stripped(kind, text, result: str):
    assert check_text(kind, text) == result


@given(st.sampled_from(sorted(MAX_CHARS)), st.text(max_size=120))
def test_every_accepted_text_is_read_back_unchanged(kind, text: str):
    try:
        checked = check_text(kind, text)
    except InvalidAnnotation:
        return
    from provml.journal.annotations import _decoder

    line = encode(AnnotationEvent(1.0, kind, checked))
    assert line.count(b"\n") == 1
    assert _decoder.decode(line).text == checked


# ---- events


def test_a_tag_can_be_removed_and_added_again_and_the_history_stays():
    log = events(
        AnnotationEvent(1.0, "tag", "a", "ada", number=1),
        AnnotationEvent(2.0, "tag", "a", "bob", number=2),  # the run has it already
        AnnotationEvent(3.0, "tag", "a", "bob", removed=True, number=3),
        AnnotationEvent(4.0, "tag", "b", "bob", removed=True, number=4),  # the run does not have it
        AnnotationEvent(5.0, "tag", "a", "eve", number=5),
    )
    tags = resolve(log)
    assert [(a.by, a.added.timestamp(), a.removed and a.removed.timestamp(), a.removed_by) for a in tags] == [
        ("ada", 1.0, 3.0, "bob"),
        ("eve", 5.0, None, ""),
    ]
    assert present_texts(tags, "tag") == ("a",)


def test_the_latest_name_counts_and_the_earlier_ones_end():
    log = events(
        AnnotationEvent(1.0, "name", "first", "ada", number=1),
        AnnotationEvent(2.0, "name", "second", "bob", number=2),
        AnnotationEvent(3.0, "name", "second", "eve", number=3),
    )
    first, second = resolve(log)
    assert (first.removed_by, second.removed, second.by) == ("bob", None, "bob")
    assert present_name([first, second]) == "second"
    assert present_name([]) == ""


def test_two_equal_notes_are_two_notes():
    log = events(AnnotationEvent(1.0, "note", "again", number=1), AnnotationEvent(2.0, "note", "again", number=2))
    assert present_texts(resolve(log), "note") == ("again", "again")


def test_a_removal_counts_although_the_clock_of_its_machine_is_late(folder: Path):
    later = 2_000_000_000.0
    AnnotationFile(folder).append([AnnotationEvent(later, "tag", "a", "ada", number=1)])
    assert annotate(AnnotationFile(folder), "tag", ["a"], removed=True) == ["a"]
    (tag,) = resolve(read(folder))
    assert tag.removed is not None
    assert tag.removed.timestamp() == later, "no annotation ends before it begins"


def test_the_result_does_not_depend_on_the_order_of_the_files(tmp_path: Path):
    items = [
        AnnotationEvent(1.0, "tag", "a", "ada", number=1),
        AnnotationEvent(9.0, "tag", "a", "bob", removed=True, number=2),
        AnnotationEvent(3.0, "name", "x", "bob", number=2),
        AnnotationEvent(4.0, "name", "y", "eve", number=3),
    ]
    results: set[tuple[Annotation, ...]] = set()
    for number, order in enumerate(permutations(range(4))):
        folder = tmp_path / str(number)
        (folder / "annotations").mkdir(parents=True)
        for position in order:
            path = folder / "annotations" / f"w{position}.jsonl"
            path.write_bytes(encode(AnnotationHeader(VERSION, "r", f"w{position}")) + encode(items[position]))
        results.add(tuple(resolve(read(folder))))
    assert len(results) == 1


# ---- files


def test_a_process_appends_to_one_file_and_says_who_and_when(folder: Path):
    file = AnnotationFile(folder)
    assert annotate(file, "tag", ["a", "b", "a"]) == ["a", "b"]
    assert annotate(file, "tag", ["b", "c"], by=" ada ") == ["c"], "a tag that the run has is not written again"
    assert annotate(file, "tag", ["b"]) == []
    (path,) = (folder / "annotations").iterdir()
    assert path.read_bytes().count(b"\n") == 4
    assert [tag.by for tag in resolve(read(folder))] == [user_name(), user_name(), "ada"]
    assert present(folder) == ("a", "b", "c")


def test_a_process_does_not_read_its_own_annotations_again(folder: Path, monkeypatch: pytest.MonkeyPatch):
    file, reads = AnnotationFile(folder), []
    read_files = annotations_module.read
    monkeypatch.setattr(annotations_module, "read", lambda path: reads.append(path) or read_files(path))
    for number in range(50):
        annotate(file, "note", [f"note {number}"])
        annotate(file, "tag", [f"tag {number}"])
    assert len(reads) == 1
    annotate(AnnotationFile(folder), "tag", ["other"])
    reads.clear()
    assert annotate(file, "tag", ["other"], removed=True) == ["other"], "what others write is read"
    assert len(reads) == 1
    monkeypatch.undo()
    log = read(folder)
    assert file.read() == log, "the cache has what the files have"
    assert [event.number for _, event in log.events] == list(range(1, 103))


def test_a_tag_that_the_run_does_not_have_cannot_be_removed(folder: Path):
    annotate(AnnotationFile(folder), "tag", ["a", "b"])
    with pytest.raises(InvalidAnnotation, match=r"The tag 'c' is no tag of run r. It has the tags 'a', 'b'."):
        annotate(AnnotationFile(folder), "tag", ["a", "c"], removed=True)
    assert present(folder) == ("a", "b")


def test_an_unfinished_line_waits_and_a_damaged_line_is_a_problem(folder: Path):
    annotate(AnnotationFile(folder), "tag", ["a", "b"])
    (path,) = (folder / "annotations").iterdir()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"e":"annotation","t":\n' + lines[2][:-5])
    log = read(folder)
    assert log.events == []
    assert [(problem.file, problem.line) for problem in log.problems] == [(f"annotations/{path.name}", 2)]
    path.write_bytes(b"".join(lines))
    assert present(folder) == ("a", "b")


def test_a_file_of_a_newer_version_is_a_problem(folder: Path):
    (folder / "annotations").mkdir()
    path = folder / "annotations" / "w.jsonl"
    path.write_bytes(encode(AnnotationHeader(VERSION + 1, "r", "w")) + encode(AnnotationEvent(1.0, "tag", "a")))
    log = read(folder)
    assert log.events == []
    assert "newer than 1; upgrade provml" in log.problems[0].reason


def test_a_write_that_fails_leaves_no_part_of_a_line(folder: Path, monkeypatch: pytest.MonkeyPatch):
    file = AnnotationFile(folder)
    annotate(file, "tag", ["a"])
    write = os.write

    def write_some(descriptor: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:20])

    with monkeypatch.context() as full:
        full.setattr(os, "write", write_some)
        with pytest.raises(OSError, match="No space left"):
            annotate(file, "tag", ["b"])
    assert annotate(file, "tag", ["c"]) == ["c"]
    assert present(folder) == ("a", "c")
    assert read(folder).problems == []


def test_a_run_that_was_removed_is_not_created_again(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        annotate(AnnotationFile(tmp_path / "gone"), "tag", ["a"])
    assert not (tmp_path / "gone").exists()
