"""Datasets of a capture: what is recorded about arrays, loaders and streams, by role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import provml
from capture.contract import ask
from provml.capture import _data
from provml.capture._data import CaptureData

X, Y = np.ones((160, 64), np.float32), np.arange(160)
LARGE = np.broadcast_to(np.uint8(1), (160, _data.MAX_HASHED_BYTES // 160 + 1))  # one byte in memory


class Loader:
    """An object with the attributes of a loader."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.batch_size = dataset, 48


def recorded(home: Path, value: Any) -> set[tuple[Any, ...]]:
    """Return the datasets recorded for a value: name, type, count, and whether the content was hashed."""
    with provml.record("digits", home=home, strict=True) as run:
        _data.record_data(run, value, "training", "data")
    with provml.open(home) as store:
        rows = ask(store, """SELECT ?name ?type ?count (BOUND(?sha) AS ?known) {
            ?d a provml:LearningDataset ; prov:wasDerivedFrom/rdfs:label ?name ;
               provml:hasDatasetCharacteristicValue ?t .
            ?t prov:wasDerivedFrom/rdfs:label "data_type" ; prov:value ?type
            OPTIONAL { ?d provml:hasDatasetCharacteristicValue ?i .
                       ?i prov:wasDerivedFrom/rdfs:label "instances" ; prov:value ?count }
            OPTIONAL { ?d provlake:sha256 ?sha } }""")  # fmt: skip
    return set(rows)


ARRAYS = {("data_1", "ndarray", 160, True), ("data_2", "ndarray", 160, True)}
CASES = {
    "an array": (X, {("data", "ndarray", 160, True)}),
    "inputs and targets": ((X, Y), ARRAYS),
    "inputs by name": ({"image": X}, {("data_image", "ndarray", 160, True)}),
    "a loader": (Loader([X, Y]), ARRAYS),
    "rows": ([{"x": row, "y": 1} for row in X], {("data", "list", 160, False)}),
    "rows as pairs": (list(zip(X, Y, strict=True)), {("data", "list", 160, False)}),
    "few rows": ([{"x": X[0], "y": 1}], {("data", "list", 1, False)}),
    "a stream": (iter([1, 2]), {("data", "list_iterator", None, False)}),
    "nothing": (None, set()),
}


@pytest.mark.parametrize("case", CASES)
def test_inputs_and_targets_are_separate_datasets_and_rows_are_one(tmp_path: Path, case: str):
    value, expected = CASES[case]
    assert recorded(tmp_path, value) == expected


def test_the_recorded_sampler_is_the_one_that_decides_the_order():
    data = pytest.importorskip("torch.utils.data", reason="PyTorch is not installed: `pip install 'provml[torch]'`")
    rows, order = list(range(8)), data.RandomSampler(range(8))
    batches = data.BatchSampler(order, 4, False)
    loaders = {
        "RandomSampler": [
            data.DataLoader(rows, 4, shuffle=True), data.DataLoader(rows, None, sampler=order),
            data.DataLoader(rows, batch_sampler=batches),
            SimpleNamespace(batch_sampler=ProcessBatchSampler(batches), sampler=[]),
        ],
        "SequentialSampler": [data.DataLoader(rows, 4), data.DataLoader(rows, batch_sampler=[[0, 1], [2]])],
    }  # fmt: skip
    for name, group in loaders.items():
        assert [_data.loader_settings(loader)["sampler"] for loader in group] == [name] * len(group)
    sizes = [_data.loader_settings(loader).get("batch_size") for loader in loaders["RandomSampler"]]
    assert sizes == [4, None, 4, 4]
    assert "sampler" not in _data.loader_settings(Loader([X, Y]))


class ProcessBatchSampler:
    """The batch sampler of one process, as in Accelerate."""

    def __init__(self, batches: Any) -> None:
        self.batch_sampler = batches


def test_a_large_array_is_not_hashed(tmp_path: Path):
    assert recorded(tmp_path, LARGE) == {("data", "ndarray", 160, False)}


def test_a_stream_is_not_consumed(tmp_path: Path):
    stream = iter([1, 2])
    recorded(tmp_path, stream)
    assert list(stream) == [1, 2]


class Eager:
    """A tensor like those of TensorFlow, without `nbytes`."""

    def __init__(self, array: Any, device: str = "/job:localhost/replica:0/task:0/device:CPU:0") -> None:
        self._array, self.shape, self.device = array, array.shape, device
        self.dtype = type("DType", (), {"size": array.dtype.itemsize})()

    def __len__(self) -> int:
        return len(self._array)

    def numpy(self) -> Any:
        assert "GPU" not in self.device, "data on a GPU is not copied"
        return self._array


def test_a_tensor_without_a_size_in_bytes_is_hashed(tmp_path: Path):
    assert recorded(tmp_path / "a", Eager(X)) == {("data", "Eager", 160, True)}
    assert recorded(tmp_path / "b", Eager(X, "/device:GPU:0")) == {("data", "Eager", 160, False)}
    assert recorded(tmp_path / "c", Eager(LARGE)) == {("data", "Eager", 160, False)}


# ---- data by role


@pytest.fixture
def run(tmp_path: Path) -> Iterator[provml.Run]:
    with provml.record("digits", home=tmp_path / "home", strict=True, capture_environment=False) as run:
        yield run


def test_observed_data_is_recorded_once_until_it_is_reset(run: provml.Run):
    data, calls = CaptureData(run, {}), []

    def observe() -> list[provml.Data]:
        calls.append(len(calls))
        return _data.record_data(run, X, "training", "x")

    first = data.get("training", observe)
    assert data.get("training", observe) == first
    data.reset("training")
    assert data.get("training", observe)[0].sha256 == first[0].sha256
    assert len(calls) == 2


def test_data_of_another_source_is_recorded_separately_and_remembered(run: provml.Run):
    data, sources = CaptureData(run, {}), [Loader([]), Loader([])]
    observed = [
        data.get("test", lambda: [run.dataset(None, role="test", name="stream")], source=sources[number])
        for number in (0, 1, 0)
    ]
    assert observed[0] != observed[1]
    assert observed[2] == observed[0]


def test_data_that_the_user_passed_takes_precedence(run: provml.Run, tmp_path: Path):
    (tmp_path / "test.csv").write_text("1,2")
    data = CaptureData(run, {"training": [X, Y], "test": tmp_path / "test.csv"})
    assert [item.name for item in data.get("training", source=object())] == ["training data", "training data"]
    first = data.get("test", list)
    data.reset("test")
    assert data.get("test", list) is first
    assert first[0].sha256


def test_a_training_has_data_even_if_nothing_is_known_about_it(run: provml.Run):
    assert [item.name for item in CaptureData(run, {}).get("training")] == ["training data"]
    assert CaptureData(run, {}).get("test") == []


def test_an_error_while_data_is_observed_is_reported(tmp_path: Path):
    def observe() -> list[provml.Data]:
        raise OSError("no data")

    with provml.record("digits", home=tmp_path, capture_environment=False) as run:
        assert CaptureData(run, {}).get("test", observe) == []
        assert run.capture_errors == 1
