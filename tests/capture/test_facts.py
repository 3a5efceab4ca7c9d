"""What is told of data that passes by."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import provml
from capture.contract import ask
from provml.capture import facts

X, Y = np.ones((160, 64), np.float32), np.arange(160)


class Loader:
    """What a loader looks like to who only looks."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.batch_size = dataset, 48


def told(home: Path, given: Any) -> set[tuple[Any, ...]]:
    """The datasets that are told of something: name, type, how many, and whether the content is known."""
    with provml.record("digits", home=home, strict=True) as run:
        facts.tell(run, given, "training", "data")
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
def test_inputs_and_targets_are_data_each_and_rows_are_one_dataset(tmp_path: Path, case: str):
    given, wanted = CASES[case]
    assert told(tmp_path, given) == wanted


def test_the_sampler_of_a_loader_is_the_one_that_says_its_order():
    data = pytest.importorskip("torch.utils.data", reason="PyTorch is not installed: `pip install 'provml[torch]'`")
    rows, order = list(range(8)), data.RandomSampler(range(8))
    batches = data.BatchSampler(order, 4, False)
    loaders = {
        "RandomSampler": [
            data.DataLoader(rows, 4, shuffle=True), data.DataLoader(rows, None, sampler=order),
            data.DataLoader(rows, batch_sampler=batches), SimpleNamespace(batch_sampler=Share(batches), sampler=[]),
        ],
        "SequentialSampler": [data.DataLoader(rows, 4), data.DataLoader(rows, batch_sampler=[[0, 1], [2]])],
    }  # fmt: skip
    for name, several in loaders.items():
        assert [facts.loading(one)["sampler"] for one in several] == [name] * len(several)
    assert "sampler" not in facts.loading(Loader([X, Y]))


class Share:
    """What one of several processes takes of the batches, as Accelerate has it."""

    def __init__(self, batches: Any) -> None:
        self.batch_sampler = batches


def test_what_is_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(facts, "HASHED_BYTES", X.nbytes - 1)
    assert told(tmp_path, X) == {("data", "ndarray", 160, False)}


def test_a_stream_is_not_read(tmp_path: Path):
    stream = iter([1, 2])
    told(tmp_path, stream)
    assert list(stream) == [1, 2]


class Eager:
    """A tensor as TensorFlow gives it: it does not say how many bytes it takes, and holds an array."""

    def __init__(self, array: Any, device: str = "/job:localhost/replica:0/task:0/device:CPU:0") -> None:
        self._array, self.shape, self.device = array, array.shape, device
        self.dtype = type("DType", (), {"size": array.dtype.itemsize})()

    def __len__(self) -> int:
        return len(self._array)

    def numpy(self) -> Any:
        assert "GPU" not in self.device, "what lies on a GPU is left there"
        return self._array


def test_a_tensor_that_does_not_say_its_size_is_known_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert told(tmp_path / "a", Eager(X)) == {("data", "Eager", 160, True)}
    assert told(tmp_path / "b", Eager(X, "/device:GPU:0")) == {("data", "Eager", 160, False)}
    monkeypatch.setattr(facts, "HASHED_BYTES", X.nbytes - 1)
    assert told(tmp_path / "c", Eager(X)) == {("data", "Eager", 160, False)}
