"""The OpenAPI document: complete, and true of the service, which schemathesis calls with what the document allows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from web.conftest import READ, WRITE, bearer
from web.serving import running

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
EXAMPLES = 4


def test_the_service_answers_as_the_document_says(home: Path):
    env = {"PROVML_READ_TOKEN": READ, "PROVML_WRITE_TOKEN": WRITE}
    with running(home, "--quiet", env=env) as server:
        url = f"{server.url}/api/v1/openapi.json"
        check_operations(schemathesis.openapi.from_url(url, headers=bearer(READ)))


def check_operations(schema: BaseSchema) -> None:
    """Call each operation with values that the document allows, and with some that it does not."""
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 50
    for operation in operations:

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy())
        def answers(case: schemathesis.Case) -> None:
            case.validate_response(case.call(headers=bearer(READ)), checks=CHECKS)

        answers()


def test_every_question_and_every_part_of_a_run_is_in_the_document(reader: TestClient):
    document = reader.get("/api/v1/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    for question in reader.get("/api/v1/questions").json()["questions"]:
        operation = document["paths"][question["url"]]["get"]
        names = {parameter["name"] for parameter in operation["parameters"]}
        assert {parameter["name"] for parameter in question["parameters"]} <= names
    for part in ("epochs", "measures", "adaptations", "layers", "lineage", "artifacts", "validation", "events"):
        assert f"/api/v1/runs/{{run}}/{part}" in document["paths"]


def test_the_document_says_what_is_refused(reader: TestClient):
    paths = reader.get("/api/v1/openapi.json").json()["paths"]

    def parameters(path: str) -> dict[str, Any]:
        return {item["name"]: item for item in paths[path]["get"]["parameters"]}

    assert parameters("/api/v1/lineage")["subject"]["required"]
    assert parameters("/api/v1/compare")["run"]["schema"]["minItems"] == 2
    assert "PRUNED" in parameters("/api/v1/runs")["status"]["schema"]["items"]["enum"]
    pattern = parameters("/api/v1/runs/{run}/events")["after"]["schema"]["pattern"]
    for cursor in ("0", "main:17,other:3"):
        assert re.fullmatch(pattern, cursor)
    assert reader.get("/api/v1/runs/monday/events?format=xml").status_code == 400


def test_the_page_shows_the_document_without_scripts(reader: TestClient):
    page = reader.get("/api/docs")
    assert "/api/v1/runs/{run}/adaptations" in page.text
    assert "<script" not in page.text
    assert "://" not in page.text.replace("http://www.w3.org", "")
    assert reader.get("/api/docs.css").headers["content-type"].startswith("text/css")
