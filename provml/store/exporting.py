"""Export of runs to any format: checks, atomic writes, and the result.

A writer gets a `Source` and the target: an open binary file, a new folder, or the address of another tool's store. It
returns an `Exported`. Nothing is half-written: a file or a folder gets its name when it is complete.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol

import pyoxigraph as ox

from provml.errors import FileFormatError, plural
from provml.journal.run_files import HasId
from provml.paths import atomic_write
from provml.store.artifacts import ArtifactList
from provml.store.export_formats import ExportFormat
from provml.store.graph_names import PROVIDED_GRAPHS
from provml.store.run_facts import ReportStore, RunFacts
from provml.store.run_info import RunInfo


class ExportStore(ReportStore, Protocol):
    """What exports need of a store."""

    def graph(self, run_id: str | None = None) -> ox.Store:
        """Return the graph of a run, or of all runs."""

    def artifacts(self, run_id: str | HasId | None = None) -> ArtifactList:
        """List what a run stored in the home."""


@dataclass(frozen=True)
class Exported:
    """What an export wrote: a number of items, what only people can fill in, and what the format has no place for."""

    count: int
    unit: str = "triple"
    gaps: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    note: str = ""

    def summary(self, target: object) -> str:
        """Return the result in one sentence."""
        text = f"Wrote {plural(self.count, self.unit)} to {target}"
        if self.gaps:
            text += f". {plural(len(self.gaps), 'gap')} marked for you to fill in"
        return text


@dataclass
class Source:
    """What is exported: the runs, or all runs and loaded graphs of a store if `is_all`; and the options."""

    store: ExportStore
    runs: list[RunInfo]
    format: ExportFormat
    options: dict[str, str] = field(default_factory=dict)
    is_all: bool = False

    @property
    def run(self) -> RunInfo:
        """The only run."""
        return self.runs[0]

    def triples(self) -> Iterator[ox.Triple]:
        """Yield the triples of the default graph, without the ontologies."""
        graph = ox.DefaultGraph()
        for run in [None] if self.is_all else [info.id for info in self.runs]:
            for quad in self.store.graph(run).quads_for_pattern(None, None, None, graph):
                yield quad.triple

    def named_graphs(self) -> Iterator[tuple[ox.NamedNode, Iterator[ox.Triple]]]:
        """Yield the loaded named graphs with their triples, if everything is exported."""
        if self.is_all:
            graph = self.store.graph()
            for name in graph.named_graphs():
                if isinstance(name, ox.NamedNode) and name not in PROVIDED_GRAPHS:
                    yield name, (quad.triple for quad in graph.quads_for_pattern(None, None, None, name))

    @cached_property
    def facts(self) -> RunFacts:
        """What the graph says about the only run."""
        return RunFacts(self.store, self.run, None)

    def option(self, name: str, default: str = "") -> str:
        """Return the value of an option."""
        return self.options.get(name, default)

    def flag(self, name: str) -> bool:
        """Return the value of an option that is yes or no."""
        value = self.option(name, "no").strip().lower()
        if value not in ("yes", "true", "1", "no", "false", "0", ""):
            raise FileFormatError(f"the option {name} takes yes or no, not {value!r}", "Correct it.", file="export")
        return value in ("yes", "true", "1")


def export_runs(source: Source, target: str | os.PathLike[str] | IO[bytes]) -> Exported:
    """Write runs to a path, or to an open binary file."""
    fmt = source.format
    fmt.check_options(source.options)
    fmt.check_installed()
    if len(source.runs) != 1 and not fmt.many:
        raise FileFormatError(f"the format {fmt.name} holds one run", "Name the run.", file="export")
    write = import_module(fmt.writer).write
    if not isinstance(target, (str, os.PathLike)):
        if fmt.target != "file":
            raise FileFormatError(f"the format {fmt.name} is no single file", "Pass a path with -o.", file="export")
        result: Exported = write(source, target)
        return result
    if fmt.target == "store":
        result = write(source, os.fspath(target))
    elif fmt.target == "folder":
        result = _write_folder(source, write, Path(target))
    else:
        with atomic_write(Path(target)) as file:
            result = write(source, file)
    return result


def _write_folder(source: Source, write: Any, folder: Path) -> Exported:
    """Write a new folder, which gets its name when it is complete; a folder with content is never replaced."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        reason = "the folder is not empty" if folder.is_dir() else "it is a file"
        raise FileFormatError(reason, "Pass a new folder, or remove it first.", file=str(folder))
    part = folder.resolve().with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}.part")
    try:
        part.mkdir()
        result: Exported = write(source, part)
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
        return result
    finally:
        shutil.rmtree(part, ignore_errors=True)
