"""Assistants get the recorded runs by the Model Context Protocol; the client is that of the official SDK."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from starlette.testclient import TestClient

import provml
from provml.assistants.tools import Toolbox, ToolSettings

STATUS = "SELECT ?status { ?run a provml:LearningProcessExecution ; provlake:status ?status }"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two runs."""
    folder = tmp_path_factory.mktemp("mcp") / "home"
    for rate in (0.1, 0.2):
        with provml.record("flowers", model="alexnet", home=folder, run=f"rate-{rate}") as run:
            data = run.dataset(b"abc", name="train.csv")
            with run.training(learning_rate=rate, using=data) as training:
                for epoch in training.epochs(3):
                    epoch.measured(loss=rate / epoch.index)
    return folder


def with_stdio(home: Path, work: Callable[[Client], Awaitable[Any]], *options: str) -> Any:
    """Start `provml mcp` as an assistant does, and talk to it."""
    command = [sys.executable, "-m", "provml.cli", "mcp", "--home", str(home), *options]

    async def run() -> Any:
        async with Client(StdioServerParameters(command=command[0], args=command[1:])) as client:
            return await work(client)

    return anyio.run(run)


async def call(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    text = "".join(block.text for block in result.content)  # type: ignore[union-attr]
    return (text if result.is_error else result.structured_content), result.is_error


def test_an_assistant_asks_over_standard_input_and_output(home: Path):
    async def work(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        with provml.open(home) as store:
            questions = {f"ask_{name.replace('-', '_')}" for name in store.catalog}
        assert set(tools) == questions | {
            "list_runs", "show_run", "compare_runs", "lineage", "validate_run", "find_terms", "sparql"
        }  # fmt: skip
        for tool in tools.values():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            assert tool.description
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
        table, _ = await call(client, "list_runs", sort="learning_rate", descending=True)
        rate = table["columns"].index("learning_rate")
        assert ([row[rate] for row in table["rows"]], table["total"]) == ([0.2, 0.1], 2)
        run, _ = await call(client, "show_run", run="rate-0.2")
        assert (run["status"], run["model"]) == ("FINISHED", "alexnet")
        assert [row[-1] for row in run["measures"]["rows"]] == pytest.approx([0.2, 0.1, 0.2 / 3])
        compared, _ = await call(client, "compare_runs", runs=["rate-0.1", "rate-0.2"])
        assert compared["rows"][0][:3] == ["hyperparameter", "learning_rate", True]
        lineage, _ = await call(client, "lineage", subject="rate-0.1")
        assert "train.csv" in lineage["text"]
        report, _ = await call(client, "validate_run", run="latest")
        assert report["conforms"] is True
        terms, _ = await call(client, "find_terms", text="hyperparameter")
        assert any(row[0].endswith("LearningHyperparameter") and row[3] for row in terms["rows"])
        nothing, _ = await call(client, "find_terms", text="zzz")
        assert nothing["note"].startswith("No term has 'zzz' in its name")
        rows, _ = await call(client, "sparql", query=STATUS)
        assert rows["rows"] == [["FINISHED"], ["FINISHED"]]
        assert (await call(client, "sparql", query="ASK { ?s ?p ?o }"))[0] == {"boolean": True}
        curve, _ = await call(client, "ask_time_and_loss_by_epoch", model="alexnet")
        assert curve["total"] == 3

    with_stdio(home, work)


def test_what_cannot_be_answered_is_an_error_that_says_what_to_do(home: Path):
    async def work(client: Client) -> None:
        for name, arguments, message in [
            ("show_run", {"run": "nobody"}, "No run 'nobody'"),
            ("show_run", {}, "missing argument 'run'"),
            ("show_run", {"run": 3}, "run takes text, not 3"),
            ("list_runs", {"wher": "x"}, "It takes where, sort"),
            ("list_runs", {"where": "learning_rate >"}, "expected a column or a value"),
            ("list_runs", {"limit": 0}, "limit takes a whole number from 1 on, not 0"),
            ("list_runs", {"status": "DONE"}, "status takes text, one of"),
            ("compare_runs", {"runs": ["latest"]}, "runs takes a list of texts, at least 2, not"),
            ("sparql", {"query": "SELECT {"}, "names no variable"),
            (
                "sparql",
                {"query": "SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }"},
                "machine. Remove SERVICE.",
            ),
            ("sparql", {"query": "DELETE WHERE { ?s ?p ?o }"}, "cannot change the data"),
            ("lineage", {"subject": "/etc/passwd"}, "name of a file on this machine"),
            ("tag_run", {"run": "latest", "tags": ["x"]}, "no tool 'tag_run'"),
        ]:
            text, is_error = await call(client, name, **arguments)
            assert is_error, (name, arguments)
            assert message in text, text

    with_stdio(home, work)


def test_a_query_that_takes_too_long_is_ended(home: Path):
    async def work(client: Client) -> None:
        query = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
        text, is_error = await call(client, "sparql", query=query)
        assert is_error
        assert "time limit of 0.5 s" in text
        assert (await call(client, "sparql", query=STATUS))[0]["total"] == 2

    with_stdio(home, work, "--timeout", "0.5")


def test_answers_are_bounded_and_paged(home: Path):
    with provml.open(home) as store:
        toolbox = Toolbox(store, ToolSettings(max_rows=100))
        query = "SELECT ?s ?p ?o { ?s ?p ?o } ORDER BY ?s ?p ?o"
        first = toolbox.call("sparql", {"query": query, "limit": 70})
        assert (len(first["rows"]), first["next_offset"]) == (70, 70)
        rows, offset = first["rows"], first["next_offset"]
        while offset is not None:
            page = toolbox.call("sparql", {"query": query, "limit": 100, "offset": offset})
            assert len(page["rows"]) <= 100
            rows, offset = rows + page["rows"], page.get("next_offset")
        assert len(rows) == first["total"] > 200
        assert len({tuple(map(str, row)) for row in rows}) == len(rows)
        long = toolbox.call("sparql", {"query": f'SELECT ("{"x" * 50_000}" AS ?text) {{}}'})
        assert len(str(long)) < 5_000


def test_writing_needs_an_option(home: Path, tmp_path: Path):
    async def work(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["tag_run"].annotations is not None
        assert tools["tag_run"].annotations.read_only_hint is False
        assert (await call(client, "tag_run", run="r", tags=["good"]))[0]["tags"] == ["good"]
        assert (await call(client, "note_run", run="r", note="by an assistant"))[0]["notes"] == ["by an assistant"]

    with provml.record("x", home=tmp_path / "home", run="r") as run:
        run.training().done()
    with_stdio(tmp_path / "home", work, "--write")


# ---- over HTTP


def post(client: TestClient, method: str, headers: dict[str, str] | None = None, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    return client.post("/mcp", json=body, headers={**accept, **(headers or {})})


def test_a_service_has_the_same_tools_behind_its_token(home: Path):
    from provml.web.app import create_app
    from provml.web.service import Service
    from provml.web.settings import ServiceLimits, ServiceSettings, Tokens

    limits = ServiceLimits(query_seconds=1.0)
    settings = ServiceSettings(
        home, tokens=Tokens("read-token-of-the-tests", "write-token-of-the-tests"), limits=limits
    )
    url = "http://127.0.0.1:8420"
    with Service(settings) as service, TestClient(create_app(service), base_url=url) as client:
        assert post(client, "tools/list").status_code == 401
        client.headers["Authorization"] = "Bearer read-token-of-the-tests"
        assert post(client, "tools/list", headers={"Host": "evil.example"}).status_code == 421
        assert post(client, "tools/list", headers={"Content-Type": "text/plain"}).status_code == 415
        names = {tool["name"] for tool in post(client, "tools/list").json()["result"]["tools"]}
        assert {"list_runs", "sparql", "ask_time_and_loss_by_epoch"} <= names
        assert not {"tag_run", "note_run"} & names
        (home / "queries").mkdir(exist_ok=True)
        (home / "queries" / "new.rq").write_text("#+ name: new\n#+ summary: One\nSELECT (1 AS ?n) {}")
        result = post(client, "tools/call", name="ask_new", arguments={}).json()["result"]
        assert result["structuredContent"]["rows"] == [[1]]
        result = post(client, "tools/call", name="sparql", arguments={"query": STATUS}).json()["result"]
        assert result["structuredContent"]["rows"] == [["FINISHED"], ["FINISHED"]]
        slow = {"query": "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"}
        result = post(client, "tools/call", name="sparql", arguments=slow).json()["result"]
        assert result["isError"]
        assert "time limit of 1 s" in result["content"][0]["text"]


def test_the_client_of_the_sdk_talks_to_a_service(home: Path, tmp_path: Path):
    from tests.remote.services import TOKEN, ServiceParent, ServiceProcess

    async def work(url: str) -> None:
        async with (
            create_mcp_http_client(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            table, _ = await call(client, "list_runs", where="learning_rate > 0.15")
            assert table["total"] == 1
            assert len((await client.list_tools()).tools) > 20

    parent = ServiceParent()
    service = ServiceProcess(parent, home)
    try:
        service.start()
        anyio.run(work, service.url)
    finally:
        service.kill()
        parent.close()
