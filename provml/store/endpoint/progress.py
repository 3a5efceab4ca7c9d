"""What of each run is at an endpoint, written at the endpoint itself.

Beside the graph of the runs there is a graph of progress, and for each run a graph of the statements that it makes
about nodes that runs share: a statement is removed with its last run. The progress of a run is written after its
statements.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable

import msgspec

from provml.rdf.namespaces import NODES
from provml.store.checkpoint import JournalCheckpoint
from provml.store.dialects import PROVML_GRAPH

ENDPOINT = f"{NODES}endpoint#"
"""Start of the properties of progress."""
REMOVING = "removing"
"""The mark of a run whose removal has begun."""


class Names:
    """The names of the graphs that belong to a graph of runs."""

    def __init__(self, data_graph: str) -> None:
        self.base = data_graph or PROVML_GRAPH
        self.progress = f"{self.base}#progress"
        self.ontology = f"{self.base}#ontology"
        self.shared_prefix = f"{self.base}#shared/"

    def shared_of(self, run: str) -> str:
        """Return the graph of the statements of a run about nodes that runs share; `run` is its IRI."""
        return f"{self.shared_prefix}{run.rpartition('/')[2]}"


class RunProgress(msgspec.Struct):
    """How far the journals of a run were sent: a checkpoint for each, by name, and what was written last.

    `mark` identifies the files as they were when all was sent; empty if more is expected.
    """

    fingerprint: str = ""
    home: str = ""
    mark: str = ""
    status: str = ""
    annotations: dict[str, int] = {}
    journals: dict[str, JournalCheckpoint] = {}

    @property
    def events(self) -> int:
        """The number of events that were sent."""
        return sum(journal.events for journal in self.journals.values())


def encode(progress: RunProgress) -> str:
    """Return progress as text without characters that a literal has to escape."""
    return base64.b64encode(zlib.compress(msgspec.msgpack.encode(progress))).decode()


def decode(text: str) -> RunProgress | None:
    """Return progress from text; None if another version of provml wrote it."""
    try:
        return msgspec.msgpack.decode(zlib.decompress(base64.b64decode(text)), type=RunProgress)
    except (ValueError, zlib.error):
        return None


def progress_triples(run: str, progress: RunProgress) -> list[str]:
    """Return the statements about the progress of a run."""
    node = f"<{node_of(run)}>"
    facts = {
        "run": f"<{run}>",
        "mark": f'"{progress.mark}"',
        "home": _quoted(progress.home),
        "events": str(progress.events),
        "writers": str(len(progress.journals)),
        "state": f'"{encode(progress)}"',
    }
    return [f"{node} <{ENDPOINT}{name}> {value} ." for name, value in facts.items()]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


def node_of(run: str) -> str:
    """Return the node of the progress of a run."""
    return f"{run}#progress"


def file_mark(fingerprint: str, sizes: Iterable[tuple[str, int]]) -> str:
    """Return a short text that changes when a file of a run, or the mapping, changes."""
    return hashlib.sha256(repr((fingerprint, sorted(sizes))).encode()).hexdigest()[:16]
