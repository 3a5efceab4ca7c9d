"""Compare an index with the journals: statements that only one of them has, and the lines that make them.

The journals are the source of truth. An index follows them, but it does not read a part again that it has read before:
a journal that somebody changes afterwards, or an index that somebody writes to, makes them disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyoxigraph as ox

from provml.journal import segments
from provml.journal.run_files import journals_of_run
from provml.journal.status import is_being_written
from provml.mapping import iris
from provml.rdf.namespaces import PREFIXES
from provml.store.checkpoint import IndexCheckpoint, JournalCheckpoint, Problem, is_lengthened
from provml.store.imports import ImportedFiles, parse_added
from provml.store.index import Index
from provml.store.journal_mapping import JournalSource, map_events
from provml.store.links import BEST, BUILT_ON, EVALUATED_TRAINING, LATEST
from provml.store.run_graph import run_graph
from provml.store.run_status import STATUS_PROPERTIES, RunJournals
from provml.store.siblings import FirstJournalCache

MAX_DIFFERENCES = 20
"""Differences that are listed per run."""
MAX_OBJECT = 80
"""Characters of a value in a message."""

_DERIVED = frozenset({BUILT_ON, EVALUATED_TRAINING, LATEST, BEST})
"""Links that depend on other runs, or change while a run is active."""

Quads = set[ox.Quad]


def find_resized(home: Path, checkpoint: IndexCheckpoint) -> list[Problem]:
    """Return the journals that are shorter than what was indexed of them, or that have grown after their end."""
    problems = []
    for key, journal in checkpoint.journals.items():
        path = home / key
        try:
            size = segments.file_stat(path).st_size if segments.exists(path) else journal.offset
        except OSError:  # whoever reads the journal names it
            continue
        if size < journal.offset or is_lengthened(journal, size):
            reason = f"was changed after it was indexed: it has {size:,} bytes, and had {journal.offset:,}"
            problems.append(Problem(key, 0, reason, in_index=True))
    return problems


def compare_with_journals(home: Path, index: Index, sync: Callable[[], object]) -> list[Problem]:
    """Return where an index that is in sync disagrees with the journals. `sync` is called after an active run is read.

    Statements about a thing of a run may also be made by other runs and by imported files.
    """
    missing: dict[str, Quads] = {}
    extra: dict[str, Quads] = {}
    other_sources: Quads = set()
    runs = index.journals_by_run()
    for run, journals in runs.items():
        if not _is_indexed(home, run, journals):
            continue
        is_active = any(is_being_written(home / key) for key, _ in journals)
        try:
            graph = run_graph(home, run, journals)
        except OSError:  # the check of the journals reports it
            continue
        if is_active:
            sync()
        store, prefix = index.backend.graph(), iris.run_iri(run)
        missing[run] = {quad for quad in _statements(graph, is_active=is_active) if quad not in store}
        own, others = _subjects(graph, prefix)
        if not is_active:
            quads = (quad for node in own for quad in store.quads_for_pattern(node, None, None, ox.DefaultGraph()))
            extra[run] = {quad for quad in quads if quad.predicate not in _DERIVED and quad not in graph}
        other_sources.update(quad for node in others for quad in graph.quads_for_pattern(node, None, None))
    if any(extra.values()):
        other_sources.update(quad for path in ImportedFiles(home).intact() for quad in _normalized(path))
    problems = []
    for run in missing:
        problems += _describe(home, run, missing[run], extra.get(run, set()) - other_sources)
    return problems + _compare_imported(home, index)


def _is_indexed(home: Path, run: str, journals: RunJournals) -> bool:
    """True if all journals of a run are indexed: none waits for another one, and none is unreadable."""
    indexed = {Path(key).name for key, journal in journals if journal.offset}
    is_readable = all(problem.line for _, journal in journals for problem in journal.problems)
    return is_readable and {path.name for path in journals_of_run(home / "runs" / run)} <= indexed


def _statements(graph: ox.Store, *, is_active: bool) -> Iterator[ox.Quad]:
    """Yield the statements that must be in the index; the status of an active run may change at any time."""
    left_out = _DERIVED.union(STATUS_PROPERTIES) if is_active else _DERIVED
    return (quad for quad in graph if quad.predicate not in left_out)


def _subjects(graph: ox.Store, prefix: str) -> tuple[set[ox.NamedNode], set[ox.NamedNode]]:
    """Return the nodes of a run, and the nodes of other runs that its journals describe."""
    nodes = {quad.subject for quad in graph if isinstance(quad.subject, ox.NamedNode)}
    own = {node for node in nodes if node.value == prefix or node.value.startswith(f"{prefix}/")}
    runs = iris.run_iri("")
    return own, {node for node in nodes - own if node.value.startswith(runs)}


def _normalized(path: Path) -> ox.Store:
    """Return an imported file with its literals as the index has them."""
    store = ox.Store()
    store.bulk_extend(parse_added(path))
    return store


def _compare_imported(home: Path, index: Index) -> list[Problem]:
    """Return the imported files with statements that the index does not have."""
    store, problems = index.backend.graph(), []
    for name in index.checkpoint.imported_files:
        path = home / "added" / name
        if path.is_file() and ImportedFiles(home).check(path) is None:
            absent = [quad for quad in _normalized(path) if quad not in store]
            if absent:
                reason = f"the index does not have {_text(absent[0])}" + _more(len(absent) - 1)
                problems.append(Problem(f"added/{name}", 0, reason, in_index=True))
    return problems


# ---- messages


def _describe(home: Path, run: str, missing: Quads, extra: Quads) -> list[Problem]:
    """Return a problem for each difference of a run, up to a limit."""
    problems = []
    replaced: Quads = set()
    lines = _lines(home, run, missing) if missing else {}
    for quad in sorted(missing, key=lambda quad: (lines.get(quad, ("", 0)), str(quad))):
        old = {other for other in extra if (other.subject, other.predicate) == (quad.subject, quad.predicate)}
        replaced |= old
        instead = f" has {', '.join(sorted(map(_object, old)))} instead" if old else " does not have it"
        file, line = lines.get(quad, (f"runs/{run}", 0))
        problems.append(Problem(file, line, f"says {_text(quad)}, but the index{instead}", in_index=True))
    for quad in sorted(extra - replaced, key=str):
        problems.append(Problem(f"runs/{run}", 0, f"does not say {_text(quad)}, but the index does", in_index=True))
    if len(problems) > MAX_DIFFERENCES:
        rest = len(problems) - MAX_DIFFERENCES
        reason = f"disagrees with the index in {rest:,} more statements"
        return [*problems[:MAX_DIFFERENCES], Problem(f"runs/{run}", 0, reason, in_index=True)]
    return problems


def _lines(home: Path, run: str, quads: Quads) -> dict[ox.Quad, tuple[str, int]]:
    """Return the journal and the line that make each statement; statements that follow from no line are left out."""
    lines: dict[ox.Quad, tuple[str, int]] = {}
    first_journals = FirstJournalCache()
    for path in journals_of_run(home / "runs" / run):
        journal, key = JournalCheckpoint(), f"runs/{run}/{path.name}"
        source = JournalSource(key, path, first_journals)
        is_over = not is_being_written(path)
        for _, text in map_events(source, journal, is_over=is_over, events_per_chunk=1):
            line_graph = ox.Store()
            line_graph.load(text, format=ox.RdfFormat.N_TRIPLES, lenient=True)
            for quad in line_graph:
                if quad in quads:
                    lines.setdefault(quad, (key, journal.line_number))
    return lines


def _text(quad: ox.Quad) -> str:
    return f"{_name(quad.subject)} {_name(quad.predicate)} {_object(quad)}"


def _object(quad: ox.Quad) -> str:
    return _name(quad.object)


def _name(term: object) -> str:
    """Return a term in short: an IRI with the usual prefix, a value without its type."""
    if isinstance(term, ox.Literal):
        text = repr(term.value) if term.datatype == ox.Literal("").datatype else term.value
    elif isinstance(term, ox.NamedNode):
        text = term.value
        for prefix, namespace in PREFIXES.items():
            if text.startswith(namespace) and text != namespace:
                text = f"{prefix}:{text.removeprefix(namespace)}"
                break
    else:
        text = str(term)
    return text if len(text) <= MAX_OBJECT or isinstance(term, ox.NamedNode) else text[: MAX_OBJECT - 1] + "…"


def _more(count: int) -> str:
    return f", and {count:,} more statements" if count else ""
