"""The defences of a service: each attack of a list is tried, and refused."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import gzip
import http.client
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.requests import HTTPConnection, Request
from starlette.routing import Route
from starlette.testclient import TestClient

from provml import web as web_package
from provml.errors import FileFormatError
from provml.store import query_worker
from provml.web import access_log
from provml.web.app import create_app
from provml.web.command import check
from provml.web.log_format import LogFormatter
from provml.web.problems import Problem
from provml.web.routing import ServiceRoute, read_body
from provml.web.service import Service
from provml.web.settings import ServiceLimits, ServiceSettings, Tokens
from web.conftest import HOST, READ, WRITE, bearer
from web.serving import Server, running

EVIL = "http://evil.example"
SIMPLE_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
"""Types that a form of any web page can send without asking first."""


@pytest.fixture(scope="module")
def server(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real service with tokens."""
    home = tmp_path_factory.mktemp("attacked") / "home"
    shutil.copytree(recorded, home)
    env = {"PROVML_READ_TOKEN": READ, "PROVML_WRITE_TOKEN": WRITE}
    with running(home, env=env) as server:
        yield server


def raw(server: Server, data: bytes) -> bytes:
    """Send bytes and return what comes back until the end of the connection."""
    with socket.create_connection(server.address, timeout=10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


# ---- who may call: hosts, origins, tokens


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8420", "127.0.0.1.evil.org", "localhost@evil.org", ""])
@pytest.mark.parametrize(("method", "path"), [("GET", "/healthz"), ("GET", "/nowhere"), ("POST", "/sparql")])
def test_a_foreign_host_is_refused(client: TestClient, host: str, method: str, path: str):
    assert client.request(method, path, headers={"Host": host}).status_code == 421


def test_a_foreign_host_gets_no_stream(client: TestClient):
    headers = {"Host": "evil.example", "Accept": "text/event-stream"}
    assert client.get("/api/v1/runs/monday/events", headers=headers).status_code == 421


def test_a_request_without_host_is_refused(server: Server):
    assert b"421" in raw(server, b"GET /healthz HTTP/1.0\r\n\r\n").split(b"\r\n")[0]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8420"])
def test_the_own_host_is_answered(client: TestClient, host: str):
    answer = client.get("/healthz", headers={"Host": host})
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def unsafe_routes(client: TestClient) -> list[tuple[str, ServiceRoute]]:
    """Return the methods and routes that can change something."""
    routes = [route for route in client.app.routes if isinstance(route, ServiceRoute)]  # type: ignore[attr-defined]
    return [(m, route) for route in routes for m in route.methods or () if m in ("POST", "PUT", "PATCH", "DELETE")]


def test_no_page_of_another_origin_can_write(client: TestClient):
    routes = unsafe_routes(client)
    assert len(routes) > 5
    for method, route in routes:
        path = re.sub(r"\{\w+(:\w+)?\}", "x", route.path)
        for origin in ({"Origin": EVIL}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            for content_type in (*SIMPLE_TYPES, "application/json"):
                answer = client.request(method, path, content=b"x", headers={**origin, "Content-Type": content_type})
                assert (answer.status_code, answer.json()["code"]) == (403, "ForeignOrigin"), f"{method} {path}"


def test_other_ports_of_this_machine_are_other_origins(client: TestClient):
    headers = {"Origin": "http://127.0.0.1:9999", "Sec-Fetch-Site": "same-site"}
    assert client.post("/sparql", data={"query": "ASK {}"}, headers=headers).status_code == 403
    assert client.post("/sparql", data={"query": "ASK {}"}, headers={"Origin": HOST}).status_code == 200


def test_nothing_is_written_by_a_request_that_a_form_can_send(client: TestClient):
    """Only SPARQL, graphs and queries take such bodies: they need a token, which a form cannot send. So do the forms of
    the viewer, which need what only its own pages contain.
    """
    forms = {"/runs/{run}", "/build"}
    for method, route in unsafe_routes(client):
        if route.path.startswith("/query_interface"):  # the form of DfAnalyzer's own pages; it only reads
            assert route.access == "read"
            continue
        if route.path in forms:
            answer = client.post(route.path.format(run="monday"), data={"action": "tag", "text": "x", "name": "x"})
            assert (answer.status_code, "not from a page" in answer.text) == (403, True), route.path
            continue
        if method == "POST" and not route.path.startswith(("/sparql", "/graphs")):
            assert route.content_types, f"{route.path} takes any type"
            assert not set(route.content_types) & set(SIMPLE_TYPES), route.path


def test_a_proxy_may_change_the_host(home: Path):
    settings = ServiceSettings(home, tokens=Tokens(READ, WRITE), base_url="https://lab.example")
    with Service(settings) as service, TestClient(create_app(service), base_url=HOST, headers=bearer(WRITE)) as client:
        for origin, status in (("https://lab.example", 200), ("https://evil.example", 403), ("", 403)):
            assert client.post("/sparql", data={"query": "ASK {}"}, headers={"Origin": origin}).status_code == status
        link = client.get(f"/login?ticket={service.guard.new_ticket()}", follow_redirects=False)
        assert "Secure" in link.headers["set-cookie"]


@pytest.mark.parametrize("address", ["https://lab.example/prov", "lab.example", "ftp://lab.example", "https://"])
def test_an_address_that_no_page_could_use_is_refused(home: Path, address: str):
    with pytest.raises(FileFormatError, match="without a path"):
        check(ServiceSettings(home, base_url=address))


def test_no_page_of_another_origin_can_read(client: TestClient):
    answer = client.get("/api/v1/runs", headers={"Origin": EVIL})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert client.options("/api/v1/runs", headers={"Origin": EVIL}).status_code == 405


def test_an_allowed_origin_can_read(home: Path):
    settings = ServiceSettings(home, tokens=Tokens(READ, WRITE), cors_origins=("https://lab.example",))
    with Service(settings) as service, TestClient(create_app(service), base_url=HOST, headers=bearer(READ)) as client:
        answer = client.get("/api/v1/runs", headers={"Origin": "https://lab.example"})
        assert answer.headers["access-control-allow-origin"] == "https://lab.example"
        assert "Origin" in answer.headers["vary"]
        assert "access-control-allow-credentials" not in answer.headers
        asked = {"Origin": "https://lab.example", "Access-Control-Request-Method": "POST"}
        assert client.options("/sparql", headers=asked).status_code == 204
        assert "access-control-allow-origin" not in client.get("/api/v1/runs", headers={"Origin": EVIL}).headers


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer wrong", "Basic !!!", "Basic " + base64.b64encode(b"x:wrong").decode(), "Digest x"],
)
def test_every_route_but_a_few_needs_a_token(client: TestClient, authorization: str):
    public = {"/healthz", "/login", "/api/docs.css", "/api/v1/events.schema.json", "/static/x", "/favicon.ico"}
    for route in client.app.routes:  # type: ignore[attr-defined]
        assert isinstance(route, ServiceRoute), f"{route} states no access"
        assert isinstance(route, Route)
        path = re.sub(r"\{\w+(:\w+)?\}", "x", route.path)
        method = min(route.methods or {"GET"})
        answer = client.request(method, path, headers={"Authorization": authorization})
        if route.access == "none":
            assert path in public
        else:
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("authorization", "access"),
    [
        (f"Bearer {READ}", "read"),
        (f"bearer {WRITE}", "write"),
        ("Basic " + base64.b64encode(f"anyone:{WRITE}".encode()).decode(), "write"),
        ("Basic " + base64.b64encode(f"{READ}:".encode()).decode(), "read"),
    ],
)
def test_a_token_is_taken_as_bearer_and_as_basic_password(client: TestClient, authorization: str, access: str):
    assert client.get("/api/v1/status", headers={"Authorization": authorization}).json()["access"] == access


def test_a_ticket_is_swapped_once_for_a_cookie(service: Service):
    with TestClient(create_app(service), base_url=HOST) as browser:
        ticket = service.guard.new_ticket()
        answer = browser.get(f"/login?ticket={ticket}", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("provml-8420=")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert browser.get("/api/v1/status").json()["access"] == "write"
        browser.cookies.clear()
        assert browser.get(f"/login?ticket={ticket}").status_code == 403
        assert browser.get("/login").status_code == 403
        for forged in ("write.9999999999.00", "write.1." + "0" * 64, "x", "write..", "read.x.y"):
            assert browser.get("/api/v1/status", headers={"Cookie": f"provml-8420={forged}"}).status_code == 401


def test_the_owner_of_a_run_is_named_without_its_token(service: Service):
    def owner(token: str) -> str:
        scope = {"type": "http", "headers": [(b"authorization", f"Bearer {token}".encode())]}
        return service.guard.owner(HTTPConnection(scope))

    assert owner(WRITE) != owner(READ)
    assert WRITE not in owner(WRITE)


# ---- paths


@pytest.mark.parametrize(
    "name",
    [
        *("..", "../..", "%2e%2e", "%252e%252e", "..%2f..%2fetc%2fpasswd", "..%5c..%5cpasswd", "%00", "//etc/passwd"),
        *("monday%00", "x" * 300, "MONDAY%2f", "%ef%bc%8e%ef%bc%8e", "C:%5c", "...", "%2e", "monday%2f..%2ftuesday"),
    ],
)
@pytest.mark.parametrize("template", ["/api/v1/runs/{}/events", "/api/v1/runs/{}", "/api/v1/artifacts/{}"])
def test_a_path_never_leaves_the_home(server: Server, template: str, name: str):
    answer = server.send("GET", template.format(name), bearer(READ))
    assert answer.status in (400, 404, 307)
    assert b"root:" not in answer.body


def test_an_artifact_that_is_a_link_is_not_followed(client: TestClient, home: Path):
    digest = "ab" + "0" * 62
    folder = home / "artifacts" / "ab"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / digest).symlink_to("/etc/passwd")
    assert client.get(f"/api/v1/artifacts/{digest}").status_code == 404


def test_a_path_among_parameters_is_never_opened(client: TestClient, tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # opening it would wait for a writer that never comes
    for path in (str(pipe), "/dev/zero", "/etc/passwd"):
        quoted = quote(path, safe="")
        for url in (f"lineage?subject={quoted}", f"ask/models-from-dataset?dataset={quoted}", f"runs/{quoted}"):
            assert client.get(f"/api/v1/{url}").status_code in (400, 404)
    digest_questions = [q for q in client.get("/api/v1/questions").json()["questions"] for p in q["parameters"]]
    for question in {q["name"]: q for q in digest_questions}.values():
        values = {p["name"]: str(pipe) for p in question["parameters"] if p["type"] in ("iri", "string")}
        assert client.get(question["url"], params=values).status_code in (200, 400, 404)


# ---- no calls to other machines


def test_nothing_is_fetched(client: TestClient):
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
    graph = "/graphs?graph=http://example.org/g"
    client.get("/sparql", params={"query": f"SELECT * {{ SERVICE SILENT <{url}> {{ ?s ?p ?o }} }}"})
    client.get("/sparql", params={"query": f"SELECT * FROM <{url}> {{ ?s ?p ?o }}"})
    client.post("/sparql", data={"update": f"LOAD SILENT <{url}> INTO GRAPH <{url}>"})
    context = f'{{"@context": "{url}", "@id": "http://example.org/a", "name": "b"}}'
    answer = client.put(graph, content=context, headers={"Content-Type": "application/ld+json"})
    assert (answer.status_code, "nothing is fetched" in answer.json()["detail"]) == (400, True)
    entity = f'<!DOCTYPE r [<!ENTITY e SYSTEM "{url}">]>'
    rdf = f'{entity}<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><a>&e;</a></rdf:RDF>'
    client.put(graph, content=rdf, headers={"Content-Type": "application/rdf+xml"})
    turtle = f"<http://example.org/o> <http://www.w3.org/2002/07/owl#imports> <{url}> ."
    assert client.put(graph, content=turtle, headers={"Content-Type": "text/turtle"}).status_code == 201
    listener.settimeout(0.3)
    with pytest.raises(TimeoutError):
        listener.accept()
    listener.close()


# ---- bodies


def test_a_body_is_limited_also_after_inflating(client: TestClient):
    url = "/api/v1/runs/monday/annotations"
    bomb = gzip.compress(b" " * (64 << 20))
    assert len(bomb) < 100_000
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert client.post(url, content=bomb, headers=headers).status_code == 413
    small = gzip.compress(b'{"kind": "tag", "text": "x"}')
    assert client.post(url, content=small, headers=headers).status_code == 201
    assert client.post(url, content=small[:-9], headers=headers).status_code == 400
    assert client.post(url, content=b"plain", headers=headers).status_code == 400
    assert client.post(url, content=small, headers={**headers, "Content-Encoding": "br"}).status_code == 415


def test_a_body_in_chunks_is_limited(server: Server):
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    headers = {**bearer(WRITE), "Content-Type": "application/sparql-query", "Transfer-Encoding": "chunked"}
    pieces = (b"#" * 65536 for _ in range(64))
    with contextlib.closing(connection):
        try:
            connection.request("POST", "/sparql", pieces, headers, encode_chunked=True)
            status = connection.getresponse().status
        except ConnectionError:
            return  # the service has hung up in the middle, which is as good
        assert status == 413


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space"), OSError("IO error: No space left on device: While appending to file")]
)
def test_a_full_disk_is_no_error_of_the_service(error: OSError):
    problem = Problem.of(error)
    assert (problem.status, problem.code, problem.headers) == (507, "DiskFull", {"Retry-After": "30"})
    assert Problem.of(OSError(errno.EIO, "Input/output error")).status == 500


def test_nested_json_is_refused(client: TestClient):
    body = b"[" * 100_000 + b"]" * 100_000
    answer = client.post("/api/v1/runs/monday/annotations", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)


def test_a_slow_body_is_not_waited_for(home: Path):
    limits = ServiceLimits(body_seconds=0.2)
    settings = ServiceSettings(home, tokens=Tokens(READ, WRITE), limits=limits)
    with Service(settings) as service:
        app = create_app(service)

        async def receive() -> dict[str, object]:
            await asyncio.sleep(60)
            return {}

        scope = {"type": "http", "app": app, "headers": [], "method": "POST", "path": "/", "state": {}}
        request = Request(scope, receive)
        request.state.route = app.routes[0]
        with pytest.raises(Exception, match=r"No byte of the body came for 0\.2 s"):
            asyncio.run(read_body(request))


# ---- odd HTTP


def test_two_lengths_are_refused(server: Server):
    body = (
        b"POST /sparql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    assert raw(server, body).split(b"\r\n")[0].split()[1] == b"400"


def test_the_host_of_a_whole_address_is_not_trusted(server: Server):
    for target, host, statuses in (
        (b"http://evil.example/healthz", b"evil.example", (b"400", b"421")),
        (b"http://evil.example/healthz", b"127.0.0.1", (b"404", b"421")),  # the target counts, not the header
        (b"http://127.0.0.1/healthz", b"127.0.0.1", (b"200", b"404")),
    ):
        request = b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
        assert raw(server, request).split(b"\r\n")[0].split()[1] in statuses


def test_many_headers_are_refused_and_a_head_without_end_is_not_collected(server: Server):
    start = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    assert raw(server, start + b"X-Long: " + b"a" * 70_000 + b"\r\n\r\n").split()[1] in (b"400", b"431")
    with socket.create_connection(server.address, timeout=10) as connection, pytest.raises(OSError):  # noqa: PT012
        connection.sendall(start)
        for _ in range(1000):  # 100 MB, if nobody closes the connection
            connection.sendall(b"X-More: " + b"a" * 100_000 + b"\r\n")


def test_two_hosts_are_refused(server: Server):
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert raw(server, request).split(b"\r\n")[0].split()[1] in (b"400", b"421")


def test_slashes_are_merged_only_where_a_route_asks_for_it(server: Server):
    assert server.send("GET", "//healthz").status == 404
    assert server.send("GET", "/api//v1/runs", bearer(READ)).status == 404


# ---- answers


def test_every_answer_has_the_security_headers(client: TestClient):
    for path in ("/healthz", "/nowhere", "/api/v1/runs", "/api/docs", "/sparql?query=x"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
    assert client.get("/healthz", headers={"Host": "evil.example"}).headers["x-content-type-options"] == "nosniff"


def test_an_error_of_the_service_tells_nothing_about_it(service: Service, client: TestClient, monkeypatch):
    monkeypatch.setattr(service.store, "table", lambda *a, **k: 1 / 0)
    answer = client.get("/api/v1/runs")
    assert (answer.status_code, answer.json()["code"]) == (500, "InternalError")
    assert "ZeroDivision" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_only_graphs_can_be_deleted_over_the_wire(client: TestClient):
    deleting = {route.path for method, route in unsafe_routes(client) if method == "DELETE"}
    assert deleting <= {"/graphs", "/graphs/{name:path}", "/mcp"}, "DELETE /mcp ends a session of an assistant"


# ---- logs and code


def test_the_log_is_printable_and_has_no_tokens(server: Server):
    server.send("GET", "/api/v1/runs%0d%0aINFO%20all%20is%20well", bearer(READ))
    server.send("GET", f"/login?ticket={'t' * 30}")
    server.send("GET", "/" + "a" * 5000)
    for number in range(3):
        path = f"/api/v1/runs/r{number}%0aINFO%20all%20is%20well%1b%5b31m/journals/main"
        assert server.send("PUT", path, {"Content-Type": "application/x-ndjson"}, b"x").status == 401
    server.send("GET", f"/sparql?query={quote('ASK { <http://example.org/secret-query> ?p ?o }')}", bearer(READ))
    deadline = time.monotonic() + 60
    while "GET /sparql" not in (log := server.log.read_text()):  # written after the answer was sent
        assert time.monotonic() < deadline, log
        time.sleep(0.02)
    assert "\\r\\nINFO all is well" in log
    assert not [line for line in log.splitlines() if line.startswith("INFO all is well")]
    assert log.count("REFUSED 401: a journal request") == 1  # not once for each name
    assert "\x1b" not in log
    assert max(map(len, log.splitlines())) < 500
    for secret in (READ, WRITE, "t" * 30, "secret-query"):
        assert secret not in log


def test_a_path_in_the_log_is_short_and_escaped():
    assert access_log.printable("/a\x1b[31m\n" + "x" * 300).startswith("/a\\x1b[31m\\n")
    assert len(access_log.printable("x" * 10_000)) < 250


def test_a_record_is_a_line_of_the_log_and_the_rest_is_indented():
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s failed\x1b[31m", ("a\n2026 all is well",), None)
    assert LogFormatter("%(message)s").format(record) == "a\n    2026 all is well failed\\x1b[31m"


def test_the_service_unpickles_nothing():
    files = [*Path(str(web_package.__file__)).parent.rglob("*.py"), Path(str(query_worker.__file__))]
    assert len(files) > 15
    assert not [path.name for path in files if re.search(r"\b(pickle|marshal|eval\(|exec\()", path.read_text())]


def test_many_attackers_at_once_leave_the_service_alive(server: Server):
    threads = [threading.Thread(target=lambda: raw(server, b"\x00" * 1000)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.send("GET", "/healthz").status == 200


def test_nothing_needs_another_machine(tmp_path: Path) -> None:
    """Recording, the service and the pages in Chromium work where there is only the loopback interface."""
    root = Path(__file__).parents[2]
    command = ["unshare", "--map-root-user", "--net", sys.executable, "-m", "tests.web.lonely_browser"]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [*command, str(tmp_path / "home")], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["interfaces"] == ["lo"]
    assert report["hosts"] == ["127.0.0.1"]
    assert report["failures"] == []
    assert set(report["statuses"].values()) == {200}


# ---- the documentation


def test_each_risk_of_the_documentation_has_a_test():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \|.*`(test_\w+)` \|$", page, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 23))
    defined = {
        name
        for path in (root / "tests" / "web").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {test for _, test in rows} <= defined
