"""The index of a home: an Oxigraph store and its checkpoint. It can be rebuilt from the journals at any time.

One process at a time holds the index of a home. Others read a private copy of its last snapshot, or build an index of
their own in memory or in a temporary folder. `sync` brings an index up to date with the journals.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import logging
import math
import os
import shutil
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pyoxigraph as ox
from msgspec import structs

from provml import paths
from provml.journal import run_files, segments
from provml.journal.annotations import Annotation
from provml.journal.batch_buffer import SUFFIX as BUFFER_SUFFIX
from provml.journal.shipping import STATE_FILE
from provml.store import checkpoint as checkpoints
from provml.store import file_checksums, fork, lock, sealed_runs, statements
from provml.store.annotations import AnnotationWriter, own_name
from provml.store.backend import OxigraphBackend, damage_reason, is_corrupt, is_damaged, is_lock_error
from provml.store.checkpoint import IndexCheckpoint, JournalCheckpoint, Problem, is_lengthened
from provml.store.compaction import MARKER as UNCOMPACTED
from provml.store.graph_names import INFERRED_GRAPH, ONTOLOGY_GRAPH
from provml.store.imports import ImportedFiles
from provml.store.journal_mapping import EVENTS_PER_CHUNK
from provml.store.run_status import RunJournals, RunStatusWriter, journals_by_run, was_indexed_out_of_order
from provml.store.sealed_runs import SealedEntry, SealedRun, SealedRuns, folder_state, make_entry, replace_folder
from provml.store.statements import StatementFile


@dataclass(frozen=True)
class IndexLimits:
    """Sizes that decide how an index is written."""

    chunk_bytes: int = 4 << 30
    """N-Triples per bulk load, streamed. After an interruption a chunk is loaded again as a whole."""
    unthrottled_chunk_bytes: int = 256 << 20
    """The same on systems that do not report memory use: smaller is slower, larger takes more memory."""
    journals_per_load: int = 10_000
    """Journals that are indexed before runs that have ended are moved to the table of sealed runs: what is known of a
    journal until then takes about ten kilobytes of memory."""
    transaction_bytes: int = 2 << 20
    """Fewer N-Triples are loaded in one transaction, without files of their own."""
    memory_max_bytes: int = 16 << 20
    """Larger journals (about two million triples) are not indexed in memory, where they would take more than a
    gigabyte, but in a temporary folder."""
    compact_min_bytes: int = 32 << 20
    """A smaller index is fast without compaction."""
    events_per_chunk: int = EVENTS_PER_CHUNK
    worker_min_bytes: int = 2 << 20
    """Unread bytes of journals from which they are mapped in a process of their own: a second of work or more."""
    snapshot_events: int = 5000
    """New events after which the checkpoint and a snapshot are written; indexing fewer again is faster than writing."""
    seal_runs: int = 256
    """Runs that have ended after which they are moved to the table of sealed runs."""
    pack_runs: int = 1000
    """Runs that have ended long ago after which their journals are moved into segments; 0: never."""
    pack_age_seconds: float = 3600.0
    """Time since the last change of a run after which its journals are moved into segments."""
    sealed_check_seconds: float = 1.0
    """Time between two looks at the folders of sealed runs; ten times that of a look, where that is longer.
    0: look at each sync."""
    background_runs: int = 1000
    """Runs from which an index of another version of provml is rebuilt in the background, and answers until then."""


LOOK_SHARE = 10
"""Looks at the folders of sealed runs take at most about a tenth of the time."""
NEXT, COMPLETE = "next", "complete"
"""The folder of an index that is being rebuilt in the background, and the file in it that says that it is complete."""
COMPACTION_RETRY_SECONDS = 600.0
"""Time after which a process tries to compact an index again, after a disk was full."""
COMPACTION_ADVICE = "Free some disk space: a later command tries again."
REBUILDING = "it is rebuilt from the journals"
INDEXING_AGAIN = "this process indexes the journals itself"

DEFAULT_LIMITS = IndexLimits()


class Index:
    """An Oxigraph store and its checkpoint: on the disk, in memory, or a private copy of a snapshot."""

    def __init__(self, home: Path, folder: Path | None = None, limits: IndexLimits = DEFAULT_LIMITS) -> None:
        self.home = home
        self.folder = folder
        self.limits = limits
        self.is_private = folder is None
        self.is_outdated = False
        self.damage = ""
        """What was wrong with the index, or the snapshot, that this one replaces."""
        self.status_writer = RunStatusWriter(home)
        self.annotation_writer = AnnotationWriter(home)
        self.imported = ImportedFiles(home)
        self.checkpoint = IndexCheckpoint() if folder is None else checkpoints.read(folder / "progress")
        self.sealed = SealedRuns() if folder is None else sealed_runs.read(folder, self.checkpoint.sealed)
        self._is_uncompacted = folder is not None and (folder / UNCOMPACTED).exists()
        self._next_look = self._next_compaction = -math.inf
        self._unsealable = 0
        self._checksums = {} if folder is None else file_checksums.check(folder)
        self.backend = OxigraphBackend(folder)
        self._committed = self._saved = checkpoints.encode(self.checkpoint)
        self._position_of, self._position = b"", ("", 0.0)
        self._events_since_snapshot = 0
        self._events_since_save = 0
        self._reserved = set(self.checkpoint.journals)
        self._finalizers: list[weakref.finalize[[], Index]] = []

    # ---- opening

    @classmethod
    def open(cls, home: Path, limits: IndexLimits = DEFAULT_LIMITS) -> Index:
        """Open the index of a home for writing; if another process holds it, open a copy."""
        if _is_in_memory(home):
            return cls.open_copy(home, limits)
        try:
            return cls._open_exclusive(home, limits)
        except OSError:
            return cls.open_copy(home, limits)

    @classmethod
    def _open_exclusive(cls, home: Path, limits: IndexLimits) -> Index:
        folder = home / "index"
        release = lock.acquire(folder / "lock")
        try:
            is_new = all(path.name == "lock" for path in folder.iterdir())
            try:
                index = cls(home, folder, limits)
            except Exception as error:
                if not is_corrupt(error):  # locked, disk full, too many open files: the index itself is intact
                    raise
                is_complete = (folder / "progress").exists()  # else the process that made the index was killed
                if is_complete:
                    report_damage(home, error, REBUILDING)
                index = cls._reset(home, folder, limits)
                index.damage = damage_reason(error) if is_complete else ""
            if not index._is_current() and (folder / NEXT / COMPLETE).exists():
                index.backend.close()
                adopt_rebuilt(folder)
                index = cls(home, folder, limits)
            if is_new:
                index._initialize()
            elif not index._is_current() and not index._serves_outdated():
                index.backend.close()
                index = cls._reset(home, folder, limits)
        except BaseException:
            release()
            raise
        index._at_close(release)
        return index

    @classmethod
    def _reset(cls, home: Path, folder: Path, limits: IndexLimits) -> Index:
        """Replace an index by an empty one; the caller holds the lock."""
        for attempt in range(100):
            gc.collect()
            for name in ("progress", file_checksums.NAME, statements.NAME, UNCOMPACTED):
                (folder / name).unlink(missing_ok=True)
            sealed_runs.remove_others(folder, "")
            for part in ("snapshot", "store"):
                shutil.rmtree(folder / part, ignore_errors=True)
            try:
                index = cls(home, folder, limits)
            except OSError as error:  # a query in another thread still has the old store open
                if not is_lock_error(error) or attempt == 99:
                    raise
                time.sleep(0.1)
                continue
            break
        return index._initialize()

    @classmethod
    def open_copy(cls, home: Path, limits: IndexLimits = DEFAULT_LIMITS) -> Index:
        """Open a private copy of the last snapshot; if there is none, an empty private index."""
        damage = ""
        for parent in (home / "index", None, home / "index") if not _is_in_memory(home) else ():
            try:
                index = cls._copy_snapshot(home, parent, limits)
            except Exception as error:  # no snapshot, replaced meanwhile, no space for a copy
                if is_damaged(error):
                    report_damage(home, error, INDEXING_AGAIN)
                    damage = damage_reason(error)
                    break
                continue
            if index._is_current() and not index.is_stale():
                return index
            if index._serves_outdated():
                return index
            index.close()
        index = cls._open_private(home, limits)
        index.damage = damage
        return index

    @classmethod
    def _open_private(cls, home: Path, limits: IndexLimits, *, in_memory: bool = False) -> Index:
        """Open an empty private index: in memory, or in a temporary folder if the journals are large."""
        size = (
            0
            if in_memory or fork.has_no_threads()
            else sum(_size(home / "runs" / key) for key in run_files.list_journals(home))
        )
        if size > limits.memory_max_bytes:
            for parent in (home / "index", None):
                with contextlib.suppress(OSError):  # read-only, or no space
                    folder = _temporary_folder(parent)
                    return cls._open_temporary(home, folder, limits)._initialize()
        return cls(home, limits=limits)._initialize()

    @classmethod
    def _open_temporary(cls, home: Path, folder: Path, limits: IndexLimits) -> Index:
        """Open a private index in a folder that is removed when the index is closed."""
        try:
            index = cls(home, folder, limits)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        index.is_private = True
        index._at_close(lambda: shutil.rmtree(folder, ignore_errors=True))
        return index

    @classmethod
    def _copy_snapshot(cls, home: Path, parent: Path | None, limits: IndexLimits) -> Index:
        """Open a copy of the last snapshot below `parent`. Data files never change, so they are hard-linked."""
        numbered = (path for path in (home / "index" / "snapshot").iterdir() if path.name.isdecimal())
        snapshot = max(numbered, key=lambda path: int(path.name))
        folder = _temporary_folder(parent)
        try:
            (folder / "store").mkdir()
            for path in (snapshot / "store").iterdir():
                if path.suffix == ".sst" and parent is not None:
                    os.link(path, folder / "store" / path.name)
                else:
                    shutil.copy2(path, folder / "store" / path.name)
            sealed_runs.copy(snapshot, folder)
            for name in ("progress", file_checksums.NAME):
                shutil.copy2(snapshot / name, folder / name)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls._open_temporary(home, folder, limits)

    def _initialize(self) -> Index:
        """Load the ontologies into a named graph, for queries that use the class hierarchy."""
        self.checkpoint.fingerprint = checkpoints.format_fingerprint()
        for path in sorted(paths.ontologies().glob("*.ttl")):
            self.backend.load(path.read_bytes(), ox.RdfFormat.TURTLE, graph=ONTOLOGY_GRAPH)
        self.save_checkpoint()
        return self

    # ---- closing and replacing

    def _at_close(self, callback: Callable[[], None]) -> None:
        """Call back when the index is closed or garbage-collected, or when this process (not a child) ends."""
        pid = os.getpid()
        self._finalizers.append(weakref.finalize(self, lambda: callback() if pid == os.getpid() else None))

    def close(self) -> None:
        """Save the checkpoint, and release the lock or remove the private copy."""
        if not self.backend.is_open:
            return
        for end in (self._end_compaction, self._save_if_changed):
            try:
                end()
            except Exception as error:  # a full disk: the next process compacts, or reads those events again
                if is_damaged(error):
                    self._discard(error)
                    break
        self.backend.close()
        self._write_checksums()
        for finalizer in self._finalizers:
            finalizer()

    def _save_if_changed(self) -> None:
        if self._saved != self._committed:
            self._save_committed()

    def _discard(self, damage: BaseException) -> None:
        """Let the next process rebuild an index whose damage was found when it was too late to do so here."""
        if self.folder is not None and not self.is_private:
            report_damage(self.home, damage, REBUILDING)
            with contextlib.suppress(OSError):  # read-only: the next process finds the damage too
                (self.folder / "progress").unlink(missing_ok=True)

    def recreate(self, damage: BaseException | None = None) -> Index:
        """Return an empty index that replaces this one. If it is damaged, say so, and do not use its snapshot."""
        is_private = self.is_private or self.folder is None
        if damage is not None:
            report_damage(self.home, damage, INDEXING_AGAIN if is_private else REBUILDING)
        if is_private and damage is None:
            self.close()
            return Index.open_copy(self.home, self.limits)
        if is_private or self.folder is None:
            self.close()
            index = Index._open_private(self.home, self.limits)
            index.damage = damage_reason(damage) if damage is not None else ""
            return index
        self.backend.close()
        index = Index._reset(self.home, self.folder, self.limits)
        index.damage = damage_reason(damage) if damage is not None else ""
        return self._take_over(index)

    def fallback(self) -> Index | None:
        """Return another index if this one cannot be written to: a private one, finally one in memory."""
        if self.folder is None:
            return None
        self.close()
        if self.is_private:
            return Index._open_private(self.home, self.limits, in_memory=True)
        return Index.open_copy(self.home, self.limits)

    # ---- an index of another version

    def _serves_outdated(self) -> bool:
        """True if this index was made by another version of provml and answers while a new one is built.

        A small index, and one whose checkpoint cannot be read, is rebuilt at once.
        """
        is_large = len(self.sealed) >= self.limits.background_runs
        self.is_outdated = is_large and self.checkpoint.fingerprint != checkpoints.format_fingerprint()
        return self.is_outdated

    def adopt(self) -> Index | None:
        """Return the index that was rebuilt in the background in place of this one; None if it is not complete."""
        folder = self.folder
        if folder is None or self.is_private or not (folder / NEXT / COMPLETE).exists():
            return None
        self.backend.close()
        adopt_rebuilt(folder)
        return self._take_over(Index(self.home, folder, self.limits))

    def _take_over(self, index: Index) -> Index:
        """Give the lock of this index to another one of the same folder."""
        for finalizer in self._finalizers:
            detached = finalizer.detach()
            if detached is not None:
                index._finalizers.append(weakref.finalize(index, detached[1]))
        return index

    # ---- state

    def _is_current(self) -> bool:
        """True if this version of provml would write the same index."""
        is_same = self.checkpoint.fingerprint == checkpoints.format_fingerprint()
        return is_same and not was_indexed_out_of_order(self.home, self.checkpoint)

    def is_stale(self) -> bool:
        """True if indexed journals or files were removed, cut or edited: the index has to be rebuilt without them."""
        self._reopen_changed()
        self._look_at_segments()
        home = str(self.home)
        for key, journal in self.checkpoint.journals.items():
            try:
                size = _journal_size(home, key)
                if size < journal.offset or is_lengthened(journal, size):
                    return True
            except (FileNotFoundError, NotADirectoryError):
                return True
            except OSError:  # not accessible at present
                continue
        return any(not paths.path_mode(self.home / "added" / name) for name in self.checkpoint.imported_files)

    # ---- sealed runs

    def is_sealed(self, run: str) -> bool:
        """True if a run has ended and is in the table of sealed runs."""
        return run in self.sealed and run not in self.checkpoint.unsealed

    def sealed_ids(self) -> list[str]:
        """Return the runs in the table of sealed runs that have not changed since."""
        return [run for run in self.sealed if run not in self.checkpoint.unsealed]

    def names(self) -> dict[str, str]:
        """Return the names of all runs by their ids, the latest first."""
        runs = [item for item in self.sealed.named() if item[1] not in self.checkpoint.unsealed]
        for run, journals in journals_by_run(self.checkpoint).items():
            name = own_name(journals, self.annotations_of(run)) or journals[0][1].state.experiment
            runs.append((_start(journals), run, name))
        return {run: name for _, run, name in sorted(runs, reverse=True)}

    def latest(self, limit: int) -> list[str]:
        """Return the ids of the runs that started last, the latest first."""
        unsealed = self.checkpoint.unsealed
        runs = [item for item in self.sealed.latest(limit + len(unsealed)) if item[1] not in unsealed]
        runs += [(_start(journals), run) for run, journals in journals_by_run(self.checkpoint).items()]
        return [run for _, run in sorted(runs, reverse=True)[:limit]]

    def run_journals(self, run: str) -> RunJournals:
        """Return the checkpoints of the journals of a run."""
        if self.is_sealed(run):
            return self.sealed[run].journals
        prefix = f"runs/{run}/"
        journals = {key: journal for key, journal in self.checkpoint.journals.items() if key.startswith(prefix)}
        return journals_by_run(IndexCheckpoint(journals=journals))[run]

    def journals_by_run(self) -> dict[str, RunJournals]:
        """Return the checkpoints of the journals of all runs."""
        sealed = {run: self.sealed[run].journals for run in self.sealed_ids()}
        return sealed | journals_by_run(self.checkpoint)

    def annotations_of(self, run: str) -> list[Annotation]:
        """Return the annotations of a run that are in the index."""
        entry = self.sealed[run].annotations if self.is_sealed(run) else self.checkpoint.annotations.get(run)
        return entry.annotations if entry is not None else []

    def expect_changes(self) -> None:
        """Look at the folders of sealed runs at the next sync: this process has changed one."""
        self._next_look = self._next_compaction = -math.inf

    def _reopen_changed(self) -> None:
        """Take runs out of the table of sealed runs whose folders somebody changed, so that they are read again."""
        began = time.monotonic()
        if not self.sealed or began < self._next_look:
            return
        names = run_files.run_folders(self.home)
        changed = self.sealed.changed(self.home, names, self.checkpoint.unsealed)
        now, pause = time.monotonic(), self.limits.sealed_check_seconds
        self._next_look = max(began + pause, now + LOOK_SHARE * (now - began) if pause else 0.0)
        for run in changed:
            self.reopen(run)

    def _look_at_segments(self) -> None:
        """If segments have changed, take runs out of the table that are gone, and note whether all others are in it."""
        signature = segments.signature(self.home)
        if signature is not None and signature == self.checkpoint.manifest:
            return
        packed, unsealed = segments.manifest(self.home), self.checkpoint.unsealed
        gone = [run for run in self.sealed.packed() if run not in packed and run not in unsealed]
        gone = [run for run in gone if not run_files.has_run(self.home, run)]
        for run in gone:
            self.reopen(run)
        if signature != self.checkpoint.manifest and not gone and all(map(self.is_sealed, packed)):
            self.checkpoint.manifest = signature
            self.save_checkpoint()

    def open_runs(self) -> set[str]:
        """Return the runs of the home that are not in the table of sealed runs, or changed since.

        Segments are read only if they have changed: a command in a large home would spend most of its time with that.
        """
        runs = run_files.run_folders(self.home)
        if self.checkpoint.manifest is None or self.checkpoint.manifest != segments.signature(self.home):
            runs = runs.union(segments.manifest(self.home))
        return {run for run in runs if not self.is_sealed(run)}

    def reopen(self, run: str) -> None:
        """Take a run out of the table of sealed runs."""
        entry = self.sealed[run]
        self.checkpoint.unsealed.add(run)
        self.checkpoint.journals.update(entry.journals)
        self.checkpoint.run_statuses[run] = entry.status
        if entry.annotations is not None:
            self.checkpoint.annotations[run] = entry.annotations
        self._reserved.update(key for key, _ in entry.journals)

    def seal_if_due(self) -> None:
        """Move runs that have ended and are indexed to their end to the table of sealed runs, if there are many."""
        if len(self.checkpoint.journals) - self._unsealable < self.limits.seal_runs:
            return
        runs = journals_by_run(self.checkpoint)
        ended = {run: journals for run, journals in runs.items() if self._is_over(run, journals)}
        if len(ended) >= self.limits.seal_runs:
            self.seal(ended)
        self._unsealable = len(self.checkpoint.journals)  # they are looked at again when as many have come

    def _is_over(self, run: str, journals: RunJournals) -> bool:
        status = self.checkpoint.run_statuses.get(run, "RUNNING")
        annotations = self.checkpoint.annotations.get(run)
        return (
            not status.startswith("RUNNING")
            and all(journal.signature is not None and not journal.problems for _, journal in journals)
            and not (annotations is not None and annotations.problems)
        )

    def seal(self, runs: dict[str, RunJournals]) -> None:
        """Move runs to the table of sealed runs, and write it."""
        entries = {run: self._seal_entry(run, journals) for run, journals in runs.items()}
        added = {run: entry for run, entry in entries.items() if entry is not None}
        if not added:
            return
        checkpoint = self.checkpoint
        digests = self._take_statements({run: runs[run] for run in added})
        sealed = self.sealed.replaced(checkpoint.unsealed, added)
        for run in added:
            for key, _ in runs[run]:
                del checkpoint.journals[key]
            checkpoint.run_statuses.pop(run, None)
            checkpoint.annotations.pop(run, None)
        if self.folder is not None and not self.is_private:
            checkpoint.statement_bytes = StatementFile(self.folder).append(checkpoint.statement_bytes, digests)
        self._write_sealed(sealed)

    def pack(self, limit: int | None = None) -> list[str]:
        """Move the journals of sealed runs into segments, and return the runs; the index must be in sync."""
        runs = journals_by_run(self.checkpoint)
        self.seal({run: journals for run, journals in runs.items() if self._is_over(run, journals)})
        return self._pack(self.sealed.folders, limit)

    def pack_if_due(self) -> None:
        """Move the journals of runs that have ended long ago into segments, if there are many.

        A command looks at the folder of each run that is not packed. PROVML_PACK=0 in the environment switches it off.
        """
        limits, checkpoint = self.limits, self.checkpoint
        if self.is_private or self.folder is None or not limits.pack_runs:
            return
        if len(self.sealed.folders) - checkpoint.unpackable < limits.pack_runs or os.environ.get("PROVML_PACK") == "0":
            return
        oldest = time.time_ns() - int(limits.pack_age_seconds * 1e9)
        old = [run for run, state in self.sealed.folders.items() if state.journals and state.last_change < oldest]
        if len(old) - checkpoint.unpackable < limits.pack_runs:
            return
        packed: list[str] = []
        with contextlib.suppress(OSError):  # a full disk, no permission: journals stay where they are
            packed = self._pack(old)
        checkpoint.unpackable = len(old) - len(packed)
        self.save_checkpoint()

    def _pack(self, runs: Iterable[str], limit: int | None = None) -> list[str]:
        ended = [run for run in runs if run not in self.checkpoint.unsealed and self._can_be_packed(run)]
        packed = segments.pack(self.home, ended if limit is None else ended[:limit])
        states = {run: folder_state(self.home / "runs" / run) for run in packed}
        entries = {run: replace_folder(self.sealed.entry(run), state) for run, state in states.items()}
        if entries:
            self._write_sealed(self.sealed.replaced(self.checkpoint.unsealed, entries))
        return packed

    def _can_be_packed(self, run: str) -> bool:
        """True if a run has ended, and nothing of it is still to be read or shipped."""
        folder, entry = self.home / "runs" / run, self.sealed[run]
        state = self.sealed.folders[run]
        if not state.journals or any(journal.end is None for _, journal in entry.journals):
            return False
        names = {path.name for path in folder.iterdir()}
        return not any(name.endswith((BUFFER_SUFFIX, ".part")) for name in names) and STATE_FILE not in names

    def _write_sealed(self, sealed: SealedRuns) -> None:
        """Replace the table of sealed runs, and save the checkpoint that names it."""
        folder = None if self.is_private else self.folder
        self.sealed = sealed if folder is None else sealed_runs.write(folder, sealed)
        self.checkpoint.sealed, self.checkpoint.unsealed = sealed.digest, set()
        self.save_checkpoint()
        if folder is not None:
            sealed_runs.remove_others(folder, self.checkpoint.sealed)

    def _take_statements(self, runs: dict[str, RunJournals]) -> dict[str, bytes]:
        """Return the digests of runs that are being sealed, with those of the time before they were reopened."""
        saved: dict[str, bytes] = {}
        if self.folder is not None and not self.is_private and self.checkpoint.unsealed & runs.keys():
            saved = StatementFile(self.folder).read(self.checkpoint.statement_bytes)
        return {
            run: b"".join([saved.get(run, b"") if run in self.sealed else b"", *(j.foreign for _, j in journals)])
            for run, journals in runs.items()
        }

    def forget(self, runs: Iterable[str]) -> None:
        """Remove runs from the checkpoint, whose statements are gone from the graph."""
        checkpoint = self.checkpoint
        for run in runs:
            if run in self.sealed:
                checkpoint.unsealed.add(run)
            for key in [key for key in checkpoint.journals if key.startswith(f"runs/{run}/")]:
                del checkpoint.journals[key]
            checkpoint.run_statuses.pop(run, None)
            checkpoint.annotations.pop(run, None)
        self._reserved = set(checkpoint.journals)
        self.save_checkpoint()

    def _seal_entry(self, run: str, journals: RunJournals) -> SealedEntry | None:
        """Return the entry of a run in the table; None if its folder is not as it was indexed."""
        state = folder_state(self.home / "runs" / run)
        annotations = self.checkpoint.annotations.get(run)
        packed = segments.manifest(self.home).run(run)
        files = {} if packed is None else {f"runs/{run}/{file.name}": (file.size, file.time) for file in packed.files}
        for name, size, time_ns in state.journals if state is not None else ():
            files[f"runs/{run}/{name}"] = size, time_ns
        sizes = {} if annotations is None else annotations.sizes
        if files != {key: journal.signature for key, journal in journals}:
            return None
        if state is not None and dict(state.annotations) != sizes:
            return None
        name = own_name(journals, annotations.annotations if annotations is not None else [])
        without = [(key, structs.replace(journal, foreign=b"")) for key, journal in journals]
        sealed = SealedRun(without, self.checkpoint.run_statuses[run], annotations)
        return make_entry(sealed, _start(journals), name or journals[0][1].state.experiment, state)

    def problems(self) -> list[Problem]:
        """Return what could not be indexed, of journals, annotations and imported files."""
        in_journals = [problem for journal in self.checkpoint.journals.values() for problem in journal.problems]
        in_annotations = [problem for run in self.checkpoint.annotations.values() for problem in run.problems]
        return in_journals + in_annotations + self.imported.problems

    @property
    def position(self) -> tuple[str, float]:
        """A digest of what was indexed, and the time at which it was first seen in this process."""
        if self._position_of is not self._committed:
            self._position_of = self._committed
            digest = hashlib.blake2b(self._committed, digest_size=12).hexdigest()
            if not self._position[0] and self.folder is not None and (self.folder / "progress").exists():
                self._position = digest, (self.folder / "progress").stat().st_mtime
            elif digest != self._position[0]:
                self._position = digest, time.time()
        return self._position

    def infer(self) -> None:
        """Bring the graph of inferred triples up to date, if it was made at another state."""
        state = checkpoints.encode(structs.replace(self.checkpoint, inferred=""))
        digest = hashlib.blake2b(state, digest_size=12).hexdigest()
        if digest == self.checkpoint.inferred:
            return
        from provml.store import inference  # not at the top: most commands do not need it

        self.checkpoint.inferred = ""
        inference.materialize(self.backend.graph(), INFERRED_GRAPH)
        self.checkpoint.inferred = digest
        self.save_checkpoint()

    # ---- checkpoint

    def reserve(self, journals: Iterable[str]) -> None:
        """Save the names of new journals before they are read, so that their removal is noticed after a crash."""
        new = [key for key in journals if key not in self._reserved]
        if new and self.folder is not None and not self.is_private:
            saved = checkpoints.decode(self._saved)
            saved.journals.update((key, JournalCheckpoint()) for key in new)
            self._saved = checkpoints.encode(saved)
            checkpoints.write(self.folder / "progress", self._saved)
        self._reserved.update(new)

    def commit(self, events: int, *, save: bool) -> None:
        """Keep the checkpoint of a successful sync; write it to the disk if asked to, or after many events."""
        self._events_since_save += events
        self._committed = checkpoints.encode(self.checkpoint)
        if save or self._events_since_save >= self.limits.snapshot_events:
            self.save_checkpoint()

    def roll_back(self) -> None:
        """Return to the last committed checkpoint: what was read and is not in the store has to be read again."""
        self.checkpoint = checkpoints.decode(self._committed)

    def save_checkpoint(self) -> None:
        """Write the checkpoint to the disk, after the data. This is slow: not for every few events."""
        self._committed = checkpoints.encode(self.checkpoint)
        self._save_committed()

    def _save_committed(self) -> None:
        self._events_since_save = 0
        if self.folder is not None and not self.is_private:
            self.backend.flush()
            checkpoints.write(self.folder / "progress", self._committed)
            self._write_checksums()
        self._saved = self._committed

    def _write_checksums(self) -> None:
        if self.folder is not None and not self.is_private:
            with contextlib.suppress(OSError):  # files without a checksum are checked by the engine alone
                self._checksums = file_checksums.write(self.folder, self._checksums)

    # ---- compaction

    def mark_uncompacted(self) -> None:
        """Note that the index has doubled, which is known to the next process as well.

        A private one is not compacted: closing it would wait for files that are removed then.
        """
        self._is_uncompacted = not self.is_private
        if self.folder is not None and not self.is_private:
            with contextlib.suppress(OSError):  # a full disk: this process knows it
                (self.folder / UNCOMPACTED).touch()

    @property
    def is_compacting(self) -> bool:
        """True while the files of the index are being merged."""
        return self.backend.is_compacting

    def compact_if_due(self) -> None:
        """Start to merge the files of an index that has doubled, or note that they are merged.

        Syncs and queries go on meanwhile.
        """
        if not self._is_uncompacted or self.backend.is_compacting or time.monotonic() < self._next_compaction:
            return
        try:
            if not self._end_compaction():
                self.backend.start_compaction()
        except (OSError, RuntimeError) as error:  # a full disk, no more threads: questions are answered, but slower
            if is_damaged(error):
                raise
            self._next_compaction = time.monotonic() + COMPACTION_RETRY_SECONDS

    def _end_compaction(self) -> bool:
        """Wait for a compaction and note that it is done; return False if none was started."""
        try:
            if not self.backend.end_compaction():
                return False
        except OSError as error:
            if not is_damaged(error):
                message = "provml: the index of %s could not be compacted (%s). Answers are right, but slower. %s"
                logging.getLogger("provml").warning(message, self.home, error.strerror, COMPACTION_ADVICE)
            raise
        self._is_uncompacted = False
        if self.folder is not None:
            (self.folder / UNCOMPACTED).unlink(missing_ok=True)
        self._write_checksums()
        self._write_snapshot_in_order()  # the one before holds the files that were merged
        return True

    # ---- snapshots

    def snapshot_if_due(self, events: int) -> None:
        """Write a snapshot after many events; without disk space, readers index more themselves."""
        self._events_since_snapshot += events
        if self._events_since_snapshot >= self.limits.snapshot_events:
            self._write_snapshot_in_order()

    def _write_snapshot_in_order(self) -> None:
        if not was_indexed_out_of_order(self.home, self.checkpoint):
            with contextlib.suppress(OSError):
                self.write_snapshot()

    def write_snapshot(self) -> None:
        """Write a snapshot for processes that read while this one holds the index."""
        if self.is_private or self.folder is None:
            return
        folder = self.folder / "snapshot"
        folder.mkdir(exist_ok=True)
        old = [path for path in folder.iterdir() if path.is_dir()]
        number = max((int(path.name) for path in old if path.name.isdecimal()), default=0) + 1
        new = folder / f"{number}.part"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        self.backend.snapshot(new / "store")
        checkpoints.write(new / "progress", self._committed)
        sealed_runs.copy(self.folder, new)
        file_checksums.write(new, self._checksums)
        new.rename(folder / str(number))
        for path in old:
            shutil.rmtree(path, ignore_errors=True)
        self._events_since_snapshot = 0


def adopt_rebuilt(folder: Path) -> None:
    """Replace an index by the one in its folder `next`; the caller holds the lock, and no store is open.

    The old checkpoint is removed first: a process that is killed in the middle leaves an index that is rebuilt.
    """
    (folder / "progress").unlink(missing_ok=True)
    for path in folder.iterdir():
        is_sealed_table = path.name.startswith(sealed_runs.PREFIX)
        if path.name in ("store", "snapshot"):
            shutil.rmtree(path)
        elif path.name in (file_checksums.NAME, statements.NAME, UNCOMPACTED) or is_sealed_table:
            path.unlink()
    names = [path.name for path in (folder / NEXT).iterdir() if path.name not in ("progress", COMPLETE)]
    for name in [*names, "progress"]:
        (folder / NEXT / name).rename(folder / name)
    shutil.rmtree(folder / NEXT)


def _is_in_memory(home: Path) -> bool:
    """Return whether the engine cannot open an index on the disk: in a forked child, or if the path is no text."""
    return fork.has_no_threads() or not paths.is_utf8(home)


def _temporary_folder(parent: Path | None) -> Path:
    """Make a folder for a private index."""
    import tempfile  # not at the top: most commands open the index itself

    return Path(tempfile.mkdtemp(prefix="reader-", dir=parent))


def report_damage(home: Path, error: BaseException, action: str) -> None:
    """Log that the index of a home is damaged, and what is done about it."""
    message = "provml: the index of %s is damaged (%s). Nothing is lost: %s."
    logging.getLogger("provml").warning(message, home, damage_reason(error), action)


def _journal_size(home: str, key: str) -> int:
    """Return the size of a journal, packed or not."""
    try:
        return os.stat(f"{home}/{key}").st_size  # noqa: PTH116  # called often, for many files
    except FileNotFoundError:
        return segments.file_stat(Path(home) / key).st_size


def _start(journals: RunJournals) -> float:
    """Return the start time of a run in seconds since the epoch; 0 if it is not known."""
    header = journals[0][1].state.header
    return header.time if header is not None and header.time == header.time else 0.0


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return segments.file_stat(path).st_size
    return 0
