"""The table of runs: columns by hyperparameters and measures, conditions, order, and signs."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from example_runs import leaks

import provml
from provml.errors import ColumnNotFound, FilterError, WrongValue
from provml.recording.run import Run
from provml.store import Store
from provml.store.leakage import leaking_trainings
from provml.store.run_filter import MAX_DEPTH, compile_filter

RATES = {"slow": 0.001, "middle": 0.01, "fast": 0.1}


def record(home: Path, run: str, name: str = "flowers", **settings: Any) -> Run:
    return Run(name, home=home, model="alexnet", run=run, strict=True, capture_environment=False, **settings)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("table") / "home"
    for number, (name, rate) in enumerate(RATES.items()):
        with record(home, name) as run:
            with run.training(learning_rate=rate, optimizer="Adam", epochs=2, **{"batch size": 8 * number}) as training:
                training.layers([{"name": "conv1", "type": "Conv2D", "filters": 96}])
                for epoch in training.epochs(2):
                    epoch.measured(loss=1 / epoch.index + rate, steps=5)
                    with epoch.validation() as validation:
                        validation.measured(loss=2 / epoch.index)
                training.adapted(learning_rate=9.0)
                model = training.produced(f"weights {rate}".encode())
            if name != "middle":
                with run.evaluation(of=model) as test:
                    test.measured(accuracy=0.9 - rate)
    with pytest.raises(ValueError), record(home, "broken", name="other") as run, run.training(learning_rate=1):
        raise ValueError("bad batch")
    return home


@pytest.fixture(scope="module")
def store(home: Path) -> Any:
    with Store(home) as store:
        yield store


def test_hyperparameters_and_measures_are_columns_and_those_that_differ_come_first(store: Store):
    table = store.table(status="FINISHED")
    assert table.columns == [
        *("run", "name", "model", "status", "started", "seconds", "error", "writers", "events"),
        *("capture_errors", "lost_batches", "tags", "parent", "leakage"),
        *("batch size", "learning_rate", "test_accuracy", "train_loss"),
        *("epochs", "optimizer", "val_loss", "train_steps"),
    ]
    rows = {row["run"]: row for row in table.to_dicts()}
    assert rows["fast"]["learning_rate"] == 0.1  # the initial value, not the adapted one
    assert rows["fast"]["train_loss"] == 0.6
    assert rows["fast"]["val_loss"] == 1.0
    assert rows["fast"]["test_accuracy"] == 0.8
    assert rows["middle"]["test_accuracy"] is None


def test_a_value_that_only_some_runs_have_differs(store: Store):
    columns = store.table().columns
    assert columns[-4:] == ["epochs", "optimizer", "val_loss", "train_steps"]
    assert columns[-8:-4] == ["batch size", "learning_rate", "test_accuracy", "train_loss"]
    assert store.table(name="other").columns[-1] == "learning_rate"


def test_the_latest_runs_come_first_and_rows_can_be_sorted_and_limited(store: Store):
    assert store.table().column("run") == ["broken", "fast", "middle", "slow"]
    assert store.table(sort="learning_rate").column("run") == ["slow", "middle", "fast", "broken"]
    assert store.table(sort="accuracy", descending=True).column("run")[:2] == ["slow", "fast"]
    assert store.table(sort="duration", limit=2).column("run")[0] in RATES | {"broken": 0}
    assert len(store.table(limit=2)) == 2
    assert len(store.table(limit=0)) == 0


def test_status_and_name_select_runs(store: Store):
    assert store.table(status="failed").column("run") == ["broken"]
    assert len(store.table(status=["FAILED", "FINISHED"])) == 4
    assert store.table(name="oth*").column("run") == ["broken"]
    assert len(store.table(name="nothing")) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"status": "DONE"}, "Use FINISHED, FAILED, INTERRUPTED, PRUNED, RUNNING, KILLED, LOST."),
        ({"limit": -1}, "Pass 0 or more."),
        ({"where": 3}, "Pass a condition"),
    ],
)
def test_wrong_arguments_say_what_to_pass(store: Store, arguments: dict[str, Any], message: str):
    with pytest.raises(WrongValue, match=message):
        store.table(**arguments)


def test_an_unknown_column_to_sort_by_lists_similar_names(store: Store):
    with pytest.raises(ColumnNotFound, match=r"No column 'learning_rat'\. Did you mean learning_rate\?"):
        store.table(sort="learning_rat")


@pytest.mark.parametrize(
    ("where", "runs"),
    [
        ("learning_rate > 0.01", ["broken", "fast"]),
        ('learning_rate >= 0.01 and optimizer == "Adam"', ["fast", "middle"]),
        ("learning_rate < 1e-2 or learning_rate > .5", ["broken", "slow"]),
        ("not (learning_rate <= 0.01) AND status = 'FINISHED'", ["fast"]),
        ("learning_rate in (0.1, 1)", ["broken", "fast"]),
        ("learning_rate not in (0.1, 1)", ["middle", "slow"]),
        ("optimizer != 'Adam'", ["broken"]),
        ("optimizer contains 'da'", ["fast", "middle", "slow"]),
        ("optimizer not contains 'da' or error contains 'bad'", ["broken"]),
        ("optimizer == null", ["broken"]),
        ("test_accuracy != null", ["fast", "slow"]),
        ("accuracy > 0.85", ["slow"]),
        ("train_loss < val_loss", ["fast", "middle", "slow"]),
        ("`batch size` > 7", ["fast", "middle"]),
        ("duration < 1000 and run != 'slow'", ["broken", "fast", "middle"]),
        ("started > '2020-01-01' and started < '2020-01-02'", []),
        ("0.05 < learning_rate", ["broken", "fast"]),
        ("not leakage and not not leakage", []),
        ("epochs == 2.0", ["fast", "middle", "slow"]),
    ],
)
def test_conditions_select_rows(store: Store, where: str, runs: list[str]):
    assert store.table(where).column("run") == runs


@pytest.mark.parametrize(
    ("where", "marked", "message"),
    [
        ("learning_rat > 1", "learning_rat", "Did you mean learning_rate?"),
        ("optimizer == Adam", "Adam", 'If it is text, write "Adam".'),
        ("learning_rate > '0.1'", "'0.1'", "learning_rate has numbers. Write numbers without quotes."),
        ("optimizer == 3", "3", "optimizer has text."),
        ("0.1 < learning_rate < 1", "<", "Join two comparisons by 'and'"),
        ("(learning_rate > 1", " ", "Close the '(' of column 1."),
        ("learning_rate > 1)", ")", "add the '(' that it closes"),
        ("learning_rate > ", " ", "Complete the comparison."),
        ("learning_rate", "learning_rate", "learning_rate is not compared with anything"),
        ("learning_rate > 1 && epochs == 2", "&&", "Write 'and'."),
        ("learning_rate in (fast)", "fast", 'write "fast"'),
        ("learning_rate in 3", "3", "Write a list"),
        ("optimizer contains 3", "3", "Write it in quotes."),
        ("learning_rate contains '3'", "'3'", "learning_rate has numbers"),
        ("learning_rate not 3", "3", "expected 'in' after 'not'"),
        ('optimizer == "Adam', '"', 'Add another ".'),
        ("started > 'soon'", "'soon'", "is not a time"),
        ("learning_rate > 1.2.3", "1.2.3", "neither a number nor a name"),
        ("", " ", "the condition is empty"),
        ("__import__('os')", "__import__", "no column"),
        ("(" * 2000, "(", "nested"),
        ("not " * 2000, "not", "nested"),
    ],
)
def test_a_wrong_condition_is_marked_with_advice(store: Store, where: str, marked: str, message: str):
    with pytest.raises(FilterError) as caught:
        store.table(where)
    error = caught.value
    assert message in str(error)
    assert f"{where} "[error.start : error.end] == marked
    lines = str(error).splitlines()
    assert lines[-2] == "  " + " " * error.start + "^" * (error.end - error.start)


def test_deep_conditions_are_allowed_up_to_a_limit():
    matches = compile_filter("(" * (MAX_DEPTH - 1) + "a == 1" + ")" * (MAX_DEPTH - 1), {"a": [1]}, lambda name: name)
    assert matches({"a": 1})
    assert not matches({"a": 2})


def test_missing_values_nan_and_booleans_in_conditions():
    rows = [{"a": 1}, {"a": None}, {"a": math.nan}, {"a": True}, {"a": "1"}]

    def select(where: str) -> list[int]:
        matches = compile_filter(where, {"a": [row["a"] for row in rows]}, {"a": "a"}.get)
        return [index for index, row in enumerate(rows) if matches(row)]

    assert select("a == 1") == [0]
    assert select("a != 1") == [1, 2, 3, 4]
    assert select("a == nan") == [2]
    assert select("a == null") == [1]
    assert select("a == true") == select("a") == [3]
    assert select("a in ('1', null)") == [1, 4]
    assert select("a < 2") == [0]


def test_random_conditions_agree_with_python():
    random = Random(7)
    rows = [{"a": random.randint(0, 5), "b": random.choice(["x", "y"]), "c": random.random()} for _ in range(50)]
    columns = {name: [row[name] for row in rows] for name in "abc"}

    def condition(depth: int) -> str:
        kind = random.randrange(6) if depth else random.randrange(3)
        if kind == 0:
            return f"a {random.choice(['<', '<=', '>', '>=', '==', '!='])} {random.randint(0, 5)}"
        if kind == 1:
            return f"b {random.choice(['in', 'not in'])} ('{random.choice('xyz')}', 'z')"
        if kind == 2:
            return f"c {random.choice(['<', '>'])} {random.random()}"
        if kind == 3:
            return f"not ({condition(depth - 1)})"
        return f"({condition(depth - 1)} {random.choice(['and', 'or'])} {condition(depth - 1)})"

    for _ in range(300):
        text = condition(4)
        matches = compile_filter(text, columns, {name: name for name in "abc"}.get)
        assert [matches(row) for row in rows] == [bool(eval(text, {}, dict(row))) for row in rows], text


def test_columns_have_types_in_data_frames(store: Store):
    pandas = pytest.importorskip("pandas")
    frame = store.table(status="FINISHED").to_pandas()
    assert pandas.api.types.is_float_dtype(frame["learning_rate"])
    assert pandas.api.types.is_integer_dtype(frame["epochs"])
    assert pandas.api.types.is_bool_dtype(frame["leakage"])
    assert str(frame["started"].dtype) == "datetime64[us, UTC]"
    assert frame["test_accuracy"].isna().sum() == 1
    empty = store.table(name="nothing").to_pandas()
    assert str(empty["started"].dtype) == "datetime64[us, UTC]"


def test_columns_have_types_in_polars(store: Store):
    polars = pytest.importorskip("polars")
    frame = store.table(status="FINISHED").to_polars()
    assert frame["learning_rate"].dtype == polars.Float64
    assert frame["started"].dtype == polars.Datetime("us", "UTC")
    assert frame["optimizer"].dtype == polars.String


def test_each_training_of_a_run_has_a_row_with_its_own_validation_and_evaluation(tmp_path: Path):
    with record(tmp_path, "twice") as run:
        models = []
        for rate in (0.1, 0.2):
            with run.training(lr=rate) as training:
                for epoch in training.epochs(2):
                    epoch.measured(loss=rate)
                    with epoch.validation() as validation:
                        validation.measured(loss=10 * rate)
                models.append(training.produced(f"weights {rate}".encode()))
        with run.evaluation(of=models[0]) as test:
            test.measured(accuracy=0.5)
    with record(tmp_path, "later") as run, run.evaluation(of=run.dataset(b"weights 0.2", name="weights")) as test:
        test.measured(accuracy=0.7)
    with record(tmp_path, "empty"):
        pass
    with Store(tmp_path) as store:
        rows = store.table().to_dicts()
    picked = [tuple(row.get(name) for name in ("run", "lr", "train_loss", "val_loss", "test_accuracy")) for row in rows]
    assert picked == [
        ("empty", None, None, None, None),
        ("later", None, None, None, 0.7),
        ("twice", 0.1, 0.1, 1.0, 0.5),
        ("twice", 0.2, 0.2, 2.0, 0.7),
    ]
    assert [row["training"] for row in rows] == [None, None, "training", "training-2"]


def test_ranks_of_a_distributed_training_are_one_row_unless_they_are_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for run, is_sweep in (("ddp", False), ("sweep", True)):
        for rank in range(3):
            monkeypatch.setenv("RANK", str(rank))
            monkeypatch.setenv("WORLD_SIZE", "3")
            monkeypatch.setenv("PROVML_RUN", run)
            with (
                provml.record("flowers", model="net", home=tmp_path / "home", capture_environment=False) as recorded,
                recorded.training(learning_rate=0.1 + rank * is_sweep) as training,
            ):
                for epoch in training.epochs(2):
                    epoch.measured(loss=float(rank + epoch.index))
    with provml.open(tmp_path / "home") as store:
        table = store.table()
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["training"], row["train_loss"]) for row in rows if row["run"] == "ddp"] == [("training", 2.0)]
    assert {row["training"] for row in rows if row["run"] == "sweep"} == {"training", "training@1", "training@2"}


def test_names_that_other_columns_have_get_a_prefix(tmp_path: Path):
    with record(tmp_path, "clash") as run, run.training(model="big", loss="mse", val_loss="x") as training:
        for epoch in training.epochs(1):
            epoch.measured(loss=0.5, val_loss=0.6)
    with Store(tmp_path) as store:
        (row,) = store.table().to_dicts()
    assert row["model"] == "alexnet"
    assert (row["param_model"], row["loss"], row["param_val_loss"]) == ("big", "mse", "x")
    assert (row["train_loss"], row["val_loss"]) == (0.5, 0.6)


def test_the_last_of_several_values_and_the_latest_evaluation_count(tmp_path: Path):
    with record(tmp_path, "again") as run:
        with run.training(lr=1) as training:
            for value in range(12):
                training.measured(loss=value)
            model = training.produced(b"weights")
        for value in (0.1, 0.2):
            with run.evaluation(of=model) as test:
                test.measured(accuracy=value)
    with Store(tmp_path) as store:
        (row,) = store.table().to_dicts()
    assert (row["train_loss"], row["test_accuracy"]) == (11, 0.2)


def test_capture_errors_and_leakage_are_signs(tmp_path: Path):
    with Run("faulty", home=tmp_path, run="faulty", capture_environment=False) as run:
        data = run.dataset(b"seen", name="seen")
        with run.training(using=data, lr=1) as training:
            training.measured(loss=object())
            model = training.produced(b"weights")
        with run.evaluation(of=model, using=data) as test:
            test.measured(accuracy=1.0)
            run.dataset(Path("missing.csv"))
    with Store(tmp_path) as store:
        (row,) = store.table().to_dicts()
        assert store.table("leakage").column("run") == ["faulty"]
        assert len(store.table("capture_errors == 0")) == 0
    assert row["leakage"] is True
    assert row["capture_errors"] > 0


def test_leaking_trainings_are_those_of_the_question(tmp_path: Path):
    leaks.write(tmp_path)
    assert leaking(tmp_path) == asked(tmp_path) != set()


@pytest.mark.parametrize("seed", range(5))
def test_leaking_trainings_are_those_of_the_question_for_random_runs(tmp_path: Path, seed: int):
    random = Random(seed)
    contents = [f"content {number}".encode() for number in range(6)]
    for number in range(6):
        with record(tmp_path, f"run-{number}") as run:
            data = [run.dataset(content, name=content.decode()) for content in random.sample(contents, 3)]
            for step in range(2):
                with run.preparation(f"step {step}", using=random.sample(data, 2)) as preparation:
                    content = random.choice(contents) + random.choice([b"", b" made"])
                    data.append(preparation.produced(content, name=content.decode()))
            with run.training(using=random.sample(data, 2)) as training:
                training.used(random.choice(data), role=random.choice(["validation", "test"]))
                model = training.produced(f"weights {number % 3}".encode())
            with run.evaluation(of=model, using=random.choice(data)) as test:
                test.measured(accuracy=0.5)
    assert leaking(tmp_path) == asked(tmp_path)


def test_data_that_an_earlier_training_was_tested_on_does_not_leak_through_its_model(tmp_path: Path):
    with record(tmp_path, "both") as run:
        train, test = run.dataset(b"train", name="train"), run.dataset(b"test", name="test")
        with run.training(using=train) as teacher:
            teacher.used(test, role="test")
            first = teacher.produced(b"teacher")
        with run.preparation("label", using=[train, first]) as preparation:
            labels = preparation.produced(b"labels", name="labels")
        with run.training(using=labels) as student:
            second = student.produced(b"student")
        with run.evaluation(of=second, using=test) as evaluation:
            evaluation.measured(accuracy=0.5)
    assert leaking(tmp_path) == asked(tmp_path) == set()


def leaking(home: Path) -> set[str]:
    with Store(home) as store:
        store.sync()
        return leaking_trainings(lambda sparql: map(tuple, store.backend.query(sparql)))


def asked(home: Path) -> set[str]:
    with Store(home) as store:
        return {str(training) for training in store.ask("leakage").column("training")}


def test_started_is_a_time(store: Store):
    assert all(isinstance(value, datetime) and value.tzinfo is UTC for value in store.table().column("started"))


def test_a_home_without_runs_has_a_table_without_rows(tmp_path: Path):
    (tmp_path / "runs").mkdir()
    with Store(tmp_path) as store:
        table = store.table()
    assert (len(table), table.columns[0]) == (0, "run")


def test_of_two_evaluations_the_later_counts_however_many_digits_its_time_has(tmp_path: Path):
    """The engine drops trailing zeros of a time: as text, 0.12345Z comes after 0.123456Z."""
    with record(tmp_path, "close") as run:
        with run.training() as training:
            model = training.produced(b"weights")
        for accuracy in (0.1, 0.2):
            with run.evaluation(of=model) as test:
                test.measured(accuracy=accuracy)
    (journal,) = (tmp_path / "runs" / "close").glob("*.jsonl")
    times = iter((1700000000.12345, 1700000000.123456))
    lines = []
    for line in journal.read_text().splitlines():
        event = json.loads(line)
        if event["e"] == "begin" and event["kind"] == "evaluation":
            event["t"] = next(times)
        lines.append(json.dumps(event))
    copy = tmp_path / "copy" / "runs" / "close" / journal.name
    copy.parent.mkdir(parents=True)
    copy.write_text("\n".join(lines) + "\n")
    with Store(tmp_path / "copy") as store:
        assert store.table().column("test_accuracy") == [0.2]
