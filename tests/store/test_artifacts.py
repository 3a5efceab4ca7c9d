"""Artifacts in the store: list, find, read, check and remove them; what a run refers to is never removed."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pytest

from provml.errors import ArtifactNotFound, FileFormatError
from provml.journal import events
from provml.journal.artifacts import ArtifactFiles
from provml.recording.run import Run
from provml.store import Store, gc
from provml.store.artifacts import collect_unreferenced, contents_of_run, unreferenced_among


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def record(home: Path, run: str, **settings: Any) -> Run:
    return Run("flowers", home=home, run=run, strict=True, capture_environment=False, **settings)


def fill(home: Path) -> None:
    """Record two runs that share some artifacts."""
    folder = home.parent / "saved"
    folder.mkdir()
    (folder / "weights").write_bytes(b"w")
    (folder / "config").write_bytes(b"c")
    for number in (1, 2):
        with record(home, f"run-{number}") as run:
            run.text("shared", "shared.txt")
            run.text(f"own {number}", "own.txt")
            run.text(f"own {number} again", "own.txt")
    with record(home, "run-3") as run:
        run.keep(folder, name="saved")


def contents(home: Path) -> set[str]:
    return set(ArtifactFiles(home).digests())


# ---- find


def test_artifacts_are_listed_in_the_order_in_which_they_were_stored(home: Path):
    fill(home)
    with Store(home) as store:
        assert [a.name for a in store.artifacts("run-1")] == ["shared.txt", "own.txt", "own.txt"]
        assert [a.run for a in store.artifacts()] == ["run-1"] * 3 + ["run-2"] * 3 + ["run-3"]
        first = store.artifacts()[0]
        assert (first.size, first.media_type, first.path, first.is_stored) == (6, "text/plain", "", True)
        assert "shared.txt" in store.artifacts()._repr_html_()
        with Store(home.parent / "empty", create=True) as empty:
            assert empty.artifacts() == []


def test_an_artifact_is_found_by_its_name_by_its_digest_and_by_its_run(home: Path):
    fill(home)
    with Store(home) as store:
        shared = store.artifact("shared.txt")
        assert shared.read() == b"shared"
        for target in (shared.sha256, shared.sha256[:8], shared.sha256[:8].upper()):
            assert store.artifact(target).sha256 == shared.sha256
        assert store.artifact("run-1", "own.txt").read() == b"own 1 again", "the last one of that name"
        assert store.artifact("run-1", store.artifacts("run-1")[1].sha256[:10]).read() == b"own 1"
        assert store.artifact("run-3").name == "saved"
        assert store.artifact(store.run("run-3")).is_folder
        store.rename("run-3", "third")
        assert store.artifact("third").name == "saved"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["own.txt"], "2 runs have an artifact 'own.txt': run-2, run-1. Pass the run too: its id, then the name."),
        (["run-1"], "Run run-1 has 3 artifacts. Pass the name of one of them: shared.txt, own.txt."),
        (["run-1", "nope"], "No artifact 'nope' in run run-1. Available: shared.txt, own.txt."),
        (["own.tx"], "No artifact 'own.tx' in this home. Available: own.txt."),
        (["00000000"], "No artifact '00000000' in this home. Available: "),
        (["run-4"], "Run run-4 has no artifacts. Store files with run.keep(file), or"),
    ],
)
def test_a_name_that_means_no_artifact_or_several_is_an_error_with_advice(
    home: Path, arguments: list[str], message: str
):
    fill(home)
    with record(home, "run-4"):
        pass
    with Store(home) as store, pytest.raises(ArtifactNotFound) as caught:
        store.artifact(*arguments)
    assert str(caught.value).startswith(message)


# ---- write out


def test_an_artifact_is_written_completely_or_not_at_all(home: Path, tmp_path: Path):
    fill(home)
    with Store(home) as store:
        artifact = store.artifact("run-1", "own.txt")
        assert artifact.save(tmp_path / "a.txt").read_bytes() == b"own 1 again"
        (tmp_path / "folder").mkdir()
        assert artifact.save(tmp_path / "folder") == tmp_path / "folder" / "own.txt"
        with pytest.raises(FileFormatError, match="the file exists already"):
            artifact.save(tmp_path / "a.txt")
        path = ArtifactFiles(home).path(artifact.sha256)
        path.chmod(0o644)
        path.write_bytes(b"damaged")
        with pytest.raises(FileFormatError, match="It is damaged"):
            artifact.save(tmp_path / "b.txt")
        assert sorted(p.name for p in (tmp_path).iterdir()) == ["a.txt", "folder", "home", "saved"]
        saved = store.artifact("run-3")
        assert {p.name: p.read_bytes() for p in saved.save(tmp_path / "copy").iterdir()} == {
            "weights": b"w",
            "config": b"c",
        }
        with pytest.raises(ArtifactNotFound, match="'saved' is a folder"):
            saved.read()


def test_a_name_with_a_path_is_written_below_the_present_directory(home: Path):
    with record(home, "r") as run:
        run.keep(b"x", name="../../etc/plots/loss.png")
        run.keep(b"y", name="..")
    with Store(home) as store:
        first, second = store.artifacts()
        assert first.file_name == "loss.png"
        assert second.file_name == second.sha256[:12]


# ---- maintenance


def test_verify_reports_damaged_and_missing_contents(home: Path):
    fill(home)
    with Store(home) as store:
        assert store.verify() == []
        files = ArtifactFiles(home)
        damaged, missing = store.artifact("shared.txt"), store.artifact("run-2", "own.txt")
        files.path(damaged.sha256).chmod(0o644)
        files.path(damaged.sha256).write_bytes(b"x")
        files.path(missing.sha256).unlink()
        member = files.files_of_folder(store.artifact("saved").sha256)["weights"]
        files.path(member).unlink()
        problems = [(p.file.partition("/main")[0], p.reason) for p in store.verify()]
        assert problems == [
            (
                f"artifacts/{damaged.sha256[:2]}/{damaged.sha256}",
                "the content does not have this SHA-256; restore it from a backup",
            ),
            ("runs/run-2", f"the artifact {missing.sha256} is missing"),
            ("runs/run-3", f"the artifact {member} is missing"),
        ]
        assert not missing.is_stored
        with pytest.raises(ArtifactNotFound, match=r"is not in .*artifacts\. Copy it from the home"):
            missing.read()


def test_only_what_no_run_refers_to_is_removed(home: Path):
    fill(home)
    before = contents(home)
    assert collect_unreferenced(home) == []
    with Store(home) as store:
        own = {a.sha256 for a in store.artifacts("run-1") if a.name == "own.txt"}
        folder = store.artifact("run-3").sha256
        store.remove("run-1")
        assert contents(home) == before, "removing a run removes no content"
        offered = collect_unreferenced(home, dry_run=True)
        assert ({path.name for path, _ in offered}, sum(size for _, size in offered)) == (own, 16)
        assert contents(home) == before
        assert {path.name for path, _ in collect_unreferenced(home)} == own
        assert contents(home) == before - own
        assert store.artifact("shared.txt").read() == b"shared"
        members = set(ArtifactFiles(home).files_of_folder(folder).values())
        store.remove("run-3")
        assert {path.name for path, _ in collect_unreferenced(home)} == {folder, *members}
        assert store.verify() == []


def test_a_content_that_a_run_knows_by_its_digest_only_is_not_removed(home: Path, tmp_path: Path):
    (tmp_path / "data.csv").write_text("1,2")
    with record(home, "a") as run:
        run.dataset(tmp_path / "data.csv", keep=True)
    with record(home, "b") as run:
        run.dataset(tmp_path / "data.csv")
    with Store(home) as store:
        store.remove("a")
        assert store.artifacts() == []
        (digest,) = contents(home)
        for target in ("data.csv", digest[:10], digest):
            assert store.artifact(target).read() == b"1,2", "it can still be read"
        with pytest.raises(ArtifactNotFound):
            store.artifact("b")
    assert collect_unreferenced(home) == []


def test_the_graph_tells_what_no_run_refers_to_after_a_removal(home: Path):
    fill(home)
    (home.parent / "other").mkdir()
    (home.parent / "other" / "settings").write_bytes(b"c")
    with record(home, "run-4") as run:
        run.keep(home.parent / "other")
    assert contents_of_run(home, "nope") == set()
    with Store(home) as store:
        own = {artifact.sha256 for artifact in store.artifacts("run-1") if artifact.name == "own.txt"}
        folder = store.artifact("run-3").sha256
        weights, config = (ArtifactFiles(home).files_of_folder(folder)[name] for name in ("weights", "config"))
        assert contents_of_run(home, "run-3") == {folder, weights, config}
        for run_id, unreferenced in (("run-1", own), ("run-3", {folder, weights}), ("run-4", None)):
            candidates = contents_of_run(home, run_id)
            assert unreferenced_among(store, candidates) == []
            store.remove(run_id)
            paths = {path.name for path, _ in unreferenced_among(store, candidates)}
            assert paths == (candidates if unreferenced is None else unreferenced)


@pytest.mark.parametrize("damage", ["a line", "the start of a line"])
def test_the_references_of_a_damaged_line_count(home: Path, damage: str):
    fill(home)
    journal = home / "runs" / "run-3" / "main.jsonl"
    text = journal.read_bytes()
    assert text.count(b'{"e":"artifact"') == 1
    new = b'{"e":"artifact","t":x,' if damage == "a line" else b"\0" * 10
    journal.write_bytes(text.replace(b'{"e":"artifact",' if damage == "a line" else b'{"e":"artifact"', new))
    folder = {sha256 for sha256 in contents(home) if sha256.encode() in text}
    removed = {path.name for path, _ in collect_unreferenced(home)}
    assert folder
    assert not folder & removed


def test_nothing_is_removed_if_a_journal_cannot_be_read(home: Path, monkeypatch: pytest.MonkeyPatch):
    fill(home)
    before = contents(home)
    (home / "runs" / "newer").mkdir()
    path = home / "runs" / "newer" / "main.jsonl"
    path.write_bytes(events.encode(events.Header(events.VERSION + 1, "newer", "main", "newer", 1.7e9)))
    with Store(home) as store:
        store.remove("run-1")
    with pytest.raises(FileFormatError, match="newer than"):
        collect_unreferenced(home)
    shutil.rmtree(path.parent)
    iterdir = Path.iterdir

    def refuse(folder: Path) -> Any:
        if folder.name == "run-2":
            raise PermissionError(13, "Permission denied", str(folder))
        return iterdir(folder)

    with monkeypatch.context() as permissions:
        permissions.setattr(Path, "iterdir", refuse)
        with pytest.raises(PermissionError):
            collect_unreferenced(home)
    assert contents(home) == before


def test_gc_removes_partial_files_and_leaves_artifacts(home: Path):
    fill(home)
    part = home / "artifacts" / "0123.part"
    part.write_bytes(b"half")
    assert part not in dict(gc.collect(home)), "it may be in use"
    before = contents(home)
    assert (part, 4) in gc.collect(home, min_age_seconds=-1.0)
    assert contents(home) == before


def test_a_backup_has_the_artifacts(home: Path, tmp_path: Path):
    fill(home)
    with Store(home) as store:
        store.backup(tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(home)
    with Store(tmp_path / "copy") as store:
        assert store.verify() == []
        assert store.artifact("shared.txt").read() == b"shared"


def test_the_export_of_a_run_describes_its_artifacts(home: Path):
    fill(home)
    with Store(home) as store:
        file = io.BytesIO()
        store.export("run-3", file, "nt")
        assert b"https://w3id.org/provml#hasArtifact" in file.getvalue()
        rows = store.query(
            """SELECT ?name ?type { ?run provml:hasArtifact ?a . ?a a provml:Artifact ; rdfs:label ?name ;
               provlake:mediaType ?type ; prov:specializationOf ?content . ?content provlake:sha256 ?sha256 .
               ?a provlake:sha256 ?sha256 } ORDER BY ?name LIMIT 1 OFFSET 4"""
        ).rows
        assert rows == [("saved", "inode/directory")]


def test_the_index_is_the_same_after_a_rebuild(home: Path):
    fill(home)
    with Store(home) as store:
        before = list(store.artifacts())
        store.rebuild()
        assert list(store.artifacts()) == before
