"""The REST interface: runs, their parts, questions, artifacts, validation and terms, in every format."""

from __future__ import annotations

import csv
import io
import os
import time
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

import provml
from provml.answers import Answer
from provml.rdf.namespaces import OWL, PROVML, RDF_TYPE, RDFS, SKOS
from provml.web import answers
from provml.web.service import IndexState

API = "/api/v1"


def rows(client: TestClient, path: str) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries."""
    answer = client.get(f"{API}/{path}")
    assert answer.status_code == 200, answer.text
    table = answer.json()
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


# ---- runs


def test_the_table_of_runs_is_filtered_sorted_and_paged(reader: TestClient):
    assert [row["run"] for row in rows(reader, "runs")] == ["tuesday", "monday"]
    assert [row["run"] for row in rows(reader, "runs?where=learning_rate+%3C+0.15")] == ["monday"]
    assert [row["run"] for row in rows(reader, "runs?sort=learning_rate&order=desc")] == ["tuesday", "monday"]
    assert rows(reader, "runs?status=FAILED") == []
    page = reader.get(f"{API}/runs?limit=1&sort=run").json()
    assert (page["total"], len(page["rows"]), page["next"]) == (2, 1, f"{API}/runs?sort=run&offset=1&limit=1")
    following = reader.get(page["next"]).json()
    assert (following["rows"][0][0], following["next"]) == ("tuesday", None)


def test_the_table_is_also_csv_and_sparql_results(reader: TestClient, recorded: Path):
    text = reader.get(f"{API}/runs", headers={"Accept": "text/csv"})
    assert text.headers["content-type"] == "text/csv; charset=utf-8"
    with provml.open(recorded) as store:
        expected = store.table()
    assert next(csv.reader(io.StringIO(text.text))) == expected.columns
    exact = reader.get(f"{API}/runs?format=sparql-json").content
    result = ox.parse_query_results(exact, format=ox.QueryResultsFormat.JSON)
    assert isinstance(result, ox.QuerySolutions)
    assert Answer.from_terms(expected.columns, map(tuple, result)).rows == expected.rows


def test_cells_that_a_spreadsheet_would_execute_are_quoted_on_request(client: TestClient):
    tag = {"kind": "tag", "text": "=1+1"}
    assert client.post(f"{API}/runs/monday/annotations", json=tag).status_code == 201
    assert ",=1+1," in client.get(f"{API}/runs?format=csv").text
    assert ",'=1+1," in client.get(f"{API}/runs?format=csv&safe=1").text


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("where=learning_rate+%3E", "FilterError"),
        ("sort=nothing", "ColumnNotFound"),
        ("status=GONE", "WrongValue"),
        ("order=up", "InvalidParameter"),
        ("limit=-1", "InvalidParameter"),
        ("limit=1e3", "InvalidParameter"),
        ("offset=x", "InvalidParameter"),
        ("filter=x", "UnknownParameter"),
        ("format=pdf", "UnknownFormat"),
    ],
)
def test_a_wrong_parameter_is_a_problem_with_a_code(reader: TestClient, query: str, code: str):
    answer = reader.get(f"{API}/runs?{query}")
    assert answer.status_code in (400, 404)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == code
    assert problem["type"].endswith(f"#{code}")
    assert problem["status"] == answer.status_code
    assert problem["detail"]


def test_a_run_is_json_ld(reader: TestClient):
    answer = reader.get(f"{API}/runs/monday")
    assert answer.json()["status"] == "FINISHED"
    assert "has_provenance" in answer.headers["link"]
    triples = {quad.triple for quad in ox.parse(answer.content, format=ox.RdfFormat.JSON_LD)}
    node = ox.NamedNode("https://w3id.org/provml/run/monday")
    assert ox.Triple(node, ox.NamedNode(f"{RDFS}label"), ox.Literal("flowers")) in triples
    times = [triple.object for triple in triples if triple.predicate.value.endswith("startedAtTime")]
    assert "dateTime" in str(times[0])


def test_links_name_the_service_as_the_client_does(reader: TestClient):
    links = [reader.get(f"http://{host}:8420{API}/runs/monday").json()["links"] for host in ("127.0.0.1", "localhost")]
    assert [link["self"].split("/")[2] for link in links] == ["127.0.0.1:8420", "localhost:8420"]


def test_a_run_is_found_as_on_the_command_line(reader: TestClient):
    assert reader.get(f"{API}/runs/latest").json()["id"] == "tuesday"
    assert reader.get(f"{API}/runs/mon").json()["id"] == "monday"
    missing = reader.get(f"{API}/runs/sunday")
    assert (missing.status_code, missing.json()["code"]) == (404, "RunNotFound")
    assert "monday" in missing.json()["suggestions"]


def test_the_links_of_a_run_lead_to_its_parts(reader: TestClient):
    links = reader.get(f"{API}/runs/tuesday").json()["links"]
    for name, url in links.items():
        answer = reader.get(url)
        assert answer.status_code == 200, f"{name}: {answer.text}"


def test_the_parts_of_a_run(reader: TestClient):
    assert [row["section"] for row in rows(reader, "runs/tuesday/epochs") if row["stage"] == "training"] == [1, 2, 3]
    (adaptation,) = rows(reader, "runs/tuesday/adaptations")
    assert (adaptation["from"], adaptation["to"], adaptation["technique"]) == (0.2, 0.05, "step decay")
    (layer,) = rows(reader, "runs/tuesday/layers")
    assert (layer["name"], layer["type"], layer["settings"]) == ("hidden", "Dense", "units=24")
    assert [row["kind"] for row in rows(reader, "runs/tuesday/stages")] == ["training", "evaluation"]
    assert rows(reader, "runs/tuesday/hyperparameters")[0]["name"] == "learning_rate"
    assert rows(reader, "runs/tuesday/datasets")[0]["dataset"] == "petals"


def test_measures_come_by_range(reader: TestClient):
    measures = rows(reader, "runs/monday/measures?name=loss&from=2&to=3")
    assert [(row["section"], row["value"]) for row in measures] == [(2, 0.5), (3, 1.0 / 3)]
    assert {row["name"] for row in rows(reader, "runs/monday/measures")} == {"loss", "accuracy"}
    assert [row["value"] for row in rows(reader, "runs/monday/measures?stage=evaluation")] == [0.9]


def test_runs_are_compared(reader: TestClient):
    differing = [row["name"] for row in rows(reader, "compare?run=monday&run=tuesday") if row["differs"]]
    assert "learning_rate" in differing
    assert reader.get(f"{API}/compare?run=monday").status_code == 400


def test_a_run_is_validated(reader: TestClient):
    assert reader.get(f"{API}/runs/monday/validation").json()["conforms"] is True
    turtle = reader.get(f"{API}/runs/monday/validation", headers={"Accept": "text/turtle"})
    assert "ValidationReport" in turtle.text


def test_the_status_names_the_access_of_the_token(reader: TestClient):
    status = reader.get(f"{API}/status").json()
    assert (status["runs"], status["access"], status["version"]) == (2, "read", provml.__version__)


# ---- annotations


def test_a_run_is_tagged_over_http(client: TestClient, home: Path):
    url = f"{API}/runs/monday/annotations"
    assert client.post(url, json={"kind": "tag", "text": "good", "by": "ana"}).json()["tags"] == ["good"]
    (note,) = client.post(url, json={"kind": "note", "text": "keep it", "by": "ana"}).json()["notes"]
    assert (note["text"], note["by"]) == ("keep it", "ana")
    assert abs(datetime.fromisoformat(note["time"]).timestamp() - time.time()) < 60
    assert client.post(url, json={"kind": "tag", "text": "good", "removed": True}).json()["tags"] == []
    assert client.post(url, json={"kind": "name", "text": "best"}).json()["name"] == "best"
    for body in (
        {"kind": "colour", "text": "x"},
        {"kind": "name", "text": "x", "removed": True},
        {"kind": "tag"},
        {"kind": "tag", "text": ""},
        ["tag"],
    ):
        assert client.post(url, json=body).status_code == 422
    assert client.post(url, content=b"{", headers={"Content-Type": "application/json"}).status_code == 400


# ---- questions


def test_every_question_of_the_catalog_can_be_asked(reader: TestClient, recorded: Path):
    listed = reader.get(f"{API}/questions").json()["questions"]
    with provml.open(recorded) as store:
        assert [question["name"] for question in listed] == list(store.catalog)
    for question in listed:
        required = [p for p in question["parameters"] if p["required"]]
        values = {p["name"]: p["example"] for p in required if p["example"] is not None}
        answer = reader.get(question["url"], params=values)
        assert answer.status_code in (200, 400, 404), answer.text
        if not required:
            assert answer.status_code == 200, f"{question['name']}: {answer.text}"


def test_an_answer_is_that_of_the_library(reader: TestClient, recorded: Path):
    table = reader.get(f"{API}/ask/q6", params={"model": "net"}).json()
    with provml.open(recorded) as store:
        answer = store.ask("q6", model="net")
    assert (table["columns"], table["total"]) == (answer.columns, len(answer))
    exact = reader.get(f"{API}/ask/q6", params={"model": "net", "format": "sparql-json"}).content
    result = ox.parse_query_results(exact, format=ox.QueryResultsFormat.JSON)
    assert isinstance(result, ox.QuerySolutions)
    assert Answer.from_terms(answer.columns, map(tuple, result)).rows == answer.rows


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("ask/q99", 404, "QueryNotFound"),
        ("ask/q6?modell=net", 400, "InvalidParameter"),
        ("ask/q6?model=nett", 400, "InvalidParameter"),
        ("ask/q6?model=net&model=other", 400, "InvalidParameter"),
        ("ask/q1?epoch=two&model=net", 400, "InvalidParameter"),
    ],
)
def test_a_wrong_question_is_explained(reader: TestClient, path: str, status: int, code: str):
    answer = reader.get(f"{API}/{path}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_question_of_the_user_is_there_as_soon_as_its_file_is(client: TestClient, home: Path):
    assert client.get(f"{API}/ask/mine").status_code == 404
    (home / "queries").mkdir(exist_ok=True)
    text = "#+ name: mine\n#+ summary: Which runs are there?\n#+ params:\n#+   status: {type: string}\n"
    query = "SELECT ?run WHERE { ?run a provml:LearningProcessExecution ; provlake:status $status } ORDER BY ?run"
    (home / "queries" / "mine.rq").write_text(text + query)
    answer = client.get(f"{API}/ask/mine?status=FINISHED")
    assert [row[0].rpartition("/")[2] for row in answer.json()["rows"]] == ["monday", "tuesday"]
    assert client.get(f"{API}/questions/mine").json()["is_packaged"] is False
    assert f"{API}/ask/mine" in client.get(f"{API}/openapi.json").json()["paths"]


# ---- artifacts and lineage


def test_a_question_that_the_user_changes_is_asked_as_it_is_now(client: TestClient, home: Path):
    file = home / "queries" / "mine.rq"
    file.parent.mkdir(exist_ok=True)
    header = "#+ name: mine\n#+ summary: A number\n"
    for number in (1, 2):
        file.write_text(f"{header}SELECT ({number} AS ?n) WHERE {{}}")
        os.utime(file, (number, number))
        assert client.get(f"{API}/ask/mine").json()["rows"] == [[number]]


def test_an_artifact_is_read_by_its_digest_and_by_its_name(reader: TestClient):
    items = rows(reader, "runs/monday/artifacts")
    model = next(item for item in items if item["size"] == len("weights of monday"))
    by_digest = reader.get(f"{API}/artifacts/{model['sha256']}")
    assert by_digest.content == b"weights of monday"
    assert by_digest.headers["content-disposition"].startswith("attachment")
    assert by_digest.headers["content-type"] == "application/octet-stream"
    assert by_digest.headers["content-security-policy"].startswith("sandbox")
    assert reader.get(f"{API}/runs/monday/artifacts/{model['name']}").content == b"weights of monday"
    part = reader.get(f"{API}/artifacts/{model['sha256']}", headers={"Range": "bytes=8-9"})
    assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"of", "bytes 8-9/17")
    tag = {"If-None-Match": by_digest.headers["etag"]}
    assert reader.get(f"{API}/artifacts/{model['sha256']}", headers=tag).status_code == 304
    assert reader.get(f"{API}/artifacts/{model['sha256']}", headers={"Range": "bytes=99-"}).status_code == 416


def test_lineage_comes_as_records_and_as_pictures(reader: TestClient):
    records = reader.get(f"{API}/runs/monday/lineage").json()
    assert "petals" in [name for item in records["items"] for name in item["names"]]
    assert reader.get(f"{API}/lineage?subject=petals&forward=1").json()["forward"] is True
    assert reader.get(f"{API}/runs/monday/lineage?format=svg").text.startswith("<svg")
    assert reader.get(f"{API}/runs/monday/lineage?format=mermaid").text.count("flowchart") == 1
    assert reader.get(f"{API}/lineage").status_code == 400
    assert reader.get(f"{API}/lineage?subject=nothing-of-the-kind").status_code == 400


# ---- terms


def test_terms_of_the_ontology_are_described(reader: TestClient):
    model = reader.get(f"{API}/ontology/terms/provml:Model").json()
    assert model["@id"] == "https://w3id.org/provml#Model"
    assert model["definition"]
    listed = reader.get(f"{API}/ontology/terms?q=adaptation").json()
    assert "provml:AdaptationExecution" in [term["name"] for term in listed["terms"]]
    missing = reader.get(f"{API}/ontology/terms/provml:Modell")
    assert (missing.status_code, missing.json()["suggestions"]) == (404, ["provml:Model"])
    assert reader.get(f"{API}/context.jsonld").json()["@context"]


# ---- caching


def test_terms_are_json_ld(reader: TestClient):
    def triples(path: str) -> set[tuple[str, str, str]]:
        quads = ox.parse(reader.get(f"{API}/ontology/{path}").content, format=ox.RdfFormat.JSON_LD)
        return {(quad.subject.value, quad.predicate.value, quad.object.value) for quad in quads}

    term = f"{PROVML}TrainingExecution"
    one, several = triples("terms/provml:TrainingExecution"), triples("terms?q=training")
    assert (term, RDF_TYPE, f"{OWL}Class") in one & several
    assert {predicate for _, predicate, _ in one} == {
        RDF_TYPE, f"{RDFS}label", f"{RDFS}subClassOf", f"{SKOS}definition"
    }  # fmt: skip
    assert len({subject for subject, _, _ in several}) > 5


CONDITIONAL = (
    "/sparql?query=ASK%7B%7D",
    "/graphs?graph=https://w3id.org/provml/run/monday",
    "/graphs?graph=https://w3id.org/provml",
    "/nodes?iri=https://w3id.org/provml/run/monday",
    f"{API}/runs",
    f"{API}/runs/monday/artifacts/net",
    f"{API}/context.jsonld",
)


@pytest.mark.parametrize("path", CONDITIONAL)
def test_what_a_client_has_is_not_sent_again(reader: TestClient, path: str):
    headers = reader.get(path).headers
    tag, time_text = headers["etag"], headers["last-modified"]
    assert parsedate_to_datetime(time_text).timestamp() < time.time()
    weak = f"W/{tag.removeprefix('W/')}"
    for condition in ({"If-None-Match": f'"x", {tag}'}, {"If-None-Match": weak}, {"If-Modified-Since": time_text}):
        answer = reader.get(path, headers=condition)
        assert (answer.status_code, answer.content) == (304, b"")
        assert {name: answer.headers[name] for name in ("etag", "last-modified", "vary")} == {
            "etag": tag, "last-modified": time_text, "vary": headers["vary"]
        }  # fmt: skip
    old = "Mon, 01 Jan 2024 00:00:00 GMT"
    for condition in (
        {"If-Modified-Since": old},
        {"If-Modified-Since": "yesterday"},
        {"If-Modified-Since": time_text, "If-None-Match": '"x"'},  # the tag counts
    ):
        assert reader.get(path, headers=condition).status_code == 200


def test_a_change_in_the_same_second_is_sent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(answers.time, "time", lambda: 1000.9)
    early, late = (answers.Version.of(IndexState(name, seconds)) for name, seconds in (("a", 1000.1), ("b", 1000.5)))
    sent_time = early.headers()["Last-Modified"]
    monkeypatch.setattr(answers.time, "time", lambda: 1001.0)
    scope = {"type": "http", "method": "GET", "headers": [(b"if-modified-since", sent_time.encode())]}
    assert not late.is_current(Request(scope))


def test_an_answer_changes_its_tag_when_something_is_recorded(client: TestClient, home: Path):
    first = client.get(f"{API}/runs")
    tag = {"If-None-Match": first.headers["etag"]}
    assert client.get(f"{API}/runs", headers=tag).status_code == 304
    assert client.get(f"{API}/runs?format=csv", headers=tag).status_code == 200
    with provml.record("flowers", home=home, run="wednesday", capture_environment=False):
        pass
    time.sleep(0.3)  # longer than an answer may be old
    second = client.get(f"{API}/runs", headers=tag)
    assert (second.status_code, second.json()["total"]) == (200, 3)
