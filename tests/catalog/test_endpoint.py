"""Every question of the catalog runs on a SPARQL 1.1 endpoint: a server gives the golden answers over HTTP."""

from __future__ import annotations

import csv
import io
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from example_runs import alexnet, seismic
from example_runs.asking import CATALOG
from example_runs.cases import ALEXNET, CASES, SEISMIC
from example_runs.expected_values import as_text
from rdflib.plugins.sparql import prepareQuery

import provml
from provml import rdf
from provml.answers import Answer

HERE = Path(__file__).parents[1]
DOMAIN = HERE / "example_runs" / "domain.ttl"


class Endpoint:
    """A SPARQL endpoint, used by the SPARQL 1.1 Protocol only."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, sparql: str) -> Answer:
        """Return the rows of a SELECT query."""
        headers = {"Content-Type": "application/sparql-query", "Accept": "application/sparql-results+json"}
        request = urllib.request.Request(self.url, sparql.encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            result = ox.parse_query_results(response.read(), format=ox.QueryResultsFormat.JSON)
        assert isinstance(result, ox.QuerySolutions)
        columns = [variable.value for variable in result.variables]
        return Answer(columns, [tuple(None if node is None else rdf.value(node) for node in row) for row in result])


def server() -> str:
    """Return the path of the `oxigraph` binary."""
    installed = Path(sys.executable).parent / "oxigraph"
    path = str(installed) if installed.exists() else shutil.which("oxigraph")
    assert path, "oxigraph is not installed: it comes with provml[test]"
    return path


def serve(home: Path, folder: Path, *graphs: Path) -> Iterator[Endpoint]:
    """Export a home and serve it with a server of its own."""
    export = folder / "all.nt"
    with provml.open(home) as store, export.open("wb") as file:
        for graph in graphs:
            store.load(graph)
        store.export(None, file, "nt")
    place = ["--location", str(folder / "served")]
    subprocess.run([server(), "load", *place, "--file", str(export)], check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [server(), "serve-read-only", *place, "--bind", address]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            endpoint = Endpoint(f"http://{address}/query")
            for _ in range(600):
                try:
                    endpoint.ask("SELECT * {} LIMIT 1")
                    break
                except urllib.error.URLError:
                    assert process.poll() is None, "the server ended"
                    time.sleep(0.1)
            yield endpoint
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    home = tmp_path_factory.mktemp("trainings")
    alexnet.write(home)
    yield from serve(home, tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    home = tmp_path_factory.mktemp("cycle")
    seismic.life_cycle().write(home)
    yield from serve(home, tmp_path_factory.mktemp("served"), DOMAIN)


@pytest.mark.parametrize("case", list(ALEXNET))
def test_a_sparql_server_gives_the_golden_answers_for_trainings(trainings: Endpoint, case: str):
    compare(trainings, case, ALEXNET[case])


@pytest.mark.parametrize("case", list(SEISMIC))
def test_a_sparql_server_gives_the_golden_answers_for_the_life_cycle(cycle: Endpoint, case: str):
    compare(cycle, case, SEISMIC[case])


def compare(endpoint: Endpoint, case: str, values: dict[str, Any]) -> None:
    answer = endpoint.ask(CATALOG[case.partition("-")[0]].bind(values))
    golden = (HERE / "golden" / f"{case}.csv").read_text(encoding="utf-8")
    actual, expected = (
        [[as_text(cell) for cell in row] for row in csv.reader(io.StringIO(text))] for text in (answer.to_csv(), golden)
    )
    assert actual == expected


@pytest.mark.parametrize("case", list(CASES))
def test_an_independent_parser_accepts_every_question_as_sparql_1_1(case: str):
    prepareQuery(CATALOG[case.partition("-")[0]].bind(CASES[case]))


def test_the_independent_parser_rejects_extensions_of_sparql_1_1():
    with pytest.raises(Exception, match="Expected"):
        prepareQuery("SELECT * { ?s ?p ?o LATERAL { ?o ?q ?r } }")
