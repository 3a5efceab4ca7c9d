"""Capture: compare the cost of an event for the training thread with JSON lines and with other recorders.

    python tests/bench/capture.py [--batches 20000] [--epochs 12] [--repeat 5]

A batch is two events: its loss, and its end with its duration. The baseline is the simplest code that survives
`kill -9`: json.dumps, write, flush. There are two settings: a tight loop that does nothing else, and a training in
numpy, where caches are cold. Rounds alternate between contenders. For the loop, the figure is the CPU time of the
training thread in the best round. For the training, the figures are the median wall time of all calls, and the ratio
of recorded to plain epochs, which alternate within one training to share the state of the machine. Contenders that are
not installed are listed and skipped. At the end, the same loop is recorded with and without seals by turns: the CPU
time of the training thread, and of the whole process with the thread that digests the journal. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

os.environ.pop("PROVML_RUN", None)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
RecordBatch = Callable[[int, int, float], None]
"""A function that records a batch, called with the epoch, the batch and the loss."""


@contextmanager
def no_recorder(folder: Path) -> Iterator[RecordBatch]:
    yield lambda epoch, batch, loss: None


def with_provml(mode: str) -> Callable[[Path], Any]:
    @contextmanager
    def provml(folder: Path) -> Iterator[RecordBatch]:
        from provml.recording.run import record

        os.environ["PROVML_JOURNAL"] = mode
        with record("bench", home=folder, strict=True, capture_environment=False) as run, run.training() as training:
            current, section, batches = 0, None, iter(())

            def record_batch(epoch: int, batch: int, loss: float) -> None:
                nonlocal current, section, batches
                if epoch != current:
                    if section is not None:
                        section.done()
                    current, section = epoch, training.epoch(epoch)
                    batches = section.batches(count())
                next(batches).measured(loss=loss)

            yield record_batch
        del os.environ["PROVML_JOURNAL"]

    return provml


def with_json(flush: bool) -> Callable[[Path], Any]:
    @contextmanager
    def lines(folder: Path) -> Iterator[RecordBatch]:
        with (folder / "events.jsonl").open("w", encoding="utf-8") as file:

            def record_batch(epoch: int, batch: int, loss: float) -> None:
                began = time.perf_counter()
                location = f"training/{epoch}/{batch}"
                file.write(json.dumps({"e": "measured", "at": location, "values": {"loss": loss}}) + "\n")
                if flush:
                    file.flush()
                seconds = time.perf_counter() - began
                file.write(json.dumps({"e": "batch", "at": location, "t": time.time(), "s": seconds}) + "\n")
                if flush:
                    file.flush()

            yield record_batch

    return lines


def with_mlflow(synchronous: bool) -> Callable[[Path], Any]:
    @contextmanager
    def mlflow(folder: Path) -> Iterator[RecordBatch]:
        import mlflow

        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        with mlflow.start_run():

            def record_batch(epoch: int, batch: int, loss: float) -> None:
                step = epoch * 1_000_000 + batch
                mlflow.log_metrics({"loss": loss, "seconds": 0.001}, step=step, synchronous=synchronous)

            yield record_batch
            if not synchronous:
                mlflow.flush_async_logging()

    return mlflow


@contextmanager
def yprov4ml(folder: Path) -> Iterator[RecordBatch]:
    import yprov4ml

    before = Path.cwd()
    os.chdir(folder)  # it writes a list of the installed packages to the working directory
    yprov4ml.start_run("bench", prov_user_namespace="bench", provenance_save_dir=str(folder), save_after_n_logs=100)

    def record_batch(epoch: int, batch: int, loss: float) -> None:
        yprov4ml.log_metric("loss", loss, "training", step=batch)
        yprov4ml.log_metric("seconds", 0.001, "training", step=batch)

    yield record_batch
    yprov4ml.end_run()
    os.chdir(before)


@contextmanager
def flowcept(folder: Path) -> Iterator[RecordBatch]:
    from flowcept import Flowcept
    from flowcept.instrumentation.flowcept_task import lightweight_flowcept_task

    @lightweight_flowcept_task
    def batch_ended(epoch: int, batch: int, loss: float) -> dict[str, float]:
        return {"loss": loss}

    before = Path.cwd()
    os.chdir(folder)
    with Flowcept(save_workflow=False, start_persistence=False):

        def record_batch(epoch: int, batch: int, loss: float) -> None:
            batch_ended(epoch=epoch, batch=batch, loss=loss)
            batch_ended(epoch=epoch, batch=batch, loss=loss)

        yield record_batch
    os.chdir(before)


def with_provlake(bag: int) -> Callable[[Path], Any]:
    @contextmanager
    def provlake(folder: Path) -> Iterator[RecordBatch]:
        from provlake import ProvLake
        from provlake.capture import ProvTask, ProvWorkflow

        ProvLake._persister_singleton_instance = None  # that of the previous round is closed
        persister = ProvLake.get_persister(log_file_path=str(folder / "events.log"), bag_size=bag)
        with ProvWorkflow(persister, "bench") as workflow:

            def record_batch(epoch: int, batch: int, loss: float) -> None:
                with ProvTask(persister, "batch", workflow, {"epoch": epoch, "batch": batch}) as task:
                    task.end({"loss": loss})

            yield record_batch
        persister.close()

    return provlake


CONTENDERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "provml, mapped": ("", with_provml("map")),
    "provml, write(2)": ("", with_provml("write")),
    "json, flushed (baseline)": ("", with_json(True)),
    "json, buffered (not kill-safe)": ("", with_json(False)),
    "MLflow, sqlite, asynchronous": ("mlflow", with_mlflow(False)),
    "MLflow, sqlite, synchronous": ("mlflow", with_mlflow(True)),
    "yProv4ML": ("yprov4ml", yprov4ml),
    "Flowcept, offline, lightweight": ("flowcept", flowcept),
    "ProvLake, file, bags of 50": ("provlake", with_provlake(50)),
    "ProvLake, file, unbuffered": ("provlake", with_provlake(1)),
}
BASELINE = "json, flushed (baseline)"


def installed() -> dict[str, Callable[[Path], Any]]:
    """Return the installed contenders; print the names of the others."""
    contenders = {}
    for name, (package, contender) in CONTENDERS.items():
        if package and importlib.util.find_spec(package) is None:
            print(f"{name}: not installed, skipped")
        else:
            contenders[name] = contender
    return contenders


def loop(contender: Callable[[Path], Any], batches: int) -> float:
    """Return the CPU time of an event in a tight loop, in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        gc.collect()
        with contender(Path(folder)) as record_batch:
            began = time.thread_time()
            for batch in range(batches):
                record_batch(1, batch, 0.123456789 / (batch + 1))
            spent = time.thread_time() - began
    return spent / (2 * batches) * 1e6


def training(contender: Callable[[Path], Any], epochs: int) -> tuple[float, float]:
    """Return the median ratio of recorded to plain epochs of a training in numpy, and the microseconds per event."""
    import numpy as np

    random = np.random.default_rng(1)
    images, labels = random.normal(size=(128, 784)), random.normal(size=(128, 10))
    first, second = random.normal(size=(784, 128)) * 0.01, random.normal(size=(128, 10)) * 0.01
    batches = 40
    ratios: list[float] = []
    costs: list[float] = []
    with tempfile.TemporaryDirectory() as folder, contender(Path(folder)) as record_batch:

        def run_epoch(epoch: int, recorder: RecordBatch) -> float:
            nonlocal first, second
            began = time.thread_time()
            for batch in range(batches):
                hidden = np.maximum(images @ first, 0.0)
                error = hidden @ second - labels
                second -= 1e-5 * hidden.T @ error
                first -= 1e-5 * images.T @ ((error @ second.T) * (hidden > 0))
                loss = float((error * error).mean())
                called = time.perf_counter()
                recorder(epoch, batch, loss)
                if recorder is record_batch:
                    costs.append((time.perf_counter() - called) / 2 * 1e6)
            return time.thread_time() - began

        def skip(epoch: int, batch: int, loss: float) -> None:
            return None

        run_epoch(0, skip)
        for epoch in range(1, epochs + 1):
            order = (skip, record_batch) if epoch % 2 else (record_batch, skip)
            pair = [run_epoch(epoch, recorder) for recorder in order]
            plain, recorded = pair if epoch % 2 else pair[::-1]
            ratios.append(recorded / plain)
    return statistics.median(ratios), statistics.median(costs)


@contextmanager
def sealing(is_on: bool) -> Iterator[None]:
    """Record with seals, or without them."""
    from provml.journal.seals import RunningSeal

    methods = {name: getattr(RunningSeal, name) for name in ("begin", "update", "close")}
    try:
        for name in () if is_on else methods:
            setattr(RunningSeal, name, lambda self: None)
        yield
    finally:
        for name, method in methods.items():
            setattr(RunningSeal, name, method)


def sealed_loop(is_on: bool, batches: int) -> tuple[float, float]:
    """Return CPU µs per event of the training thread, and of the whole process, for a run from start to end."""
    from provml.recording.context import CONTEXT, Limits

    limits, CONTEXT.limits = CONTEXT.limits, Limits(sync_seconds=0.05)  # a short loop has many marks, too
    try:
        with tempfile.TemporaryDirectory() as folder, sealing(is_on):
            thread, process = time.thread_time(), time.process_time()
            with with_provml("map")(Path(folder)) as record:
                for batch in range(batches):
                    record(1, batch + 1, 0.5)
            spent = time.thread_time() - thread, time.process_time() - process
    finally:
        CONTEXT.limits = limits
    return spent[0] / batches / 2 * 1e6, spent[1] / batches / 2 * 1e6


def print_sealing(batches: int, repeat: int) -> None:
    """Compare recording with and without seals."""
    rounds = [(sealed_loop(True, batches), sealed_loop(False, batches)) for _ in range(2 * repeat)]
    print(f"\nSeals, {batches} batches of 2 events, median of {2 * repeat}")
    print(f"{'CPU µs per event':<32}{'sealed':>12}{'not sealed':>14}{'ratio':>10}")
    for column, name in enumerate(("training thread", "whole process")):
        sealed, plain = (statistics.median(pair[side][column] for pair in rounds) for side in (0, 1))
        print(f"{name:<32}{sealed:>12.2f}{plain:>14.2f}{sealed / plain:>10.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    contenders = installed()
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(options.repeat):
        for name, contender in contenders.items():
            best[name] = min(best[name], loop(contender, options.batches))
    print(f"\nTight loop, {options.batches} batches of 2 events, best of {options.repeat}")
    print(f"{'contender':<32}{'µs per event':>12}{'of baseline':>14}")
    for name, spent in best.items():
        print(f"{name:<32}{spent:>12.2f}{spent / best[BASELINE]:>14.2f}")
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in ["no-op (control)", *contenders]}
    for _ in range(options.repeat):
        for name, contender in {"no-op (control)": no_recorder, **contenders}.items():
            rounds[name].append(training(contender, options.epochs))
    print(f"\nInside a training in numpy, {options.epochs} pairs of epochs, median of {options.repeat}")
    print(f"{'contender':<32}{'µs per event':>12}{'batch time, recorded / plain':>32}")
    for name, measured in rounds.items():
        ratio, cost = (statistics.median(column) for column in zip(*measured, strict=True))
        print(f"{name:<32}{cost:>12.2f}{ratio:>32.3f}")
    print_sealing(options.batches, options.repeat)


if __name__ == "__main__":
    main()
