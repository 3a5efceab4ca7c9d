"""SPARQL over HTTP: the requests of W3C, formats, caching, limits that end a query, and updates of loaded graphs."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlencode

import pyoxigraph as ox
import pytest
from starlette.testclient import TestClient

import provml
from provml.web.app import create_app
from provml.web.service import Service
from provml.web.settings import ServiceLimits, ServiceSettings, Tokens
from provml.web.snapshots import Snapshot, Snapshots
from web.conftest import HOST, READ, WRITE, bearer
from web.serving import SUITES, Server, running

PROTOCOL = SUITES / "sparql-protocol"
SELECT = "SELECT ?run ?status { ?run a provml:LearningProcessExecution ; provlake:status ?status } ORDER BY ?run"
SLOW = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f }"
CROSS_JOIN = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
needs_suite = pytest.mark.skipif(not PROTOCOL.exists(), reason=f"W3C's requests are not at {PROTOCOL}")


def run_suite(*options: str) -> tuple[int, str]:
    """Hold a service to the requests of W3C; return the number of passed tests, and the failures."""
    command = [sys.executable, str(PROTOCOL / "run.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    failures = "\n".join(line for line in lines if line.startswith("FAIL"))
    return sum(line.startswith("ok") for line in lines), failures + done.stderr


@needs_suite
def test_all_requests_of_w3c_are_answered_where_writing_is_allowed(tmp_path: Path):
    with running(tmp_path / "home", "--no-token", "--quiet") as server:
        url = f"{server.url}/sparql"
        assert run_suite("--query", url, "--update", url, "--gsp", f"{server.url}/graphs") == (50, "")


@needs_suite
def test_all_requests_of_w3c_are_answered_by_a_read_only_service(tmp_path: Path):
    with provml.open(tmp_path / "home", create=True) as store:
        for number in (1, 2, 3):
            name = f"http://kasei.us/2009/09/sparql/data/data{number}.rdf"
            store.load(PROTOCOL / f"data{number}.nt", graph=name)
    with running(tmp_path / "home", "--no-token", "--quiet", "--read-only") as server:
        assert run_suite("--query", f"{server.url}/sparql", "--read-only") == (30, "")


# ---- formats


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/sparql-results+json"),
        ("*/*", "application/sparql-results+json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "application/sparql-results+json"),
        ("application/sparql-results+xml", "application/sparql-results+xml"),
        ("text/csv;q=0.5, text/tab-separated-values", "text/tab-separated-values; charset=utf-8"),
        ("text/*", "text/csv; charset=utf-8"),
    ],
)
def test_the_format_of_rows_is_what_the_client_likes_best(reader: TestClient, accept: str, expected: str):
    answer = reader.get("/sparql", params={"query": SELECT}, headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, expected)
    assert answer.headers["vary"] == "Accept"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ttl", "text/turtle; charset=utf-8"),
        ("nt", "application/n-triples"),
        ("rdf", "application/rdf+xml"),
        ("jsonld", "application/ld+json"),
        ("trig", "application/trig"),
        ("nq", "application/n-quads"),
        ("n3", "text/n3; charset=utf-8"),
        ("text/turtle", "text/turtle; charset=utf-8"),
    ],
)
def test_a_graph_comes_in_every_format_by_parameter(reader: TestClient, name: str, expected: str):
    query = "CONSTRUCT { ?s provlake:status ?o } WHERE { ?s provlake:status ?o }"
    answer = reader.get("/sparql", params={"query": query, "format": name})
    assert answer.headers["content-type"] == expected
    fmt = ox.RdfFormat.from_media_type(expected.partition(";")[0])
    assert len(list(ox.parse(answer.content, format=fmt))) >= 2


@pytest.mark.parametrize(("name", "expected"), [("srj", "json"), ("srx", "xml")])
def test_rows_come_by_the_suffixes_of_their_files(reader: TestClient, name: str, expected: str):
    answer = reader.get("/sparql", params={"query": SELECT, "format": name})
    assert answer.headers["content-type"] == f"application/sparql-results+{expected}"


@pytest.mark.parametrize(
    ("query", "choice", "available"),
    [
        (SELECT, "turtle", "text/csv"),
        ("ASK { ?s ?p ?o }", "application/n-triples", "application/sparql-results+json"),
        ("CONSTRUCT WHERE { ?s provlake:status ?o }", "csv", "text/turtle"),
    ],
)
def test_a_format_that_cannot_hold_the_result_is_a_problem(reader: TestClient, query: str, choice: str, available: str):
    by_name = reader.get("/sparql", params={"query": query, "format": choice})
    accepted = {"turtle": "text/turtle", "csv": "text/csv"}.get(choice, choice)
    by_header = reader.get("/sparql", params={"query": query}, headers={"Accept": accepted})
    for answer in (by_name, by_header):
        assert (answer.status_code, answer.json()["code"]) == (406, "NotAcceptable")
        assert answer.headers["content-type"] == "application/problem+json"
        assert available in answer.json()["available"]


def test_an_unknown_format_is_a_problem(reader: TestClient):
    by_name = reader.get("/sparql", params={"query": SELECT, "format": "pdf"})
    assert (by_name.status_code, by_name.json()["code"]) == (400, "UnknownFormat")
    by_header = reader.get("/sparql", params={"query": SELECT}, headers={"Accept": "image/png"})
    assert (by_header.status_code, by_header.json()["code"]) == (406, "NotAcceptable")


def test_a_mistake_is_explained_as_on_the_command_line(reader: TestClient):
    answer = reader.post("/sparql", data={"query": "SELECT ?x { ?x provlake:statuss }"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "QueryError"
    assert answer.json()["line"] == 1


# ---- caching


def test_an_answer_is_not_sent_twice_until_something_is_recorded(client: TestClient, home: Path):
    first = client.get("/sparql", params={"query": SELECT})
    tag = {"If-None-Match": first.headers["etag"]}
    assert "last-modified" in first.headers
    assert client.get("/sparql", params={"query": SELECT}, headers=tag).status_code == 304
    other_format = client.get("/sparql", params={"query": SELECT, "format": "csv"}, headers=tag)
    assert other_format.status_code == 200
    with provml.record("flowers", home=home, run="wednesday", capture_environment=False):
        pass
    time.sleep(0.6)  # longer than a copy of the index is used although it is old
    second = client.get("/sparql", params={"query": SELECT}, headers=tag)
    assert second.status_code == 200
    assert len(second.json()["results"]["bindings"]) == len(first.json()["results"]["bindings"]) + 1


# ---- limits


def test_a_query_without_end_is_ended_at_the_time_limit(home: Path):
    with running(home, "--no-token", "--quiet", "--timeout", "0.5", "--workers", "1") as server:
        answer = server.send("GET", f"/sparql?query={quote(CROSS_JOIN)}")
        assert (answer.status, answer.json()["code"]) == (504, "QueryTimeout")
        assert server.send("GET", f"/sparql?query={quote('ASK {}')}").status == 200


def test_a_query_whose_client_has_gone_is_ended(home: Path):
    with running(home, "--no-token", "--quiet", "--timeout", "600", "--workers", "1") as server:
        assert server.send("GET", f"/sparql?query={quote('ASK {}')}").status == 200
        before = server.children()
        with pytest.raises(TimeoutError):
            _send_and_leave(server, CROSS_JOIN)
        other = "ASK { ?s ?p ?o }"  # not the same one, whose answer is cached
        assert server.send("GET", f"/sparql?query={quote(other)}").json()["boolean"] is True
        assert not set(before) & set(server.children())


def _send_and_leave(server: Server, query: str) -> None:
    connection = http.client.HTTPConnection(*server.address, timeout=1)
    try:
        connection.request("GET", f"/sparql?query={quote(query)}")
        connection.getresponse()
    finally:
        connection.close()


def test_too_many_queries_are_refused_and_told_when_to_come_back(home: Path):
    with running(home, "--no-token", "--quiet", "--timeout", "2", "--workers", "1") as server:
        statuses: list[tuple[int, str]] = []

        def ask(number: int) -> None:
            answer = server.send("GET", f"/sparql?query={quote(f'{CROSS_JOIN} # {number}')}")
            statuses.append((answer.status, answer.headers.get("retry-after", "")))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(136)]
        for thread in threads:
            thread.start()
        while len(statuses) < 7:  # 136 less the one that runs and the 128 that wait
            time.sleep(0.05)
        assert set(statuses[:7]) == {(503, "2")}
        assert server.send("GET", "/healthz").status == 200
        server.process.terminate()
        for thread in threads:
            thread.join()


async def ask_pool(service: Service, text: str) -> bytes:
    """Execute a query in a worker of the service, and return the answer as CSV."""
    request = {"kind": "query", "text": text, "prefixes": {}, "media_types": {"solutions": "text/csv"}}
    async with service.pool.execute(request) as answer:
        return await answer.read()


def test_equal_queries_that_wait_for_a_worker_take_one_place_and_are_executed_once(home: Path):
    settings = ServiceSettings(home, tokens=Tokens(READ, WRITE), limits=ServiceLimits(workers=1, queue=1))

    async def ask_five_times(service: Service) -> list[bytes]:
        async with service.running():
            await service.fresh()
            return await asyncio.gather(*(ask_pool(service, SLOW) for _ in range(5)))

    with Service(settings) as service:
        answers = asyncio.run(ask_five_times(service))
        assert service.pool.answered == 1
    assert len(set(answers)) == 1
    assert answers[0].startswith(b"n\r\n")


@pytest.mark.parametrize(("text", "seconds", "answered"), [(SLOW, 30.0, 2), (CROSS_JOIN, 0.5, 0)])
def test_equal_queries_that_wait_share_an_answer_while_the_index_changes(
    home: Path, monkeypatch: pytest.MonkeyPatch, text: str, seconds: float, answered: int
):
    acquire = Snapshots.acquire
    positions = itertools.count()

    async def acquire_changed(snapshots: Snapshots) -> Snapshot:
        snapshot = await acquire(snapshots)
        snapshot.position = f"position {next(positions)}"
        return snapshot

    monkeypatch.setattr(Snapshots, "acquire", acquire_changed)
    settings = ServiceSettings(
        home, tokens=Tokens(READ, WRITE), limits=ServiceLimits(workers=1, queue=1, query_seconds=seconds)
    )

    async def ask_six_times(service: Service) -> list[object]:
        async with service.running():
            first = asyncio.create_task(ask_pool(service, text))
            while not service.pool.running:
                await asyncio.sleep(0.01)
            others = [asyncio.create_task(ask_pool(service, text)) for _ in range(5)]
            return await asyncio.gather(first, *others, return_exceptions=True)

    with Service(settings) as service:
        answers = asyncio.run(ask_six_times(service))
        assert service.pool.answered == answered
        assert service.pool.killed == 2 - answered
        assert not service.pool._shared
    assert len({str(answer) for answer in answers}) == 1


def test_a_worker_with_a_large_heap_is_replaced(home: Path):
    limits = ServiceLimits(workers=1, idle_memory_bytes=1)
    settings = ServiceSettings(home, tokens=Tokens(READ, WRITE), limits=limits)
    with Service(settings) as service, TestClient(create_app(service), base_url=HOST, headers=bearer(READ)) as client:
        for query in ("ASK {}", "ASK { ?s ?p ?o }"):
            assert client.get("/sparql", params={"query": query}).json()["boolean"] is True
            assert service.pool.workers == set()
        assert (service.pool.answered, service.pool.killed) == (2, 0)


def test_a_query_that_needs_too_much_memory_is_ended(home: Path):
    limits = ServiceLimits(query_memory_bytes=1 << 30, workers=1)
    settings = ServiceSettings(home, tokens=Tokens(READ, WRITE), limits=limits)
    copies = " ".join(f"BIND(CONCAT({','.join([f'?x{n}'] * 10)}) AS ?x{n + 1})" for n in range(10))
    query = f"SELECT (STRLEN(?x10) AS ?n) {{ BIND('a' AS ?x0) {copies} }}"
    with Service(settings) as service, TestClient(create_app(service), base_url=HOST, headers=bearer(READ)) as client:
        answer = client.get("/sparql", params={"query": query})
        assert (answer.status_code, answer.json()["code"]) == (400, "QueryError")
        assert "memory" in answer.json()["detail"]
        assert client.get("/sparql", params={"query": "ASK {}"}).json()["boolean"] is True


def test_an_answer_that_is_too_large_is_cut(home: Path):
    limits = ServiceLimits(result_bytes=10_000)
    settings = ServiceSettings(home, tokens=Tokens(READ, WRITE), limits=limits)
    with Service(settings) as service, TestClient(create_app(service), base_url=HOST, headers=bearer(READ)) as client:
        answer = client.get("/sparql", params={"query": "SELECT * { ?s ?p ?o }"})
        assert (answer.status_code, answer.json()["code"]) == (413, "ResultTooLarge")


def test_a_text_that_is_too_long_is_refused(reader: TestClient):
    answer = reader.post("/sparql", content=b"#" * (2 << 20), headers={"Content-Type": "application/sparql-query"})
    assert (answer.status_code, answer.json()["code"]) == (413, "BodyTooLarge")


def test_a_large_answer_is_streamed_in_pieces(home: Path):
    query = "SELECT ?a ?d WHERE { ?a ?b ?c . ?d a ?f } LIMIT 60000"
    with running(home, "--no-token", "--quiet") as server:
        answer = server.send("GET", f"/sparql?{urlencode({'query': query, 'format': 'tsv'})}")
        assert answer.headers["transfer-encoding"] == "chunked"
        assert answer.body.count(b"\n") == 60001


def test_service_is_refused(reader: TestClient):
    query = "SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }"
    answer = reader.get("/sparql", params={"query": query})
    assert (answer.status_code, answer.json()["code"]) == (403, "ServiceNotAllowed")
    assert answer.json()["detail"].endswith("Remove SERVICE.")  # no client can allow it


# ---- updates


def test_an_update_needs_the_write_token(reader: TestClient):
    answer = reader.post("/sparql", data={"update": "CLEAR ALL"})
    assert (answer.status_code, answer.json()["code"]) == (403, "WriteTokenRequired")


def test_an_update_reads_everything_and_changes_only_loaded_graphs(client: TestClient, home: Path):
    count = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"

    def triples() -> str:
        answer = client.get("/sparql", params={"query": count})
        return answer.json()["results"]["bindings"][0]["n"]["value"]

    recorded = triples()
    update = """INSERT { GRAPH <http://example.org/good> { ?run <http://example.org/is> "good" } }
                WHERE { ?run provlake:status "FINISHED" }"""
    assert client.post("/sparql", data={"update": update}).status_code == 204
    ask = 'ASK { GRAPH <http://example.org/good> { <https://w3id.org/provml/run/monday> ?p "good" } }'
    assert client.get("/sparql", params={"query": ask}).json()["boolean"] is True
    status = 'INSERT DATA { <https://w3id.org/provml/run/monday> provlake:status "FINISHED" ; rdfs:comment "mine" }'
    assert client.post("/sparql", data={"update": status}).status_code == 204
    assert int(triples()) == int(recorded) + 1
    assert client.post("/sparql", data={"update": "DROP ALL"}).status_code == 204
    assert triples() == recorded
    assert client.get("/sparql", params={"query": ask}).json()["boolean"] is False
    ontology = "ASK { GRAPH <https://w3id.org/provml> { provml:Model a owl:Class } }"
    assert client.get("/sparql", params={"query": ontology}).json()["boolean"] is True


def test_the_ontology_cannot_be_changed(client: TestClient):
    update = "INSERT DATA { GRAPH <https://w3id.org/provml> { provml:Model rdfs:label 'x' } }"
    answer = client.post("/sparql", data={"update": update})
    assert (answer.status_code, answer.json()["code"]) == (403, "ProtectedGraph")


def test_load_is_refused(client: TestClient):
    answer = client.post("/sparql", data={"update": "LOAD <http://127.0.0.1:9/data.ttl>"})
    assert answer.status_code == 400
    assert "another machine" in answer.json()["detail"]


def test_an_update_sees_the_graphs_that_the_request_names(client: TestClient):
    data = """INSERT DATA { GRAPH <http://example.org/a> { <http://example.org/s> <http://example.org/p> 1 }
                            GRAPH <http://example.org/b> { <http://example.org/s> <http://example.org/p> 2 } }"""
    assert client.post("/sparql", data={"update": data}).status_code == 204
    update = "INSERT { GRAPH <http://example.org/c> { ?s ?p ?o } } WHERE { ?s ?p ?o }"
    url = "/sparql?using-graph-uri=http://example.org/b"
    direct = {"Content-Type": "application/sparql-update"}
    assert client.post(url, content=update, headers=direct).status_code == 204
    query = "SELECT ?o { GRAPH <http://example.org/c> { ?s ?p ?o } }"
    rows = client.get("/sparql", params={"query": query}).json()["results"]["bindings"]
    assert [row["o"]["value"] for row in rows] == ["2"]


def test_an_update_that_would_remove_recorded_triples_is_refused(client: TestClient):
    answer = client.post("/sparql", data={"update": "DELETE WHERE { ?run provlake:status ?status }"})
    assert (answer.status_code, answer.json()["code"]) == (403, "ProtectedGraph")
    assert "what a run recorded" in answer.json()["detail"]


def test_a_query_can_be_asked_with_inference(client: TestClient):
    data = "INSERT DATA { <http://example.org/ann> a prov:Person }"
    assert client.post("/sparql", data={"update": data}).status_code == 204
    ask = {"query": "ASK { <http://example.org/ann> a prov:Agent }"}
    assert client.get("/sparql", params=ask).json()["boolean"] is False
    assert client.get("/sparql", params=ask | {"inference": "true"}).json()["boolean"] is True
    hierarchy = {"query": "ASK { <http://example.org/ann> a/rdfs:subClassOf* prov:Agent }"}
    assert client.get("/sparql", params=hierarchy).json()["boolean"] is True


# ---- the description of the service


def test_the_service_describes_itself_with_its_graphs(reader: TestClient):
    answer = reader.get("/sparql", headers={"Accept": "application/n-triples"})
    triples = {str(quad.triple) for quad in ox.parse(answer.content, format=ox.RdfFormat.N_TRIPLES)}
    sd = "http://www.w3.org/ns/sparql-service-description#"
    assert any(f"<{sd}namedGraph>" in triple for triple in triples)
    assert any("void#triples" in triple for triple in triples)
    assert any(f"<{sd}endpoint> <http://127.0.0.1:8420/sparql>" in triple for triple in triples)
    assert json.dumps(sorted(triples)).count("http://www.w3.org/ns/formats/") >= 11
