"""Shipping: measure what recording for a service adds to a training, and how soon events can be asked about.

    python tests/bench/ship.py [--batches 1500] [--step 0.004] [--repeat 5] [--writers 1,2,4,8] [--provlake FOLDER]

The settings are those of Souza et al., section 5.3 and Fig. 9: queue size 1 or 50, diskless (journal in memory) or
diskful, online (sent to the service while training) or offline. A training is a loop of batches with two capture calls
each, 35 batches an epoch. A batch waits, as for an accelerator, then computes a little, so that the trainings of the
weak scaling do not compete for the few cores of a machine. Trainings of all settings take turns, each in a process of
its own. The figure is the median wall time over that of a training that records nothing, and the CPU time of the whole
process over its CPU time. The time from the last batch to the end of the process is apart: that is when a run waits for
the service.

The delay is the time from a call that records the loss of an epoch until a query of the service gives it, asked every
50 ms. The weak scaling has 1, 2, 4 and 8 trainings at once that record into one service, each with the same work.

ProvLake's client (`--provlake` is a folder with its package, if it is not installed) sends to a server that stores each
request in a file and answers: ProvTracker itself is not published. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

TOKEN = "write-token-of-the-benchmark"
BATCHES_PER_EPOCH = 35


class Setting(NamedTuple):
    """A way to record: the name of the recorder, the queue size, and where events go."""

    label: str
    recorder: str
    queue: int = 1
    is_diskful: bool = True
    is_online: bool = True


SETTINGS = [
    Setting("nothing is recorded", "none"),
    Setting("provml A: queue 1, diskless, online", "provml", 1, False, True),
    Setting("provml B: queue 1, diskful, online", "provml", 1, True, True),
    Setting("provml C: queue 1, diskful, offline", "provml", 1, True, False),
    Setting("provml D: queue 50, diskless, online", "provml", 50, False, True),
    Setting("provml E: queue 50, diskful, online", "provml", 50, True, True),
    Setting("provml F: queue 50, diskful, offline", "provml", 50, True, False),
    Setting("ProvLake A: queue 1, diskless, online", "provlake", 1, False, True),
    Setting("ProvLake C: queue 1, diskful, offline", "provlake", 1, True, False),
    Setting("ProvLake D: queue 50, diskless, online", "provlake", 50, False, True),
    Setting("ProvLake F: queue 50, diskful, offline", "provlake", 50, True, False),
]


# ---- a training, in a process of its own


def train(setting: Setting, batches: int, step: float, urls: tuple[str, str], folder: Path) -> dict[str, Any]:
    """Train, and return the times of the process, and when the loss of each epoch was recorded."""
    recorder = {"none": record_nothing, "provml": record_provml, "provlake": record_provlake}[setting.recorder]
    marks: list[float] = []
    with contextlib.ExitStack() as stack:
        record_batch, record_epoch = stack.enter_context(recorder(setting, urls, folder))
        wall, cpu = time.perf_counter(), time.process_time()
        for number in range(batches):
            time.sleep(step)
            loss = sum(1.0 / (number + index + 1) for index in range(2000))
            record_batch(number, loss)
            if number % BATCHES_PER_EPOCH == BATCHES_PER_EPOCH - 1:
                record_epoch(number // BATCHES_PER_EPOCH + 1, loss)
                marks.append(time.time())
        result = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "marks": marks}
        ended = time.perf_counter()
    return {**result, "end": time.perf_counter() - ended}


Recorder = Iterator[tuple[Any, Any]]


@contextlib.contextmanager
def record_nothing(setting: Setting, urls: tuple[str, str], folder: Path) -> Recorder:
    yield (lambda number, loss: None), (lambda epoch, loss: None)


@contextlib.contextmanager
def record_provml(setting: Setting, urls: tuple[str, str], folder: Path) -> Recorder:
    import provml

    shipping: Any = {"queue": setting.queue, "seconds": 0.0 if setting.queue == 1 else 1.0, "online": setting.is_online}
    shipping |= {"token": TOKEN, "spool": folder / "spool" if setting.is_diskful else "memory"}
    run = provml.record("bench", home=urls[0], run=folder.name, shipping=shipping, capture_environment=False)
    training = run.training(learning_rate=0.1)
    epoch = training.epoch(1)

    def record_batch(number: int, loss: float) -> None:
        batch = epoch.batch(number % BATCHES_PER_EPOCH + 1)
        batch.measured(loss=loss)
        batch.done()

    def record_epoch(number: int, loss: float) -> None:
        nonlocal epoch
        epoch.measured(epoch_loss=loss)
        epoch.done()
        epoch = training.epoch(number + 1)

    yield record_batch, record_epoch
    epoch.done()
    training.done()
    run.finish()


@contextlib.contextmanager
def record_provlake(setting: Setting, urls: tuple[str, str], folder: Path) -> Recorder:
    from provlake import ProvLake
    from provlake.capture import ProvTask, ProvWorkflow

    options: dict[str, Any] = {"bag_size": setting.queue, "should_send_to_file": setting.is_diskful}
    if setting.is_online:
        options |= {"service_url": urls[1] + "/"}
    if setting.is_diskful:
        options |= {"log_file_path": str(folder / "events.log")}
    persister = ProvLake.get_persister(**options)
    with ProvWorkflow(persister, "bench") as workflow:

        def record_batch(number: int, loss: float) -> None:
            with ProvTask(persister, "batch", workflow, {"batch": number}) as task:
                task.end({"loss": loss})

        yield record_batch, lambda epoch, loss: None
    persister.close()


# ---- services


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@contextlib.contextmanager
def provml_service(home: Path) -> Iterator[str]:
    """Serve a home with `provml serve`."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "provml.cli", "serve", "--home", str(home), "--port", str(port), "--quiet"]
    tokens = {"PROVML_WRITE_TOKEN": TOKEN, "PROVML_READ_TOKEN": TOKEN}
    process = subprocess.Popen(command, env={**os.environ, **tokens}, stdout=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"{url}/healthz"):
                    break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@contextlib.contextmanager
def storing_server(folder: Path) -> Iterator[str]:
    """Serve as ProvTracker does, as far as ProvLake's client can tell: store each request, and answer."""
    file = (folder / "requests").open("ab")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            file.write(self.rfile.read(int(self.headers.get("Content-Length", 0))) + b"\n")
            file.flush()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        file.close()


# ---- measuring


def start(setting: Setting, options: argparse.Namespace, urls: tuple[str, str], folder: Path) -> subprocess.Popen[str]:
    """Start a training in another process."""
    folder.mkdir()
    job = {"setting": setting, "batches": options.batches, "step": options.step, "urls": urls, "folder": str(folder)}
    path = os.pathsep.join(filter(None, [str(options.provlake or ""), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, __file__, "--job", json.dumps(job)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what a training measured."""
    output = process.communicate()[0]
    assert process.returncode == 0, "a training failed"
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


class Watch(threading.Thread):
    """Asks a service again and again how many epochs of a run it has, and notes when each came."""

    def __init__(self, url: str, run: str) -> None:
        super().__init__(daemon=True)
        self.url, self.run_id = url, run
        self.arrivals: list[float] = []
        self.ended = threading.Event()

    def run(self) -> None:
        import provml

        text = (
            "SELECT (COUNT(DISTINCT ?v) AS ?n) { ?v prov:value ?x ; "
            'provlake:wasDerivedFromAttribute/rdfs:label "epoch_loss" ; prov:wasGeneratedBy ?e . '
            "?e provml:wasSectionOf/provlake:wasMemberOfWorkflowExecution "
            f"<https://w3id.org/provml/run/{self.run_id}> }}"
        )
        with provml.open(self.url, token=TOKEN) as store:
            while not self.ended.is_set():
                count = store._answer(text).rows[0][0]  # type: ignore[union-attr]
                self.arrivals += [time.time()] * (count - len(self.arrivals))
                time.sleep(0.05)


def compare_settings(options: argparse.Namespace, folder: Path, urls: tuple[str, str]) -> None:
    """Print what each setting adds."""
    settings = [s for s in SETTINGS if s.recorder != "provlake" or has_provlake(options)]
    results: dict[Setting, list[dict[str, Any]]] = {setting: [] for setting in settings}
    for turn in range(options.repeat):
        for number, setting in enumerate(settings):
            process = start(setting, options, urls, folder / f"s{turn}-{number}")
            results[setting].append(finish(process))
    base = {key: statistics.median(r[key] for r in results[settings[0]]) for key in ("wall", "cpu")}
    print(f"\n{options.batches} batches, {2 * options.batches} events; medians of {options.repeat} trainings")
    print(f"{'setting':42}{'wall s':>8}{'added':>9}{'CPU s':>8}{'added':>9}{'end s':>8}")
    for setting, rounds in results.items():
        wall, cpu, end = (statistics.median(r[key] for r in rounds) for key in ("wall", "cpu", "end"))
        more_wall, more_cpu = wall / base["wall"] - 1, (cpu - base["cpu"]) / base["wall"]
        print(f"{setting.label:42}{wall:8.2f}{more_wall:9.2%}{cpu:8.2f}{more_cpu:9.2%}{end:8.2f}")
    print("CPU added is over the wall time of a training that records nothing")


def weak_scaling(options: argparse.Namespace, folder: Path, urls: tuple[str, str]) -> None:
    """Print the time of trainings that record at once, and the delay until their events can be asked about."""
    setting = next(s for s in SETTINGS if s.label.startswith("provml D"))
    print(f"\nweak scaling, {setting.label}")
    print(f"{'writers':>8}{'wall s':>9}{'over 1':>9}{'delay s: median':>17}{'95 %':>7}{'max':>7}")
    first = 0.0
    for count in options.writers:
        names = [f"w{count}-{number}" for number in range(count)]
        watch = Watch(urls[0], names[0])
        watch.start()
        processes = [start(setting, options, urls, folder / name) for name in names]
        results = [finish(process) for process in processes]
        time.sleep(2.0)
        watch.ended.set()
        watch.join()
        wall = statistics.median(result["wall"] for result in results)
        first = first or wall
        delays = sorted(arrival - mark for arrival, mark in zip(watch.arrivals, results[0]["marks"], strict=False))
        if delays:
            late = delays[math.ceil(0.95 * len(delays)) - 1]
            shown = f"{statistics.median(delays):17.2f}{late:7.2f}{delays[-1]:7.2f}"
        else:
            shown = f"{'-':>17}"
        print(f"{count:8}{wall:9.2f}{wall / first - 1:9.2%}{shown}")


def has_provlake(options: argparse.Namespace) -> bool:
    if options.provlake:
        return True
    return importlib.util.find_spec("provlake") is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1500)
    parser.add_argument("--step", type=float, default=0.004, help="seconds that a batch waits")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--writers", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 4, 8])
    parser.add_argument("--provlake", type=Path, help="folder with the package `provlake`")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job = json.loads(options.job)
        setting = Setting(*job["setting"])
        result = train(setting, job["batches"], job["step"], tuple(job["urls"]), Path(job["folder"]))
        print(json.dumps(result))
        return
    if not has_provlake(options):
        print("ProvLake: not installed, skipped")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with provml_service(folder / "service") as service, storing_server(folder) as tracker:
            compare_settings(options, folder, (service, tracker))
            weak_scaling(options, folder, (service, tracker))


if __name__ == "__main__":
    main()
