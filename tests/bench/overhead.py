"""Overhead: measure what recording every batch adds to a real training, compared with other recorders.

    python tests/bench/overhead.py [--epochs 5] [--repeat 20] [--seconds 300] [--batch 32] [--only provml]

A small CNN learns scikit-learn's digits in PyTorch, on one thread. Within one training, an epoch with the recorder and
an epoch without it alternate batch by batch, and take turns in going first: both see the same state of the machine.
Each has an optimizer for the shared weights, since a capture attaches to the optimizer; autolog does not, and both
sides have one optimizer, as the script that it is made for.

Autolog is switched on and off for whole epochs, of which it has ten times as many. The switch sets attributes of
PyTorch's classes, after which CPython looks up everything of them again, and a training with autolog does not do that
at every batch.

The time of a batch is CPU time of the training thread, from the request for its data until its loss is recorded. Work
at the start of an epoch counts to its first batch, work at the end to the call that finds no more batches. CPU time of
other threads (mostly writing) cannot be assigned to batches. It is measured over further epochs that are all recorded,
and added as a whole. A batch is two events: its loss, and its end with its duration.

Each training is a separate process, since the memory layout makes a difference from one process to the next (0.3 % was
observed), which trainings in one process do not show. The processes of all contenders take turns, in as many rounds as
`--seconds` allow: at least two, at most `--repeat`.

The figure is the CPU time that is added to the training. Disturbances of the machine are far greater than this figure,
so it is a sum of medians: for each position in an epoch (first batch, second batch, …, end) the median over all pairs
of epochs of the added time. The time of other threads is included and also shown separately. The interval covers 95 %
of resamplings of the trainings. Then follow the mean, which includes all disturbances and varies more, the added wall
time (medians), and the CPU time that a run costs once in this process, in milliseconds: starting and ending the
recorder and its first batch, with the imports that it needs. It is not part of the percentages. The control is a
recorder that only reads the loss, as many trainings do to print it; this training does not. The cost of recording for
those trainings is in the column `over control`. The limit writes four numbers per batch to a mapped file in a few lines
of Python. `provml, captured` is the capture for PyTorch with all that it does (it looks for adaptations at every step),
`provml, shipped` the same with a service in another process as its home, and `provml, by hand` calls the recording API.
`provml, autolog` observes the loop without a call in it; autolog of MLflow is on in the same way, but records nothing
of a plain loop. Contenders that are not installed are listed and skipped. The column `kill -9` follows from the design
of each contender: `keeps` if it writes through (sqlite, flushed files, a mapped journal), empty if it writes in
portions or at the end. Nothing is asserted.
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
import capture as recorders  # the contenders of capture.py

SWITCHED_EPOCHS = 10
"""Epochs of a contender that is switched on and off for whole epochs, for each epoch of the others."""
MIN_ROUNDS = 2
"""Rounds that are made however long they take."""
Batches = Iterable[Any]
Instrument = Callable[[Batches], Iterator[tuple[Any, Callable[..., None]]]]
"""A function that iterates over the loader of an epoch: each batch with the function that records its loss."""


def record_nothing(loss: Any) -> None:
    """Do nothing, as a training without a recorder."""


def plain(loader: Batches) -> Iterator[tuple[Any, Callable[..., None]]]:
    for pair in loader:
        yield pair, record_nothing


def calling(contender: Callable[[Path], Any]) -> Callable[..., Any]:
    """Wrap a contender of capture.py, whose function is called once per batch."""

    @contextmanager
    def start(folder: Path, training: dict[str, Any]) -> Iterator[Instrument]:
        with contender(folder) as record_batch:
            epoch = 0

            def instrument(loader: Batches) -> Iterator[tuple[Any, Callable[..., None]]]:
                nonlocal epoch
                epoch += 1
                for batch, pair in enumerate(loader):
                    yield pair, lambda loss, batch=batch: record_batch(epoch, batch, loss.item())

            yield instrument

    return start


@contextmanager
def captured(folder: Path, training: dict[str, Any]) -> Iterator[Instrument]:
    """Use the capture of provml for PyTorch."""
    from provml.capture.torch import Capture

    with Capture("digits", training["network"], training["optimizer"], home=folder, strict=True) as capture:
        epochs = capture.epochs(1_000_000)

        def instrument(loader: Batches) -> Iterator[tuple[Any, Callable[..., None]]]:
            next(epochs)
            for pair in capture.batches(loader):
                yield pair, capture.measured

        yield instrument
        epochs.close()


@contextmanager
def shipped(folder: Path, training: dict[str, Any]) -> Iterator[Instrument]:
    """Use the capture of provml for PyTorch, and ship the run to a service in another process."""
    from ship import TOKEN, provml_service

    from provml.capture.torch import Capture

    with provml_service(folder / "service") as url:
        shipping = {"token": TOKEN, "spool": folder / "spool"}
        with Capture("digits", training["network"], training["optimizer"], home=url, shipping=shipping) as capture:
            epochs = capture.epochs(1_000_000)

            def instrument(loader: Batches) -> Iterator[tuple[Any, Callable[..., None]]]:
                next(epochs)
                for pair in capture.batches(loader):
                    yield pair, capture.measured

            yield instrument
            epochs.close()


@contextmanager
def autologged(folder: Path, training: dict[str, Any]) -> Iterator[Instrument]:
    """Use autolog of provml: everything that it wraps is restored for the batches without the recorder."""
    from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

    import provml
    from provml.capture.autolog import current
    from provml.capture.autolog._patches import MISSING

    provml.autolog(home=folder, strict=True, name="digits", frameworks=["torch"])
    patches = list(current().patches["torch"])  # type: ignore[union-attr]
    hooks = [(owner, dict(owner)) for owner in (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)]

    def switch(is_on: bool) -> None:
        for owner, registered in hooks:
            owner.update(registered) if is_on else owner.clear()
        for owner, name, original, replacement in patches:
            if is_on or original is not MISSING:
                setattr(owner, name, replacement if is_on else original)
            elif name in vars(owner):
                delattr(owner, name)

    training["switch"] = switch
    yield plain
    switch(True)
    provml.autolog(False)


@contextmanager
def mlflow_autologged(folder: Path, training: dict[str, Any]) -> Iterator[Instrument]:
    """Use autolog of MLflow, which records nothing of a plain loop."""
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.pytorch.autolog()
    with mlflow.start_run():
        yield plain
    mlflow.pytorch.autolog(disable=True)


@contextmanager
def tensorboard(folder: Path) -> Iterator[recorders.RecordBatch]:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))

    def record_batch(epoch: int, batch: int, loss: float) -> None:
        writer.add_scalar("loss", loss, epoch * 1000 + batch)
        writer.add_scalar("seconds", 0.001, epoch * 1000 + batch)

    yield record_batch
    writer.close()


@contextmanager
def bare(folder: Path) -> Iterator[recorders.RecordBatch]:
    """Write four numbers per batch to a mapped file: the limit."""
    with (folder / "numbers").open("w+b") as file:
        file.truncate(1 << 20)
        numbers = memoryview(mmap.mmap(file.fileno(), 1 << 20)).cast("d")
        rows = cycle(range(0, len(numbers), 4))

        def record_batch(epoch: int, batch: int, loss: float) -> None:
            row = next(rows)
            numbers[row] = epoch
            numbers[row + 1] = batch
            numbers[row + 2] = loss
            numbers[row + 3] = time.time()

        yield record_batch


CONTENDERS: dict[str, tuple[str, bool, Callable[..., Any]]] = {
    "no-op (control)": ("", False, calling(recorders.no_recorder)),
    "bare numbers, mapped (limit)": ("", True, calling(bare)),
    "provml, captured": ("", True, captured),
    "provml, by hand": ("", True, calling(recorders.with_provml("map"))),
    "provml, autolog": ("", False, autologged),
    "MLflow, autolog (nothing)": ("mlflow", False, mlflow_autologged),
    "provml, shipped": ("starlette", True, shipped),
    "json, flushed": ("", True, calling(recorders.with_json(True))),
    "MLflow, sqlite, synchronous": ("mlflow", True, calling(recorders.with_mlflow(True))),
    "MLflow, sqlite, asynchronous": ("mlflow", False, calling(recorders.with_mlflow(False))),
    "ProvLake, file, unbuffered": ("provlake", True, calling(recorders.with_provlake(1))),
    "ProvLake, file, bags of 50": ("provlake", False, calling(recorders.with_provlake(50))),
    "yProv4ML": ("yprov4ml", False, calling(recorders.yprov4ml)),
    "Flowcept, offline, lightweight": ("flowcept", False, calling(recorders.flowcept)),
    "TensorBoard": ("tensorboard", False, calling(tensorboard)),
}


class Clock:
    """CPU seconds of this thread and wall seconds of each step of an epoch."""

    def __init__(self) -> None:
        self.cpu: list[float] = []
        self.wall: list[float] = []

    def time(self, work: Callable[[], bool]) -> bool:
        cpu, wall = time.thread_time(), time.perf_counter()
        has_more = work()
        self.cpu.append(time.thread_time() - cpu)
        self.wall.append(time.perf_counter() - wall)
        return has_more


class Training(NamedTuple):
    """Pairs of epochs with and without the recorder, the CPU time of other threads as a part of this thread's, and the
    CPU seconds that the recorder costs once."""

    recorded: list[Clock]
    plain: list[Clock]
    other_threads: float
    once: float


Side = tuple[Clock, Callable[[], bool]]
"""A clock, and a function that trains one batch and returns False if there is none."""


def run_by_batches(sides: list[Side]) -> None:
    """Train an epoch of both sides, which take turns at each batch, and in going first."""
    has_more = True
    while has_more:
        for clock, step in sides:
            has_more = clock.time(step)
        sides.reverse()


def run_by_epochs(sides: list[tuple[Side, bool]], switch: Callable[[bool], None]) -> None:
    """Train an epoch of one side, then one of the other, with the recorder switched on or off."""
    for (clock, step), is_recorded in sides:
        switch(is_recorded)
        while clock.time(step):
            pass


def run_training(contender: str, epochs: int, size: int) -> Training:
    """Run pairs of epochs, then as many epochs that are all recorded."""
    start = CONTENDERS[contender][2]
    import torch
    from sklearn.datasets import load_digits

    torch.set_num_threads(1)
    torch.manual_seed(1)
    images, numbers = load_digits(return_X_y=True)
    inputs = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    labels = torch.tensor(numbers)
    loader = list(zip(inputs.split(size), labels.split(size), strict=True))
    nn = torch.nn
    network = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 16, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    recorded_optimizer, plain_optimizer = (torch.optim.SGD(network.parameters(), lr=0.05) for _ in range(2))
    if "autolog" in contender:
        plain_optimizer = recorded_optimizer
    loss_of = nn.CrossEntropyLoss()

    def make_step(instrument: Instrument, optimizer: Any) -> Callable[[], bool]:
        """Return a function that trains one batch, recording included; it returns False if there is no batch."""
        batches = iter(instrument(loader))

        def step() -> bool:
            for (x, y), record_loss in batches:
                optimizer.zero_grad()
                loss = loss_of(network(x), y)
                loss.backward()
                optimizer.step()
                record_loss(loss=loss.detach())
                return True
            return False

        return step

    result = Training([], [], 0.0, 0.0)
    if "autolog" in contender:  # it recognizes epochs by the loader, which both sides then use
        loader = torch.utils.data.DataLoader(loader, batch_size=None)
    training: dict[str, Any] = {"network": network, "optimizer": recorded_optimizer}
    once = -time.thread_time()
    with tempfile.TemporaryDirectory() as folder, start(Path(folder), training) as instrument:
        once += time.thread_time()
        switch = training.get("switch")
        for number in range(1 + epochs * (SWITCHED_EPOCHS if switch else 1)):
            recorded_clock, plain_clock = Clock(), Clock()
            both = [
                (recorded_clock, make_step(instrument, recorded_optimizer)),
                (plain_clock, make_step(plain, plain_optimizer)),
            ]
            if switch:
                run_by_epochs(list(zip(both, (True, False), strict=True))[:: -1 if number % 2 else 1], switch)
            else:
                run_by_batches(both)
            if not number:
                once += recorded_clock.cpu[0] - plain_clock.cpu[0]
            else:  # the first pair warms the caches
                result.recorded.append(recorded_clock)
                result.plain.append(plain_clock)
        if switch:
            switch(True)
        process, thread = time.process_time(), time.thread_time()
        for _ in range(epochs):
            step = make_step(instrument, recorded_optimizer)
            while step():
                pass
        process, thread = time.process_time() - process, time.thread_time() - thread
        once -= time.thread_time()
    once += time.thread_time()
    return result._replace(other_threads=(process - thread) / thread, once=once)


class Added(NamedTuple):
    """Time added to a plain epoch, as a part of it: all CPU, CPU of other threads, CPU by means, and wall time."""

    cpu: float
    other_threads: float
    mean: float
    wall: float


def added(trainings: list[Training]) -> Added:
    """Return what the recorder adds in all pairs of epochs of these trainings."""
    import numpy

    def by_position(side: str, kind: str) -> Any:
        return numpy.array([getattr(clock, kind) for training in trainings for clock in getattr(training, side)])

    def typical(kind: str) -> float:
        more = by_position("recorded", kind) - by_position("plain", kind)
        return float(numpy.median(more, axis=0).sum() / numpy.median(by_position("plain", kind), axis=0).sum())

    other_threads = statistics.mean(training.other_threads for training in trainings)
    mean = float(by_position("recorded", "cpu").sum() / by_position("plain", "cpu").sum()) - 1
    return Added(typical("cpu") + other_threads, other_threads, mean + other_threads, typical("wall"))


def resampled(trainings: list[Training], seed: int) -> list[float]:
    """Return the added CPU time of 1,000 resamplings of the trainings."""
    draw = random.Random(seed)
    return [added(draw.choices(trainings, k=len(trainings))).cpu for _ in range(1000)]


def interval(draws: list[float]) -> str:
    """Return the interval of 95 % of the draws."""
    ordered = sorted(draws)
    return f"{ordered[len(ordered) // 40]:+.2%} … {ordered[-len(ordered) // 40]:+.2%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=300, help="begin no further round after this time")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--only",
        action="append",
        help="only contenders with this text in their name, the control and the limit; repeat it for more",
    )
    options = parser.parse_args()
    names = []
    texts = options.only or [""]
    for name, (package, _, _) in CONTENDERS.items():
        if not any(text in name for text in texts) and "control" not in name and "limit" not in name:
            continue
        if package and importlib.util.find_spec(package) is None:
            print(f"{name}: not installed, skipped")
        else:
            names.append(name)
    trainings: dict[str, list[Training]] = {name: [] for name in names}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        began, rounds = time.monotonic(), 0
        while rounds < options.repeat and (rounds < MIN_ROUNDS or time.monotonic() - began < options.seconds):
            rounds += 1
            for name in names:
                training = pool.submit(run_training, name, options.epochs, options.batch).result()
                trainings[name].append(training)
    clocks = [clock for group in trainings.values() for training in group for clock in training.plain]
    batch = statistics.median(statistics.median(clock.cpu) for clock in clocks) * 1000
    print(f"\nA plain batch takes {batch:.2f} ms of CPU; {rounds} trainings of {options.epochs} pairs of epochs")
    print(
        f"{'contender':<32}{'kill -9':>9}{'added, CPU':>12}{'95 %':>20}{'threads':>10}{'mean':>9}{'wall':>9}"
        f"{'once, ms':>10}{'over control':>14}{'95 %':>20}"
    )
    control = trainings[names[0]]
    control_cpu, control_draws = added(control).cpu, resampled(control, 0)
    for number, (name, group) in enumerate(trainings.items()):
        more, draws = added(group), resampled(group, number)
        keeps = "keeps" if CONTENDERS[name][1] else ""
        line = f"{name:<32}{keeps:>9}{more.cpu:>+12.2%}{interval(draws):>20}"
        line += f"{more.other_threads:>10.2%}{more.mean:>+9.2%}{more.wall:>+9.2%}"
        line += f"{statistics.median(training.once for training in group) * 1000:>10.1f}"
        if number:
            over_control = [draw - other for draw, other in zip(draws, control_draws, strict=True)]
            line += f"{more.cpu - control_cpu:>+14.2%}{interval(over_control):>20}"
        print(line)


if __name__ == "__main__":
    main()
