"""How the runs of an index stand: by which journal, with which status and end; and the graph kept true to that."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox

from provml import event, rdf
from provml.lift import name, outcome
from provml.run import in_order, is_main, leader, status_of
from provml.store.kin import Eldest
from provml.store.progress import Journal, Progress

Journals = list[tuple[str, Journal]]
"""The journals of one run, by their paths below the home."""

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


def runs_of(progress: Progress) -> dict[str, Journals]:
    """The journals of each run that have a first line, the main ones first, each by the time they began."""
    found: dict[str, Journals] = {}
    for key, journal in progress.journals.items():
        if journal.state.first is not None:
            found.setdefault(key.split("/")[1], []).append((key, journal))
    return {run: in_order(held, _first) if len(held) > 1 else held for run, held in found.items()}


def standing(home: Path, journals: Journals) -> tuple[str, event.End | None]:
    """The true status of a run, and its end."""
    key, journal = leader(journals, _first)
    return status_of(home / key, journal.state.first, journal.end), journal.end


def is_overtaken(home: Path, progress: Progress) -> bool:
    """Whether a journal was lifted before the one of its run that began first: by that one it says something else."""
    for run, journals in runs_of(progress).items():
        (key, first), *others = journals
        stem = Path(key).stem if is_main(first.state.first) else ""
        if others and (first.elder or any(journal.elder != stem for _, journal in others)):
            found = Eldest().of(home / "runs" / run)  # what is lifted goes by the files alone
            eldest = found[0].stem if found is not None else ""
            if any(journal.elder != eldest for key, journal in journals if Path(key).stem != eldest):
                return True
    return False


def _first(one: tuple[str, Journal]) -> event.Run | None:
    return one[1].state.first


class Standing:
    """What the graph tells of how each run stands: one status, the true one, and its end where it has one."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._sure: set[str] = set()

    def tell(self, store: ox.Store, progress: Progress) -> bool:
        """Have the graph tell how each run stands; whether anything changed."""
        changed = False
        for run, journals in runs_of(progress).items():
            status, end = standing(self.home, journals)
            mark = f"{status} {end.t if end is not None else ''}"
            if progress.told.get(run) == mark and (end is not None or run in self._sure):
                continue
            changed = _replace(store, journals, status, end) or changed
            self._sure.add(run)
            progress.told[run] = mark
        return changed


def _replace(store: ox.Store, journals: Journals, status: str, end: event.End | None) -> bool:
    state = journals[0][1].state
    if state.first is None:
        return False
    iri = name.run(state.first.run)
    wanted = ox.Store()  # it writes literals as the index does
    wanted.load(as_ntriples(journals, status, end), format=ox.RdfFormat.N_TRIPLES)
    node, graph = ox.NamedNode(iri), ox.DefaultGraph()
    old = [q for p in STANDING for q in store.quads_for_pattern(node, p, None, graph) if q not in wanted]
    new = [quad for quad in wanted if quad not in store]
    if not old and not new:
        return False
    said = [" ".join(f"{q.triple} ." for q in quads) for quads in (old, new)]
    store.update(f"DELETE DATA {{ {said[0]} }} ; INSERT DATA {{ {said[1]} }}")
    return True


def as_ntriples(journals: Journals, status: str, end: event.End | None) -> bytes:
    """How a run stands, as N-Triples; nothing where none of its journals has a first line."""
    state = journals[0][1].state
    if state.first is None:
        return b""
    return rdf.ntriples(outcome(name.run(state.first.run), state.experiment, state.first.t, status, end))
