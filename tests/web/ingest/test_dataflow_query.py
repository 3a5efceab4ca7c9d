"""The query interface of DfAnalyzer over what its clients sent."""

from __future__ import annotations

import csv
import io
from urllib.parse import quote, urlencode

import pytest
from starlette.testclient import TestClient

from provml.web.ingest import dataflow_query
from provml.web.ingest.dataflow_query import DataSets, parse_specification
from provml.web.problems import Problem
from tests.web.ingest.exchanges import HOST, Clock, feed, new_ingest, recorded, send

SCENARIOS = {"dnnp-1": "dnnprov-training", "df-hpc": "workflow-files", "grid": "three-runs-one-dataflow"}


@pytest.fixture(scope="module")
def data_sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataSets]:
    """The data sets of recorded dataflows by their tags."""
    ingest, clock = new_ingest(tmp_path_factory.mktemp("dfanalyzer"), "dfanalyzer"), Clock()
    for scenario in SCENARIOS.values():
        feed(ingest, "dfanalyzer", recorded(f"dfanalyzer/{scenario}"), clock, translates=False)
    return {tag: ingest.source(tag).state.data_sets() for tag in SCENARIOS}


ENDS = "source(itrainingmodel) target(otrainingmodel)"


@pytest.mark.parametrize(
    ("dataflow", "query", "rows"),
    [
        ("dnnp-1", "projection(otrainingmodel.EPOCH) selection(otrainingmodel.loss < 0.9)", [(2,), (3,)]),
        (
            "dnnp-1",
            (f"mapping(physical)\n{ENDS}\nprojection(itrainingmodel.learning_rate; otrainingmodel.epoch)\n"
            "selection(otrainingmodel.epoch >= 1; itrainingmodel.optimizer_name = 'Adam'; otrainingmodel.epoch<3)"),
            [(0.002, 1), (0.002, 2)],
        ),
        (  # attributes that are compared with each other, over a task that depends on another one
            "dnnp-1",
            ("source(otrainingmodel) target(oadaptation) projection(oadaptation.new_lrate)"
            " selection(otrainingmodel.epoch = oadaptation.epoch_id)"),
            [(0.001,), (0.0005,)],
        ),
        ("df-hpc", "mapping(physical) source(iload) target(ofit) projection(iload.rows;ofit.k)",
         [(1360, 1), (1360, 11), (1360, 2), (1360, 12)]),  # through oload and oclean; each row once
        ("df-hpc", "mapping(logical) source(iload) target(oload) projection(oload.table)",
         [("/data/flow/table.parquet",)]),  # equal in `rows`
        ("df-hpc", "mapping(hybrid) source(oload) target(oclean) projection(oclean.how)", []),  # not equal in `table`
        ("grid", f"{ENDS} projection(itrainingmodel.learning_rate) selection(otrainingmodel.epoch = 0)",
         [(0.001,), (0.002,), (0.004,)]),  # each execution has a task 1
        ("grid", ("source(itrainingmodel) target(otestingmodel) projection(itrainingmodel.learning_rate)"
         " include(otrainingmodel) selection(otrainingmodel.epoch=1)"), [(0.001,), (0.002,), (0.004,)]),
    ],
)  # fmt: skip
def test_rows_are_joined_along_the_dataflow(
    data_sets: dict[str, DataSets], dataflow: str, query: str, rows: list[tuple[object, ...]]
) -> None:
    assert data_sets[dataflow].answer(parse_specification(query)).rows == rows


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "The query is empty"),
        ("hello", "'hello' is not a part of a query"),
        ("mapping(magic) projection(otrainingmodel.loss)", "physical, logical or hybrid"),
        ("projection(loss)", "Write dataset.attribute"),
        ("projection(otrainingmodel.loss) selection(otrainingmodel.loss ~ 1)", "is not a condition"),
        ("projection(elsewhere.loss)", "It has itrainingmodel, otrainingmodel"),
        ("projection(otrainingmodel.lost)", "no attribute 'lost'"),
        ("projection(itrainingmodel.learning_rate; otrainingmodel.loss)", "Name the ends"),
        ("source(otrainingmodel) target(itrainingmodel)", "not on a path"),
        ("source(itrainingmodel) target(oadaptation) exclude(otrainingmodel)", "not on a path"),
        (f"mapping(logical) {ENDS}", "no attribute in common"),
    ],
)
def test_a_wrong_query_is_explained(data_sets: dict[str, DataSets], query: str, reason: str) -> None:
    with pytest.raises(Problem) as error:
        data_sets["grid"].answer(parse_specification(query))
    assert error.value.status == 400
    assert reason in error.value.detail


def test_a_join_without_bound_is_stopped(data_sets: dict[str, DataSets], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow_query, "MAX_ROWS", 2)
    with pytest.raises(Problem) as error:
        data_sets["grid"].answer(parse_specification(ENDS))
    assert error.value.status == 413


def test_a_query_over_http(client: TestClient) -> None:
    exchanges = recorded("dfanalyzer/three-runs-one-dataflow")
    for exchange in exchanges:
        assert send(client, exchange).status_code == 200
    query = "projection(itrainingmodel.optimizer_name;itrainingmodel.learning_rate)"
    for url, body in (
        (f"{HOST}//query_interface/grid/2", query.encode()),
        (f"{HOST}/query_interface/GRID/1", urlencode({"message": query}).encode()),  # as DfAnalyzer's pages send it
    ):
        answer = client.post(url, content=body)
        assert answer.headers["content-type"].startswith("text/csv")
        assert list(csv.DictReader(io.StringIO(answer.text)))[1] == {
            "itrainingmodel.optimizer_name": "Adam", "itrainingmodel.learning_rate": "0.002"
        }  # fmt: skip
    execution = quote(exchanges[1]["body"]["json"]["exec"], safe="")
    only_one = client.post(f"/query_interface/grid/{execution}", content=query, headers={"Accept": "application/json"})
    assert only_one.json() == [{"itrainingmodel.optimizer_name": "SGD", "itrainingmodel.learning_rate": 0.001}]
    assert client.post("/query_interface/grid/nope", content=query).json()["code"] == "ExecutionNotFound"
    assert client.post("/query_interface/nope/1", content=query).json()["code"] == "DataflowNotFound"
