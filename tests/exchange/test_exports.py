"""Runs in formats of other tools: what their own libraries read is what was recorded."""

from __future__ import annotations

import csv
import io
import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
import yaml
from huggingface_hub import DatasetCard, ModelCard

import provml
from provml.errors import FileFormatError
from provml.exchange import read
from provml.rdf.namespaces import FAIR4ML, MLS, RDF_TYPE
from provml.store.export_formats import ALL

FORMULA = '=HYPERLINK("http://x","y")'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a finished run that has everything, a failed run with odd names, and an empty one."""
    home = tmp_path_factory.mktemp("exports") / "home"
    with provml.record("flowers", model="net", home=home, run="full", by="alice", task="image-classification") as run:
        raw = run.dataset(b"raw images", name="images", role="raw")
        with run.filter("gray-scale", using=raw, colours=2) as step:
            data = step.produced(b"gray images", name="gray images")
        test_data = run.dataset(b"test images", name="test images", role="test")
        with run.training(using=data, learning_rate=0.5, optimizer="Adam", epochs=3) as training:
            training.layers([{"name": "hidden", "type": "Dense", "units": 24, "parameter_count": 100}])
            for epoch in training.epochs(3):
                for batch in epoch.batches(range(2)):
                    batch.measured(loss=0.1)
                epoch.measured(loss=1.0 / epoch.index if epoch.index < 3 else math.inf, val_loss=2.0 / epoch.index)
                if epoch.index == 2:
                    training.adapted(learning_rate=0.25, technique="step decay", reason="plateau")
            model = training.produced(b"weights", keep=True)
        with run.evaluation(of=model, using=test_data) as test:
            test.measured(accuracy=0.75)
        run.tag("baseline")
        run.note("the first one")
    with pytest.raises(ArithmeticError):
        record_odd(home)
    with provml.record("empty", home=home, run="empty", capture_environment=False):
        pass
    return home


def record_odd(home: Path) -> None:
    with (
        provml.record("odd | <b>names</b>", model="net", home=home, run="odd", capture_environment=False) as run,
        run.training(**{FORMULA: FORMULA, "-1": -1, "a\nb|c": "x" * 40_000}) as training,
    ):
        for epoch in training.epochs(1):
            epoch.measured(**{"loss": math.nan, "@loss": 1.0})
        raise ArithmeticError("diverged")


def exported(home: Path, run: str | None, fmt: str, **options: str) -> bytes:
    buffer = io.BytesIO()
    with provml.open(home) as store:
        store.export(run, buffer, fmt, **options)
    return buffer.getvalue()


ONE_FILE = [fmt.name for fmt in ALL if fmt.target == "file"]


@pytest.mark.parametrize("fmt", ONE_FILE)
def test_every_run_can_be_written_in_every_format(home: Path, fmt: str):
    assert exported(home, "full", fmt)
    for run in ("odd", "empty"):
        if fmt == "dataset-card":
            with pytest.raises(FileFormatError, match="the run has no data"):
                exported(home, run, fmt)
        else:
            assert exported(home, run, fmt) or fmt == "fair4ml"  # which describes models, and there is none


# ---- cards


def test_a_model_card_has_the_results_and_marks_the_gaps(home: Path):
    with provml.open(home) as store:
        file = io.BytesIO()
        result = store.export_as("full", file, "model-card", license="MIT")
    card = ModelCard(file.getvalue().decode())
    assert card.data.license == "mit"
    assert card.data.datasets == ["gray images"]
    results = {(item.metric_type, item.dataset_name): item.metric_value for item in card.data.eval_results or []}
    assert results == {("accuracy", "test images"): 0.75, ("loss", "not recorded"): 2.0 / 3}
    assert "| training | loss | INF | gray images |" in card.text, "a value that is not finite is not left out"
    assert "step decay" in card.text
    assert len(result.gaps) == card.text.count("[More Information Needed]") > 3
    assert not any("licence" in gap for gap in result.gaps)


def test_a_model_card_of_odd_names_stays_a_card(home: Path):
    card = ModelCard(exported(home, "odd", "model-card").decode())
    assert card.data.to_dict()["tags"] == ["provml"]
    assert "<b>" not in card.text.split("```mermaid")[0]
    assert all(line.count("|") >= 2 for line in card.text.splitlines() if line.startswith("|"))


def test_a_dataset_card_says_how_the_data_was_made(home: Path):
    card = DatasetCard(exported(home, "full", "dataset-card").decode())
    assert card.data.pretty_name == "gray images"
    assert "| gray-scale | filter | images | colours=2" in card.text
    other = DatasetCard(exported(home, "full", "dataset-card", dataset="test images").decode())
    assert "No step that made it is recorded" in other.text
    with pytest.raises(FileFormatError, match=r"has no data 'sounds'.*images"):
        exported(home, "full", "dataset-card", dataset="sounds")


# ---- tables


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def test_csv_tables_escape_formulas_on_request(home: Path, tmp_path: Path):
    with provml.open(home) as store:
        store.export(None, tmp_path / "plain", "csv")
        store.export(None, tmp_path / "safe", "csv", escape_formulas="yes", bom="yes")
    values = {row["name"]: row for row in rows(tmp_path / "plain" / "hyperparameters.csv") if row["run"] == "odd"}
    assert values[FORMULA]["value"] == FORMULA
    assert values["-1"]["number"] == "-1.0"
    assert len(values["a\nb|c"]["value"]) == 40_000
    path = tmp_path / "safe" / "hyperparameters.csv"
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    safe = {row["name"]: row["value"] for row in rows(path) if row["run"] == "odd"}
    assert safe[f"'{FORMULA}"] == f"'{FORMULA}"
    assert safe["-1"] == "-1", "a number is not a formula"
    measures = rows(tmp_path / "plain" / "measures.csv")
    losses = [row["value"] for row in measures if (row["run"], row["name"]) == ("full", "loss")]
    assert losses == ["1.0", "0.5", "INF"]
    with provml.open(home) as store, pytest.raises(FileFormatError, match="the folder is not empty"):
        store.export(None, tmp_path / "plain", "csv")
    with provml.open(home) as store, pytest.raises(FileFormatError, match="takes yes or no, not 'maybe'"):
        store.export(None, tmp_path / "new", "csv", bom="maybe")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "safe"]


def test_parquet_tables_have_types(home: Path, tmp_path: Path):
    import pyarrow.parquet as pq

    with provml.open(home) as store:
        store.export(None, tmp_path / "tables", "parquet")
    table = pq.read_table(tmp_path / "tables" / "measures.parquet")
    losses = [row for row in table.to_pylist() if (row["run"], row["name"]) == ("full", "loss")]
    assert [(row["section"], row["number"]) for row in losses] == [(1, 1.0), (2, 0.5), (3, math.inf)]
    assert losses[0]["time"].tzinfo is not None
    runs = pq.read_table(tmp_path / "tables" / "runs.parquet").to_pylist()
    assert {row["run"]: row["status"] for row in runs} == {"full": "FINISHED", "odd": "FAILED", "empty": "FINISHED"}


def test_a_workbook_has_no_formulas(home: Path):
    from openpyxl import load_workbook

    workbook = load_workbook(io.BytesIO(exported(home, "odd", "xlsx")))
    values = [[cell.value for cell in row] for row in workbook["hyperparameters"].iter_rows(min_row=2)]
    cells = [cell for sheet in workbook for row in sheet.iter_rows() for cell in row]
    assert ["odd", "training", FORMULA, FORMULA, None] in values
    assert not [cell for cell in cells if cell.data_type == "f"]


def test_a_workbook_leaves_out_characters_that_xml_cannot_hold(tmp_path: Path):
    from openpyxl import load_workbook

    with (
        provml.record("x", home=tmp_path, run="x", strict=True, capture_environment=False) as run,
        run.training(prompt="a\0b\x1b\ud800\ufffe\uffff\r\n\u2028c"),
    ):
        pass
    workbook = load_workbook(io.BytesIO(exported(tmp_path, "x", "xlsx")))
    (row,) = [[cell.value for cell in row] for row in workbook["hyperparameters"].iter_rows(min_row=2)]
    assert row[2:4] == ["prompt", "ab\\ud800\n\u2028c"]


# ---- RDF of others


def test_ml_schema_and_fair4ml_describe_model_data_and_measures(home: Path):
    graph = ox.Store()
    graph.load(exported(home, "full", "ml-schema"), format=ox.RdfFormat.TURTLE)
    answers = graph.query(
        f"""PREFIX mls: <{MLS}> SELECT ?name ?value {{
          ?run mls:hasOutput ?e . ?e a mls:ModelEvaluation ; mls:hasValue ?value ; mls:specifiedBy/rdfs:label ?name
        }}""",
        prefixes={"rdfs": "http://www.w3.org/2000/01/rdf-schema#"},
    )
    values = {(row["name"].value, float(row["value"].value)) for row in answers}  # type: ignore[union-attr, index]
    assert ("accuracy", 0.75) in values
    graph = ox.Store()
    graph.load(exported(home, "full", "fair4ml", license="MIT"), format=ox.RdfFormat.TURTLE)
    models = list(graph.quads_for_pattern(None, ox.NamedNode(RDF_TYPE), ox.NamedNode(f"{FAIR4ML}MLModel")))
    assert len(models) == 1
    trained = list(graph.quads_for_pattern(models[0].subject, ox.NamedNode(f"{FAIR4ML}trainedOn"), None))
    tested = list(graph.quads_for_pattern(models[0].subject, ox.NamedNode(f"{FAIR4ML}testedOn"), None))
    assert len(trained) == len(tested) == 1
    assert trained[0].object != tested[0].object


# ---- OpenLineage


def test_events_of_openlineage_are_read_by_the_client_and_by_import(home: Path, tmp_path: Path):
    from openlineage.client.event_v2 import Dataset, Job, Run, RunEvent, RunState

    path = tmp_path / "events.jsonl"
    path.write_bytes(exported(home, "full", "openlineage"))
    events: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        RunEvent(  # checks the types, the time and the id
            eventTime=event["eventTime"],
            producer=event["producer"],
            run=Run(event["run"]["runId"]),
            job=Job(event["job"]["namespace"], event["job"]["name"]),
            eventType=RunState[event["eventType"]],
            inputs=[Dataset(item["namespace"], item["name"]) for item in event["inputs"]],
        )
    assert [event["eventType"] for event in events].count("COMPLETE") == 4
    (training,) = [event for event in events if event["job"]["name"] == "flowers.training" and event["outputs"]]
    assert [item["name"] for item in training["inputs"]] == ["gray images"]
    assert training["run"]["facets"]["provml_parameters"]["values"]["learning_rate"] == 0.5
    assert training["run"]["facets"]["provml_measures"]["values"]["loss"] == "INF"
    assert exported(home, "full", "openlineage") == path.read_bytes(), "ids depend on the run only"
    report = read(path, tmp_path / "back")
    assert report.runs
    failed = [json.loads(line) for line in exported(home, "odd", "openlineage").splitlines()]
    assert failed[-1]["eventType"] == "FAIL"
    assert "diverged" in failed[-1]["run"]["facets"]["errorMessage"]["message"]


# ---- MLflow


@pytest.fixture(scope="module")
def mlflow_store(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlflow") / "store"
    with provml.open(home) as store:
        assert store.export(None, folder, "mlflow") == 3
        again = store.export_as("full", folder, "mlflow")
    assert again.note == "1 run already there."
    return folder


def test_a_run_is_created_again_in_mlflow(mlflow_store: Path):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{mlflow_store / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("flowers")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["learning_rate"] == "0.5"
    assert run.data.params["gray-scale.colours"] == "2"
    losses = [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, "loss")]
    assert losses[:2] == [(1, 1.0), (2, 0.5)]
    assert losses[2][1] > 1e300, "MLflow stores an infinite value as the largest double"
    assert run.data.metrics["val_loss"] == 2.0 / 3
    assert run.data.metrics["test_accuracy"] == 0.75
    assert [p.value for p in client.get_metric_history(run.info.run_id, "learning_rate")] == [0.5, 0.25]
    assert {item.dataset.name for item in run.inputs.dataset_inputs} >= {"gray images", "test images"}
    assert run.data.tags["provml.run"] == "full"
    names = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert "provml" in names
    assert len(names) == 2


def test_what_mlflow_has_comes_back_by_import(mlflow_store: Path, tmp_path: Path):
    report = read(mlflow_store, tmp_path / "back")
    assert len(report.runs) == 3
    with provml.open(tmp_path / "back") as store:
        table = store.table()
        columns = dict(zip(table.columns, next(row for row in table.rows if "flowers" in row), strict=True))
    assert columns["status"] == "FINISHED"
    assert columns["learning_rate"] == 0.5
    assert columns["test_accuracy"] == 0.75
    with sqlite3.connect(mlflow_store / "mlflow.db") as database:
        statuses = {status for (status,) in database.execute("SELECT status FROM runs")}
    assert statuses == {"FINISHED", "FAILED"}


def test_the_metadata_of_a_card_is_plain_yaml(home: Path):
    text = exported(home, "odd", "model-card", description="a: b\n---\n").decode()
    assert yaml.safe_load(text.split("---\n")[1])["tags"] == ["provml"]
