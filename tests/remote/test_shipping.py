"""Runs that are recorded for a service: the journal here is the truth, and the copy there gets all of it, once."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import provml
from provml.errors import ServiceError, ServiceUnreachable
from provml.journal import events
from provml.journal.reader import JournalReader
from provml.journal.shipping import ShippingState, read_state, unsent_bytes, unshipped_runs, write_state
from provml.remote import shipper
from provml.remote.connection import parse_address
from provml.remote.shipper import HomeShipment

from .services import TOKEN, ServiceProcess, free_port, wait_until


def files_of(home: Path) -> dict[str, bytes]:
    """Return the journals and annotations of a home by their path."""
    return {str(path.relative_to(home)): path.read_bytes() for path in sorted(home.glob("runs/**/*.jsonl"))}


def measured(path: Path) -> list[float]:
    """Return the measures of a journal in their order."""
    records = [event for record in JournalReader(path).read(is_over=True) for event in record.events]
    return [event.values["loss"] for event in records if isinstance(event, events.Measured)]  # type: ignore[misc]


def record_epochs(run: provml.Run, count: int, batches: int = 3) -> None:
    with run.training(learning_rate=0.1) as training:
        for epoch in training.epochs(count):
            for batch in epoch.batches(range(batches)):
                batch.measured(loss=float(epoch.index * 1000 + batch.index))


def ship(home: Path, url: str, token: str = TOKEN) -> HomeShipment:
    shipment = HomeShipment(home, parse_address(url, token))
    try:
        shipment.send()
    finally:
        shipment.close()
    return shipment


# ---- recording for a service


def test_a_run_is_recorded_here_and_arrives_there(service: ServiceProcess):
    Path("model.bin").write_bytes(random.Random(1).randbytes(9_000_000))
    with provml.record("flowers", home=service.url) as run:
        record_epochs(run, 3)
        run.keep("model.bin")
        run.tag("good")
    here, there = Path(".provml"), service.home
    assert run.home == here.resolve()
    assert files_of(here) == files_of(there)
    assert len(files_of(there)) == 2
    (content,) = there.glob("artifacts/*/*")
    assert content.read_bytes() == Path("model.bin").read_bytes()
    state = read_state(here / "runs" / run.id)
    assert state is not None
    assert state.is_complete
    assert list(unshipped_runs(here)) == []
    service.kill()
    with provml.open(there) as store:
        (info,) = store.runs()
        assert (info.id, info.status, info.tags) == (run.id, "FINISHED", ("good",))
        assert store.check_seals().unsealed == []


def test_events_arrive_while_the_run_is_recorded(service: ServiceProcess):
    with provml.record("flowers", home=service.url, shipping={"queue": 1, "seconds": 0.0}) as run:
        training = run.training(learning_rate=0.1)
        copy = service.home / "runs" / run.id / "main.jsonl"
        wait_until(lambda: copy.exists() and b'"training"' in copy.read_bytes())
        training.done()


def test_without_a_service_training_goes_on_and_the_run_is_sent_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.chdir(tmp_path)
    url = f"http://127.0.0.1:{free_port()}"
    with provml.record("flowers", home=url) as run:
        record_epochs(run, 2)
    assert run.capture_errors == 0
    assert f"provml ship {run.home} {url}" in caplog.text
    state = read_state(run.home / "runs" / run.id)
    assert state is not None
    assert unsent_bytes(run.home / "runs" / run.id, state) == (run.home / "runs" / run.id / "main.jsonl").stat().st_size
    assert "no answer" in state.error
    with pytest.raises(ServiceUnreachable):
        ship(run.home, url)


@pytest.mark.parametrize(
    ("sent", "contents", "expected"), [(9, [], ""), (9, ["a", "b"], "2 artifacts of run"), (4, [], "5 bytes of run")]
)
def test_a_warning_at_the_end_says_what_has_not_arrived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: int, contents: list[str], expected: str
):
    folder = tmp_path / "runs" / "monday"
    folder.mkdir(parents=True)
    (folder / "main.jsonl").write_bytes(b'{"e":"x"}'[:8] + b"\n")
    write_state(folder, ShippingState("http://host", {"main.jsonl": sent}, contents))
    shipper._warn(folder, "http://host")
    assert caplog.text.count("are not at") == bool(expected)
    assert expected in caplog.text


def test_offline_sends_nothing_until_it_is_shipped(service: ServiceProcess, caplog: pytest.LogCaptureFixture):
    with provml.record("flowers", home=service.url, shipping={"online": False}) as run:
        record_epochs(run, 2)
    assert not (service.home / "runs").exists()
    assert [entry[0] for entry in unshipped_runs(run.home)] == [run.id]
    assert not caplog.records
    assert ship(run.home, service.url).errors == {}
    assert files_of(run.home) == files_of(service.home)
    assert list(unshipped_runs(run.home)) == []


def test_a_run_in_memory_is_removed_when_the_service_has_it(service: ServiceProcess):
    with provml.record("flowers", home=service.url, shipping={"spool": "memory"}) as run:
        record_epochs(run, 2)
        assert str(run.home).startswith("/dev/shm/")
        assert (run.home / "runs" / run.id / "main.jsonl").exists()
    assert not (run.home / "runs" / run.id).exists()
    assert len(measured(service.home / "runs" / run.id / "main.jsonl")) == 6


def test_a_wrong_token_is_in_the_status(service: ServiceProcess, caplog: pytest.LogCaptureFixture):
    with provml.record("flowers", home=service.url, shipping={"token": "not-the-token"}) as run:
        record_epochs(run, 1)
    state = read_state(run.home / "runs" / run.id)
    assert state is not None
    assert "PROVML_TOKEN" in state.error
    assert "not-the-token" not in caplog.text
    assert not (service.home / "runs").exists()


def test_the_token_is_not_written_down(service: ServiceProcess, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PROVML_TOKEN")
    url = service.url.replace("http://", f"http://me:{TOKEN}@")
    with provml.record("flowers", home=url) as run:
        record_epochs(run, 1)
    assert files_of(run.home) == files_of(service.home)
    for path in Path(".provml").rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes()


def test_child_runs_and_child_processes_are_shipped_too(service: ServiceProcess):
    script = "import provml\nwith provml.record('part') as run:\n    run.training().done()\n"
    with provml.record("flowers", home=service.url) as run:
        with run.child("fold 1") as fold:
            fold.training().done()
        with provml.record("other", parent=run) as other:
            other.training().done()
        subprocess.run([sys.executable, "-c", script], check=True)
    there = files_of(service.home)
    assert files_of(run.home) == there
    assert len(there) == 4
    assert len([name for name in there if name.startswith(f"runs/{run.id}/")]) == 2


def test_the_home_of_the_environment_may_be_a_service(service: ServiceProcess, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_HOME", service.url)
    monkeypatch.setenv("PROVML_SPOOL", "spool")
    with provml.record("flowers") as run:
        record_epochs(run, 1)
    assert run.home == Path("spool").resolve()
    assert files_of(Path("spool")) == files_of(service.home)


def test_recording_in_a_directory_loads_no_http(tmp_path: Path):
    script = """
        import sys, provml
        with provml.record("x", home=sys.argv[1]) as run:
            run.training().done()
        print([name for name in sys.modules if name.split(".")[0] in ("http", "ssl", "socket")
               or name.startswith("provml.remote")])
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "home")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("home", "shipping", "message"),
    [
        ("http://", None, "not the URL of a service"),
        ("http://host:port", None, "Pass a URL such as"),
        ("http://host/?a=b", None, "not the URL of a service"),
        ("http://host", {"queue": 0}, "queue must be a number of at least 1, not 0"),
        ("http://host", {"seconds": "1"}, "seconds must be a number of at least 0, not '1'"),
        ("http://host", {"speed": 1}, "no setting 'speed'"),
        ("here", {"queue": 5}, "the home is a directory, 'here'"),
    ],
)
def test_settings_that_cannot_be_are_refused(isolated_home: Path, home: str, shipping: Any, message: str):
    with pytest.raises((ServiceError, ValueError), match=message):
        provml.record("x", home=home, shipping=shipping)
    assert list(isolated_home.iterdir()) == []


# ---- interruptions


def test_a_service_that_is_killed_a_hundred_times_gets_everything_once(service: ServiceProcess):
    """Kill the service in the middle of requests, while the run goes on."""
    spool, stop = Path("spool"), threading.Event()
    failures = 0

    def send() -> None:
        nonlocal failures
        shipment = HomeShipment(spool, parse_address(service.url))
        while not stop.is_set():
            try:
                shipment.send()
            except ServiceError:
                failures += 1
                time.sleep(0.005)
        shipment.close()

    sender = threading.Thread(target=send)
    try:
        with provml.record("flowers", home=spool) as run:
            sender.start()
            training = run.training()
            chooser, count = random.Random(7), 0
            for _ in range(100):
                until = time.monotonic() + chooser.uniform(0.0, 0.05)
                while time.monotonic() < until:
                    count += 1
                    training.adapted(learning_rate=float(count), why="x" * 20_000)
                service.kill()
                service.start()
            training.done()
    finally:
        stop.set()
        sender.join()
    assert failures > 20
    ship(spool, service.url)
    assert files_of(spool) == files_of(service.home)
    journal = service.home / "runs" / run.id / "main.jsonl"
    records = [event for record in JournalReader(journal).read() for event in record.events]
    numbers = Counter(event.values["learning_rate"] for event in records if isinstance(event, events.Adapted))
    assert numbers == Counter(float(number) for number in range(1, count + 1))


def test_the_thread_of_a_run_goes_on_when_the_service_is_back(
    service: ServiceProcess, caplog: pytest.LogCaptureFixture
):
    with provml.record("flowers", home=service.url, shipping={"queue": 1, "seconds": 0.0}) as run:
        copy = service.home / "runs" / run.id / "main.jsonl"
        folder = run.home / "runs" / run.id
        with run.training() as training:
            for number in range(3):
                service.kill()
                training.adapted(learning_rate=float(number))
                wait_until(lambda: (state := read_state(folder)) is not None and "no answer" in state.error)
                service.start()
                text = f'"learning_rate":{float(number)}'.encode()
                wait_until(lambda text=text: copy.exists() and text in copy.read_bytes())
    assert files_of(run.home) == files_of(service.home)
    assert "It is tried again" in caplog.text


class CutNetwork:
    """A network between client and service that loses connections, before or after the service has answered."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cuts = 0
        self._chooser = random.Random(3)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                client = self._server.accept()[0]
            except OSError:
                return
            with client, socket.create_connection(("127.0.0.1", self.port)) as service:
                budget = self._chooser.choice((300, 5_000, 60_000, 200_000))
                back = threading.Thread(
                    target=self._copy, args=(service, client, self._chooser.choice((0, 100, 10**6)))
                )
                back.start()
                self._copy(client, service, budget)
                back.join()
                self.cuts += 1

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket, budget: int) -> None:
        """Pass on some bytes, then cut both ends."""
        with contextlib.suppress(OSError):
            while budget > 0 and (data := source.recv(min(4096, budget))):
                budget -= len(data)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def network(service: ServiceProcess) -> Iterator[CutNetwork]:
    network = CutNetwork(service.port)
    yield network
    network.close()


def test_a_network_that_cuts_connections_loses_and_doubles_nothing(service: ServiceProcess, network: CutNetwork):
    Path("data.bin").write_bytes(random.Random(2).randbytes(300_000))
    with provml.record("flowers", home="spool") as run:
        run.keep("data.bin")
        with run.training() as training:
            for number in range(400):
                training.adapted(learning_rate=float(number), why=random.Random(number).randbytes(300).hex())
    shipment = HomeShipment(Path("spool"), parse_address(network.url))
    for _ in range(2000):
        try:
            if shipment.send():
                break
        except ServiceUnreachable:
            continue
    shipment.close()
    assert network.cuts > 5
    assert files_of(Path("spool")) == files_of(service.home)
    (content,) = service.home.glob("artifacts/*/*")
    assert content.read_bytes() == Path("data.bin").read_bytes()


def test_a_training_that_is_killed_is_shipped_with_the_batches_of_its_buffer(service: ServiceProcess):
    script = """
        import os, sys, provml
        run = provml.record("flowers", run="r", home=sys.argv[1], shipping={"online": False})
        epoch = next(iter(run.training().epochs(1)))
        for batch in epoch.batches(range(20)):
            batch.measured(loss=float(batch.index))
            if batch.index == 15:
                os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), service.url], check=False)
    journal = Path(".provml/runs/r/main.jsonl")
    local = measured(journal)
    assert local == [float(number) for number in range(1, 16)]
    for _ in range(3):  # nothing is sent twice
        ship(Path(".provml"), service.url)
    copy = service.home / "runs" / "r" / "main.jsonl"
    assert measured(copy) == local
    service.kill()
    with provml.open(service.home) as store:
        assert store.run("r").status == "KILLED", "the service is on the same machine"


def test_a_line_that_a_power_cut_damaged_does_not_stop_the_rest(service: ServiceProcess):
    script = """
        import provml
        with provml.record("flowers", home="spool", run="r") as run, run.training() as training:
            for epoch in training.epochs(3):
                for batch in epoch.batches(range(3)):
                    batch.measured(loss=float(batch.index))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
    journal = Path("spool/runs/r/main.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3][:10] + bytes(len(lines[3]) - 11) + b"\n"
    lines[5] = b"{" + lines[5][1:].replace(b'"', b"'")
    journal.write_bytes(b"".join(lines))
    ship(Path("spool"), service.url)
    copy = service.home / "runs" / "r" / "main.jsonl"
    assert copy.stat().st_size == journal.stat().st_size
    assert measured(copy) == measured(journal)
    assert [record.number for record in JournalReader(copy).read() if record.error] == [4, 6]


# ---- full disks


def test_a_service_whose_disk_is_full_gets_the_rest_later(service: ServiceProcess):
    service.signal(signal.SIGUSR2)
    with provml.record("flowers", home="spool", run="r") as run, run.training() as training:
        for number in range(100):
            training.adapted(learning_rate=float(number), why="x" * 5_000)
    shipment = HomeShipment(Path("spool"), parse_address(service.url))
    for _ in range(3):
        with pytest.raises(ServiceError, match="disk of the service is full") as error:
            shipment.send()
        assert error.value.status == 507
    service.signal(signal.SIGUSR1)
    assert shipment.send() == 1
    shipment.close()
    assert files_of(Path("spool")) == files_of(service.home)


def test_a_full_disk_here_does_not_stop_the_shipping(service: ServiceProcess):
    """All that fits the journal arrives, although nothing else can be written here."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    logging.getLogger("provml").setLevel(logging.ERROR)
    try:
        with provml.record("flowers", home=service.url, run="r") as run, run.training() as training:
            resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, before[1]))
            for number in range(100):
                training.adapted(learning_rate=float(number), why="x" * 5_000)
            copy = service.home / "runs" / "r" / "main.jsonl"
            wait_until(lambda: copy.exists() and copy.stat().st_size > 40_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        logging.getLogger("provml").setLevel(logging.NOTSET)
    assert run.capture_errors > 50
    ship(Path(".provml"), service.url)
    assert files_of(Path(".provml")) == files_of(service.home)


# ---- other writers


def test_another_journal_of_the_same_name_is_not_mixed_in(service: ServiceProcess):
    for home in ("one", "two"):
        with provml.record("flowers", home=home, run="r") as run:
            record_epochs(run, 1)
    ship(Path("one"), service.url)
    shipment = ship(Path("two"), service.url)
    assert "another file of the name" in shipment.errors["r"]
    assert files_of(Path("one")) == files_of(service.home)


def test_a_journal_of_the_service_itself_is_never_touched(service: ServiceProcess):
    with provml.record("flowers", home=service.home, run="r") as run:
        record_epochs(run, 1)
        before = (service.home / "runs" / "r" / "main.jsonl").read_bytes()
        shipment = ship(service.home, service.url)
        assert (service.home / "runs" / "r" / "main.jsonl").read_bytes() == before
        assert shipment.errors


def test_two_processes_with_one_spool_take_turns(service: ServiceProcess):
    script = """
        import sys, provml
        with provml.record("x", home=sys.argv[1], shipping={"wait": 20}) as run, run.training() as training:
            for number in range(200):
                training.adapted(learning_rate=float(number))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), service.url]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    ship(Path(".provml"), service.url)
    assert files_of(Path(".provml")) == files_of(service.home)
    assert len(files_of(service.home)) == 3


# ---- signs of life


def status_there(service: ServiceProcess, run: str) -> str:
    from provml.cli.run_tail import RunTail

    return RunTail(service.home / "runs" / run).status


def test_running_and_lost_are_true_across_machines(service: ServiceProcess, monkeypatch: pytest.MonkeyPatch):
    """A writer on another machine is RUNNING as long as its shipper says so, and LOST after that."""
    script = """
        import sys
        from provml.journal import process
        process.host = lambda: "elsewhere"
        import provml
        from provml.remote import shipment
        shipment.HEARTBEAT_SECONDS = 0.2
        run = provml.record("x", run="r", home=sys.argv[1])
        run.training()
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), service.url]
    training = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        copy = service.home / "runs" / "r" / "main.jsonl"
        wait_until(lambda: copy.exists() and copy.stat().st_size > 100)
        assert status_there(service, "r") == "RUNNING"
        os.utime(copy, (0, 0))
        assert status_there(service, "r") == "LOST", "no sign of life since 1970"
        wait_until(lambda: status_there(service, "r") == "RUNNING")
    finally:
        training.kill()
        training.communicate()
    journal = Path(".provml/runs/r/main.jsonl")
    os.utime(journal, (time.time() - 3600,) * 2)
    ship(Path(".provml"), service.url)
    assert status_there(service, "r") == "LOST", "the shipper knows that nobody writes it any more"
