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

from provml import resources, run
from provml.errors import ForkedStore
from provml.store import fork, lock
from provml.store import progress as kept
from provml.store.adding import Added
from provml.store.kin import Eldest
from provml.store.pace import Pace
from provml.store.progress import Journal, Problem, Progress
from provml.store.reading import Chunk, news
from provml.store.standing import Standing, is_overtaken

CHUNK = 4 << 30
"""So many bytes of N-Triples go to the store at a time, as a stream; what is cut short has to be loaded again."""
UNPACED = 256 << 20
"""So many where the system does not tell how much memory is held: less is slower, more takes more memory."""
SMALL = 2 << 20
"""Less than this goes in as one transaction, without files of its own."""
LARGE = 16 << 20
"""Journals of more bytes than this (two million triples or so) are not lifted into memory, where they would take more
than a gigabyte, but into a folder, which takes no more than that however many they are."""
QUICK = 32 << 20
"""An index of fewer bytes on the disk is quick to ask however its files lie."""
MUCH = 5000
"""Fewer events are sooner taken in again than the disk is made to keep them, or a snapshot is made."""
ONTOLOGY = ox.NamedNode("https://w3id.org/provml")


class Index:
    """An Oxigraph store and how far it has read: on disk, in memory, or a private copy of another's snapshot."""

    def __init__(self, home: Path, folder: Path | None = None) -> None:
        self.home = home
        self.folder = folder
        self._pid = os.getpid()
        self._ends: list[weakref.finalize[[], Index]] = []
        self.is_private = folder is None
        self._standing = Standing(home)
        self._added = Added(home)
        self._since_snapshot = 0
        self._since_kept = 0
        self._store: ox.Store | None = ox.Store() if folder is None else ox.Store(str(folder / "store"))
        if folder is not None:
            drop_logs(folder / "store")
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
                if not is_broken(error):  # held by another, no room, too many files: it will do again
                    raise
                index = cls._wiped(home, folder)
            if index.progress.made != kept.making() or is_overtaken(home, index.progress):
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
        return index._begun()

    @classmethod
    def reading(cls, home: Path) -> Index:
        """An index of one's own: a copy of the last snapshot, or one made of the journals."""
        for within in (home / "index", None, home / "index"):
            try:
                index = cls._copy(home, within)
            except Exception:  # no snapshot, renewed just now, no room for a copy: the journals still tell all
                continue
            is_true = index.progress.made == kept.making() and not is_overtaken(home, index.progress)
            if is_true and not index.is_stale():
                return index
            index.close()
        return cls._private(home)

    @classmethod
    def _private(cls, home: Path, *, in_memory: bool = False) -> Index:
        """An empty index of one's own: in memory, or where the journals are large in a folder that goes with it."""
        if not in_memory and sum(_size(home / "runs" / key) for key in run.journals(home)) > LARGE:
            for within in (home / "index", None):
                with contextlib.suppress(OSError):  # read-only, or no room
                    return cls._in_folder(home, Path(tempfile.mkdtemp(prefix="reader-", dir=within)))._begun()
        return cls(home)._begun()

    @classmethod
    def _in_folder(cls, home: Path, folder: Path) -> Index:
        """A private index in a folder, which goes with it."""
        try:
            index = cls(home, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        index.is_private = True
        index._at_end(lambda: shutil.rmtree(folder, ignore_errors=True))
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
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls._in_folder(home, folder)

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

    def elsewhere(self) -> Index | None:
        """Another one in its place, where this one cannot be written to: a private one, at last one in memory."""
        if self.folder is None:
            return None
        self.close()
        return Index._private(self.home, in_memory=True) if self.is_private else Index.reading(self.home)

    # ---- reading journals

    def journals(self) -> list[tuple[str, Path]]:
        """Every journal of the home, by its path below it."""
        return [(f"runs/{key}", self.home / "runs" / key) for key in run.journals(self.home)]

    def is_stale(self) -> bool:
        """Whether it tells of journals or files that are not there any more: then it has to be made anew."""
        home = str(self.home)
        for key, journal in self.progress.journals.items():
            try:
                if os.stat(f"{home}/{key}").st_size < journal.offset:  # noqa: PTH116  # asked often, of many
                    return True
            except (FileNotFoundError, NotADirectoryError):
                return True
            except OSError:  # it may not be looked at just now
                continue
        return any(not resources.mode(self.home / "added" / name) for name in self.progress.added)

    def sync(self, report: Callable[[int], None] | None = None) -> int:
        """Take in what is new in the journals; how many events that was."""
        try:
            events = self._sync(report)
        except BaseException:
            self.progress = kept.decode(self._reached)  # what was read and is not in the store has to be read again
            raise
        self._since_snapshot += events
        if self._since_snapshot >= MUCH and not is_overtaken(self.home, self.progress):
            with contextlib.suppress(OSError):  # no room for it: readers take in more themselves
                self.leave_snapshot()
        return events

    def _sync(self, report: Callable[[int], None] | None) -> int:
        journals = self.journals()
        self._note(key for key, _ in journals)
        is_much = self._added.take(self.store, self.progress.added)
        events = 0
        new = self._news(journals)
        pace = Pace() if self.folder is not None else Pace(None)  # what goes to memory stays there
        for count, text in new:
            chunk = Chunk(count, text, new, CHUNK if pace.is_kept else UNPACED, pace, report)
            if not chunk.is_small(SMALL):
                size = self._size()
                self.store.bulk_load(chunk, format=ox.RdfFormat.N_TRIPLES, lenient=True)  # type: ignore[arg-type]
                self.progress.is_rough |= self._size() > max(2 * size, QUICK)
                self._keep()
            elif chunk.held:
                self.store.load(chunk.held, format=ox.RdfFormat.N_TRIPLES, lenient=True)
            events += chunk.events
        self._since_kept += events
        has_news = self._standing.tell(self.store, self.progress) or events or is_much
        if self.progress.is_rough:
            self.store.optimize()  # from two to five times quicker to ask; done last, each time that it has doubled
            self.progress.is_rough, is_much = False, True
        if has_news or is_much:
            self._reached = kept.encode(self.progress)
            if is_much or self._since_kept >= MUCH:
                self._keep()
        return events

    def _size(self) -> int:
        """The bytes of data that it has on the disk; files may be merged into others meanwhile."""
        size = 0
        for path in (self.folder / "store").glob("*.sst") if self.folder else ():
            with contextlib.suppress(OSError):
                size += path.stat().st_size
        return size

    def _news(self, journals: Iterable[tuple[str, Path]]) -> Iterator[tuple[int, bytes]]:
        """What is new in the journals, lifted; at each yield the progress stands at the end of what was given."""
        eldest = Eldest()
        for key, path in journals:
            yield from news(key, path, self.progress.journals.setdefault(key, Journal()), eldest)

    def problems(self) -> list[Problem]:
        """What could not be taken in, of the journals and of the files that were added."""
        told = [problem for journal in self.progress.journals.values() for problem in journal.problems]
        return told + self._added.problems

    def _begun(self) -> Index:
        """Itself, with the ontologies in a graph of their own, for queries that walk the hierarchy."""
        self.progress.made = kept.making()
        for path in sorted(resources.ontologies().glob("*.ttl")):
            self.store.load(path=str(path), format=ox.RdfFormat.TURTLE, to_graph=ONTOLOGY)
        self._keep()
        return self

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


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def old_logs(store: Path) -> Iterator[Path]:
    """The logs that earlier openings left: RocksDB begins one each time, and nobody reads them."""
    return store.glob("LOG.old.*")


def drop_logs(store: Path) -> None:
    """Remove them, where that can be."""
    for path in old_logs(store):
        with contextlib.suppress(OSError):
            path.unlink()


def is_broken(error: BaseException) -> bool:
    """Whether an error of Oxigraph tells that the files are no store, or not all of one."""
    said = str(error).lower()
    return not isinstance(error, OSError) or "no such file" in said or "not a directory" in said


def is_lock(error: BaseException) -> bool:
    """Whether an error of Oxigraph tells that somebody else has the store open."""
    said = str(error).lower()
    return "lock file" in said or "lock hold by" in said
