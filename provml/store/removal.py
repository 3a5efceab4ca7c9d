"""Remove runs from an index without a rebuild: delete what only they state, and the links that were derived from it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

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


BLOCK_LINES = 100_000
"""Lines of removed runs that are compared with those of other runs at once, in about 50 MB. More lines are sorted in a
temporary folder: the engine deletes in the order of its keys twice as fast as in any other, and memory is bounded."""
UPDATE_LINES = 20_000
"""Lines that one update deletes: a transaction is held in memory."""
SORTED = "sorted.nt"


@dataclass
class Removal:
    """What has to be deleted from an index when runs are removed: statements, and steps whose links were derived."""

    quads: list[ox.Quad] = field(default_factory=list)
    steps: set[str] = field(default_factory=set)
    folder: Path | None = None
    """A temporary folder with the statements of large runs."""

    def close(self) -> None:
        """Remove the temporary folder."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def plan_removal(index: Index, run_ids: Iterable[str]) -> Removal | None:
    """Return what the removal of runs deletes, from their journals; None if only a rebuild can tell.

    The index must be in sync and the journals still there.
    """
    runs = set(run_ids)
    others = _digests_of_others(index, runs)
    if others is None:
        return None
    links = NewLinks()
    removal = Removal()
    try:
        blocks = _blocks(line for run in runs for line in _lines(index, run, links))
        first, second = next(blocks, set()), next(blocks, set())
        if second:
            removal.folder = Path(tempfile.mkdtemp(prefix="reader-", dir=index.folder))
        nodes = tuple(f"{iris.run_iri(run)}" for run in runs)
        statements = _Statements(removal.folder, others, nodes, _imported_quads(index.home))
        for block in chain((first, second), blocks):
            statements.add(block)
        quads = statements.quads()
        if quads is None:
            removal.close()
            return None
        removal.quads = quads
        if removal.folder is not None:
            statements.sort(removal.folder)
    except (JournalDamaged, OSError):  # what the index has of it is not known; no space for the temporary folder
        removal.close()
        return None
    except BaseException:
        removal.close()
        raise
    removal.steps = {step for pairs in (links.uses, links.products, links.latest) for step, _ in pairs} | links.stages
    return removal


def _imported_quads(home: Path) -> set[ox.Quad]:
    store = ox.Store()  # has literals as the index has them
    for path in ImportedFiles(home).intact():
        store.bulk_extend(parse_added(path))
    return set(store)


def _blocks(lines: Iterable[bytes]) -> Iterator[set[bytes]]:
    """Yield different lines in blocks; a node is written again whenever it gets more values."""
    block: set[bytes] = set()
    for line in lines:
        block.add(line)
        if len(block) >= BLOCK_LINES:
            yield block
            block = set()
    if block:
        yield block


class _Statements:
    """What only the removed runs state: quads in memory, and with a folder most of them as lines in a file."""

    def __init__(
        self, folder: Path | None, others: list[bytes], nodes: tuple[str, ...], imported: set[ox.Quad]
    ) -> None:
        self._folder = folder
        self._others = others
        self._nodes = nodes
        self._imported = imported
        self._imported_subjects = {str(quad.subject).encode() for quad in imported}
        self._own = tuple(f"<{node}{end}".encode() for node in nodes for end in (">", "/"))
        self._subjects: set[bytes] = set()
        self._line_count = 0
        self._store = ox.Store()  # has literals as the index has them

    def add(self, lines: set[bytes]) -> None:
        """Add lines of N-Triples but for those that other runs state too."""
        digests = {digest(line): line for line in lines}
        for item in stated_by(digests, self._others):
            del digests[item]
        group = [*digests.values()] if self._folder is None else self._write(digests.values(), self._folder)
        self._store.bulk_load(b"\n".join(group) + b"\n", format=ox.RdfFormat.N_TRIPLES, lenient=True)

    def _write(self, lines: Iterable[bytes], folder: Path) -> list[bytes]:
        """Write lines to a file; return those that have to be compared with other runs and files."""
        rest: list[bytes] = []
        with (folder / "lines.nt").open("ab") as file:
            for line in lines:
                subject = _subject(line)
                if subject in self._imported_subjects or not line.startswith(self._own):
                    rest.append(line)
                    continue
                self._subjects.add(subject)
                self._line_count += 1
                file.write(line + b"\n")
        return rest

    def quads(self) -> list[ox.Quad] | None:
        """Return the statements in memory; None if links of other runs may follow from them."""
        quads = set(self._store) - self._imported
        return None if any(_links_other_runs(quad, self._nodes) for quad in quads) else [*quads]

    def sort(self, folder: Path) -> None:
        """Write the lines to a file in the order of the keys of the engine, which are hashes of the subjects."""
        (folder / SORTED).touch()
        if not self._line_count:
            return
        order = ox.Store(str(folder / "store"))
        triples = (subject + b" <urn:p> <urn:o> .\n" for subject in self._subjects)
        order.bulk_load(b"".join(triples), format=ox.RdfFormat.N_TRIPLES, lenient=True)
        ranks = {str(quad.subject).encode(): rank for rank, quad in enumerate(order)}
        part_count = self._line_count // BLOCK_LINES + 1
        parts = [folder / f"{number}.nt" for number in range(part_count)]
        with contextlib.ExitStack() as stack:
            lines = stack.enter_context((folder / "lines.nt").open("rb"))
            files = [stack.enter_context(path.open("wb")) for path in parts]
            for line in lines:
                files[ranks.get(_subject(line), 0) * part_count // len(ranks)].write(line)
        with (folder / SORTED).open("wb") as output:
            for path in parts:
                part = path.read_bytes().splitlines(keepends=True)
                part.sort(key=lambda line: ranks.get(_subject(line), 0))
                output.writelines(part)


def _subject(line: bytes) -> bytes:
    return line[: line.find(b" ")]


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
    if removal.folder is not None:
        with (removal.folder / SORTED).open("rb") as file:
            _delete_lines(store, file)
    derive_links(store, NewLinks(stages=tests - removal.steps))
    index.forget(run_ids)


def _delete_lines(store: ox.Store, lines: Iterable[bytes]) -> None:
    """Delete lines of N-Triples, in several transactions."""
    rest = iter(lines)
    while text := b"".join(islice(rest, UPDATE_LINES)):
        try:
            store.update(f"DELETE DATA {{ {text.decode()} }}")
        except SyntaxError:  # the journal of another client has an IRI that SPARQL does not allow
            for quad in ox.parse(text, format=ox.RdfFormat.N_TRIPLES, lenient=True):
                store.remove(quad)
