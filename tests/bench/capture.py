"""Capture: what an event costs the thread that trains, next to writing JSON lines by hand and to other recorders.

    python tests/bench/capture.py [--batches 20000] [--epochs 12] [--repeat 5]

A batch is two events: its loss, and its end with the time it took. `json, flushed` is the floor of what survives
kill -9 when written by hand: json.dumps, write, flush. Two settings: a tight loop that does nothing else, and a real
training in numpy, where caches are cold. Rounds alternate between contenders. In the loop the best round counts, as CPU
time of the thread that trains; in the training the median of all calls, as wall time, and the ratio of recorded to
plain epochs, which alternate inside one training so that both see the same machine. Contenders that are not installed
are named and left out. Nothing is asserted.
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
Tell = Callable[[int, int, float], None]
"""What is called for each batch: with the epoch, the batch, and the loss."""


@contextmanager
def nothing(folder: Path) -> Iterator[Tell]:
    yield lambda epoch, batch, loss: None


def with_provml(mode: str) -> Callable[[Path], Any]:
    @contextmanager
    def provml(folder: Path) -> Iterator[Tell]:
        from provml.recorder import record

        os.environ["PROVML_JOURNAL"] = mode
        with record("bench", home=folder, strict=True, capture_environment=False) as run, run.training() as training:
            now, section, batches = 0, None, iter(())

            def tell(epoch: int, batch: int, loss: float) -> None:
                nonlocal now, section, batches
                if epoch != now:
                    if section is not None:
                        section.done()
                    now, section = epoch, training.epoch(epoch)
                    batches = section.batches(count())
                next(batches).measured(loss=loss)

            yield tell
        del os.environ["PROVML_JOURNAL"]

    return provml


def with_json(flush: bool) -> Callable[[Path], Any]:
    @contextmanager
    def lines(folder: Path) -> Iterator[Tell]:
        with (folder / "events.jsonl").open("w", encoding="utf-8") as file:

            def tell(epoch: int, batch: int, loss: float) -> None:
                began = time.perf_counter()
                at = f"training/{epoch}/{batch}"
                file.write(json.dumps({"e": "measured", "at": at, "values": {"loss": loss}}) + "\n")
                if flush:
                    file.flush()
                seconds = time.perf_counter() - began
                file.write(json.dumps({"e": "batch", "at": at, "t": time.time(), "s": seconds}) + "\n")
                if flush:
                    file.flush()

            yield tell

    return lines


def with_mlflow(synchronous: bool) -> Callable[[Path], Any]:
    @contextmanager
    def mlflow(folder: Path) -> Iterator[Tell]:
        import mlflow

        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        with mlflow.start_run():

            def tell(epoch: int, batch: int, loss: float) -> None:
                step = epoch * 1_000_000 + batch
                mlflow.log_metrics({"loss": loss, "seconds": 0.001}, step=step, synchronous=synchronous)

            yield tell
            if not synchronous:
                mlflow.flush_async_logging()

    return mlflow


@contextmanager
def yprov4ml(folder: Path) -> Iterator[Tell]:
    import yprov4ml

    before = Path.cwd()
    os.chdir(folder)  # it leaves a list of what is installed where it runs
    yprov4ml.start_run("bench", prov_user_namespace="bench", provenance_save_dir=str(folder), save_after_n_logs=100)

    def tell(epoch: int, batch: int, loss: float) -> None:
        yprov4ml.log_metric("loss", loss, "training", step=batch)
        yprov4ml.log_metric("seconds", 0.001, "training", step=batch)

    yield tell
    yprov4ml.end_run()
    os.chdir(before)


@contextmanager
def flowcept(folder: Path) -> Iterator[Tell]:
    from flowcept import Flowcept
    from flowcept.instrumentation.flowcept_task import lightweight_flowcept_task

    @lightweight_flowcept_task
    def batch_ended(epoch: int, batch: int, loss: float) -> dict[str, float]:
        return {"loss": loss}

    before = Path.cwd()
    os.chdir(folder)
    with Flowcept(save_workflow=False, start_persistence=False):

        def tell(epoch: int, batch: int, loss: float) -> None:
            batch_ended(epoch=epoch, batch=batch, loss=loss)
            batch_ended(epoch=epoch, batch=batch, loss=loss)

        yield tell
    os.chdir(before)


def with_provlake(bag: int) -> Callable[[Path], Any]:
    @contextmanager
    def provlake(folder: Path) -> Iterator[Tell]:
        from provlake import ProvLake
        from provlake.capture import ProvTask, ProvWorkflow

        ProvLake._persister_singleton_instance = None  # the last round's is closed
        persister = ProvLake.get_persister(log_file_path=str(folder / "events.log"), bag_size=bag)
        with ProvWorkflow(persister, "bench") as workflow:

            def tell(epoch: int, batch: int, loss: float) -> None:
                with ProvTask(persister, "batch", workflow, {"epoch": epoch, "batch": batch}) as task:
                    task.end({"loss": loss})

            yield tell
        persister.close()

    return provlake


CONTENDERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "provml, mapped": ("", with_provml("map")),
    "provml, write(2)": ("", with_provml("write")),
    "json, flushed (the floor)": ("", with_json(True)),
    "json, buffered (not kill-safe)": ("", with_json(False)),
    "MLflow, sqlite, asynchronous": ("mlflow", with_mlflow(False)),
    "MLflow, sqlite, synchronous": ("mlflow", with_mlflow(True)),
    "yProv4ML": ("yprov4ml", yprov4ml),
    "Flowcept, offline, lightweight": ("flowcept", flowcept),
    "ProvLake, file, bags of 50": ("provlake", with_provlake(50)),
    "ProvLake, file, unbuffered": ("provlake", with_provlake(1)),
}
FLOOR = "json, flushed (the floor)"


def installed() -> dict[str, Callable[[Path], Any]]:
    """The contenders that are here; the others are named."""
    found = {}
    for name, (package, contender) in CONTENDERS.items():
        if package and importlib.util.find_spec(package) is None:
            print(f"{name}: not installed, left out")
        else:
            found[name] = contender
    return found


def loop(contender: Callable[[Path], Any], batches: int) -> float:
    """Microseconds of CPU an event in a tight loop, until all is told."""
    with tempfile.TemporaryDirectory() as folder:
        gc.collect()
        with contender(Path(folder)) as tell:
            began = time.thread_time()
            for batch in range(batches):
                tell(1, batch, 0.123456789 / (batch + 1))
            spent = time.thread_time() - began
    return spent / (2 * batches) * 1e6


def training(contender: Callable[[Path], Any], epochs: int) -> tuple[float, float]:
    """Epochs of a training in numpy as a multiple of the plain ones beside them, and microseconds an event."""
    import numpy as np

    random = np.random.default_rng(1)
    images, wanted = random.normal(size=(128, 784)), random.normal(size=(128, 10))
    first, second = random.normal(size=(784, 128)) * 0.01, random.normal(size=(128, 10)) * 0.01
    batches = 40
    ratios: list[float] = []
    costs: list[float] = []
    with tempfile.TemporaryDirectory() as folder, contender(Path(folder)) as tell:

        def one_epoch(epoch: int, said: Tell) -> float:
            nonlocal first, second
            began = time.thread_time()
            for batch in range(batches):
                hidden = np.maximum(images @ first, 0.0)
                error = hidden @ second - wanted
                second -= 1e-5 * hidden.T @ error
                first -= 1e-5 * images.T @ ((error @ second.T) * (hidden > 0))
                loss = float((error * error).mean())
                asked = time.perf_counter()
                said(epoch, batch, loss)
                if said is tell:
                    costs.append((time.perf_counter() - asked) / 2 * 1e6)
            return time.thread_time() - began

        def quiet(epoch: int, batch: int, loss: float) -> None:
            return None

        one_epoch(0, quiet)
        for epoch in range(1, epochs + 1):
            pair = [one_epoch(epoch, said) for said in ((quiet, tell) if epoch % 2 else (tell, quiet))]
            plain, recorded = pair if epoch % 2 else pair[::-1]
            ratios.append(recorded / plain)
    return statistics.median(ratios), statistics.median(costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    contenders = installed()
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(given.repeat):
        for name, contender in contenders.items():
            best[name] = min(best[name], loop(contender, given.batches))
    print(f"\nTight loop, {given.batches} batches of 2 events, best of {given.repeat}")
    print(f"{'contender':<32}{'µs an event':>12}{'of the floor':>14}")
    for name, spent in best.items():
        print(f"{name:<32}{spent:>12.2f}{spent / best[FLOOR]:>14.2f}")
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in ["no-op (control)", *contenders]}
    for _ in range(given.repeat):
        for name, contender in {"no-op (control)": nothing, **contenders}.items():
            rounds[name].append(training(contender, given.epochs))
    print(f"\nInside a training in numpy, {given.epochs} pairs of epochs, median of {given.repeat}")
    print(f"{'contender':<32}{'µs an event':>12}{'batch time, recorded / plain':>32}")
    for name, found in rounds.items():
        ratio, cost = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"{name:<32}{cost:>12.2f}{ratio:>32.3f}")


if __name__ == "__main__":
    main()
