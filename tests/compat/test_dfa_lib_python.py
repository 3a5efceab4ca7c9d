"""Scripts written for dfa-lib-python record with provml after a change of imports, and their runs can be queried."""

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
from journal_events import read_events

import provml
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
    _execution,
)
from provml.errors import WrongType, WrongValue
from provml.journal import events
from provml.journal.events import (
    Adapted,
    Begin,
    Done,
    ExecutionDetails,
    Implementation,
    Layers,
    Measured,
    Parameter,
    Produced,
)
from provml.validation import validate
from provml.validation.prov_constraints import check

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
def finish_runs(isolated_home: Path) -> Iterator[None]:
    """Finish the runs that a test began."""
    yield
    finish()


def finish() -> None:
    for executions in list(_execution._executions.values()):
        for execution in executions.values():
            execution.finish()
    _execution._executions.clear()
    dataflow_module = importlib.import_module("provml.compat.dfa_lib_python.dataflow")
    dataflow_module._declared.clear()


def run_program(program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=120, env={**os.environ})


def recorded(event_type: type[Any], run: str = "*") -> list[Any]:
    """Return the events of a type that were recorded in a run, or in all runs."""
    paths = sorted(Path(".provml/runs").glob(f"{run}/*.jsonl"))
    return [event for path in paths for event in read_events(path) if isinstance(event, event_type)]


def rows(answer: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in answer.rows]


# ---- a script for DNNProv


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The runs of three calls of the script, which filters, trains, adapts and tests. The third call raises."""
    folder = tmp_path_factory.mktemp("scripts")
    program = textwrap.dedent(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PROVML_")}
    for arguments in (["0.05", "0.4", "gray-scale"], ["0.001", "0.5", "none"], ["0.01", "0.4", "none", "fails"]):
        command = [sys.executable, "-c", program, *arguments]
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder, env=environment, timeout=120
        )
        assert result.returncode == (1 if "fails" in arguments else 0), result.stderr
    with provml.open(folder / ".provml") as store:
        yield store


def run_with_rate(store: Any, learning_rate: float) -> Any:
    """Return the run whose training had a learning rate, and its hyperparameters."""
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
        if values["learning_rate"] == learning_rate:
            return run, values
    raise AssertionError(f"no run with learning rate {learning_rate}")


def test_each_process_is_a_separate_run_named_after_its_execution_tag(store: Any):
    runs = store.runs()
    assert len(runs) == 3
    assert all("cubenet-20" in run.id for run in runs)
    assert sorted(run.status for run in runs) == ["FAILED", "FINISHED", "FINISHED"]


def test_hyperparameters_are_recorded_as_typed_values(store: Any):
    _, values = run_with_rate(store, 0.05)
    assert values["optimizer"] == "SGD"
    assert values["epochs"] == 6
    assert values["dropout"] == 0.4


def test_q1_returns_the_loss_of_an_epoch_counted_from_1(store: Any):
    run, _ = run_with_rate(store, 0.05)
    by_epoch = rows(store.ask("q3", model="cubenet", run=run.iri))
    assert [row[1] for row in by_epoch] == [1, 2, 3, 4, 5, 6]
    [row] = rows(store.ask("q1", model="cubenet", run=run.iri, epoch=4))
    assert row[1:] == (4, by_epoch[3][3])
    assert [row[3] for row in by_epoch] == sorted((row[3] for row in by_epoch), reverse=True)


def test_q3_returns_the_time_that_the_script_measured(store: Any):
    run, _ = run_with_rate(store, 0.05)
    assert all(0.002 <= row[2] < 1 for row in rows(store.ask("q3", model="cubenet", run=run.iri)))


def test_q2_returns_the_layers(store: Any):
    run, _ = run_with_rate(store, 0.05)
    layers = rows(store.ask("q2", model="cubenet", run=run.iri))
    assert [row[2:4] for row in layers] == [("activation_1", "activation"), ("dropout_1", "dropout")]
    assert layers[1][-1] == "dropout=0.4"


def test_q4_and_q5_return_the_hyperparameters_of_the_best_trainings(store: Any):
    [(_, initial, _)] = rows(store.ask("q4", model="cubenet"))
    assert initial == 0.05
    best, second = rows(store.ask("q5", model="cubenet"))
    assert "learning_rate=0.05" in best[2]
    assert "learning_rate=0.001" in second[2]


def test_q6_returns_exactly_the_adaptations_with_their_technique(store: Any):
    adaptations = rows(store.ask("q6", model="cubenet"))
    assert [row[2:] for row in adaptations] == [(3, 0.05, 0.025, "LRS"), (6, 0.025, 0.0125, "LRS")]


def test_q7_and_q8_return_the_filters(store: Any):
    assert {row[1] for row in rows(store.ask("q7", model="cubenet", value=0.4))} == {"gray-scale", "none"}
    assert [(row[1], row[3]) for row in rows(store.ask("q8", model="cubenet"))] == [("gray-scale", 6), ("none", 6)]


def test_the_adapted_rate_is_in_force_in_its_epoch(store: Any):
    run, _ = run_with_rate(store, 0.05)
    answer = rows(
        store.query(
            f"""SELECT ?epoch ?rate {{ ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?epoch ;
                provml:wasSectionOf/provlake:wasMemberOfWorkflowExecution <{run.iri}> ;
                provml:hyperparameterInForce ?h . ?h prov:value ?rate ;
                provlake:wasDerivedFromAttribute/rdfs:label "learning_rate" }} ORDER BY ?epoch"""
        )
    )
    assert answer == [(1, 0.05), (2, 0.05), (3, 0.025), (4, 0.025), (5, 0.025), (6, 0.0125)]


def test_each_epoch_has_a_validation(store: Any):
    run, _ = run_with_rate(store, 0.05)
    answer = rows(
        store.query(
            f"""SELECT ?epoch {{ ?v a provml:ValidationEpochExecution ; prov:wasInformedBy ?e .
                ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?epoch ;
                provml:wasSectionOf/provlake:wasMemberOfWorkflowExecution <{run.iri}> }} ORDER BY ?epoch"""
        )
    )
    assert [row[0] for row in answer] == [1, 2, 3, 4, 5, 6]


def test_a_script_that_raises_is_a_failed_run_with_failed_open_tasks(store: Any):
    run, _ = run_with_rate(store, 0.01)
    assert run.status == "FAILED"
    answer = rows(
        store.query(
            f"""SELECT ?status ?type ?message {{ ?t a provml:TrainingExecution ; provlake:status ?status ;
                provlake:exceptionType ?type ; provlake:exceptionMessage ?message ;
                provlake:wasMemberOfWorkflowExecution <{run.iri}> }}"""
        )
    )
    assert answer == [("FAILED", "ZeroDivisionError", "diverged")]
    assert len(rows(store.ask("q3", model="cubenet", run=run.iri))) == 3


def test_the_declared_workflow_is_the_plan_with_its_datatypes(store: Any):
    answer = rows(
        store.query(
            """SELECT ?step ?name ?type { ?version provlake:version ?number ;
               provml:hasLearningStage ?s . ?s rdfs:label ?step ; provlake:hasInputAttribute ?a .
               ?a rdfs:label ?name ; provlake:datatype ?type } ORDER BY ?step ?name"""
        )
    )
    assert answer == [
        ("TrainingModel", "dropout", "double"),
        ("TrainingModel", "epochs", "double"),
        ("TrainingModel", "learning_rate", "double"),
        ("TrainingModel", "optimizer", "string"),
    ]


def test_the_runs_conform_to_all_shapes(store: Any):
    for run in store.runs():
        file = io.BytesIO()
        store.export(run.id, file, "nt")
        report = validate(file.getvalue())
        assert report, str(report)
    assert store.problems == []


# ---- values and epochs


def dataflow(tag: str = "net") -> Dataflow:
    flow = Dataflow(tag, hyperparameters=True)
    flow.save()
    return flow


def epoch(number: int, loss: Any = 0.5, elapsed: Any = 1.5) -> DataSet:
    return DataSet("oTrainingModel", [Element(["now", elapsed, loss, 0.9, loss, 0.8, number])])


def training(*, exec_tag: str | None = None) -> Task:
    task = Task(1, "net", *([exec_tag] if exec_tag else []), "TrainingModel")
    task.add_dataset(DataSet("iTrainingModel", [Element(["Adam", "0.001", 20, 33])]))
    task.begin()
    return task


def test_every_module_and_class_has_the_path_of_the_original():
    classes = {
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
    for module, name in classes.items():
        cls = getattr(importlib.import_module(f"provml.compat.dfa_lib_python.{module}"), name)
        assert getattr(package, name) is cls
    base = importlib.import_module("provml.compat.dfa_lib_python.ProvenanceObject").ProvenanceObject
    assert issubclass(package.Task, base)


def test_two_datasets_added_before_begin_are_both_recorded():
    dataflow()
    train = Task(1, "net", "TrainingModel")
    train.add_dataset(DataSet("iTrainingModel", [Element(["Adam", "0.001", 20, 33])]))
    train.add_dataset(epoch(0))
    train.add_dataset(epoch(1))
    train.begin()
    train.end()
    assert recorded(Parameter)[0].values["learning_rate"] == 0.001
    assert [event.index for event in recorded(Begin) if event.location.startswith("TrainingModel/")] == [1, 2]


def test_rows_that_are_saved_twice_are_recorded_once():
    dataflow()
    train = training()
    train.add_dataset(epoch(0))
    train.save()
    train.save()
    train.end()
    assert len([event for event in recorded(Measured) if event.location == "TrainingModel/1"]) == 1


def test_numbers_as_text_are_recorded_as_numbers_and_the_nan_marker_as_nan():
    dataflow()
    train = training()
    train.add_dataset(epoch(0, loss=-9999999))
    train.end()
    assert recorded(Parameter)[0].values == {
        "optimizer": "Adam",
        "learning_rate": 0.001,
        "epochs": 20,
        "num_layers": 33,
    }
    assert recorded(Measured)[0].values["loss"] == ["double", "NaN"]


def test_numpy_values_are_recorded_as_numbers():
    dataflow()
    train = training()
    train.add_dataset(epoch(0, loss=np.float32(0.25)))
    train.end()
    assert recorded(Measured)[0].values["loss"] == 0.25


@pytest.mark.parametrize(
    ("first", "numbers"), [(0, [1, 2, 3]), (1, [1, 2, 3]), (5, [5, 6, 7])], ids=["from 0", "from 1", "continued"]
)
def test_epochs_are_counted_from_1_also_if_the_script_counts_from_0(first: int, numbers: list[int]):
    dataflow()
    train = training()
    for number in range(first, first + 3):
        train.add_dataset(epoch(number))
        train.save()
    train.end()
    assert [event.index for event in recorded(Begin) if event.location.startswith("TrainingModel/")] == numbers


@pytest.mark.parametrize(
    ("elapsed", "seconds"), [(2.5, 2.5), ("2.5", 2.5), (timedelta(minutes=1), 60), ("1 day, 0:00:01.5", 86401.5)]
)
def test_the_elapsed_time_of_an_epoch_is_read_in_all_formats_of_scripts(elapsed: Any, seconds: float):
    dataflow()
    train = training()
    train.add_dataset(epoch(0, elapsed=elapsed))
    train.end()
    [done] = [event for event in recorded(Done) if event.location == "TrainingModel/1"]
    assert done.seconds == pytest.approx(seconds, abs=0.1)


def test_an_unreadable_elapsed_time_is_replaced_by_the_measured_time():
    dataflow()
    train = training()
    train.add_dataset(epoch(0, elapsed="N/A"))
    train.end()
    [done] = [event for event in recorded(Done) if event.location == "TrainingModel/1"]
    assert 0 <= done.seconds < 60


def keras_prov_dataflow(*epoch_columns: str) -> None:
    """Declare the transformations with the columns of Keras-Prov."""
    text, number = AttributeType.TEXT, AttributeType.NUMERIC
    flow = Dataflow("net")
    train = Transformation("TrainingModel")
    layers = [Attribute(name, text) for name in ("ILTIMESTAMP", "NAME", "ATTRIBUTE_TYPE", "VALUE")]
    settings = [Attribute("ITRAIN_TIMESTAMP", text), Attribute("LEARNING_RATE", number), Attribute("DECAY", number)]
    settings.append(Attribute("LOSS_FUNCTION", text))
    times = [Attribute("OTRAIN_TIMESTAMP", text), Attribute("ELAPSED_TIME", text)]
    measures = [Attribute(name, number) for name in (*epoch_columns, "loss", "accuracy", "val_loss", "val_accuracy")]
    output = Set("oTrainingModel", SetType.OUTPUT, times + measures)
    train.set_sets([Set("iLayers", SetType.INPUT, layers), Set("iTrainingModel", SetType.INPUT, settings), output])
    flow.add_transformation(train)
    adaptation = Transformation("Adaptation")
    changes = [Attribute("NEW_LRATE", number), Attribute("ATIMESTAMP", text)]
    changes += [Attribute("EPOCH_ID", number), Attribute("ADAPTATION_ID", number)]
    adaptation.set_sets([Set("oAdaptation", SetType.OUTPUT, changes)])
    flow.add_transformation(adaptation)
    test = Transformation("TestingModel")
    results = [Attribute("OTEST_TIMESTAMP", text), Attribute("otest_loss", number), Attribute("otest_accuracy", number)]
    test.set_sets([Set("oTestingModel", SetType.OUTPUT, results)])
    flow.add_transformation(test)
    flow.save()


def test_the_columns_of_keras_prov_are_read(caplog: pytest.LogCaptureFixture):
    keras_prov_dataflow("EPOCH_ID")
    train = Task(1, "net", "TrainingModel")
    train.begin()
    train.add_dataset(DataSet("iLayers", [Element([1616622379.4, "dropout_1", "dropout", 0.4])]))
    train.add_dataset(DataSet("iTrainingModel", [Element([1616622379.4, 0.001, "null", "null"])]))
    for number in range(2):
        if number == 1:
            change = Task(2, "net", "Adaptation", dependency=train)
            change.begin()
            change.add_dataset(DataSet("oAdaptation", [Element([0.0005, 1616622400.5, 1, 1])]))
            change.end()
        train.add_dataset(DataSet("oTrainingModel", [Element([1616622404.9, 2.5, number, 0.1, 0.2, 0.3, 0.4])]))
        train.save()
    train.end()
    test = Task(3, "net", "TestingModel", dependency=train)
    test.begin()
    test.add_dataset(DataSet("oTestingModel", [Element([1616622500.1, 0.6, 0.7])]))
    test.end()
    assert [event.values for event in recorded(Parameter)] == [{"learning_rate": 0.001}]
    assert [event.index for event in recorded(Begin) if event.location.startswith("TrainingModel/")] == [1, 2]
    measured = [event.values for event in recorded(Measured)]
    epoch_measures = [{"loss": 0.1, "accuracy": 0.2}, {"loss": 0.3, "accuracy": 0.4}]
    assert measured == [*epoch_measures, *epoch_measures, {"loss": 0.6, "accuracy": 0.7}]
    [adapted] = recorded(Adapted)
    assert (adapted.location, adapted.values) == ("TrainingModel/2", {"learning_rate": 0.0005})
    names = recorded(events.Workflow)[0].spec["attributes"]
    assert not [name for name in names if "timestamp" in name or "epoch" in name or "otest" in name]
    assert not caplog.records


def test_a_row_of_a_training_without_an_epoch_is_logged_and_its_measures_are_recorded(
    caplog: pytest.LogCaptureFixture,
):
    keras_prov_dataflow()
    train = Task(1, "net", "TrainingModel")
    train.begin()
    for _ in range(2):
        train.add_dataset(DataSet("oTrainingModel", [Element(["now", "2.5", 0.1, 0.2, 0.3, 0.4])]))
    train.end()
    [record] = caplog.records
    assert "a row of oTrainingModel has no epoch" in record.getMessage()
    assert recorded(Measured)[0].values == {"loss": 0.1, "accuracy": 0.2, "val_loss": 0.3, "val_accuracy": 0.4}
    finish()
    with provml.open() as store:
        file = io.BytesIO()
        store.export("latest", file, "nt")
        report = validate(file.getvalue())
        assert report, str(report)


def test_adaptations_without_a_change_are_not_recorded():
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
    first, second = recorded(Adapted)
    assert (first.location, first.values) == ("TrainingModel/2", {"learning_rate": 0.0005})
    assert (second.location, second.values) == ("TrainingModel/4", {"learning_rate": 0.00025})
    assert first.parameters == {"epochs_drop": 10.0, "drop_n": 0.5, "initial_lrate": 0.001}


def test_an_adaptation_without_a_training_is_logged_and_does_not_raise(caplog: pytest.LogCaptureFixture):
    dataflow()
    adapt = Task(2, "net", "Adaptation")
    adapt.add_dataset(DataSet("oAdaptation", [Element([0.1, "now", 1, 1])]))
    adapt.end()
    assert "Begin the task of the training first" in caplog.text


# ---- runs


def test_each_dataflow_is_a_separate_run():
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
    assert sorted(event.kind for event in recorded(Begin) if "/" not in event.location) == [
        "evaluation",
        "training",
        "training",
    ]


def test_repeating_a_finished_task_begins_another_run():
    dataflow()
    for _ in range(3):
        training().end()
    finish()
    with provml.open() as store:
        assert [run.status for run in store.runs()] == ["FINISHED"] * 3


def test_each_execution_tag_is_a_run_that_ends_when_the_next_begins():
    dataflow()
    first, second = training(exec_tag="net-1"), training(exec_tag="net-2")
    first.end()
    second.end()
    training(exec_tag="net-3")
    with provml.open() as store:
        status_by_tag = {run.id.rpartition("-net-")[2]: run.status for run in store.runs()}
    assert status_by_tag == {"1": "FINISHED", "2": "FINISHED", "3": "RUNNING"}


def test_a_task_of_a_finished_execution_is_recorded_in_its_run():
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


def test_tasks_are_recorded_in_the_run_of_the_environment_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_RUN", "monday")
    dataflow()
    training(exec_tag="net-1").end()
    assert [path.name for path in Path(".provml/runs").iterdir()] == ["monday"]


def test_a_dataflow_can_be_declared_in_another_process_than_its_tasks():
    run_program(
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
    assert not recorded(events.Header)[1:]
    assert (recorded(events.Header)[0].name, recorded(Parameter)[0].values) == ("Split net", {"size": 4})


def test_nothing_is_written_while_recording_is_disabled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    dataflow()
    train = training()
    train.add_dataset(epoch(0))
    train.end()
    assert not Path(".provml").exists()


# ---- steps and files


def test_a_transformation_of_the_user_is_a_step_with_its_files_and_parameters():
    Path("a.csv").write_text("a")
    Path("b.csv").write_text("b")
    flow = Dataflow("net")
    inputs = Set(
        "iTile", SetType.INPUT, [Attribute("SIZE", AttributeType.NUMERIC), Attribute("RAW", AttributeType.FILE)]
    )
    outputs = Set(
        "oTile", SetType.OUTPUT, [Attribute("TILES", AttributeType.FILE), Attribute("COUNT", AttributeType.NUMERIC)]
    )
    flow.add_transformation(Transformation("Tile", [inputs, outputs]))
    outputs.set_type(SetType.INPUT)
    outputs.dependency = "tile"
    flow.add_transformation(Transformation("Count", [outputs]))
    flow.save()
    tile = Task(1, flow, "Tile")
    tile.set_datasets([DataSet("iTile", [Element([4, "a.csv"])]), DataSet("oTile", [Element(["b.csv", 9])])])
    tile.end()
    count = Task(2, flow, "Count")
    count.add_dependency(Dependency(["Tile"], [1]))
    count.end()
    data = {event.path: event for event in recorded(events.Data)}
    begun = {event.location: event for event in recorded(Begin)}
    assert (begun["Tile"].kind, recorded(Parameter)[0].values) == ("step", {"size": 4})
    assert (data["b.csv"].name, data["b.csv"].values) == ("tiles", {"count": 9})
    assert recorded(Produced)[0].ref == data["b.csv"].ref
    assert begun["Count"].using == [data["b.csv"].ref]


def test_the_predefined_transformations_of_dlprov_link_the_raw_data_to_the_evaluation():
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
def test_a_positional_true_declares_the_transformations_that_the_first_task_belongs_to(tag: str):
    flow = Dataflow("net", True)
    flow.save()
    Task(1, "net", tag).end()
    dnnprov = {"trainingmodel", "adaptation", "testingmodel"}
    assert ({spec["tag"] for spec in flow.transformations} == dnnprov) is (tag == "TrainingModel")


@pytest.mark.parametrize("is_other_process", [False, True], ids=["same process", "another process"])
def test_the_names_of_earlier_versions_of_dlprov_are_accepted(is_other_process: bool):
    Path("net.keras").write_text("net")
    Path("train.npz").write_text("train")
    Dataflow("mnist", predefined=True).save()
    if is_other_process:
        finish()
    split = Task(1, "mnist", "e1", "SplitData")
    split.begin()
    split.add_dataset(DataSet("oTrainSet", [Element(["train.npz", None])]))
    split.end()
    train = Task(2, "mnist", "e1", "TrainModel", dependency=split)
    train.add_dataset(DataSet("iTrainModel", [Element(["Adam", 0.001, 2, 4])]))
    train.begin()
    for number in (0, 1):
        train.add_dataset(DataSet("oTrainModel", [Element(["now", 0.1, 0.5, 0.6, 0.7, 0.8, number])]))
        train.save()
    train.add_dataset(DataSet("oTrainedModel", [Element(["net", "net.keras"])]))
    train.end()
    test = Task(3, "mnist", "e1", "TestModel", dependency=[split, train])
    test.begin()
    test.add_dataset(DataSet("oTestModel", [Element([0.4, 0.8])]))
    test.end()
    finish()
    values = [event.values for event in recorded(Parameter)]
    assert {"optimizer": "Adam", "learning_rate": 0.001, "epochs": 2, "num_layers": 4} in values
    assert [event.index for event in recorded(Begin) if event.location.startswith("TrainModel/")] == [1, 2]
    assert recorded(Measured)[-1].values == {"loss": 0.4, "accuracy": 0.8}
    with provml.open() as store:
        file = io.BytesIO()
        store.export("latest", file, "nt")
        report = validate(file.getvalue())
        assert report, str(report)


def test_the_preparation_of_earlier_versions_of_dlprov_is_accepted():
    """DLProv's example for PyTorch names these transformations; its newest version no longer declares them."""
    Path("raw.npz").write_text("raw")
    Dataflow("mnist", predefined=True).save()
    load = Task(1, "mnist", "e1", "LoadData")
    flip = Task(2, "mnist", "e1", "RandomHorizontal", dependency=load)
    normalize = Task(3, "mnist", "e1", "Normalize", dependency=flip)
    split = Task(4, "mnist", "e1", "SplitData", dependency=normalize)
    for task, tag in ((load, "oLoadData"), (flip, "oRandomHorizontal"), (normalize, "oNormalize")):
        task.add_dataset(DataSet(tag, [Element(["raw.npz"])]))
        task.end()
    split.end()
    begun = {event.name: event for event in recorded(Begin)}
    assert list(begun) == ["LoadData", "RandomHorizontal", "Normalize", "SplitData"]
    produced = {event.location: event.ref for event in recorded(Produced)}
    for task, previous in (
        ("RandomHorizontal", "LoadData"),
        ("Normalize", "RandomHorizontal"),
        ("SplitData", "Normalize"),
    ):
        assert begun[task].using == [produced[begun[previous].location]]


def test_a_positional_true_accepts_the_names_of_earlier_versions_of_dlprov():
    flow = Dataflow("net", True)
    Task(1, "net", "e1", "TrainModel").end()
    assert flow.predefined
    assert recorded(Begin)[0].kind == "training"


def test_tasks_of_dnnprov_need_no_dataflow_in_their_process():
    Task(1, "undeclared", "TrainingModel").end()
    assert recorded(events.Header)[0].name == "undeclared"


def test_a_training_without_data_conforms_to_all_shapes():
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


# ---- details of tasks: workspace, resource, output, programs, files, performances, extractors

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
    for part in ("east", "west"):
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
        t1._error = "no convergence" if part == "west" else ""
        t1.end()
    assert (t1._id, t1._tag) == ("1", "solve")
"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The run of a script for DfAnalyzer whose tasks have a workspace, a resource, an output, files and a program."""
    folder = tmp_path_factory.mktemp("mesh")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PROVML_")}
    command = [sys.executable, "-c", textwrap.dedent(MESH)]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment, timeout=120
    )
    assert result.returncode == 0, result.stderr
    with provml.open(folder / ".provml") as store:
        yield store


def of_tasks(store: Any, path: str) -> list[tuple[Any, ...]]:
    """Return the name of each task of Solve with the values at a property path."""
    return rows(
        store.query(
            f"""SELECT ?task ?value {{ ?t provlake:wasDerivedFromDataTransformation/rdfs:label "Solve" ;
                rdfs:label ?task ; {path} ?value }} ORDER BY ?task ?value"""
        )
    )


def test_tasks_with_the_same_id_are_in_one_run_and_are_named_by_id_and_sub_id(mesh: Any):
    assert len(mesh.runs()) == 1
    assert of_tasks(mesh, "provlake:status") == [("Solve 1.east", "FINISHED"), ("Solve 1.west", "FAILED")]


def test_the_workspace_is_the_location_of_a_task(mesh: Any):
    locations = of_tasks(mesh, "prov:atLocation/rdfs:label")
    assert locations == [("Solve 1.east", "/scratch/mesh"), ("Solve 1.west", "/scratch/mesh")]


def test_the_resource_is_an_environment_that_a_task_is_associated_with(mesh: Any):
    answer = mesh.query(
        """SELECT DISTINCT ?name { ?t provlake:wasDerivedFromDataTransformation/rdfs:label "Solve" ;
           prov:wasAssociatedWith ?e . ?e a provlake:ExecutionEnvironment ; rdfs:label ?name }"""
    )
    assert rows(answer) == [("node07",)]


def test_the_output_and_the_error_of_a_task_are_its_standard_output_and_error(mesh: Any):
    assert of_tasks(mesh, "provlake:standardOutput") == [
        ("Solve 1.east", "converged on the east"),
        ("Solve 1.west", "converged on the west"),
    ]
    assert of_tasks(mesh, "provlake:standardError") == [("Solve 1.west", "no convergence")]
    assert of_tasks(mesh, "provlake:exceptionMessage") == [("Solve 1.west", "no convergence")]


def test_tasks_are_associated_with_the_program_of_their_transformation(mesh: Any):
    answer = mesh.query(
        """SELECT ?task ?name ?place { ?t rdfs:label ?task ; prov:wasAssociatedWith ?p . ?p a provml:Implementation ;
           rdfs:label ?name ; prov:atLocation/rdfs:label ?place } ORDER BY ?task"""
    )
    assert rows(answer) == [("Solve 1.east", "solver", "/opt/solver"), ("Solve 1.west", "solver", "/opt/solver")]


def test_files_added_before_begin_are_used_and_later_files_are_generated(mesh: Any):
    used = of_tasks(mesh, "prov:used/provlake:path")
    assert used == [("Solve 1.east", "meshes/square.msh"), ("Solve 1.west", "meshes/square.msh")]
    generated = of_tasks(mesh, "^prov:wasGeneratedBy/provlake:path")
    assert generated == [(f"Solve 1.{part}", f"{part}.{ext}") for part in ("east", "west") for ext in ("csv", "log")]


def test_a_performance_is_a_part_of_its_task_with_the_method_as_tag(mesh: Any):
    answer = mesh.query(
        """SELECT ?task ?part ?tag { ?p prov:wasInformedBy ?t ; provlake:wasDerivedFromDataTransformation ?plan .
           ?plan provlake:tag ?tag ; rdfs:label "Solve computation" . ?p rdfs:label ?part ; provlake:status "FINISHED" ;
           provml:elapsedSeconds ?s . ?t rdfs:label ?task FILTER(?s < 60) } ORDER BY ?task"""
    )
    assert rows(answer) == [(f"Solve 1.{part}", "assembly", "Computation") for part in ("east", "west")]


def test_extractors_are_steps_of_the_plan_between_the_files_and_the_rows_of_a_set(mesh: Any):
    answer = mesh.query(
        """SELECT ?name ?comment ?from ?to { ?version provlake:version ?v ; provlake:hasDataTransformation ?e .
           ?e rdfs:label ?name ; rdfs:comment ?comment ; provlake:hasInputAttribute/rdfs:label ?from ;
              provlake:hasOutputAttribute/rdfs:label ?to } ORDER BY DESC(?name)"""
    )
    assert rows(answer) == [
        ("residuals", "extraction (CSV)", "field", "osolve"),
        ("cells", "indexing (FASTBIT)", "field", "osolve"),
    ]
    assert rows(mesh.query('SELECT ?x { ?x a provml:FeatureExtraction ; rdfs:label "residuals" }'))


def test_an_extraction_is_a_part_of_the_running_task(mesh: Any):
    answer = mesh.query(
        """SELECT ?task ?status { ?e a provml:FeatureExtractionExecution ; provlake:status ?status ;
           prov:wasInformedBy/rdfs:label ?task } ORDER BY ?task"""
    )
    assert rows(answer) == [("Solve 1.east", "FINISHED"), ("Solve 1.west", "FINISHED")]


def test_tasks_with_all_details_conform_to_all_shapes_and_constraints(mesh: Any):
    file = io.BytesIO()
    mesh.export("latest", file, "nt")
    report = validate(file.getvalue())
    assert report, str(report)
    result = check(file.getvalue())
    assert result, str(result)
    assert mesh.problems == []


def test_a_transformation_that_is_declared_twice_has_the_sets_of_both_declarations():
    flow = Dataflow("net")
    for title in ("iTile", "iMore"):
        inputs = Set(title, SetType.INPUT, [Attribute(title[1:], AttributeType.NUMERIC)])
        flow.add_transformation(Transformation("Tile", [inputs]))
    tile = Task(1, flow, "Tile")
    tile.set_datasets([DataSet("iTile", [Element([4])]), DataSet("iMore", [Element([5])])])
    tile.end()
    assert [event.values for event in recorded(Parameter)] == [{"tile": 4}, {"more": 5}]
    assert list(recorded(events.Workflow)[0].spec["transformations"]["Tile"]["inputs"]) == ["more", "tile"]


def test_a_program_of_a_transformation_is_stored_for_other_processes():
    flow = Dataflow("stored net")
    tile = Transformation("Tile")
    tile.add_program(Program("tiler.py", "/opt/tiler"))
    flow.add_transformation(tile)
    flow.save()
    run_program('from provml.compat.dfa_lib_python import *; Task(1, "stored net", "Tile").end()')
    assert [(event.location, event.name, event.source) for event in recorded(Implementation)] == [
        ("Tile", "tiler.py", "/opt/tiler")
    ]


def test_a_program_of_another_dataflow_is_not_recorded():
    other = Program("other.py", "/opt")
    other.transformationTag, other.dataflowTag = "Tile", "another"
    flow = Dataflow("net", [Transformation("Tile")])
    Task(1, flow, "Tile").end()
    assert recorded(Implementation) == []


def test_files_of_a_training_are_not_used_by_its_evaluation():
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
    data = {event.ref: event.name for event in recorded(events.Data)}
    used = [(event.location, data[event.ref], event.role) for event in recorded(events.Used)]
    assert used == [("TrainingModel", "data.csv", "training"), ("TestingModel", "net", "model")]
    assert [data[event.ref] for event in recorded(Produced)] == ["train.log", "net"]


def test_a_file_object_is_accepted_as_a_path():
    Path("raw").mkdir()
    Path("raw/a.csv").write_text("a")
    flow = Dataflow("net")
    inputs = Set("iTile", SetType.INPUT, [Attribute("RAW", AttributeType.FILE)])
    flow.add_transformation(Transformation("Tile", [inputs]))
    tile = Task(1, flow, "Tile")
    tile.add_dataset(DataSet("iTile", [Element([File("raw", "a.csv")])]))
    tile.end()
    assert [event.path for event in recorded(events.Data)] == [str(Path("raw/a.csv"))]
    assert str(File("raw/a.csv", "a.csv")) == str(File("raw/a.csv", "the raw data")) == "raw/a.csv"


def test_a_failed_task_has_the_exception_and_the_error_text_of_the_script():
    dataflow()
    train = training()
    try:
        raise MemoryError("too big")
    except MemoryError:
        train._error = "out of memory in epoch 3"
        train.end()
    [done] = [event for event in recorded(Done) if event.location == "TrainingModel"]
    assert done.error == ["MemoryError", "too big"]
    assert [event.errors for event in recorded(ExecutionDetails) if event.errors] == ["out of memory in epoch 3"]


def test_positional_and_keyword_arguments_of_a_task_are_equivalent():
    flow = Dataflow("net", [Transformation("Tile")])
    Task(1, flow, "first", "Tile", 0, None, Path("/scratch"), "node07", "done", "").end()
    Task(
        1,
        flow,
        "second",
        "Tile",
        sub_id=0,
        workspace=Path("/scratch"),
        resource="node07",
        output="done",
        dependency=None,
    ).end()
    by_position, by_name = recorded(ExecutionDetails, "*-first"), recorded(ExecutionDetails, "*-second")
    assert (
        by_position
        == by_name
        == [ExecutionDetails("Tile", "Tile 1.0", "/scratch", "node07"), ExecutionDetails("Tile", output="done")]
    )


def test_a_performance_with_unreadable_times_is_logged_and_not_recorded(caplog: pytest.LogCaptureFixture):
    flow = Dataflow("net", [Transformation("Tile")])
    tile = Task(1, flow, "Tile")
    tile.add_performance(Performance("yesterday", "today", MethodType.COMPUTATION))
    tile.end()
    assert "a time such as 2026-01-31 10:00:00" in caplog.text
    assert [event.location for event in recorded(Begin)] == ["Tile"]


def test_a_performance_with_another_method_is_a_step():
    flow = Dataflow("net", [Transformation("Tile")])
    tile = Task(1, flow, "Tile")
    tile.begin()
    tile.add_performance(Performance("2026-01-31 10:00:00", "2026-01-31T10:00:01.5", "training"))
    tile.add_performance(Performance("2026-01-31 10:00:00+01:00", "2026-01-31 09:00:02+00:00"))
    tile.end()
    parts = [(event.kind, event.name, event.parent) for event in recorded(Begin)[1:]]
    assert parts == [("step", "Tile training", "Tile"), ("step", "Tile part", "Tile")]
    assert [event.seconds for event in recorded(Done)[:2]] == [1.5, 2.0]


def test_a_failed_extraction_is_recorded_and_the_script_continues(monkeypatch: pytest.MonkeyPatch):
    Path("bin").mkdir()
    Path("bin/RDE").write_text("#!/bin/sh\nexit 3\n")
    Path("bin/RDE").chmod(0o755)
    monkeypatch.setenv("DFANALYZER_DIR", str(Path.cwd()))
    index = RawDataIndexer(
        ExtractorCartridge.INDEXING, "cells", ".", "a b.csv", [Attribute("X", AttributeType.TEXT)], "-bin 10"
    )
    assert index.get_command_line() == f"{Path.cwd()}/bin/RDE INDEXING:INDEX cells . 'a b.csv' '[X:TEXT]' -bin 10"
    index.run()  # outside any task
    flow = Dataflow("net", [Transformation("Tile")])
    tile = Task(1, flow, "Tile")
    tile.begin()
    index.run()
    monkeypatch.setenv("DFANALYZER_DIR", "/nowhere")
    with pytest.raises(FileNotFoundError):
        RawDataExtractor(ExtractorCartridge.EXTRACTION, "cut", []).run()
    tile.end()
    indexed, extracted, tiled = recorded(Done)
    assert [(event.kind, event.name) for event in recorded(Begin)[1:]] == [
        ("indexing", "cells"),
        ("extraction", "extractor"),
    ]
    assert (indexed.status, indexed.error[0]) == ("FAILED", "CalledProcessError")
    assert (extracted.status, extracted.error[0], tiled.status) == ("FAILED", "FileNotFoundError", "FINISHED")


def test_the_details_of_an_adaptation_task_are_not_recorded():
    dataflow()
    train = training()
    adapt = Task(2, "net", "Adaptation", dependency=train, workspace="/scratch", output="halved")
    adapt.add_performance(Performance("2026-01-31 10:00:00", "2026-01-31 10:00:01"))
    adapt.begin()
    adapt.add_dataset(DataSet("oAdaptation", [Element([0.0005, "now", 0, 1])]))
    adapt.end()
    train.end()
    assert [event.name for event in recorded(ExecutionDetails)] == ["TrainingModel 1"]
    assert len(recorded(Adapted)) == 1


# ---- errors


def test_a_task_that_ends_while_an_exception_is_handled_fails_with_it():
    dataflow()
    train = training()
    try:
        raise MemoryError("too big")
    except MemoryError:
        train.end()
    assert train.status is TaskStatus.FAILED
    [done] = [event for event in recorded(Done) if event.location == "TrainingModel"]
    assert (done.status, done.error) == ("FAILED", ["MemoryError", "too big"])
    assert not recorded(Produced)


def test_an_exception_from_before_the_task_does_not_fail_it():
    dataflow()
    try:
        raise KeyError("old")
    except KeyError:
        train = training()
        train.end()
    assert train.status is TaskStatus.FINISHED


def test_an_error_text_fails_the_task():
    dataflow()
    train = Task(1, "net", "TrainingModel", error="no convergence")
    train.end()
    [done] = recorded(Done)
    assert (done.status, done.error) == ("FAILED", ["TaskError", "no convergence"])


def test_a_transformation_that_was_not_declared_is_a_logged_error_and_a_step(caplog: pytest.LogCaptureFixture):
    dataflow()
    task = Task(1, "net", "exec", "Trainig")
    task.begin()
    task.add_dataset(DataSet("oTraining", [Element([1])]))
    task.end()
    assert "'Trainig'. Declared: TrainingModel, Adaptation, TestingModel. Correct" in caplog.text
    assert [(event.name, event.kind) for event in recorded(Begin)] == [("Trainig", "step")]
    assert [done.status for done in recorded(Done)] == ["FINISHED"]


def test_a_set_that_was_not_declared_is_a_logged_error_and_the_others_are_recorded(caplog: pytest.LogCaptureFixture):
    dataflow()
    train = Task(1, "net", "TrainingModel")
    train.add_dataset(DataSet("oTraining", [Element([1])]))
    train.add_dataset(DataSet("iTrainingModel", [Element(["SGD", 0.1, 2, 3])]))
    train.end()
    assert "'oTraining'. Declared: iTrainingModel, oTrainingModel." in caplog.text
    assert recorded(Parameter)[0].values["optimizer"] == "SGD"


def test_a_dataflow_that_was_not_declared_is_a_logged_error(caplog: pytest.LogCaptureFixture):
    task = Task(1, "nett", "Tile")
    task.end()
    assert "Declare it before its tasks, with Dataflow('nett', …).save()" in caplog.text
    assert [event.name for event in recorded(Begin)] == ["Tile"]


def test_a_row_with_missing_values_is_logged_and_its_values_are_recorded(caplog: pytest.LogCaptureFixture):
    dataflow()
    train = Task(1, "net", "TrainingModel")
    train.add_dataset(DataSet("iTrainingModel", [Element(["Adam", 0.1])]))
    train.end()
    assert "takes 4 values for iTrainingModel (OPTIMIZER_NAME, LEARNING_RATE, NUM_EPOCHS, NUM_LAYERS)" in caplog.text
    assert recorded(Parameter)[0].values == {"optimizer": "Adam", "learning_rate": 0.1}


def test_a_text_for_a_number_is_logged_and_not_recorded(caplog: pytest.LogCaptureFixture):
    dataflow()
    train = training()
    train.add_dataset(epoch(0, loss="high"))
    train.end()
    assert "a number for LOSS" in caplog.text
    assert recorded(Measured)[0].values == {"accuracy": 0.9}


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
        (lambda: Task(1, Dataflow("n", predefined=True), "Train", dependency=3), "a Task or several"),
    ],
)
def test_a_value_of_the_wrong_type_raises_at_once(make: Any, error: str):
    with pytest.raises(WrongType, match=error):
        make()


def test_an_unknown_argument_of_a_task_is_an_error_that_lists_the_arguments():
    with pytest.raises(
        TypeError, match=r"^Task\(\) got an unexpected argument 'colour'\. Arguments: sub_id, dependency"
    ):
        Task(1, Dataflow("n", predefined=True), "Train", colour="red")


def test_sets_of_the_wrong_type_and_incomplete_dependencies_are_errors():
    with pytest.raises(WrongValue, match="sets of type INPUT"):
        Transformation("t").input = [Set("s", SetType.OUTPUT, [])]
    with pytest.raises(WrongValue, match="one for each tag"):
        Dependency(["a", "b"], [1])


# ---- specifications


def test_a_specification_equals_that_of_the_original():
    flow = Dataflow("Net")
    out = Set("oTile", SetType.OUTPUT, [Attribute("COUNT", AttributeType.NUMERIC)])
    out.add_extractor(Extractor("rows", ExtractorCartridge.EXTRACTION, ExtractorExtension.CSV))
    tile = Transformation("Tile")
    tile.add_set(out)
    out.set_type(SetType.INPUT)  # the transformation has a copy
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
    specification = task.get_specification()
    assert specification["sets"] == [{"tag": "otile", "elements": [["3"]]}]
    assert (specification["id"], specification["status"], specification["dataflow"]) == ("7", "READY", "net")


def test_attributes_have_the_names_of_the_original_are_plain_data_and_can_be_set():
    size = Attribute("SIZE", AttributeType.NUMERIC)
    inputs = Set("iTile", SetType.INPUT, [size])
    tile = Transformation("Tile", [inputs])
    flow = Dataflow("Net", transformations=[tile])
    assert flow.transformations == [{"tag": "tile", "sets": tile.sets}]
    assert tile.sets == tile.input == [inputs.get_specification()]
    assert (tile.output, inputs.attributes, inputs.type) == ([], [{"name": "SIZE", "type": "NUMERIC"}], "INPUT")
    size.name, size.type = "WIDTH", AttributeType.TEXT
    assert str(size) == "WIDTH:TEXT"
    tile.sets = [Set("oTile", SetType.OUTPUT, [])]
    flow.transformations = [tile]
    assert (flow.transformations[0]["sets"], tile.input) == (tile.output, [])
    dataset = DataSet("iTile", [Element([1, 0.5])])
    assert dataset.elements == [["1", "0.5"]]
    element = Element([1])
    element.values = ["a", 2]
    assert element.values == ["a", "2"]
    dependency = Dependency(["Tile"], [1])
    dependency.tags, dependency.ids = ["Tile", "Count"], [1, 2]
    assert (dependency.tags, dependency.ids) == ([{"tag": "Tile"}, {"tag": "Count"}], [{"id": 1}, {"id": 2}])
    assert dependency.pairs == [("tile", "1"), ("count", "2")]


def test_programs_extractors_and_performances_have_the_attributes_of_the_original():
    program = Program("tiler.py", "/opt")
    program.name, program.path, program.transformationTag = "tile.py", "/opt/tile", "tile"
    assert program.get_specification() == {"name": "tile.py", "path": "/opt/tile", "transformationTag": "tile"}
    assert program.dataflowTag == ""
    extractor = Extractor("rows", ExtractorCartridge.EXTRACTION, ExtractorExtension.CSV)
    extractor.cartridge, extractor.extension = ExtractorCartridge.INDEXING, ExtractorExtension.FASTBIT
    assert (extractor.cartridge, extractor.extension, extractor.setTag) == ("INDEXING", "FASTBIT", "")
    performance = Performance("2026-01-31 10:00:00", "2026-01-31 10:00:05", MethodType.COMPUTATION)
    assert performance.method is MethodType.COMPUTATION
    performance.method, performance.endTime, performance.description = (
        MethodType.EXTRACTION,
        "2026-01-31 10:00:06",
        "of rows",
    )
    assert performance.get_specification() == {
        "startTime": "2026-01-31 10:00:00",
        "endTime": "2026-01-31 10:00:06",
        "method": "EXTRACTION",
        "description": "of rows",
    }


def test_the_specification_of_a_task_has_its_times():
    flow = Dataflow("net", [Transformation("Tile")])
    tile = Task(1, flow, "Tile", resource="node07")
    assert tile.start_time is None
    tile.end()
    specification = tile.get_specification()
    assert specification["performances"] == [{"startTime": tile.start_time, "endTime": tile.end_time}]
    assert (specification["resource"], specification["status"]) == ("node07", "FINISHED")


@pytest.mark.parametrize(("setting", "tag"), [("hyperparameters", "trainingmodel"), ("predefined", "train")])
def test_predefined_transformations_can_be_declared_later(setting: str, tag: str):
    flow = Dataflow("net")
    assert getattr(flow, setting) is False
    setattr(flow, setting, True)
    assert getattr(flow, setting) is True
    assert tag in {spec["tag"] for spec in flow.transformations}


def test_layers_that_are_saved_separately_are_one_network():
    flow = Dataflow("net")
    attributes = [Attribute(name, AttributeType.TEXT) for name in ("NAME", "ATTRIBUTE_TYPE", "VALUE")]
    flow.add_transformation(Transformation("Train", [Set("iLayers", SetType.INPUT, attributes)]))
    train = Task(1, flow, "Train")
    train.begin()
    for name, value in (("a", "relu"), ("b", "0.4")):
        train.add_dataset(DataSet("iLayers", [Element([name, "dropout", value])]))
        train.save()
    train.end()
    [network] = recorded(Layers)
    assert [(layer["name"], layer["dropout"]) for layer in network.layers] == [("a", "relu"), ("b", 0.4)]


def test_nan_is_recorded_as_nan():
    dataflow()
    train = training()
    train.add_dataset(epoch(0, loss=math.nan))
    train.end()
    assert recorded(Measured)[0].values["loss"] == ["double", "NaN"]
