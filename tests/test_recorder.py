"""The write side: verbs that read like a training, values that come back exactly, statuses that are true."""

from __future__ import annotations

import copy
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
import tracemalloc
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import told_in

import provml
from provml import content, event
from provml.content import jsonable
from provml.event import Adapted, Batch, Begin, Done, End, Environment, Fault, Measured, Parameter, Produced, Run, Used
from provml.lift import artifact
from provml.rdf.exact import decode_value
from provml.recorder import Recorder
from provml.values import Text


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test records below a folder of its own, and no test sees the run of another."""
    monkeypatch.chdir(tmp_path)
    for name in ("PROVML_RUN", "PROVML_HOME", "PROVML_DISABLED", "PROVML_JOURNAL", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


def record(name: str = "flowers", **settings: Any) -> Recorder:
    return provml.record(name, **{"strict": True, "capture_environment": False, **settings})


def told(run: Recorder | str, home: str = ".provml") -> list[event.AnyEvent]:
    """All events of a run, journal after journal."""
    folder = Path(home, "runs", run if isinstance(run, str) else run.id)
    return [what for path in sorted(folder.glob("*.jsonl")) for what in told_in(path)]


def of(kind: type[Any], run: Recorder | str) -> list[Any]:
    return [what for what in told(run) if isinstance(what, kind)]


def in_python(program: str, *arguments: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own."""
    surroundings = {**os.environ, **variables}
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=check, env=surroundings, timeout=120)


def failing(error: type[Exception]) -> Any:
    """A training that ends by an error."""
    return pytest.raises(error)


# ---- the verbs


def test_a_run_reads_like_the_training_that_it_records(tmp_path: Path):
    for name in ("flowers.h5", "train.h5", "alexnet.pt"):
        Path(name).write_bytes(name.encode())
    with provml.record("flowers", model="alexnet", strict=True, by="alice", study="garden", task="classify") as run:
        raw = run.dataset("flowers.h5", role="raw", about="http://example.org/kg/OxfordFlower17", store="disk")
        train = run.prepared("train.h5", by="gray-scale", using=[raw], tile=224)
        with run.training(using=train, learning_rate=0.001, optimizer="Adam", epochs=2) as training:
            training.layers([{"name": "conv1", "type": "Conv2D", "kernel_size": (3, 3), "filters": np.int64(96)}])
            for epoch in training.epochs(2):
                for batch in epoch.batches(["a", "b"]):
                    batch.measured(loss=1.0 / batch.index)
                epoch.measured(loss=0.5, accuracy=0.9)
                with epoch.validation(using=train) as twin:
                    twin.measured(loss=0.7)
                if epoch.index == 1:
                    training.adapted(learning_rate=0.0005, technique="step decay", why="plateau", by="bob")
            model = training.produced("alexnet.pt")
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.59)
    events = told(run)
    assert isinstance(events[0], Run)
    assert (events[0].name, events[0].model, events[0].by, events[0].main) == ("flowers", "alexnet", "alice", True)
    assert isinstance(events[-1], End)
    assert events[-1].status == "FINISHED"
    begun = [what.at for what in of(Begin, run)]
    assert begun == [
        *("gray-scale", "training", "training/1", "validation", "validation/1"),
        *("training/2", "validation/2", "evaluation"),
    ]
    assert sorted(what.at for what in of(Done, run)) == sorted(begun)
    assert [what.at for what in of(Batch, run)] == ["training/1/1", "training/1/2", "training/2/1", "training/2/2"]
    (adapted,) = of(Adapted, run)
    assert (adapted.at, adapted.values, adapted.technique) == ("training/1", {"learning_rate": 0.0005}, "step decay")
    assert [(what.at, what.ref, what.role) for what in of(Used, run)] == [
        ("gray-scale", raw.ref, "raw"),
        ("training", train.ref, "training"),
        ("validation", train.ref, "validation"),
        ("evaluation", model.ref, "model"),
    ]
    assert run.faults == 0
    (layers,) = of(event.Layers, run)
    assert layers.layers == [{"name": "conv1", "type": "Conv2D", "kernel_size": "(3, 3)", "filters": 96}]


def test_stages_say_who_did_them_as_other_steps_do():
    with record() as run:
        with run.filter("gray", by="ann"), run.training(by="alice", rate=0.1) as training:
            for epoch in training.epochs(2):
                epoch.validation(by="bob", size=3).done()
        run.validation(by="carol").done()
        run.evaluation(by="dan").done()
        run.evaluation().done()
    begun = [what for what in of(Begin, run) if "/" not in what.at]
    assert [what.by for what in begun] == ["ann", "alice", "bob", "carol", "dan", ""]
    assert [what.values for what in begun] == [{"filter_name": "gray"}, {"rate": 0.1}, {"size": 3}, {}, {}, {}]
    with provml.open() as store:
        assert {(who, name) for who, _, name, *_ in store.ask("b11").rows} == {
            ("ann", "gray"), ("alice", "training"), ("bob", "validation"), ("carol", "validation"),
            ("dan", "evaluation"),
        }  # fmt: skip


@pytest.mark.parametrize("every", [0, -1, 1.5, "2", None])
def test_every_is_a_whole_number(every: Any):
    with pytest.raises(ValueError, match=r"every is a whole number from 1 on, not "):
        record(every=every)
    assert not Path(".provml").exists()


def test_steps_before_learning_are_told_by_kind():
    with record() as run:
        for kind in ("curation", "preparation", "filter", "split", "extraction", "step"):
            with getattr(run, kind)(f"my {kind}", size=3) as step:
                step.parameters(more=4)
                out = step.produced(b"bytes " + kind.encode(), name="out", about="http://example.org/x", store="s3")
        run.features(np.arange(6).reshape(2, 3), name="f", columns=3)
    assert [what.kind for what in of(Begin, run)] == [
        "curation", "preparation", "filter", "split", "extraction", "step",
    ]  # fmt: skip
    made = of(event.Data, run)
    assert (made[0].about, made[0].store, made[0].size) == (["http://example.org/x"], "s3", 14)
    assert of(Produced, run)[-1].ref == out.ref
    assert made[-1].kind == "features"


def test_a_step_of_a_name_that_was_taken_gets_a_number():
    with record() as run:
        names = [run.step(name).at for name in ("a", "a", "a-2", "a", "b c", "b-c", "..", "", "层", "a/b")]
    assert len(set(names)) == len(names)
    assert names[:4] == ["a", "a-2", "a-2-2", "a-3"]
    assert names[6:9] == ["step", "step-2", "层"]


def test_many_models_of_one_name_are_told_apart_quickly():
    with record(model="m") as run, run.training() as training:
        refs = [epoch.produced(b"weights", kind="model").ref for epoch in training.epochs(3000)]
    assert len(set(refs)) == 3000


def test_detail_epoch_tells_no_batches_and_every_third_tells_each_third():
    with record(detail="epoch") as run, run.training() as training:
        for epoch in training.epochs(2):
            for batch in epoch.batches(range(10)):
                batch.measured(loss=0.5)
            epoch.measured(loss=0.5)
    assert of(Batch, run) == []
    assert len(of(Measured, run)) == 2
    with record(every=3) as run, run.training() as training:
        for epoch in training.epochs(1):
            for batch in epoch.batches(range(10)):
                batch.measured(loss=0.5)
    assert [what.at.rpartition("/")[2] for what in of(Batch, run)] == ["1", "4", "7", "10"]
    assert len(of(Measured, run)) == 4


@pytest.mark.parametrize("wrong", [{"detail": "layer"}, {"every": 0}, {"every": 1.5}, {"run": "a/b"}, {"run": ".."}])
def test_a_wrong_setting_is_refused_where_it_is_written(wrong: dict[str, Any]):
    with pytest.raises(ValueError):
        record(**wrong)


def test_a_setting_that_there_is_not_is_refused_with_those_that_there_are(tmp_path: Path):
    with pytest.raises(TypeError, match=r"no setting lr; there are model, home, .*run\.training\("):
        provml.record("flowers", home=tmp_path / "home", lr=0.1)
    assert not (tmp_path / "home").exists()


def test_a_second_loop_over_epochs_counts_on_and_no_epoch_is_told_twice():
    with record() as run, run.training() as training:
        first = [epoch.index for epoch in training.epochs(np.int64(3))]
        second = [epoch.index for epoch in training.epochs(["x", "y"])]
        with training.epoch(2) as again:
            assert again.index == 6
        assert [epoch.index for epoch in training.epochs(1, first=20)] == [20]
    assert (first, second) == ([1, 2, 3], [4, 5])
    begun = [what.at for what in of(Begin, run)]
    assert len(begun) == len(set(begun))


def test_sections_of_a_kind_that_a_user_names_are_told_by_it():
    with record() as run, run.training() as training:
        for episode in training.epochs(2, kind="episode"):
            episode.measured(reward=float(episode.index))
        training.epoch(3, kind=None).done()  # type: ignore[arg-type]  # as users do
    assert [what.kind for what in of(Begin, run)] == ["training", "episode", "episode", "epoch"]


def test_a_model_to_go_on_from_has_no_role_of_a_dataset():
    with record() as run:
        data = run.dataset(b"pixels", name="pixels")
        with run.training(using=data) as training:
            model = training.produced(b"weights")
        with run.training(name="finetune", using=[data, model]) as training:
            training.used(model)
            training.used(model, role="teacher")
    roles = [(what.at, what.ref == model.ref, what.role) for what in of(Used, run)]
    assert roles == [
        ("training", False, "training"),
        ("finetune", False, "training"),
        ("finetune", True, ""),
        ("finetune", True, "teacher"),
    ]


def test_the_validation_of_an_epoch_tells_what_is_new_and_has_the_name_of_its_training(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("RANK", "1")
    with record(run="r") as run:
        first, second = run.dataset(b"1", name="first"), run.dataset(b"2", name="second")
        with run.training(name="finetune") as training:
            for epoch, using in zip(training.epochs(4), [first, first, second, first], strict=True):
                with epoch.validation(using=using, threshold=max(epoch.index, 2) / 10, top=5):
                    pass
    (begun,) = [what for what in of(Begin, run) if what.kind == "validation"]
    assert (begun.at, begun.name) == ("finetune-validation@1", "finetune-validation")
    assert begun.values == {"threshold": 0.2, "top": 5}
    assert [what.ref for what in of(Used, run)] == [first.ref, second.ref]
    assert [what.values for what in of(Parameter, run)] == [{"threshold": 0.3}, {"threshold": 0.4}]


def test_folds_and_rounds_are_sections_of_their_kind():
    with record() as run:
        with run.training() as training:
            list(training.folds(2))
        with run.training() as training:
            list(training.rounds(["a"]))
    assert [what.kind for what in of(Begin, run)] == ["training", "fold", "fold", "training", "round"]


# ---- data


def test_data_is_known_by_its_whole_content(tmp_path: Path):
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


def test_a_file_that_is_not_there_is_a_fault_and_told_by_its_name(caplog: pytest.LogCaptureFixture):
    with record(strict=False) as run, run.training(using=run.dataset("trian.csv")) as training:
        training.produced("nomodel.pt")
    assert run.faults == 2
    assert [(what.ref, what.name, what.path, what.sha256) for what in of(event.Data, run)] == [
        ("dataset-trian.csv", "trian.csv", "trian.csv", ""),
        ("flowers", "flowers", "nomodel.pt", ""),
    ]
    assert "there is no file or folder 'trian.csv' here" in caplog.text
    assert "Mend the path" in caplog.text


@pytest.mark.parametrize(
    "name", ["MNIST", "digits v1.5", "gpt-3.5-turbo", "Iris, cleaned.", "s3://bucket/a.csv", "hdfs:/a/b.h5", ".", "é"]
)
def test_a_name_or_a_place_elsewhere_is_not_taken_for_a_missing_file(name: str):
    with record() as run:
        assert run.dataset(name).ref
    assert run.faults == 0


def test_a_path_in_another_store_is_not_looked_for_here():
    with record() as run:
        assert run.dataset("archive/cube.sgy", store="tape").path == "archive/cube.sgy"


def test_a_role_that_looks_like_a_slip_is_kept_and_doubted_once(caplog: pytest.LogCaptureFixture):
    with record() as run:
        for _ in range(2):
            data = run.dataset(b"1", role="trainning")
        run.training(using=data).used(data, role="Tests")
        run.dataset(b"2", role="calibration")
        run.dataset(b"3", role="training")
    assert [what.role for what in of(Used, run)] == ["trainning", "Tests"]
    assert [(one.args or ("",))[1] for one in caplog.records] == ["training", "test"]
    assert "did you mean 'training'?" in caplog.text
    assert set(content.ROLES) == {*artifact.ROLES, "model"}


def test_a_folder_is_known_by_the_names_and_contents_of_its_files():
    for folder in ("one", "two"):
        Path(folder, "in").mkdir(parents=True)
        Path(folder, "in", "a").write_bytes(b"a")
        Path(os.fsdecode(folder.encode() + b"/\xff")).write_bytes(b"b")
    assert content.of("one") == content.of("two")
    Path("two", "in", "a").rename(Path("two", "in", "c"))
    assert content.of("one") != content.of("two")


def test_a_folder_is_known_by_what_its_links_lead_to():
    for name in ("plain", "linked", "real"):
        Path(name).mkdir()
    Path("plain", "train").mkdir()
    for place in (Path("plain", "train", "a"), Path("real", "a")):
        place.write_bytes(b"1")
    Path("linked", "train").symlink_to(Path("real").resolve())
    before = content.of("linked")
    assert before == content.of("plain")
    Path("real", "up").symlink_to("..")  # a link to a folder that it is in
    Path("real", "nowhere").symlink_to("gone")
    Path("real", "a").write_bytes(b"2")
    Path("linked", "again").symlink_to(Path("real").resolve())
    assert content.of("linked") != before


def test_a_folder_that_cannot_be_read_whole_has_no_content(caplog: pytest.LogCaptureFixture):
    Path("data", "locked").mkdir(parents=True)
    Path("data", "a").write_bytes(b"1")
    Path("data", "locked").chmod(0)
    try:
        if os.access("data/locked", os.R_OK):
            Path("data", "b").symlink_to("/proc/self/mem")  # for whom permissions do not stop
        with record(strict=False) as run:
            assert run.dataset("data").sha256 == ""
            assert run.faults == 1
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
@pytest.mark.parametrize("piece", [1, 8, 50, 1 << 22])
def test_an_array_read_in_pieces_has_the_content_of_the_whole(array: Any, piece: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(content, "PIECE", piece)
    whole = hashlib.sha256(f"{array.shape}{array.dtype}".encode() + array.tobytes()).hexdigest()
    assert content.of(array) == (whole, array.nbytes)


def test_reading_an_array_takes_little_memory_beside_it():
    array = np.ones(8_000_000)
    tracemalloc.start()
    try:
        content.of(array)
        assert tracemalloc.get_traced_memory()[1] < array.nbytes / 2
    finally:
        tracemalloc.stop()


def test_an_array_of_objects_has_no_content_since_its_bytes_are_addresses():
    assert content.of(np.array([object()])) is None


def test_a_file_that_has_long_not_changed_is_read_once(tmp_path: Path):
    path = tmp_path / "a"
    path.write_bytes(b"x")
    first = content.of_file(path)
    assert not any(key[0] == str(path.resolve()) for key in content._SEEN)
    assert content.of_file(path) == first


def test_names_that_utf8_cannot_hold_are_written_with_escapes():
    name = os.fsdecode(b"caf\xe9.h5")
    Path(name).write_bytes(b"x")
    with record() as run:
        run.dataset(name)
        run.step("s", label="\ud800")
    assert of(event.Data, run)[0].path == "caf\\udce9.h5"
    assert of(Begin, run)[0].values == {"label": "\\ud800"}


# ---- values


class Colour(Enum):
    RED = "red"


class Tensor:
    """Like a framework's: a shape, and an item where there is just one."""

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
    (Tensor(0.5), 0.5),
    (Tensor(np.float32(0.5)), 0.5),
    (Colour.RED, "red"),
    (Path("a/b"), "a/b"),
    (Text("couche", "fr"), Text("couche", "fr")),
]


@pytest.mark.parametrize(("given_", "back"), VALUES, ids=str)
def test_a_value_comes_back_from_the_journal_exactly(given_: Any, back: Any):
    measures = {} if isinstance(back, str) else {"measure": given_}
    with record() as run, run.training(parameter=given_) as training:
        training.measured(**measures)
        for epoch in training.epochs(1):
            for batch in epoch.batches([1]):
                batch.measured(**measures)
    values = [of(Begin, run)[0].values["parameter"], *(what.values["measure"] for what in of(Measured, run))]
    assert len(values) == 1 + 2 * len(measures)
    for value in map(decode_value, values):
        assert value == back
        assert type(value) is type(back)
        assert not isinstance(back, float) or math.copysign(1, value) == math.copysign(1, back)


def test_nan_comes_back_as_nan_from_any_kind_of_number():
    with record() as run, run.training() as training:
        for value in (math.nan, np.float32("nan"), Tensor(math.nan)):
            training.measured(loss=value)
    assert all(math.isnan(decode_value(what.values["loss"])) for what in of(Measured, run))


@given(st.one_of(st.floats(allow_nan=False), st.integers(), st.text(), st.booleans()))
def test_any_number_or_text_survives_a_line(value: Any):
    line = event.encode(Measured("training/1", {"x": jsonable(value)}))
    assert line.count(b"\n") == 1
    assert b"\0" not in line
    back = event.decode(line)
    assert isinstance(back, Measured)
    assert decode_value(back.values["x"]) == value
    assert type(decode_value(back.values["x"])) is type(value)


@pytest.mark.parametrize(
    ("held", "text"), [([1, 2], "[1, 2]"), ((0.9, 0.999), "[0.9, 0.999]"), ({"a": np.float32(0.5)}, '{"a": 0.5}')]
)
def test_a_list_is_kept_as_its_text_where_it_is_a_parameter_and_refused_where_it_is_a_measure(held: Any, text: str):
    with record(strict=False) as run:
        with run.training(betas=held) as training:
            training.measured(bad=held)
        assert run.faults == 1
    assert of(Begin, run)[0].values == {"betas": text}
    assert of(Measured, run) == []


@pytest.mark.parametrize("wrong", [object, np.zeros(2), Tensor(1.0, (1,)), 1j, {1}], ids=str)
def test_a_value_that_is_no_scalar_is_a_fault_and_costs_no_other_value(wrong: Any, caplog: pytest.LogCaptureFixture):
    with record(strict=False) as run:
        with run.training() as training:
            training.measured(good=1.0, bad=wrong)
            for epoch in training.epochs(1):
                for batch in epoch.batches([1]):
                    batch.measured(bad=wrong, good=2.0)
                    batch.measured(bad=wrong)
        assert run.faults == 3
    assert [what.values for what in of(Measured, run)] == [{"good": 1.0}, {"good": 2.0}]
    assert of(Fault, run)[-1].count == 3
    assert len(caplog.records) == 1
    with pytest.raises(TypeError), record() as run:
        run.training().measured(bad=wrong)


def gray(image: Any) -> Any:
    return image


class Loss:
    """As frameworks have them, told by what its repr says."""

    def __init__(self, said: str) -> None:
        self.said = said

    def __repr__(self) -> str:
        return self.said


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


@pytest.mark.parametrize(("named", "text"), NAMED, ids=[text[:30] for _, text in NAMED])
def test_a_parameter_that_is_no_scalar_is_kept_as_a_text_that_is_the_same_in_every_process(named: Any, text: str):
    with record() as run, run.training(held=named):
        pass
    assert of(Begin, run)[0].values == {"held": text}


def test_what_is_none_is_not_told():
    with record() as run, run.training(depth=None, width=3) as training:
        training.measured(val_loss=None)
        training.adapted(rate=0.1, technique=None, by=None)  # type: ignore[arg-type]  # as users do
    assert of(Begin, run)[0].values == {"width": 3}
    assert of(Measured, run) == []
    assert of(Adapted, run)[0].technique == ""


def test_a_measure_may_have_any_name():
    with record() as run, run.training() as training:
        training.measured(**{"self": 1.0, "val/loss": 2.0, "values": 3.0, "run": 4.0})
        for epoch in training.epochs(1):
            for batch in epoch.batches([1]):
                batch.measured(self=1.0)
    assert of(Measured, run)[0].values == {"self": 1.0, "val/loss": 2.0, "values": 3.0, "run": 4.0}


# ---- faults


class Broken:
    """An object that breaks whatever touches it."""

    shape = ()

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("str")

    __repr__ = __str__


WRONG: list[Callable[[Recorder], Any]] = [
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
    lambda run: run.tell_workflow("nowhere.yaml"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_fault_in_a_verb_never_reaches_the_training_unless_strict(number: int, caplog: pytest.LogCaptureFixture):
    with record(strict=False) as run:
        WRONG[number](run)
        assert run.faults == 1
    assert of(Fault, run)[-1].count == 1
    assert of(End, run)[0].status == "FINISHED"
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    with record(strict=True) as run, pytest.raises(Exception):  # noqa: B017  # of many kinds
        WRONG[number](run)


def test_a_folder_with_what_cannot_be_looked_at_is_not_told_as_if_that_were_not_there(tmp_path: Path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "cat.png").symlink_to("x" * 300)
    with record(strict=True) as run, pytest.raises(OSError, match="too long"):
        run.dataset(tmp_path / "images")


def test_errors_of_the_training_itself_are_never_swallowed():
    def loader():
        yield 1
        raise KeyError("the loader's own")

    with failing(KeyError), record(strict=False) as run, run.training() as training:
        for epoch in training.epochs(1):
            for _ in epoch.batches(loader()):
                pass
    assert run.faults == 0
    assert [(what.at, what.status) for what in of(Done, run)] == [("training/1", "FAILED"), ("training", "FAILED")]


def test_what_is_told_after_the_end_is_a_fault():
    with record(strict=False) as run:
        training = run.training()
    training.measured(loss=1.0)
    assert run.faults == 1
    assert isinstance(told(run)[-1], End)


# ---- how things end


def ends(run: Recorder | str) -> dict[str, str]:
    return {what.at: what.status for what in of(Done, run)}


def test_an_exception_inside_with_fails_all_that_was_open():
    with failing(ZeroDivisionError), record() as run, run.training() as training:
        for epoch in training.epochs(3):
            for batch in epoch.batches(range(3)):
                batch.measured(loss=1.0)
                if epoch.index == 2 and batch.index == 2:
                    1 / 0  # noqa: B018
    assert ends(run) == {"training/1": "FINISHED", "training/2": "FAILED", "training": "FAILED"}
    assert [what.at for what in of(Batch, run)][-1] == "training/2/1"
    end = told(run)[-1]
    assert isinstance(end, End)
    assert (end.status, end.error) == ("FAILED", ["ZeroDivisionError", "division by zero"])


def test_break_ends_an_epoch_well_even_when_an_error_follows():
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
    assert [what.at for what in of(Batch, run)][-1] == "training/2/2"


def test_a_return_out_of_the_loop_in_a_function_is_no_failure():
    def train(training):
        for epoch in training.epochs(5):
            if epoch.index == 2:
                return

    with failing(ValueError), record() as run, run.training() as training:
        train(training)
        raise ValueError("later")
    assert ends(run)["training/2"] == "FINISHED"


def test_nested_generators_tell_a_break_from_an_error_too():
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


def test_an_error_that_is_caught_and_tried_again_failed_its_epoch():
    with record() as run, run.training() as training:
        try:
            for _ in training.epochs(2):
                raise MemoryError("too large")
        except MemoryError:
            list(training.epochs(1))
    assert ends(run) == {"training/1": "FAILED", "training/2": "FINISHED", "training": "FINISHED"}


def test_an_iterator_that_is_still_held_leaves_no_epoch_open():
    with record() as run, run.training() as training:
        held = training.epochs(3)
        next(held)
        by_hand = training.epoch(9)
    assert ends(run) == {"training/1": "FINISHED", "training/9": "FINISHED", "training": "FINISHED"}
    by_hand.done()
    held.close()
    assert len(of(Done, run)) == 3


def test_finish_ends_what_is_open_and_may_be_called_twice():
    run = record()
    training = run.training()
    epoch = training.epoch(1)
    run.finish(error=ValueError("no"))
    run.finish()
    epoch.done()
    training.done()
    assert ends(run) == {"training/1": "FAILED", "training": "FAILED"}
    assert [what.status for what in of(End, run)] == ["FAILED"]
    assert run.faults == 0


def test_two_runs_in_one_process_may_follow_each_other_or_overlap():
    with record("one") as one:
        pass
    with record("two") as two, record("three") as three:
        two.training().done()
        three.training().done()
    assert len({one.id, two.id, three.id}) == 3
    assert [what.name for run in (one, two, three) for what in of(Run, run)] == ["one", "two", "three"]
    assert "PROVML_RUN" not in os.environ


def test_overlapping_runs_hand_down_the_one_that_goes_on():
    one, two = record("one"), record("two")
    assert os.environ["PROVML_RUN"].startswith(two.id)
    two.finish()
    assert os.environ["PROVML_RUN"].startswith(one.id)
    three = record("three")
    one.finish()
    assert os.environ["PROVML_RUN"].startswith(three.id)
    three.finish()
    assert "PROVML_RUN" not in os.environ


ENDINGS = {
    "pass": ("FINISHED", []),
    "1 / 0": ("FAILED", ["ZeroDivisionError", "division by zero"]),
    "raise KeyboardInterrupt": ("FAILED", ["KeyboardInterrupt", ""]),
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
def test_a_status_is_true_with_and_without_with(ending: str, with_: bool):
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
    (end,) = of(End, "r")
    assert (end.status, end.error) == ENDINGS[ending]
    failed = "FINISHED" if end.status == "FINISHED" else "FAILED"
    assert ends("r")["training"] == ends("r")["training/1"] == failed


def test_an_exit_that_somebody_caught_ended_nothing():
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
    assert of(End, "r")[0].status == "FINISHED"


def test_exit_is_as_it_was_when_no_run_goes_on():
    before = sys.exit, type(exit).__call__
    with record():
        assert sys.exit is not before[0]
    assert (sys.exit, type(exit).__call__) == before


def test_an_error_before_the_run_or_in_a_thread_is_not_the_runs():
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
    assert of(End, "r")[0].status == "FINISHED"


# ---- off


def test_where_it_is_disabled_every_verb_works_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    with provml.record("x", workflow="nowhere.yaml") as run:
        raw = run.dataset("nowhere.h5", role="raw")
        train = run.prepared("train.h5", by="gray", using=[raw])
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
                with epoch.validation() as twin:
                    twin.measured(loss=2.0)
                epoch.produced("m")
            training.adapted(x=2)
            model = training.produced("m.pt")
        with run.evaluation(of=model) as test:
            test.measured(accuracy=1.0)
    assert run.faults == 0
    assert "PROVML_RUN" not in os.environ
    assert list(Path().iterdir()) == []
    for value in ("", "0", "false"):
        monkeypatch.setenv("PROVML_DISABLED", value)
        with record() as run:
            assert not run.off


# ---- surroundings


def test_the_environment_is_told_and_git_is_asked_beside_the_training(tmp_path: Path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    Path("train.py").write_text("import provml\nwith provml.record('x', run='r', strict=True): pass\n")
    subprocess.run(["git", "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    with Path("train.py").open("a") as file:
        file.write("# changed\n")
    subprocess.run([sys.executable, "train.py"], check=True)
    around: dict[str, Any] = {}
    for what in of(Environment, "r"):
        around |= what.around
    assert around["git_dirty"] is True
    assert len(around["git_commit"]) == 40


def test_the_write_side_loads_nothing_of_the_read_side():
    done = in_python(
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
    loaded = set(json.loads(done.stdout))
    assert "provml.recorder" in loaded
    heavy = {"pyoxigraph", "yaml", "rdflib", "numpy", "click", "logging", "secrets", "asyncio"}
    assert not loaded & {"provml.rdf", "provml.vocab", "provml.store", "provml.lift", *heavy}


# ---- threads, signals, copies


def test_many_threads_lose_and_tear_nothing():
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
    assert len(of(Batch, run)) == len({what.at for what in of(Batch, run)}) == 6400
    assert len(of(Measured, run)) == 6400
    steps = [what.at for what in of(Begin, run) if what.kind == "step"]
    assert len(set(steps)) == 16


def test_a_signal_handler_may_record_in_the_middle_of_recording():
    with record() as run, run.training() as training:
        heard = 0

        def handler(*_: Any) -> None:
            nonlocal heard
            heard += 1
            training.measured(signal=heard)

        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        try:
            for epoch in training.epochs(1):
                for batch in epoch.batches(range(30_000)):
                    batch.measured(loss=batch.index)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert heard > 0
    values = [what.values for what in of(Measured, run)]
    assert sorted(value["signal"] for value in values if "signal" in value) == list(range(1, heard + 1))
    assert [value["loss"] for value in values if "loss" in value] == list(range(1, 30_001))


def test_a_recorder_that_is_copied_is_the_same_run():
    with record() as run, run.training() as training:
        assert copy.deepcopy(run) is run
        assert pickle.loads(pickle.dumps(run)) is run
        assert copy.deepcopy(training).run is run


def test_epochs_are_not_counted_by_a_text():
    with provml.record("flowers") as run, pytest.raises(TypeError, match="str"):
        next(run.training().epochs("3"))
