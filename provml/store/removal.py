"""Remove runs from an index without a rebuild: delete what only they state, and the links that were derived from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyoxigraph as ox

from provml.journal.run_files import journals_of_run
from provml.journal.segments import JournalDamaged
from provml.mapping import NewLinks, iris
from provml.rdf.namespaces import PROV, PROVML, RDF_TYPE
from provml.store.annotations import annotation_ntriples
from provml.store.checkpoint import JournalCheckpoint
from provml.store.imports import ImportedFiles, parse_added
from provml.store.index import Index
from provml.store.journal_mapping import JournalSource, map_events
from provml.store.links import BEST, BUILT_ON, EVALUATED_TRAINING, LATEST, derive_links
from provml.store.run_status import run_status, status_ntriples
from provml.store.siblings import FirstJournalCache
from provml.store.statements import StatementFile, digest, stated_by

DERIVED = (BUILT_ON, EVALUATED_TRAINING, LATEST, BEST)
LINKED = frozenset(
    f"{namespace}{name}"
    for namespace, name in (
        (PROV, "used"),
        (PROV, "wasGeneratedBy"),
        (PROV, "specializationOf"),
        (PROV, "alternateOf"),
        (PROVML, "wasSectionOf"),
        (PROVML, "evaluated"),
    )
)
"""Properties that links between steps of any runs are derived from."""
_GRAPH = ox.DefaultGraph()
_TYPE = ox.NamedNode(RDF_TYPE)


@dataclass
class Removal:
    """What has to be deleted from an index when runs are removed: statements, and steps whose links were derived."""

    quads: list[ox.Quad] = field(default_factory=list)
    steps: set[str] = field(default_factory=set)


def plan_removal(index: Index, run_ids: Iterable[str]) -> Removal | None:
    """Return what the removal of runs deletes, from their journals; None if only a rebuild can tell.

    The index must be in sync and the journals still there.
    """
    runs = set(run_ids)
    others = _digests_of_others(index, runs)
    if others is None:
        return None
    lines: set[bytes] = set()
    links = NewLinks()
    try:
        for run in runs:
            lines.update(_lines(index, run, links))
    except JournalDamaged:  # what the index has of it is not known
        return None
    digests = {digest(line): line for line in lines}
    for item in stated_by(digests, others):
        del digests[item]
    only = ox.Store()  # normalizes literals as the index does
    only.bulk_load(b"\n".join(digests.values()) + b"\n", format=ox.RdfFormat.N_TRIPLES, lenient=True)
    quads = set(only)
    for path in ImportedFiles(index.home).intact():
        imported = ox.Store()
        imported.bulk_extend(parse_added(path))
        quads -= set(imported)
    nodes = tuple(f"{iris.run_iri(run)}" for run in runs)
    if any(_links_other_runs(quad, nodes) for quad in quads):
        return None
    steps = {step for pairs in (links.uses, links.products, links.latest) for step, _ in pairs} | links.stages
    return Removal(list(quads), steps)


def recorded_quads(index: Index, quads: Iterable[ox.Quad]) -> set[ox.Quad] | None:
    """Return those of some quads of the default graph that runs state too; None if only a rebuild can tell.

    A triple with an IRI as its object is compared as it is. Of a literal, whose text the index may have changed, only
    the subject is compared: a node that a run describes has a type.
    """
    quads = list(quads)
    if not quads or not (index.checkpoint.journals or index.sealed):
        return set()
    others = _digests_of_others(index, set())
    runs = iris.run_iri("")
    if others is None or any(_is_below(quad.subject, runs) for quad in quads):
        return None
    store = index.backend.graph()
    lines = {digest(f"{quad.triple} .".encode()): quad for quad in quads if isinstance(quad.object, ox.NamedNode)}
    described = {
        digest(f"{kind.triple} .".encode()): quad.subject
        for quad in quads
        if not isinstance(quad.object, ox.NamedNode)
        for kind in store.quads_for_pattern(quad.subject, _TYPE, None, _GRAPH)
    }
    stated = stated_by({*lines, *described}, others)
    if any(item in described for item in stated):
        return None
    return {lines[item] for item in stated}


def _is_below(node: object, prefix: str) -> bool:
    return isinstance(node, ox.NamedNode) and node.value.startswith(prefix)


def _digests_of_others(index: Index, runs: set[str]) -> list[bytes] | None:
    """Return the digests of what all other runs state about nodes that are not their own; None if some are missing."""
    if index.folder is None or index.is_private or index.is_outdated:
        return None
    size = index.checkpoint.statement_bytes
    try:
        saved = StatementFile(index.folder).read(size) if size else {}
    except (OSError, ValueError):
        return None
    others = [journal.foreign for key, journal in index.checkpoint.journals.items() if key.split("/")[1] not in runs]
    for run in index.sealed:
        if run in runs or (run in index.checkpoint.unsealed and run not in index.checkpoint.run_statuses):
            continue  # removed
        if run not in saved:
            return None
        others.append(saved[run])
    return others


def _lines(index: Index, run: str, links: NewLinks) -> Iterator[bytes]:
    """Yield the N-Triples that a run states."""
    journals, first_journals = index.run_journals(run), FirstJournalCache()
    for path in journals_of_run(index.home / "runs" / run):
        source = JournalSource(path.name, path, first_journals)
        for _, text in map_events(source, JournalCheckpoint(), links=links, is_over=True):
            yield from text.splitlines()
    yield from status_ntriples(journals, *run_status(index.home, journals)).splitlines()
    yield from annotation_ntriples(journals, index.annotations_of(run)).splitlines()


def _links_other_runs(quad: ox.Quad, runs: tuple[str, ...]) -> bool:
    """True if a statement relates two nodes that are not of the runs: links of other runs may follow from it."""
    nodes = (quad.subject, quad.object)
    if quad.predicate.value not in LINKED or not all(isinstance(node, ox.NamedNode) for node in nodes):
        return False
    texts = [node.value for node in nodes if isinstance(node, ox.NamedNode)]
    return not any(text == run or text.startswith(f"{run}/") for text in texts for run in runs)


def apply_removal(index: Index, removal: Removal, run_ids: Iterable[str]) -> None:
    """Delete from an index what was planned, after the journals are gone. Until then a killed process changes nothing.

    If the process is killed in the middle, the index still lists the journals, and the next sync rebuilds it.
    """
    store = index.backend.graph()
    tests: set[str] = set()
    quads = [*removal.quads]
    for step in removal.steps:
        node = ox.NamedNode(step)
        for predicate in DERIVED:
            quads += store.quads_for_pattern(node, predicate, None, _GRAPH)
            quads += (linked := list(store.quads_for_pattern(None, predicate, node, _GRAPH)))
            tests.update(quad.subject.value for quad in linked if isinstance(quad.subject, ox.NamedNode))
    for quad in quads:
        store.remove(quad)
    derive_links(store, NewLinks(stages=tests - removal.steps))
    index.forget(run_ids)
