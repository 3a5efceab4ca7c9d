"""Recorded exchanges of real clients, and ways to send them again."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import provml
from provml.exchange.openlineage import run_id_of
from provml.exchange.provlake import workflow_of
from provml.journal import events
from provml.store import Store
from provml.web.ingest.dfanalyzer import DataflowSource, source_key
from provml.web.ingest.openlineage import JobRunSource
from provml.web.ingest.provlake import WorkflowSource, messages_of
from provml.web.ingest.received import Received
from provml.web.ingest.translation import Ingest
from provml.web.service import Service

SUITE = Path(os.environ.get("PROVML_SUITES") or Path(__file__).parents[4] / "shared" / "suites") / "wire"
HOST = "http://127.0.0.1:8420"
Exchange = dict[str, Any]


def recorded(name: str) -> list[Exchange]:
    """Return the exchanges of a scenario, such as `dfanalyzer/dnnprov-training`."""
    if not SUITE.exists():
        pytest.skip(f"the recorded exchanges are not at {SUITE} (set PROVML_SUITES)")
    return [json.loads(line) for line in (SUITE / f"{name}.jsonl").read_text().splitlines()]


def scenarios(client: str) -> list[str]:
    """Return the names of the recorded scenarios of a client."""
    return [f"{client}/{path.stem}" for path in sorted((SUITE / client).glob("*.jsonl"))]


def body_of(exchange: Exchange) -> bytes:
    """Return the body of a recorded request."""
    body = exchange["body"]
    if "json" in body:
        return json.dumps(body["json"]).encode()
    return base64.b64decode(body["base64"]) if "base64" in body else body.get("text", "").encode()


def send(client: TestClient, exchange: Exchange, *, text: Callable[[str], str] = str) -> Any:
    """Send a recorded request as it came; `text` replaces ids in it."""
    url = HOST + text(exchange["path"]) + (f"?{text(exchange['query'])}" if exchange["query"] else "")
    body = body_of(exchange)
    if "json" in exchange["body"]:
        body = text(body.decode()).encode()
    headers = {"Content-Type": exchange["headers"].get("content-type", "application/json")}
    return client.request(exchange["method"], url, content=body or None, headers=headers)


def graph(home: Path) -> set[tuple[str, ...]]:
    """Return the triples of a home."""
    with provml.open(home, create=True) as store:
        return {tuple(map(str, row)) for row in store.query("SELECT ?s ?p ?o WHERE { ?s ?p ?o }")}


@contextlib.contextmanager
def opened(place: Path | Service) -> Iterator[Store]:
    """Open a home; or use the store of a service, after it has translated and indexed what is there."""
    if isinstance(place, Service):
        place.sync()
        yield place.store
    else:
        with provml.open(place) as store:
            yield store


def rows(place: Path | Service, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query over a home."""
    with opened(place) as store:
        return [tuple(row) for row in store.query(query)]


def statuses(place: Path | Service) -> dict[str, str]:
    """Return the status of each run by its name."""
    with opened(place) as store:
        return {run.name: run.status for run in store.runs()}


def all_events(place: Path | Service) -> list[events.AnyEvent]:
    """Return the events of all runs."""
    with opened(place) as store:
        paths = sorted(store.home.glob("runs/*/*.jsonl"))
        return [events.decode(line) for path in paths for line in path.read_bytes().splitlines()]


# ---- translation without a service


class Clock:
    """A clock that stands at the time of the last request."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def new_ingest(home: Path, client: str, clock: Clock | None = None) -> Ingest[Any]:
    """Return what translates the requests of a client."""
    sources: dict[str, Callable[[str], Any]] = {
        "dfanalyzer": lambda key: DataflowSource(),
        "provlake": lambda key: WorkflowSource(),
        "openlineage": lambda key: JobRunSource(),
    }
    return Ingest(home, client, sources[client], clock=clock or Clock())


def requests_of(client: str, exchanges: list[Exchange]) -> Iterator[tuple[str, Received]]:
    """Yield the source and the request of each exchange that records something."""
    for exchange in exchanges:
        body = exchange["body"].get("json")
        kind = re.search(r"(dataflow|task)/json|(retrospective|prospective)-|(lineage)", exchange["path"])
        assert kind is not None, exchange["path"]
        action = "event" if kind[3] else kind[1] or kind[2]
        if client == "dfanalyzer":
            source = source_key(body)
        elif client == "provlake":
            source = workflow_of(messages_of(body)[0])
        else:
            source = run_id_of(body) or "static"
        agent = exchange["headers"].get("user-agent", "")
        yield source, Received(exchange["t"], action, body, client="node-17", agent=agent)


def feed(ingest: Ingest[Any], client: str, exchanges: list[Exchange], clock: Clock, *, translates: bool = True) -> None:
    """Keep and translate recorded requests, at the times at which they came."""
    for source, request in requests_of(client, exchanges):
        clock.now = max(clock.now, request.time)
        ingest.receive(source, request)
        if translates:
            ingest.translate(at_once=True)


def translated(home: Path, client: str, exchanges: list[Exchange], *, silence: float = 0.0) -> Path:
    """Return a home with the runs of recorded requests, `silence` seconds after the last of them."""
    clock = Clock()
    ingest = new_ingest(home, client, clock)
    feed(ingest, client, exchanges, clock, translates=False)
    clock.now += silence
    ingest.finish()
    return home
