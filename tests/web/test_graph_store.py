"""The graph store: graphs of runs, the ontology, loaded graphs, and who may write what; PROV-AQ and /id."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pyoxigraph as ox
import pytest
from starlette.testclient import TestClient

import provml
from provml.web.app import create_app
from provml.web.service import Service
from provml.web.settings import ServiceSettings, Tokens
from web.conftest import HOST, READ, WRITE, bearer

MONDAY = "https://w3id.org/provml/run/monday"
TURTLE = {"Content-Type": "text/turtle"}


def graph(text: bytes, media_type: str) -> set[str]:
    """Return the triples of a graph without blank nodes."""
    fmt = ox.RdfFormat.from_media_type(media_type.partition(";")[0])
    return {str(quad.triple) for quad in ox.parse(text, format=fmt)}


@pytest.mark.parametrize("media_type", ["text/turtle", "application/n-triples", "application/ld+json"])
def test_the_graph_of_a_run_is_its_export(reader: TestClient, recorded: Path, media_type: str):
    answer = reader.get("/graphs", params={"graph": MONDAY}, headers={"Accept": media_type})
    with provml.open(recorded) as store:
        expected = {str(quad.triple) for quad in store.graph("monday")}
    assert graph(answer.content, answer.headers["content-type"]) == expected
    assert f'anchor="{MONDAY}"' in answer.headers["link"]
    assert 'rel="http://www.w3.org/ns/prov#has_provenance"' in answer.headers["link"]


def test_the_ontology_is_a_graph(reader: TestClient):
    answer = reader.get("/graphs", params={"graph": "https://w3id.org/provml", "format": "nt"})
    assert any("provml#Model>" in triple for triple in graph(answer.content, "application/n-triples"))


@pytest.mark.parametrize("name", [MONDAY, "https://w3id.org/provml"])
def test_head_gives_the_length_of_the_graph_or_none(reader: TestClient, name: str):
    head, answer = (reader.request(method, "/graphs", params={"graph": name}) for method in ("HEAD", "GET"))
    assert head.headers.get("content-length") == answer.headers.get("content-length")


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
@pytest.mark.parametrize("name", [MONDAY, "https://w3id.org/provml", f"{MONDAY}/training"])
def test_what_was_recorded_cannot_be_written(client: TestClient, method: str, name: str):
    answer = client.request(method, "/graphs", params={"graph": name}, content=b"", headers=TURTLE)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_a_loaded_graph_survives_a_restart(settings: ServiceSettings):
    url = "/graphs?graph=http%3A%2F%2Fexample.org%2Fg"
    with Service(settings) as service, TestClient(create_app(service), base_url=HOST, headers=bearer(WRITE)) as client:
        assert client.put(url, content="<a> <b> <c> .", headers=TURTLE).status_code == 201
        assert client.post(url, content="<a> <b> <d> .", headers=TURTLE).status_code == 204
        assert client.put("/graphs?graph=http://example.org/empty", content="", headers=TURTLE).status_code == 201
    with Service(settings) as service, TestClient(create_app(service), base_url=HOST, headers=bearer(READ)) as client:
        answer = client.get(url, headers={"Accept": "application/n-triples"})
        assert graph(answer.content, "application/n-triples") == {
            "<http://example.org/a> <http://example.org/b> <http://example.org/c>",
            "<http://example.org/a> <http://example.org/b> <http://example.org/d>",
        }
        assert client.get("/graphs?graph=http://example.org/empty").status_code == 200


def test_removing_a_loaded_triple_leaves_the_same_triple_of_a_run(client: TestClient):
    run_triples = client.get("/graphs", params={"graph": MONDAY, "format": "nt"}).content
    before = client.get("/graphs?default&format=nt").content
    nt = {"Content-Type": "application/n-triples"}
    extra = b'<http://example.org/x> <http://example.org/p> "y" .\n'
    assert client.put("/graphs?default", content=run_triples + extra, headers=nt).status_code == 204
    assert extra.strip() in client.get("/graphs?default&format=nt").content
    assert client.delete("/graphs?default").status_code == 204
    after = client.get("/graphs?default&format=nt").content
    assert sorted(after.splitlines()) == sorted(before.splitlines())


def test_a_graph_that_does_not_exist_is_not_found(client: TestClient):
    for method in ("GET", "HEAD", "DELETE"):
        assert client.request(method, "/graphs?graph=http://example.org/none").status_code == 404


def test_the_read_token_does_not_write(reader: TestClient):
    answer = reader.put("/graphs?graph=http://example.org/g", content="<a> <b> <c> .", headers=TURTLE)
    assert (answer.status_code, answer.json()["code"]) == (403, "WriteTokenRequired")


def test_a_read_only_service_refuses_to_write(home: Path):
    settings = ServiceSettings(home, tokens=Tokens(READ, WRITE), read_only=True)
    with Service(settings) as service, TestClient(create_app(service), base_url=HOST, headers=bearer(WRITE)) as client:
        answer = client.put("/graphs?graph=http://example.org/g", content="<a> <b> <c> .", headers=TURTLE)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
        assert client.post("/sparql", data={"update": "CLEAR ALL"}).status_code == 403
        assert client.post("/api/v1/runs/monday/annotations", json={"kind": "tag", "text": "x"}).status_code == 403
        assert client.get("/api/v1/runs").status_code == 200


def test_wrong_rdf_is_refused_and_nothing_is_changed(client: TestClient, home: Path):
    answer = client.put("/graphs?graph=http://example.org/g", content="<a> <b>", headers=TURTLE)
    assert (answer.status_code, answer.json()["code"]) == (400, "FileFormatError")
    assert client.get("/graphs?graph=http://example.org/g").status_code == 404
    assert not list((home / "added").glob("*")) if (home / "added").exists() else True
    assert client.put("/graphs?default", content="x", headers={"Content-Type": "text/plain"}).status_code == 415


@pytest.mark.parametrize("parameters", ["", "?default&graph=http://example.org/g", "?graph=nothing"])
def test_a_request_names_one_graph(client: TestClient, parameters: str):
    assert client.get(f"/graphs{parameters}").status_code == 400


# ---- names


def test_a_name_leads_to_a_description(reader: TestClient):
    answer = reader.get("/id/run/monday/training", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/nodes?iri={quote(MONDAY + '/training', safe='')}"
    turtle = reader.get(answer.headers["location"], headers={"Accept": "text/turtle"})
    assert f"<{MONDAY}/training>" in turtle.text
    page = reader.get(answer.headers["location"], headers={"Accept": "text/html"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "provml:TrainingExecution" in page.text


def test_a_name_in_any_script_has_a_link(client: TestClient):
    triple = "<http://example.org/日本> <http://example.org/p> 1 ."
    turtle = {"Content-Type": "text/turtle; charset=utf-8"}
    client.put("/graphs?graph=http://example.org/g", content=triple.encode(), headers=turtle)
    for path in ("/nodes?iri=http://example.org/日本", "/provenance?target=http://example.org/日本"):
        for accept in ("text/turtle", "text/html"):
            answer = client.get(path, headers={"Accept": accept})
            assert answer.status_code == 200
            assert 'anchor="http://example.org/%E6%97%A5%E6%9C%AC"' in answer.headers["link"]


def test_an_unknown_name_is_not_found(reader: TestClient):
    assert reader.get("/id/run/nobody").status_code == 404


def test_the_provenance_service_describes_itself_and_its_targets(reader: TestClient):
    description = reader.get("/provenance", headers={"Accept": "application/n-triples"})
    assert "provenance?target={uri}" in description.text
    answer = reader.get("/provenance", params={"target": MONDAY}, headers={"Accept": "text/turtle"})
    assert MONDAY in answer.text
    assert "has_query_service" in answer.headers["link"]


def test_texts_of_a_page_are_escaped(client: TestClient):
    label = '<http://example.org/n> <http://www.w3.org/2000/01/rdf-schema#label> "<script>alert(1)</script>" .'
    assert client.put("/graphs?graph=http://example.org/g", content=label, headers=TURTLE).status_code == 201
    page = client.get("/nodes?iri=http://example.org/n", headers={"Accept": "text/html"}).text
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
