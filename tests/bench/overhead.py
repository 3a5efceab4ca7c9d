"""Overhead: what recording every batch adds to a real training, next to other recorders and to doing nothing.

    python tests/bench/overhead.py [--pairs 12] [--repeat 5] [--batch 32]

A small CNN learns scikit-learn's digits in PyTorch, on one thread. In one training, epochs with and without a
recorder alternate (which comes first alternates too), so that both see the same machine; the ratio of such a pair is
one reading, and the median of all pairs of all rounds is shown, with the middle half of them. The control is a
recorder that does nothing: what it differs from 1 by is noise. A batch is two events: its loss, and its end with the
time it took. CPU time is that of all threads of the process, wall time is shown beside it. `provml, captured` is the
capture for PyTorch with all it does (adaptations are looked for at every step), `provml, by hand` the recorder's own
verbs. Contenders that are not installed are named and left out. Which of them keep what was recorded through a `kill
-9` is from the design of each: writing through (sqlite, flushed files, a mapped journal) or at the end. Nothing is
asserted.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import capture as others  # the contenders of the benchmark next door

Batches = Iterable[Any]
Around = Callable[[Batches], Iterator[tuple[Any, Callable[[Any], None]]]]
"""What is given the loader of an epoch and gives its batches, each with what is to be told of its loss."""


def plain(loader: Batches) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    for pair in loader:
        yield pair, lambda loss: None


def telling(contender: Callable[[Path], Any]) -> Callable[..., Any]:
    """A contender that is told of each batch."""

    @contextmanager
    def instrument(folder: Path, training: dict[str, Any]) -> Iterator[Around]:
        with contender(folder) as tell:
            epoch = 0

            def around(loader: Batches) -> Iterator[tuple[Any, Callable[[Any], None]]]:
                nonlocal epoch
                epoch += 1
                for batch, pair in enumerate(loader):
                    yield pair, lambda loss, batch=batch: tell(epoch, batch, loss.item())

            yield around

    return instrument


@contextmanager
def captured(folder: Path, training: dict[str, Any]) -> Iterator[Around]:
    """provml's capture for PyTorch."""
    from provml.capture.torch import Capture

    with Capture("digits", training["network"], training["optimizer"], home=folder, strict=True) as capture:
        epochs = capture.epochs(1_000_000)

        def around(loader: Batches) -> Iterator[tuple[Any, Callable[[Any], None]]]:
            next(epochs)
            for pair in capture.batches(loader):
                yield pair, lambda loss: capture.measured(loss=loss)

        yield around
        epochs.close()


@contextmanager
def tensorboard(folder: Path) -> Iterator[others.Tell]:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))

    def tell(epoch: int, batch: int, loss: float) -> None:
        writer.add_scalar("loss", loss, epoch * 1000 + batch)
        writer.add_scalar("seconds", 0.001, epoch * 1000 + batch)

    yield tell
    writer.close()


CONTENDERS: dict[str, tuple[str, bool, Callable[..., Any]]] = {
    "no-op (control)": ("", False, telling(others.nothing)),
    "provml, captured": ("", True, captured),
    "provml, by hand": ("", True, telling(others.with_provml("map"))),
    "json, flushed": ("", True, telling(others.with_json(True))),
    "MLflow, sqlite, asynchronous": ("mlflow", False, telling(others.mlflow)),
    "yProv4ML": ("yprov4ml", False, telling(others.yprov4ml)),
    "Flowcept, offline, lightweight": ("flowcept", False, telling(others.flowcept)),
    "ProvLake, file, bags of 50": ("provlake", False, telling(others.provlake)),
    "TensorBoard": ("tensorboard", False, telling(tensorboard)),
}


def one_training(instrument: Callable[..., Any], pairs: int, size: int) -> tuple[list[float], list[float], float]:
    """The ratios of recorded to plain epochs by CPU and by wall time, and the CPU milliseconds of a plain batch."""
    import torch
    from sklearn.datasets import load_digits

    torch.set_num_threads(1)
    torch.manual_seed(1)
    images, numbers = load_digits(return_X_y=True)
    shown = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    wanted = torch.tensor(numbers)
    loader = list(zip(shown.split(size), wanted.split(size), strict=True))
    nn = torch.nn
    network = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 16, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    loss_of = nn.CrossEntropyLoss()

    def epoch(around: Around) -> tuple[float, float]:
        cpu, wall = time.process_time(), time.perf_counter()
        for (x, y), tell in around(loader):
            optimizer.zero_grad()
            loss = loss_of(network(x), y)
            loss.backward()
            optimizer.step()
            tell(loss.detach())
        return time.process_time() - cpu, time.perf_counter() - wall

    by_cpu, by_wall, plains = [], [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        instrument(Path(folder), {"network": network, "optimizer": optimizer}) as around,
    ):
        epoch(plain)
        for number in range(pairs):
            turns = (plain, around) if number % 2 else (around, plain)
            took = [epoch(turn) for turn in turns]
            without, recorded = took if number % 2 else took[::-1]
            by_cpu.append(recorded[0] / without[0])
            by_wall.append(recorded[1] / without[1])
            plains.append(without[0] / len(loader) * 1000)
    return by_cpu, by_wall, statistics.median(plains)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    given = parser.parse_args()
    found = {}
    for name, (package, _, instrument) in CONTENDERS.items():
        if package and importlib.util.find_spec(package) is None:
            print(f"{name}: not installed, left out")
        else:
            found[name] = instrument
    readings: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in found}
    batch = []
    for _ in range(given.repeat):
        for name, instrument in found.items():
            by_cpu, by_wall, plain_batch = one_training(instrument, given.pairs, given.batch)
            readings[name][0].extend(by_cpu)
            readings[name][1].extend(by_wall)
            batch.append(plain_batch)
    print(
        f"\nA plain batch takes {statistics.median(batch):.2f} ms of CPU; {given.repeat} rounds of {given.pairs} pairs"
    )
    print(f"{'contender':<32}{'kill -9':>9}{'added, CPU':>12}{'middle half':>20}{'added, wall':>13}")
    for name, (by_cpu, by_wall) in readings.items():
        low, middle, high = statistics.quantiles(by_cpu, n=4) if len(by_cpu) > 1 else by_cpu * 3
        wall = statistics.median(by_wall)
        half = f"{low - 1:+.2%} … {high - 1:+.2%}"
        keeps = "keeps" if CONTENDERS[name][1] else ""
        print(f"{name:<32}{keeps:>9}{middle - 1:>+12.2%}{half:>20}{wall - 1:>+13.2%}")


if __name__ == "__main__":
    main()
