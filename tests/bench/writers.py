"""Many writers: what a service and a lake do while a thousand machines ship their journals to the service at once.

    python tests/bench/writers.py [--writers 1000] [--epochs 6] [--interval 10] [--processes 4] [--lake 15]

A journal is recorded once, with ten batches an epoch. Each writer sends a copy of it under its own run id as `provml
ship` does: lines at an offset, an epoch every `interval` seconds, the first at a random moment, over one connection
that stays open. The writers are coroutines in a few processes. After the last epoch all copies are compared with what
was sent, and the runs are asked for. Printed are the requests per second and per CPU second of the service, the time
until a request is answered, the memory of the service, and the time until all runs are listed. Nothing is asserted but
that the copies are whole and in the lake.

Meanwhile `provml lake update` runs on the home of the service, in a process of its own, every `lake` seconds, and once
more at the end. Each prints the runs that it added, the time that it took, and the size of the lake.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from ship import TOKEN, free_port

from provml import lake

NAME = "writer-00000"
"""The run id in the recorded journal; that of a writer is as long."""


def record(folder: Path, epochs: int) -> list[bytes]:
    """Return a journal in parts: the start, an epoch each, and the end."""
    from provml.recording.run import Run

    with (
        Run("writers", home=folder, model="net", run=NAME, capture_environment=False) as run,
        run.training(learning_rate=0.1, batch_size=32) as training,
    ):
        for epoch in training.epochs(epochs):
            for batch in epoch.batches(range(10)):
                batch.measured(loss=1.0 / (1 + batch.index))
            epoch.measured(loss=1.0 / epoch.index, accuracy=1.0 - 1.0 / (1 + epoch.index))
    path = next((folder / "runs" / NAME).glob("*.jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    size = max(len(lines) // (epochs + 1), 1)
    starts = [*range(0, size * epochs, size), size * epochs]
    return [b"".join(lines[begin:end]) for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


# ---- the writers of one process


class Writer:
    """One journal on its way, over one connection."""

    def __init__(self, number: int, port: int, parts: list[bytes]) -> None:
        self.run = f"writer-{number:05}"
        self.parts = [part.replace(NAME.encode(), self.run.encode()) for part in parts]
        self.port = port
        self.delays: list[float] = []
        self.retries = 0

    async def ship(self, interval: float) -> None:
        """Send all parts."""
        await asyncio.sleep(random.random() * interval)
        offset, streams = 0, None
        for number, part in enumerate(self.parts):
            began = time.monotonic()
            while True:
                try:
                    streams = streams or await asyncio.open_connection("127.0.0.1", self.port)
                    status, length = await self._patch(*streams, offset, part, number == len(self.parts) - 1)
                except (OSError, EOFError):  # closed by the service: `provml ship` connects again, too
                    status, length, streams = 503, None, None
                if status < 300 or length == offset + len(part):
                    break
                if status == 503 and streams is not None:
                    streams[1].close()
                    streams = None
                self.retries += 1
                await asyncio.sleep(1.0)
            offset += len(part)
            self.delays.append(time.monotonic() - began)
            await asyncio.sleep(max(interval - (time.monotonic() - began), 0))
        if streams is not None:
            streams[1].close()

    async def _patch(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, offset: int, part: bytes, is_last: bool
    ) -> tuple[int, int | None]:
        head = (
            f"PATCH /api/v1/runs/{self.run}/journals/main HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/x-ndjson\r\nContent-Length: {len(part)}\r\n"
            f"Upload-Offset: {offset}\r\nUpload-Complete: ?{is_last:d}\r\nWriter-Idle: 0\r\n\r\n"
        )
        writer.write(head.encode() + part)
        await writer.drain()
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in answer[1:] if line)}
        await reader.readexactly(int(headers.get("content-length", 0)))
        length = headers.get("upload-offset")
        return int(answer[0].split()[1]), int(length) if length is not None else None


def write(port: int, first: int, count: int, interval: float, parts: list[bytes]) -> None:
    """Run some writers, and print the time of each request and the number of retries."""

    async def main() -> list[Writer]:
        writers = [Writer(number, port, parts) for number in range(first, first + count)]
        await asyncio.gather(*(writer.ship(interval) for writer in writers))
        return writers

    writers = asyncio.run(main())
    delays = [delay for writer in writers for delay in writer.delays]
    print(json.dumps({"delays": delays, "retries": sum(writer.retries for writer in writers)}))


# ---- the service


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """Return the largest memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def get(port: int, path: str) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)


def wait_for(port: int) -> None:
    for _ in range(600):
        try:
            get(port, "/healthz")
        except OSError:
            time.sleep(0.1)
        else:
            return


def bench(options: argparse.Namespace, folder: Path) -> None:
    parts = record(folder / "template", options.epochs)
    home = folder / "home"
    port = free_port()
    command = [sys.executable, "-m", "provml", "serve", "--home", str(home), "--port", str(port), "--quiet"]
    tokens = {"PROVML_WRITE_TOKEN": TOKEN, "PROVML_READ_TOKEN": f"read-{TOKEN}"}
    with subprocess.Popen(command, env={**os.environ, **tokens}, stdout=subprocess.DEVNULL) as service:
        try:
            wait_for(port)
            measure(options, parts, home, (port, service.pid))
        finally:
            service.terminate()


def measure(options: argparse.Namespace, parts: list[bytes], home: Path, service: tuple[int, int]) -> None:
    port, pid = service
    share = -(-options.writers // options.processes)
    before, began = cpu_seconds(pid), time.perf_counter()
    processes = []
    for first in range(0, options.writers, share):
        count = min(share, options.writers - first)
        command = [sys.executable, __file__, "--share", str(port), str(first), str(count), str(options.interval)]
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    folder = home.with_name("lake")
    command = [sys.executable, __file__, "--update", str(home), str(folder), str(options.lake)]
    updates = subprocess.Popen(command)
    outputs = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(json.dumps([part.decode() for part in parts]).encode())
        process.stdin.close()
    for process in processes:
        assert process.stdout is not None
        outputs.append(json.loads(process.stdout.read() or b'{"delays": [], "retries": -1}'))
        process.wait()
    wall, cpu = time.perf_counter() - began, cpu_seconds(pid) - before
    updates.terminate()
    updates.wait()
    delays = sorted(delay for output in outputs for delay in output["delays"])
    size = sum(map(len, parts))
    title = f"{options.writers} writers, {len(parts)} requests each, one every {options.interval:g} s"
    print(f"{title}, {size} bytes a journal")
    print(f"  {len(delays)} requests in {wall:.1f} s: {len(delays) / wall:.0f} per second")
    print(f"  service: {cpu:.1f} CPU s, {len(delays) / max(cpu, 0.01):.0f} requests per CPU second")
    middle, most = delays[len(delays) // 2], delays[int(len(delays) * 0.99)]
    print(f"  time of a request: median {middle:.3f} s, 99 % {most:.3f} s, longest {delays[-1]:.3f} s")
    print(f"  requests that were sent again: {sum(output['retries'] for output in outputs)}")
    whole = sum(
        (home / "runs" / f"writer-{number:05}" / "main.jsonl").read_bytes().rstrip(b"\0")
        == b"".join(parts).replace(NAME.encode(), f"writer-{number:05}".encode())
        for number in range(options.writers)
    )
    print(f"  journals that arrived whole: {whole} of {options.writers}")
    began, before = time.perf_counter(), cpu_seconds(pid)
    rows = get(port, f"/api/v1/runs?limit={options.writers}")
    listed = len(rows["rows"] if isinstance(rows, dict) else rows)
    seconds = time.perf_counter() - began
    print(f"  {listed} runs listed {seconds:.1f} s later; index {cpu_seconds(pid) - before:.1f} CPU s more")
    print(f"  peak memory of the service: {peak_mb(pid):.0f} MB", flush=True)
    update_lake(home, folder)
    with lake.open(folder) as tables:
        _, [(runs, sections)] = tables.rows("SELECT count(DISTINCT run), count(*) FROM sections WHERE trains")
        assert (runs, sections) == (options.writers, options.writers * options.epochs)
        began, before = time.perf_counter(), time.process_time()
        slowest = len(tables.ask("b10"))
        wall, cpu = time.perf_counter() - began, time.process_time() - before
        print(f"  slowest epochs of all {sections} from the lake: {slowest} rows in {wall:.2f} s, {cpu:.2f} CPU s")


# ---- the lake


def update_lake(home: Path, folder: Path) -> None:
    """Update a lake once, and print what that took."""
    began, before = time.perf_counter(), time.process_time()
    report = lake.update(home, folder)
    wall, cpu = time.perf_counter() - began, time.process_time() - before
    assert not report.problems
    runs = f"{len(report.added)} runs added, {len(report.left_out)} open and left out"
    print(f"  lake: {runs}; {wall:.1f} s, {cpu:.1f} CPU s, {report.size / 1e6:.2f} MB", flush=True)


def update_again_and_again(home: Path, folder: Path, interval: float) -> None:
    """Update a lake at intervals, until the process is ended."""
    while True:
        time.sleep(interval)
        if (home / "runs").is_dir():
            update_lake(home, folder)


def main() -> None:
    """Print the figures."""
    if sys.argv[1:2] == ["--share"]:
        port, first, count, interval = sys.argv[2:]
        write(int(port), int(first), int(count), float(interval), [part.encode() for part in json.load(sys.stdin)])
        return
    if sys.argv[1:2] == ["--update"]:
        home, folder, interval = sys.argv[2:]
        update_again_and_again(Path(home), Path(folder), float(interval))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--writers", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between two epochs of a writer")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--lake", type=float, default=15.0, help="seconds between two updates of the lake")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        bench(options, Path(temporary))


if __name__ == "__main__":
    main()
