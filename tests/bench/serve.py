"""The service: requests per CPU second next to MLflow's server, and whether it holds under many clients.

    python tests/bench/serve.py [--runs 200] [--seconds 5] [--clients 8] [--without-mlflow]
    python tests/bench/serve.py --hold --seconds 600 [--readers 200] [--recorders 20] [--epoch-seconds 1] [--epochs 10]

Both servers have the same runs, with three hyperparameters and a loss of ten epochs each, and answer the same number of
clients on connections that stay open. Figures are answers per second of the server's CPU time, with its children. The
speed of the machine varies, so compare them within one run only.

search: the runs with a loss below a bound, which is another one in each request; search again: one of 50 bounds, so
that provml can answer from its cache, as it does until something is recorded. log: ten metrics of a run, by MLflow's
protocol, which provml answers too. query: the 20 runs with the least loss, in SPARQL; MLflow has no query language,
so its row is a search with that order. aggregate: the mean loss of each training over its epochs, which
MLflow's server cannot answer.

`--hold` lets readers ask for the table, a run, its events and a query once a second each. Recorders work over HTTP
meanwhile: one half by `provml.record(home=URL)`, which ships its journal, the other half by MLflow's protocol. It
prints errors, the slowest answers, the memory of the server over time, and whether all that was recorded is there.
`--epochs` is the number of epochs of each run that is there before: with `--runs 200 --epochs 1000` the caches of the
engine are full soon, and show how much memory a large home takes.
Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import provml

TICKS = os.sysconf("SC_CLK_TCK")
QUERY = """SELECT ?run ?loss WHERE {
  ?stage a provml:TrainingExecution ; provlake:wasMemberOfWorkflowExecution ?run ; provml:latestEvaluation ?node .
  ?node prov:value ?loss ; provlake:wasDerivedFromAttribute/rdfs:label "loss"
} ORDER BY ?loss LIMIT 20"""
AGGREGATE = """SELECT ?stage (AVG(?loss) AS ?mean) WHERE {
  ?node provlake:wasDerivedFromAttribute/rdfs:label "loss" ; prov:value ?loss ; prov:wasGeneratedBy ?epoch .
  ?epoch provml:wasSectionOf ?stage
} GROUP BY ?stage ORDER BY ?mean LIMIT 20"""
Request = tuple[str, str, bytes]
"""Method, path and a body of JSON."""


# ---- servers


def record_runs(home: Path, count: int, epochs: int = 10) -> None:
    """Record runs with provml."""
    for number in range(count):
        settings = {"learning_rate": 0.001 * (number + 1), "batch_size": 32, "optimizer": "sgd"}
        with (
            provml.record("flowers", model="net", home=home, capture_environment=False) as run,
            run.training(**settings) as training,
        ):
            for epoch in training.epochs(epochs):
                epoch.measured(loss=1.0 / (epoch.index + number))


@contextlib.contextmanager
def provml_server(home: Path) -> Iterator[tuple[str, int]]:
    """Serve a home with provml."""
    command = [sys.executable, "-m", "provml", "serve", "--home", str(home), "--port", "0", "--no-token", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        address = re.search(r" at (http\S+)", process.stdout.readline())
        assert address is not None
        try:
            yield address[1], process.pid
        finally:
            process.terminate()


@contextlib.contextmanager
def mlflow_server(folder: Path) -> Iterator[tuple[str, int]]:
    """Serve a database with MLflow, with one worker."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    store = f"sqlite:///{folder / 'mlflow.db'}"
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--port", str(port)]
    command += ["--workers", "1", "--artifacts-destination", str(folder / "artifacts")]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, start_new_session=True
    ) as process:
        try:
            while process.poll() is None and asyncio.run(status_of(url, ("GET", "/health", b""))) != 200:
                time.sleep(0.2)
            yield url, process.pid
        finally:
            for pid in [*descendants(process.pid), process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    children: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, file.read_text().split()):
                children += [child, *descendants(child)]
    return children


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of all its children, also of those that have ended."""
    total = 0
    for number in (pid, *descendants(pid)):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / TICKS


class Memory(NamedTuple):
    """Resident bytes of a server and of its workers; pages of files apart, which the system can drop."""

    own: int
    workers: int
    files: int

    @classmethod
    def of(cls, pid: int) -> Memory:
        """Return the memory of a process and its children."""
        own, files = _resident(pid)
        children = [_resident(number) for number in descendants(pid)]
        return cls(own, sum(row[0] for row in children), files + sum(row[1] for row in children))

    @property
    def anonymous(self) -> int:
        """Memory of all processes without pages of files."""
        return self.own + self.workers

    def __str__(self) -> str:
        own, workers, files = (round(value / 1e6) for value in self)
        return f"{own + workers + files} MB ({own} of the service, {workers} of its workers, {files} pages of files)"


def _resident(pid: int) -> tuple[int, int]:
    """Return the anonymous and the file-backed resident bytes of a process."""
    with contextlib.suppress(OSError):
        fields = dict(re.findall(r"^(Rss\w+):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
        if fields:
            return 1024 * int(fields["RssAnon"]), 1024 * (int(fields["RssFile"]) + int(fields["RssShmem"]))
    return 0, 0


# ---- a client


class Connection:
    """A connection that stays open."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = str(parts.hostname), int(parts.port or 80)
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def send(self, request: Request) -> tuple[int, bytes]:
        """Send a request and return the status and the body of the answer."""
        method, path, body = request
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port, limit=1 << 22)
        assert self.reader is not None
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        answer = await self._body(headers)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return int(lines[0].split()[1]), answer

    async def _body(self, headers: dict[str, str]) -> bytes:
        assert self.reader is not None
        if headers.get("transfer-encoding") != "chunked":
            return await self.reader.readexactly(int(headers.get("content-length", "0")))
        pieces = []
        while size := int(await self.reader.readline(), 16):
            pieces.append(await self.reader.readexactly(size))
            await self.reader.readline()
        await self.reader.readline()
        return b"".join(pieces)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


async def status_of(url: str, request: Request) -> int:
    """Return the status of an answer; 0 if there is none."""
    connection = Connection(url)
    try:
        return (await connection.send(request))[0]
    except (OSError, EOFError):
        return 0
    finally:
        connection.close()


async def load(url: str, request: Callable[[int], Request], seconds: float, clients: int) -> tuple[int, int]:
    """Send requests from several clients for some time; return the number of answers and of errors."""
    answers, errors = 0, 0
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        nonlocal answers, errors
        connection = Connection(url)
        turn = number
        while time.monotonic() < end:
            status, _ = await connection.send(request(turn))
            answers += 1
            errors += status >= 400
            turn += clients
        connection.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return answers, errors


# ---- requests


def post(path: str, value: object) -> Request:
    """Return a POST of JSON."""
    return "POST", path, json.dumps(value).encode()


async def call(url: str, request: Request) -> dict[str, object]:
    """Return the answer to a request as JSON."""
    connection = Connection(url)
    try:
        status, body = await connection.send(request)
        assert status == 200, f"{request[1]}: {status} {body[:300]!r}"
        return dict(json.loads(body))
    finally:
        connection.close()


async def create_mlflow_runs(url: str, count: int) -> tuple[str, list[str]]:
    """Create an experiment with runs by MLflow's protocol; return its id and theirs."""
    api = "/api/2.0/mlflow"
    experiment = str((await call(url, post(f"{api}/experiments/create", {"name": "flowers"})))["experiment_id"])
    runs = []
    for number in range(count):
        body = {"experiment_id": experiment, "start_time": 1_700_000_000_000 + number, "user_id": "bench"}
        answer = await call(url, post(f"{api}/runs/create", body))
        run = str(answer["run"]["info"]["run_id"])  # type: ignore[index]
        settings = {"learning_rate": 0.001 * (number + 1), "batch_size": 32, "optimizer": "sgd"}
        params = [{"key": key, "value": str(value)} for key, value in settings.items()]
        metrics = [
            {"key": "loss", "value": 1.0 / (step + number), "timestamp": 1_700_000_000_000, "step": step}
            for step in range(1, 11)
        ]
        await call(url, post(f"{api}/runs/log-batch", {"run_id": run, "params": params, "metrics": metrics}))
        await call(url, post(f"{api}/runs/update", {"run_id": run, "status": "FINISHED", "end_time": 1}))
        runs.append(run)
    return experiment, runs


def log_batch(runs: list[str]) -> Callable[[int], Request]:
    """Return requests that log ten metrics."""

    def request(turn: int) -> Request:
        metrics = [
            {"key": f"metric-{name}", "value": 0.5, "timestamp": 1_700_000_000_000 + turn, "step": turn}
            for name in range(10)
        ]
        return post("/api/2.0/mlflow/runs/log-batch", {"run_id": runs[turn % len(runs)], "metrics": metrics})

    return request


def provml_search(turn: int) -> Request:
    bound = 1 / 11 - 1e-7 * turn
    return "GET", f"/api/v1/runs?where={quote(f'loss < {bound:.9f}')}&limit=100", b""


def provml_search_again(turn: int) -> Request:
    return provml_search(turn % 50)


def provml_query(turn: int) -> Request:
    return "GET", f"/sparql?query={quote(QUERY + f' # {turn}')}", b""


def provml_aggregate(turn: int) -> Request:
    return "GET", f"/sparql?query={quote(AGGREGATE + f' # {turn}')}", b""


def mlflow_search(experiment: str) -> Callable[[int], Request]:
    """Return requests for runs by a condition."""

    def request(turn: int) -> Request:
        condition = f"metrics.loss < {1 / 11 - 1e-7 * turn:.9f}"
        body = {"experiment_ids": [experiment], "filter": condition, "max_results": 100}
        return post("/api/2.0/mlflow/runs/search", body)

    return request


def mlflow_query(experiment: str) -> Callable[[int], Request]:
    """Return requests for the runs with the least loss."""
    body = {"experiment_ids": [experiment], "order_by": ["metrics.loss ASC"], "max_results": 20}
    return lambda turn: post("/api/2.0/mlflow/runs/search", body)


# ---- the comparison


def measure(name: str, server: tuple[str, int], request: Callable[[int], Request], args: argparse.Namespace) -> float:
    """Print a row, and return the answers per CPU second."""
    url, pid = server
    asyncio.run(load(url, request, min(1.0, args.seconds), args.clients))  # warms caches
    before = cpu_seconds(pid)
    answers, errors = asyncio.run(load(url, request, args.seconds, args.clients))
    spent = cpu_seconds(pid) - before
    rate = answers / spent if spent else 0.0
    note = f", {errors} errors" if errors else ""
    print(f"{name:<20}{answers:>8} answers {spent:>7.2f} CPU s {rate:>9.0f} per CPU s{note}", flush=True)
    return rate


def compare(folder: Path, args: argparse.Namespace) -> None:
    """Measure both servers."""
    home = folder / "home"
    record_runs(home, args.runs)
    start = time.perf_counter()
    rates: dict[str, dict[str, float]] = {"provml": {}, "MLflow": {}}
    with provml_server(home) as server:
        print(f"provml: ready after {time.perf_counter() - start:.2f} s with {args.runs} runs")
        rates["provml"]["search"] = measure("provml search", server, provml_search, args)
        measure("provml search again", server, provml_search_again, args)
        rates["provml"]["query"] = measure("provml query", server, provml_query, args)
        measure("provml aggregate", server, provml_aggregate, args)
        _, runs = asyncio.run(create_mlflow_runs(server[0], 10))
        rates["provml"]["log"] = measure("provml log", server, log_batch(runs), args)
        print(f"provml: {Memory.of(server[1])}")
    if args.without_mlflow:
        return
    with mlflow_server(folder) as server:
        experiment, runs = asyncio.run(create_mlflow_runs(server[0], args.runs))
        rates["MLflow"]["search"] = measure("MLflow search", server, mlflow_search(experiment), args)
        rates["MLflow"]["query"] = measure("MLflow query", server, mlflow_query(experiment), args)
        rates["MLflow"]["log"] = measure("MLflow log", server, log_batch(runs[:10]), args)
        print(f"MLflow: {Memory.of(server[1])}")
    for name, rate in rates["provml"].items():
        if rates["MLflow"].get(name):
            print(f"{name}: {rate / rates['MLflow'][name]:.1f} times as many answers per CPU second as MLflow")


# ---- many clients


async def hold(server: tuple[str, int], home: Path, args: argparse.Namespace) -> None:
    """Let readers and recorders work for some time, and print what they saw."""
    url, pid = server
    statuses: Counter[int] = Counter()
    slowest: dict[str, float] = {}
    end = time.monotonic() + args.seconds
    runs = sorted(path.name for path in (home / "runs").iterdir())

    async def reader(number: int) -> None:
        connection = Connection(url)
        turn = number
        await asyncio.sleep(number / args.readers)
        while time.monotonic() < end:
            run = runs[turn % len(runs)]
            paths = [f"/api/v1/runs?limit=50&offset={turn % 5}", f"/api/v1/runs/{run}", f"/api/v1/runs/{run}/events"]
            kind = turn % 8
            path = f"/sparql?query={quote(QUERY)}" if kind == 7 else paths[kind % 3]
            began = time.monotonic()
            try:
                status, _ = await connection.send(("GET", path, b""))
            except (OSError, EOFError):
                status = 0
                connection.close()
            name = re.sub(r"[?].*|/runs/[^/?]+", "", path)
            slowest[name] = max(slowest.get(name, 0.0), time.monotonic() - began)
            statuses[status] += 1
            turn += 7
            await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
        connection.close()

    async def watch() -> AsyncIterator[tuple[Memory, int]]:
        while time.monotonic() < end:
            yield Memory.of(pid), await count_triples(url)
            await asyncio.sleep(min(30.0, args.seconds / 8))
        yield Memory.of(pid), await count_triples(url)

    shipped, logged = Counter[str](), Counter[str]()
    spool = home.parent / "spool"
    shipping = range(0, args.recorders, 2)
    threads = [threading.Thread(target=ship_runs, args=(url, spool, end, args, shipped)) for _ in shipping]
    for thread in threads:
        thread.start()
    before = cpu_seconds(pid)
    tasks = [asyncio.create_task(reader(number)) for number in range(args.readers)]
    for number in range(1, args.recorders, 2):
        tasks.append(asyncio.create_task(log_runs(url, number, end, args, (statuses, logged))))
    samples = [value async for value in watch()]
    await asyncio.gather(*tasks)
    spent = cpu_seconds(pid) - before
    for thread in threads:
        await asyncio.to_thread(thread.join)
    print(f"{sum(statuses.values())} answers by status {dict(statuses)}, {spent:.1f} CPU s in {args.seconds:g} s")
    print(f"load of the machine at the end: {os.getloadavg()[1]:.1f}")
    print_memory(samples)
    print("slowest answers:", ", ".join(f"{name} {seconds:.2f} s" for name, seconds in sorted(slowest.items())))
    for name, expected in (("shipped", shipped), ("logged", logged)):
        present = [await count_epochs(url, run) for run in expected]
        print(f"{name}: {len(expected)} runs with {expected.total()} epochs, {sum(present)} of them in the service")


def print_memory(samples: list[tuple[Memory, int]]) -> None:
    """Print the memory over time, and its growth in the second half, when all caches are warm."""
    for memory, triples in samples:
        print(f"  {triples:>9} triples: {memory}")
    (middle, before), (last, after) = samples[len(samples) // 2], samples[-1]
    growth, added = last.anonymous - middle.anonymous, after - before
    note = f", {growth / added:.0f} bytes a triple" if added else ""
    print(f"second half: {growth / 1e6:+.1f} MB without pages of files, {added} triples more{note}")


async def count_triples(url: str) -> int:
    """Return the number of triples in a service."""
    return int(str((await call(url, ("GET", "/api/v1/status", b"")))["triples"]))


async def count_epochs(url: str, run: str) -> int:
    """Return the number of epochs, or steps, of a run that a service has."""
    answer = await call(url, ("GET", f"/api/v1/runs/{run}/epochs", b""))
    return int(str(answer["total"]))


def ship_runs(url: str, spool: Path, end: float, args: argparse.Namespace, counts: Counter[str]) -> None:
    """Record runs of 100 epochs into a service until the end."""
    while time.monotonic() < end:
        with (
            provml.record("flowers", home=url, capture_environment=False, shipping={"spool": str(spool)}) as run,
            run.training(learning_rate=0.1) as training,
        ):
            for epoch in training.epochs(100):
                epoch.measured(loss=1.0 / epoch.index)
                counts[run.id] += 1
                if time.monotonic() >= end:
                    break
                time.sleep(args.epoch_seconds)


async def log_runs(
    url: str, number: int, end: float, args: argparse.Namespace, counts: tuple[Counter[int], Counter[str]]
) -> None:
    """Log runs of 100 epochs by MLflow's protocol until the end."""
    statuses, epochs = counts
    connection = Connection(url)
    api = "/api/2.0/mlflow/runs"
    while time.monotonic() < end:
        now = time.time_ns() // 1_000_000
        create = {"experiment_id": "0", "start_time": now, "user_id": f"recorder {number}"}
        _, body = await connection.send(post(f"{api}/create", create))
        run = json.loads(body)["run"]["info"]["run_id"]
        await connection.send(post(f"{api}/log-parameter", {"run_id": run, "key": "epochs", "value": "100"}))
        for step in range(100):
            metric = {"key": "loss", "value": 1 / (step + 1), "timestamp": now + step, "step": step}
            status, _ = await connection.send(post(f"{api}/log-batch", {"run_id": run, "metrics": [metric]}))
            statuses[status] += 1
            epochs[run] += 1
            await asyncio.sleep(args.epoch_seconds)
            if time.monotonic() >= end:
                break
        await connection.send(post(f"{api}/update", {"run_id": run, "status": "FINISHED", "end_time": now}))
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--without-mlflow", action="store_true")
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--recorders", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=10, help="epochs of each run that is there before")
    parser.add_argument("--epoch-seconds", type=float, default=1.0, help="time of an epoch of a recorder")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-serve-"))
    try:
        if not args.hold:
            compare(folder, args)
            return
        record_runs(folder / "home", args.runs, args.epochs)
        with provml.open(folder / "home") as store:
            store.sync()
        with provml_server(folder / "home") as server:
            asyncio.run(hold(server, folder / "home", args))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
