"""Artifacts in the store: list and read what runs have stored, and remove what belongs to no run any more."""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from provml.answers import Answer, html_table
from provml.errors import ArtifactNotFound, FileFormatError, RunNotFound, plural
from provml.journal import events
from provml.journal.artifacts import FOLDER_TYPE, REMOVED_SUFFIX, ArtifactFiles
from provml.journal.reader import read_data, read_header
from provml.journal.run_files import journals_of_run, list_journals
from provml.journal.seals import SCRUBBED, Ledger
from provml.model.values import IRI
from provml.rdf.namespaces import RUNS
from provml.store.checkpoint import Problem
from provml.store.run_info import RunInfo

ARTIFACTS = """
SELECT ?run ?name ?data ?sha256 ?size ?type ?path ?time WHERE {
  $run
  ?run provml:hasArtifact ?artifact .
  ?artifact rdfs:label ?name ; provlake:sha256 ?sha256 ; prov:generatedAtTime ?time ;
            provlake:wasDerivedFromAttribute/rdfs:label ?data .
  OPTIONAL { ?artifact provlake:sizeBytes ?size }
  OPTIONAL { ?artifact provlake:mediaType ?type }
  OPTIONAL { ?artifact provlake:path ?path }
} ORDER BY ?time ?run ?name"""
STORED_DATA = """
SELECT DISTINCT ?sha256 ?name ?path WHERE {
  ?data provlake:sha256 ?sha256 ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL { ?data provlake:path ?path }
} ORDER BY ?sha256 ?name ?path"""
REFERENCED = "SELECT DISTINCT ?sha256 WHERE { VALUES ?sha256 { $values } ?content provlake:sha256 ?sha256 }"
FOLDERS = f'SELECT DISTINCT ?sha256 WHERE {{ ?folder provlake:mediaType "{FOLDER_TYPE}" ; provlake:sha256 ?sha256 }}'
DIGEST_PREFIX = re.compile("[0-9a-f]{8,64}")
"""At least eight digits of a digest; a part of a run's id has fewer."""
"""Lines of a journal that refer to content."""
MAX_SUGGESTIONS = 3


class Queryable(Protocol):
    """What artifacts need of a store."""

    home: Path

    def query(self, sparql: str) -> Answer | bool:
        """Execute a query."""

    def run(self, run_id: str) -> RunInfo:
        """Find a run."""


@dataclass(frozen=True)
class Artifact:
    """A content that a run stored: `name` is its file name, `data` the name of the dataset or model that it is.

    `run` is empty if the run that stored it was removed, `size` is in bytes, `path` is where the original was.
    """

    run: str
    name: str
    data: str
    sha256: str
    size: int
    media_type: str
    path: str
    time: datetime
    home: Path = field(repr=False)

    @property
    def is_folder(self) -> bool:
        """Whether a folder was stored."""
        return self.media_type == FOLDER_TYPE

    @property
    def is_stored(self) -> bool:
        """Whether the content is in the home."""
        return ArtifactFiles(self.home).has(self.sha256)

    def read(self) -> bytes:
        """Return the content of a file; it is checked against its digest."""
        content = io.BytesIO()
        self.copy_to(content)
        return content.getvalue()

    def copy_to(self, file: IO[bytes]) -> None:
        """Write the content to a binary file; it is checked against its digest when all is written."""
        if self.is_folder:
            reason = f"The artifact {self.name!r} is a folder"
            raise ArtifactNotFound(self.name, reason, "Write it to a new directory instead.")
        self._files().copy(self.sha256, file)

    def save(self, path: Path | str) -> Path:
        """Write the content to a new file or folder, completely or not at all; return its path.

        An existing directory gets a file of the artifact's name in it.
        """
        target = Path(path)
        if target.is_dir():
            target = target / self.file_name
        if target.exists():
            raise FileFormatError("the file exists already", "Remove it, or choose another path.", file=str(target))
        if self.is_folder:
            self._files().copy_folder(self.sha256, target)
            return target
        part = target.with_name(f".{target.name}-{uuid.uuid4().hex[:8]}.part")
        try:
            with part.open("xb") as file:
                self.copy_to(file)
            part.rename(target)
        finally:
            part.unlink(missing_ok=True)
        return target

    @property
    def file_name(self) -> str:
        """A name for a file in any directory."""
        name = Path(self.name).name.replace("\0", "")
        return name if name not in ("", ".", "..") else self.sha256[:12]

    def _files(self) -> ArtifactFiles:
        if not self.is_stored:
            reason = f"The content of {self.name!r} ({self.sha256[:12]}…) is not in {self.home / 'artifacts'}"
            raise ArtifactNotFound(self.name, reason, "Copy it from the home in which it was recorded.")
        return ArtifactFiles(self.home)


class ArtifactList(list[Artifact]):
    """Artifacts, shown as a table in notebooks."""

    def _repr_html_(self) -> str:
        rows = [(a.name, a.run, a.size, a.media_type, a.sha256[:12], a.time) for a in self]
        return html_table(["artifact", "run", "bytes", "type", "sha256", "time"], rows)


def list_artifacts(store: Queryable, run: IRI | None = None) -> ArtifactList:
    """List the artifacts of a run, or of all, in the order in which they were stored."""
    answer = store.query(ARTIFACTS.replace("$run", f"VALUES ?run {{ <{run}> }}" if run else ""))
    artifacts: dict[tuple[str, ...], Artifact] = {}
    for row in answer.rows if isinstance(answer, Answer) else ():
        run_iri, name, data, sha256, size, media_type, path, time = row
        run_id = str(run_iri).removeprefix(RUNS)
        artifact = Artifact(
            run_id, name, data, sha256, -1 if size is None else size, media_type or "", path or "", time, store.home
        )
        artifacts.setdefault((run_id, name, sha256), artifact)  # ranks may store the same
    return ArtifactList(artifacts.values())


# ---- lookup


def find_artifacts(store: Queryable, target: str, name: str = "") -> ArtifactList:
    """Return the artifact that a name, a digest or a run means; all of a run that has several."""
    everything = list_artifacts(store)
    if name:
        run = store.run(target).id
        return ArtifactList([_newest(name, [a for a in everything if a.run == run], f"run {run}")])
    if artifact := _by_name_or_digest(everything, target):
        return ArtifactList([artifact])
    try:
        run = store.run(target).id
    except RunNotFound:
        if artifact := _by_name_or_digest(_stored_data(store), target):
            return ArtifactList([artifact])
        raise _unknown(target, everything) from None
    artifacts = ArtifactList(a for a in everything if a.run == run)
    if not artifacts:
        advice = "Store files with run.keep(file), or with keep=True on run.dataset and produced."
        raise ArtifactNotFound(target, f"Run {run} has no artifacts", advice)
    return artifacts


def _by_name_or_digest(artifacts: Iterable[Artifact], target: str) -> Artifact | None:
    """Return the artifact of a name, or of the first digits of a digest; None if there is none."""
    artifacts = list(artifacts)
    if matches := _named(artifacts, target):
        return _only_one(target, matches)
    if not DIGEST_PREFIX.fullmatch(target.lower()):
        return None
    digests = {artifact.sha256: artifact for artifact in artifacts if artifact.sha256.startswith(target.lower())}
    if len(digests) > 1:
        reason = f"{plural(len(digests), 'artifact')} have a SHA-256 that starts with {target}"
        raise ArtifactNotFound(target, reason, "Pass more digits.", tuple(digests))
    return next(iter(digests.values()), None)


def _stored_data(store: Queryable) -> Iterator[Artifact]:
    """Yield data whose content is stored although the run that stored it was removed: other runs refer to it."""
    files, answer = ArtifactFiles(store.home), store.query(STORED_DATA)
    for sha256, name, path in answer.rows if isinstance(answer, Answer) else ():
        if files.has(sha256):
            size = files.path(sha256).stat().st_size
            media_type = FOLDER_TYPE if files.is_folder(sha256) else ""
            file_name = Path(path).name if path else name
            time = datetime.fromtimestamp(files.path(sha256).stat().st_mtime, UTC)
            yield Artifact("", file_name, name, sha256, size, media_type, path or "", time, store.home)


def _named(artifacts: Iterable[Artifact], name: str) -> list[Artifact]:
    """Return the artifacts of a name: that of the file, its path, or the name of the data."""
    artifacts = list(artifacts)
    for attribute in ("name", "path", "data"):
        if matches := [artifact for artifact in artifacts if getattr(artifact, attribute) == name]:
            return matches
    return []


def _newest(name: str, artifacts: list[Artifact], place: str) -> Artifact:
    """Return the artifact of a run by its name or digest; of several, the one that was stored last."""
    matches = _named(artifacts, name)
    if not matches and DIGEST_PREFIX.fullmatch(name.lower()):
        matches = [artifact for artifact in artifacts if artifact.sha256.startswith(name.lower())]
    if not matches:
        raise _unknown(name, artifacts, place)
    return matches[-1]


def _only_one(name: str, matches: list[Artifact]) -> Artifact:
    """Return the last of several artifacts of one run, or of one content; otherwise ask for the run."""
    runs = list(dict.fromkeys(artifact.run for artifact in reversed(matches)))
    digests = {artifact.sha256 for artifact in matches}
    if runs == [""] and len(digests) > 1:
        advice = f"Pass the SHA-256: {', '.join(sha256[:12] for sha256 in sorted(digests)[:MAX_SUGGESTIONS])}."
        raise ArtifactNotFound(name, f"{len(digests)} stored contents have the name {name!r}", advice, tuple(digests))
    if len(runs) > 1 and len(digests) > 1:
        reason = f"{plural(len(runs), 'run')} have an artifact {name!r}: {', '.join(runs[:MAX_SUGGESTIONS])}"
        reason += ", …" if len(runs) > MAX_SUGGESTIONS else ""
        raise ArtifactNotFound(name, reason, "Pass the run too: its id, then the name.", tuple(runs))
    return matches[-1]


def _unknown(name: str, artifacts: Iterable[Artifact], place: str = "this home") -> ArtifactNotFound:
    names = list(dict.fromkeys(artifact.name for artifact in artifacts))
    close = difflib.get_close_matches(name, names, MAX_SUGGESTIONS) or names[-MAX_SUGGESTIONS:]
    advice = f"Available: {', '.join(close)}." if close else "No artifact is stored yet: use run.keep(file)."
    return ArtifactNotFound(name, f"No artifact {name!r} in {place}", advice, tuple(close))


# ---- maintenance


class Reference(NamedTuple):
    """A content that a line of a journal refers to; `is_artifact` if the run stored it."""

    journal: str
    line: int
    sha256: str
    is_artifact: bool = False
    is_folder: bool = False


def references(home: Path) -> Iterator[Reference]:
    """Yield the contents that the journals of a home refer to; raise an error if one of them cannot be read."""
    _check_folders(home)
    for key in list_journals(home):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            yield from _references_of_journal(home / "runs" / key, f"runs/{key}")


def references_of_run(home: Path, run: str) -> Iterator[Reference]:
    """Yield the contents that the journals of a run refer to."""
    for path in journals_of_run(home / "runs" / run):
        yield from _references_of_journal(path, f"runs/{run}/{path.name}")


def contents_of_run(home: Path, run: str) -> set[str]:
    """Return the stored contents that a run refers to, with the files of the folders among them.

    They are for a hint: what cannot be read has none.
    """
    files, digests = ArtifactFiles(home), set[str]()
    with contextlib.suppress(OSError, FileFormatError):
        digests.update(item.sha256 for item in references_of_run(home, run) if files.has(item.sha256))
    return digests | _files_of_folders(files, filter(files.is_folder, digests))


def unreferenced_among(store: Queryable, digests: set[str]) -> list[tuple[Path, int]]:
    """Return the files, with their sizes, of those contents to which no run refers by the graph.

    That is fast, and enough for a hint: `collect_unreferenced` reads all journals before it removes anything.
    """
    if not digests:
        return []
    files = ArtifactFiles(store.home)
    values = " ".join(f'"{sha256}"' for sha256 in digests)
    referenced = _digests(store, REFERENCED.replace("$values", values))
    if referenced < digests:
        referenced |= _files_of_folders(files, filter(files.has, _digests(store, FOLDERS)))
    paths = [files.path(sha256) for sha256 in sorted(digests - referenced)]
    return [(path, path.stat().st_size) for path in paths]


def _digests(store: Queryable, sparql: str) -> set[str]:
    answer = store.query(sparql)
    return {row[0] for row in answer.rows} if isinstance(answer, Answer) else set()


def _files_of_folders(files: ArtifactFiles, folders: Iterable[str]) -> set[str]:
    """Return the files of folders; a damaged list has none."""
    digests = set[str]()
    for folder in folders:
        with contextlib.suppress(FileFormatError):
            digests |= set(files.files_of_folder(folder).values())
    return digests


def _check_folders(home: Path) -> None:
    """Raise an OSError if the folder of a run cannot be listed: a list of journals leaves such a run out."""
    runs = home / "runs"
    for folder in runs.iterdir() if runs.is_dir() else ():
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # removed meanwhile; a file of somebody else
            next(iter(folder.iterdir()), None)


def _references_of_journal(path: Path, key: str) -> Iterator[Reference]:
    header = read_header(path)
    if header is not None and header.version > events.VERSION:
        reason = f"the journal has version {header.version}, newer than {events.VERSION}"
        raise FileFormatError(reason, "Upgrade provml.", file=key)
    for number, event in read_data(path):
        if isinstance(event, bytes):  # a damaged line still refers to its contents
            for digest in re.findall(rb"[0-9a-f]{64}", event):
                yield Reference(key, number, digest.decode())
        elif isinstance(event, events.Artifact):
            yield Reference(key, number, event.sha256, is_artifact=True, is_folder=event.is_folder)
        elif event.sha256:
            yield Reference(key, number, event.sha256)


def referenced_digests(home: Path) -> set[str]:
    """Return the contents that some run refers to, with the files of the folders among them."""
    files, digests, folders = ArtifactFiles(home), set[str](), set[str]()
    for reference in references(home):
        digests.add(reference.sha256)
        if reference.is_folder:
            folders.add(reference.sha256)
    return digests | _files_of_folders(files, filter(files.has, folders))


def collect_unreferenced(home: Path, *, dry_run: bool = False) -> list[tuple[Path, int]]:
    """Remove the contents that no run refers to, and return their files with their sizes.

    A run may begin to refer to a content meanwhile. Therefore a content first gets another name, then the journals are
    read again. A run looks after its event whether the content is there, and stores it again if not.
    """
    files = ArtifactFiles(home)
    for hidden in files.folder.glob(f"*/*{REMOVED_SUFFIX}"):  # the process that hid it was killed
        hidden.rename(hidden.with_suffix(""))
    stored = {sha256: files.path(sha256) for sha256 in files.digests()}
    candidates = stored.keys() - referenced_digests(home) if stored else set()
    sizes = [(stored[sha256], stored[sha256].stat().st_size) for sha256 in sorted(candidates)]
    if dry_run or not candidates:
        return sizes
    for path, _ in sizes:
        path.rename(path.with_suffix(REMOVED_SUFFIX))
    try:
        referenced = referenced_digests(home)
    except BaseException:
        referenced = candidates
        raise
    finally:
        for path, _ in sizes:
            hidden = path.with_suffix(REMOVED_SUFFIX)
            if path.name in referenced and not path.exists():
                hidden.rename(path)
            else:
                hidden.unlink(missing_ok=True)
    return [(path, size) for path, size in sizes if path.name not in referenced]


def check_artifacts(home: Path) -> list[Problem]:
    """Read all stored contents, and return those that are damaged, and those that a run stored and that are missing."""
    files, problems = ArtifactFiles(home), []
    for sha256 in sorted(files.digests()):
        name = f"artifacts/{sha256[:2]}/{sha256}"
        try:
            if not files.is_intact(sha256):
                problems.append(Problem(name, 0, "the content does not have this SHA-256; restore it from a backup"))
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError as error:
            problems.append(Problem(name, 0, (error.strerror or str(error)).lower()))
    scrubbed = {line.entry.get("sha256") for line in Ledger(home).lines() if line.entry.get("kind") == SCRUBBED}
    for key in list_journals(home):
        with contextlib.suppress(OSError, FileFormatError):  # the check of the journals reports it
            for reference in _references_of_journal(home / "runs" / key, f"runs/{key}"):
                problems += _find_missing(files, reference, scrubbed)
    return problems


def _find_missing(files: ArtifactFiles, reference: Reference, scrubbed: set[Any]) -> list[Problem]:
    """Return the contents of an artifact that are not stored, or that may not be read."""
    try:
        missing = [f"{sha256} is missing" for sha256 in _missing(files, reference) if sha256 not in scrubbed]
    except FileFormatError:  # a list of files that is damaged was found above
        return []
    except OSError as error:
        missing = [f"{reference.sha256} cannot be read ({(error.strerror or str(error)).lower()})"]
    return [Problem(reference.journal, reference.line, f"the artifact {text}") for text in missing]


def _missing(files: ArtifactFiles, reference: Reference) -> list[str]:
    """Return the contents of an artifact that are not stored."""
    if not reference.is_artifact:
        return []
    if not files.has(reference.sha256):
        return [reference.sha256]
    if not reference.is_folder:
        return []
    return [sha256 for sha256 in files.files_of_folder(reference.sha256).values() if not files.has(sha256)]


def copy_artifacts(home: Path, target: Path) -> None:
    """Copy all stored contents to another home."""
    files, copies = ArtifactFiles(home), ArtifactFiles(target)
    for sha256 in files.digests():
        copies.path(sha256).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            shutil.copy2(files.path(sha256), copies.path(sha256))
