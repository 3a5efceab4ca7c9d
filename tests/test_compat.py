"""Scripts written for dfa-lib-python record into provml by another import, and what they record can be asked."""

from __future__ import annotations

import importlib
import io
import json
import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from journals import told_in

import provml
from provml import event
from provml.compat.dfa_lib_python import (
    Attribute,
    AttributeType,
    Dataflow,
    DataSet,
    Dependency,
    Element,
    Extractor,
    ExtractorCartridge,
    ExtractorExtension,
    File,
    MethodType,
    Performance,
    Program,
    RawDataExtractor,
    RawDataIndexer,
    Set,
    SetType,
    Task,
    TaskStatus,
    Transformation,
)
from provml.compat.dfa_lib_python import execution as execution_room
from provml.errors import NoSuchTag, WrongType, WrongValue
from provml.event import Adapted, Begin, Done, Implementation, Layers, Measured, Parameter, Produced, Ran
from provml.validation import validate
from provml.validation.constraints import check

SCRIPT = """
    import math, sys, time
    from datetime import datetime

    from provml.compat.dfa_lib_python.dataflow import Dataflow
    from provml.compat.dfa_lib_python.transformation import Transformation
    from provml.compat.dfa_lib_python.attribute import Attribute
    from provml.compat.dfa_lib_python.attribute_type import AttributeType
    from provml.compat.dfa_lib_python.set import Set
    from provml.compat.dfa_lib_python.set_type import SetType
    from provml.compat.dfa_lib_python.task import Task
    from provml.compat.dfa_lib_python.dataset import DataSet
    from provml.compat.dfa_lib_python.element import Element

    rate, dropout, filter_name = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    epochs, drop, epochs_drop = 6, 0.5, 3.0

    df = Dataflow("cubenet")
    tf0 = Transformation("Filters")
    tf0_in = Set("iFilters", SetType.INPUT, [
        Attribute("DATASET_NAME", AttributeType.TEXT), Attribute("RAW", AttributeType.FILE)])
    tf0_out = Set("oFilters", SetType.OUTPUT, [
        Attribute("FILTER_NAME", AttributeType.TEXT), Attribute("TIMESTAMP", AttributeType.TEXT)])
    tf0.set_sets([tf0_in, tf0_out])
    df.add_transformation(tf0)
    tf1 = Transformation("TrainingModel")
    tf1_in = Set("iTrainingModel", SetType.INPUT, [
        Attribute("OPTIMIZER_NAME", AttributeType.TEXT), Attribute("LEARNING_RATE", AttributeType.NUMERIC),
        Attribute("DROPOUT", AttributeType.NUMERIC), Attribute("NUM_EPOCHS", AttributeType.NUMERIC)])
    tf1_layers = Set("iLayers", SetType.INPUT, [
        Attribute("NAME", AttributeType.TEXT), Attribute("ATTRIBUTE_TYPE", AttributeType.TEXT),
        Attribute("VALUE", AttributeType.TEXT)])
    tf1_out = Set("oTrainingModel", SetType.OUTPUT, [
        Attribute("TIMESTAMP", AttributeType.TEXT), Attribute("ELAPSED_TIME", AttributeType.TEXT),
        Attribute("LOSS", AttributeType.NUMERIC), Attribute("ACCURACY", AttributeType.NUMERIC),
        Attribute("VAL_LOSS", AttributeType.NUMERIC), Attribute("EPOCH", AttributeType.NUMERIC)])
    tf1.set_sets([tf1_in, tf1_layers, tf1_out])
    df.add_transformation(tf1)
    tf2 = Transformation("Adaptation")
    tf2_in = Set("iAdaptation", SetType.INPUT, [
        Attribute("EPOCHS_DROP", AttributeType.NUMERIC), Attribute("DROP_N", AttributeType.NUMERIC)])
    tf2_out = Set("oAdaptation", SetType.OUTPUT, [
        Attribute("NEW_LRATE", AttributeType.NUMERIC), Attribute("TIMESTAMP", AttributeType.TEXT),
        Attribute("EPOCH_ID", AttributeType.NUMERIC), Attribute("ADAPTATION_ID", AttributeType.NUMERIC),
        Attribute("TECHNIQUE", AttributeType.TEXT)])
    tf1_out.set_type(SetType.INPUT)
    tf1_out.dependency = tf1._tag
    tf2.set_sets([tf1_out, tf2_in, tf2_out])
    df.add_transformation(tf2)
    tf3 = Transformation("TestingModel")
    tf3_out = Set("oTestingModel", SetType.OUTPUT, [
        Attribute("LOSS", AttributeType.NUMERIC), Attribute("ACCURACY", AttributeType.NUMERIC)])
    tf3.set_sets([tf1_out, tf3_out])
    df.add_transformation(tf3)
    df.save()

    exec_tag = "cubenet-" + str(datetime.now())
    now = lambda: datetime.now().strftime("%Y-%m-%d %H:%M:%S")

    open("points.csv", "w").write("1,2,3")
    t0 = Task(0, "cubenet", exec_tag, "Filters")
    t0.add_dataset(DataSet("iFilters", [Element(["points", "points.csv"])]))
    t0.begin()
    t0.add_dataset(DataSet("oFilters", [Element([filter_name, now()])]))
    t0.end()

    t1 = Task(1, "cubenet", exec_tag, "TrainingModel", dependency=t0)
    t1.add_dataset(DataSet("iTrainingModel", [Element(["SGD", rate, dropout, epochs])]))
    layers = [Element(["activation_1", "activation", "relu"]), Element(["dropout_1", "dropout", dropout])]
    t1.add_dataset(DataSet("iLayers", layers))
    t1.begin()
    t2 = Task(2, "cubenet", exec_tag, "Adaptation", dependency=t1)
    t2.add_dataset(DataSet("iAdaptation", [Element([epochs_drop, drop])]))
    t2.begin()
    points, weight, changes, initial = [(x / 10, x / 5) for x in range(1, 20)], 0.0, 0, rate
    for epoch in range(epochs):
        started = time.time()
        new = initial * math.pow(drop, math.floor((1 + epoch) / epochs_drop))
        if rate != new:
            rate, changes = new, changes + 1
            t2.add_dataset(DataSet("oAdaptation", [Element([rate, now(), epoch, changes, "LRS"])]))
            t2.save()
        for x, y in points:
            weight += rate * (y - weight * x) * x
        loss = sum((y - weight * x) ** 2 for x, y in points)
        time.sleep(0.002)
        row = [now(), time.time() - started, loss, 1 / (1 + loss), loss * 1.1, epoch]
        t1.add_dataset(DataSet("oTrainingModel", [Element(row)]))
        if len(sys.argv) > 4 and epoch == 2:
            t1.save()
            raise ZeroDivisionError("diverged")
        t1.end() if epoch == epochs - 1 else t1.save()
    t2.end()

    t3 = Task(3, "cubenet", exec_tag, "TestingModel", dependency=t1)
    t3.begin()
    t3.add_dataset(DataSet("oTestingModel", [Element([loss, 1 / (1 + loss)])]))
    t3.end()
    print(loss)
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test records below a folder of its own; the runs that it began end with it."""
    monkeypatch.chdir(tmp_path)
    for name in ("PROVML_RUN", "PROVML_HOME", "PROVML_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    yield
    finish()


def finish() -> None:
    for executions in list(execution_room._all.values()):
        for one in executions.values():
            one.finish()
    execution_room._all.clear()
    dataflow_room = importlib.import_module("provml.compat.dfa_lib_python.dataflow")
    dataflow_room._declared.clear()


def in_python(program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=120, env={**os.environ})


def told(kind: type[Any], run: str = "*") -> list[Any]:
    paths = sorted(Path(".provml/runs").glob(f"{run}/*.jsonl"))
    return [what for path in paths for what in told_in(path) if isinstance(what, kind)]


def rows(answer: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in answer.rows]


# ---- a script of DNNProv's


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The script in three trainings: it filters, trains with an adaptation, and tests. The third one raises."""
    folder = tmp_path_factory.mktemp("scripts")
    program = textwrap.dedent(SCRIPT)
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PROVML_")}
    for arguments in (["0.05", "0.4", "gray-scale"], ["0.001", "0.5", "none"], ["0.01", "0.4", "none", "fails"]):
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=bare, timeout=120)
        assert done.returncode == (1 if "fails" in arguments else 0), done.stderr
    with provml.open(folder / ".provml") as store:
        yield store


def of(store: Any, *said: str) -> Any:
    """The run with a hyperparameter's value."""
    for run in store.runs():
        values = dict(
            rows(
                store.query(
                    f"""SELECT ?name ?value {{ ?t a provml:TrainingExecution ; prov:used ?v ;
                        provlake:wasMemberOfWorkflowExecution <{run.iri}> . ?v prov:value ?value ;
                        provlake:wasDerivedFromAttribute/rdfs:label ?name }}"""
                )
            )
        )
        if values["learning_rate"] == float(said[0]):
            return run, values
    raise AssertionError(said)


def test_each_process_is_a_run_of_its_own_named_by_its_execution(store: Any):
    runs = store.runs()
    assert len(runs) == 3
    assert all("cubenet-20" in run.id for run in runs)
    assert sorted(run.status for run in runs) == ["FAILED", "FINISHED", "FINISHED"]


def test_hyperparameters_are_recorded_as_values_and_not_as_text(store: Any):
    _, values = of(store, "0.05")
    assert values["optimizer_name"] == "SGD"
    assert values["num_epochs"] == 6
    assert values["dropout"] == 0.4


def test_q1_gives_the_loss_at_an_epoch_counted_from_one(store: Any):
    run, _ = of(store, "0.05")
    by_epoch = rows(store.ask("q3", model="cubenet", run=run.iri))
    assert [row[1] for row in by_epoch] == [1, 2, 3, 4, 5, 6]
    [one] = rows(store.ask("q1", model="cubenet", run=run.iri, epoch=4))
    assert one[1:] == (4, by_epoch[3][3])
    assert [row[3] for row in by_epoch] == sorted((row[3] for row in by_epoch), reverse=True)


def test_q3_gives_the_time_that_the_script_measured(store: Any):
    run, _ = of(store, "0.05")
    assert all(0.002 <= row[2] < 1 for row in rows(store.ask("q3", model="cubenet", run=run.iri)))


def test_q2_gives_the_layers(store: Any):
    run, _ = of(store, "0.05")
    found = rows(store.ask("q2", model="cubenet", run=run.iri))
    assert [row[2:4] for row in found] == [("activation_1", "activation"), ("dropout_1", "dropout")]
    assert found[1][-1] == "dropout=0.4"


def test_q4_and_q5_give_the_hyperparameters_of_the_best(store: Any):
    [(_, initial, _)] = rows(store.ask("q4", model="cubenet"))
    assert initial == 0.05
    best, second = rows(store.ask("q5", model="cubenet"))
    assert "learning_rate=0.05" in best[2]
    assert "learning_rate=0.001" in second[2]


def test_q6_gives_the_adaptations_with_their_technique_and_nothing_spurious(store: Any):
    found = rows(store.ask("q6", model="cubenet"))
    assert [row[2:] for row in found] == [(3, 0.05, 0.025, "LRS"), (6, 0.025, 0.0125, "LRS")]


def test_q7_and_q8_give_the_filters(store: Any):
    assert {row[1] for row in rows(store.ask("q7", model="cubenet", value=0.4))} == {"gray-scale", "none"}
    assert [(row[1], row[3]) for row in rows(store.ask("q8", model="cubenet"))] == [("gray-scale", 6), ("none", 6)]


def test_the_adapted_rate_is_in_force_in_its_epoch(store: Any):
    run, _ = of(store, "0.05")
    found = rows(
        store.query(
            f"""SELECT ?epoch ?rate {{ ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?epoch ;
                provml:wasSectionOf/provlake:wasMemberOfWorkflowExecution <{run.iri}> ;
                provml:hyperparameterInForce ?h . ?h prov:value ?rate ;
                provlake:wasDerivedFromAttribute/rdfs:label "learning_rate" }} ORDER BY ?epoch"""
        )
    )
    assert found == [(1, 0.05), (2, 0.05), (3, 0.025), (4, 0.025), (5, 0.025), (6, 0.0125)]


def test_validation_is_a_twin_of_each_epoch(store: Any):
    run, _ = of(store, "0.05")
    found = rows(
        store.query(
            f"""SELECT ?epoch {{ ?v a provml:ValidationEpochExecution ; prov:wasInformedBy ?e .
                ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?epoch ;
                provml:wasSectionOf/provlake:wasMemberOfWorkflowExecution <{run.iri}> }} ORDER BY ?epoch"""
        )
    )
    assert [row[0] for row in found] == [1, 2, 3, 4, 5, 6]


def test_a_script_that_raised_is_a_run_that_failed_with_its_open_tasks(store: Any):
    run, _ = of(store, "0.01")
    assert run.status == "FAILED"
    found = rows(
        store.query(
            f"""SELECT ?status ?type ?message {{ ?t a provml:TrainingExecution ; provlake:status ?status ;
                provlake:exceptionType ?type ; provlake:exceptionMessage ?message ;
                provlake:wasMemberOfWorkflowExecution <{run.iri}> }}"""
        )
    )
    assert found == [("FAILED", "ZeroDivisionError", "diverged")]
    assert len(rows(store.ask("q3", model="cubenet", run=run.iri))) == 3


def test_the_declared_workflow_is_the_plan_with_its_types(store: Any):
    found = rows(
        store.query(
            """SELECT ?step ?name ?type { ?version provlake:version ?number ;
               provml:hasLearningStage ?s . ?s rdfs:label ?step ; provlake:hasInputAttribute ?a .
               ?a rdfs:label ?name ; provlake:datatype ?type } ORDER BY ?step ?name"""
        )
    )
    assert found == [
        ("TrainingModel", "dropout", "double"),
        ("TrainingModel", "learning_rate", "double"),
        ("TrainingModel", "num_epochs", "double"),
        ("TrainingModel", "optimizer_name", "string"),
    ]


def test_the_runs_conform_to_all_shapes(store: Any):
    for run in store.runs():
        file = io.BytesIO()
        store.export(run.id, file, "nt")
        report = validate(file.getvalue())
        assert report, str(report)
    assert store.problems == []


# ---- what the originals lose, and what is refused


def dataflow(tag: str = "net") -> Dataflow:
    made = Dataflow(tag, hyperparameters=True)
    made.save()
    return made


def epoch(number: int, loss: Any = 0.5, elapsed: Any = 1.5) -> DataSet:
    return DataSet("oTrainingModel", [Element(["now", elapsed, loss, 0.9, loss, 0.8, number])])


def training(*, exec_tag: str | None = None) -> Task:
    task = Task(1, "net", *([exec_tag] if exec_tag else []), "TrainingModel")
    task.add_dataset(DataSet("iTrainingModel", [Element(["Adam", "0.001", 20, 33])]))
    task.begin()
    return task


def test_every_module_and_class_is_where_the_original_has_it():
    places = {
        "dataflow": "Dataflow",
        "transformation": "Transformation",
        "attribute": "Attribute",
        "attribute_type": "AttributeType",
        "set": "Set",
        "set_type": "SetType",
        "task": "Task",
        "dataset": "DataSet",
        "element": "Element",
        "dependency": "Dependency",
        "task_status": "TaskStatus",
        "extractor": "Extractor",
        "extractor_cartridge": "ExtractorCartridge",
        "extractor_extension": "ExtractorExtension",
        "program": "Program",
        "file": "File",
        "performance": "Performance",
        "method_type": "MethodType",
        "raw_data_extractor": "RawDataExtractor",
        "raw_data_indexer": "RawDataIndexer",
    }
    package = importlib.import_module("provml.compat.dfa_lib_python")
    for module, name in places.items():
        held = getattr(importlib.import_module(f"provml.compat.dfa_lib_python.{module}"), name)
        assert getattr(package, name) is held
    base = importlib.import_module("provml.compat.dfa_lib_python.ProvenanceObject").ProvenanceObject
    assert issubclass(package.Task, base)


def test_two_data_sets_added_before_begin_are_both_kept():
    dataflow()
    train = Task(1, "net", "TrainingModel")
    train.add_dataset(DataSet("iTrainingModel", [Element(["Adam", "0.001", 20, 33])]))
    train.add_dataset(epoch(0))
    train.add_dataset(epoch(1))
    train.begin()
    train.end()
    assert told(Parameter)[0].values["learning_rate"] == 0.001
    assert [one.index for one in told(Begin) if one.at.startswith("TrainingModel/")] == [1, 2]


def test_rows_are_told_once_however_often_they_are_saved():
    dataflow()
    train = training()
    train.add_dataset(epoch(0))
    train.save()
    train.save()
    train.end()
    assert len([one for one in told(Measured) if one.at == "TrainingModel/1"]) == 1


def test_numbers_written_as_text_are_numbers_and_the_mark_of_nan_is_nan():
    dataflow()
    train = training()
    train.add_dataset(epoch(0, loss=-9999999))
    train.end()
    assert told(Parameter)[0].values == {
        "optimizer_name": "Adam",
        "learning_rate": 0.001,
        "num_epochs": 20,
        "num_layers": 33,
    }
    assert told(Measured)[0].values["loss"] == ["double", "NaN"]


def test_numpy_values_are_recorded_as_they_are():
    dataflow()
    train = training()
    train.add_dataset(epoch(0, loss=np.float32(0.25)))
    train.end()
    assert told(Measured)[0].values["loss"] == 0.25


@pytest.mark.parametrize(
    ("first", "numbers"), [(0, [1, 2, 3]), (1, [1, 2, 3]), (5, [5, 6, 7])], ids=["from 0", "from 1", "going on"]
)
def test_epochs_count_from_one_whichever_way_the_script_counts(first: int, numbers: list[int]):
    dataflow()
    train = training()
    for number in range(first, first + 3):
        train.add_dataset(epoch(number))
        train.save()
    train.end()
    assert [one.index for one in told(Begin) if one.at.startswith("TrainingModel/")] == numbers


@pytest.mark.parametrize(
    ("elapsed", "seconds"), [(2.5, 2.5), ("2.5", 2.5), (timedelta(minutes=1), 60), ("1 day, 0:00:01.5", 86401.5)]
)
def test_the_time_of_an_epoch_is_read_as_scripts_write_it(elapsed: Any, seconds: float):
    dataflow()
    train = training()
    train.add_dataset(epoch(0, elapsed=elapsed))
    train.end()
    [done] = [one for one in told(Done) if one.at == "TrainingModel/1"]
    assert done.s == pytest.approx(seconds, abs=0.1)


def test_a_time_that_cannot_be_read_is_what_has_passed():
    dataflow()
    train = training()
    train.add_dataset(epoch(0, elapsed="N/A"))
    train.end()
    [done] = [one for one in told(Done) if one.at == "TrainingModel/1"]
    assert 0 <= done.s < 60


def test_adaptations_that_change_nothing_are_left_out():
    dataflow()
    train = training()
    adapt = Task(2, "net", "Adaptation", dependency=train)
    adapt.add_dataset(DataSet("iAdaptation", [Element([10.0, 0.5, 0.001])]))
    adapt.begin()
    for number, rate in enumerate([float(np.float32(0.001)), 0.0005, 0.0005, 0.00025]):
        adapt.add_dataset(DataSet("oAdaptation", [Element([rate, "now", number, number])]))
        adapt.save()
        train.add_dataset(epoch(number))
        train.save()
    adapt.end()
    train.end()
    first, second = told(Adapted)
    assert (first.at, first.values) == ("TrainingModel/2", {"learning_rate": 0.0005})
    assert (second.at, second.values) == ("TrainingModel/4", {"learning_rate": 0.00025})
    assert first.parameters == {"epochs_drop": 10.0, "drop_n": 0.5, "initial_lrate": 0.001}


def test_an_adaptation_without_a_training_is_a_fault_and_the_script_goes_on(caplog: pytest.LogCaptureFixture):
    dataflow()
    adapt = Task(2, "net", "Adaptation")
    adapt.add_dataset(DataSet("oAdaptation", [Element([0.1, "now", 1, 1])]))
    adapt.end()
    assert "begin the task of the training first" in caplog.text


# ---- runs


def test_one_dataflow_is_one_run_and_another_begins_another():
    dataflow()
    training().end()
    test = Task(3, "net", "TestingModel")
    test.add_dataset(DataSet("oTestingModel", [Element([0.1, 0.9])]))
    test.end()
    dataflow()
    training().end()
    finish()
    with provml.open() as store:
        assert [run.status for run in store.runs()] == ["FINISHED", "FINISHED"]
    assert sorted(one.kind for one in told(Begin) if "/" not in one.at) == ["evaluation", "training", "training"]


def test_a_task_that_ended_and_comes_again_begins_another_run():
    dataflow()
    for _ in range(3):
        training().end()
    finish()
    with provml.open() as store:
        assert [run.status for run in store.runs()] == ["FINISHED"] * 3


def test_executions_are_told_apart_by_their_tags_and_end_when_they_are_over():
    dataflow()
    one, two = training(exec_tag="net-1"), training(exec_tag="net-2")
    one.end()
    two.end()
    training(exec_tag="net-3")
    with provml.open() as store:
        found = {run.id.rpartition("-net-")[2]: run.status for run in store.runs()}
    assert found == {"1": "FINISHED", "2": "FINISHED", "3": "RUNNING"}


def test_a_task_of_an_execution_that_was_over_goes_into_its_run():
    dataflow()
    training(exec_tag="net-1").end()
    training(exec_tag="net-2").end()
    test = Task(3, "net", "net-1", "TestingModel")
    test.add_dataset(DataSet("oTestingModel", [Element([0.1, 0.9])]))
    test.end()
    finish()
    with provml.open() as store:
        assert len(store.runs()) == 2
        [row] = rows(store.ask("q4", model="net"))
    assert "-net-1/" in row[0]


def test_a_run_that_is_handed_down_is_the_one_that_is_recorded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_RUN", "monday")
    dataflow()
    training(exec_tag="net-1").end()
    assert [path.name for path in Path(".provml/runs").iterdir()] == ["monday"]


def test_a_dataflow_may_be_declared_in_one_process_and_its_tasks_be_in_another():
    in_python(
        """
        from provml.compat.dfa_lib_python import *
        df = Dataflow("Split net")
        sizes = Set("iTile", SetType.INPUT, [Attribute("SIZE", AttributeType.NUMERIC)])
        df.add_transformation(Transformation("Tile", [sizes]))
        df.save()
        """
    )
    task = Task(1, "split net", "tile")
    task.add_dataset(DataSet("itile", [Element([4])]))
    task.end()
    assert not told(event.Run)[1:]
    assert (told(event.Run)[0].name, told(Parameter)[0].values) == ("Split net", {"size": 4})


def test_where_recording_is_off_nothing_is_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    dataflow()
    train = training()
    train.add_dataset(epoch(0))
    train.end()
    assert not Path(".provml").exists()


# ---- steps and files


def test_a_transformation_of_the_users_own_is_a_step_with_its_files_and_parameters():
    Path("a.csv").write_text("a")
    Path("b.csv").write_text("b")
    flow = Dataflow("net")
    taken = Set(
        "iTile", SetType.INPUT, [Attribute("SIZE", AttributeType.NUMERIC), Attribute("RAW", AttributeType.FILE)]
    )
    given = Set(
        "oTile", SetType.OUTPUT, [Attribute("TILES", AttributeType.FILE), Attribute("COUNT", AttributeType.NUMERIC)]
    )
    flow.add_transformation(Transformation("Tile", [taken, given]))
    given.set_type(SetType.INPUT)
    given.dependency = "tile"
    flow.add_transformation(Transformation("Count", [given]))
    flow.save()
    tile = Task(1, flow, "Tile")
    tile.set_datasets([DataSet("iTile", [Element([4, "a.csv"])]), DataSet("oTile", [Element(["b.csv", 9])])])
    tile.end()
    count = Task(2, flow, "Count")
    count.add_dependency(Dependency(["Tile"], [1]))
    count.end()
    data = {one.path: one for one in told(event.Data)}
    begun = {one.at: one for one in told(Begin)}
    assert (begun["Tile"].kind, told(Parameter)[0].values) == ("step", {"size": 4})
    assert (data["b.csv"].name, data["b.csv"].values) == ("tiles", {"count": 9})
    assert told(Produced)[0].ref == data["b.csv"].ref
    assert begun["Count"].using == [data["b.csv"].ref]


def test_the_predefined_transformations_of_dlprov_go_from_the_raw_data_to_the_test():
    for name in ("raw", "gray", "tx", "ty", "vx", "vy", "ex", "ey", "net.pth"):
        Path(name).write_text(name)
    flow = Dataflow("alexnet", predefined=True, email="bob@example.org")
    flow.save()
    load = Task(1, flow, "run-1", "LoadData")
    load.set_datasets([DataSet("iInputDataset", [Element(["flowers", "http://example.org"])])])
    load.begin()
    load.add_dataset(DataSet("oLoadData", [Element([Path("raw")])]))
    load.end()
    gray = Task(2, flow, "run-1", "ApplyFilter", dependency=load)
    gray.add_dataset(DataSet("iFilter", [Element(["Grayscale"])]))
    gray.begin()
    gray.add_dataset(DataSet("oFilter", [Element(["gray"])]))
    gray.end()
    split = Task(3, flow, "run-1", "SplitData", dependency=gray)
    split.add_dataset(DataSet("iSplitConfig", [Element(["80", "10", "10"])]))
    split.begin()
    split.add_dataset(DataSet("oTrainSet", [Element(["tx", "ty"])]))
    split.add_dataset(DataSet("oValSet", [Element(["vx", "vy"])]))
    split.add_dataset(DataSet("oTestSet", [Element(["ex", "ey"])]))
    split.end()
    train = Task(4, flow, "run-1", "Train", dependency=split)
    train.add_dataset(DataSet("iTrain", [Element(["Adam", 0.001, 2, 64, 4])]))
    train.begin()
    for number in (1, 2):
        train.add_dataset(DataSet("oTrain", [Element(["now", 0.1, 1 / number, 0.5, 1 / number, 0.5, number])]))
        train.save()
    train.add_dataset(DataSet("oTrainedModel", [Element(["net.pth", "net.pth"])]))
    train.end()
    test = Task(5, flow, "run-1", "Test", dependency=[split, train])
    test.begin()
    test.add_dataset(DataSet("oTest", [Element([0.4, 0.8])]))
    test.end()
    finish()
    with provml.open() as store:
        file = io.BytesIO()
        store.export("latest", file, "nt")
        report = validate(file.getvalue())
        assert report, str(report)
        assert store.problems == []
        assert [(row[1], row[3]) for row in rows(store.ask("q8", model="alexnet"))] == [("Grayscale", 2)]
        origins = store.query(
            """SELECT DISTINCT ?path { ?model a provml:Model ; (prov:wasGeneratedBy/prov:used)+ ?d .
               ?d provlake:path ?path } ORDER BY ?path"""
        )
        assert [row[0] for row in origins.rows] == ["gray", "raw", "tx", "ty", "vx", "vy"]
        tested = store.query(
            """SELECT ?path ?role { ?t a provml:EvaluationExecution ; prov:qualifiedUsage ?u .
               ?u prov:entity/provlake:path ?path ; prov:hadRole/rdfs:label ?role } ORDER BY ?path"""
        )
        assert [tuple(row) for row in tested.rows] == [("ex", "test role"), ("ey", "test role")]
        assert [row[0] for row in store.query("SELECT ?n { ?p a provml:Persona ; rdfs:label ?n }").rows] == [
            "bob@example.org"
        ]


@pytest.mark.parametrize("tag", ["TrainingModel", "Train"])
def test_a_bare_true_declares_what_the_first_task_is_of(tag: str):
    flow = Dataflow("net", True)
    flow.save()
    Task(1, "net", tag).end()
    own = {"trainingmodel", "adaptation", "testingmodel"}
    assert ({one["tag"] for one in flow.transformations} == own) is (tag == "TrainingModel")


def test_tasks_of_dnnprov_need_no_dataflow_in_their_process():
    Task(1, "undeclared", "TrainingModel").end()
    assert told(event.Run)[0].name == "undeclared"


def test_a_training_that_tells_nothing_of_its_data_conforms_as_well():
    dataflow()
    train = training()
    train.add_dataset(epoch(0))
    train.end()
    test = Task(3, "net", "TestingModel", dependency=train)
    test.add_dataset(DataSet("oTestingModel", [Element([0.1, 0.9])]))
    test.end()
    finish()
    with provml.open() as store:
        file = io.BytesIO()
        store.export("latest", file, "nt")
        report = validate(file.getvalue())
        assert report, str(report)


# ---- what surrounds a task

MESH = """
    import os, sys, time
    from datetime import datetime

    from provml.compat.dfa_lib_python.dataflow import Dataflow
    from provml.compat.dfa_lib_python.transformation import Transformation
    from provml.compat.dfa_lib_python.attribute import Attribute
    from provml.compat.dfa_lib_python.attribute_type import AttributeType
    from provml.compat.dfa_lib_python.set import Set
    from provml.compat.dfa_lib_python.set_type import SetType
    from provml.compat.dfa_lib_python.task import Task
    from provml.compat.dfa_lib_python.dataset import DataSet
    from provml.compat.dfa_lib_python.element import Element
    from provml.compat.dfa_lib_python.program import Program
    from provml.compat.dfa_lib_python.file import File
    from provml.compat.dfa_lib_python.performance import Performance
    from provml.compat.dfa_lib_python.method_type import MethodType
    from provml.compat.dfa_lib_python.extractor import Extractor
    from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
    from provml.compat.dfa_lib_python.extractor_extension import ExtractorExtension
    from provml.compat.dfa_lib_python.raw_data_extractor import RawDataExtractor

    now = lambda: datetime.now().strftime("%Y-%m-%d %H:%M:%S")
    residual = Attribute("RESIDUAL", AttributeType.NUMERIC)

    df = Dataflow("mesh-df")
    tf1 = Transformation("Solve")
    tf1_input = Set("iSolve", SetType.INPUT, [Attribute("STEP", AttributeType.NUMERIC)])
    tf1_output = Set("oSolve", SetType.OUTPUT, [Attribute("FIELD", AttributeType.FILE), residual],
        extractors=[Extractor("residuals", ExtractorCartridge.EXTRACTION, ExtractorExtension.CSV)])
    index = Extractor("cells", ExtractorCartridge.INDEXING, ExtractorExtension.FASTBIT)
    index.setTag, index.transformationTag, index.dataflowTag = "oSolve", "Solve", "mesh-df"
    tf1_output.add_extractor(index)
    tf1.set_sets([tf1_input, tf1_output])
    df.add_transformation(tf1)
    solver = Program("solver", "/opt/solver")
    solver.transformationTag, solver.dataflowTag = tf1._tag, "mesh-df"
    df.save()

    os.makedirs("meshes"), os.makedirs("tool/bin")
    open("meshes/square.msh", "w").write("0 0 1 1")
    open("tool/bin/RDE", "w").write("#!/bin/sh\\nsleep 0.01\\n")
    os.chmod("tool/bin/RDE", 0o755)
    os.environ["DFANALYZER_DIR"] = os.path.abspath("tool")
    for part in ("left", "right"):
        t1 = Task(1, "mesh-df", "mesh-monday", "Solve", part, None, "/scratch/mesh", "node07", "", "")
        t1.add_dataset(DataSet("iSolve", [Element([0.5])]))
        t1.add_file(File("meshes", "square.msh"))
        t1.begin()
        began = now()
        open(part + ".csv", "w").write(part)
        open(part + ".log", "w").write("log of " + part)
        t1.add_file(File(part + ".log", part + ".log"))
        t1.add_performance(Performance(began, now(), MethodType.COMPUTATION, "assembly"))
        RawDataExtractor(ExtractorCartridge.EXTRACTION, "cut -d, -f2", [residual]).run()
        t1.add_dataset(DataSet("oSolve", [Element([part + ".csv", 1e-6])]))
        t1._output = "converged on the " + part
        t1._error = "no convergence" if part == "right" else ""
        t1.end()
    assert (t1._id, t1._tag) == ("1", "solve")
"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A script of DfAnalyzer's, whose tasks say where they ran, what they wrote and what carried them out."""
    folder = tmp_path_factory.mktemp("mesh")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PROVML_")}
    command = [sys.executable, "-c", textwrap.dedent(MESH)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=bare, timeout=120)
    assert done.returncode == 0, done.stderr
    with provml.open(folder / ".provml") as store:
        yield store


def of_tasks(store: Any, path: str) -> list[tuple[Any, ...]]:
    return rows(
        store.query(
            f"""SELECT ?task ?said {{ ?t provlake:wasDerivedFromDataTransformation/rdfs:label "Solve" ;
                rdfs:label ?task ; {path} ?said }} ORDER BY ?task ?said"""
        )
    )


def test_tasks_of_one_id_are_one_run_and_are_called_by_it_and_their_sub_id(mesh: Any):
    assert len(mesh.runs()) == 1
    assert of_tasks(mesh, "provlake:status") == [("Solve 1.left", "FINISHED"), ("Solve 1.right", "FAILED")]


def test_the_workspace_is_the_location_of_a_task(mesh: Any):
    found = of_tasks(mesh, "prov:atLocation/rdfs:label")
    assert found == [("Solve 1.left", "/scratch/mesh"), ("Solve 1.right", "/scratch/mesh")]


def test_the_resource_is_an_environment_that_a_task_is_associated_with(mesh: Any):
    found = mesh.query(
        """SELECT DISTINCT ?name { ?t provlake:wasDerivedFromDataTransformation/rdfs:label "Solve" ;
           prov:wasAssociatedWith ?e . ?e a provlake:ExecutionEnvironment ; rdfs:label ?name }"""
    )
    assert rows(found) == [("node07",)]


def test_what_a_task_wrote_is_its_standard_output_and_error(mesh: Any):
    assert of_tasks(mesh, "provlake:standardOutput") == [
        ("Solve 1.left", "converged on the left"),
        ("Solve 1.right", "converged on the right"),
    ]
    assert of_tasks(mesh, "provlake:standardError") == [("Solve 1.right", "no convergence")]
    assert of_tasks(mesh, "provlake:exceptionMessage") == [("Solve 1.right", "no convergence")]


def test_the_program_of_a_transformation_carried_out_its_tasks(mesh: Any):
    found = mesh.query(
        """SELECT ?task ?name ?where { ?t rdfs:label ?task ; prov:wasAssociatedWith ?p . ?p a provml:Implementation ;
           rdfs:label ?name ; prov:atLocation/rdfs:label ?where } ORDER BY ?task"""
    )
    assert rows(found) == [("Solve 1.left", "solver", "/opt/solver"), ("Solve 1.right", "solver", "/opt/solver")]


def test_files_from_before_a_task_are_used_and_those_from_then_on_are_made(mesh: Any):
    used = of_tasks(mesh, "prov:used/provlake:path")
    assert used == [("Solve 1.left", "meshes/square.msh"), ("Solve 1.right", "meshes/square.msh")]
    made = of_tasks(mesh, "^prov:wasGeneratedBy/provlake:path")
    assert made == [(f"Solve 1.{one}", f"{one}.{end}") for one in ("left", "right") for end in ("csv", "log")]


def test_a_performance_is_a_part_of_its_task_with_the_kind_of_work_as_tag(mesh: Any):
    found = mesh.query(
        """SELECT ?task ?part ?tag { ?p prov:wasInformedBy ?t ; provlake:wasDerivedFromDataTransformation ?plan .
           ?plan provlake:tag ?tag ; rdfs:label "Solve computation" . ?p rdfs:label ?part ; provlake:status "FINISHED" ;
           provml:elapsedSeconds ?s . ?t rdfs:label ?task FILTER(?s < 60) } ORDER BY ?task"""
    )
    assert rows(found) == [(f"Solve 1.{one}", "assembly", "Computation") for one in ("left", "right")]


def test_extractors_are_steps_of_the_plan_from_the_files_of_a_set_to_its_rows(mesh: Any):
    found = mesh.query(
        """SELECT ?name ?what ?from ?to { ?version provlake:version ?v ; provlake:hasDataTransformation ?e .
           ?e rdfs:label ?name ; rdfs:comment ?what ; provlake:hasInputAttribute/rdfs:label ?from ;
              provlake:hasOutputAttribute/rdfs:label ?to } ORDER BY DESC(?name)"""
    )
    assert rows(found) == [
        ("residuals", "extraction (CSV)", "field", "osolve"),
        ("cells", "indexing (FASTBIT)", "field", "osolve"),
    ]
    assert rows(mesh.query('SELECT ?x { ?x a provml:FeatureExtraction ; rdfs:label "residuals" }'))


def test_an_extraction_that_a_script_runs_is_a_part_of_the_task_that_runs(mesh: Any):
    found = mesh.query(
        """SELECT ?task ?status { ?e a provml:FeatureExtractionExecution ; provlake:status ?status ;
           prov:wasInformedBy/rdfs:label ?task } ORDER BY ?task"""
    )
    assert rows(found) == [("Solve 1.left", "FINISHED"), ("Solve 1.right", "FINISHED")]


def test_what_surrounds_tasks_conforms_to_all_shapes_and_constraints(mesh: Any):
    file = io.BytesIO()
    mesh.export("latest", file, "nt")
    report = validate(file.getvalue())
    assert report, str(report)
    verdict = check(file.getvalue())
    assert verdict, str(verdict)
    assert mesh.problems == []


def test_a_transformation_that_is_declared_twice_has_the_sets_of_both():
    flow = Dataflow("net")
    for title in ("iTile", "iMore"):
        held = Set(title, SetType.INPUT, [Attribute(title[1:], AttributeType.NUMERIC)])
        flow.add_transformation(Transformation("Tile", [held]))
    tile = Task(1, flow, "Tile")
    tile.set_datasets([DataSet("iTile", [Element([4])]), DataSet("iMore", [Element([5])])])
    tile.end()
    assert [one.values for one in told(Parameter)] == [{"tile": 4}, {"more": 5}]
    assert list(told(event.Workflow)[0].said["transformations"]["Tile"]["inputs"]) == ["more", "tile"]


def test_a_program_may_be_added_to_a_transformation_and_is_kept_for_other_processes():
    flow = Dataflow("kept net")
    tile = Transformation("Tile")
    tile.add_program(Program("tiler.py", "/opt/tiler"))
    flow.add_transformation(tile)
    flow.save()
    in_python('from provml.compat.dfa_lib_python import *; Task(1, "kept net", "Tile").end()')
    assert [(one.at, one.name, one.where) for one in told(Implementation)] == [("Tile", "tiler.py", "/opt/tiler")]


def test_a_program_tagged_for_another_dataflow_carries_out_nothing_here():
    other = Program("other.py", "/opt")
    other.transformationTag, other.dataflowTag = "Tile", "another"
    flow = Dataflow("net", [Transformation("Tile")])
    Task(1, flow, "Tile").end()
    assert told(Implementation) == []


def test_files_of_a_training_are_its_data_and_do_not_go_on_to_its_test():
    for name in ("data.csv", "train.log"):
        Path(name).write_text(name)
    dataflow()
    train = Task(1, "net", "TrainingModel")
    train.add_file(File("data.csv", "data.csv"))
    train.begin()
    train.add_file(File("train.log", "train.log"))
    train.add_dataset(epoch(0))
    train.end()
    test = Task(3, "net", "TestingModel", dependency=train)
    test.add_dataset(DataSet("oTestingModel", [Element([0.1, 0.9])]))
    test.end()
    data = {one.ref: one.name for one in told(event.Data)}
    used = [(one.at, data[one.ref], one.role) for one in told(event.Used)]
    assert used == [("TrainingModel", "data.csv", "training"), ("TestingModel", "net", "model")]
    assert [data[one.ref] for one in told(Produced)] == ["train.log", "net"]


def test_a_file_may_stand_where_a_path_does():
    Path("raw").mkdir()
    Path("raw/a.csv").write_text("a")
    flow = Dataflow("net")
    taken = Set("iTile", SetType.INPUT, [Attribute("RAW", AttributeType.FILE)])
    flow.add_transformation(Transformation("Tile", [taken]))
    tile = Task(1, flow, "Tile")
    tile.add_dataset(DataSet("iTile", [Element([File("raw", "a.csv")])]))
    tile.end()
    assert [one.path for one in told(event.Data)] == [str(Path("raw/a.csv"))]
    assert str(File("raw/a.csv", "a.csv")) == str(File("raw/a.csv", "the raw data")) == "raw/a.csv"


def test_a_task_that_failed_by_an_error_keeps_what_the_script_says_of_it():
    dataflow()
    train = training()
    try:
        raise MemoryError("too big")
    except MemoryError:
        train._error = "out of memory in epoch 3"
        train.end()
    [done] = [one for one in told(Done) if one.at == "TrainingModel"]
    assert done.error == ["MemoryError", "too big"]
    assert [one.errors for one in told(Ran) if one.errors] == ["out of memory in epoch 3"]


def test_what_is_said_by_position_or_by_name_is_the_same():
    flow = Dataflow("net", [Transformation("Tile")])
    Task(1, flow, "one", "Tile", 0, None, Path("/scratch"), "node07", "done", "").end()
    Task(
        1, flow, "two", "Tile", sub_id=0, workspace=Path("/scratch"), resource="node07", output="done", dependency=None
    ).end()
    by_position, by_name = told(Ran, "*-one"), told(Ran, "*-two")
    assert by_position == by_name == [Ran("Tile", "Tile 1.0", "/scratch", "node07"), Ran("Tile", output="done")]


def test_a_performance_whose_times_cannot_be_read_is_a_fault_that_says_so(caplog: pytest.LogCaptureFixture):
    flow = Dataflow("net", [Transformation("Tile")])
    tile = Task(1, flow, "Tile")
    tile.add_performance(Performance("yesterday", "today", MethodType.COMPUTATION))
    tile.end()
    assert "a time such as 2026-01-31 10:00:00" in caplog.text
    assert [one.at for one in told(Begin)] == ["Tile"]


def test_a_performance_of_any_other_method_is_a_step():
    flow = Dataflow("net", [Transformation("Tile")])
    tile = Task(1, flow, "Tile")
    tile.begin()
    tile.add_performance(Performance("2026-01-31 10:00:00", "2026-01-31T10:00:01.5", "training"))
    tile.add_performance(Performance("2026-01-31 10:00:00+01:00", "2026-01-31 09:00:02+00:00"))
    tile.end()
    parts = [(one.kind, one.name, one.during) for one in told(Begin)[1:]]
    assert parts == [("step", "Tile training", "Tile"), ("step", "Tile part", "Tile")]
    assert [one.s for one in told(Done)[:2]] == [1.5, 2.0]


def test_an_extraction_that_fails_is_told_and_the_script_goes_on(monkeypatch: pytest.MonkeyPatch):
    Path("bin").mkdir()
    Path("bin/RDE").write_text("#!/bin/sh\nexit 3\n")
    Path("bin/RDE").chmod(0o755)
    monkeypatch.setenv("DFANALYZER_DIR", str(Path.cwd()))
    index = RawDataIndexer(
        ExtractorCartridge.INDEXING, "cells", ".", "a b.csv", [Attribute("X", AttributeType.TEXT)], "-bin 10"
    )
    assert index.get_command_line() == f"{Path.cwd()}/bin/RDE INDEXING:INDEX cells . 'a b.csv' '[X:TEXT]' -bin 10"
    index.run()  # of no task
    flow = Dataflow("net", [Transformation("Tile")])
    tile = Task(1, flow, "Tile")
    tile.begin()
    index.run()
    monkeypatch.setenv("DFANALYZER_DIR", "/nowhere")
    with pytest.raises(FileNotFoundError):
        RawDataExtractor(ExtractorCartridge.EXTRACTION, "cut", []).run()
    tile.end()
    indexed, extracted, whole = told(Done)
    assert [(one.kind, one.name) for one in told(Begin)[1:]] == [("indexing", "cells"), ("extraction", "extractor")]
    assert (indexed.status, indexed.error[0]) == ("FAILED", "CalledProcessError")
    assert (extracted.status, extracted.error[0], whole.status) == ("FAILED", "FileNotFoundError", "FINISHED")


def test_an_adaptation_is_told_by_its_training_and_what_is_said_besides_is_left_out():
    dataflow()
    train = training()
    adapt = Task(2, "net", "Adaptation", dependency=train, workspace="/scratch", output="halved")
    adapt.add_performance(Performance("2026-01-31 10:00:00", "2026-01-31 10:00:01"))
    adapt.begin()
    adapt.add_dataset(DataSet("oAdaptation", [Element([0.0005, "now", 0, 1])]))
    adapt.end()
    train.end()
    assert [one.name for one in told(Ran)] == ["TrainingModel 1"]
    assert len(told(Adapted)) == 1


# ---- errors


def test_a_task_ended_while_an_error_is_handled_has_failed_with_it():
    dataflow()
    train = training()
    try:
        raise MemoryError("too big")
    except MemoryError:
        train.end()
    assert train.status is TaskStatus.FAILED
    [done] = [one for one in told(Done) if one.at == "TrainingModel"]
    assert (done.status, done.error) == ("FAILED", ["MemoryError", "too big"])
    assert not told(Produced)


def test_an_error_that_was_there_before_the_task_is_not_its_own():
    dataflow()
    try:
        raise KeyError("old")
    except KeyError:
        train = training()
        train.end()
    assert train.status is TaskStatus.FINISHED


def test_an_error_that_the_script_tells_in_words_is_recorded():
    dataflow()
    train = Task(1, "net", "TrainingModel", error="no convergence")
    train.end()
    [done] = told(Done)
    assert (done.status, done.error) == ("FAILED", ["TaskError", "no convergence"])


def test_an_unknown_transformation_is_refused_with_those_that_are_declared():
    dataflow()
    with pytest.raises(NoSuchTag, match=r"'Trainig'\. It declares TrainingModel, Adaptation, TestingModel\. Mend"):
        Task(1, "net", "exec", "Trainig")


def test_an_unknown_set_is_refused_with_those_that_are_declared():
    dataflow()
    train = Task(1, "net", "TrainingModel")
    with pytest.raises(NoSuchTag, match=r"'oTraining'\. It declares iTrainingModel, oTrainingModel."):
        train.add_dataset(DataSet("oTraining", [Element([1])]))


def test_an_unknown_dataflow_is_refused():
    with pytest.raises(NoSuchTag, match=r"Declare it before its tasks, with Dataflow\('nett', …\).save\(\)."):
        Task(1, "nett", "Tile")


def test_a_row_that_does_not_fit_its_set_is_a_fault_that_says_so_and_keeps_what_fits(caplog: pytest.LogCaptureFixture):
    dataflow()
    train = Task(1, "net", "TrainingModel")
    train.add_dataset(DataSet("iTrainingModel", [Element(["Adam", 0.1])]))
    train.end()
    assert "takes 4 values for iTrainingModel (OPTIMIZER_NAME, LEARNING_RATE, NUM_EPOCHS, NUM_LAYERS)" in caplog.text
    assert told(Parameter)[0].values == {"optimizer_name": "Adam", "learning_rate": 0.1}


def test_what_is_no_number_is_a_fault_and_left_out(caplog: pytest.LogCaptureFixture):
    dataflow()
    train = training()
    train.add_dataset(epoch(0, loss="high"))
    train.end()
    assert "a number for LOSS" in caplog.text
    assert told(Measured)[0].values == {"accuracy": 0.9}


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Attribute("A", "NUMERIC"), "Attribute.type takes a AttributeType"),
        (lambda: Set("s", SetType.INPUT, Attribute("A", AttributeType.TEXT)), "a list of Attribute"),
        (lambda: Element(3), "Element.values takes a list"),
        (lambda: DataSet("d", [3]), "DataSet.elements takes a Element"),
        (lambda: Dataflow(3), "Dataflow.tag takes text"),
        (lambda: Program("p", 3), "Program.path takes text"),
        (lambda: Transformation("t").add_program("p"), "Transformation.programs takes a Program"),
        (lambda: Task(1, Dataflow("n", predefined=True), "Train").add_file("a"), "Task.file takes a File"),
        (lambda: Task(1, 3, "Train"), "the tag of a dataflow"),
        (lambda: Task(1, Dataflow("n", predefined=True), "Train", colour="red"), "nothing by that name"),
        (lambda: Task(1, Dataflow("n", predefined=True), "Train", dependency=3), "a Task or several"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_at_its_line(make: Any, error: str):
    with pytest.raises(WrongType, match=error):
        make()


def test_sides_and_dependencies_that_do_not_fit_are_refused():
    with pytest.raises(WrongValue, match="sets of type INPUT"):
        Transformation("t").input = [Set("s", SetType.OUTPUT, [])]
    with pytest.raises(WrongValue, match="one for each tag"):
        Dependency(["a", "b"], [1])


# ---- specifications


def test_a_specification_is_that_of_the_original():
    flow = Dataflow("Net")
    out = Set("oTile", SetType.OUTPUT, [Attribute("COUNT", AttributeType.NUMERIC)])
    out.add_extractor(Extractor("rows", ExtractorCartridge.EXTRACTION, ExtractorExtension.CSV))
    tile = Transformation("Tile")
    tile.add_set(out)
    out.set_type(SetType.INPUT)  # the transformation has it as it was
    flow.add_transformation(tile)
    assert json.loads(json.dumps(flow.get_specification())) == {
        "tag": "net",
        "transformations": [
            {
                "tag": "tile",
                "sets": [
                    {
                        "tag": "otile",
                        "attributes": [{"name": "COUNT", "type": "NUMERIC"}],
                        "type": "OUTPUT",
                        "extractors": [{"tag": "rows", "cartridge": "EXTRACTION", "extension": "CSV"}],
                    }
                ],
            }
        ],
    }
    task = Task(7, flow, "Tile")
    task.add_dataset(DataSet("oTile", [Element([3])]))
    said = task.get_specification()
    assert said["sets"] == [{"tag": "otile", "elements": [["3"]]}]
    assert (said["id"], said["status"], said["dataflow"]) == ("7", "READY", "net")


def test_what_objects_hold_is_plain_data_by_the_names_of_the_original_and_can_be_set():
    size = Attribute("SIZE", AttributeType.NUMERIC)
    held = Set("iTile", SetType.INPUT, [size])
    tile = Transformation("Tile", [held])
    flow = Dataflow("Net", transformations=[tile])
    assert flow.transformations == [{"tag": "tile", "sets": tile.sets}]
    assert tile.sets == tile.input == [held.get_specification()]
    assert (tile.output, held.attributes, held.type) == ([], [{"name": "SIZE", "type": "NUMERIC"}], "INPUT")
    size.name, size.type = "WIDTH", AttributeType.TEXT
    assert str(size) == "WIDTH:TEXT"
    tile.sets = [Set("oTile", SetType.OUTPUT, [])]
    flow.transformations = [tile]
    assert (flow.transformations[0]["sets"], tile.input) == (tile.output, [])
    rows_of = DataSet("iTile", [Element([1, 0.5])])
    assert rows_of.elements == [["1", "0.5"]]
    one = Element([1])
    one.values = ["a", 2]
    assert one.values == ["a", "2"]
    before = Dependency(["Tile"], [1])
    before.tags, before.ids = ["Tile", "Count"], [1, 2]
    assert (before.tags, before.ids) == ([{"tag": "Tile"}, {"tag": "Count"}], [{"id": 1}, {"id": 2}])
    assert before.pairs == [("tile", "1"), ("count", "2")]


def test_programs_extractors_and_performances_are_plain_data_by_the_names_of_the_original():
    program = Program("tiler.py", "/opt")
    program.name, program.path, program.transformationTag = "tile.py", "/opt/tile", "tile"
    assert program.get_specification() == {"name": "tile.py", "path": "/opt/tile", "transformationTag": "tile"}
    assert program.dataflowTag == ""
    extractor = Extractor("rows", ExtractorCartridge.EXTRACTION, ExtractorExtension.CSV)
    extractor.cartridge, extractor.extension = ExtractorCartridge.INDEXING, ExtractorExtension.FASTBIT
    assert (extractor.cartridge, extractor.extension, extractor.setTag) == ("INDEXING", "FASTBIT", "")
    took = Performance("2026-01-31 10:00:00", "2026-01-31 10:00:05", MethodType.COMPUTATION)
    assert took.method is MethodType.COMPUTATION
    took.method, took.endTime, took.description = MethodType.EXTRACTION, "2026-01-31 10:00:06", "of rows"
    assert took.get_specification() == {
        "startTime": "2026-01-31 10:00:00",
        "endTime": "2026-01-31 10:00:06",
        "method": "EXTRACTION",
        "description": "of rows",
    }


def test_a_task_has_its_times_and_its_specification_tells_them():
    flow = Dataflow("net", [Transformation("Tile")])
    tile = Task(1, flow, "Tile", resource="node07")
    assert tile.start_time is None
    tile.end()
    said = tile.get_specification()
    assert said["performances"] == [{"startTime": tile.start_time, "endTime": tile.end_time}]
    assert (said["resource"], said["status"]) == ("node07", "FINISHED")


@pytest.mark.parametrize(("setting", "tag"), [("hyperparameters", "trainingmodel"), ("predefined", "train")])
def test_predefined_transformations_may_be_declared_afterwards(setting: str, tag: str):
    flow = Dataflow("net")
    assert getattr(flow, setting) is False
    setattr(flow, setting, True)
    assert getattr(flow, setting) is True
    assert tag in {one["tag"] for one in flow.transformations}


def test_layers_are_one_network_however_they_are_told():
    flow = Dataflow("net")
    names = [Attribute(one, AttributeType.TEXT) for one in ("NAME", "ATTRIBUTE_TYPE", "VALUE")]
    flow.add_transformation(Transformation("Train", [Set("iLayers", SetType.INPUT, names)]))
    train = Task(1, flow, "Train")
    train.begin()
    for name, value in (("a", "relu"), ("b", "0.4")):
        train.add_dataset(DataSet("iLayers", [Element([name, "dropout", value])]))
        train.save()
    train.end()
    [network] = told(Layers)
    assert [(one["name"], one["dropout"]) for one in network.layers] == [("a", "relu"), ("b", 0.4)]


def test_a_number_that_is_nan_by_itself_stays_nan():
    dataflow()
    train = training()
    train.add_dataset(epoch(0, loss=math.nan))
    train.end()
    assert told(Measured)[0].values["loss"] == ["double", "NaN"]
