"""What is added by hand: files of quads in a home, kept whole or not at all, and their way into an index."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyoxigraph as ox

from provml.errors import BrokenFile
from provml.store.progress import Problem
from provml.values import IRI

ENDINGS = {
    ".ttl": ox.RdfFormat.TURTLE,
    ".trig": ox.RdfFormat.TRIG,
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".nq": ox.RdfFormat.N_QUADS,
    ".n3": ox.RdfFormat.N3,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".owl": ox.RdfFormat.RDF_XML,
    ".jsonld": ox.RdfFormat.JSON_LD,
}
SMALL = 2 << 20
"""A smaller file goes in as one transaction."""


def keep(home: Path, write: Callable[[Path], object]) -> None:
    """Keep what is written as a file of the home, which is its only copy: the disk has it when this returns."""
    folder = home / "added"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{uuid.uuid4().hex[:6]}.nq"
    part = path.with_suffix(".part")
    try:
        write(part)
        _sync(part)
        part.replace(path)
        _sync(folder)
    finally:
        part.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:  # a folder, where the system opens none
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)


def keep_file(home: Path, file: Path, graph: str | None) -> int:
    """Keep the quads of an RDF file, by its ending; how many they are."""
    form = ENDINGS.get(file.suffix.lower())
    if form is None:
        advice = f"Give a file that ends in one of {', '.join(ENDINGS)}."
        raise BrokenFile("its ending names no RDF format", advice, file=str(file))
    into = ox.NamedNode(IRI(graph)) if graph else ox.DefaultGraph()
    count = 0

    def quads() -> Iterator[ox.Quad]:
        nonlocal count
        for quad in ox.parse(path=str(file), format=form, rename_blank_nodes=True):
            count += 1
            graph_name = into if isinstance(quad.graph_name, ox.DefaultGraph) else quad.graph_name
            yield ox.Quad(quad.subject, quad.predicate, quad.object, graph_name)

    try:
        keep(home, lambda part: ox.serialize(quads(), str(part), format=ox.RdfFormat.N_QUADS))
    except SyntaxError as error:
        raise BrokenFile(str(error.msg), "Mend it there.", file=str(file), line=error.lineno) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise BrokenFile(reason, "Check the path.", file=str(file)) from error
    return count


class Added:
    """The files of a home that were added by hand, on their way into an index."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "added"
        self._refused: dict[str, tuple[int, Problem]] = {}

    @property
    def problems(self) -> list[Problem]:
        """The files that could not be taken in."""
        return [problem for _, problem in self._refused.values()]

    def take(self, store: ox.Store, known: list[str]) -> bool:
        """Put into a store what is not known yet; whether there was any. A file that is damaged is left out whole."""
        new = sorted({path.name for path in self.folder.glob("*.nq")} - set(known))
        taken = []
        for title in new:
            path = self.folder / title
            with contextlib.suppress(FileNotFoundError):  # removed just now
                known_size = path.stat().st_size
                if title in self._refused and self._refused[title][0] == known_size:
                    continue
                problem = self.check(path)
                if problem is not None:
                    self._refused[title] = (known_size, problem)
                    continue
                if known_size < SMALL:
                    store.extend(_parsed(path))
                else:
                    store.bulk_extend(_parsed(path))
                self._refused.pop(title, None)
                taken.append(title)
        known += taken
        return bool(taken)

    def check(self, path: Path) -> Problem | None:
        """What is wrong with a file, if something is."""
        file = f"added/{path.name}"
        try:
            for _ in _parsed(path):
                pass
        except FileNotFoundError:
            raise
        except SyntaxError as error:
            return Problem(file, error.lineno or 0, str(error.msg)[:300])
        except (OSError, UnicodeDecodeError) as error:
            return Problem(file, 0, str(getattr(error, "strerror", None) or error).lower()[:300])
        return None


def _parsed(path: Path) -> Iterator[ox.Quad]:
    """The quads of a file; blank nodes keep their names, so that twice is once."""
    return iter(ox.parse(path=str(path), format=ox.RdfFormat.N_QUADS, lenient=True))
