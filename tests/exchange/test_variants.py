"""Variants of the formats, and files that are cut, damaged, growing or hostile."""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import time
from pathlib import Path
from random import Random

import pytest

import provml
from provml.errors import FileFormatError
from provml.exchange import ImportOptions, follow, read
from provml.exchange.mlflow_store import SqlAlchemyDatabase, _read_database
from provml.exchange.points import Points
from provml.exchange.tensorboard import masked_crc
from provml.exchange.typed_text import parse_text, shortest_float32
from provml.journal import events

from .foreign_files import (
    field,
    mlflow_database,
    tb_file,
    tb_scalar,
    tb_tensor,
    wandb_exit,
    wandb_file,
    wandb_row,
    wandb_run,
)
from .truth import JournalRun, check_report, load_run


def import_one(source: Path, home: Path) -> JournalRun:
    report = read(source, home)
    check_report(report)
    [run] = report.runs
    return load_run(home, run.id)


# ---- values

DEEP = "[" * 90 + "]" * 90


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1), ("32", 32), ("-7", -7), ("True", True), ("None", None), ("[16]", [16]), ("(1, 2)", (1, 2)),
        ("{'a': 1}", {"a": 1}), ('{"a": null}', {"a": None}), ("1e-3", 0.001), ("inf", math.inf), ("sgd", "sgd"),
        ("007", "007"), ("1_000", "1_000"), ("", ""), (" 1", " 1"), ("[1", "[1"), (DEEP, DEEP),
        ("__import__('os')", "__import__('os')"), ("9" * 30, 1e30),
    ],
)  # fmt: skip
def test_the_type_of_a_text_is_recovered_and_the_text_stays(text: str, value: object):
    typed = parse_text(text)
    assert (typed.value, type(typed.value)) == (value, type(value))
    assert typed.text == text


def test_a_float32_is_written_as_the_shortest_decimal():
    for text in ("0.1", "3.0", "1e-45", "3.4028235e+38", "0.33333334", "16777216.0", "-0.0"):
        stored = struct.unpack("<f", struct.pack("<f", float(text)))[0]
        assert repr(shortest_float32(stored)) == repr(float(text))
    assert math.isnan(shortest_float32(math.nan))


def test_points_are_sorted_by_step_in_memory_that_does_not_grow():
    points = Points(chunk_points=10)
    for index in range(95):
        points.add("loss", (index * 37) % 95, float(index), float(index))
    assert [point.step for point in points] == list(range(95))
    assert [point.step for point in points] == list(range(95))  # also when it is read again
    points.close()


# ---- steps


def test_global_steps_stay_steps_and_values_without_a_step_belong_to_the_run(tmp_path: Path):
    points = [("loss", step, 1.0) for step in (0, 100, 200)] + [("score", 0, value) for value in (0.1, 0.2, 0.3)]
    run = import_one(mlflow_database(tmp_path / "mlflow.db", [{"points": points}]), tmp_path / "home")
    assert (run.kind, [index for index, _ in run.points["loss"]]) == ("step", [0, 100, 200])
    assert run.points["score"] == [(None, 0.1), (None, 0.2), (None, 0.3)]


@pytest.mark.parametrize(
    ("params", "steps", "kind"), [({"epochs": "3"}, 3, "epoch"), ({"epochs": "2"}, 3, "step"), ({}, 3, "step")]
)
def test_a_step_is_an_epoch_only_if_the_source_shows_it(params: dict[str, str], steps: int, kind: str, tmp_path: Path):
    run = {"params": params, "points": [("loss", step, 1.0) for step in range(steps)]}
    imported = import_one(mlflow_database(tmp_path / "mlflow.db", [run]), tmp_path / "home")
    assert imported.kind == kind
    assert [index for index, _ in imported.points["loss"]] == [step + (kind == "epoch") for step in range(steps)]


def test_negative_steps_and_the_largest_double(tmp_path: Path):
    points = [("loss", -1, 2.0), ("loss", 1, 1.7976931348623157e308), ("loss", 2, -1.7976931348623157e308)]
    run = import_one(mlflow_database(tmp_path / "mlflow.db", [{"points": points}]), tmp_path / "home")
    assert sorted(run.points["loss"], key=str) == sorted([(None, 2.0), (1, math.inf), (2, -math.inf)], key=str)


# ---- MLflow


def test_nested_running_deleted_and_non_ascii_runs(tmp_path: Path):
    runs = [
        {"id": "a" * 32, "name": "größe", "status": "RUNNING", "params": {"日本": "値"}},
        {"id": "b" * 32, "name": "child", "tags": {"mlflow.parentRunId": "a" * 32}},
        {"id": "c" * 32, "name": "grandchild", "tags": {"mlflow.parentRunId": "b" * 32}},
        {"id": "d" * 32, "name": "gone", "stage": "deleted"},
    ]
    report = read(mlflow_database(tmp_path / "mlflow.db", runs), tmp_path / "home")
    assert [part.name for part in report.skipped] == ["gone"]
    with provml.open(tmp_path / "home") as store:
        infos = {info.id[0]: info for info in store.runs()}
        assert (infos["a"].name, infos["a"].status) == ("größe", "LOST")
        assert (infos["b"].parent, infos["c"].parent) == ("a" * 32, "b" * 32)
    assert load_run(tmp_path / "home", "a" * 32).params["日本"] == "値"


def test_views_triggers_and_paths_of_a_hostile_database_do_nothing(tmp_path: Path):
    secret = tmp_path / "secret"
    (secret / "keys").mkdir(parents=True)
    (secret / "keys" / "id").write_text("key")
    script = "CREATE TRIGGER t AFTER INSERT ON params BEGIN DELETE FROM runs; END;"
    database = mlflow_database(tmp_path / "mlflow.db", [{"artifacts": str(secret)}], script)
    before = database.read_bytes()
    run = import_one(database, tmp_path / "home")
    assert run.files == {}  # the folder is not that of the run
    assert database.read_bytes() == before
    view = "ALTER TABLE metrics RENAME TO other; CREATE VIEW metrics AS SELECT * FROM other;"
    hostile = mlflow_database(tmp_path / "view.db", [{}], view)
    with pytest.raises(FileFormatError, match="has no table metrics"):
        read(hostile, tmp_path / "home2", fmt="mlflow")


def test_a_cut_database_is_an_error_and_no_home_is_created(tmp_path: Path):
    database = mlflow_database(tmp_path / "mlflow.db", [{"points": [("loss", i, 1.0) for i in range(2000)]}])
    database.write_bytes(database.read_bytes()[:20_000])
    with pytest.raises(FileFormatError, match="cannot be read"):
        read(database, tmp_path / "home")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileFormatError, match="has not the columns of CodeCarbon"):
        read(tmp_path / "other.csv", tmp_path / "home", fmt="codecarbon")
    assert not (tmp_path / "home").exists()


def test_a_store_that_grew_adds_what_is_new(tmp_path: Path):
    read(mlflow_database(tmp_path / "mlflow.db", [{}]), tmp_path / "home")
    (tmp_path / "mlflow.db").unlink()
    mlflow_database(tmp_path / "mlflow.db", [{}, {"name": "new"}])
    report = read(tmp_path / "mlflow.db", tmp_path / "home")
    assert [run.result for run in report.runs] == ["unchanged", "new"]


def test_other_databases_are_read_with_sqlalchemy(tmp_path: Path):
    mlflow_database(tmp_path / "x.db", [{"params": {"lr": "0.1"}, "points": [("loss", 1, 0.5)]}])
    database = SqlAlchemyDatabase("sqlite://")
    database.engine = database._sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    database._inspector = database._sqlalchemy.inspect(database.engine)
    [run] = _read_database(database, Path("postgresql:/lab/mlflow"), ImportOptions())
    assert events.Parameter("training", {"lr": 0.1}) in list(run.events)
    database.engine.dispose()


# ---- W&B


def test_a_run_of_wandb_with_a_step_metric_nested_keys_and_long_records(tmp_path: Path):
    axis = field(12, field(2, "*") + field(4, "epoch"))
    rows = [wandb_row(10 * e, epoch=e, loss=1.0 / e, net={"grad": float(e)}) for e in (1, 2, 3)]
    config = {"net": {"hidden": [16], "act": "relu"}, "text": "x" * 100_000}
    summary = field(3, field(1, field(1, "epoch") + field(16, "3")))  # a copy of the axis
    records = [wandb_run("r1", config=config), axis, *rows, summary, wandb_exit(1)]
    wandb_file(tmp_path / "offline-run-20260101_000000-r1" / "run-r1.wandb", records)
    run = import_one(tmp_path, tmp_path / "home")
    assert run.points == {"loss": [(1, 1.0), (2, 0.5), (3, 1 / 3)], "net.grad": [(1, 1.0), (2, 2.0), (3, 3.0)]}
    assert (run.kind, run.status) == ("epoch", "FAILED")
    assert (run.params["net.act"], json.loads(run.params["net.hidden"]), len(run.params["text"])) == (
        "relu",
        [16],
        100_000,
    )


def test_a_resumed_run_of_wandb_is_one_run_and_its_later_values_count(tmp_path: Path):
    first = [wandb_run("r1"), *(wandb_row(step, loss=1.0) for step in range(4))]
    second = [wandb_run("r1"), *(wandb_row(step, loss=2.0) for step in (2, 3, 4)), wandb_exit(0)]
    wandb_file(tmp_path / "offline-run-20260101_000000-r1" / "run-r1.wandb", first)
    wandb_file(tmp_path / "offline-run-20260102_000000-r1" / "run-r1.wandb", second)
    run = import_one(tmp_path, tmp_path / "home")
    assert run.points["loss"] == [(0, 1.0), (1, 1.0), (2, 2.0), (3, 2.0), (4, 2.0)]
    assert run.status == "FINISHED"


def test_killed_cut_and_damaged_files_of_wandb(tmp_path: Path):
    records = [wandb_run("r1"), *(wandb_row(step, loss=float(step)) for step in range(500))]
    whole = wandb_file(tmp_path / "run-r1.wandb", records).read_bytes()
    (tmp_path / "run-r1.wandb").write_bytes(whole[:-5])
    run = import_one(tmp_path / "run-r1.wandb", tmp_path / "home")
    assert (run.status, len(run.points["loss"])) == ("KILLED", 499)
    middle = len(whole) // 2
    (tmp_path / "run-r1.wandb").write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    report = read(tmp_path / "run-r1.wandb", tmp_path / "home")
    assert [run.result for run in report.runs] == ["changed"]
    assert "a damaged record at byte" in str(report)
    (tmp_path / "run-r2.wandb").write_bytes(whole[:7])  # killed before the first record
    os.utime(tmp_path / "run-r2.wandb", (1_700_000_000, 1_700_000_000))
    assert import_one(tmp_path / "run-r2.wandb", tmp_path / "home2").status == "KILLED"
    (tmp_path / "run-r3.wandb").write_bytes(b"")
    with pytest.raises(FileFormatError):
        read(tmp_path / "run-r3.wandb", tmp_path / "home3")


def test_a_run_of_wandb_that_still_goes_on_is_not_killed(tmp_path: Path):
    now = time.time()
    wandb_file(tmp_path / "run-r1.wandb", [wandb_run("r1", seconds=int(now) - 5), wandb_row(0, now - 2, loss=1.0)])
    run = import_one(tmp_path / "run-r1.wandb", tmp_path / "home")
    assert run.end is None


# ---- TensorBoard


def test_tensors_of_tf2_and_the_folders_of_keras(tmp_path: Path):
    for part, values in (("train", (0.5, 0.25)), ("validation", (0.75, 0.1))):
        rows = [
            tb_tensor("epoch_loss", step, value, plugin="" if step else "scalars") for step, value in enumerate(values)
        ]
        tb_file(tmp_path / "logs" / part / "events.out.tfevents.1.host", rows)
    run = import_one(tmp_path / "logs", tmp_path / "home")
    assert run.points == {"train/epoch_loss": [(1, 0.5), (2, 0.25)], "validation/epoch_loss": [(1, 0.75), (2, 0.1)]}
    assert run.kind == "epoch"


def test_runs_of_tensorboard_that_were_resumed_cut_or_logged_without_steps(tmp_path: Path):
    logs = tmp_path / "logs"
    tb_file(logs / "a" / "events.out.tfevents.1.host", [tb_scalar("loss", step, 1.0) for step in (10, 20, 30)])
    tb_file(logs / "a" / "events.out.tfevents.2.host", [tb_scalar("loss", step, 2.0) for step in (30, 40)])
    tb_file(logs / "b" / "events.out.tfevents.1.host", [tb_scalar("loss", 0, value) for value in (3.0, 2.0)])
    cut = tb_file(logs / "c" / "events.out.tfevents.1.host", [tb_scalar("loss", step, 1.0) for step in (1, 2)])
    cut.write_bytes(cut.read_bytes()[:-3])
    tb_file(logs / "d" / "Loss_a" / "events.out.tfevents.1.host", [tb_scalar("Loss", 5, 1.0)])
    tb_file(logs / "d" / "events.out.tfevents.1.host", [tb_scalar("lr", 5, 0.1)])
    for curve in ("a", "val"):  # tensorboardX has a folder for the chart
        tb_file(logs / "f" / "Loss" / curve / "events.out.tfevents.1.host", [tb_scalar("Loss", 5, 1.0)])
    tb_file(logs / "f" / "events.out.tfevents.1.host", [tb_scalar("lr", 5, 0.1)])
    bomb = struct.pack("<Q", 1 << 60)
    tb_file(logs / "e" / "events.out.tfevents.1.host", [tb_scalar("loss", 1, 1.0)])
    with (logs / "e" / "events.out.tfevents.1.host").open("ab") as file:
        file.write(bomb + struct.pack("<I", masked_crc(bomb)) + b"x")
    report = read(logs, tmp_path / "home")
    check_report(report)
    runs = {run.name: load_run(tmp_path / "home", run.id) for run in report.runs}
    assert runs["a"].points["loss"] == [(10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0)]
    assert runs["b"].points["loss"] == [(None, 3.0), (None, 2.0)]
    assert runs["c"].points["loss"] == [(1, 1.0)]
    assert runs["d"].points == {"lr": [(5, 0.1)], "Loss/a": [(5, 1.0)]}
    assert runs["f"].points == {"lr": [(5, 0.1)], "Loss/a": [(5, 1.0)], "Loss/val": [(5, 1.0)]}
    assert runs["e"].points["loss"] == [(1, 1.0)]
    damaged = [run.name for run in report.runs if any("cut off" in loss.reason for loss in run.losses.losses)]
    assert damaged == ["c", "e"]


# ---- growing sources, reports


def test_a_source_that_grows_is_followed(tmp_path: Path):
    path = tmp_path / "run-r1.wandb"
    wandb_file(path, [wandb_run("r1"), wandb_row(0, loss=1.0)])
    reports = follow(path, tmp_path / "home", seconds=0.01)
    assert [run.result for run in next(reports).runs] == ["new"]
    wandb_file(path, [wandb_run("r1"), wandb_row(0, loss=1.0), wandb_row(1, loss=0.5)])
    os.utime(path, ns=(1, 1))
    assert [run.result for run in next(reports).runs] == ["changed"]
    reports.close()


def test_the_report_is_data(tmp_path: Path):
    database = mlflow_database(tmp_path / "mlflow.db", [{"params": {"lr": "0.1"}, "points": [("val_loss", 1, 0.5)]}])
    read(database, tmp_path / "home").write(tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["totals"]["metric points"] == {"source": 1, "kept": 0, "guessed": 1, "not_representable": 0}
    [run] = data["runs"]
    assert {"kind": "parameters", "what": "lr", "why": "the text was read as a value of type float", "count": 1} in run[
        "guessed"
    ]
    assert "datasets" in [item["what"] for item in run["not_in_source"]]


def test_links_that_lead_out_of_a_folder_are_not_followed(tmp_path: Path):
    folder = tmp_path / "runs" / "1"
    folder.mkdir(parents=True)
    (tmp_path / "outside.json").write_text('{"secret": 1}')
    (folder / "run.json").write_text(
        '{"experiment": {"name": "x"}, "status": "COMPLETED", "artifacts": ["../../outside.json"]}'
    )
    (folder / "config.json").symlink_to(tmp_path / "outside.json")
    report = read(tmp_path / "runs", tmp_path / "home")
    assert report.is_empty
    assert "a link to a file outside" in str(report)
    (folder / "config.json").unlink()
    run = import_one(tmp_path / "runs", tmp_path / "home")
    assert run.files == {"../../outside.json": ("", -1)}


def test_values_that_mlflow_wrote_twice_count_once(tmp_path: Path):
    folder = tmp_path / "mlruns" / "1"
    (folder / "abc" / "metrics").mkdir(parents=True)
    (folder / "meta.yaml").write_text("experiment_id: '1'\nname: digits\n")
    meta = (
        "run_id: abc\nexperiment_id: '1'\nrun_name: r\nstatus: 3\nstart_time: 1700000000000\nend_time: 1700000009000\n"
    )
    (folder / "abc" / "meta.yaml").write_text(meta)
    lines = "1700000001000 0.5 1\n1700000002000 0.25 2\n1700000002000 0.25 2\n1700000002500 nan 2\n17000"
    (folder / "abc" / "metrics" / "loss").write_text(lines)
    report = read(tmp_path / "mlruns", tmp_path / "home")
    check_report(report)
    points = load_run(tmp_path / "home", "abc").points["loss"]
    assert points[:2] == [(1, 0.5), (2, 0.25)]
    assert len(points) == 3
    assert report.totals.tallies["metric points"].left_out == 2  # the repeated value, and the line that is cut off


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_never_raise_another_error(seed: int, tmp_path: Path):
    """Each file is read, or refused with an error of provml; what is written can be read back."""
    random = Random(seed)
    records = [wandb_run("r1", config={"a": [1]}), *(wandb_row(step, loss=1.0) for step in range(5)), wandb_exit(0)]
    events_of_run = [tb_scalar("loss", step, 1.0) for step in range(5)] + [tb_tensor("x", 1, 2.0)]
    for number in range(15):
        damaged = [bytearray(record) for record in records]
        for record in random.sample(damaged, 3):  # with right checksums, so that the messages are parsed
            record[random.randrange(len(record))] ^= 1 << random.randrange(8)
        wandb_file(tmp_path / f"{number}" / "run-r1.wandb", [bytes(record) for record in damaged])
        path = tb_file(tmp_path / f"{number}" / "events.out.tfevents.1.host", events_of_run)
        data = bytearray(path.read_bytes())
        for _ in range(3):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(bytes(data))
        for file in (tmp_path / f"{number}").iterdir():
            with contextlib.suppress(FileFormatError):
                for run in read(file, tmp_path / "home").runs:
                    load_run(tmp_path / "home", run.id)


def test_numbers_beyond_all_ranges_do_no_harm(tmp_path: Path):
    row = field(2, field(1, field(1, "loss") + field(16, "2")) + field(2, field(1, -1)))
    late = field(2, b"".join(field(1, field(1, k) + field(16, v)) for k, v in (("loss", "3"), ("_timestamp", "1e300"))))
    rows = [wandb_row(0, loss=1.0, n=10**400), row, late]
    wandb_file(tmp_path / "run-r1.wandb", [wandb_run("r1", seconds=1 << 60), *rows, wandb_exit(0)])
    run = import_one(tmp_path / "run-r1.wandb", tmp_path / "home")
    assert sorted(value for _, value in run.points["loss"]) == [1.0, 2.0, 3.0]
    assert run.points["n"][0][1] == math.inf
    with provml.open(tmp_path / "home") as store:
        assert store.verify() == []
