"""A small home with every kind of file, and everything that readers say about it."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path
from typing import Any

import provml
from provml.recording.context import CONTEXT, Limits
from provml.store import Store

PACKED, LOOSE, KILLED, GOOD = ("first", "second"), ("third", "fourth"), "killed", "third"
GRAPH = "urn:example:graph"


def record(home: Path, name: str) -> None:
    """Record a short run with data, batches, a model, an artifact and a hyperparameter."""
    with provml.record(name, home=home, strict=True, run=name, capture_environment=False) as run:
        data = run.dataset(name.encode(), name="train.csv", role="training")
        with run.training(using=data, learning_rate=0.1) as training:
            for epoch in training.epochs(2):
                for batch in epoch.batches(range(3)):
                    batch.measured(loss=1 / (1 + batch.index))
                epoch.measured(loss=1 / epoch.index)
            training.produced(b"weights of " + name.encode())
        run.text(f"text of {name}", "notes.txt")


def record_and_kill(home: Path, name: str) -> None:
    """Record a run in a child that kills itself after its mark was written: batches are left in its buffer."""
    pid = os.fork()
    if pid == 0:
        CONTEXT.limits = Limits(sync_seconds=0.01)
        run = provml.record(name, home=home, strict=True, run=name, capture_environment=False)
        epoch = run.training(learning_rate=0.1).epoch(1)
        while not list((home / "seals" / "open").glob("*.json")):
            pass
        for batch in epoch.batches(range(5)):
            batch.measured(loss=1.0)
            if batch.index == 4:
                os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)


def build(home: Path) -> Path:
    """Make a home with packed, loose and killed runs, annotations, artifacts, a loaded graph, an index, a snapshot."""
    for name in PACKED:
        record(home, name)
    with Store(home) as store:
        store.pack()
    for name in LOOSE:
        record(home, name)
    record_and_kill(home, KILLED)
    with Store(home) as store:
        store.tag("third", "good")
        store.note("first", "a note about a packed run")
        (home / "graph.ttl").write_text("<urn:s> <urn:p> 'o' .")
        store.load(home / "graph.ttl", graph=GRAPH)
        (home / "graph.ttl").unlink()
        store.sync()
        store.snapshot()
    return home


def answers(store: Store) -> dict[str, Any]:
    """Return everything that a store says: the graph, and what the commands show."""
    file = io.BytesIO()
    store.export(None, file, "nq")
    loaded = store.query(f"SELECT ?s ?p ?o {{ GRAPH <{GRAPH}> {{ ?s ?p ?o }} }}")
    return {
        "graph": sorted(file.getvalue().splitlines()),
        "runs": sorted((run.id, run.status, *run.tags) for run in store.runs()),
        "table": sorted(map(str, store.table().rows)),
        "artifacts": sorted((item.name, item.sha256) for item in store.artifacts()),
        "loaded": sorted(map(str, loaded.rows)),  # type: ignore[union-attr]  # no ASK query
        "ask": sorted(map(str, store.ask("epochs-by-loss", model=GOOD, run=GOOD).rows)),
    }


def difference(actual: dict[str, Any], expected: dict[str, Any]) -> str:
    """Return which answers differ and how; empty if none does."""
    texts = []
    for name in expected:
        if actual[name] != expected[name]:
            more = [item for item in actual[name] if item not in expected[name]]
            fewer = [item for item in expected[name] if item not in actual[name]]
            texts.append(f"{name}: {more[:3]} instead of {fewer[:3]}")
    return "; ".join(texts)
