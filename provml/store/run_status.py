"""The status and end of each run in an index, and the statements about them in the graph."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox

from provml import rdf
from provml.journal import events
from provml.journal.run_files import is_main, sort_journals
from provml.journal.status import WriterState, status_of_run
from provml.mapping import iris
from provml.rdf.namespaces import PROV, PROVLAKE, PROVML
from provml.store.backend import Backend
from provml.store.checkpoint import IndexCheckpoint, JournalCheckpoint
from provml.store.siblings import FirstJournalCache

RunJournals = list[tuple[str, JournalCheckpoint]]
"""The journals of one run, with their paths below the home."""

Node = ox.NamedNode | ox.BlankNode | ox.Triple
STATUS_PROPERTIES = tuple(
    map(
        ox.NamedNode,
        (
            f"{PROVLAKE}status",
            f"{PROV}endedAtTime",
            f"{PROVML}elapsedSeconds",
            f"{PROVLAKE}exceptionType",
            f"{PROVLAKE}exceptionMessage",
        ),
    )
)
"""Statements about the status of a run; each has the first."""


def journals_by_run(checkpoint: IndexCheckpoint) -> dict[str, RunJournals]:
    """Return the journals of each run that have a first line: main journals first, then by start time."""
    runs: dict[str, RunJournals] = {}
    for key, journal in checkpoint.journals.items():
        if journal.state.header is not None:
            runs.setdefault(key.split("/")[1], []).append((key, journal))
    return {run: sort_journals(journals, _header) if len(journals) > 1 else journals for run, journals in runs.items()}


def run_status(home: Path, journals: RunJournals) -> tuple[str, events.End | None]:
    """Return the present status of a run, and its end event if it has one."""
    return status_of_run([WriterState(home / key, journal.state.header, journal.end) for key, journal in journals])


def was_indexed_out_of_order(home: Path, checkpoint: IndexCheckpoint) -> bool:
    """True if a journal was indexed before the first journal of its run appeared.

    Its IRIs depend on that journal, so the index must be rebuilt.
    """
    for run, journals in journals_by_run(checkpoint).items():
        (key, first), *others = journals
        stem = Path(key).stem if is_main(first.state.header) else ""
        if others and (first.first_journal or any(journal.first_journal != stem for _, journal in others)):
            entry = FirstJournalCache().find(home / "runs" / run)  # the mapping depends on the files alone
            expected = entry[0].stem if entry is not None else ""
            if any(journal.first_journal != expected for key, journal in journals if Path(key).stem != expected):
                return True
    return False


def _header(entry: tuple[str, JournalCheckpoint]) -> events.Header | None:
    return entry[1].state.header


class RunStatusWriter:
    """Keep the statements about each run's status in the graph up to date."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._written: set[str] = set()

    def update(self, backend: Backend, checkpoint: IndexCheckpoint, runs: dict[str, RunJournals]) -> bool:
        """Write the status of each run; return whether any changed."""
        marks: dict[str, str] = {}
        texts: list[bytes] = []
        for run, journals in runs.items():
            status, end = run_status(self.home, journals)
            mark = f"{status} {end.time if end is not None else ''}"
            if checkpoint.run_statuses.get(run) == mark and (end is not None or run in self._written):
                continue
            marks[run] = mark
            texts.append(status_ntriples(journals, status, end))
        changed = _replace(backend, b"".join(texts)) if marks else False
        self._written.update(marks)
        checkpoint.run_statuses.update(marks)
        return changed


def _replace(backend: Backend, ntriples: bytes) -> bool:
    """Replace the statements about the status of runs; return whether they differ.

    Those of runs that have none yet, which may be many, are added at once.
    """
    expected = ox.Store()  # normalizes literals as the index does
    expected.load(ntriples, format=ox.RdfFormat.N_TRIPLES)
    by_run: dict[Node, list[ox.Quad]] = {}
    for quad in expected:
        by_run.setdefault(quad.subject, []).append(quad)
    store, graph = backend.graph(), ox.DefaultGraph()
    added: list[ox.Quad] = []
    changed = False
    for node, quads in by_run.items():
        if next(store.quads_for_pattern(node, STATUS_PROPERTIES[0], None, graph), None) is None:
            added += quads
            continue
        old = [q for p in STATUS_PROPERTIES for q in store.quads_for_pattern(node, p, None, graph) if q not in expected]
        new = [quad for quad in quads if quad not in store]
        if old or new:
            before, after = (" ".join(f"{quad.triple} ." for quad in quads) for quads in (old, new))
            backend.update(f"DELETE DATA {{ {before} }} ; INSERT DATA {{ {after} }}")
            changed = True
    if added:
        backend.add(added)
    return changed or bool(added)


def status_ntriples(journals: RunJournals, status: str, end: events.End | None) -> bytes:
    """Return the statements about a run's status as N-Triples; empty if none of its journals has a first line."""
    from provml.mapping.mapper import outcome  # not at the top: it loads the vocabulary

    state = journals[0][1].state
    if state.header is None:
        return b""
    return rdf.ntriples(outcome(iris.run_iri(state.header.run), state.experiment, state.header.time, status, end))
