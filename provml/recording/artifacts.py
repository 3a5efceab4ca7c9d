"""Store the contents of files, folders, bytes, texts and figures as artifacts of a run."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from provml.journal.artifacts import ArtifactFiles
from provml.paths import path_mode
from provml.recording.hashing import digest_file, folder_files


class StoredContent(NamedTuple):
    """A content that was stored: its SHA-256, its size in bytes, and whether it is a folder."""

    sha256: str
    size: int
    is_folder: bool = False


def store_content(home: Path, source: Any) -> StoredContent:
    """Store a file, a folder or bytes in a home; raise an error for anything else."""
    files = ArtifactFiles(home)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return StoredContent(*files.add_bytes(source))
    if not isinstance(source, (str, os.PathLike)):
        advice = "Save it to a file first, and pass the path."
        raise TypeError(f"Only files, folders and bytes can be stored, not a {type(source).__name__}. {advice}")
    path = Path(os.fsdecode(source))
    mode = path_mode(path)
    if stat.S_ISDIR(mode):
        members = folder_files(path)
        digests = {name: digest_file(member).sha256 for name, member in members.items()}
        return StoredContent(*files.add_folder(members, digests), is_folder=True)
    if not stat.S_ISREG(mode):
        problem = "is neither a file nor a folder" if mode else "does not exist"
        raise FileNotFoundError(f"{str(path)!r} {problem}, so its content cannot be stored. Check the path.")
    return StoredContent(*files.add_file(path, digest_file(path).sha256))


def media_type_of(name: str) -> str:
    """Return the media type that the extension of a name implies, the same on all machines; empty if there is none."""
    import mimetypes

    return mimetypes.MimeTypes().guess_type(name)[0] or ""


def render_figure(figure: Any, extension: str) -> bytes:
    """Return a figure of matplotlib, or the figure of its axes, as an image file."""
    save = getattr(figure, "savefig", None) or getattr(getattr(figure, "figure", None), "savefig", None)
    if save is None:
        advice = "Pass a figure or axes of matplotlib, or save the picture and pass its path to run.keep(…)."
        raise TypeError(f"A {type(figure).__name__} is not a figure of matplotlib. {advice}")
    image = io.BytesIO()
    save(image, format=extension, bbox_inches="tight")
    return image.getvalue()
