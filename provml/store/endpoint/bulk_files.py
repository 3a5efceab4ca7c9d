"""Files for the bulk loaders of engines: compressed N-Quads with the runs, and with the progress of a sync.

After a load, `provml sync --to` goes on from there, as if it had sent the runs itself.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from provml.errors import FileFormatError
from provml.store.dialects import DIALECTS
from provml.store.endpoint.address import EndpointAddress
from provml.store.endpoint.client import Endpoint, declare_prefixes
from provml.store.endpoint.sync import HomeSync, SyncReport

FILE_QUADS = 1_000_000
"""Quads in one file: bulk loaders read several files at once."""
LOADERS = {
    "jena": "tdb2.tdbloader --loc DATABASE {folder}/*.nq.gz",
    "oxigraph": "oxigraph load --location DATABASE --file {folder}/*.nq.gz",
    "virtuoso": "isql EXEC=\"ld_dir('{folder}', '*.nq.gz', '{graph}'); rdf_loader_run(); checkpoint;\"",
    "neptune": (
        "aws s3 cp --recursive {folder} s3://BUCKET/provml && curl -X POST https://HOST:8182/loader -H 'Content-Type: "
        'application/json\' -d \'{{"source": "s3://BUCKET/provml", "format": "nquads", "iamRoleArn": "ROLE", '
        '"region": "REGION", "failOnError": "TRUE"}}\''
    ),
}
"""Commands that load the files, by engine."""


class LocalEndpoint(Endpoint):
    """A dataset in a temporary folder, with the methods of an endpoint."""

    def __init__(self, folder: Path, engine: str, graph: str = "") -> None:
        self.address = EndpointAddress(str(folder), engine)
        self.dialect = DIALECTS["oxigraph"]
        self.data_graph = graph or DIALECTS[engine].data_graph
        self.is_open = True
        self.store = ox.Store(str(folder))

    def query(self, sparql: str, *, graph: str | None = None, seconds: float = 0.0) -> Any:
        """Execute a query."""
        target = self.data_graph if graph is None else graph
        return self.store.query(declare_prefixes(sparql), default_graph=ox.NamedNode(target) if target else None)

    def update(self, sparql: str) -> None:
        """Execute an update."""
        self.store.update(declare_prefixes(sparql))

    def load(self, ntriples: bytes, graph: str = "", *, is_large: bool = False) -> None:
        """Add N-Triples to a graph."""
        target = ox.NamedNode(graph) if graph else None
        self.store.bulk_load(ntriples, format=ox.RdfFormat.N_TRIPLES, to_graph=target, lenient=True)

    def load_quads(self, nquads: bytes) -> None:
        """Add N-Quads."""
        self.store.bulk_load(nquads, format=ox.RdfFormat.N_QUADS, lenient=True)

    def close(self) -> None:
        """Release the files."""
        self.is_open = False
        del self.store


def write_bulk_files(
    home: Path, folder: Path, engine: str, *, graph: str = "", on_progress: Callable[[int], None] | None = None
) -> tuple[SyncReport, list[Path]]:
    """Write all runs of a home to files in a new folder; return what is in them, and the files."""
    if engine not in DIALECTS:
        raise FileFormatError(f"unknown engine {engine!r}", f"Use one of {', '.join(DIALECTS)}.", file=str(folder))
    if folder.exists() and any(folder.iterdir()):
        raise FileFormatError("the folder is not empty", "Pass a new folder.", file=str(folder))
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        with tempfile.TemporaryDirectory(prefix="provml-") as database:
            endpoint = LocalEndpoint(Path(database), engine, graph)
            report = HomeSync(home, endpoint, on_progress=on_progress).send()
            _write_files(iter(endpoint.store), part)
            endpoint.close()
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return report, sorted(folder.glob("*.nq.gz"))


def _write_files(quads: Iterator[ox.Quad], folder: Path) -> None:
    number = 0
    while batch := list(islice(quads, FILE_QUADS)):
        with gzip.open(folder / f"provml-{number:05}.nq.gz", "wb", compresslevel=6) as file:
            file.write(ox.serialize(batch, format=ox.RdfFormat.N_QUADS) or b"")
        number += 1


def loader_command(engine: str, folder: Path, graph: str = "") -> str:
    """Return the command that loads the files; empty if the manual of the engine has to say it."""
    folder = folder.resolve() if engine == "virtuoso" else folder  # it is read by the server
    return LOADERS.get(engine, "").format(folder=folder, graph=graph or DIALECTS[engine].data_graph)
