"""The index: an embedded Oxigraph over the journals. It can be made again from them at any time."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyoxigraph as ox

from provml import event, rdf, resources
from provml.errors import ForkedStore
from provml.journal import read_lines
from provml.lift import Lifter, name
from provml.store import progress as kept
from provml.store.progress import Journal, Problem, Progress, status_of

CHUNK = 32 << 20
SMALL = 2 << 20
STATUS = ox.NamedNode("https://w3id.org/provlake#status")
ONTOLOGY = ox.NamedNode("https://w3id.org/provml")


class Index:
    """An Oxigraph store and how far it has read: on disk, in memory, or a private copy of another's snapshot."""

    def __init__(self, home: Path, folder: Path | None) -> None:
        self.home = home
        self.folder = folder
        self._pid = os.getpid()
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if folder is None:
            self._store: ox.Store | None = ox.Store()
            self.progress = Progress()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            self._store = ox.Store(str(folder / "store"))
            self.progress = kept.read(folder / "progress")

    @classmethod
    def open(cls, home: Path) -> Index:
        """The index of a home; where another process holds it, a copy of its last snapshot; else one in memory."""
        try:
            return cls(home, home / "index")
        except OSError:
            snapshot = home / "index" / "snapshot"
            for _ in range(3):
                try:
                    return cls._copy(home, snapshot)
                except OSError:  # the indexing process renews its snapshot just now
                    continue
            return cls(home, None)

    @classmethod
    def _copy(cls, home: Path, snapshot: Path) -> Index:
        """A private copy: the files of data, which never change, by hard link, the others for real."""
        if not snapshot.is_dir():
            raise FileNotFoundError(snapshot)
        temporary = tempfile.TemporaryDirectory(prefix="reader-", dir=home / "index", ignore_cleanup_errors=True)
        folder = Path(temporary.name)
        (folder / "store").mkdir()
        for path in (snapshot / "store").iterdir():
            if path.suffix == ".sst":
                os.link(path, folder / "store" / path.name)
            else:
                shutil.copy2(path, folder / "store" / path.name)
        shutil.copy2(snapshot / "progress", folder / "progress")
        index = cls(home, folder)
        index._temporary = temporary
        return index

    @property
    def is_private(self) -> bool:
        """Whether what it reads stays its own: in memory, or a copy."""
        return self.folder is None or self._temporary is not None

    @property
    def store(self) -> ox.Store:
        """The Oxigraph store, in the process that opened it."""
        if self._pid != os.getpid():
            raise ForkedStore()
        if self._store is None:
            raise ValueError("This store is closed. Open it again with provml.open(home).")
        return self._store

    def close(self) -> None:
        """Let go of the lock, and of a private copy."""
        if self._pid != os.getpid():
            return
        self._store = None
        gc.collect()
        if self._temporary is not None:
            self._temporary.cleanup()

    # ---- reading journals

    def journals(self) -> Iterator[tuple[str, Path]]:
        """Every journal of the home, by its path below it."""
        for path in sorted((self.home / "runs").glob("*/*.jsonl")):
            yield path.relative_to(self.home).as_posix(), path

    def sync(self, report: Callable[[int], None] | None = None) -> int:
        """Take in what is new in the journals; how many events that was."""
        if not self.progress.ontology and not self.is_private:
            self._load_ontology()
        events = 0
        chunk: list[bytes] = []
        size = 0
        for key, path in self.journals():
            journal = self.progress.journals.setdefault(key, Journal())
            if journal.refused or (journal.end is not None and path.stat().st_size <= journal.offset):
                continue
            for count, text in self._lift(key, path, journal):
                events += count
                size += len(text)
                chunk.append(text)
                if size > CHUNK:
                    self._load(b"".join(chunk))
                    chunk, size = [], 0
                    self._keep()
                if report is not None:
                    report(count)
        self._load(b"".join(chunk))
        changed = self._tell_status()
        if events or changed:
            self._keep()
        return events

    def _lift(self, key: str, path: Path, journal: Journal) -> Iterator[tuple[int, bytes]]:
        """The new events of one journal, as N-Triples, some thousands of events at a time."""
        lifter = Lifter(journal.state)
        count = 0
        for end, number, line in read_lines(path, journal.offset, journal.number):
            try:
                what = event.decode(line)
                if isinstance(what, event.Run) and what.v > event.VERSION:
                    journal.refused = True
                    reason = (
                        f"it is of version {what.v}, newer than this provml reads ({event.VERSION}); upgrade provml"
                    )
                    journal.problems.append(Problem(key, number, reason))
                    return
                lifter.feed(what)
                if isinstance(what, event.End):
                    journal.end = what
            except (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError) as error:
                journal.problems.append(Problem(key, number, f"{type(error).__name__}: {error}"[:300]))
            journal.offset, journal.number = end, number
            count += 1
            if count == 5000:
                yield count, rdf.ntriples(lifter.take())
                count = 0
        if count:
            yield count, rdf.ntriples(lifter.take())

    def _load(self, ntriples: bytes) -> None:
        """Into the store: in one transaction where it is little, by bulk where it is much."""
        if not ntriples:
            return
        if len(ntriples) < SMALL:
            self.store.load(ntriples, format=ox.RdfFormat.N_TRIPLES)
        else:
            self.store.bulk_load(ntriples, format=ox.RdfFormat.N_TRIPLES, lenient=True)

    def _load_ontology(self) -> None:
        """The ontologies, in a graph of their own, for queries that walk the hierarchy."""
        for path in sorted(resources.ontologies().glob("*.ttl")):
            self.store.load(path=str(path), format=ox.RdfFormat.TURTLE, to_graph=ONTOLOGY)
        self.progress.ontology = ONTOLOGY.value

    def statuses(self) -> dict[str, str]:
        """The true status of every run that has a main journal."""
        found = {}
        for key, journal in self.progress.journals.items():
            first = journal.state.first
            if first is not None and first.main:
                found[first.run] = status_of(self.home / key, journal)
        return found

    def _tell_status(self) -> bool:
        """Keep one status a run in the graph, the true one."""
        changed = False
        for run, status in self.statuses().items():
            old = self.progress.told.get(run)
            if old == status:
                continue
            node = ox.NamedNode(name.run(run))
            if old is not None:
                self.store.remove(ox.Quad(node, STATUS, ox.Literal(old)))
            self.store.add(ox.Quad(node, STATUS, ox.Literal(status)))
            self.progress.told[run] = status
            changed = True
        return changed

    def _keep(self) -> None:
        if self.folder is not None:
            self.store.flush()
            kept.write(self.folder / "progress", self.progress)

    def leave_snapshot(self) -> None:
        """Leave a snapshot for readers that come while this process holds the index."""
        if self.is_private or self.folder is None:
            return
        new, old = self.folder / "snapshot.new", self.folder / "snapshot"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        self.store.backup(str(new / "store"))
        kept.write(new / "progress", self.progress)
        aside = self.folder / "snapshot.old"
        shutil.rmtree(aside, ignore_errors=True)
        if old.exists():
            old.rename(aside)
        new.rename(old)
        shutil.rmtree(aside, ignore_errors=True)
