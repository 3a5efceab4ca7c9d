"""Runs: what is recorded, values that survive the journal exactly, and true statuses."""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import logging
import math
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
import weakref
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_events import read_events

import provml
from provml.journal import events
from provml.journal.events import (
    Adapted,
    BatchEnd,
    Begin,
    CaptureErrors,
    Done,
    End,
    Environment,
    Measured,
    Parameter,
    Produced,
    Used,
)
from provml.journal.values import jsonable
from provml.mapping import data as artifact
from provml.model.values import Text
from provml.rdf.json_values import decode_value
from provml.recording import data as data_module
from provml.recording import hashing
from provml.recording.context import CONTEXT, Limits
from provml.recording.run import Run

pytestmark = pytest.mark.usefixtures("isolated_home")


def record(name: str = "flowers", **settings: Any) -> Run:
    return provml.record(name, **{"strict": True, "capture_environment": False, **settings})


def all_events(run: Run | str, home: str = ".provml") -> list[events.AnyEvent]:
    """Return all events of a run, one journal after the other."""
    folder = Path(home, "runs", run if isinstance(run, str) else run.id)
    return [event for path in sorted(folder.glob("*.jsonl")) for event in read_events(path)]


def events_of(kind: type[Any], run: Run | str) -> list[Any]:
    return [event for event in all_events(run) if isinstance(event, kind)]


def in_python(program: str, *arguments: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new process."""
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=check, env=environment, timeout=120)


def failing(error: type[Exception]) -> Any:
    """Expect a training to end with an error."""
    return pytest.raises(error)


# ---- what is recorded


def test_a_whole_training_is_recorded(tmp_path: Path):
    for name in ("flowers.h5", "train.h5", "alexnet.pt"):
        Path(name).write_bytes(name.encode())
    with provml.record("flowers", model="alexnet", strict=True, by="alice", study="garden", task="classify") as run:
        raw = run.dataset("flowers.h5", role="raw", about="http://example.org/kg/OxfordFlower17", store="disk")
        train = run.prepared("train.h5", step="gray-scale", using=[raw], tile=224)
        with run.training(using=train, learning_rate=0.001, optimizer="Adam", epochs=2) as training:
            training.layers([{"name": "conv1", "type": "Conv2D", "kernel_size": (3, 3), "filters": np.int64(96)}])
            for epoch in training.epochs(2):
                for batch in epoch.batches(["a", "b"]):
                    batch.measured(loss=1.0 / batch.index)
                epoch.measured(loss=0.5, accuracy=0.9)
                with epoch.validation(using=train) as validation:
                    validation.measured(loss=0.7)
                if epoch.index == 1:
                    training.adapted(learning_rate=0.0005, technique="step decay", reason="plateau", by="bob")
            model = training.produced("alexnet.pt")
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.59)
    recorded = all_events(run)
    assert isinstance(recorded[0], events.Header)
    assert (recorded[0].name, recorded[0].model, recorded[0].by, recorded[0].main) == (
        "flowers",
        "alexnet",
        "alice",
        True,
    )
    assert isinstance(recorded[-1], End)
    assert recorded[-1].status == "FINISHED"
    begins = [event.location for event in events_of(Begin, run)]
    assert begins == [
        *("gray-scale", "training", "training/1", "validation", "validation/1"),
        *("training/2", "validation/2", "evaluation"),
    ]
    assert sorted(event.location for event in events_of(Done, run)) == sorted(begins)
    assert [event.location for event in events_of(BatchEnd, run)] == [
        "training/1/1",
        "training/1/2",
        "training/2/1",
        "training/2/2",
    ]
    (adapted,) = events_of(Adapted, run)
    assert (adapted.location, adapted.values, adapted.technique) == (
        "training/1",
        {"learning_rate": 0.0005},
        "step decay",
    )
    assert [(event.location, event.ref, event.role) for event in events_of(Used, run)] == [
        ("gray-scale", raw.ref, "raw"),
        ("training", train.ref, "training"),
        ("validation", train.ref, "validation"),
        ("evaluation", model.ref, "model"),
    ]
    assert run.capture_errors == 0
    (layers,) = events_of(events.Layers, run)
    assert layers.layers == [{"name": "conv1", "type": "Conv2D", "kernel_size": "(3, 3)", "filters": 96}]


def test_stages_and_steps_record_their_person():
    with record() as run:
        with run.filter("gray", by="ann"), run.training(by="alice", rate=0.1) as training:
            for epoch in training.epochs(2):
                epoch.validation(by="bob", size=3).done()
        run.validation(by="carol").done()
        run.evaluation(by="dan").done()
        run.evaluation().done()
    begins = [event for event in events_of(Begin, run) if "/" not in event.location]
    assert [event.by for event in begins] == ["ann", "alice", "bob", "carol", "dan", ""]
    assert [event.values for event in begins] == [{"filter_name": "gray"}, {"rate": 0.1}, {"size": 3}, {}, {}, {}]
    with provml.open() as store:
        assert {(person, name) for person, _, name, *_ in store.ask("b11").rows} == {
            ("ann", "gray"), ("alice", "training"), ("bob", "validation"), ("carol", "validation"),
            ("dan", "evaluation"),
        }  # fmt: skip


@pytest.mark.parametrize("every", [0, -1, 1.5, "2", None])
def test_every_must_be_a_whole_number(every: Any):
    with pytest.raises(ValueError, match=r"every must be a whole number of at least 1, not "):
        record(every=every)
    assert not Path(".provml").exists()


@pytest.mark.parametrize("setting", ["strict", "validate", "capture_environment"])
def test_a_switch_takes_true_or_false(setting: str):
    with pytest.raises(ValueError, match=f"{setting} must be True or False, not 'maybe'"):
        record(**{setting: "maybe"})


def test_each_kind_of_step_is_recorded():
    with record() as run:
        for kind in ("curation", "preparation", "filter", "split", "extraction", "step"):
            with getattr(run, kind)(f"my {kind}", size=3) as step:
                step.parameters(more=4)
                out = step.produced(b"bytes " + kind.encode(), name="out", about="http://example.org/x", store="s3")
        run.features(np.arange(6).reshape(2, 3), name="f", columns=3)
    assert [event.kind for event in events_of(Begin, run)] == [
        "curation", "preparation", "filter", "split", "extraction", "step",
    ]  # fmt: skip
    data = events_of(events.Data, run)
    assert (data[0].about, data[0].store, data[0].size) == (["http://example.org/x"], "s3", 14)
    assert events_of(Produced, run)[-1].ref == out.ref
    assert data[-1].kind == "features"


def test_a_step_with_a_used_name_gets_a_number():
    with record() as run:
        names = [run.step(name)._location for name in ("a", "a", "a-2", "a", "b c", "b-c", "..", "", "层", "a/b")]
    assert len(set(names)) == len(names)
    assert names[:4] == ["a", "a-2", "a-2-2", "a-3"]
    assert names[6:9] == ["step", "step-2", "层"]


def test_thousands_of_models_of_one_name_get_unique_references():
    with record(model="m") as run, run.training() as training:
        refs = [epoch.produced(b"weights", kind="model").ref for epoch in training.epochs(3000)]
    assert len(set(refs)) == 3000


def test_detail_and_every_select_the_recorded_batches():
    with record(detail="epoch") as run, run.training() as training:
        for epoch in training.epochs(2):
            for batch in epoch.batches(range(10)):
                batch.measured(loss=0.5)
            epoch.measured(loss=0.5)
    assert events_of(BatchEnd, run) == []
    assert len(events_of(Measured, run)) == 2
    with record(every=3) as run, run.training() as training:
        for epoch in training.epochs(1):
            for batch in epoch.batches(range(10)):
                batch.measured(loss=0.5)
    assert [event.location.rpartition("/")[2] for event in events_of(BatchEnd, run)] == ["1", "4", "7", "10"]
    assert len(events_of(Measured, run)) == 4


@pytest.mark.parametrize("wrong", [{"detail": "layer"}, {"every": 0}, {"every": 1.5}, {"run": "a/b"}, {"run": ".."}])
def test_an_invalid_setting_raises(wrong: dict[str, Any]):
    with pytest.raises(ValueError):
        record(**wrong)


def test_a_second_loop_continues_the_epoch_numbers():
    with record() as run, run.training() as training:
        first = [epoch.index for epoch in training.epochs(np.int64(3))]
        second = [epoch.index for epoch in training.epochs(["x", "y"])]
        with training.epoch(2) as again:
            assert again.index == 6
        assert [epoch.index for epoch in training.epochs(1, first=20)] == [20]
    assert (first, second) == ([1, 2, 3], [4, 5])
    begins = [event.location for event in events_of(Begin, run)]
    assert len(begins) == len(set(begins))


def test_sections_can_have_a_kind_of_the_user():
    with record() as run, run.training() as training:
        for episode in training.epochs(2, kind="episode"):
            episode.measured(reward=float(episode.index))
        training.epoch(3, kind=None).done()  # type: ignore[arg-type]  # as users do
    assert [event.kind for event in events_of(Begin, run)] == ["training", "episode", "episode", "epoch"]


def test_a_model_to_continue_from_gets_no_default_role():
    with record() as run:
        data = run.dataset(b"pixels", name="pixels")
        with run.training(using=data) as training:
            model = training.produced(b"weights")
        with run.training(name="finetune", using=[data, model]) as training:
            training.used(model)
            training.used(model, role="teacher")
    roles = [(event.location, event.ref == model.ref, event.role) for event in events_of(Used, run)]
    assert roles == [
        ("training", False, "training"),
        ("finetune", False, "training"),
        ("finetune", True, ""),
        ("finetune", True, "teacher"),
    ]


def test_epoch_validation_records_changes_and_is_named_after_the_training(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("RANK", "1")
    with record(run="r") as run:
        first, second = run.dataset(b"1", name="first"), run.dataset(b"2", name="second")
        with run.training(name="finetune") as training:
            for epoch, using in zip(training.epochs(4), [first, first, second, first], strict=True):
                with epoch.validation(using=using, threshold=max(epoch.index, 2) / 10, top=5):
                    pass
    (begins,) = [event for event in events_of(Begin, run) if event.kind == "validation"]
    assert (begins.location, begins.name) == ("finetune-validation@1", "finetune-validation")
    assert begins.values == {"threshold": 0.2, "top": 5}
    assert [event.ref for event in events_of(Used, run)] == [first.ref, second.ref]
    assert [event.values for event in events_of(Parameter, run)] == [{"threshold": 0.3}, {"threshold": 0.4}]


def test_folds_and_rounds_are_sections_with_their_kind():
    with record() as run:
        with run.training() as training:
            list(training.folds(2))
        with run.training() as training:
            list(training.rounds(["a"]))
    assert [event.kind for event in events_of(Begin, run)] == ["training", "fold", "fold", "training", "round"]


# ---- data


def test_data_is_identified_by_its_whole_content(tmp_path: Path):
    Path("a").write_bytes(b"x" * 3_000_000)
    Path("b").write_bytes(b"x" * 3_000_000)
    with record() as run:
        assert run.dataset("a").ref == run.dataset(Path("b")).ref == run.dataset(b"x" * 3_000_000).ref
        before = run.dataset("a")
        Path("a").write_bytes(b"y" * 3_000_000)  # as large, and a moment later
        assert run.dataset("a").ref != before.ref
        assert run.dataset(np.zeros((2, 3))).ref != run.dataset(np.zeros((3, 2))).ref
        url = run.dataset("s3://bucket/key", name="far")
        assert url.sha256 == ""
        assert url.ref == "dataset-far"


def test_a_missing_file_is_a_capture_error_and_recorded_by_name(caplog: pytest.LogCaptureFixture):
    with record(strict=False) as run, run.training(using=run.dataset("trian.csv")) as training:
        training.produced("nomodel.pt")
    assert run.capture_errors == 2
    assert [(event.ref, event.name, event.path, event.sha256) for event in events_of(events.Data, run)] == [
        ("dataset-trian.csv", "trian.csv", "trian.csv", ""),
        ("flowers", "flowers", "nomodel.pt", ""),
    ]
    assert "No file or directory 'trian.csv'" in caplog.text
    assert "Fix the path" in caplog.text


@pytest.mark.parametrize(
    "name", ["MNIST", "digits v1.5", "gpt-3.5-turbo", "Iris, cleaned.", "s3://bucket/a.csv", "hdfs:/a/b.h5", ".", "é"]
)
def test_a_name_or_url_is_not_a_missing_file(name: str):
    with record() as run:
        assert run.dataset(name).ref
    assert run.capture_errors == 0


def test_a_path_in_another_store_need_not_exist():
    with record() as run:
        assert run.dataset("archive/cube.sgy", store="tape").path == "archive/cube.sgy"


def test_a_misspelt_role_is_recorded_and_logged_once(caplog: pytest.LogCaptureFixture):
    with record() as run:
        for _ in range(2):
            data = run.dataset(b"1", role="trainning")
        run.training(using=data).used(data, role="Tests")
        run.dataset(b"2", role="calibration")
        run.dataset(b"3", role="training")
    assert [event.role for event in events_of(Used, run)] == ["trainning", "Tests"]
    assert [(record.args or ("",))[1] for record in caplog.records] == ["training", "test"]
    assert "Did you mean 'training'?" in caplog.text
    assert set(data_module.ROLES) == {*artifact.ROLES, "model"}


def test_a_folder_is_identified_by_names_and_contents_of_its_files():
    for folder in ("first", "second"):
        Path(folder, "in").mkdir(parents=True)
        Path(folder, "in", "a").write_bytes(b"a")
        Path(os.fsdecode(folder.encode() + b"/\xff")).write_bytes(b"b")
    assert hashing.digest("first") == hashing.digest("second")
    Path("second", "in", "a").rename(Path("second", "in", "c"))
    assert hashing.digest("first") != hashing.digest("second")


def test_links_in_a_folder_are_followed():
    for name in ("plain", "linked", "real"):
        Path(name).mkdir()
    Path("plain", "train").mkdir()
    for place in (Path("plain", "train", "a"), Path("real", "a")):
        place.write_bytes(b"1")
    Path("linked", "train").symlink_to(Path("real").resolve())
    before = hashing.digest("linked")
    assert before == hashing.digest("plain")
    Path("real", "up").symlink_to("..")  # a link to a directory that contains it
    Path("real", "nowhere").symlink_to("gone")
    Path("real", "a").write_bytes(b"2")
    Path("linked", "again").symlink_to(Path("real").resolve())
    assert hashing.digest("linked") != before


def test_a_folder_that_cannot_be_read_completely_has_no_digest(caplog: pytest.LogCaptureFixture):
    Path("data", "locked").mkdir(parents=True)
    Path("data", "a").write_bytes(b"1")
    Path("data", "locked").chmod(0)
    try:
        if os.access("data/locked", os.R_OK):
            Path("data", "b").symlink_to("/proc/self/mem")  # root ignores permissions
        with record(strict=False) as run:
            assert run.dataset("data").sha256 == ""
            assert run.capture_errors == 1
    finally:
        Path("data", "locked").chmod(0o700)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(60, dtype="f4").reshape(3, 4, 5),
        np.asfortranarray(np.arange(60).reshape(3, 20)),
        np.arange(60)[::-2],
        np.arange(60).reshape(1, 60),
        np.arange(60).astype("M8[s]"),
        np.arange(60).reshape(2, 30).view(np.matrix),  # its rows are matrices again
        np.array(7.0),
        np.zeros((0, 3)),
    ],
    ids=lambda array: f"{type(array).__name__} {array.dtype} {array.shape}",
)
@pytest.mark.parametrize("chunk_bytes", [1, 8, 50, 1 << 22])
def test_an_array_read_in_chunks_has_the_digest_of_the_whole(array: Any, chunk_bytes: int):
    whole = hashlib.sha256(f"{array.shape}{array.dtype}".encode() + array.tobytes()).hexdigest()
    assert hashing.digest(array, chunk_bytes=chunk_bytes) == (whole, array.nbytes)


def test_hashing_an_array_needs_little_memory():
    array = np.ones(8_000_000)
    tracemalloc.start()
    try:
        hashing.digest(array)
        assert tracemalloc.get_traced_memory()[1] < array.nbytes / 2
    finally:
        tracemalloc.stop()


def test_an_array_of_objects_has_no_digest():
    assert hashing.digest(np.array([object()])) is None


def test_the_digest_of_a_file_that_changed_a_moment_ago_is_not_cached(tmp_path: Path):
    path = tmp_path / "a"
    path.write_bytes(b"x")
    cache = hashing.DigestCache()
    first = hashing.digest_file(path, cache)
    assert len(cache) == 0
    assert hashing.digest_file(path, cache) == first


def test_the_digest_cache_is_bounded_and_drops_the_entry_used_longest_ago():
    cache = hashing.DigestCache(max_size=2)
    keys = [(name, 0, 0, 0, 0) for name in "abc"]
    cache.set(keys[0], hashing.Digest("a", 1))
    cache.set(keys[1], hashing.Digest("b", 1))
    assert cache.get(keys[0]) == ("a", 1)
    cache.set(keys[2], hashing.Digest("c", 1))
    assert len(cache) == 2
    assert [cache.get(key) is None for key in keys] == [False, True, False]


def test_names_that_utf8_cannot_encode_are_escaped():
    name = os.fsdecode(b"caf\xe9.h5")
    Path(name).write_bytes(b"x")
    with record() as run:
        run.dataset(name)
        run.step("s", label="\ud800")
    assert events_of(events.Data, run)[0].path == "caf\\udce9.h5"
    assert events_of(Begin, run)[0].values == {"label": "\\ud800"}


# ---- values


class Colour(Enum):
    RED = "red"


class Tensor:
    """Like a tensor of a framework: it has a shape, and `item` if it has one item."""

    def __init__(self, value: Any, shape: tuple[int, ...] = ()) -> None:
        self.value, self.shape = value, shape

    def item(self) -> Any:
        return self.value

    def __repr__(self) -> str:
        return f"Tensor({self.value!r}, {self.shape})"


VALUES: list[tuple[Any, Any]] = [
    (0.1, 0.1),
    (-0.0, -0.0),
    (5e-324, 5e-324),
    (1e16, 1e16),
    (1.0, 1.0),
    (math.inf, math.inf),
    (-math.inf, -math.inf),
    (True, True),
    (2**63 - 1, 2**63 - 1),
    (2**63, 2**63),
    (-(2**200), -(2**200)),
    ("text", "text"),
    ("", ""),
    (Decimal("0.10"), Decimal("0.10")),
    (datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC), datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)),
    (date(2026, 1, 2), date(2026, 1, 2)),
    (timedelta(seconds=90), timedelta(seconds=90)),
    (np.float32(0.001), 0.001),
    (np.float64(0.1), 0.1),
    (np.int8(-3), -3),
    (np.uint64(2**64 - 1), 2**64 - 1),
    (np.bool_(True), True),
    (np.array(0.25), 0.25),
    (np.longdouble("1.5"), 1.5),
    (Fraction(1, 3), 1 / 3),
    (Fraction(-4, 2), -2.0),
    (Decimal("-Infinity"), -math.inf),
    (Tensor(0.5), 0.5),
    (Tensor(np.float32(0.5)), 0.5),
    (Colour.RED, "red"),
    (Path("a/b"), "a/b"),
    (Text("couche", "fr"), Text("couche", "fr")),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=str)
def test_a_value_survives_the_journal_exactly(value: Any, expected: Any):
    measures = {} if isinstance(expected, str) else {"measure": value}
    with record() as run, run.training(parameter=value) as training:
        training.measured(**measures)
        for epoch in training.epochs(1):
            for batch in epoch.batches([1]):
                batch.measured(**measures)
    values = [
        events_of(Begin, run)[0].values["parameter"],
        *(event.values["measure"] for event in events_of(Measured, run)),
    ]
    assert len(values) == 1 + 2 * len(measures)
    for decoded in map(decode_value, values):
        assert decoded == expected
        assert type(decoded) is type(expected)
        assert not isinstance(expected, float) or math.copysign(1, decoded) == math.copysign(1, expected)


def test_nan_of_any_number_type_survives_the_journal():
    with record() as run, run.training() as training:
        for value in (math.nan, np.float32("nan"), Tensor(math.nan), Decimal("NaN"), Decimal("sNaN")):
            training.measured(loss=value)
    assert all(math.isnan(decode_value(event.values["loss"])) for event in events_of(Measured, run))


@given(st.one_of(st.floats(allow_nan=False), st.integers(), st.text(), st.booleans()))
def test_any_number_or_text_survives_a_journal_line(value: Any):
    line = events.encode(Measured("training/1", {"x": jsonable(value)}))
    assert line.count(b"\n") == 1
    assert b"\0" not in line
    back = events.decode(line)
    assert isinstance(back, Measured)
    assert decode_value(back.values["x"]) == value
    assert type(decode_value(back.values["x"])) is type(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 2], "[1, 2]"),
        ((0.9, 0.999), "[0.9, 0.999]"),
        ({"a": np.float32(0.5)}, '{"a": 0.5}'),
        ([Fraction(9, 10), 10**400], f"[0.9, 1{'0' * 400}]"),
    ],
)
def test_a_list_is_a_parameter_but_not_a_measure(value: Any, text: str):
    with record(strict=False) as run:
        with run.training(betas=value) as training:
            training.measured(bad=value)
        assert run.capture_errors == 1
    assert events_of(Begin, run)[0].values == {"betas": text}
    assert events_of(Measured, run) == []


def test_a_parameter_that_has_its_value_already_is_not_recorded_again():
    with record() as run, run.training(batch_size=8, seed=1) as training:
        training.parameters(batch_size=8, seed=1.5, workers=0)
        training.parameters(batch_size=8, workers=False)
    assert [event.values for event in events_of(Parameter, run)] == [{"seed": 1.5, "workers": 0}, {"workers": False}]


@pytest.mark.parametrize("large", [Fraction(10**400), Decimal("1E+999999999"), np.longdouble("1e4000")], ids=str)
def test_a_number_beyond_the_largest_float_is_text_as_a_parameter_and_no_measure(large: Any):
    """The digits of `Decimal("1E+999999999")` would fill a gigabyte of the journal."""
    with record(strict=False) as run:
        with run.training(bound=large, bounds=[large]) as training:
            training.measured(good=1.0, bad=large)
        assert run.capture_errors == 1
    values = events_of(Begin, run)[0].values
    assert {name: type(value) for name, value in values.items()} == {"bound": str, "bounds": str}
    assert len(str(values)) < 2000
    assert [event.values for event in events_of(Measured, run)] == [{"good": 1.0}]


@pytest.mark.parametrize("wrong", [object, np.zeros(2), Tensor(1.0, (1,)), 1j, {1}], ids=str)
def test_a_measure_that_is_not_a_scalar_is_a_capture_error_of_its_own(wrong: Any, caplog: pytest.LogCaptureFixture):
    with record(strict=False) as run:
        with run.training() as training:
            training.measured(good=1.0, bad=wrong)
            for epoch in training.epochs(1):
                for batch in epoch.batches([1]):
                    batch.measured(bad=wrong, good=2.0)
                    batch.measured(bad=wrong)
        assert run.capture_errors == 3
    assert [event.values for event in events_of(Measured, run)] == [{"good": 1.0}, {"good": 2.0}]
    assert events_of(CaptureErrors, run)[-1].count == 3
    assert len(caplog.records) == 1
    with pytest.raises(TypeError), record() as run:
        run.training().measured(bad=wrong)


def gray(image: Any) -> Any:
    return image


class Loss:
    """Like a loss of a framework: recorded by its repr."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


NAMED: list[tuple[Any, str]] = [
    (Loss("CrossEntropyLoss()"), "CrossEntropyLoss()"),
    (Loss("L" * 5000), "L" * 1000 + "…"),
    (gray, f"{__name__}.gray"),
    (Decimal, "decimal.Decimal"),
    (len, "len"),
    (dict, "dict"),
    (np.dtype("f4"), "float32"),
    (np.tanh, "numpy.tanh"),
    (object(), "<object object>"),
    (1j, "1j"),
    (range(3), "range(0, 3)"),
    ({"b", "c", "a"}, '["a", "b", "c"]'),
    (np.arange(3), "[0, 1, 2]"),
    (np.zeros(5000), "ndarray of shape (5000,)"),
    (Tensor([0.5], (1,)), "Tensor of shape (1,)"),
    ({"use": np.float64, "at": np.array([0.5])}, '{"use": "numpy.float64", "at": [0.5]}'),
    ({(1, 2): 3}, "{(1, 2): 3}"),
]


@pytest.mark.parametrize(("value", "text"), NAMED, ids=[text[:30] for _, text in NAMED])
def test_the_text_of_a_parameter_is_the_same_in_every_process(value: Any, text: str):
    with record() as run, run.training(loss=value):
        pass
    assert events_of(Begin, run)[0].values == {"loss": text}


def test_none_is_not_recorded():
    with record() as run, run.training(depth=None, width=3) as training:
        training.measured(val_loss=None)
        training.adapted(rate=0.1, technique=None, by=None)  # type: ignore[arg-type]  # as users do
    assert events_of(Begin, run)[0].values == {"width": 3}
    assert events_of(Measured, run) == []
    assert events_of(Adapted, run)[0].technique == ""


def test_a_measure_can_have_any_name():
    with record() as run, run.training() as training:
        training.measured(**{"self": 1.0, "val/loss": 2.0, "values": 3.0, "run": 4.0})
        for epoch in training.epochs(1):
            for batch in epoch.batches([1]):
                batch.measured(self=1.0)
    assert events_of(Measured, run)[0].values == {"self": 1.0, "val/loss": 2.0, "values": 3.0, "run": 4.0}


# ---- capture errors


class Broken:
    """An object that breaks whatever touches it."""

    shape = ()

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("str")

    __repr__ = __str__


WRONG: list[Callable[[Run], Any]] = [
    lambda run: run.training(using=["no data"]),  # type: ignore[list-item]
    lambda run: run.training(using=3),  # type: ignore[arg-type]
    lambda run: run.training(using="a.h5"),  # type: ignore[arg-type]
    lambda run: run.training(x=Broken()),
    lambda run: run.evaluation(of="model"),  # type: ignore[arg-type]
    lambda run: run.training().measured(x=Broken()),
    lambda run: run.training().used("a"),  # type: ignore[arg-type]
    lambda run: run.training().layers([{"x": Broken()}]),
    lambda run: run.training().layers(3),  # type: ignore[arg-type]
    lambda run: run.training().adapted(x=Broken()),
    lambda run: run.training().adapted(x=1, parameters=[3]),  # type: ignore[arg-type]
    lambda run: run.dataset("x", about=3),  # type: ignore[arg-type]
    lambda run: run.dataset("x" * 10_000),
    lambda run: run.dataset("trian.csv"),
    lambda run: run.features(Path("nowhere")),
    lambda run: run.training().produced("models/nomodel.pt"),
    lambda run: run.training().measured(loss="low"),
    lambda run: run.training().epoch(1).measured(loss=Text("faible", "fr")),
    lambda run: run.training().epoch(1).batch(1).measured(loss="0.5"),
    lambda run: run.record_workflow("nowhere.yaml"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_capture_error_reaches_the_training_only_if_strict(number: int, caplog: pytest.LogCaptureFixture):
    with record(strict=False) as run:
        WRONG[number](run)
        assert run.capture_errors == 1
    assert events_of(CaptureErrors, run)[-1].count == 1
    assert events_of(End, run)[0].status == "FINISHED"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    with record(strict=True) as run, pytest.raises(Exception):  # noqa: B017  # of many kinds
        WRONG[number](run)


def test_an_unreadable_entry_of_a_folder_is_not_ignored(tmp_path: Path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "cat.png").symlink_to("x" * 300)
    with record(strict=True) as run, pytest.raises(OSError, match="too long"):
        run.dataset(tmp_path / "images")


def test_errors_of_the_training_are_never_swallowed():
    def loader():
        yield 1
        raise KeyError("error of the loader")

    with failing(KeyError), record(strict=False) as run, run.training() as training:
        for epoch in training.epochs(1):
            for _ in epoch.batches(loader()):
                pass
    assert run.capture_errors == 0
    assert [(event.location, event.status) for event in events_of(Done, run)] == [
        ("training/1", "FAILED"),
        ("training", "FAILED"),
    ]


def test_recording_after_the_end_is_a_capture_error():
    with record(strict=False) as run:
        training = run.training()
    training.measured(loss=1.0)
    assert run.capture_errors == 1
    assert isinstance(all_events(run)[-1], End)


# ---- ends of sections and runs


def ends(run: Run | str) -> dict[str, str]:
    return {event.location: event.status for event in events_of(Done, run)}


def test_an_exception_fails_all_open_sections():
    with failing(ZeroDivisionError), record() as run, run.training() as training:
        for epoch in training.epochs(3):
            for batch in epoch.batches(range(3)):
                batch.measured(loss=1.0)
                if epoch.index == 2 and batch.index == 2:
                    1 / 0  # noqa: B018
    assert ends(run) == {"training/1": "FINISHED", "training/2": "FAILED", "training": "FAILED"}
    assert [event.location for event in events_of(BatchEnd, run)][-1] == "training/2/1"
    end = all_events(run)[-1]
    assert isinstance(end, End)
    assert (end.status, end.error) == ("FAILED", ["ZeroDivisionError", "division by zero"])


def test_break_finishes_an_epoch_even_if_an_error_follows():
    with failing(ValueError), record() as run, run.training() as training:
        for epoch in training.epochs(3):
            for batch in epoch.batches(range(3)):
                batch.measured(loss=1.0)
                if batch.index == 2:
                    break
            if epoch.index == 2:
                break
        raise ValueError("later")
    assert ends(run) == {"training/1": "FINISHED", "training/2": "FINISHED", "training": "FAILED"}
    assert [event.location for event in events_of(BatchEnd, run)][-1] == "training/2/2"


def test_return_from_a_loop_is_not_a_failure():
    def train(training):
        for epoch in training.epochs(5):
            if epoch.index == 2:
                return

    with failing(ValueError), record() as run, run.training() as training:
        train(training)
        raise ValueError("later")
    assert ends(run)["training/2"] == "FINISHED"


def test_nested_generators_distinguish_break_from_error():
    def my_epochs(training):
        yield from training.epochs(5)

    def numbered(training):
        for epoch in my_epochs(training):
            yield epoch.index, epoch

    for error in (True, False):
        with failing(ValueError), record() as run, run.training() as training:
            for index, _ in numbered(training):
                if index == 2:
                    if error:
                        raise ValueError("inside")
                    break
            raise ValueError("later")
        assert ends(run)["training/2"] == ("FAILED" if error else "FINISHED")


def test_a_caught_error_fails_its_epoch():
    with record() as run, run.training() as training:
        try:
            for _ in training.epochs(2):
                raise MemoryError("too large")
        except MemoryError:
            list(training.epochs(1))
    assert ends(run) == {"training/1": "FAILED", "training/2": "FINISHED", "training": "FINISHED"}


class Interrupted(Exception):
    """An exception that leaves a loop and is caught outside of it."""


def fail_in(epochs: Any) -> None:
    for epoch in epochs:
        if epoch.index == 2:
            raise Interrupted("enough")


def fail_under_a_bar(epochs: Any) -> None:
    def bar(items):
        for item in items:  # noqa: UP028  # as tqdm has it
            yield item

    for epoch in bar(epochs):
        if epoch.index == 2:
            raise Interrupted("enough")


def fail_in_a_block(epochs: Any) -> None:
    for epoch in epochs:
        with suppress(ValueError):
            if epoch.index == 2:
                raise Interrupted("enough")


def interrupt(epochs: Any) -> None:
    for epoch in epochs:
        if epoch.index == 2:
            raise KeyboardInterrupt


def press_ctrl_c(epochs: Any) -> None:
    for epoch in epochs:
        if epoch.index == 2:
            signal.raise_signal(signal.SIGINT)  # the exception comes from C


@pytest.mark.parametrize("with_", [True, False], ids=["with", "without with"])
@pytest.mark.parametrize("loop", [fail_in, fail_under_a_bar, fail_in_a_block, interrupt, press_ctrl_c])
def test_a_loop_left_by_an_exception_that_is_caught_fails_its_training_and_run(loop: Callable[..., None], with_: bool):
    run = record()
    training = run.training(epochs=100)
    with training if with_ else nullcontext(), suppress(Interrupted, KeyboardInterrupt):
        loop(training.epochs(100))
    run.finish()
    is_interrupted = loop in (interrupt, press_ctrl_c)
    status = "INTERRUPTED" if is_interrupted else "FAILED"
    reason = ["KeyboardInterrupt", ""] if is_interrupted else ["Interrupted", "enough"]
    assert ends(run) == {"training/1": "FINISHED", "training/2": status, "training": status}
    assert [event.error for event in (*events_of(Done, run)[1:], *events_of(End, run))] == [reason] * 3
    assert events_of(End, run)[0].status == status
    assert events_of(Begin, run)[0].values == {"epochs": 100}
    assert events_of(Adapted, run) == []


@pytest.mark.parametrize(
    ("count", "settings", "recorded"),
    [
        (100, {}, [{"epochs": 100}]),
        (range(7), {}, [{"epochs": 7}]),
        (100, {"n_epochs": 90}, []),
        (iter(range(9)), {}, []),
    ],
)
def test_a_training_that_failed_keeps_the_number_of_epochs_that_it_was_to_have(
    count: Any, settings: dict[str, int], recorded: list[dict[str, int]]
):
    with record() as run, run.training(**settings) as training, suppress(Interrupted):
        fail_in(training.epochs(count))
    assert [event.values for event in events_of(Parameter, run)] == recorded


def test_a_training_with_all_epochs_needs_no_number_of_epochs():
    with record() as run:
        with run.training() as training:
            for _ in training.epochs(2):
                pass
        with run.training() as training, suppress(Interrupted):
            for _ in training.epochs(2):
                pass
            raise Interrupted
    assert events_of(Parameter, run) == []


def test_an_exception_of_c_code_that_is_caught_fails_the_training():
    with record() as run, run.training() as training, suppress(ZeroDivisionError):
        for epoch in training.epochs(100):
            epoch.measured(loss=1 / (epoch.index - 2))
    assert ends(run) == {"training/1": "FINISHED", "training/2": "FAILED", "training": "FAILED"}
    # before Python 3.12 the exception is no object until it is caught
    is_known = sys.version_info >= (3, 12)
    assert events_of(Done, run)[-1].error[0] == ("ZeroDivisionError" if is_known else "UnknownException")


def test_a_run_that_goes_on_after_a_failed_training_is_finished():
    with record() as run:
        training = run.training()
        with suppress(Interrupted):
            fail_in(training.epochs(100))
        with run.evaluation() as evaluation:
            evaluation.measured(accuracy=0.5)
    assert (ends(run)["training"], events_of(End, run)[0].status) == ("FAILED", "FINISHED")


def test_a_run_with_a_training_that_ended_well_is_finished():
    with record() as run:
        with run.training() as training:
            list(training.epochs(2))
        with suppress(Interrupted), run.training() as training:
            fail_in(training.epochs(100))
    assert (ends(run)["training-2"], events_of(End, run)[0].status) == ("FAILED", "FINISHED")


def test_no_time_is_negative_when_an_end_is_before_its_begin():
    with record() as run, run.training() as training:
        epoch = training.epoch(0)
        epoch._ended = epoch._began - 1e-4
        epoch.done()
        training.done(ago=60)
    assert [done.seconds for done in events_of(Done, run)] == [0.0, 0.0]


def test_an_exception_fails_the_epochs_of_nested_loops():
    with record() as run, run.training() as training, suppress(Interrupted):
        for _ in training.folds(3):
            fail_in(training.epochs(3, first=1))
    assert ends(run)["training/1"] == ends(run)["training/2"] == ends(run)["training"] == "FAILED"


def test_a_loop_that_was_left_keeps_no_reference_to_the_exception():
    class Resource:
        pass

    def fail() -> None:
        data = Resource()
        references.append(weakref.ref(data))
        fail_in(training.epochs(100))

    references: list[weakref.ref[Resource]] = []
    with record() as run, run.training() as training:
        gc.disable()
        with suppress(Interrupted):
            fail()
        assert references[0]() is None
        gc.enable()
    assert ends(run)["training"] == "FAILED"


def run_cells(*cells: str) -> None:
    """Execute cells as a notebook does: an exception ends its cell, not the interpreter."""
    program = f"""
        import code, sys, provml
        sys.ps1 = ">>> "
        interpreter = code.InteractiveInterpreter({{"run": provml.record("x", run="r", capture_environment=False)}})
        for cell in {cells}:
            interpreter.runcode(cell)
    """
    in_python(program, check=False)  # Python reports a KeyboardInterrupt in its exit code, although it was handled


@pytest.mark.parametrize("loop", ["for epoch in training.epochs(9):", "bar = training.epochs(9)\nfor epoch in bar:"])
def test_an_interrupted_cell_of_a_notebook_interrupts_its_training(loop: str):
    body = "\n    if epoch.index == 3:\n        import os, signal; os.kill(os.getpid(), signal.SIGINT); [None] * 10"
    run_cells("training = run.training(epochs=9)", loop + body)
    assert [ends("r")[location] for location in ("training/3", "training")] == ["INTERRUPTED", "INTERRUPTED"]
    (end,) = events_of(End, "r")
    assert (end.status, end.error) == ("INTERRUPTED", ["KeyboardInterrupt", ""])


@pytest.mark.parametrize("loop", ["for epoch in training.epochs(9):", "bar = training.epochs(9)\nfor epoch in bar:"])
def test_an_error_in_a_later_cell_of_a_notebook_does_not_fail_the_training(loop: str):
    run_cells("training = run.training(epochs=9)", loop + "\n    if epoch.index == 2: break", "unknown_name")
    assert ends("r") == {"training/1": "FINISHED", "training/2": "FINISHED", "training": "FINISHED"}
    assert events_of(End, "r")[0].status == "FINISHED"


def test_without_inspection_the_exception_that_is_being_handled_fails_the_training(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_NO_FRAME_INSPECTION", "1")
    with record() as run:
        training = run.training()
        try:
            fail_in(training.epochs(100))
        except Interrupted:
            training.done()
    assert ends(run)["training"] == "FAILED"


def test_an_adaptation_between_epochs_belongs_to_the_epoch_that_ended_and_one_after_the_last_to_the_stage():
    with record() as run, run.training(rate=0.4) as training:
        for index in (1, 2):
            with training.epoch(index):
                pass
            training.adapted(rate=0.4 / 2**index)
    assert [(event.location, event.values) for event in events_of(Adapted, run)] == [
        ("training/1", {"rate": 0.2}),
        ("training", {"rate": 0.1}),
    ]
    begins = [event.location for event in all_events(run) if isinstance(event, (Begin, Adapted))]
    assert begins == ["training", "training/1", "training/1", "training/2", "training"]


@pytest.mark.parametrize("leaves", [True, False])
def test_an_adaptation_after_the_loop_over_epochs_belongs_to_the_stage(leaves: bool):
    with record() as run, run.training(rate=0.4) as training:
        for epoch in training.epochs(2):
            if epoch.index == 2:
                training.adapted(rate=0.2)
                if leaves:
                    break
        training.adapted(rate=0.1)
    assert [event.location for event in events_of(Adapted, run)] == ["training/2", "training"]


def test_a_second_loop_continues_the_epochs_of_the_first():
    with record() as run, run.training() as training:
        epochs = training.epochs(5)
        for epoch in epochs:
            if epoch.index == 2:
                break
        assert [epoch.index for epoch in epochs] == [3, 4, 5]
        assert list(epochs) == []
    assert ends(run) == {f"training/{index}": "FINISHED" for index in range(1, 6)} | {"training": "FINISHED"}


def test_a_live_iterator_leaves_no_epoch_open():
    with record() as run, run.training() as training:
        iterator = training.epochs(3)
        next(iterator)
        single = training.epoch(9)
    assert ends(run) == {"training/1": "FINISHED", "training/9": "FINISHED", "training": "FINISHED"}
    single.done()
    iterator.close()
    assert len(events_of(Done, run)) == 3


def test_finish_ends_open_sections_and_can_be_called_twice():
    run = record()
    training = run.training()
    epoch = training.epoch(1)
    run.finish(error=ValueError("no"))
    run.finish()
    epoch.done()
    training.done()
    assert ends(run) == {"training/1": "FAILED", "training": "FAILED"}
    assert [event.status for event in events_of(End, run)] == ["FAILED"]
    assert run.capture_errors == 0


def test_runs_of_one_process_can_overlap():
    with record("one") as first:
        pass
    with record("two") as second, record("three") as third:
        second.training().done()
        third.training().done()
    assert len({first.id, second.id, third.id}) == 3
    headers = [header for run in (first, second, third) for header in events_of(events.Header, run)]
    assert [header.name for header in headers] == ["one", "two", "three"]
    assert "PROVML_RUN" not in os.environ


def test_child_processes_join_the_run_that_is_still_active():
    first, second = record("one"), record("two")
    assert os.environ["PROVML_RUN"].startswith(second.id)
    second.finish()
    assert os.environ["PROVML_RUN"].startswith(first.id)
    third = record("three")
    first.finish()
    assert os.environ["PROVML_RUN"].startswith(third.id)
    third.finish()
    assert "PROVML_RUN" not in os.environ


ENDINGS = {
    "pass": ("FINISHED", []),
    "1 / 0": ("FAILED", ["ZeroDivisionError", "division by zero"]),
    "raise KeyboardInterrupt": ("INTERRUPTED", ["KeyboardInterrupt", ""]),
    "sys.exit(3)": ("FAILED", ["SystemExit", "3"]),
    "sys.exit('diverged')": ("FAILED", ["SystemExit", "diverged"]),
    "sys.exit(0)": ("FINISHED", []),
    "sys.exit()": ("FINISHED", []),
    "exit(3)": ("FAILED", ["SystemExit", "3"]),
    "quit('diverged')": ("FAILED", ["SystemExit", "diverged"]),
    "exit()": ("FINISHED", []),
}


@pytest.mark.parametrize("with_", [True, False], ids=["with", "without with"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_status_is_true_with_and_without_a_with_block(ending: str, with_: bool):
    check_ending(ending, with_)


@pytest.mark.parametrize("ending", ["1 / 0", "sys.exit(3)", "sys.exit()", "exit(3)"])
def test_without_inspection_the_last_exit_counts_as_not_caught(ending: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_NO_FRAME_INSPECTION", "1")
    check_ending(ending, with_=False)


def check_ending(ending: str, with_: bool) -> None:
    """Train in another process that ends like this; check the status of the run, the training and its epoch."""
    body = """
        import sys, provml
        {}
            for epoch in training.epochs(2):
                {}
    """.format(
        "with provml.record('x', run='r', strict=True) as run, run.training() as training:"
        if with_
        else "run = provml.record('x', run='r', strict=True); training = run.training()\n        if True:",
        ending,
    )
    in_python(body, check=False)
    (end,) = events_of(End, "r")
    assert (end.status, end.error) == ENDINGS[ending]
    assert ends("r")["training"] == ends("r")["training/1"] == end.status


def test_a_caught_sys_exit_does_not_end_the_run():
    in_python(
        """
        import sys, provml
        run = provml.record('x', run='r')
        try:
            sys.exit(3)
        except SystemExit as error:
            assert type(error).__name__ == "SystemExit" and error.code == 3
        """
    )
    assert events_of(End, "r")[0].status == "FINISHED"


def test_sys_exit_is_restored_when_no_run_is_active():
    before = sys.exit, type(exit).__call__
    with record():
        assert sys.exit is not before[0]
    assert (sys.exit, type(exit).__call__) == before


def test_an_error_before_the_run_or_in_a_thread_does_not_fail_it():
    in_python(
        """
        import sys, threading, provml
        sys.last_value = ValueError("a cell before")
        run = provml.record('x', run='r')
        thread = threading.Thread(target=lambda: sys.exit(9))
        thread.start()
        thread.join()
        """
    )
    assert events_of(End, "r")[0].status == "FINISHED"


# ---- counters next to measures


@pytest.mark.parametrize("name", ["step", "global_step", "epoch"])
@pytest.mark.parametrize("mode", ["map", "append"])
def test_a_counter_is_not_a_measure_and_the_measures_next_to_it_are_recorded(
    name: str, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("PROVML_JOURNAL", mode)
    with record(strict=False) as run, run.training() as training:
        training.measured(loss=0.5, **{name: 1})
        for epoch in training.epochs(2):
            for batch in epoch.batches(range(50)):
                batch.measured(loss=0.1, **{name: batch.index}, accuracy=0.2)
            epoch.measured(loss=0.3, **{name: epoch.index})
    measured = events_of(Measured, run)
    assert len(measured) == 103
    assert {key for event in measured for key in event.values} == {"loss", "accuracy"}
    assert run.capture_errors == 103
    (record_,) = caplog.records
    assert f"{name!r} is not a measure: epochs and batches are numbered. Use `for epoch in" in record_.getMessage()


def test_a_strict_run_raises_for_a_counter_after_recording_the_measures_next_to_it():
    with record() as run, run.training() as training:
        with pytest.raises(TypeError, match="'step' is not a measure"):
            training.measured(loss=0.5, step=3)
        with pytest.raises(TypeError, match="'step' is not a measure"):
            training.epoch(1).batch(1).measured(step=3, loss=0.5)
    assert [event.values for event in events_of(Measured, run)] == [{"loss": 0.5}] * 2


# ---- models in memory and in files


def test_the_same_content_in_memory_and_in_a_file_is_one_model():
    Path("net.pt").write_bytes(b"weights")
    with record() as run, run.training() as training:
        in_memory = training.produced(b"weights", layers=3)
        in_file = training.produced("net.pt", layers=3)
        other = training.produced(b"others", layers=3)
    assert in_memory.ref == in_file.ref != other.ref
    assert in_file.path == "net.pt"
    assert [event.ref for event in events_of(Produced, run)] == [in_memory.ref, other.ref]
    data = [event for event in events_of(events.Data, run) if event.ref == in_memory.ref]
    assert [(event.saved, event.path) for event in data] == [(False, ""), (True, "net.pt")]


def test_the_same_content_of_two_epochs_is_two_models():
    with record() as run, run.training() as training:
        first, second = (epoch.produced(b"weights") for epoch in training.epochs(2))
    assert first.ref != second.ref
    assert len(events_of(Produced, run)) == 2


def test_a_model_in_memory_and_the_file_it_is_saved_in_are_one_model():
    class Network:
        pass

    network = Network()
    Path("net.pt").write_bytes(b"weights")
    with record() as run:
        with run.training() as training:
            model = training.produced(network, layers=3)
        saved = run.saved(network, "net.pt", half_precision=True)
        assert run.saved(model, "net.pt").ref == saved.ref == model.ref
        assert saved.sha256 == hashlib.sha256(b"weights").hexdigest()
    data = [event for event in events_of(events.Data, run) if event.saved]
    assert [(event.path, event.values) for event in data] == [("net.pt", {"half_precision": True}), ("net.pt", {})]


@pytest.mark.parametrize("model", ["net.pt", SimpleNamespace(), None])
def test_saving_an_unknown_model_is_a_capture_error_that_says_what_to_pass(model: Any, caplog: Any):
    Path("net.pt").write_bytes(b"weights")
    with record(strict=False) as run:
        run.dataset("net.pt")
        assert run.saved(model, "net.pt").ref == ""
    assert run.capture_errors == 1
    assert "is not a model of this run. Pass what produced(…) returned" in caplog.text


# ---- disabled


def test_a_disabled_run_accepts_every_call_and_writes_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    with provml.record("x", workflow="nowhere.yaml") as run:
        raw = run.dataset("nowhere.h5", role="raw")
        train = run.prepared("train.h5", step="gray", using=[raw])
        with run.filter("f", using=train) as step:
            step.produced("x")
        with run.training(using=[train], x=object()) as training:
            training.layers([{}])
            training.parameters(a=1)
            for epoch in training.epochs(2):
                assert [batch.data for batch in epoch.batches("ab")] == ["a", "b"]
                for batch in epoch.batches("ab"):
                    batch.measured(loss=object())
                epoch.measured(loss=1.0)
                epoch.used(raw)
                with epoch.validation() as validation:
                    validation.measured(loss=2.0)
                epoch.produced("m")
            training.adapted(x=2)
            model = training.produced("m.pt")
        with run.evaluation(of=model) as test:
            test.measured(accuracy=1.0)
    assert run.capture_errors == 0
    assert "PROVML_RUN" not in os.environ
    assert list(Path().iterdir()) == []
    for value in ("", "0", "false"):
        monkeypatch.setenv("PROVML_DISABLED", value)
        with record() as run:
            assert not run.disabled


# ---- environment


def test_the_environment_is_recorded_and_git_status_in_a_thread(tmp_path: Path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    Path("train.py").write_text("import provml\nwith provml.record('x', run='r', strict=True): pass\n")
    subprocess.run(["git", "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    with Path("train.py").open("a") as file:
        file.write("# changed\n")
    subprocess.run([sys.executable, "train.py"], check=True)
    process: dict[str, Any] = {}
    for event in events_of(Environment, "r"):
        process |= event.process
    assert process["git_dirty"] is True
    assert len(process["git_commit"]) == 40


def test_recording_imports_nothing_of_the_read_side():
    process = in_python(
        """
        import sys, json, provml
        with provml.record("x", strict=True) as run, run.training(lr=0.1) as training:
            for epoch in training.epochs(2):
                for batch in epoch.batches(range(2)):
                    batch.measured(loss=0.5)
                epoch.measured(loss=float("nan"), n=3)
            training.produced(b"weights")
        print(json.dumps(sorted(sys.modules)))
        """
    )
    loaded = set(json.loads(process.stdout))
    assert "provml.recording.run" in loaded
    heavy = {"pyoxigraph", "yaml", "rdflib", "numpy", "click", "logging", "secrets", "asyncio"}
    assert not loaded & {"provml.rdf", "provml.vocab", "provml.store", "provml.mapping", *heavy}


# ---- secrets


def test_the_journal_has_no_secret_that_a_script_passes(tmp_path: Path):
    secret = "hunter2"
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"name: plan\nstores:\n  lake:\n    address: https://bob:{secret}@example.org/lake\n")
    config = {"api_key": secret, "url": f"https://h/a?token={secret}", "nested": {"password": secret}, "max_tokens": 5}
    url = f"https://bob:{secret}@example.org/train.csv?token={secret}&split=train"
    with suppress(RuntimeError), record(workflow=plan) as run:
        data = run.dataset(url, store=f"ftp://bob:{secret}@example.org", password=secret)
        with run.preparation(using=data, token=secret) as step:
            step.parameters(secret=secret, options=SimpleNamespace(api_key=secret))
            step.execution(output=f"start\npassword={secret}\nend", errors=f"GET {url} failed")
            step.implemented_by("loader", token=secret)
        with run.training(**config) as training:
            training.adapted(auth_token=secret, parameters={"password": secret})
            training.produced(b"model", api_key=secret)
            raise RuntimeError(f"GET {url} failed")
    texts = [path.read_text() for path in run.home.rglob("*.jsonl")]
    assert texts
    assert not any(secret in text for text in texts)
    [begin] = [event for event in events_of(Begin, run) if event.kind == "training"]
    assert begin.values["api_key"] == "***"
    assert begin.values["max_tokens"] == 5
    assert data.name == "train.csv?token=***&split=train"


# ---- threads, signals, copies


def test_many_threads_lose_no_event_and_tear_no_line():
    with record() as run, run.training() as training, training.epoch(1) as epoch:

        def work(number: int) -> None:
            for index, batch in enumerate(epoch.batches(range(400), first=number * 1000)):
                batch.measured(loss=index / 7)
            run.step("same").done()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(events_of(BatchEnd, run)) == len({event.location for event in events_of(BatchEnd, run)}) == 6400
    assert len(events_of(Measured, run)) == 6400
    steps = [event.location for event in events_of(Begin, run) if event.kind == "step"]
    assert len(set(steps)) == 16


def test_a_signal_handler_can_record_during_a_write():
    with record() as run, run.training() as training:
        signals = 0

        def handler(*_: Any) -> None:
            nonlocal signals
            signals += 1
            training.measured(signal=signals)

        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        try:
            for epoch in training.epochs(1):
                for batch in epoch.batches(range(30_000)):
                    batch.measured(loss=batch.index)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert signals > 0
    values = [event.values for event in events_of(Measured, run)]
    assert sorted(value["signal"] for value in values if "signal" in value) == list(range(1, signals + 1))
    assert [value["loss"] for value in values if "loss" in value] == list(range(1, 30_001))


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 11])
def test_a_signal_handler_can_record_at_any_call(step: int, monkeypatch: pytest.MonkeyPatch):
    """Python runs signal handlers between two calls, so a profiler, which is called there, stands in for signals."""
    monkeypatch.setattr(CONTEXT, "limits", Limits(flush_seconds=0.0))
    calls = signals = 0

    def interrupt(*_: Any) -> None:
        nonlocal calls, signals
        calls += 1
        if calls % step == 0 and signals < 1000:  # each line of a handler must not cause the next for ever
            sys.setprofile(None)
            signals += 1
            training.measured(signal=signals)
            sys.setprofile(interrupt)

    with record() as run, run.training() as training:
        for epoch in training.epochs(1):
            sys.setprofile(interrupt)
            try:
                for batch in epoch.batches(range(200)):
                    batch.measured(loss=batch.index)
                    if batch.index % 3 == 0:
                        training.measured(other=batch.index)  # is preceded by the measures of the open batch
            finally:
                sys.setprofile(None)
    assert signals > 100, "too few calls were interrupted"
    values = [event.values for event in events_of(Measured, run)]
    assert sorted(value["signal"] for value in values if "signal" in value) == list(range(1, signals + 1))
    assert [value["loss"] for value in values if "loss" in value] == list(range(1, 201))


def test_a_copied_run_is_the_same_run():
    with record() as run, run.training() as training:
        assert copy.deepcopy(run) is run
        assert pickle.loads(pickle.dumps(run)) is run
        assert copy.deepcopy(training).run is run


class Unreadable:
    """A tensor without a value, such as one on the device "meta" of PyTorch."""

    shape = ()

    def item(self) -> float:
        raise RuntimeError("no value on this device")


WRONG_ARGUMENTS = {
    "epochs as text": (
        lambda run: next(run.training().epochs("3")),
        (
            "The number of epochs must be a whole number, not '3' (str). "
            "Use epochs(3), or epochs(items) for an epoch of each item."
        ),
    ),
    "fewer than no epochs": (
        lambda run: next(run.training().epochs(-1)),
        ("The number of epochs must be at least 0, not -1. Use epochs(3), or epochs(items) for an epoch of each item."),
    ),
    "a switch as the number of epochs": (
        lambda run: next(run.training().epochs(True)),
        (
            "The number of epochs must be a whole number, not True (bool). "
            "Use epochs(3), or epochs(items) for an epoch of each item."
        ),
    ),
    "a first epoch as text": (
        lambda run: next(run.training().epochs(3, first="a")),
        (
            "`first`, the number of the first epoch, must be a whole number, not 'a' (str). "
            "Use first=5 to go on after 4."
        ),
    ),
    "a negative first epoch": (
        lambda run: next(run.training().epochs(3, first=-1)),
        "`first`, the number of the first epoch, must be at least 0, not -1. Use first=5 to go on after 4.",
    ),
    "a negative epoch": (
        lambda run: run.training().epoch(-1),
        "The index of an epoch must be at least 0, not -1.",
    ),
    "an epoch that no index holds": (
        lambda run: run.training().epoch(2**63),
        "The index of an epoch must be at most 9223372036854775807, not 9223372036854775808.",
    ),
    "a negative batch": (
        lambda run: run.training().epoch(1).batch(-1),
        "The index of a batch must be at least 0, not -1.",
    ),
    "no first batch": (
        lambda run: next(run.training().epoch(1).batches([1], first=None)),
        (
            "`first`, the number of the first batch, must be a whole number, not None (NoneType). "
            "Use first=5 to go on after 4."
        ),
    ),
    "a number of batches": (
        lambda run: next(run.training().epoch(1).batches(3)),
        (
            "The loader of `batches` must be an iterable of batches, not 3 (int). "
            "Use batches(loader), or batches(range(100))."
        ),
    ),
    "half an epoch": (
        lambda run: run.training().epoch(0.5),
        "The index of an epoch must be a whole number, not 0.5 (float).",
    ),
    "a batch as text": (
        lambda run: run.training().epoch(1).batch("x"),
        "The index of a batch must be a whole number, not 'x' (str).",
    ),
    "a number as data": (
        lambda run: run.training(using=3),
        "3 (int) is not data of a run. Pass what run.dataset(…) or produced(…) returned.",
    ),
    "an unknown kind of data": (
        lambda run: run.training().produced(b"weights", kind="modle"),
        "kind must be 'dataset', 'features' or 'model', not 'modle'.",
    ),
    "a measure as text": (
        lambda run: run.training().measured(loss="low"),
        "The measure 'loss' must be a number, not the text 'low'. Record text as a parameter.",
    ),
    "a number as text": (
        lambda run: run.training().measured(loss="0.5"),
        "The measure 'loss' must be a number, not the text '0.5'. Convert it: measured(loss=float(…)), here 0.5.",
    ),
    "a measure without a value": (
        lambda run: run.training().measured(loss=Unreadable()),
        (
            "The value of the measure 'loss' cannot be read (Unreadable: no value on this device). "
            "Pass a number, or a tensor that has a value."
        ),
    ),
    "a measure beyond all floats": (
        lambda run: run.training().measured(loss=Fraction(10**400)),
        ("The measure 'loss' (Fraction) is larger than any float. Record its logarithm, or its text as a parameter."),
    ),
    "several measures": (
        lambda run: run.training().measured(loss=[1, 2]),
        "The measure 'loss' must be a number, not a value of type list.",
    ),
    "a number as layers": (
        lambda run: run.training().layers(3),
        "A layer is a dictionary such as {'name': 'dense', 'type': 'Dense'}, not 3.",
    ),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_a_wrong_argument_is_described_with_its_value(name: str):
    call, message = WRONG_ARGUMENTS[name]
    with record() as run, pytest.raises((TypeError, ValueError)) as caught:
        call(run)
    assert str(caught.value) == message


def test_a_stage_without_a_name_has_that_of_its_kind():
    with record() as run:
        run.training(name=None).done()
        run.evaluation(name="").done()
    assert [(event.location, event.name) for event in events_of(Begin, run)] == [
        ("training", "training"),
        ("evaluation", "evaluation"),
    ]


def test_data_of_an_unknown_kind_is_a_capture_error_and_not_a_dataset():
    with record(strict=False) as run, run.training() as training:
        data = training.produced(b"weights", kind="modle")
        assert (data.ref, run.capture_errors) == ("", 1)
    assert events_of(Produced, run) == []


@pytest.mark.parametrize("reads", [0, 1], ids=["at the begin", "at the end"])
def test_a_section_of_the_past_ends_after_its_begin_on_a_busy_machine(reads: int, monkeypatch: pytest.MonkeyPatch):
    """Between the readings of its two clocks, the process may wait for others."""
    waits: list[float] = []

    def late(self: Any) -> float:
        time.sleep(waits.pop(0) if waits else 0.0)
        return time.time()

    with record() as run, run.training() as training, monkeypatch.context() as patch:
        patch.setattr(type(run), "_time", late)
        began = time.perf_counter()
        waits[:] = [0.0] * reads + [0.05]
        epoch = training.epoch(1, ago=time.perf_counter() - began)
        epoch._ended = began + 1e-5
        epoch.done()
        waits[:] = [0.0] * reads + [0.05]
        stage = run.evaluation()
        with stage.epoch(1, ago=time.perf_counter() - began):
            pass
        stage.done(ago=time.perf_counter() - began)
    begins = {event.location: event.time for event in events_of(Begin, run)}
    ends = {event.location: event.time for event in events_of(events.Done, run)}
    assert begins.keys() == ends.keys() == {"training", "training/1", "evaluation", "evaluation/1"}
    assert begins["evaluation"] <= begins["evaluation/1"] <= ends["evaluation/1"] <= ends["evaluation"]
    assert all(ends[location] >= begin for location, begin in begins.items())


def test_numbers_of_other_libraries_are_indices():
    with record() as run, run.training() as training:
        for epoch in training.epochs(np.int64(1)):
            epoch.batch(np.int32(4)).done()
    assert [event.location for event in events_of(events.BatchEnd, run)] == ["training/1/4"]


# ---- display


def test_runs_and_sections_have_a_useful_repr():
    with record("flowers", model="alexnet", run="r") as run, run.training(learning_rate=0.1) as training:
        with training.epoch(1) as epoch:
            assert repr(epoch) == "<Epoch 1 of 'training' running>"
            assert [repr(batch) for batch in epoch.batches("ab")] == [
                "<Batch 1 of 'training/1'>",
                "<Batch 2 of 'training/1'>",
            ]
            assert repr(epoch.batch(3)) == "<Batch 3 of 'training/1'>"
        assert repr(run) == "<Run r 'flowers' model='alexnet' RUNNING>"
        assert repr(training) == "<Stage training 'training' running, epoch 1>"
        assert repr(run.filter("gray")) == "<Step filter 'gray' running>"
    assert repr(run) == "<Run r 'flowers' model='alexnet' FINISHED>"
    with record("flowers", run="s", strict=False) as wrong:
        wrong.training(using="data.csv").done()
        assert repr(wrong) == "<Run s 'flowers' RUNNING, 1 capture error>"
    assert repr(training) == "<Stage training 'training' ended, epoch 1>"


def test_runs_and_sections_have_html_for_notebooks():
    with record("<b>", model="alexnet", run="r") as run, run.training(learning_rate=0.1) as training:
        epoch = training.epoch(1)
        assert "Run r: &lt;b&gt;" in run._repr_html_()
        assert "<td>training</td>" in run._repr_html_()
        assert "<td>0.1</td>" in training._repr_html_()
        assert "Epoch 1 of training" in epoch._repr_html_()


def test_the_completion_list_of_user_objects_has_no_internal_names():
    with record() as run, run.training() as training:
        epoch = training.epoch(1)
        batch = epoch.batch(1)
    sections = {"data", "done", "index", "measured", "produced", "run", "stage", "used", "validation", "batch"}
    assert public(run) == {
        *("capture_errors", "detail", "disabled", "every", "home", "id", "model", "name", "rank", "strict"),
        *("curation", "dataset", "evaluation", "extraction", "features", "filter", "finish", "prepared"),
        *("preparation", "record_workflow", "saved", "split", "step", "training", "validation"),
        *("child", "experiment", "figure", "keep", "note", "rename", "show", "tag", "text", "untag"),
    }
    assert public(training) == {
        *("adapted", "current_epoch", "done", "epoch", "epochs", "execution", "folds", "implemented_by", "kind"),
        *("layers", "measured", "name", "parameters", "produced", "rounds", "run", "used"),
    }
    assert public(epoch) == {*sections, "batches", "kind"}
    assert public(batch) == {"data", "done", "index", "measured", "run"}


def public(value: object) -> set[str]:
    return {name for name in dir(value) if not name.startswith("_")}


@pytest.mark.parametrize("fails", [False, True])
def test_a_with_block_ends_a_batch(fails: bool):
    with record() as run, run.training() as training, training.epoch(1) as epoch:
        with suppress(Interrupted), epoch.batch(7) as batch:
            batch.measured(loss=0.5)
            if fails:
                raise Interrupted
        batch.measured(loss=9.0)
    events = [event for event in all_events(run) if getattr(event, "location", "") == "training/1/7"]
    assert [type(event) for event in events] == [Measured, BatchEnd]
    assert events[0].values == {"loss": 0.5}


# ---- messages


def test_an_epoch_of_an_adaptation_that_is_none_is_named(caplog: pytest.LogCaptureFixture):
    with record(strict=False) as run, run.training(rate=0.1) as training:
        training.adapted(during="last", rate=0.2)
    assert "The epoch of an adaptation must be a whole number, not 'last' (str)" in caplog.text
    assert "Training continues" in caplog.text


def test_the_log_of_a_strict_run_does_not_say_that_training_continues(caplog: pytest.LogCaptureFixture):
    with record(strict=True) as run, run.training() as training, pytest.raises(TypeError):
        training.measured(loss="high")
    assert "The run is strict, so the error is raised" in caplog.text
    assert "continues" not in caplog.text


def test_a_run_that_ended_says_how_to_continue_it():
    with record(strict=True) as run:
        pass
    with pytest.raises(RuntimeError, match=r"The run has ended; .* pass its id to provml.record\(…, run=…\)"):
        run.training()
