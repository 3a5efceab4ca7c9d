"""Stored contents: each once, by its SHA-256, complete or not at all, checked when it is read."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provml.errors import FileFormatError
from provml.journal.artifacts import CHUNK_BYTES, ArtifactFiles
from provml.recording.hashing import digest_folder, folder_files


@pytest.fixture
def files(tmp_path: Path) -> ArtifactFiles:
    return ArtifactFiles(tmp_path / "home")


def read(files: ArtifactFiles, sha256: str) -> bytes:
    content = io.BytesIO()
    files.copy(sha256, content)
    return content.getvalue()


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_a_file_is_stored_under_its_digest_and_is_read_only(files: ArtifactFiles, tmp_path: Path, size: int):
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    content = files.add_file(tmp_path / "f")
    assert content == (hashlib.sha256(data).hexdigest(), size)
    path = files.folder / content.sha256[:2] / content.sha256
    assert path.read_bytes() == read(files, content.sha256) == data
    assert path.stat().st_mode & 0o777 == 0o444
    assert list(files.digests()) == [content.sha256]
    assert not list(files.folder.glob("*.part"))


def test_the_same_content_is_stored_once(files: ArtifactFiles, tmp_path: Path):
    (tmp_path / "a").write_bytes(b"same")
    (tmp_path / "b").write_bytes(b"same")
    first = files.add_file(tmp_path / "a")
    inode = files.path(first.sha256).stat().st_ino
    assert files.add_bytes(b"same") == files.add_bytes(bytearray(b"same")) == first
    assert files.add_file(tmp_path / "b", first.sha256) == first
    assert files.path(first.sha256).stat().st_ino == inode, "it is not even copied again"
    assert len(list(files.digests())) == 1


def test_a_file_that_changes_while_it_is_stored_has_the_digest_of_what_was_stored(files: ArtifactFiles, tmp_path: Path):
    (tmp_path / "f").write_bytes(b"new content")
    content = files.add_file(tmp_path / "f", hashlib.sha256(b"old content").hexdigest())
    assert read(files, content.sha256) == b"new content"
    assert content.sha256 == hashlib.sha256(b"new content").hexdigest()


def test_a_damaged_content_is_noticed(files: ArtifactFiles):
    content = files.add_bytes(b"content")
    path = files.path(content.sha256)
    path.chmod(0o644)
    path.write_bytes(b"other")
    assert not files.is_intact(content.sha256)
    with pytest.raises(FileFormatError, match=r"its content has the SHA-256 .* It is damaged: restore it"):
        read(files, content.sha256)


def test_a_write_that_fails_leaves_nothing(files: ArtifactFiles, monkeypatch: pytest.MonkeyPatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            files.add_bytes(b"content")
    assert [path for path in files.folder.rglob("*") if path.is_file()] == []
    assert files.has(files.add_bytes(b"content").sha256)


# ---- folders

names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 200
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.dictionaries(names, st.binary(max_size=50) | st.dictionaries(names, st.binary(max_size=50), max_size=3)))
def test_a_folder_has_the_digest_of_its_hash_and_is_restored(tmp_path_factory: pytest.TempPathFactory, tree):
    folder = tmp_path_factory.mktemp("folder")
    for name, value in tree.items():
        if isinstance(value, bytes):
            (folder / name).write_bytes(value)
        else:
            (folder / name).mkdir()
            for inner, data in value.items():
                (folder / name / inner).write_bytes(data)
    files = ArtifactFiles(tmp_path_factory.mktemp("home"))
    content = files.add_folder(folder_files(folder), {})
    assert content == tuple(digest_folder(folder))
    target = folder.parent / f"{folder.name}-copy"
    files.copy_folder(content.sha256, target)
    assert digest_folder(target) == digest_folder(folder)
    assert sorted(folder_files(target)) == sorted(folder_files(folder))


def test_a_name_in_a_folder_that_leads_out_of_it_is_refused(files: ArtifactFiles, tmp_path: Path):
    digest = files.add_bytes(b"evil").sha256.encode()
    for name in (b"../evil", b"/tmp/evil", b"a/../../evil"):
        manifest = files.add_bytes(name + b"\0" + digest + b"\n")
        with pytest.raises(FileFormatError, match="leads out of the folder"):
            files.copy_folder(manifest.sha256, tmp_path / "target")
        assert not (tmp_path / "target").exists()
        assert not list(tmp_path.glob("*evil*"))


@pytest.mark.parametrize(
    "data", [b"no list", b"a\0" + b"0" * 63 + b"\n", b"a\0" + b"0" * 64, b"a\0" + b"x" * 64 + b"\n"]
)
def test_a_file_that_is_no_list_of_files_is_refused(files: ArtifactFiles, data: bytes):
    with pytest.raises(FileFormatError, match="not a list of files"):
        files.files_of_folder(files.add_bytes(data).sha256)


def test_a_folder_with_a_damaged_file_is_not_written(files: ArtifactFiles, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_bytes(b"a")
    (tmp_path / "folder" / "b").write_bytes(b"b")
    content = files.add_folder(folder_files(tmp_path / "folder"), {})
    path = files.path(hashlib.sha256(b"b").hexdigest())
    path.chmod(0o644)
    path.write_bytes(b"x")
    with pytest.raises(FileFormatError, match="It is damaged"):
        files.copy_folder(content.sha256, tmp_path / "target")
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "home"}
