"""Import of dumps of DNNProv and Keras-Prov: each row is in its run, and q1 to q8 are answered on the authors' data."""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from example_runs.asking import ExampleGraph, Row

from provml.errors import FileFormatError
from provml.exchange import ImportOptions, SkippedPart, SourceRun, dnnprov
from provml.exchange import read as read_dump
from provml.exchange.losses import POINTS
from provml.journal import events
from provml.mapping import iris

SUITES = Path(os.environ.get("PROVML_SUITES") or Path(__file__).parents[3] / "shared" / "suites")
DUMP = SUITES / "dnnprov" / "alexnet-8-runs.sql"

needs_dump = pytest.mark.skipif(
    not DUMP.exists(),
    reason=f"the authors' dump is not part of the repository, and {DUMP} does not exist (set PROVML_SUITES)",
)


def rows(table: str) -> list[list[str]]:
    """Return the rows of a table of the authors' dump, parsed in the simplest way."""
    lines = DUMP.read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("COPY") and f'"{table}"' in line)
    return [shlex.split(line) for line in lines[start + 1 : start + 1 + int(lines[start].split()[1])]]


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory) -> tuple[ExampleGraph, list[str]]:
    home = tmp_path_factory.mktemp("dnnprov")
    runs = dnnprov.import_dump(DUMP, home, model="alexnet")
    return ExampleGraph(home), [iris.run_iri(run) for run in runs]


Authors = tuple[ExampleGraph, list[str]]


@needs_dump
def test_the_dump_contains_eight_runs_of_a_hundred_epochs(authors: Authors):
    world, runs = authors
    assert len(set(runs)) == 8
    for run in runs:
        assert [row[0] for row in world.rows("q3", "epoch", model="alexnet", run=run)] == list(range(1, 101))
    assert world.rows("b8") == [], "all of them ended"


@needs_dump
def test_q1_and_q3_give_each_run_its_own_rows(authors: Authors):
    world, runs = authors
    epochs = rows("ds_otrainingmodel")  # 100 rows per run, one run after the other
    for number, run in enumerate(runs):
        own = epochs[100 * number : 100 * number + 100]
        assert world.rows("q1", "epoch", "value", model="alexnet", run=run) == [(10, float(own[9][6]))]
        curve = [(int(row[10]) + 1, pytest.approx(float(row[5])), float(row[6])) for row in own]
        assert world.rows("q3", "epoch", "seconds", "value", model="alexnet", run=run) == curve


@needs_dump
def test_q2_gives_the_layers_that_were_stored(authors: Authors):
    world, runs = authors
    layers = rows("ds_ilayers")
    for number, run in enumerate(runs):
        expected = [(row[3], f"{row[4]}={row[5]}") for row in layers[12 * number : 12 * number + 12]]
        assert world.rows("q2", "name", "settings", model="alexnet", run=run) == expected


def accuracies() -> list[tuple[float, int]]:
    """Return the test accuracy of each run and its number, the best first."""
    return sorted(((float(row[4]), number) for number, row in enumerate(rows("ds_otestingmodel"))), reverse=True)


@needs_dump
def test_q4_to_q6_return_the_most_accurate_runs(authors: Authors):
    world, runs = authors
    settings = rows("ds_itrainingmodel")
    (accuracy, best), *_ = accuracies()
    expected: list[Row] = [(f"{runs[best]}/training", float(settings[best][4]), accuracy)]
    assert world.rows("q4", model="alexnet") == expected
    top = world.rows("q5", model="alexnet")
    assert [(row[0], row[1]) for row in top] == [(f"{runs[n]}/training", value) for value, n in accuracies()[:3]]
    for row, (_, number) in zip(top, accuracies(), strict=False):
        assert f"learning_rate={settings[number][4]}" in row[2]
        assert f"optimizer={settings[number][3]}" in row[2]
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
    (max_accuracy, best), *_, (min_accuracy, worst) = accuracies()
    assert world.rows("q8", model="alexnet") == [
        (f"{runs[best]}/training", "none", max_accuracy, 100),
        (f"{runs[worst]}/training", "none", min_accuracy, 100),
    ]


@needs_dump
def test_the_rate_in_force_changes_with_the_epoch_of_the_adaptation(authors: Authors):
    world, runs = authors
    initial, changed = rows("ds_itrainingmodel"), rows("ds_oadaptation")
    rates = {(str(row[0]), row[1]): row[2] for row in world.rows("e1", "training", "epoch", "learning_rate")}
    for number, run in enumerate(runs):
        epoch = int(changed[number][4]) + 1
        assert rates[f"{run}/training", epoch - 1] == float(initial[number][4])
        assert rates[f"{run}/training", epoch] == float(changed[number][2])


# ---- small dumps

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


def test_rows_are_assigned_to_runs_by_time(tmp_path: Path):
    first, second = dnnprov.read_journals(dump(tmp_path)).values()
    assert isinstance(first[0], events.Header)
    assert (first[0].name, first[0].model, first[0].time) == ("net", "net", 90.0)
    epochs = [
        [
            event.location
            for event in journal
            if isinstance(event, events.Done) and not event.location.startswith("validation")
        ]
        for journal in (first, second)
    ]
    assert epochs == [
        ["filters", "training/1", "training/2", "training/3", "training"],
        ["filters", "training/1", "training"],
    ]
    filters = [
        [event.values for event in journal if isinstance(event, events.Begin) and event.kind == "filter"]
        for journal in (first, second)
    ]
    assert filters == [[{"filter_name": 'gray "scale"'}], [{"filter_name": "none"}]]


def test_adaptations_without_a_change_are_left_out_and_missing_numbers_are_nan(tmp_path: Path):
    first, _ = dnnprov.read_journals(dump(tmp_path)).values()
    adapted = [event for event in first if isinstance(event, events.Adapted)]
    assert [(event.location, event.values) for event in adapted] == [("training/3", {"learning_rate": 0.0005})]
    measured = {event.location: event.values for event in first if isinstance(event, events.Measured)}
    assert measured["training/1"] == {"loss": 1.0}
    assert measured["validation/1"] == {"loss": ["double", "NaN"]}
    assert "training/3" not in measured
    assert measured["validation/3"] == {"loss": 0.5}


def test_a_training_without_all_epochs_and_without_a_test_is_lost(tmp_path: Path):
    runs = dnnprov.import_dump(dump(tmp_path), tmp_path / "home", model="alexnet")
    world = ExampleGraph(tmp_path / "home")
    assert world.rows("b8", "run", "status", "epoch", model="alexnet") == [(iris.run_iri(runs[1]), "LOST", 1)]
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
    ("change", "message"),
    [
        (('"4.75"\t0.5\t0.75\t1', '"4.75"\t0.5\t0.75'), "dump.sql:47: a row has 5 values for 6 columns"),
        (("\t0.5\t0.75\t1", "\thalf\t0.75\t1"), "dump.sql:47: loss is not a number ('half')"),
        (('"115.0"\t"4.25"\tNULL\t0.5\t2', '"115.0"\t"4.25"\tNULL\t0.5\t1'), "two ran at the same time"),
        ((HEAD, "no dump"), "it contains no table rows"),
    ],
)
def test_errors_in_a_dump_name_the_file_and_line(tmp_path: Path, change: tuple[str, str], message: str):
    assert change[0] in HEAD
    with pytest.raises(FileFormatError) as caught:
        dnnprov.import_dump(dump(tmp_path, HEAD.replace(*change)), tmp_path / "home")
    assert message in str(caught.value)
    assert not (tmp_path / "home").exists()


PIPES = """START TRANSACTION;
CREATE TABLE "net"."ds_itrainingmodel" (
"id" INTEGER NOT NULL DEFAULT next value for "net"."itrainingmodel_id_seq",
"trainingmodel_task_id" INTEGER,
"optimizer_name"  VARCHAR(500),
"learning_rate" DOUBLE,
"num_epochs" DOUBLE,
CONSTRAINT "ds_itrainingmodel_id_pkey" PRIMARY KEY ("id")
);
COPY 2 RECORDS INTO "net"."ds_itrainingmodel" FROM stdin USING DELIMITERS '|','\\n','"';
1|1|"Adam | \\"W\\""|0.10000000149011612| 2
2|1|"SGD"| 0.5| 1
CREATE TABLE "net"."ds_otrainingmodel" (
"id" INTEGER NOT NULL,
"timestamp" VARCHAR(500),
"elapsed_time" VARCHAR(500),
"loss" DOUBLE,
"epoch" DOUBLE
);
COPY 3 RECORDS INTO "net"."ds_otrainingmodel" FROM stdin USING DELIMITERS '|','\\n','"';
1|"105.0"|"4.5"| 11.5| 0
2|"110.0"|"4.75"|NULL| 1
3|"205.0"|"5.0"|0.25|0
"""


@pytest.mark.parametrize("clause", ["USING DELIMITERS", "DELIMITERS"])
def test_a_dump_with_pipes_and_without_times_of_trainings_is_read(tmp_path: Path, clause: str):
    first, second = dnnprov.read_journals(dump(tmp_path, PIPES.replace("USING DELIMITERS", clause))).values()
    trainings = [
        event
        for journal in (first, second)
        for event in journal
        if isinstance(event, events.Begin) and event.kind == "training"
    ]
    assert [(event.time, event.values) for event in trainings] == [
        (100.5, {"optimizer": 'Adam | "W"', "learning_rate": 0.10000000149011612, "epochs": 2}),
        (200.0, {"optimizer": "SGD", "learning_rate": 0.5, "epochs": 1}),
    ]
    measured = [
        [event.values for event in journal if isinstance(event, events.Measured)] for journal in (first, second)
    ]
    assert measured == [[{"loss": 11.5}], [{"loss": 0.25}]]
    assert all(isinstance(journal[-1], events.End) for journal in (first, second))


def test_a_damaged_number_of_an_epoch_begins_no_training_where_trainings_have_no_times(tmp_path: Path):
    damaged = '2|"110.0"|"4.75"|NULL| 112\n2|"115.0"|"4.75"|0.5|2'
    text = PIPES.replace('2|"110.0"|"4.75"|NULL| 1', damaged).replace("COPY 3 RECORDS", "COPY 4 RECORDS")
    runs = dnnprov.read_journals(dump(tmp_path, text)).values()
    epochs = [
        [event.index for event in run if isinstance(event, events.Begin) and event.kind == "epoch"] for run in runs
    ]
    assert epochs == [[1, 113, 3], [1]]


def test_a_training_that_begins_with_the_last_epoch_of_the_one_before_is_another_training(tmp_path: Path):
    resumed = '3|"205.0"|"5.0"|0.25|1\n3|"215.0"|"5.0"|0.25|2'
    text = PIPES.replace('3|"205.0"|"5.0"|0.25|0', resumed).replace("COPY 3 RECORDS", "COPY 4 RECORDS")
    runs = dnnprov.read_journals(dump(tmp_path, text)).values()
    epochs = [
        [event.index for event in run if isinstance(event, events.Begin) and event.kind == "epoch"] for run in runs
    ]
    assert epochs == [[1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('3|"205.0"|"5.0"|0.25|0', '3|"205.0"|"5.0"|0.25|2'), "rows of ds_itrainingmodel have no timestamp"),
        (('"105.0"|"4.5"', 'NULL|"4.5"'), "rows of ds_itrainingmodel, ds_otrainingmodel have no timestamp"),
        (('2|"110.0"|', '2||"110.0"|'), "dump.sql:22: a row has 6 values for 5 columns"),
    ],
)
def test_rows_that_cannot_be_assigned_to_a_training_are_an_error(tmp_path: Path, change: tuple[str, str], message: str):
    assert change[0] in PIPES
    with pytest.raises(FileFormatError) as caught:
        dnnprov.read_journals(dump(tmp_path, PIPES.replace(*change)))
    assert message in str(caught.value)


def test_a_missing_dump_is_an_error(tmp_path: Path):
    with pytest.raises(FileFormatError, match="cannot be read"):
        dnnprov.read_journals(tmp_path / "none.sql")


# ---- other versions, and damaged rows


def table(name: str, columns: str, *rows: str, schema: str = "net") -> str:
    """Return a table of a dump with pipes; a column is a number unless it begins with `@`."""
    lines = [
        f'"{column.lstrip("@")}" {"VARCHAR(500)" if column.startswith("@") else "DOUBLE"}' for column in columns.split()
    ]
    copy = f"COPY {len(rows)} RECORDS INTO \"{schema}\".\"ds_{name}\" FROM stdin USING DELIMITERS '|','\\n','\"';"
    return "\n".join([f'CREATE TABLE "{schema}"."ds_{name}" (', ",\n".join(lines), ");", copy, *rows, ""])


def read(folder: Path, *tables: str) -> list[SourceRun | SkippedPart]:
    parts = dnnprov.DfAnalyzerDump().read(dump(folder, "".join(tables)), ImportOptions())
    return [replace(part, events=list(part.events)) if isinstance(part, SourceRun) else part for part in parts]


def events_of(run: SourceRun | SkippedPart, kind: type[Any]) -> list[Any]:
    assert isinstance(run, SourceRun)
    return [event for event in run.events if isinstance(event, kind)]


SETTINGS = table("itrainingmodel", "id @timestamp learning_rate num_epochs", '1|"100.0"|0.1|2')
EPOCHS = table(
    "otrainingmodel", "id @timestamp @elapsed_time loss epoch", '1|"105.0"|"5.0"|0.5|0', '2|"110.0"|"5.0"|0.25|1'
)


def test_the_columns_of_keras_prov_are_read(tmp_path: Path):
    [run] = read(
        tmp_path,
        table("ilayers", "id @iltimestamp @name @attribute_type @value", '1|"100.0"|"dropout_1"|"dropout"|"0.4"'),
        table("itrainingmodel", "id @itrain_timestamp learning_rate @decay num_epochs", '1|"100.0"|0.1|"null"|1'),
        table("otrainingmodel", "id @otrain_timestamp @elapsed_time epoch_id loss", '1|"105.0"|"5.0"|0|0.5'),
        table("oadaptation", "id new_lrate @atimestamp epoch_id adaptation_id", '1|0.05|"101.0"|0|1'),
        table("otestingmodel", "id @otest_timestamp otest_loss otest_accuracy", '1|"111.0"|0.6|0.7'),
    )
    [begin] = [event for event in events_of(run, events.Begin) if event.kind == "training"]
    assert (begin.time, begin.values) == (100.0, {"learning_rate": 0.1, "epochs": 1})
    measured = {event.location: event.values for event in events_of(run, events.Measured)}
    assert measured == {"training/1": {"loss": 0.5}, "evaluation": {"loss": 0.6, "accuracy": 0.7}}
    assert [event.location for event in events_of(run, events.Adapted)] == ["training/1"]
    assert len(events_of(run, events.Layers)[0].layers) == 1


def test_trainings_without_hyperparameters_are_runs(tmp_path: Path):
    first, second = read(
        tmp_path,
        table(
            "otrainingmodel",
            "id @timestamp @elapsed_time loss epoch",
            *('1|"105.0"|"5.0"|0.5|0', '2|"110.0"|"5.0"|0.25|1', '3|"205.0"|"0:00:04.5"|0.5|0'),
        ),
    )
    assert [len([e for e in events_of(run, events.Begin) if e.kind == "epoch"]) for run in (first, second)] == [2, 1]
    assert [event.time for event in events_of(second, events.Begin) if event.kind == "training"] == [200.5]


def test_the_tables_of_dlprov_are_read_and_other_tables_are_skipped(tmp_path: Path):
    skipped, run = read(
        tmp_path,
        table("itrain", "id @optimizer_name num_epochs", '1|"Adam"|1'),
        table("otrain", "id @timestamp @elapsed_time loss epoch", '1|"2026-01-02 03:04:05"|"5.0"|0.5|0'),
        table("otrainedmodel", "id @model_name @model_dir", '1|"net"|"/models/net.keras"'),
        table("otest", "id loss", "1|0.6"),
        table("otrainset", "id @trainsetx", '1|"train.npz"', '2|"more.npz"'),
    )
    assert skipped == SkippedPart("net.ds_otrainset", "2 rows of a table that is no part of a training", is_run=False)
    assert isinstance(run, SourceRun)
    assert run.notes == ["the dump has times without a time zone, which were read as UTC."]
    models = [event for event in events_of(run, events.Data) if event.kind == "model"]
    assert [(event.name, event.path) for event in models] == [("net", "/models/net.keras")]
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    assert [event.time for event in events_of(run, events.Done) if event.location == "training/1"] == [moment]


def test_a_damaged_number_of_an_epoch_is_kept_and_noted(tmp_path: Path):
    """The authors' own dump has such a row: 19912 for the last of 200 epochs."""
    [run] = read(tmp_path, SETTINGS, EPOCHS.replace("|0.25|1", "|0.25|112"))
    assert isinstance(run, SourceRun)
    assert [event.index for event in events_of(run, events.Begin) if event.kind == "epoch"] == [1, 113]
    assert run.notes == [
        "the dump has an epoch 112 after 0, of 2 from 0 on; the number cannot be right and was imported as it is.",
    ]


def test_more_epochs_than_planned_stay_as_they_are(tmp_path: Path):
    more = EPOCHS.replace("COPY 2", "COPY 3") + '3|"115.0"|"5.0"|0.2|2\n'
    [run] = read(tmp_path, SETTINGS, more)
    assert isinstance(run, SourceRun)
    assert [event.index for event in events_of(run, events.Begin) if event.kind == "epoch"] == [1, 2, 3]
    assert run.notes == []


def test_rows_of_epochs_without_a_number_are_left_out_and_noted(tmp_path: Path):
    [run] = read(tmp_path, SETTINGS, EPOCHS.replace("|0.25|1", "|0.25|NULL"))
    assert isinstance(run, SourceRun)
    assert run.notes == ["1 row of epochs without a number left out."]


def test_a_table_without_its_columns_and_a_dataflow_without_a_training_are_skipped(tmp_path: Path):
    parts = read(
        tmp_path,
        SETTINGS,
        EPOCHS,
        table("oadaptation", "id @timestamp", '1|"101.0"'),
        table("isolver", "id mesh", "1|2", schema="flow"),
        table("dataflow", "id", "1", schema="public"),
    )
    assert [part for part in parts if isinstance(part, SkippedPart)] == [
        SkippedPart("net.ds_oadaptation", "1 row without a column new_lrate", is_run=False),
        SkippedPart("flow.ds_isolver", "1 row of a table that is no part of a training", is_run=False),
        SkippedPart("flow", "the dataflow has no training"),
    ]
    assert len(parts) == 4


def test_simultaneous_trainings_are_skipped_and_others_are_read(tmp_path: Path):
    other = [text.replace('"net"', '"other"') for text in (SETTINGS, EPOCHS)]
    skipped, run = read(tmp_path, SETTINGS, EPOCHS.replace("|0.25|1", "|0.25|0"), *other)
    assert isinstance(skipped, SkippedPart)
    assert (skipped.name, skipped.is_run) == ("net", True)
    assert "has an epoch twice" in skipped.reason
    assert isinstance(run, SourceRun)


def test_the_parameters_of_an_adaptation_are_read(tmp_path: Path):
    [run] = read(
        tmp_path,
        SETTINGS,
        EPOCHS,
        table("iadaptation", "id @timestamp epochs_drop drop_n", '1|"101.0"|10|0.5'),
        table("oadaptation", "id new_lrate @timestamp epoch_id", '1|0.05|"106.0"|1', "2|NULL|NULL|NULL"),
    )
    [adapted] = events_of(run, events.Adapted)
    assert (adapted.location, adapted.parameters) == ("training/2", {"epochs_drop": 10, "drop_n": 0.5})


def test_escapes_in_texts_are_read(tmp_path: Path):
    settings = SETTINGS.replace("learning_rate", "note").replace('"note" DOUBLE', '"note" VARCHAR(500)')
    [run] = read(tmp_path, settings.replace("|0.1|2", r'|"a \"b\"\n\tc | \\ \303\251"|2'), EPOCHS)
    [begin] = [event for event in events_of(run, events.Begin) if event.kind == "training"]
    assert begin.values["note"] == 'a "b"\n\tc | \\ é'


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ((SETTINGS, EPOCHS.replace("COPY 2", "COPY 9")), "the file ends 7 rows before the end of a table"),
        (
            (SETTINGS.replace('"100.0"', '"soon"'), EPOCHS),
            "ds_itrainingmodel has the timestamp 'soon', which is no time",
        ),
        ((SETTINGS.replace('"100.0"', '"1e300"'), EPOCHS), "has the timestamp '1e300', which is no time"),
        ((SETTINGS.replace('"100.0"|', '"100.0"x|'), EPOCHS), "text follows the end of a value at column 10"),
    ],
)
def test_damage_is_an_error_with_its_place(tmp_path: Path, tables: tuple[str, ...], message: str):
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path, *tables)
    assert message in str(caught.value)


def test_long_rows_are_read_in_linear_time(tmp_path: Path):
    started = time.process_time()
    with pytest.raises(FileFormatError):
        read(tmp_path, SETTINGS.replace("|0.1|", "|" + " " * 200_000 + "|"), EPOCHS)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("text", [HEAD, PIPES, SETTINGS + EPOCHS, "-- notes\n" * 1000 + HEAD])
def test_a_dump_is_recognised(tmp_path: Path, text: str):
    assert dnnprov.DfAnalyzerDump().recognises(dump(tmp_path, text))


@pytest.mark.parametrize("text", ["", "SELECT 1;", 'CREATE TABLE "a"."b" (\n);', "\x00\x01", "{}"])
def test_other_files_are_not_recognised(tmp_path: Path, text: str):
    assert not dnnprov.DfAnalyzerDump().recognises(dump(tmp_path, text))
    assert not dnnprov.DfAnalyzerDump().recognises(tmp_path)
    assert not dnnprov.DfAnalyzerDump().recognises(tmp_path / "none.sql")


@needs_dump
def test_the_account_of_the_authors_dump_adds_up(tmp_path: Path):
    totals = read_dump(DUMP, tmp_path / "home").totals
    assert totals.is_complete
    epochs, tests = rows("ds_otrainingmodel"), rows("ds_otestingmodel")
    assert totals.tally(POINTS).source >= 2 * len(epochs) + len(tests)
    assert totals.tally(POINTS).left_out == 0
    assert totals.tally(dnnprov.ADAPTATIONS).source == len(rows("ds_oadaptation"))


def test_the_account_names_what_is_left_out(tmp_path: Path):
    [run] = read(tmp_path, SETTINGS, EPOCHS.replace("|0.25|1", "|0.25|NULL"))
    assert isinstance(run, SourceRun)
    list(run.events)
    assert run.losses.is_complete
    assert run.losses.tally(POINTS).left_out == 1
    assert [str(remark) for remark in run.losses.losses] == ["metric points: rows of epochs without a number"]
