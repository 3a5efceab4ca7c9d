"""From the journals of homes to an endpoint: the same graph, incrementally, through interruptions, and out again."""

from __future__ import annotations

import base64
import gzip
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyoxigraph as ox
import pytest
from click.testing import CliRunner
from engines import servers
from example_runs import seismic

import provml
from provml.cli import main
from provml.errors import GraphNotFound, ProtectedGraph, QueryError, QueryTimeout, ServiceError, ServiceUnreachable
from provml.paths import ontologies
from provml.rdf.namespaces import ONTOLOGY
from provml.store.endpoint import run_nodes
from provml.store.endpoint import sync as sync_module
from provml.store.endpoint.address import parse_endpoint
from provml.store.endpoint.bulk_files import write_bulk_files
from provml.store.endpoint.client import Endpoint, Limits
from provml.store.endpoint.store import EndpointStore
from provml.store.endpoint.sync import HomeSync

DEFAULT = ox.DefaultGraph()
QUICK = Limits(retry_seconds=20.0)


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("cycle")
    seismic.life_cycle().write(home)
    return home


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.oxigraph(tmp_path_factory.mktemp("oxigraph")) as server:
        yield server


@pytest.fixture
def store(server: servers.Server, request: pytest.FixtureRequest) -> Iterator[EndpointStore]:
    """An empty graph of runs, with a name of its own."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    with EndpointStore(f"sparql+{server.url}?graph=http://example.org/{name}") as store:
        yield store


def statements(store: provml.Store) -> set[str]:
    return {str(quad.triple) for quad in store.graph().quads_for_pattern(None, None, None, DEFAULT)}


def assert_same(store: provml.Store, *homes: Path) -> None:
    """The endpoint has exactly what an index over all the homes has."""
    merged = homes[0].parent / f"merged-{time.monotonic_ns()}"
    for home in homes:
        shutil.copytree(home / "runs", merged / "runs", dirs_exist_ok=True)
    with provml.open(merged) as local:
        assert statements(store) == statements(local)
    shutil.rmtree(merged)


def train(home: Path, name: str, epochs: int = 2, data: bytes = b"photos", **options: Any) -> None:
    with provml.record("flowers", model="alexnet", run=name, home=home, **options) as run:
        photos = run.dataset(data, name="photos.h5", role="training")
        with run.training(using=photos, learning_rate=0.1) as training:
            for epoch in training.epochs(epochs):
                epoch.measured(loss=1 / epoch.index)
            model = training.produced(f"weights of {name}".encode())
        with run.evaluation(of=model) as evaluation:
            evaluation.measured(accuracy=0.9)


# ---- the same store


def test_the_store_of_an_endpoint_is_that_of_the_home(store: EndpointStore, cycle: Path):
    assert HomeSync(cycle, store.endpoint).send().runs
    assert_same(store, cycle)
    with provml.open(cycle) as local:
        assert [info.id for info in store.runs()] == [info.id for info in local.runs()]
        assert [(i.status, i.error, i.seconds, i.events, i.parent) for i in store.runs()] == [
            (i.status, i.error, i.seconds, i.events, i.parent) for i in local.runs()
        ]
        assert str(store.table().rows) == str(local.table().rows)
        assert str(store.table(limit=3).rows) == str(local.table(limit=3).rows)
        assert store._repr_html_().count("<tr>") == local._repr_html_().count("<tr>")
        for run in ("l-1", "l-6"):
            assert {str(q.triple) for q in store.graph(run)} == {str(q.triple) for q in local.graph(run)}
        report = store.validate(None)
        assert sorted(report, key=str) == sorted(local.validate(None), key=str)
        assert report.scope is not None
        assert report.scope.label == f"all of {store.url}"
        assert str(store.compare("l-1", "l-2")) == str(local.compare("l-1", "l-2"))
        assert store.lineage("l-6").to_text() == local.lineage("l-6").to_text()
        assert store.read("https://w3id.org/provml/run/l-1") == local.read("https://w3id.org/provml/run/l-1")


def test_few_runs_are_listed_without_reading_the_others(
    store: EndpointStore, cycle: Path, monkeypatch: pytest.MonkeyPatch
):
    HomeSync(cycle, store.endpoint).send()
    rows: list[tuple[Any, ...]] = []
    query = store.endpoint.query

    def counting(*args: Any, **options: Any) -> Any:
        answer = [tuple(row) for row in query(*args, **options)]
        rows.extend(answer)
        return answer

    monkeypatch.setattr(store.endpoint, "query", counting)
    everything = store.runs()
    all_rows = len(rows)
    rows.clear()
    assert store.runs(2) == everything[:2]
    assert store.runs(0) == []
    assert 0 < len(rows) < all_rows / 3
    monkeypatch.setattr(run_nodes, "RUNS_IN_PAGE", 2)
    monkeypatch.setattr(run_nodes, "RUNS_IN_BATCH", 2)
    assert store.runs() == everything
    assert store.runs(3) == everything[:3]
    assert store.run("latest") == everything[0]


def test_exports_are_equal(store: EndpointStore, cycle: Path, tmp_path: Path):
    HomeSync(cycle, store.endpoint).send(["l-1"])
    with provml.open(cycle) as local:
        for opened, name in ((store, "remote.ttl"), (local, "local.ttl")):
            opened.export("l-1", tmp_path / name)
    assert (tmp_path / "remote.ttl").read_text() == (tmp_path / "local.ttl").read_text()


def test_a_file_is_loaded_in_chunks_and_twice_changes_nothing(store: EndpointStore, tmp_path: Path):
    lines = "".join(f"<urn:s{i}> <urn:p> _:b{i % 7} .\n" for i in range(60_000))
    (tmp_path / "a.nt").write_text(lines)
    assert store.load(tmp_path / "a.nt") == 60_000
    assert store.load(tmp_path / "a.nt") == 60_000
    rows = store.query("SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?o) AS ?nodes) { ?s <urn:p> ?o }").rows
    assert rows == [(60_000, 7)]


# ---- incremental


def test_graphs_of_provml_are_neither_listed_nor_removed(server: servers.Server, tmp_path: Path):
    train(tmp_path, "one")
    url, file = f"sparql+{server.url}?graph=http://example.org/", tmp_path / "one.nt"
    file.write_text('<http://example.org/a> <http://example.org/b> "c" .')
    with provml.open(f"{url}graphs") as store, provml.open(f"{url}graphs2") as other:
        assert isinstance(store, EndpointStore)
        assert isinstance(other, EndpointStore)
        for each in (store, other):
            HomeSync(tmp_path, each.endpoint).send()
        store.load(file, graph="http://example.org/graphs3")
        listed = {graph.graph for graph in store.graphs()}
        assert listed == set(store.loaded_graphs())
        assert {name for name in listed if name.startswith("http://example.org/graphs")} == {
            "http://example.org/graphs3"
        }
        assert ONTOLOGY not in listed
        for name in (
            ONTOLOGY,
            "http://example.org/graphs",
            "http://example.org/graphs2",
            "http://example.org/graphs2#progress",
        ):
            with pytest.raises(ProtectedGraph):
                store.load(file, graph=name, replace=True)
            with pytest.raises(GraphNotFound):
                store.unload(name)
        store.unload("http://example.org/graphs3")
        assert "http://example.org/graphs3" not in store.loaded_graphs()
        assert [info.id for info in other.runs()] == ["one"]


def test_only_what_is_new_is_sent(store: EndpointStore, tmp_path: Path):
    train(tmp_path / "home", "one")
    assert HomeSync(tmp_path / "home", store.endpoint).send().runs == ["one"]
    again = HomeSync(tmp_path / "home", store.endpoint).send()
    assert (again.runs, again.triples) == ([], 0)
    train(tmp_path / "home", "two", data=b"other")
    assert HomeSync(tmp_path / "home", store.endpoint).send().runs == ["two"]
    assert_same(store, tmp_path / "home")


def test_packed_runs_are_sent(store: EndpointStore, tmp_path: Path):
    home = tmp_path / "home"
    train(home, "one")
    assert HomeSync(home, store.endpoint).send().runs == ["one"]
    train(home, "two", data=b"other")
    with provml.open(home) as local:
        assert len(local.pack()) == 2
    assert HomeSync(home, store.endpoint).send().runs == ["two"]
    assert HomeSync(home, store.endpoint).send().runs == []
    with provml.open(home) as local:
        assert statements(store) == statements(local)
    report, _ = write_bulk_files(home, tmp_path / "bulk", "jena")
    assert sorted(report.runs) == ["one", "two"]


def test_a_running_training_is_sent_as_far_as_it_is(store: EndpointStore, tmp_path: Path):
    home = tmp_path / "home"
    with provml.record("flowers", model="alexnet", run="live", home=home) as run, run.training() as training:
        for epoch in training.epochs(3):
            epoch.measured(loss=1 / epoch.index)
            HomeSync(home, store.endpoint).send()
            assert store.run("live").status == "RUNNING"
            assert store.query("SELECT (MAX(?i) AS ?n) { ?s provml:sectionIndex ?i }").rows == [(epoch.index,)]
    HomeSync(home, store.endpoint).send()
    assert store.run("live").status == "FINISHED"
    assert_same(store, home)


def test_annotations_are_sent_again_when_they_change(store: EndpointStore, tmp_path: Path):
    home = tmp_path / "home"
    train(home, "one")
    with provml.open(home) as local:
        for change in (
            lambda: local.tag("one", "good", by="ann"),
            lambda: local.untag("one", "good", by="bob"),
            lambda: local.note("one", 'a "note"\nof two lines', by="ann"),
            lambda: local.rename("one", "first"),
        ):
            change()
            assert HomeSync(home, store.endpoint).send().runs == ["one"]
        assert store.annotations("one") == local.annotations("one")
        assert store.run("one").notes == local.run("one").notes
        assert (store.run("one").tags, store.run("one").name) == ((), "first")
    assert_same(store, home)


def test_many_homes_go_into_one_dataset(store: EndpointStore, tmp_path: Path):
    homes = [tmp_path / name for name in ("a", "b", "c")]
    train(homes[0], "one")
    train(homes[1], "two")
    shutil.copytree(homes[0], homes[2])  # a copy has nothing new
    reports = [HomeSync(home, store.endpoint).send() for home in homes]
    assert [report.runs for report in reports] == [["one"], ["two"], []]
    assert_same(store, *homes)


def test_an_older_copy_of_a_home_does_no_harm(store: EndpointStore, tmp_path: Path):
    train(tmp_path / "home", "one")
    old = tmp_path / "old"
    shutil.copytree(tmp_path / "home", old)
    journal = next((old / "runs" / "one").glob("*.jsonl"))
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:4]))
    HomeSync(tmp_path / "home", store.endpoint).send()
    assert HomeSync(old, store.endpoint).send().behind == ["one"]
    assert_same(store, tmp_path / "home")


def test_a_changed_mapping_sends_a_run_again(store: EndpointStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    train(tmp_path / "home", "one")
    monkeypatch.setattr(sync_module, "format_fingerprint", lambda: "older")
    HomeSync(tmp_path / "home", store.endpoint).send()
    monkeypatch.undo()
    assert HomeSync(tmp_path / "home", store.endpoint).send().runs == ["one"]
    assert HomeSync(tmp_path / "home", store.endpoint).send().runs == []
    assert_same(store, tmp_path / "home")


# ---- removal


def test_a_run_is_removed_with_what_no_other_run_states(store: EndpointStore, cycle: Path, tmp_path: Path):
    home = tmp_path / "home"
    shutil.copytree(cycle, home)
    HomeSync(home, store.endpoint).send()
    for run in ("l-1", "c-f3"):
        store.remove(run)
        shutil.rmtree(home / "runs" / run)
        assert_same(store, home)
    shutil.rmtree(home / "runs" / "p-f3-a")
    assert HomeSync(home, store.endpoint).send(prune=True).removed == ["p-f3-a"]
    assert_same(store, home)


def test_an_interrupted_removal_is_finished_by_the_next_sync(
    store: EndpointStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = tmp_path / "home"
    train(home, "one", epochs=300)
    HomeSync(home, store.endpoint).send()
    updates, update = iter(range(5)), Endpoint.update

    def fail_later(endpoint: Endpoint, sparql: str) -> None:
        if next(updates, None) is None:
            raise ServiceUnreachable("http://x", "no answer")
        update(endpoint, sparql)

    monkeypatch.setattr(Endpoint, "update", fail_later)
    with pytest.raises(ServiceUnreachable):
        store.remove("one")
    monkeypatch.undo()
    assert HomeSync(home, store.endpoint).send().runs == ["one"]
    assert_same(store, home)


# ---- interruptions


def test_a_server_that_is_killed_and_comes_back_has_everything_once(cycle: Path, tmp_path: Path):
    with servers.oxigraph(tmp_path / "data") as server:
        with Endpoint(parse_endpoint(f"sparql+{server.url}"), QUICK) as endpoint:
            load, pending = endpoint.load, [2000, 5000]
            job = HomeSync(cycle, endpoint, chunk_triples=1000, commit_triples=2500)

            def kill_then_load(*args: Any, **options: Any) -> None:
                if pending and job.report.triples >= pending[0]:  # the sync goes on: it waits for the server
                    pending.pop(0)
                    server.kill()
                    threading.Timer(0.5, server.start).start()
                load(*args, **options)

            endpoint.load = kill_then_load  # type: ignore[method-assign]
            job.send()
        assert not pending
        with EndpointStore(f"sparql+{server.url}") as store:
            assert_same(store, cycle)


def test_a_sync_goes_on_after_the_endpoint_went_away(cycle: Path, tmp_path: Path):
    with servers.oxigraph(tmp_path / "data") as server:
        with Endpoint(parse_endpoint(f"sparql+{server.url}"), Limits(retry_seconds=0.0)) as endpoint:
            load = endpoint.load
            job = HomeSync(cycle, endpoint, chunk_triples=500, commit_triples=2000)

            def kill_then_load(*args: Any, **options: Any) -> None:
                if job.report.triples > 5000:
                    server.kill()
                load(*args, **options)

            endpoint.load = kill_then_load  # type: ignore[method-assign]
            with pytest.raises(ServiceUnreachable):
                job.send()
        server.start()
        with EndpointStore(f"sparql+{server.url}") as store:
            report = HomeSync(cycle, store.endpoint).send()
            assert 0 < report.triples < 9761, "what was committed is not sent again"
            assert_same(store, cycle)


# ---- files for bulk loaders


def test_bulk_files_are_loaded_by_the_engine_and_a_sync_goes_on(cycle: Path, tmp_path: Path):
    home = tmp_path / "home"
    shutil.copytree(cycle, home)
    done = CliRunner().invoke(
        main, ["sync", "--files", str(tmp_path / "bulk"), "--engine", "oxigraph", "--home", str(home)]
    )
    assert done.exit_code == 0, done.output
    assert "oxigraph load" in done.output
    files = [argument for path in (tmp_path / "bulk").iterdir() for argument in ("--file", str(path))]
    load = [servers.oxigraph_program(), "load", "--location", str(tmp_path / "data"), *files]
    subprocess.run(load, check=True, capture_output=True)
    train(home, "later")
    with servers.oxigraph(tmp_path / "data") as server, EndpointStore(f"sparql+{server.url}") as store:
        assert HomeSync(home, store.endpoint).send().runs == ["later"]
        assert_same(store, home)


def test_bulk_files_need_an_empty_folder_and_a_known_engine(cycle: Path, tmp_path: Path):
    _, files = write_bulk_files(cycle, tmp_path / "bulk", "neptune")
    quads = gzip.decompress(files[0].read_bytes()).splitlines()
    assert all(line.count(b" <https://w3id.org/provml") for line in quads), "Neptune has no default graph"
    for arguments, message in (
        (["--files", str(tmp_path / "bulk")], "not empty"),
        (["--engine", "x", "--files", "y"], "jena"),
    ):
        done = CliRunner().invoke(main, ["sync", "--home", str(cycle), *arguments])
        assert done.exit_code == 2
        assert message in done.output


# ---- the command line, authentication and errors


def test_commands_take_an_endpoint(server: servers.Server, cycle: Path, monkeypatch: pytest.MonkeyPatch):
    url = f"sparql+{server.url}?graph=http://example.org/commands"
    run = CliRunner().invoke
    done = run(main, ["sync", "--to", server.url, "--home", str(cycle)])
    assert f"Write sparql+ before it: sparql+{server.url}" in done.output
    done = run(main, ["sync", "--to", url, "--home", str(cycle), "--run", "l-1", "--run", "p-f3-a"])
    assert (done.exit_code, "Sent 2 runs" in done.output) == (0, True), done.output
    listed = run(main, ["runs", "--store", url, "--format", "csv"]).output
    assert "l-1" in listed
    monkeypatch.setenv("PROVML_STORE", url)
    assert run(main, ["runs", "--format", "csv"]).output == listed
    with provml.open() as store:
        assert isinstance(store, EndpointStore)
    assert "l-1" in run(main, ["ask", "l4", "--dataset", "f3-a-train.h5"]).output
    assert run(main, ["remove", "-y", "l-1"]).output == "Deleted l-1\n"
    refused = run(main, ["tag", "p-f3-a", "x", "--store", url])
    assert refused.exit_code == 1
    assert "where the journals are" in refused.output
    assert run(main, ["sync", "--home", str(cycle)]).exit_code == 2
    for command in ("serve", "demo", "verify"):
        refused = run(main, [command, "--store", url])
        assert (refused.exit_code, "directory" in refused.output) == (1, True)


def start_sync(home: Path, url: str, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "provml", "sync", "--home", str(home), "--to", url, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_an_endpoint_that_starts_later_is_waited_for(tmp_path: Path):
    train(tmp_path / "home", "early")
    port = servers.free_port()
    url = f"sparql+http://127.0.0.1:{port}"
    with start_sync(tmp_path / "home", url, "--retry", "50") as process:
        assert process.stderr is not None
        message = process.stderr.readline()  # it has failed once
        (tmp_path / "server").mkdir()
        with servers.oxigraph(tmp_path / "server", port):
            output, errors = process.communicate(timeout=60)
            with provml.open(url) as store:
                assert [info.id for info in store.runs()] == ["early"]
    assert "connection refused" in message
    assert "Trying again for 50 s" in message
    assert (process.returncode, "Sent 1 run" in output, errors) == (0, True, "")


def test_without_retries_an_endpoint_that_is_away_is_an_error_at_once(tmp_path: Path):
    train(tmp_path, "early")
    with start_sync(tmp_path, f"sparql+http://127.0.0.1:{servers.free_port()}", "--retry", "0") as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, "Trying again" in errors) == (1, "", False)
    assert "connection refused" in errors


def test_runs_are_not_recorded_at_an_endpoint(monkeypatch: pytest.MonkeyPatch):
    url = "sparql+http://127.0.0.1:9/ds"
    with pytest.raises(ServiceError, match="provml sync --to URL"):
        provml.record("flowers", home=url)
    monkeypatch.setenv("PROVML_HOME", url)
    with pytest.raises(ServiceError, match="provml sync --to URL"):
        provml.record("flowers")


class Gate(BaseHTTPRequestHandler):
    """A proxy that asks for credentials, and is busy at first."""

    accepted = ""
    target = ""
    busy = 0
    answers_as: tuple[str, bytes] | None = None
    """A type and a content that it answers in place of the target."""

    def log_message(self, *args: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, content, kind = 401, b"who are you?", "text/plain"
        if self.headers.get("Authorization") == self.accepted:
            status, content = 503, b"busy"
            if Gate.busy == 0:
                headers = {name: self.headers[name] for name in ("Content-Type", "Accept") if name in self.headers}
                with urlopen(Request(f"{self.target}{self.path}", body, headers), timeout=30) as response:
                    status, content, kind = response.status, response.read(), response.headers["Content-Type"]
            else:
                Gate.busy -= 1
        if self.answers_as is not None:
            status, (kind, content) = 200, self.answers_as
        self.send_response(status)
        self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def gate(server: servers.Server) -> Iterator[str]:
    Gate.target = server.url
    with ThreadingHTTPServer(("127.0.0.1", 0), Gate) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{proxy.server_address[1]}/query"
        proxy.shutdown()


def test_basic_and_bearer_authentication(gate: str, monkeypatch: pytest.MonkeyPatch):
    query = "SELECT (1 AS ?one) {}"
    Gate.accepted = "Bearer secret-token"
    with provml.open(f"sparql+http://{gate}", token="secret-token") as store:
        assert store.query(query).rows == [(1,)]
    monkeypatch.setenv("PROVML_TOKEN", "secret-token")
    with provml.open(f"sparql+http://{gate}") as store:
        assert store.query(query).rows == [(1,)]
    Gate.accepted = f"Basic {base64.b64encode(b'ann:pass word').decode()}"
    with provml.open(f"sparql+http://ann:pass%20word@{gate}") as store:
        assert store.query(query).rows == [(1,)]
        assert "pass" not in f"{store!r}{store.url}"
    with pytest.raises(ServiceError, match="refused access") as refused:
        provml.open(f"sparql+http://{gate}", token="wrong-token")
    assert "wrong-token" not in str(refused.value)


def test_an_endpoint_that_is_busy_at_first_is_waited_for(gate: str, tmp_path: Path):
    train(tmp_path, "busy")
    Gate.accepted, Gate.busy = "Basic YW5uOng=", 2
    url = f"sparql+http://ann:x@{gate}?graph=http://example.org/busy&engine=oxigraph"
    with start_sync(tmp_path, url.replace("/query?", "?")) as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, "Sent 1 run" in output) == (0, True), errors
    assert errors.count("busy. Trying again for 30 s") == 1


def test_a_busy_endpoint_is_asked_again(gate: str):
    Gate.accepted = "Bearer t"
    with provml.open(f"sparql+http://{gate}", token="t") as store:
        Gate.busy = 2
        assert store.query("ASK {}") is True
        assert Gate.busy == 0


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("text/html", b"<h1>Please log in</h1>"),
        ("application/json", b'{"ok": true}'),
        ("application/sparql-results+json", b""),
    ],
)
def test_a_server_that_answers_something_else_is_no_endpoint(
    gate: str, monkeypatch: pytest.MonkeyPatch, kind: str, content: bytes
):
    monkeypatch.setattr(Gate, "answers_as", (kind, content))
    with pytest.raises(ServiceError, match="no SPARQL endpoint answers there"):
        provml.open(f"sparql+http://{gate}")


def test_results_that_a_server_calls_json_are_read(gate: str, monkeypatch: pytest.MonkeyPatch):
    rows = b'{"head": {"vars": ["n"]}, "results": {"bindings": [{"n": {"type": "literal", "value": "one"}}]}}'
    monkeypatch.setattr(Gate, "answers_as", ("application/json", rows))
    with provml.open(f"sparql+http://{gate}") as store:
        assert store.query("SELECT ?n {}").rows == [("one",)]


def test_errors_say_what_to_do(server: servers.Server, tmp_path: Path):
    for url, message in (
        ("sparql+http://127.0.0.1:9/ds", "Check the URL of the dataset"),
        ("sparql+ftp://host/ds", "sparql\\+https://host/dataset"),
        ("sparql+http:///ds", "sparql\\+https://host/dataset"),
        ("sparql+http://host:port/ds", "sparql\\+https://host/dataset"),
        (f"sparql+{server.url}/nothing/here", "no SPARQL endpoint answers there"),
        (f"sparql+{server.url}?engine=oracle", "unknown engine 'oracle'. Use one of oxigraph, jena"),
        (f"sparql+{server.url}?graph=not an iri", "Pass an absolute IRI"),
    ):
        with pytest.raises(ServiceError, match=message):
            provml.open(url)
    with pytest.raises(ServiceError, match=f"that of a SPARQL endpoint is sparql.{server.url}"):
        provml.open(server.url)
    with provml.open(f"sparql+{server.url}") as store:
        with pytest.raises(QueryError, match="reported this"):
            store.endpoint.query("SELECT ?x { ?x")
        for name in ("verify", "rebuild", "snapshot", "sync_in_background", "pack", "unpack"):
            with pytest.raises(ServiceError, match="where the journals are"):
                getattr(store, name)()
        store.load(ontologies() / "provml-dl.ttl")
        slow = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
        with pytest.raises(QueryTimeout):
            store.query(slow, timeout=0.2)
    with pytest.raises(ValueError, match="closed"):
        store.runs()
