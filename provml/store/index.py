"""The index: an embedded Oxigraph over the journals. It can be made again from them at any time."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyoxigraph as ox

from provml import event, rdf, resources
from provml.errors import ForkedStore
from provml.lift import name, outcome
from provml.store import fork, lock
from provml.store import progress as kept
from provml.store.kin import Eldest
from provml.store.progress import Journal, Progress, status_of
from provml.store.reading import Chunk, lifted

CHUNK = 256 << 20
"""So many bytes of N-Triples go to the store at a time, as a stream; more is a little faster and takes more memory."""
SMALL = 2 << 20
"""Less than this goes in as one transaction, without files of its own."""
MUCH = 5000
"""Fewer events are sooner taken in again than the disk is made to keep them, or a snapshot is made."""
ONTOLOGY = ox.NamedNode("https://w3id.org/provml")
STANDING = tuple(
    map(
        ox.NamedNode,
        (
            "https://w3id.org/provlake#status",
            "http://www.w3.org/ns/prov#endedAtTime",
            "https://w3id.org/provml#elapsedSeconds",
            "https://w3id.org/provlake#exceptionType",
            "https://w3id.org/provlake#exceptionMessage",
        ),
    )
)


class Index:
    """An Oxigraph store and how far it has read: on disk, in memory, or a private copy of another's snapshot."""

    def __init__(self, home: Path, folder: Path | None = None) -> None:
        self.home = home
        self.folder = folder
        self._pid = os.getpid()
        self._ends: list[weakref.finalize[[], Index]] = []
        self.is_private = folder is None
        self._eldest = Eldest()
        self._sure: set[str] = set()
        self._since_snapshot = 0
        self._since_kept = 0
        self._store: ox.Store | None = ox.Store() if folder is None else ox.Store(str(folder / "store"))
        self.progress = Progress() if folder is None else kept.read(folder / "progress")
        self._reached = self._kept = kept.encode(self.progress)
        self._noted = set(self.progress.journals)
        fork.watch(self)

    # ---- opening

    @classmethod
    def open(cls, home: Path) -> Index:
        """The index of a home; where another process holds it, a copy of its last snapshot; else one in memory."""
        try:
            return cls._own(home)
        except OSError:
            return cls.reading(home)

    @classmethod
    def _own(cls, home: Path) -> Index:
        folder = home / "index"
        let_go = lock.hold(folder / "lock")
        try:
            try:
                index = cls(home, folder)
            except Exception as error:
                if is_lock(error):
                    raise
                index = cls._wiped(home, folder)
            if index.progress.made != kept.making():
                index._store = None
                index = cls._wiped(home, folder)
        except BaseException:
            let_go()
            raise
        index._at_end(let_go)
        return index

    @classmethod
    def _wiped(cls, home: Path, folder: Path) -> Index:
        """An empty index in place of one that is broken, stale, or of another making; the lock is held."""
        for tries in range(100):
            gc.collect()
            (folder / "progress").unlink(missing_ok=True)
            for part in ("snapshot", "store"):
                shutil.rmtree(folder / part, ignore_errors=True)
            try:
                index = cls(home, folder)
            except OSError as error:  # a query of another thread has not let the old one go yet
                if not is_lock(error) or tries == 99:
                    raise
                time.sleep(0.1)
                continue
            break
        index.progress.made = kept.making()
        index._load_ontology()
        index._keep()
        return index

    @classmethod
    def reading(cls, home: Path) -> Index:
        """An index of one's own: a copy of the last snapshot, or one in memory."""
        for within in (home / "index", None, home / "index"):
            try:
                index = cls._copy(home, within)
            except Exception:  # no snapshot, renewed just now, no room for a copy: the journals still tell all
                continue
            if index.progress.made == kept.making() and not index.is_stale():
                return index
            index.close()
        index = cls(home)
        index.progress.made = kept.making()
        index._load_ontology()
        index._keep()
        return index

    @classmethod
    def _copy(cls, home: Path, within: Path | None) -> Index:
        """A private copy: the files of data, which never change, by hard link where that can be."""
        made = (path for path in (home / "index" / "snapshot").iterdir() if path.name.isdecimal())
        snapshot = max(made, key=lambda path: int(path.name))
        folder = Path(tempfile.mkdtemp(prefix="reader-", dir=within))
        try:
            (folder / "store").mkdir()
            for path in (snapshot / "store").iterdir():
                if path.suffix == ".sst" and within is not None:
                    os.link(path, folder / "store" / path.name)
                else:
                    shutil.copy2(path, folder / "store" / path.name)
            shutil.copy2(snapshot / "progress", folder / "progress")
            index = cls(home, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        index.is_private = True
        index._at_end(lambda: shutil.rmtree(folder, ignore_errors=True))
        return index

    def _at_end(self, last: Callable[[], None]) -> None:
        """What to do when it is closed or forgotten, or when this process, not a forked child of it, ends."""
        pid = os.getpid()
        self._ends.append(weakref.finalize(self, lambda: last() if pid == os.getpid() else None))

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
        if self._pid != os.getpid() or self._store is None:
            return
        if self._kept != self._reached:
            with contextlib.suppress(OSError):  # a full disk: the next one reads it again
                self._keep()
        self._store = None
        gc.collect()
        for end in self._ends:
            end()

    def anew(self) -> Index:
        """An empty one in its place."""
        if self.is_private or self.folder is None:
            self.close()
            return Index.reading(self.home)
        self._store = None
        index = Index._wiped(self.home, self.folder)
        for end in self._ends:
            held = end.detach()
            if held is not None:
                index._ends.append(weakref.finalize(index, held[1]))
        return index

    # ---- reading journals

    def journals(self) -> list[tuple[str, Path]]:
        """Every journal of the home, by its path below it."""
        runs = self.home / "runs"
        found = []
        with contextlib.suppress(OSError), os.scandir(runs) as folders:
            for folder in folders:
                with contextlib.suppress(OSError), os.scandir(folder.path) as files:  # a file, or removed just now
                    found += [f"{folder.name}/{file.name}" for file in files if file.name.endswith(".jsonl")]
        return [(f"runs/{key}", runs / key) for key in sorted(found)]

    def is_stale(self) -> bool:
        """Whether it tells of journals or files that are not there any more: then it has to be made anew."""
        home = str(self.home)
        for key, journal in self.progress.journals.items():
            try:
                if os.stat(f"{home}/{key}").st_size < journal.offset:  # noqa: PTH116  # asked often, of many
                    return True
            except OSError:
                return True
        return any(not (self.home / "added" / name).exists() for name in self.progress.added)

    def sync(self, report: Callable[[int], None] | None = None) -> int:
        """Take in what is new in the journals; how many events that was."""
        try:
            events = self._sync(report)
        except BaseException:
            self.progress = kept.decode(self._reached)  # what was read and is not in the store has to be read again
            raise
        self._since_snapshot += events
        if self._since_snapshot >= MUCH:
            with contextlib.suppress(OSError):  # no room for it: readers take in more themselves
                self.leave_snapshot()
        return events

    def _sync(self, report: Callable[[int], None] | None) -> int:
        journals = self.journals()
        self._note(key for key, _ in journals)
        is_much = self._take_added()
        events = 0
        news = self._news(journals)
        for count, text in news:
            chunk = Chunk(count, text, news, CHUNK, report)
            if not chunk.is_small(SMALL):
                self.store.bulk_load(chunk, format=ox.RdfFormat.N_TRIPLES, lenient=True)  # type: ignore[arg-type]
                self._keep()
            elif chunk.held:
                self.store.load(chunk.held, format=ox.RdfFormat.N_TRIPLES, lenient=True)
            events += chunk.events
        self._since_kept += events
        if self._tell_standing() or events or is_much:
            self._reached = kept.encode(self.progress)
            if is_much or self._since_kept >= MUCH:
                self._keep()
        return events

    def _news(self, journals: Iterable[tuple[str, Path]]) -> Iterator[tuple[int, bytes]]:
        """What is new in the journals, lifted; at each yield the progress stands at the end of what was given."""
        for key, path in journals:
            journal = self.progress.journals.setdefault(key, Journal())
            with contextlib.suppress(FileNotFoundError):  # removed just now: the next sync makes the index anew
                looks = path.stat()
                now = (looks.st_size, looks.st_mtime_ns)
                if (journal.end is not None and looks.st_size <= journal.offset) or journal.left == now:
                    continue
                is_left = journal.offset > 0 and status_of(path, journal) == "KILLED"
                yield from lifted(key, path, journal, self._eldest)
                journal.left = now if is_left else None
                if journal.end is not None:
                    journal.rest()

    def _take_added(self) -> bool:
        """Take in the files that were added by hand; blank nodes keep their names, so that twice is once."""
        known = set(self.progress.added)
        new = [path for path in sorted((self.home / "added").glob("*.nq")) if path.name not in known]
        for path in new:
            quads = ox.parse(path=str(path), format=ox.RdfFormat.N_QUADS, lenient=True)
            if path.stat().st_size < SMALL:
                self.store.extend(quads)
            else:
                self.store.bulk_extend(quads)
            self.progress.added.append(path.name)
        return bool(new)

    def _load_ontology(self) -> None:
        """The ontologies, in a graph of their own, for queries that walk the hierarchy."""
        for path in sorted(resources.ontologies().glob("*.ttl")):
            self.store.load(path=str(path), format=ox.RdfFormat.TURTLE, to_graph=ONTOLOGY)

    def _note(self, journals: Iterable[str]) -> None:
        """Note that a journal will be read before it is, so that its removal is noticed whatever happens between."""
        new = [key for key in journals if key not in self._noted]
        if new and self.folder is not None and not self.is_private:
            noted = kept.decode(self._kept)
            noted.journals.update((key, Journal()) for key in new)
            self._kept = kept.encode(noted)
            kept.write(self.folder / "progress", self._kept)
        self._noted.update(new)

    def _keep(self) -> None:
        """Keep the progress, once what it tells is on the disk. That takes long: not for every few events."""
        self._reached = kept.encode(self.progress)
        self._since_kept = 0
        if self.folder is not None and not self.is_private:
            self.store.flush()
            kept.write(self.folder / "progress", self._reached)
        self._kept = self._reached

    # ---- how runs stand

    def runs(self) -> dict[str, list[tuple[str, Journal]]]:
        """The journals of each run that have a first line, the main ones first, each by the time they began."""
        found: dict[str, list[tuple[bool, float, str, Journal]]] = {}
        for key, journal in self.progress.journals.items():
            first = journal.state.first
            if first is not None:
                found.setdefault(key.split("/")[1], []).append((not first.main, first.t, key, journal))
        return {
            run: [(key, journal) for _, _, key, journal in sorted(held, key=lambda one: one[:3])]
            for run, held in found.items()
        }

    def leader(self, journals: list[tuple[str, Journal]]) -> tuple[str, Journal]:
        """The journal by which a run stands: the main one that began last, for a run can be taken up again."""
        mains = [one for one in journals if one[1].state.first is not None and one[1].state.first.main]
        return (mains or journals[:1])[-1]

    def standing(self, journals: list[tuple[str, Journal]]) -> tuple[str, event.End | None]:
        """The true status of a run, and its end."""
        key, journal = self.leader(journals)
        return status_of(self.home / key, journal), journal.end

    def _tell_standing(self) -> bool:
        """Keep in the graph how each run stands: one status, the true one, and its end where it has one."""
        changed = False
        for run, journals in self.runs().items():
            status, end = self.standing(journals)
            mark = f"{status} {end.t if end is not None else ''}"
            if self.progress.told.get(run) == mark and (end is not None or run in self._sure):
                continue
            changed = self._replace_standing(journals, status, end) or changed
            self._sure.add(run)
            self.progress.told[run] = mark
        return changed

    def _replace_standing(self, journals: list[tuple[str, Journal]], status: str, end: event.End | None) -> bool:
        state = journals[0][1].state
        if state.first is None:
            return False
        iri = name.run(state.first.run)
        thing = outcome(iri, state.experiment, state.first.t, status, end)
        wanted = ox.Store()  # it writes literals as the index does
        wanted.load(rdf.ntriples(thing), format=ox.RdfFormat.N_TRIPLES)
        node, graph = ox.NamedNode(iri), ox.DefaultGraph()
        old = [q for p in STANDING for q in self.store.quads_for_pattern(node, p, None, graph) if q not in wanted]
        new = [quad for quad in wanted if quad not in self.store]
        if not old and not new:
            return False
        said = [" ".join(f"{q.triple} ." for q in quads) for quads in (old, new)]
        self.store.update(f"DELETE DATA {{ {said[0]} }} ; INSERT DATA {{ {said[1]} }}")
        return True

    # ---- for readers in other processes

    def leave_snapshot(self) -> None:
        """Leave a snapshot for readers that come while this process holds the index."""
        if self.is_private or self.folder is None:
            return
        folder = self.folder / "snapshot"
        folder.mkdir(exist_ok=True)
        old = [path for path in folder.iterdir() if path.is_dir()]
        number = max((int(path.name) for path in old if path.name.isdecimal()), default=0) + 1
        new = folder / f"{number}.part"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        self.store.backup(str(new / "store"))
        (new / "progress").write_bytes(self._reached)
        new.rename(folder / str(number))
        for path in old:
            shutil.rmtree(path, ignore_errors=True)
        self._since_snapshot = 0


def is_lock(error: BaseException) -> bool:
    """Whether an error of Oxigraph tells that somebody else has the store open."""
    said = str(error).lower()
    return "lock file" in said or "lock hold by" in said
