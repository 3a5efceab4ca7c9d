"""The ten traps of the protocols, each as clients set it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from provml.exchange.provlake import ProvLakeRun
from provml.journal import events
from provml.web.ingest.received import Received
from provml.web.service import Service
from tests.web.ingest.exchanges import (
    HOST,
    Clock,
    all_events,
    feed,
    graph,
    new_ingest,
    recorded,
    rows,
    send,
    statuses,
    translated,
)
from tests.web.ingest.mlflow_client import RawClient

MEASURES = """SELECT ?section ?name ?value WHERE {
  ?measure prov:wasGeneratedBy ?section ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name
  FILTER(STRENDS(STR(?name), $name))
} ORDER BY ?section ?value"""
EPOCHS = "SELECT ?index WHERE { ?epoch a provml:TrainingEpochExecution ; provml:sectionIndex ?index } ORDER BY ?index"
HYPERPARAMETERS = """SELECT ?name ?value WHERE {
  ?node a provml:LearningHyperparameterValue ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name
} ORDER BY ?name"""


def measures(home: Path | Service, name: str) -> list[float]:
    """Return the values of a measure of training epochs and stages, in the order of their sections."""
    query = MEASURES.replace("FILTER(STRENDS(STR(?name), $name))", f"FILTER(STR(?name) = '{name}')")
    return [float(row[2]) for row in rows(home, query)]


def test_1_a_double_slash_is_a_slash(client: TestClient, service: Service) -> None:
    for exchange in recorded("dfanalyzer/dnnprov-default-url-double-slash"):
        assert exchange["path"].startswith("//pde/")
        assert send(client, exchange).status_code == 200
    assert len(all_events(service)) > 20
    assert client.post(f"{HOST}//api/v1/lineage", json={}).status_code == 404  # only where clients need it


@pytest.mark.parametrize("body", [b"{", b"[]", b"17", b'"x"', b"null", b'{"status": 5}', b'{"dataflow": {"a": []}}'])
@pytest.mark.parametrize("path", ["/pde/task/json", "/pde/dataflow/json", "/retrospective-provenance"])
def test_2_what_can_be_kept_is_answered_with_2xx(client: TestClient, service: Service, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    lines = [line for file in service.home.glob("received/*/*.jsonl") for line in file.read_text().splitlines()]
    assert len(lines) == 1
    assert client.get("/api/v1/runs").status_code == 200


def test_2_a_task_that_fits_no_set_is_a_capture_error(tmp_path: Path) -> None:
    exchanges = recorded("dfanalyzer/dnnprov-training")
    exchanges[3]["body"]["json"]["sets"][0]["tag"] = "nowhere"
    home = translated(tmp_path, "dfanalyzer", exchanges)
    (fault,) = (event for event in all_events(home) if isinstance(event, events.CaptureErrors))
    assert "nowhere" in fault.first


def test_3_a_failed_run_does_not_look_finished(tmp_path: Path) -> None:
    for number, name in enumerate(("workflow-failed-task", "script-dies")):
        translated(tmp_path / "dfa", "dfanalyzer", recorded(f"dfanalyzer/{name}"), silence=number * 1000)
    status_by_name = {name.partition("-2026")[0]: status for name, status in statuses(tmp_path / "dfa").items()}
    assert status_by_name == {"df-bad": "FAILED", "dies": "LOST"}
    home = translated(tmp_path / "pl", "provlake", recorded("provlake/training-fails"))
    assert statuses(home) == {"nanwf": "FAILED"}
    errors = [event.error for event in all_events(home) if isinstance(event, events.End)]
    assert errors == [["RuntimeError", "loss is NaN"]]


def test_3_a_run_is_running_until_its_plan_is_complete_or_silence(tmp_path: Path) -> None:
    clock = Clock()
    ingest = new_ingest(tmp_path, "dfanalyzer", clock)
    exchanges = recorded("dfanalyzer/dnnprov-training")
    feed(ingest, "dfanalyzer", exchanges[:9], clock)  # the training has ended, the test has not begun
    assert not any(isinstance(event, events.End) for event in all_events(tmp_path))
    clock.now += 1000
    ingest.finish()
    for source in list(ingest._sources.values()):
        for run_id in source.state.run_ids():
            assert source.state.translate(run_id, clock.now).events[-1] == events.End(exchanges[8]["t"])


def test_4_zeros_that_are_left_out_are_zeros() -> None:
    run = ProvLakeRun("w", "1")
    cycle = {"wf_execution": 1, "startTime": 10.0, "status": "RUNNING"}
    run.feed({"act_type": "cycle", "prov_obj": {"cycle": cycle, "cycle_name": "epoch", "type": "Input"}}, 10.0)
    for kind in ("Input", "Output"):
        task = {"id": "t", "wf_execution": 1, "startTime": 11.0, "parent_cycle_name": "epoch"}
        task |= {"endTime": 12.0, "status": "FINISHED"} if kind == "Output" else {}
        run.feed({"act_type": "task", "prov_obj": {"task": task, "dt": "work", "type": kind}}, 12.0)
    begins = {event.location: event for event in run.all_events() if isinstance(event, events.Begin)}
    assert begins["work"].parent == "epoch"


def test_5_text_becomes_what_it_stands_for(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run()
    texts = {"none": "None", "flag": "True", "list": "[64, 32]", "lr": "0.009999999776482582", "n": "12", "v": "1_0"}
    for key, value in texts.items():
        run.post("log-parameter", key=key, value=value)
    for value in ("NaN", "Infinity", "-Infinity"):
        run.post("log-metric", key="odd", value=value, timestamp=1700000000000, step=0)
    run.finish()
    expected = {"none": "None", "flag": True, "list": "[64, 32]", "lr": 0.009999999776482582, "n": 12, "v": "1_0"}
    parameters = {
        key: value
        for event in all_events(service)
        if isinstance(event, events.Parameter)
        for key, value in event.values.items()
    }
    assert parameters == expected
    assert {param["key"]: param["value"] for param in run.get()["data"]["params"]} == texts
    values = measures(service, "odd")
    assert sorted(value for value in values if not math.isnan(value)) == [-math.inf, math.inf]
    assert len(values) == 3
    history = run.history("odd")
    assert sorted(metric["value"] for metric in history) == ["-Infinity", "Infinity", "NaN"]
    dfa = translated(service.home.parent / "dfa", "dfanalyzer", recorded("dfanalyzer/dnnprov-training"))
    assert ("learning_rate", 0.002) in rows(dfa, HYPERPARAMETERS)


def test_6_the_same_fact_twice_is_one_fact(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run()
    batch = [{"key": "loss", "value": 0.5, "timestamp": 1700000000000, "step": step} for step in (0, 1)]
    for _ in range(3):
        run.post("log-batch", metrics=batch, params=[{"key": "epochs", "value": "2"}])
    run.post("log-batch", metrics=[{**batch[0], "model_id": "m-1"}])
    run.finish()
    assert measures(service, "loss") == [0.5, 0.5]
    assert len(run.history("loss")) == 2


def test_6_a_run_whose_answer_was_lost_is_created_once(client: TestClient) -> None:
    raw = RawClient(client)
    first, second = raw.create_run(start_time=17), raw.create_run(start_time=17)
    assert first.id == second.id
    first.post("set-tag", key="a", value="b")
    assert raw.create_run(start_time=17).id != first.id  # another run that began in the same millisecond
    parent = [{"key": "mlflow.parentRunId", "value": first.id}]
    trials = {raw.create_run(start_time=17, tags=parent).id for _ in range(3)}
    assert len(trials) == 3  # the trials of a search are created alike


def test_7_steps_may_come_in_any_order(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run()
    run.post("log-parameter", key="epochs", value="40")
    order = [*range(20, 40), *range(20)]
    for number, step in enumerate(order):
        run.post("log-metric", key="loss", value=float(step), timestamp=1700000000000 + step, step=step)
        if number % 10 == 0:
            service.sync()
    run.finish()
    assert [row[0] for row in rows(service, EPOCHS)] == list(range(1, 41))
    sections = {
        event.location: event.values["loss"] for event in all_events(service) if isinstance(event, events.Measured)
    }
    assert sections == {f"training/{step + 1}": float(step) for step in range(40)}


def test_7_a_value_for_a_section_that_has_ended(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run()
    for step in range(3):
        run.post("log-metric", key="loss", value=1.0 - step / 10, timestamp=1700000000000 + step, step=step)
    run.finish()
    run.post("log-metric", key="accuracy", value=0.25, timestamp=1700000000005, step=1)
    run.post("log-metric", key="accuracy", value=0.75, timestamp=1700000000006, step=2)
    assert measures(service, "accuracy") == [0.25, 0.75]
    assert statuses(service) == {run.name: "FINISHED"}


def test_8_one_step_may_have_several_values(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run(tags=[{"key": "mlflow.autologging", "value": "keras"}])
    for epoch in range(3):
        time = 1700000000000 + epoch
        run.post("log-metric", key="validation_loss", value=3.0 - epoch, timestamp=time, step=0)
        run.post("log-batch", metrics=[{"key": "val_loss", "value": 3.0 - epoch, "timestamp": time, "step": epoch}])
    run.finish()
    assert sorted(measures(service, "validation_loss")) == [1.0, 2.0, 3.0]
    validation = {
        event.location: event.values["loss"]
        for event in all_events(service)
        if isinstance(event, events.Measured) and "loss" in event.values
    }
    assert validation == {"validation/1": 3.0, "validation/2": 2.0, "validation/3": 1.0}


@pytest.mark.parametrize("first", [0, 1])
def test_9_epochs_count_from_1(client: TestClient, service: Service, first: int) -> None:
    run = RawClient(client).create_run()
    run.post("log-parameter", key="epochs", value="3")
    for step in range(first, first + 3):
        run.post("log-metric", key="loss", value=1.0, timestamp=1700000000000 + step, step=step)
    run.finish()
    assert [row[0] for row in rows(service, EPOCHS)] == [1, 2, 3]
    assert [metric["step"] for metric in run.history("loss")] == [first, first + 1, first + 2]


@pytest.mark.parametrize("client_name", ["dfanalyzer", "provlake"])
def test_9_epochs_of_the_originals_count_from_1(tmp_path: Path, client_name: str) -> None:
    name = {"dfanalyzer": "kerasprov-training", "provlake": "training"}[client_name]
    home = translated(tmp_path, client_name, recorded(f"{client_name}/{name}"))
    assert [row[0] for row in rows(home, EPOCHS)] == [1, 2, 3]


def test_10_ids_are_reused(tmp_path: Path) -> None:
    home = translated(tmp_path / "tagged", "dfanalyzer", recorded("dfanalyzer/three-runs-one-dataflow"))
    assert len(list((home / "runs").iterdir())) == 3
    first = recorded("dfanalyzer/workflow-files")
    second = recorded("dfanalyzer/workflow-files")
    for exchange in second:
        exchange["t"] += 3600
        for performance in exchange["body"]["json"].get("performances", []):
            performance["endTime"] = "2026-11-17 15:31:46"
    clock = Clock()
    ingest = new_ingest(tmp_path / "untagged", "dfanalyzer", clock)
    feed(ingest, "dfanalyzer", [*first, *second], clock)
    assert len(list((tmp_path / "untagged" / "runs").iterdir())) == 2
    before = graph(tmp_path / "untagged")
    feed(ingest, "dfanalyzer", [*first], clock)  # the same requests again are no third run
    assert graph(tmp_path / "untagged") == before


def test_10_rows_that_come_again_are_the_same_rows(tmp_path: Path) -> None:
    """Clients without a tag send all rows of a task with each message."""
    home = translated(tmp_path, "dfanalyzer", recorded("dfanalyzer/workflow-files"))
    used = [event for event in all_events(home) if isinstance(event, events.Used) and event.location == "load"]
    assert len(used) == 1


def test_10_rows_that_come_one_by_one_are_several_rows(client: TestClient, service: Service) -> None:
    """A client without a tag may also send only what is new."""
    attributes = [{"name": "EPOCH", "type": "NUMERIC"}, {"name": "loss", "type": "NUMERIC"}]
    sets = [{"tag": "otrainingmodel", "type": "OUTPUT", "attributes": attributes}]
    dataflow = {"tag": "net", "transformations": [{"tag": "trainingmodel", "sets": sets}]}
    assert client.post("/pde/dataflow/json", json=dataflow).status_code == 200
    task = {"tag": "t", "transformation": "trainingmodel", "dataflow": "net", "id": "1", "status": "RUNNING"}
    losses = ["0.5", "0.25", "0.125"]
    for epoch, loss in enumerate([*losses, losses[-1]]):  # the last one is sent twice
        elements = [[str(min(epoch, 2)), loss]]
        message = {**task, "sets": [{"tag": "otrainingmodel", "elements": elements}]}
        assert client.post("/pde/task/json", json=message).status_code == 200
    assert measures(service, "loss") == [float(loss) for loss in losses]
    query = "mapping(physical) source(otrainingmodel) target(otrainingmodel) projection(otrainingmodel.loss)"
    answer = client.post("/query_interface/net/1", content=query, headers={"Content-Type": "text/plain"})
    assert answer.text.split() == ["otrainingmodel.loss", *losses]


def test_10_the_number_for_nan_is_nan(tmp_path: Path) -> None:
    exchanges = recorded("dfanalyzer/dnnprov-training")
    row: list[Any] = exchanges[3]["body"]["json"]["sets"][0]["elements"][0]
    row[2] = "-9999999"
    home = translated(tmp_path, "dfanalyzer", exchanges)
    assert any(math.isnan(value) for value in measures(home, "loss"))
    (log,) = home.glob("received/dfanalyzer/*.jsonl")
    assert "-9999999" in log.read_text()


def test_a_task_may_come_before_its_dataflow(tmp_path: Path) -> None:
    first, *rest = recorded("dfanalyzer/workflow-files")
    clock = Clock()
    ingest = new_ingest(tmp_path / "late", "dfanalyzer", clock)
    feed(ingest, "dfanalyzer", rest, clock)
    assert not (tmp_path / "late" / "runs").exists()
    feed(ingest, "dfanalyzer", [first], clock)
    assert graph(tmp_path / "late") == graph(translated(tmp_path / "early", "dfanalyzer", [first, *rest]))


def test_a_request_without_a_source_is_kept(tmp_path: Path) -> None:
    ingest = new_ingest(tmp_path, "dfanalyzer")
    ingest.receive("unreadable", Received(1.0, "task", None, text="x"))
    ingest.translate(at_once=True)
    assert ingest.log.open_sources() == []


def test_an_address_that_does_not_exist_is_told_where_all_are(client: TestClient) -> None:
    assert "/api/docs" in client.get("/nothing/here").json()["detail"]
