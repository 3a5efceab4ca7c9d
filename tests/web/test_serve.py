"""The command `serve`: tokens, addresses, a Unix socket, and a stop that leaves nothing behind."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest

import provml
from provml.web.service import Service, ServiceStoppedError
from web.conftest import bearer
from web.serving import children_of, running

CROSS_JOIN = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"


def serve(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the command with options that make it end at once."""
    command = [sys.executable, "-m", "provml", "serve", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_address_for_all_needs_a_token(tmp_path: Path, host: str):
    done = serve("--home", str(tmp_path / "home"), "--host", host)
    assert done.returncode == 2
    assert "token" in done.stderr


def test_an_address_for_all_and_no_token_is_refused(tmp_path: Path):
    done = serve("--home", str(tmp_path / "home"), "--host", "0.0.0.0", "--no-token")
    assert done.returncode == 2
    assert "--no-token" in done.stderr


def test_a_port_that_is_taken_is_a_clear_error(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = serve("--home", str(tmp_path / "home"), "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "--port" in done.stderr


def test_a_short_token_is_refused(tmp_path: Path):
    env = {**os.environ, "PROVML_WRITE_TOKEN": "short"}
    command = [sys.executable, "-m", "provml", "serve", "--home", str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)
    assert done.returncode == 2
    assert "16" in done.stderr


def test_tokens_are_files_for_the_owner_only(tmp_path: Path):
    home = tmp_path / "home"
    with running(home, "--quiet") as server:
        tokens = {name: home / "service" / f"{name}.token" for name in ("read", "write")}
        assert {stat.S_IMODE(path.stat().st_mode) for path in tokens.values()} == {0o600}
        assert stat.S_IMODE((home / "service").stat().st_mode) == 0o700
        for name, path in tokens.items():
            answer = server.send("GET", "/api/v1/status", bearer(path.read_text().strip()))
            assert answer.json()["access"] == name
        before = tokens["read"].read_text()
        assert server.process.stdout is not None
        link = server.process.stdout.readline()
        assert "/login?ticket=" in link
        new = serve("--home", str(home), "--link").stdout
        path = new.strip().removeprefix(server.url)
        assert server.send("GET", path).status == 303
        assert server.send("GET", path).status == 403
    assert not (home / "service" / "address.json").exists()
    with running(home, "--quiet"):
        assert tokens["read"].read_text() == before


def test_no_service_no_link(tmp_path: Path):
    done = serve("--home", str(tmp_path / "home"), "--link")
    assert done.returncode == 2
    assert "no service runs" in done.stderr
    assert "provml serve" in done.stderr


def test_a_service_that_was_killed_gives_no_link(home: Path):
    with running(home, "--quiet") as server:
        server.process.kill()
        server.process.wait()
        done = serve("--home", str(home), "--link")
    assert done.returncode == 2
    assert f"no service answers at {server.url}. Start one with `provml serve`." in done.stderr


def test_a_link_of_a_read_only_service_reads(home: Path):
    with running(home, "--quiet", "--read-only") as server:
        link = serve("--home", str(home), "--link").stdout.strip()
        cookie = server.send("GET", link.removeprefix(server.url)).headers["set-cookie"].partition(";")[0]
        assert server.send("GET", "/api/v1/status", {"Cookie": cookie}).json()["access"] == "read"


def test_a_second_service_leaves_the_address_of_the_first(home: Path):
    address = home / "service" / "address.json"
    with running(home, "--quiet") as first, running(home, "--quiet") as second:
        assert second.url in address.read_text()
        assert first.stop() == 0
        assert second.url in address.read_text()
    assert not address.exists()


@pytest.mark.parametrize("origin", ["*", "lab.example", "https://lab.example/page", "https://*.lab.example"])
def test_an_origin_that_no_browser_sends_is_refused(tmp_path: Path, origin: str):
    done = serve("--home", str(tmp_path / "home"), "--cors", origin)
    assert done.returncode == 2
    assert "origin" in done.stderr


class UnixConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


def test_a_unix_socket_needs_no_token_but_belongs_to_the_owner(home: Path, tmp_path: Path):
    path = tmp_path / "service.sock"
    with running(home, "--quiet", "--socket", str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        connection = UnixConnection(path)
        connection.request("GET", "/api/v1/status")
        answer = connection.getresponse()
        assert answer.status == 200
        assert b'"access":"write"' in answer.read()
        connection.close()
        taken = serve("--home", str(home), "--socket", str(path))
        assert (taken.returncode, "already" in taken.stderr) == (2, True)
    assert not path.exists()


def test_a_file_is_not_replaced_by_a_socket(home: Path, tmp_path: Path):
    (tmp_path / "notes").write_text("mine")
    done = serve("--home", str(home), "--socket", str(tmp_path / "notes"))
    assert done.returncode == 2
    assert (tmp_path / "notes").read_text() == "mine"


def test_further_ports_and_names_are_answered(home: Path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with running(home, "--quiet", "--no-token", "--also-listen", str(port), "--allow-host", "lab.example"):
        for host, status in (("lab.example", 200), ("other.example", 421)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", "/healthz", headers={"Host": host})
            assert connection.getresponse().status == status
            connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_queries_and_leaves_no_process(home: Path, number: signal.Signals):
    with running(home, "--quiet", "--no-token", "--timeout", "600") as server:
        connections = []
        for _ in range(2):
            connection = http.client.HTTPConnection(*server.address, timeout=30)
            connection.request("GET", f"/sparql?query={quote(CROSS_JOIN)}")
            connections.append(connection)
        while len(server.children()) < 2:
            time.sleep(0.05)
        workers = server.children()
        server.process.send_signal(number)
        assert server.process.wait(timeout=60) == 0  # the queries would take 600 seconds
        assert not [pid for pid in workers if _is_alive(pid)]
        for connection in connections:
            connection.close()
    assert not list((home / "index").glob("reader-*"))


def test_a_client_that_still_sends_is_told_of_the_stop(home: Path):
    with (
        running(home, "--quiet", "--no-token") as server,
        socket.create_connection(server.address, timeout=20) as sender,
    ):
        head = "PUT /api/v1/runs/slow/journals/main HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
        sender.sendall(f"{head}Content-Type: application/x-ndjson\r\nExpect: 100-continue\r\n\r\n".encode())
        assert sender.recv(65536).startswith(b"HTTP/1.1 100 "), "the service is reading the content"
        sender.sendall(b'{"e":')
        server.process.send_signal(signal.SIGTERM)
        answer = b"".join(iter(lambda: sender.recv(65536), b""))
        assert server.process.wait(timeout=60) == 0
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Stopping" in answer
        assert "Traceback" not in server.log.read_text()


def test_workers_end_with_a_service_that_is_killed(home: Path):
    with running(home, "--quiet", "--no-token", "--timeout", "600") as server:
        connection = http.client.HTTPConnection(*server.address, timeout=30)
        connection.request("GET", f"/sparql?query={quote(CROSS_JOIN)}")
        while not server.children():
            time.sleep(0.05)
        workers = children_of(server.process.pid)
        server.process.kill()
        server.process.wait(timeout=10)
        deadline = time.monotonic() + 60
        while [pid for pid in workers if _is_alive(pid)] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [pid for pid in workers if _is_alive(pid)]
        connection.close()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_counters_are_in_the_text_format_of_prometheus(home: Path):
    with running(home, "--quiet", "--no-token") as server:
        server.send("GET", f"/sparql?query={quote('ASK {}')}")
        server.send("GET", "/nowhere/at/all")
        text = server.send("GET", "/metrics").body.decode()
        assert 'provml_http_requests_total{method="GET",route="/sparql",status="200"} 1' in text
        assert 'provml_http_requests_total{method="GET",route="",status="404"} 1' in text
        assert 'provml_queries_total{result="answered"} 1' in text
        for line in text.splitlines():
            assert line.startswith("#") or len(line.rpartition(" ")[0]) > 5


def test_importing_provml_does_not_import_the_service():
    names = "[name for name in sys.modules if name.split('.')[0] in ('starlette', 'uvicorn')]"
    code = f"import sys, provml, provml.cli; provml.open; print({names})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("turns", range(6))
def test_a_service_stops_at_any_moment_after_it_was_woken(service: Service, turns: int):
    async def stop_after_turns() -> None:
        async with service.running():
            await service.fresh()
            for _ in range(20):  # until the sync task waits for news
                await asyncio.sleep(0.01)
            service.wake()
            for _ in range(turns):
                await asyncio.sleep(0)
        assert not asyncio.all_tasks() - {asyncio.current_task()}

    async def limited() -> None:
        async with asyncio.timeout(20):
            await stop_after_turns()

    asyncio.run(limited())


def test_a_service_that_stops_ends_its_indexing_and_the_next_one_goes_on(service: Service, home: Path):
    with provml.record("flowers", home=home, strict=True) as run, run.training() as training:
        training.measured(loss=1.0)

    async def stop() -> None:
        async with service.running():
            await service.fresh()

    asyncio.run(stop())
    with provml.record("flowers", home=home, run="late", strict=True) as run, run.training() as training:
        training.measured(loss=2.0)
    with pytest.raises(ServiceStoppedError):
        service.sync()
    service.close()
    with provml.open(home) as store:
        assert store.run("late").status == "FINISHED"
        assert (2.0,) in store.query("SELECT ?value { ?m a provml:ModelEvaluation ; prov:value ?value }").rows
