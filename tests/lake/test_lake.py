"""Building and updating a lake: what it holds, what a second update reads, and what happens when something is wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow.parquet as pq
import pytest
import s3fs
from click.testing import CliRunner
from example_runs import energy

import provml
import provml.lake
from lake.spark_cluster import free_port
from provml.cli import main
from provml.errors import (
    FileFormatError,
    HomeNotFound,
    LakeChanged,
    LakeNotFound,
    LakeUnreachable,
    MissingDependency,
    WrongValue,
)
from provml.journal import segments
from provml.lake import writing
from provml.lake.folder import LakeFolder, Manifest
from provml.lake.rows import RunRows
from provml.lake.schema import SCHEMA_VERSION, TABLES, arrow_schema
from provml.lake.writing import _Builder, home_id
from provml.recording.run import Run


def record(home: Path, name: str, *, epochs: int = 2, batches: int = 3) -> None:
    with Run("lab", home=home, model="net", run=name, strict=True, capture_environment=False) as run:
        train(run, epochs, batches)


def train(run: Run, epochs: int, batches: int) -> None:
    data = run.dataset(b"photos", name="photos")
    with run.training(using=data, learning_rate=0.1) as training:
        for epoch in training.epochs(epochs):
            for batch in epoch.batches(range(batches)):
                batch.measured(loss=1.0 / (1 + batch.index))
            epoch.measured(loss=0.5)


def count(folder: Path, table: str) -> int:
    with provml.lake.open(folder) as lake:
        return int(lake.rows(f"SELECT count(*) FROM {table}")[1][0][0])


def parquet_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.parquet"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    record(tmp_path / "home", "one")
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_tables_have_the_columns_of_the_schema_and_the_rows_of_the_run(home: Path, folder: Path) -> None:
    report = provml.lake.build(home, folder)
    assert (report.added, report.runs, report.problems) == (["one"], 1, [])
    with provml.lake.open(folder) as lake:
        for name, table in TABLES.items():
            assert lake.rows(f"SELECT * FROM {name}")[0] == list(table.names)
        assert lake.rows("SELECT idx, seconds >= 0 FROM batches ORDER BY section, idx")[1] == 2 * [
            (1, True),
            (2, True),
            (3, True),
        ]
        columns, rows = lake.rows("SELECT batches, mean_seconds > 0 FROM sections WHERE trains ORDER BY idx")
        assert (columns[0], rows) == ("batches", [(3, True), (3, True)])
        measures = lake.rows("SELECT name, number, text, type FROM batch_measures WHERE idx = 2")[1]
        assert measures == [("loss", 1.0 / 3, None, "double")] * 2
    assert not (home / "index").exists()  # the lake needs no index


def test_no_temporary_file_stays(home: Path, folder: Path) -> None:
    provml.lake.build(home, folder)
    names = [path.name for path in folder.rglob("*") if path.is_file()]
    assert names
    assert all(name.endswith((".parquet", ".json")) for name in names)


def test_an_update_reads_only_what_is_new(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provml.lake.update(home, folder)
    first = parquet_files(folder)
    record(home, "two")
    reads = []
    read = RunRows.read
    monkeypatch.setattr(RunRows, "read", lambda home, run, *rest: reads.append(run) or read(home, run, *rest))
    report = provml.lake.update(home, folder)
    assert reads == report.added == ["two"]
    assert {path for path in first if path.parent.name != "lineage"} <= parquet_files(folder)
    before = parquet_files(folder)
    assert provml.lake.update(home, folder).added == []
    assert parquet_files(folder) == before
    assert LakeFolder(folder).require().number == 2  # nothing new, nothing written


def test_a_changed_run_replaces_its_rows(home: Path, folder: Path) -> None:
    record(home, "two")
    provml.lake.build(home, folder)
    with provml.open(home) as store:
        store.tag("one", "good")
    with Run("lab", home=home, model="net", run="two", strict=True, capture_environment=False) as run:  # resumed
        train(run, 1, 1)
    report = provml.lake.update(home, folder)
    assert report.changed == ["one", "two"]
    with provml.lake.open(folder) as lake:
        assert lake.rows("SELECT run, tags, writers FROM runs ORDER BY run")[1] == [("one", "good", 1), ("two", "", 2)]
        assert lake.rows("SELECT count(*) FROM batches WHERE run = 'two'")[1] == [(7,)]


def test_an_update_reads_all_runs_again_if_their_rows_would_differ(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provml.lake.build(home, folder)
    monkeypatch.setattr(writing, "format_fingerprint", lambda: "another mapping")
    assert provml.lake.update(home, folder).changed == ["one"]
    assert provml.lake.update(home, folder).changed == []


def test_energy_is_in_the_lake(tmp_path: Path, folder: Path) -> None:
    energy.write(tmp_path / "home")
    provml.lake.build(tmp_path / "home", folder)
    with provml.lake.open(folder) as lake:
        columns = "run, name, component, number, unit, metered, method"
        rows = lake.rows(f"SELECT {columns} FROM consumption WHERE section LIKE '%/training' ORDER BY run, name")[1]
        assert rows == [
            ("metered", "energy", None, 0.1875, "kW.h", True, "RAPL"),
            ("metered", "energy of cpu", "cpu", 0.1875, "kW.h", True, "RAPL"),
            ("modelled", "emissions", None, 0.2 * 0.75, "kg", False, "grid of DEU, 380.95 g/kWh (CodeCarbon)"),
            ("modelled", "energy", None, 0.375, "kW.h", False, "CodeCarbon 3.3.2, model"),
        ]


def test_many_small_parts_become_one(home: Path, folder: Path) -> None:
    for number in range(9):
        record(home, f"more-{number}", epochs=1)
        provml.lake.update(home, folder)
    assert len(LakeFolder(folder).require().parts) < 8
    assert len(list((folder / "runs").iterdir())) == len(LakeFolder(folder).require().parts)
    assert count(folder, "runs") == 10
    assert count(folder, "sections") == 3 + 9 * 2


def test_many_runs_at_once_share_a_part(tmp_path: Path, folder: Path) -> None:
    for number in range(20):
        record(tmp_path / "home", f"run-{number:02}", epochs=1, batches=1)
    report = provml.lake.build(tmp_path / "home", folder)
    assert (report.parts, report.runs) == (1, 20)


def test_packed_runs_are_read_and_packing_changes_nothing(home: Path, folder: Path) -> None:
    provml.lake.build(home, folder)
    assert segments.pack(home, ["one"]) == ["one"]
    assert provml.lake.update(home, folder).changed == []
    provml.lake.build(home, folder.with_name("again"))
    for table in TABLES:
        assert count(folder, table) == count(folder.with_name("again"), table)


def test_runs_that_are_gone_stay_until_they_are_pruned(home: Path, folder: Path) -> None:
    record(home, "two")
    provml.lake.build(home, folder)
    with provml.open(home) as store:
        store.remove("one")
    report = provml.lake.update(home, folder)
    assert (report.missing, report.removed, report.runs) == (["one"], [], 2)
    report = provml.lake.update(home, folder, prune=True)
    assert (report.missing, report.removed, report.runs) == ([], ["one"], 1)
    with provml.lake.open(folder) as lake:
        tables = [name for name, table in TABLES.items() if "run" in table.names]
        assert {run for table in tables for (run,) in lake.rows(f"SELECT run FROM {table}")[1]} == {"two"}


def test_several_homes_share_a_lake(home: Path, folder: Path, tmp_path: Path) -> None:
    record(tmp_path / "other", "two")
    record(tmp_path / "other", "one")
    provml.lake.build(home, folder)
    report = provml.lake.update(tmp_path / "other", folder, prune=True)
    assert (report.added, report.from_other_homes, report.removed, report.runs) == (["two"], ["one"], [], 2)


def test_a_home_on_a_network_file_system_is_the_same_on_all_machines(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    mounts = ["36 1 0:9 / /shared rw - nfs4 nas:/export/lab rw", "37 1 0:9 /team /pod rw - nfs4 nas:/export/lab/ rw"]
    table.write_text("\n".join(["1 0 8:1 / / rw - ext4 /dev/a rw", *mounts]))
    assert home_id(Path("/shared/team/home"), table) == home_id(Path("/pod/home"), table) == "nas:/export/lab/team/home"
    assert home_id(Path("/local/home"), table) == f"{os.uname().nodename}:/local/home"
    assert home_id(Path("/local/home"), tmp_path / "nothing") == f"{os.uname().nodename}:/local/home"


def test_an_open_run_is_counted_or_included(home: Path, folder: Path) -> None:
    run = Run("lab", home=home, model="net", run="open", strict=True, capture_environment=False)
    try:
        train(run, 1, 2)
        report = provml.lake.build(home, folder)
        assert (report.added, report.left_out) == (["one"], ["open"])
        with provml.lake.open(folder) as lake:
            assert lake.open_runs == ["open"]
        report = provml.lake.update(home, folder, include_open=True)
        assert (report.added, report.included_open) == (["open"], ["open"])
        with provml.lake.open(folder) as lake:
            assert lake.rows("SELECT status FROM runs WHERE run = 'open'")[1] == [("RUNNING",)]
            assert lake.open_runs == ["open"]
    finally:
        run.finish()
    report = provml.lake.update(home, folder)
    assert (report.changed, report.left_out) == (["open"], [])
    with provml.lake.open(folder) as lake:
        assert lake.rows("SELECT status FROM runs WHERE run = 'open'")[1] == [("FINISHED",)]


def test_damaged_lines_are_reported_and_counted(home: Path, folder: Path) -> None:
    record(home, "two")
    journal = home / "runs" / "two" / "main.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], b'{"e":"done","at":\n', *lines[4:]]))
    report = provml.lake.build(home, folder)
    assert [problem.partition(": ")[0] for problem in report.problems] == ["two/main.jsonl:5"]
    with provml.lake.open(folder) as lake:
        assert lake.rows("SELECT problems FROM runs ORDER BY run")[1] == [(0,), (1,)]


def test_a_build_that_fails_leaves_the_old_lake(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provml.lake.build(home, folder)
    before = parquet_files(folder)
    record(home, "two")

    def fail(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_Builder, "_derive", fail)
    with pytest.raises(KeyboardInterrupt):
        provml.lake.build(home, folder)
    assert parquet_files(folder) == before
    assert count(folder, "runs") == 1


def test_a_reader_sees_what_an_update_replaced(home: Path, folder: Path) -> None:
    provml.lake.build(home, folder)
    with provml.lake.open(folder) as lake:
        assert len(lake.ask("b10")) == 2
        record(home, "two")
        provml.lake.build(home, folder)  # removes the files that the reader knows
        assert len(lake.ask("b10")) == 4
        assert len(lake.to_arrow()) == 4


def test_two_writers_do_not_lose_each_others_runs(home: Path, folder: Path, tmp_path: Path) -> None:
    provml.lake.build(home, folder)
    record(tmp_path / "other", "two")
    record(home, "three")
    update = _Builder._update

    class Slow(_Builder):
        def _update(self, manifest: Manifest) -> None:
            provml.lake.update(tmp_path / "other", folder)
            update(self, manifest)

    with pytest.raises(LakeChanged, match="Run it again"):
        Slow(home, folder).run(from_nothing=False)
    provml.lake.update(home, folder)
    with provml.lake.open(folder) as lake:
        assert lake.rows("SELECT run FROM runs ORDER BY run")[1] == [("one",), ("three",), ("two",)]


def test_files_of_killed_builds_are_removed_after_a_day(home: Path, folder: Path) -> None:
    provml.lake.build(home, folder)
    old, new = folder / "runs" / "killed.parquet.part", folder / "runs" / "running.parquet.part"
    for path in (old, new):
        path.write_bytes(b"x")
    manifest = folder / "manifest" / "00000000.json"
    manifest.write_bytes(b"{}")
    for path in (old, manifest):
        os.utime(path, (1, 1))
    provml.lake.update(home, folder)
    assert (old.exists(), manifest.exists(), new.exists()) == (False, False, True)


@pytest.mark.parametrize("damage", ["remove", "cut"])
def test_an_update_repairs_damaged_files(home: Path, folder: Path, tmp_path: Path, damage: str) -> None:
    provml.lake.build(home, folder)
    record(tmp_path / "other", "two")
    provml.lake.update(tmp_path / "other", folder)
    for file in (folder / "sections").iterdir():
        file.unlink() if damage == "remove" else os.truncate(file, 100)
    with pytest.raises(FileFormatError, match=r"gone or damaged.*Run `provml lake update`"):
        provml.lake.open(folder)
    report = provml.lake.update(home, folder)
    assert report.added == ["one"]
    assert [problem.partition(":")[0] for problem in report.problems] == ["two"]  # of another home
    assert provml.lake.update(tmp_path / "other", folder).added == ["two"]
    assert count(folder, "sections") == 6


def test_damage_inside_a_file_is_reported(home: Path, folder: Path) -> None:
    provml.lake.build(home, folder)
    with provml.lake.open(folder) as lake:
        for file in (folder / "sections").iterdir():
            file.write_bytes(bytes(file.stat().st_size - 500) + file.read_bytes()[-500:])
        with pytest.raises(FileFormatError, match="gone or damaged"):
            lake.ask("b10")
    record(home, "two")
    with pytest.raises(FileFormatError, match=r"sections.*gone or damaged.*build the lake again"):
        provml.lake.update(home, folder)


def test_an_older_schema_is_renewed_by_an_update(
    home: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # an older provml, whose runs have fewer columns
        columns = tuple(column for column in TABLES["runs"].columns if column.name != "problems")
        patch.setitem(TABLES, "runs", TABLES["runs"]._replace(columns=columns))
        provml.lake.build(home, folder)
        record(tmp_path / "other", "two")
        provml.lake.update(tmp_path / "other", folder)
    manifest = folder / "manifest" / "00000002.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"version":2', b'"version":1'))
    with pytest.raises(FileFormatError, match=r"version 1 is older .*provml lake update HOME"):
        provml.lake.open(folder)
    monkeypatch.setattr(writing, "format_fingerprint", lambda: "another mapping")
    provml.lake.update(home, folder)
    with provml.lake.open(folder) as lake:
        assert lake.rows("SELECT run, problems FROM runs ORDER BY run")[1] == [("one", 0), ("two", None)]


def test_a_build_reports_the_runs_that_it_drops(home: Path, folder: Path, tmp_path: Path) -> None:
    record(tmp_path / "other", "two")
    provml.lake.update(tmp_path / "other", folder)
    report = provml.lake.build(home, folder)
    assert (report.added, report.removed) == (["one"], ["two"])


# ---- wrong input


def test_a_folder_that_is_no_lake(home: Path, tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound, match=r"no such folder.*provml lake build"):
        provml.lake.open(tmp_path / "nothing")
    with pytest.raises(LakeNotFound, match="may be the home of runs"):
        provml.lake.open(home)
    with pytest.raises(LakeNotFound, match=r"it holds other files, such as .*Choose an empty folder"):
        provml.lake.build(home, home.parent)
    with pytest.raises(LakeNotFound, match="Protocol not known"):
        provml.lake.open("gopher://host/lake")
    with pytest.raises(HomeNotFound):
        provml.lake.build(tmp_path / "nothing", tmp_path / "lake")
    with pytest.raises(WrongValue, match="duckdb or spark"):
        provml.lake.open(tmp_path, engine="sqlite")


@pytest.fixture
def new_s3_clients() -> Iterator[None]:
    """Make clients anew, which fsspec keeps with the address that they had at first."""
    s3fs.S3FileSystem.clear_instance_cache()
    yield
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("new_s3_clients")
@pytest.mark.parametrize("protocol", ["s3", "http", "ftp", "bad-endpoint"])
def test_a_lake_in_a_store_that_does_not_answer(home: Path, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    settings = {
        "AWS_ENDPOINT_URL": "127.0.0.1" if protocol == "bad-endpoint" else f"http://{address}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    location = f"{protocol}://{address}/lake" if protocol in ("http", "ftp") else "s3://lab/lake"
    for action in (lambda: provml.lake.open(location), lambda: provml.lake.update(home, location)):
        with pytest.raises(LakeUnreachable, match=r"/lake cannot be reached: .*, and try again"):
            action()
    result = CliRunner().invoke(main, ["lake", "show", location])
    assert result.exit_code == 1
    assert "cannot be reached" in result.output


def test_the_package_of_a_store_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingDependency, match=r"needs gcsfs.*[Ii]nstall gcsfs"):
        provml.lake.open("gs://bucket/lake")


def test_a_newer_schema_and_a_damaged_manifest(home: Path, folder: Path) -> None:
    provml.lake.build(home, folder)
    manifest = folder / "manifest" / "00000001.json"
    content = msgspec.json.decode(manifest.read_bytes())
    manifest.write_bytes(msgspec.json.encode({**content, "version": SCHEMA_VERSION + 1, "parts": 7}))
    for call in (lambda: provml.lake.open(folder), lambda: provml.lake.update(home, folder)):
        with pytest.raises(FileFormatError, match=r"schema version 3 is newer .*Upgrade provml"):
            call()
    manifest.write_bytes(b"{")
    for call in (lambda: provml.lake.open(folder), lambda: provml.lake.update(home, folder)):
        with pytest.raises(FileFormatError, match=r"damaged.*Build the lake again"):
            call()
    provml.lake.build(home, folder)
    assert count(folder, "runs") == 1
    assert LakeFolder(folder).require().number == 2


@pytest.mark.parametrize(
    ("module", "call", "command"),
    [
        ("duckdb", lambda folder: provml.lake.open(folder), r"pip install 'provml\[lake\]'"),
        ("pyspark.sql", lambda folder: provml.lake.open(folder, engine="spark"), r"pip install 'provml\[spark\]'"),
        ("pyarrow", lambda folder: provml.lake.open(folder), r"pip install 'provml\[lake\]'"),
    ],
)
def test_a_missing_extra_says_how_to_install_it(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, call: Any, command: str
) -> None:
    provml.lake.build(home, folder)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match=command):
        call(folder)


def test_sql_that_is_wrong(home: Path, folder: Path) -> None:
    provml.lake.build(home, folder)
    with provml.lake.open(folder) as lake:
        with pytest.raises(WrongValue, match="Tables: epochs, runs"):
            lake.sql("epoch")
        with pytest.raises(provml.errors.QueryError, match="no_such_column"):
            lake.rows("SELECT no_such_column FROM runs")
        with pytest.raises(provml.errors.QueryError, match="has no parameter :nmae"):
            lake.sql("SELECT name FROM runs", nmae="one")
        assert lake.rows("SELECT {'a':1} AS \":x\" /* :y */")[1] == [({"a": 1},)]  # none of these is a parameter
        with pytest.raises(provml.errors.QueryError, match="parameter :run, which has no value"):
            lake.rows("SELECT name FROM runs WHERE run = :run", name=":other")


def test_a_closed_lake_and_a_connection_with_two_lakes(home: Path, folder: Path, tmp_path: Path) -> None:
    provml.lake.build(home, folder)
    record(tmp_path / "other", "two")
    provml.lake.build(tmp_path / "other", tmp_path / "second")
    with duckdb.connect() as connection:
        with provml.lake.open(folder, connection=connection) as lake:
            assert lake.sql("runs").project("run").fetchall() == [("one",)]
            with pytest.raises(WrongValue, match=r"a connection without another lake.*connection\.cursor"):
                provml.lake.open(tmp_path / "second", connection=connection)
            with provml.lake.open(tmp_path / "second", connection=connection.cursor()) as second:
                assert second.rows("SELECT run FROM runs")[1] == [("two",)]
            assert lake.rows("SELECT run FROM runs")[1] == [("one",)]
        with provml.lake.open(tmp_path / "second", connection=connection) as second:
            assert second.rows("SELECT run FROM runs")[1] == [("two",)]
    with pytest.raises(ValueError, match="This lake is closed"):
        lake.table()


# ---- DataFrames


def test_all_epochs_in_one_line(home: Path, folder: Path) -> None:
    with (
        Run("lab", home=home, model="net", run="two", strict=True, capture_environment=False) as run,
        run.training(learning_rate=0.1) as training,
    ):
        epoch = training.epoch(1)
        epoch.measured(**{"loss": 0.25, "seconds": 7.0, 'the "best"': 1.0})
        with epoch.validation() as validation:
            validation.measured(loss=0.75)
        epoch.done()
    provml.lake.build(home, folder)
    with provml.lake.open(folder) as lake:
        frame = lake.to_pandas()
        assert frame["loss"].tolist() == [0.5, 0.5, 0.25]
        assert frame["val_loss"].dropna().tolist() == [0.75]
        assert frame['the "best"'].dropna().tolist() == [1.0]
        assert frame["measure_seconds"].dropna().tolist() == [7.0]
        assert lake.to_polars().select("run", "epoch").rows() == [("one", 1), ("one", 2), ("two", 1)]
        assert lake.sql().filter("epoch = 2").project("loss").fetchall() == [(0.5,)]
        assert lake.sql("SELECT count(*) FROM runs WHERE run = :run", run="two").fetchall() == [(1,)]
        assert lake.to_arrow("runs").num_rows == 2
        for table in TABLES:  # times are UTC, whatever the time zone of the machine
            assert lake.to_arrow(table).schema == arrow_schema(table)


def test_plain_tools_read_the_files(home: Path, folder: Path) -> None:
    provml.lake.build(home, folder)
    (file,) = (folder / "sections").glob("*.parquet")
    assert pq.read_table(file).column_names == list(TABLES["sections"].names)


# ---- command line


def test_commands(home: Path, folder: Path) -> None:
    runner = CliRunner()
    result = runner.invoke(main, ["lake", "build", str(home), "-o", str(folder)])
    assert result.exit_code == 0, result.output
    assert "1 run" in result.output
    assert "1 added" in result.output
    result = runner.invoke(main, ["lake", "update", str(home), "-o", str(folder)])
    assert "nothing new" in result.output
    result = runner.invoke(main, ["lake", "update", str(home), "-o", str(folder), "--format", "json"])
    assert msgspec.json.decode(result.output)[0]["runs"] == 1
    result = runner.invoke(main, ["lake", "show", str(folder), "--format", "csv"])
    assert "batches,1,6," in result.output
    result = runner.invoke(main, ["lake", "show", str(home)])
    assert result.exit_code == 2
    assert "is not a lake" in result.output
