"""Tags, notes and names in the store: written on past runs, indexed in any order, kept through backup and export."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from provml.errors import FileFormatError, InvalidAnnotation, RunNotFound
from provml.journal.annotations import AnnotationEvent, AnnotationFile
from provml.recording.run import Run
from provml.store import Store

TAGS = "SELECT ?run ?tag { ?run provml:hasTag ?tag } ORDER BY ?run ?tag"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def record(home: Path, run: str = "r", name: str = "flowers", **settings: Any) -> None:
    with (
        Run(name, home=home, run=run, strict=True, capture_environment=False, **settings) as recorded,
        recorded.training(lr=0.1) as training,
    ):
        training.measured(loss=0.5)


def triples(store: Store) -> set[str]:
    """Return the triples of the default graph."""
    return {str(q.triple) for q in store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}


def rebuilt(home: Path) -> set[str]:
    """Return the triples of an index that is built from nothing."""
    shutil.rmtree(home / "index")
    with Store(home) as store:
        return triples(store)


def test_a_past_run_can_be_tagged_noted_and_renamed(home: Path):
    record(home)
    journal = (home / "runs" / "r" / "main.jsonl").read_bytes()
    with Store(home) as store:
        assert store.tag("r", "baseline", "v1", by="ada").tags == ("baseline", "v1")
        assert store.untag(store.run("r"), "v1", by="bob").tags == ("baseline",)
        info = store.note("latest", "first line\nsecond", by="ada")
        assert [(note.text, note.by) for note in info.notes] == [("first line\nsecond", "ada")]
        info = store.rename("r", "good run")
        assert (info.name, info.experiment, info.id, info.status) == ("good run", "flowers", "r", "FINISHED")
        assert store.rename("good run", "best run").name == "best run"
        assert [(a.kind, a.text, a.removed is None) for a in store.annotations("best run")] == [
            ("tag", "baseline", True),
            ("tag", "v1", False),
            ("note", "first line\nsecond", True),
            ("name", "good run", False),
            ("name", "best run", True),
        ]
        assert "tags=['baseline']" in repr(store.run("r"))
        assert '<td style="text-align: left">baseline</td>' in store._repr_html_()
        assert store.remove_note("r", "first line\nsecond").notes == ()
        with pytest.raises(InvalidAnnotation, match="It has no notes"):
            store.remove_note("r", "first line\nsecond")
    assert (home / "runs" / "r" / "main.jsonl").read_bytes() == journal
    with Store(home) as store:
        info = store.run("r")
        assert (info.name, info.tags, info.writers) == ("best run", ("baseline",), 1)


def test_the_graph_states_who_gave_a_tag_and_who_removed_it(home: Path):
    record(home)
    with Store(home) as store:
        store.tag("r", "a", "b", by="ada")
        store.untag("r", "b", by="bob")
        store.rename("r", "one")
        store.rename("r", "two")
        assert [tuple(row) for row in store.query(TAGS)] == [(store.run("r").iri, "a")]
        answer = store.query(
            """SELECT ?text ?by ?remover (BOUND(?end) && ?end >= ?start AS ?ended) {
              ?tag a provml:Tag ; provml:annotates ?run ; prov:value ?text ; prov:generatedAtTime ?start ;
                   prov:wasAttributedTo/rdfs:label ?by .
              OPTIONAL { ?tag prov:invalidatedAtTime ?end ; provml:wasRemovedBy/rdfs:label ?remover }
            } ORDER BY ?text"""
        )
        assert [tuple(row) for row in answer] == [("a", "ada", None, False), ("b", "ada", "bob", True)]
        assert store.query("SELECT ?name { ?run provlake:status ?status ; rdfs:label ?name }").column("name") == ["two"]
        assert store.query("SELECT ?n { ?x a provml:RunName ; prov:value ?n } ORDER BY ?n").column("n") == [
            "one",
            "two",
        ]
        report = store.validate("r")
        assert report, str(report)
        assert not [result for result in report if "annotation" in str(result)]
        indexed = triples(store)
    assert rebuilt(home) == indexed


def test_annotations_are_indexed_alike_in_any_order_and_number_of_syncs(home: Path):
    record(home)
    folder = home / "runs" / "r"
    items = [
        [AnnotationEvent(1.7e9, "tag", "a", "ada", number=1)],
        [AnnotationEvent(1.7e9 + 1, "tag", "a", "bob", removed=True, number=2)],
        [AnnotationEvent(1.7e9 + 2, "name", "x", "bob", number=3), AnnotationEvent(1.7e9, "tag", "b", number=3)],
        [AnnotationEvent(1.7e9 + 3, "name", "y", "eve", number=4)],
    ]
    for item in items:
        AnnotationFile(folder).append(item)
    files = {path.name: path.read_bytes() for path in (folder / "annotations").iterdir()}
    with Store(home) as store:
        store.sync()
        expected = triples(store)
    for order in (sorted(files), sorted(files, reverse=True)):
        shutil.rmtree(folder / "annotations")
        shutil.rmtree(home / "index")
        with Store(home) as store:
            assert len(triples(store)) < len(expected)
            (folder / "annotations").mkdir()
            for name in order:
                (folder / "annotations" / name).write_bytes(files[name])
                store.sync()
                assert store.sync() == 0
            assert triples(store) == expected
            assert store.run("r").name == "y"


def test_an_annotation_that_arrives_before_the_journal_is_indexed_with_it(home: Path, tmp_path: Path):
    record(home)
    with Store(home) as store:
        store.tag("r", "early")
        store.note("r", "hello")
        expected = triples(store)
    other = tmp_path / "other"
    shutil.copytree(home / "runs" / "r" / "annotations", other / "runs" / "r" / "annotations")
    with Store(other) as store:
        assert store.runs() == []
        assert triples(store) == set()
        shutil.copy(home / "runs" / "r" / "main.jsonl", other / "runs" / "r")
        assert store.run("r").tags == ("early",)
        assert triples(store) == expected


def test_removed_files_of_annotations_are_noticed(home: Path):
    record(home)
    with Store(home) as store:
        before = triples(store)
        store.tag("r", "a")
        store.rename("r", "x")
        shutil.rmtree(home / "runs" / "r" / "annotations")
        info = store.run("r")
        assert (info.tags, info.name) == ((), "flowers")
        assert {line for line in triples(store) if "persona" not in line} == before


def test_a_home_without_annotations_has_the_same_graph_as_before(home: Path):
    record(home)
    with Store(home) as store:
        before = triples(store)
        assert (store.run("r").tags, store.run("r").notes, store.annotations("r")) == ((), (), [])
        assert not any("annotat" in line for line in before)


def test_the_index_of_another_process_sees_new_annotations(home: Path):
    record(home)
    with Store(home) as holder, Store(home) as reader:
        assert reader.is_private
        reader.tag("r", "from the reader")
        assert holder.run("r").tags == ("from the reader",)
        holder.untag("r", "from the reader")
        assert reader.run("r").tags == ()


# ---- names


def test_a_run_is_found_by_its_name_if_no_other_run_has_it(home: Path):
    record(home, "one", name="flowers")
    record(home, "two", name="birds")
    with Store(home) as store:
        assert store.run("birds").id == "two"
        store.rename("two", "one")  # an id comes before a name
        assert store.run("one").id == "one"
        store.rename("two", "o")  # a name comes before a part of an id
        assert store.run("o").id == "two"
        store.rename("two", "flowers")
        with pytest.raises(RunNotFound, match=r"'flowers' is the name of 2 runs: two, one\. Pass the id of one, or"):
            store.run("flowers")
        with pytest.raises(RunNotFound, match="Did you mean flowers"):
            store.run("flower5")


def test_a_question_takes_the_name_of_a_run(home: Path):
    record(home, "one")
    record(home, "two")
    with Store(home) as store:
        store.rename("two", "lr:0.1")  # looks like an IRI
        first, second = (p.name for p in store.catalog["b6"].params.values() if p.node_kind == "run")
        sparql = store.sparql("b6", **{first: "one", second: "lr:0.1"})
        assert "/run/one>" in sparql
        assert "/run/two>" in sparql


# ---- upkeep


def test_verify_and_problems_report_a_damaged_annotation(home: Path):
    record(home)
    with Store(home) as store:
        store.tag("r", "a")
        (path,) = (home / "runs" / "r" / "annotations").iterdir()
        with path.open("ab") as file:
            file.write(b"damaged\n")
        for problems in (store.problems, store.verify()):
            assert [(p.file, p.line) for p in problems] == [(f"runs/r/annotations/{path.name}", 3)]
        assert store.run("r").tags == ("a",), "the rest is used"


def test_annotations_that_cannot_be_listed_are_a_problem(home: Path, monkeypatch: pytest.MonkeyPatch):
    record(home)
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "annotations":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with Store(home) as store:
        store.tag("r", "a")
        with monkeypatch.context() as permissions:
            permissions.setattr(os, "scandir", refuse)
            for problems in (store.problems, store.problems):
                assert [(p.file, p.reason) for p in problems] == [("runs/r/annotations", "permission denied")]
        assert store.run("r").tags == ("a",)
        assert store.problems == []


def test_a_backup_has_the_annotations(home: Path, tmp_path: Path):
    record(home)
    with Store(home) as store:
        store.tag("r", "a", by="ada")
        store.note("r", "hello")
        expected = triples(store)
        store.backup(tmp_path / "copy")
    with Store(tmp_path / "copy") as store:
        assert triples(store) == expected
        assert store.run("r").tags == ("a",)


def test_the_export_of_a_run_has_its_annotations(home: Path, tmp_path: Path):
    record(home)
    with Store(home) as store:
        store.tag("r", "a", "b")
        store.untag("r", "b")
        store.rename("r", "x")
        file = io.BytesIO()
        store.export("r", file, "nt")
        assert set(file.getvalue().decode().splitlines()) == {f"{line} ." for line in triples(store)}
    (tmp_path / "run.nt").write_bytes(file.getvalue())
    with Store(tmp_path / "other", create=True) as store:
        store.load(tmp_path / "run.nt")
        assert store.query(TAGS).column("tag") == ["a"]


def test_a_removed_run_takes_its_annotations_with_it(home: Path):
    record(home)
    record(home, "other")
    with Store(home) as store:
        store.tag("r", "a")
        store.remove("r")
        assert not any("annotation" in line or '"a"' in line for line in triples(store))
        assert not (home / "runs" / "r").exists()


def test_a_run_that_cannot_be_written_to_is_an_error_with_advice(home: Path, monkeypatch: pytest.MonkeyPatch):
    record(home)

    def refuse(self: Path, *args: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    with Store(home) as store, monkeypatch.context() as read_only:
        read_only.setattr(Path, "mkdir", refuse)  # root may write to a read-only folder
        with pytest.raises(FileFormatError, match=r"the tag cannot be written \(permission denied\).*make it writable"):
            store.tag("r", "a")
    with Store(home) as store:
        assert store.run("r").tags == ()


def test_an_invalid_annotation_changes_nothing(home: Path):
    record(home)
    with Store(home) as store:
        for wrong in (lambda: store.tag("r", "a", ""), lambda: store.note("r", " "), lambda: store.rename("r", "a\nb")):
            with pytest.raises(InvalidAnnotation):
                wrong()
        with pytest.raises(RunNotFound):
            store.tag("nope", "a")
        assert store.annotations("r") == []
