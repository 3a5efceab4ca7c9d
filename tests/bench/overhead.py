"""Overhead: what recording every batch adds to a real training, next to other recorders and to doing nothing.

    python tests/bench/overhead.py [--epochs 5] [--repeat 20] [--batch 32] [--only provml]

A small CNN learns scikit-learn's digits in PyTorch, on one thread. In one training an epoch with and an epoch without
the recorder go through the data side by side, batch by batch, and take turns in going first, so that both see the same
machine. The two have optimizers of their own for the same weights, since a capture hangs on the optimizer. A batch is
timed from asking for its data until its loss is told; what begins or ends an epoch is part of its first batch and of
the call that finds no more. What other threads of the process work meanwhile (writing, mostly) cannot be told apart by
batch and counts to the recorder as a whole; since some of them work by the clock and some by what is recorded, it is
taken from as many epochs again that are all recorded. A batch is two events: its loss, and its end with its time.

Each training is in a process of its own: where things come to lie in memory makes a difference from one process to the
next (0.3 % was seen), which trainings in the same process do not show. Those of all contenders take turns.

Shown is the CPU time that is added to the training. The machine is disturbed now and then, and by far more than what is
to be measured, so it is the median over all pairs of epochs of what is added at the same place in them (the first
batch, the second, …, the end), summed over the places, and what the other threads took, which is also shown by itself.
The interval is that of 95 in 100 resamplings of the trainings. Then the mean, which takes all as it came and so varies
more, and the added wall time (medians). The control is a recorder that does nothing but read the loss, as many a plain
training does to print it and this one does not: what is over the control is what recording adds there. The limit keeps
four bare numbers of each batch in a mapped file, in a few lines of Python. `provml, captured` is the capture for
PyTorch with all it does (adaptations are looked for at every step), `provml, by hand` the recorder's own verbs.
Contenders that are not installed are named and left out. Which keep what was recorded through a `kill -9` is from the
design of each: writing through (sqlite, flushed files, a mapped journal) or in portions and at the end. Nothing is
asserted.
"""

from __future__ import annotations

import argparse
import importlib.util
import mmap
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
import capture as others  # the contenders of the benchmark next door

Batches = Iterable[Any]
Around = Callable[[Batches], Iterator[tuple[Any, Callable[..., None]]]]
"""What is given the loader of an epoch and gives its batches, each with what is to be told of its loss."""


def nothing(loss: Any) -> None:
    """What a plain training tells of a batch."""


def plain(loader: Batches) -> Iterator[tuple[Any, Callable[..., None]]]:
    for pair in loader:
        yield pair, nothing


def telling(contender: Callable[[Path], Any]) -> Callable[..., Any]:
    """A contender that is told of each batch."""

    @contextmanager
    def instrument(folder: Path, training: dict[str, Any]) -> Iterator[Around]:
        with contender(folder) as tell:
            epoch = 0

            def around(loader: Batches) -> Iterator[tuple[Any, Callable[..., None]]]:
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

        def around(loader: Batches) -> Iterator[tuple[Any, Callable[..., None]]]:
            next(epochs)
            for pair in capture.batches(loader):
                yield pair, capture.measured

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


@contextmanager
def bare(folder: Path) -> Iterator[others.Tell]:
    """The limit: four numbers of each batch, in a file that is mapped."""
    with (folder / "numbers").open("w+b") as file:
        file.truncate(1 << 20)
        numbers = memoryview(mmap.mmap(file.fileno(), 1 << 20)).cast("d")
        rows = cycle(range(0, len(numbers), 4))

        def tell(epoch: int, batch: int, loss: float) -> None:
            row = next(rows)
            numbers[row] = epoch
            numbers[row + 1] = batch
            numbers[row + 2] = loss
            numbers[row + 3] = time.time()

        yield tell


CONTENDERS: dict[str, tuple[str, bool, Callable[..., Any]]] = {
    "no-op (control)": ("", False, telling(others.nothing)),
    "bare numbers, mapped (limit)": ("", True, telling(bare)),
    "provml, captured": ("", True, captured),
    "provml, by hand": ("", True, telling(others.with_provml("map"))),
    "json, flushed": ("", True, telling(others.with_json(True))),
    "MLflow, sqlite, synchronous": ("mlflow", True, telling(others.with_mlflow(True))),
    "MLflow, sqlite, asynchronous": ("mlflow", False, telling(others.with_mlflow(False))),
    "ProvLake, file, unbuffered": ("provlake", True, telling(others.with_provlake(1))),
    "ProvLake, file, bags of 50": ("provlake", False, telling(others.with_provlake(50))),
    "yProv4ML": ("yprov4ml", False, telling(others.yprov4ml)),
    "Flowcept, offline, lightweight": ("flowcept", False, telling(others.flowcept)),
    "TensorBoard": ("tensorboard", False, telling(tensorboard)),
}


class Clock:
    """The seconds of CPU of this thread, and of the wall, that each part of an epoch took."""

    def __init__(self) -> None:
        self.own: list[float] = []
        self.wall: list[float] = []

    def time(self, work: Callable[[], bool]) -> bool:
        own, wall = time.thread_time(), time.perf_counter()
        goes_on = work()
        self.own.append(time.thread_time() - own)
        self.wall.append(time.perf_counter() - wall)
        return goes_on


class Training(NamedTuple):
    """Epochs with the recorder and as many without, in pairs, and the CPU time that other threads add to recorded ones,
    a part of that of this thread."""

    ours: list[Clock]
    plain: list[Clock]
    beside: float


def one_training(contender: str, epochs: int, size: int) -> Training:
    """So many pairs of epochs, then so many epochs that are all recorded."""
    instrument = CONTENDERS[contender][2]
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
    watched, unwatched = (torch.optim.SGD(network.parameters(), lr=0.05) for _ in range(2))
    loss_of = nn.CrossEntropyLoss()

    def stepping(around: Around, optimizer: Any) -> Callable[[], bool]:
        """One batch a call, with all that is done around it; false when there was none left."""
        batches = iter(around(loader))

        def step() -> bool:
            for (x, y), tell in batches:
                optimizer.zero_grad()
                loss = loss_of(network(x), y)
                loss.backward()
                optimizer.step()
                tell(loss=loss.detach())
                return True
            return False

        return step

    found = Training([], [], 0.0)
    with (
        tempfile.TemporaryDirectory() as folder,
        instrument(Path(folder), {"network": network, "optimizer": watched}) as around,
    ):
        for number in range(epochs + 1):
            ours, plains = Clock(), Clock()
            both = [(ours, stepping(around, watched)), (plains, stepping(plain, unwatched))]
            goes_on = True
            while goes_on:
                for clock, step in both:
                    goes_on = clock.time(step)
                both.reverse()
            if number:  # the first warms the caches
                found.ours.append(ours)
                found.plain.append(plains)
        whole, own = time.process_time(), time.thread_time()
        for _ in range(epochs):
            step = stepping(around, watched)
            while step():
                pass
        whole, own = time.process_time() - whole, time.thread_time() - own
    return found._replace(beside=(whole - own) / own)


class Added(NamedTuple):
    """What is added to a plain epoch, a part of it: CPU in all, that of other threads, CPU by means, and wall time."""

    cpu: float
    beside: float
    mean: float
    wall: float


def added(trainings: list[Training]) -> Added:
    """What the recorder adds by all pairs of epochs of these trainings."""
    import numpy

    def by_place(side: str, clock: str) -> Any:
        return numpy.array([getattr(one, clock) for training in trainings for one in getattr(training, side)])

    def typical(clock: str) -> float:
        more = by_place("ours", clock) - by_place("plain", clock)
        return float(numpy.median(more, axis=0).sum() / numpy.median(by_place("plain", clock), axis=0).sum())

    beside = statistics.mean(training.beside for training in trainings)
    mean = float(by_place("ours", "own").sum() / by_place("plain", "own").sum()) - 1
    return Added(typical("own") + beside, beside, mean + beside, typical("wall"))


def resampled(trainings: list[Training], seed: int) -> list[float]:
    """The CPU that is added, for 1,000 draws of as many trainings."""
    draw = random.Random(seed)
    return [added(draw.choices(trainings, k=len(trainings))).cpu for _ in range(1000)]


def interval(draws: list[float]) -> str:
    """Where 95 of 100 are."""
    found = sorted(draws)
    return f"{found[len(found) // 40]:+.2%} … {found[-len(found) // 40]:+.2%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--only", default="", help="only contenders with this in their name, the control and the limit")
    given = parser.parse_args()
    found = []
    for name, (package, _, _) in CONTENDERS.items():
        if given.only not in name and "control" not in name and "limit" not in name:
            continue
        if package and importlib.util.find_spec(package) is None:
            print(f"{name}: not installed, left out")
        else:
            found.append(name)
    trainings: dict[str, list[Training]] = {name: [] for name in found}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as each_in_its_own:
        for _ in range(given.repeat):
            for name in found:
                trainings[name].append(each_in_its_own.submit(one_training, name, given.epochs, given.batch).result())
    plains = [clock for several in trainings.values() for training in several for clock in training.plain]
    batch = statistics.median(statistics.median(clock.own) for clock in plains) * 1000
    print(
        f"\nA plain batch takes {batch:.2f} ms of CPU; {given.repeat} trainings of {given.epochs} pairs of epochs each"
    )
    print(
        f"{'contender':<32}{'kill -9':>9}{'added, CPU':>12}{'95 of 100':>20}{'threads':>10}{'mean':>9}{'wall':>9}"
        f"{'over control':>14}{'95 of 100':>20}"
    )
    control = trainings[found[0]]
    reading, control_draws = added(control).cpu, resampled(control, 0)
    for number, (name, several) in enumerate(trainings.items()):
        more, draws = added(several), resampled(several, number)
        keeps = "keeps" if CONTENDERS[name][1] else ""
        line = f"{name:<32}{keeps:>9}{more.cpu:>+12.2%}{interval(draws):>20}"
        line += f"{more.beside:>10.2%}{more.mean:>+9.2%}{more.wall:>+9.2%}"
        if number:
            beyond = [one - other for one, other in zip(draws, control_draws, strict=True)]
            line += f"{more.cpu - reading:>+14.2%}{interval(beyond):>20}"
        print(line)


if __name__ == "__main__":
    main()
