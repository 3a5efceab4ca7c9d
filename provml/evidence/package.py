"""The evidence of a run: a ZIP file with its journals, the ledger, signatures, stored artifacts and a report.

`manifest.json` lists every other file with its size and SHA-256. `examples/verify_evidence.py` checks such a file with
the standard library alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from provml.errors import FileFormatError
from provml.evidence.signing import SIGNATURES
from provml.journal import segments
from provml.journal.artifacts import CHUNK_BYTES, ArtifactFiles
from provml.journal.batch_buffer import buffer_path
from provml.journal.run_files import journals_of_run
from provml.journal.seals import FOLDER, LEDGER
from provml.journal.status import is_being_written
from provml.store import Store
from provml.store.artifacts import references_of_run
from provml.store.seal_check import SealReport

VERSION = 1
WHAT_IT_PROVES = """What this evidence shows, and what it does not

- Each journal has the bytes that its line of the ledger says, if `verify_evidence.py` finds no problem: nobody has
  changed, cut or lengthened it since it was sealed. A journal that was sealed "by reader" was sealed after its process
  was killed, or by hand: what happened to it before is not known, except for the bytes that its process had digested.
- No line of the ledger was changed, removed or inserted after a later line was written.
- Whoever can write to the home could write a journal and a whole new ledger. Only a signature, or a time stamp from
  elsewhere, rules that out: a signature shows that the holder of the key vouched for the ledger as it is here, and a
  time stamp shows that the signed statement existed at that time. The times in journals, in the ledger and in signed
  statements are those of the clock of the machine, and prove nothing by themselves.
- Annotations have no seal. graph.ttl and report.html are for reading: provml makes them from the journals.
- That a process recorded something does not show that it is true: a program can record what it likes.
"""


@dataclass
class _Package:
    """A ZIP file that is being written, and the list of its files."""

    archive: zipfile.ZipFile
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, content: bytes) -> None:
        self._describe(name, len(content), hashlib.sha256(content).hexdigest())
        self.archive.writestr(name, content)

    def add_stream(self, name: str, source: IO[bytes]) -> str:
        """Add a file of any size, and return its SHA-256."""
        digest, size = hashlib.sha256(), 0
        with self.archive.open(name, "w", force_zip64=True) as target:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
                target.write(chunk)
        self._describe(name, size, digest.hexdigest())
        return digest.hexdigest()

    def _describe(self, name: str, size: int, sha256: str) -> None:
        self.files[name] = {"size": size, "sha256": sha256}


def write_evidence(store: Store, run_id: str, path: Path, *, artifacts: bool = True) -> list[str]:
    """Write the evidence of a run that has ended, and return the problems that its report names.

    `artifacts=False` leaves out stored contents. The file is written completely or not at all.
    """
    info = store.run(run_id)
    folder = store.home / "runs" / info.id
    journals = journals_of_run(folder)
    if any(is_being_written(journal) for journal in journals):
        raise FileFormatError("the run is still running", "Wait for its end.", file=info.id)
    if path.exists():
        raise FileFormatError("the file exists already", "Remove it, or choose another path.", file=str(path))
    store.seal()
    seals = store.check_seals()
    problems = [f"{problem.file}: {problem.reason}" for problem in _of_run(seals, info.id)]
    part = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            package = _Package(archive)
            for journal in journals:
                with segments.open_file(journal) as file:
                    package.add_stream(f"runs/{info.id}/{journal.name}", file)
                if (buffer := buffer_path(journal)).is_file():  # batches of a killed process
                    package.add(f"runs/{info.id}/{buffer.name}", buffer.read_bytes())
            _add_annotations(package, folder)
            _add_seals(package, store.home)
            if artifacts:
                problems += _add_artifacts(package, store.home, info.id)
            package.add("graph.ttl", _graph(store, info.id))
            package.add("report.html", store.report(info, validate=False).to_html().encode())
            package.add("README.txt", WHAT_IT_PROVES.encode())
            archive.writestr("manifest.json", json.dumps(_manifest(info.id, package, problems), indent=1))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return problems


def _of_run(seals: SealReport, run: str) -> Iterator[Any]:
    prefixes = (f"runs/{run}/", f"{FOLDER}/")
    return (problem for problem in seals.problems if problem.file.startswith(prefixes))


def _manifest(run: str, package: _Package, problems: list[str]) -> dict[str, Any]:
    return {
        "format": "provml evidence",
        "version": VERSION,
        "run": run,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "provml": version("provml"),
        "problems": problems,
        "files": package.files,
    }


def _add_annotations(package: _Package, folder: Path) -> None:
    for path in sorted((folder / "annotations").glob("*.jsonl")):
        package.add(f"runs/{folder.name}/annotations/{path.name}", path.read_bytes())


def _add_seals(package: _Package, home: Path) -> None:
    with (home / FOLDER / LEDGER).open("rb") as file:
        package.add_stream(f"{FOLDER}/{LEDGER}", file)
    for path in sorted((home / FOLDER / SIGNATURES).glob("*")):
        package.add(f"{FOLDER}/{SIGNATURES}/{path.name}", path.read_bytes())


def _add_artifacts(package: _Package, home: Path, run: str) -> list[str]:
    """Add what the run has stored, and return what is missing or damaged."""
    files, digests = ArtifactFiles(home), set[str]()
    for reference in references_of_run(home, run):
        if reference.is_artifact:
            digests.add(reference.sha256)
            if reference.is_folder and files.has(reference.sha256):
                digests.update(files.files_of_folder(reference.sha256).values())
    problems = []
    for sha256 in sorted(digests):
        if not files.has(sha256):
            problems.append(f"artifacts/{sha256}: is missing")
            continue
        with files.path(sha256).open("rb") as file:
            if package.add_stream(f"artifacts/{sha256}", file) != sha256:
                problems.append(f"artifacts/{sha256}: the content does not have this SHA-256")
    return problems


def _graph(store: Store, run: str) -> bytes:
    target = io.BytesIO()
    store.export(run, target, "ttl")
    return target.getvalue()
