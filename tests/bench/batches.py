"""Batches: compare what recording a batch costs with the batch buffer and with one line per batch.

    python tests/bench/batches.py [CHECKOUT ...] [--repeat 10] [--batches 600] [--only torch,keras]

Two designs, both safe against `kill -9`. `buffer` is what provml does: a batch is a row of numbers in a mapped file,
and many rows become one event. `line` is the alternative: one complete JSON line per batch in the mapped journal,
written with the first measure and extended in place by further measures and by the end. `LinePerBatch` below has the
interface of `BatchBuffer` and takes its place. Further checkouts of provml can be passed as folders to compare commits.

| case | recorded by |
|---|---|
| loop | `epoch.batches()` and `batch.measured()` in a loop that does nothing else |
| single | `epoch.batch(i)`, `measured()` and `done()` in a loop that does nothing else |
| evicted | `epoch.batches()` with an 8 MB copy in each batch, which empties the caches |
| torch | the capture for PyTorch in a small convolutional network |
| keras | the capture for Keras (PyTorch backend) |
| lightning | the capture for Lightning |

Each measurement is a process of its own, and the designs take turns. The cost of a batch is the CPU time of the
training thread inside the calls of provml, measured call by call in the training itself: caches are as cold as the
training leaves them, and the noise of the training is not part of the figure. The price of reading the clock is in
all figures. `median` is that of all batches; `mean` (without the highest 0.2 %) includes work that is done once for
many batches. `of a batch` is the mean as a part of the CPU time of the whole batch, `more` the difference of
that part to the first row. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import get_ident
from time import perf_counter, thread_time, time
from typing import Any

try:
    from provml.journal.events import encode_json as _to_json
except ImportError:  # an earlier checkout, which is only measured with its own buffer
    _to_json = None

DESIGNS = ("buffer", "line")
COLUMNS = ("median µs", "mean µs", "batch µs")


class LinePerBatch:
    """Alternative to `BatchBuffer`: one JSON line per batch, extended in place while it is the last line.

    Another event ends the line: later measures, and the end of the batch, are then lines of their own.
    """

    has_begun = True

    def __init__(self, file: Any, emit: Callable[..., bool], *_: Any, **options: Any) -> None:
        self.owner: Any = None
        self.current: Any = None
        self.index = 0
        self.started = 0.0
        self._file = file
        self._writer = emit.__self__  # type: ignore[attr-defined]
        self._prefix = b""
        self._line_end = -1
        self._thread = 0

    def is_owned_by(self, owner: Any) -> bool:
        return self.owner is owner and self._thread == get_ident()

    def acquire(self, owner: Any) -> bool:
        self.owner, self._thread = owner, get_ident()
        self._prefix = b'{"e":"batch","at":%b/' % _to_json(owner._location)[:-1]
        return True

    def release(self) -> None:
        self.owner = self.current = None

    def begin(self, batch: Any, index: int) -> None:
        self.current, self.index, self.started, self._line_end = batch, index, batch._began, -1

    def begin_next(self, index: int) -> None:
        self.index, self.started, self._line_end = index, perf_counter(), -1

    def put(self, values: Any, tensor: Any = None) -> bool:
        totals = self.owner._totals
        for name, value in values.items():
            if type(value) is tensor:
                value = value.tolist()
                values = {**values, name: value}
            if type(value) is not float or value - value != 0.0:
                return False
            total = totals.get(name)
            if total is None:
                totals[name] = [value, 1.0]
            else:
                total[0] += value
                total[1] += 1.0
        encoded = _to_json(values)
        self._write(b",%b}\n" % encoded[1:], 3, b'%b%d","values":%b}\n' % (self._prefix, self.index, encoded))
        return True

    def end(self, ago: float = 0.0, *, keep: bool = False) -> None:
        ended, seconds = time() - ago, perf_counter() - ago - self.started
        if not keep:
            self.current = None
        end = b'"t":%.6f,"s":%.9f}\n' % (ended, seconds)
        self._write(b",%b" % end, 2, b'%b%d",%b' % (self._prefix, self.index, end))

    def _write(self, tail: bytes, overlap: int, line: bytes) -> None:
        """Extend the open line by a tail that replaces its last bytes, or append a line."""
        file, writer = self._file, self._writer
        with writer.lock:
            writer._is_writing = True  # events of a signal handler wait until the line is written
            try:
                if file.end == self._line_end:
                    start = file.end - overlap
                    end = start + len(tail)
                    if end > file.limit:
                        file._grow(end - file.size)
                    file._map[start:end] = tail
                    file.end = end
                else:
                    file.append(line)
            finally:
                writer._is_writing = False
            self._line_end = file.end
            writer._sync.dirty = True

    def flush(self) -> None:
        """Do nothing: an event that is written now ends the open line."""

    def close(self) -> None:
        self.release()


class Meter:
    """CPU seconds inside provml and in total, for each batch."""

    def __init__(self) -> None:
        self.inside: list[float] = []
        self.total: list[float] = []
        self._spent = 0.0
        self._began = thread_time()

    def call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function of provml so that its CPU time counts."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._spent += thread_time() - began

        return timed

    def iterate(self, items: Iterator[Any]) -> Iterator[Any]:
        """Wrap an iterator of provml so that the CPU time of each step counts."""
        step = self.call(items.__next__)
        while True:
            try:
                item = step()
            except StopIteration:
                return
            yield item

    def end_batch(self) -> None:
        """Store the times of the current batch and begin the next."""
        now = thread_time()
        self.inside.append(self._spent)
        self.total.append(now - self._began)
        self._spent, self._began = 0.0, now


def loop(meter: Meter, home: Path, batches: int) -> None:
    _loop(meter, home, batches * 20, evict=False)


def evicted(meter: Meter, home: Path, batches: int) -> None:
    _loop(meter, home, batches * 2, evict=True)


def _loop(meter: Meter, home: Path, batches: int, *, evict: bool) -> None:
    import numpy

    from provml import record

    block, copy = numpy.ones(1 << 20), numpy.ones(1 << 20)
    with record("bench", home=home, strict=True, capture_environment=False) as run, run.training() as training:
        for epoch in training.epochs(2):
            for batch in meter.iterate(epoch.batches(range(batches))):
                if evict:
                    copy[:] = block
                meter.call(batch.measured)(loss=0.123456789 / batch.index)
                meter.end_batch()


def single(meter: Meter, home: Path, batches: int) -> None:
    from provml import record

    with record("bench", home=home, strict=True, capture_environment=False) as run, run.training() as training:
        for epoch in training.epochs(2):
            begin = meter.call(epoch.batch)
            for index in range(1, batches * 20):
                batch = begin(index)
                meter.call(batch.measured)(loss=0.123456789 / index)
                meter.call(batch.done)()
                meter.end_batch()


def _digits(size: int = 32) -> tuple[Any, Any]:
    import torch
    from sklearn.datasets import load_digits

    torch.set_num_threads(1)
    torch.manual_seed(1)
    images, numbers = load_digits(return_X_y=True)
    return torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16, torch.tensor(numbers)


def _network() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 16, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def torch(meter: Meter, home: Path, batches: int) -> None:
    import torch

    from provml.capture.torch import Capture

    images, numbers = _digits()
    pairs = list(zip(images.split(32), numbers.split(32), strict=True))
    network = _network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    loss_of = torch.nn.CrossEntropyLoss()
    capture = Capture("bench", network, optimizer, home=home, strict=True, capture_environment=False)
    with capture:
        for _ in capture.epochs(max(1, batches // len(pairs))):
            for x, y in meter.iterate(capture.batches(pairs)):
                optimizer.zero_grad()
                loss = loss_of(network(x), y)
                loss.backward()
                optimizer.step()
                meter.call(capture.measured)(loss=loss.detach())
                meter.end_batch()


def keras(meter: Meter, home: Path, batches: int) -> None:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    from provml.capture.keras import Capture

    images, numbers = _digits()
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((8, 8, 1)), layers.Conv2D(32, 3, activation="relu"), layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(), layers.Flatten(), layers.Dense(10, activation="softmax"),
        ]
    )  # fmt: skip
    model.compile(optimizer="sgd", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    x = images.reshape(-1, 8, 8, 1).numpy()
    capture = Capture("bench", home=home, strict=True, capture_environment=False)
    capture.on_train_batch_begin = meter.call(capture.on_train_batch_begin)
    end = meter.call(capture.on_train_batch_end)

    def on_train_batch_end(*args: Any, **kwargs: Any) -> None:
        end(*args, **kwargs)
        meter.end_batch()

    capture.on_train_batch_end = on_train_batch_end
    with capture:
        model.fit(x, numbers.numpy(), epochs=max(1, batches // 57), batch_size=32, verbose=0, callbacks=[capture])


def lightning(meter: Meter, home: Path, batches: int) -> None:
    import logging
    import warnings

    warnings.simplefilter("ignore")
    import torch
    from lightning import pytorch as lightning
    from torch.utils.data import DataLoader, TensorDataset

    from provml.capture.lightning import Capture

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Digits(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = _network()

        def training_step(self, batch: Any) -> Any:
            x, y = batch
            return torch.nn.functional.cross_entropy(self.network(x), y)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.05)

    loader = DataLoader(TensorDataset(*_digits()), batch_size=32)
    capture = Capture("bench", home=home, strict=True, capture_environment=False)
    capture.on_train_batch_start = meter.call(capture.on_train_batch_start)
    end = meter.call(capture.on_train_batch_end)

    def on_train_batch_end(*args: Any, **kwargs: Any) -> None:
        end(*args, **kwargs)
        meter.end_batch()

    capture.on_train_batch_end = on_train_batch_end
    with capture:
        trainer = lightning.Trainer(
            max_epochs=max(1, batches // 57), callbacks=[capture], logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, accelerator="cpu", default_root_dir=home,
        )  # fmt: skip
        trainer.fit(Digits(), loader)


CASES: dict[str, Callable[[Meter, Path, int], None]] = {
    "loop": loop,
    "single": single,
    "evicted": evicted,
    "torch": torch,
    "keras": keras,
    "lightning": lightning,
}


def measure(case: str, design: str, batches: int) -> list[float]:
    """Run one case in this process; return the columns."""
    if design == "line":
        from provml.recording import writer

        writer.BatchBuffer = LinePerBatch  # type: ignore[assignment,misc]
    meter = Meter()
    with tempfile.TemporaryDirectory() as folder:
        CASES[case](meter, Path(folder), batches)
    warm = len(meter.inside) // 10
    inside, total = meter.inside[warm:], meter.total[warm:]
    usual = sorted(inside)[: -max(1, len(inside) // 500)]
    return [value * 1e6 for value in (statistics.median(inside), statistics.mean(usual), statistics.median(total))]


def in_child(folder: Path, case: str, design: str, batches: int) -> list[float]:
    """Run one case in a process that imports provml from a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment.pop("PROVML_RUN", None)
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", case, "--design", design]
    answer = subprocess.run(
        [*command, "--batches", str(batches)], env=environment, capture_output=True, text=True, check=True
    )
    columns: list[float] = json.loads(answer.stdout.splitlines()[-1])
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("checkouts", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--batches", type=int, default=600)
    parser.add_argument("--only", default="", help="comma-separated cases")
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    parser.add_argument("--design", default="buffer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.design, args.batches)))
        return
    here = Path(__file__).resolve().parents[2]
    contenders = {design: (here, design) for design in DESIGNS}
    contenders |= {folder.resolve().name: (folder.resolve(), "buffer") for folder in args.checkouts}
    print(f"{'case':<12}{'design':<16}" + "".join(f"{column:>12}" for column in (*COLUMNS, "of a batch", "more")))
    for case in args.only.split(",") if args.only else CASES:
        rows: dict[str, list[list[float]]] = {name: [] for name in contenders}
        for turn in range(args.repeat):
            for name in list(contenders)[:: 1 if turn % 2 else -1]:
                folder, design = contenders[name]
                rows[name].append(in_child(folder, case, design, args.batches))
        first: float | None = None
        for name, measured in rows.items():
            median, mean, batch = (statistics.median(column) for column in zip(*measured, strict=True))
            share = statistics.median(row[1] / row[2] for row in measured)
            first = share if first is None else first
            figures = f"{median:>12.2f}{mean:>12.2f}{batch:>12.0f}{share:>12.3%}{share - first:>+12.3%}"
            print(f"{case:<12}{name:<16}{figures}", flush=True)


if __name__ == "__main__":
    main()
