"""Dumps of DNNProv and Keras-Prov become journals: each row in its run, and q1 to q8 answered on the authors' data."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from world.asking import Row, World

from provml import event
from provml.errors import BrokenFile
from provml.exchange import dnnprov
from provml.lift import name

SUITES = Path(os.environ.get("PROVML_SUITES") or Path(__file__).parents[2] / "shared" / "suites")
DUMP = SUITES / "dnnprov" / "alexnet-8-runs.sql"

needs_dump = pytest.mark.skipif(
    not DUMP.exists(), reason=f"the authors' dump is not in the repository; {DUMP} is not there (set PROVML_SUITES)"
)


def rows(table: str) -> list[list[str]]:
    """The rows of a table of the authors' dump, read in the simplest way."""
    lines = DUMP.read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("COPY") and f'"{table}"' in line)
    return [shlex.split(line) for line in lines[start + 1 : start + 1 + int(lines[start].split()[1])]]


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[str]]:
    home = tmp_path_factory.mktemp("dnnprov")
    runs = dnnprov.import_dump(DUMP, home, model="alexnet")
    return World(home), [name.run(run) for run in runs]


Authors = tuple[World, list[str]]


@needs_dump
def test_the_dump_holds_eight_runs_of_a_hundred_epochs(authors: Authors):
    world, runs = authors
    assert len(set(runs)) == 8
    for run in runs:
        assert [row[0] for row in world.rows("q3", "epoch", model="alexnet", run=run)] == list(range(1, 101))
    assert world.rows("b8") == [], "all of them ended"


@needs_dump
def test_q1_and_q3_give_each_run_its_own_rows(authors: Authors):
    world, runs = authors
    told = rows("ds_otrainingmodel")  # 100 rows a run, one run after the other
    for number, run in enumerate(runs):
        own = told[100 * number : 100 * number + 100]
        assert world.rows("q1", "epoch", "value", model="alexnet", run=run) == [(10, float(own[9][6]))]
        curve = [(int(row[10]) + 1, pytest.approx(float(row[5])), float(row[6])) for row in own]
        assert world.rows("q3", "epoch", "seconds", "value", model="alexnet", run=run) == curve


@needs_dump
def test_q2_gives_the_layers_that_were_stored(authors: Authors):
    world, runs = authors
    told = rows("ds_ilayers")
    for number, run in enumerate(runs):
        expected = [(row[3], f"{row[4]}={row[5]}") for row in told[12 * number : 12 * number + 12]]
        assert world.rows("q2", "name", "settings", model="alexnet", run=run) == expected


def accuracies() -> list[tuple[float, int]]:
    """The accuracy in the test of each run, the best first."""
    return sorted(((float(row[4]), number) for number, row in enumerate(rows("ds_otestingmodel"))), reverse=True)


@needs_dump
def test_q4_to_q6_tell_of_the_most_accurate_runs(authors: Authors):
    world, runs = authors
    settings = rows("ds_itrainingmodel")
    (accuracy, best), *_ = accuracies()
    expected: list[Row] = [(f"{runs[best]}/training", float(settings[best][4]), accuracy)]
    assert world.rows("q4", model="alexnet") == expected
    top = world.rows("q5", model="alexnet")
    assert [(row[0], row[1]) for row in top] == [(f"{runs[n]}/training", value) for value, n in accuracies()[:3]]
    for row, (_, number) in zip(top, accuracies(), strict=False):
        assert f"learning_rate={settings[number][4]}" in row[2]
        assert f"optimizer_name={settings[number][3]}" in row[2]
        assert f"dropout={rows('ds_ilayers')[12 * number + 6][5]}" in row[2]
    changed = rows("ds_oadaptation")[best]
    adapted = world.rows("q6", "training", "epoch", "old", "new", "technique", model="alexnet")
    assert adapted == [
        (f"{runs[best]}/training", int(changed[4]) + 1, float(settings[best][4]), float(changed[2]), None)
    ]


@needs_dump
def test_q7_and_q8_find_the_filters(authors: Authors):
    world, runs = authors
    with_dropout = [n for n in range(8) if rows("ds_ilayers")[12 * n + 6][5] == "0.4"]
    assert len(with_dropout) == 4
    assert world.rows("q7", model="alexnet") == sorted((f"{runs[n]}/training", "none") for n in with_dropout)
    (most, best), *_, (least, worst) = accuracies()
    assert world.rows("q8", model="alexnet") == [
        (f"{runs[best]}/training", "none", most, 100),
        (f"{runs[worst]}/training", "none", least, 100),
    ]


@needs_dump
def test_the_rate_in_force_changes_with_the_epoch_of_the_adaptation(authors: Authors):
    world, runs = authors
    initial, changed = rows("ds_itrainingmodel"), rows("ds_oadaptation")
    told = {(str(row[0]), row[1]): row[2] for row in world.rows("e1", "training", "epoch", "learning_rate")}
    for number, run in enumerate(runs):
        epoch = int(changed[number][4]) + 1
        assert told[f"{run}/training", epoch - 1] == float(initial[number][4])
        assert told[f"{run}/training", epoch] == float(changed[number][2])


# ---- dumps of our own

HEAD = """START TRANSACTION;
CREATE TABLE "net"."ds_ifilters" (
\t"id"           INTEGER       NOT NULL,
\t"timestamp"    VARCHAR(500),
\t"dataset_name" VARCHAR(500)
);
COPY 2 RECORDS INTO "net"."ds_ifilters" FROM stdin USING DELIMITERS '\\t','\\n','"';
1\t"90.0"\t"flowers"
2\t"190.0"\t"flowers"
CREATE TABLE "net"."ds_ofilters" (
\t"id"          INTEGER       NOT NULL,
\t"timestamp"   VARCHAR(500),
\t"filter_name" VARCHAR(500)
);
COPY 2 RECORDS INTO "net"."ds_ofilters" FROM stdin USING DELIMITERS '\\t','\\n','"';
1\t"91.0"\t"gray \\"scale\\""
2\t"191.0"\t"none"
CREATE TABLE "net"."ds_itrainingmodel" (
\t"id"            INTEGER       NOT NULL,
\t"timestamp"     VARCHAR(500),
\t"learning_rate" DOUBLE,
\t"num_epochs"    DOUBLE
);
COPY 2 RECORDS INTO "net"."ds_itrainingmodel" FROM stdin USING DELIMITERS '\\t','\\n','"';
1\t"100.0"\t0.0010000000474974513\t3
2\t"200.0"\t0.5\t3
CREATE TABLE "net"."ds_oadaptation" (
\t"id"            INTEGER       NOT NULL,
\t"timestamp"     VARCHAR(500),
\t"new_lrate"     DOUBLE,
\t"epoch_id"      DOUBLE
);
COPY 3 RECORDS INTO "net"."ds_oadaptation" FROM stdin USING DELIMITERS '\\t','\\n','"';
1\t"105.0"\t0.001\t1
2\t"110.0"\t0.0005\t2
3\t"111.0"\t0.0005\t2
CREATE TABLE "net"."ds_otrainingmodel" (
\t"id"            INTEGER       NOT NULL,
\t"timestamp"     VARCHAR(500),
\t"elapsed_time"  VARCHAR(500),
\t"loss"          DOUBLE,
\t"val_loss"      DOUBLE,
\t"epoch"         DOUBLE
);
COPY 4 RECORDS INTO "net"."ds_otrainingmodel" FROM stdin USING DELIMITERS '\\t','\\n','"';
1\t"105.0"\t"4.5"\t1\t-9999999\t0
2\t"110.0"\t"4.75"\t0.5\t0.75\t1
3\t"115.0"\t"4.25"\tNULL\t0.5\t2
4\t"205.0"\t"4.5"\t0.25\t0.5\t0
"""


def dump(folder: Path, text: str = HEAD) -> Path:
    path = folder / "dump.sql"
    path.write_text(text)
    return path


def test_rows_are_told_apart_by_time(tmp_path: Path):
    first, second = dnnprov.journals(dump(tmp_path)).values()
    assert isinstance(first[0], event.Run)
    assert (first[0].name, first[0].model, first[0].t) == ("net", "net", 90.0)
    epochs = [
        [what.at for what in events if isinstance(what, event.Done) and not what.at.startswith("validation")]
        for events in (first, second)
    ]
    assert epochs == [
        ["filters", "training/1", "training/2", "training/3", "training"],
        ["filters", "training/1", "training"],
    ]
    filters = [
        [what.values for what in events if isinstance(what, event.Begin) and what.kind == "filter"]
        for events in (first, second)
    ]
    assert filters == [[{"filter_name": 'gray "scale"'}], [{"filter_name": "none"}]]


def test_what_changed_nothing_is_no_adaptation_and_no_number_is_nan(tmp_path: Path):
    first, _ = dnnprov.journals(dump(tmp_path)).values()
    adapted = [what for what in first if isinstance(what, event.Adapted)]
    assert [(what.at, what.values) for what in adapted] == [("training/3", {"learning_rate": 0.0005})]
    measured = {what.at: what.values for what in first if isinstance(what, event.Measured)}
    assert measured["training/1"] == {"loss": 1.0}
    assert measured["validation/1"] == {"loss": ["double", "NaN"]}
    assert "training/3" not in measured
    assert measured["validation/3"] == {"loss": 0.5}


def test_a_training_that_did_not_come_to_its_end_is_lost(tmp_path: Path):
    runs = dnnprov.import_dump(dump(tmp_path), tmp_path / "home", model="alexnet")
    world = World(tmp_path / "home")
    assert world.rows("b8", "run", "status", "epoch", model="alexnet") == [(name.run(runs[1]), "LOST", 1)]
    assert world.rows("q7", "filter", model="alexnet", hyperparameter="learning_rate", value=0.001) == [
        ('gray "scale"',)
    ]


def test_importing_twice_changes_nothing(tmp_path: Path):
    home = tmp_path / "home"
    runs = dnnprov.import_dump(dump(tmp_path), home)
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*.jsonl")}
    assert dnnprov.import_dump(dump(tmp_path), home) == runs
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"4.75"\t0.5\t0.75\t1', '"4.75"\t0.5\t0.75'), "dump.sql:47: a row has 5 values for 6 columns"),
        (("\t0.5\t0.75\t1", "\thalf\t0.75\t1"), "dump.sql:47: loss is no number ('half')"),
        (('"115.0"\t"4.25"\tNULL\t0.5\t2', '"115.0"\t"4.25"\tNULL\t0.5\t1'), "two ran at the same time"),
        ((HEAD, "no dump"), "no rows of a database"),
    ],
)
def test_a_dump_that_cannot_be_read_is_named_with_the_place(tmp_path: Path, change: tuple[str, str], said: str):
    assert change[0] in HEAD
    with pytest.raises(BrokenFile) as caught:
        dnnprov.import_dump(dump(tmp_path, HEAD.replace(*change)), tmp_path / "home")
    assert said in str(caught.value)
    assert not (tmp_path / "home").exists()


def test_a_dump_that_is_not_there_is_said(tmp_path: Path):
    with pytest.raises(BrokenFile, match="cannot be read"):
        dnnprov.journals(tmp_path / "none.sql")
