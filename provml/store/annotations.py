"""Annotations of the runs in an index, and the statements about them in the graph."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyoxigraph as ox

from provml import rdf
from provml.errors import FileFormatError
from provml.journal import annotations as journal
from provml.journal.annotations import Annotation, AnnotationFile, Kind, annotate, present_name
from provml.mapping import iris
from provml.rdf.namespaces import PROVML, RDFS
from provml.store.backend import Backend
from provml.store.checkpoint import AnnotationCheckpoint, IndexCheckpoint, Problem
from provml.store.run_status import RunJournals

ANNOTATES = ox.NamedNode(f"{PROVML}annotates")
RUN_PROPERTIES = (ox.NamedNode(f"{PROVML}hasTag"), ox.NamedNode(f"{RDFS}label"))
"""Statements about a run that depend on its annotations."""


class AnnotationWriter:
    """Keep the statements about the annotations of each run in the graph up to date.

    A run is read again as a whole when one of its files has changed, so that the order in which files arrive does not
    matter.
    """

    def __init__(self, home: Path) -> None:
        self.home = home

    def update(
        self, backend: Backend, checkpoint: IndexCheckpoint, runs: dict[str, RunJournals], annotated: Iterable[str]
    ) -> bool:
        """Write the annotations of runs that have new ones; return whether there are any."""
        changed, annotated = False, set(annotated)
        named = (run for run, journals in runs.items() if own_name(journals, []))
        for run in {*annotated, *checkpoint.annotations, *named} & runs.keys():
            sizes = _sizes(self.home / "runs" / run) if run in annotated else {}
            previous = checkpoint.annotations.get(run)
            if previous is not None and previous.sizes == sizes and not previous.problems:
                continue
            current = read_annotations(self.home, run)
            current.sizes = sizes
            if current == previous:  # a file that still cannot be read
                continue
            _replace(backend, runs[run], current.annotations)
            checkpoint.annotations[run] = current
            changed = True
        return changed


def _sizes(folder: Path) -> dict[str, int]:
    try:
        return journal.file_sizes(folder)
    except OSError:  # `read_annotations` reports it
        return {"": -1}


def read_annotations(home: Path, run: str) -> AnnotationCheckpoint:
    """Read the annotations of a run from its files."""
    log = journal.read(home / "runs" / run)
    problems = [Problem(f"runs/{run}/{problem.file}", problem.line, problem.reason[:300]) for problem in log.problems]
    return AnnotationCheckpoint(annotations=journal.resolve(log), problems=problems)


def _replace(backend: Backend, journals: RunJournals, annotations: list[Annotation]) -> None:
    """Replace the statements about the annotations of a run."""
    state = journals[0][1].state
    if state.header is None:
        return
    expected = ox.Store()  # normalizes literals as the index does
    expected.load(annotation_ntriples(journals, annotations), format=ox.RdfFormat.N_TRIPLES)
    store, run, graph = backend.graph(), ox.NamedNode(iris.run_iri(state.header.run)), ox.DefaultGraph()
    old = [quad for predicate in RUN_PROPERTIES for quad in store.quads_for_pattern(run, predicate, None, graph)]
    for link in store.quads_for_pattern(None, ANNOTATES, run, graph):
        old += store.quads_for_pattern(link.subject, None, None, graph)
    removed, added = [quad for quad in old if quad not in expected], [quad for quad in expected if quad not in store]
    statements = (" ".join(f"{quad.triple} ." for quad in quads) for quads in (removed, added))
    backend.update("DELETE DATA {{ {} }} ; INSERT DATA {{ {} }}".format(*statements))


def own_name(journals: RunJournals, annotations: list[Annotation]) -> str:
    """Return the name of a run that is not that of its experiment: the latest, else the one that it began with."""
    header = journals[0][1].state.header
    return present_name(annotations) or (header.run_name if header is not None else "")


def annotation_ntriples(journals: RunJournals, annotations: list[Annotation]) -> bytes:
    """Return the statements about the annotations of a run as N-Triples."""
    from provml.mapping.annotations import annotation_things  # not at the top: it loads the vocabulary

    state = journals[0][1].state
    if state.header is None:
        return b""
    run = iris.run_iri(state.header.run)
    return rdf.ntriples(annotation_things(run, state.experiment, own_name(journals, annotations), annotations))


def add_annotations(
    home: Path, run: str, kind: Kind, texts: Iterable[str], *, by: str = "", removed: bool = False
) -> list[str]:
    """Annotate a run; return the texts that are new, or removed. They are on the disk when this returns."""
    folder = home / "runs" / run
    try:
        return annotate(AnnotationFile(folder), kind, texts, by=by, removed=removed, sync=True)
    except OSError as error:
        reason = f"the {kind} cannot be written ({(error.strerror or str(error)).lower()})"
        advice = "Annotations are files in the folder of the run: make it writable, or ask its owner."
        raise FileFormatError(reason, advice, file=str(folder)) from error
