"""Every question of the catalog runs on any SPARQL 1.1 endpoint: a real server gives the golden answers over HTTP."""

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
from rdflib.plugins.sparql import prepareQuery
from world import alexnet, seismic
from world.asking import CATALOG
from world.cases import ALEXNET, SEISMIC
from world.reckoning import as_text

import provml
from provml import rdf
from provml.answer import Answer

HERE = Path(__file__).parent
DOMAIN = HERE / "world" / "domain.ttl"


class Endpoint:
    """A SPARQL endpoint, spoken to as the protocol says and in no other way."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, sparql: str) -> Answer:
        """The rows of a SELECT."""
        headers = {"Content-Type": "application/sparql-query", "Accept": "application/sparql-results+json"}
        request = urllib.request.Request(self.url, sparql.encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            found = ox.parse_query_results(response.read(), format=ox.QueryResultsFormat.JSON)
        assert isinstance(found, ox.QuerySolutions)
        columns = [variable.value for variable in found.variables]
        return Answer(columns, [tuple(None if node is None else rdf.value(node) for node in row) for row in found])


def server() -> str:
    """The binary that the wheel `oxigraph` brings."""
    beside = Path(sys.executable).parent / "oxigraph"
    found = str(beside) if beside.exists() else shutil.which("oxigraph")
    assert found, "oxigraph is not installed: it comes with provml[test]"
    return found


def serve(home: Path, folder: Path, *graphs: Path) -> Iterator[Endpoint]:
    """What a home holds, exported, loaded by a server of its own, and served."""
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
def test_a_server_gives_the_golden_answer_about_the_trainings(trainings: Endpoint, case: str):
    compare(trainings, case, ALEXNET[case])


@pytest.mark.parametrize("case", list(SEISMIC))
def test_a_server_gives_the_golden_answer_about_the_life_cycle(cycle: Endpoint, case: str):
    compare(cycle, case, SEISMIC[case])


def compare(endpoint: Endpoint, case: str, values: dict[str, Any]) -> None:
    answer = endpoint.ask(CATALOG[case.partition("-")[0]].bind(values))
    golden = (HERE / "golden" / f"{case}.csv").read_text(encoding="utf-8")
    given, expected = (
        [[as_text(cell) for cell in row] for row in csv.reader(io.StringIO(text))] for text in (answer.to_csv(), golden)
    )
    assert given == expected


@pytest.mark.parametrize("case", [*ALEXNET, *SEISMIC])
def test_a_question_is_plain_sparql_to_an_independent_parser(case: str):
    prepareQuery(CATALOG[case.partition("-")[0]].bind((ALEXNET | SEISMIC)[case]))


def test_the_independent_parser_refuses_what_is_not_in_sparql_1_1():
    with pytest.raises(Exception, match="Expected"):
        prepareQuery("SELECT * { ?s ?p ?o LATERAL { ?o ?q ?r } }")
