"""Every question of the catalog runs on SPARQL engines that share no code, and gives the golden answers over HTTP."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from engine_table import PAGE, table
from engines import servers
from example_runs import alexnet, energy, leaks, seismic
from example_runs.asking import CATALOG
from example_runs.cases import ALEXNET, CASES, ENERGY, LEAKS, SEISMIC
from example_runs.expected_values import as_text
from rdflib.plugins.sparql import prepareQuery

import provml
from provml import Store
from provml.errors import QueryError
from provml.store.dialects import DIALECTS
from provml.store.endpoint.bulk_files import loader_command, write_bulk_files
from provml.store.endpoint.store import EndpointStore
from provml.store.endpoint.sync import HomeSync

HERE = Path(__file__).parents[1]
DOMAIN = HERE / "example_runs" / "domain.ttl"
WORLDS: dict[str, dict[str, Any]] = {"trainings": ALEXNET, "cycle": SEISMIC, "leaks": LEAKS, "energy": ENERGY}
ENGINES = ("oxigraph", "jena", "virtuoso")


def fill(url: str, home: Path) -> EndpointStore:
    """Send a home to a server, and return its store."""
    store = provml.open(f"sparql+{url}", user="dba", password="dba")
    assert isinstance(store, EndpointStore)
    assert not HomeSync(home, store.endpoint).send().problems
    return store


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {name: tmp_path_factory.mktemp(name) for name in WORLDS}
    alexnet.write(folders["trainings"])
    seismic.life_cycle().write(folders["cycle"])
    leaks.write(folders["leaks"])
    energy.write(folders["energy"])
    with provml.open(folders["cycle"]) as store:
        store.load(DOMAIN)
    return folders


@pytest.fixture(scope="module")
def virtuoso_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("virtuoso")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, virtuoso_folder: Path) -> Iterator[dict[str, servers.Server]]:
    with ExitStack() as stack:
        yield {
            "oxigraph": stack.enter_context(servers.oxigraph(tmp_path_factory.mktemp("oxigraph"))),
            "jena": stack.enter_context(servers.jena(tmp_path_factory.mktemp("jena"))),
            "virtuoso": stack.enter_context(servers.virtuoso(virtuoso_folder)),
        }


@pytest.fixture(scope="module")
def stores(homes: dict[str, Path], running: dict[str, servers.Server]) -> Iterator[dict[tuple[str, str], Store]]:
    """Three datasets on each of three servers: the others in graphs of their own."""
    with ExitStack() as stack:
        opened: dict[tuple[str, str], Store] = {}
        for engine, url in ((name, server.url) for name, server in running.items()):
            for world, home in homes.items():
                graph = "" if world == "trainings" else f"?graph=http://example.org/{world}"
                opened[engine, world] = stack.enter_context(fill(url + graph, home))
        yield opened


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gives_the_golden_answers(stores: dict[tuple[str, str], Store], engine: str, case: str):
    store = stores[engine, next(world for world, cases in WORLDS.items() if case in cases)]
    assert store.backend.dialect is DIALECTS[engine], "the engine was recognized"
    question = CATALOG[case.partition("-")[0]]
    if question.name in DIALECTS[engine].unanswered:
        with pytest.raises(QueryError, match="does not answer"):
            store.ask(question, **CASES[case])
        return
    answer = store.ask(question, **CASES[case])
    golden = (HERE / "golden" / f"{case}.csv").read_text(encoding="utf-8")
    assert cells(answer.to_csv()) == cells(golden)


def cells(text: str) -> list[list[Any]]:
    return [[as_text(cell) for cell in row] for row in csv.reader(io.StringIO(text))]


def test_oxigraph_and_jena_answer_every_question():
    assert not DIALECTS["oxigraph"].unanswered
    assert not DIALECTS["jena"].unanswered
    assert {question.name for question in CATALOG.values()} >= DIALECTS["virtuoso"].unanswered


def test_the_page_of_engines_is_fresh():
    assert table() in PAGE.read_text(encoding="utf-8"), "run `python tests/engine_table.py`"


@pytest.mark.parametrize("engine", ENGINES)
def test_ad_hoc_queries_run_on_an_engine(stores: dict[tuple[str, str], Store], engine: str, tmp_path: Path):
    store = stores[engine, "trainings"]
    answer = store.query("SELECT (COUNT(?run) AS ?n) { ?run a provml:LearningProcessExecution }")
    assert answer.rows == [(13,)], "the other dataset is in another graph"
    assert store.query("ASK { ?run provlake:status 'FAILED' }") is True
    measured = "SELECT ?v { <https://w3id.org/provml/run/gray/training/57/measure/top_5_accuracy> prov:value ?v }"
    assert store.query(measured).rows == [(pytest.approx(0.9912280701754386, rel=1e-14),)], "all digits"
    with pytest.raises(QueryError):
        store.query("SELECT ?x { ?x a }")
    integer = "<http://www.w3.org/2001/XMLSchema#integer>"
    (tmp_path / "disk.nt").write_text(
        f'<http://example.org/disk> <http://example.org/bytes> "25276510208"^^{integer} .\n'
    )
    store.load(tmp_path / "disk.nt")
    [(size,)] = store.query("SELECT ?v { <http://example.org/disk> <http://example.org/bytes> ?v }").rows
    assert (type(size), size) == (int, 25276510208)


def test_an_endpoint_without_a_graph_store_is_filled_by_updates(
    homes: dict[str, Path], running: dict[str, servers.Server]
):
    with provml.open(f"sparql+{running['jena'].url}?engine=sparql&graph=http://example.org/updates") as store:
        assert store.backend.dialect.graph_store is None
        assert HomeSync(homes["leaks"], store.endpoint).send().runs
        assert_loaded(store, homes["leaks"])
        store.remove("base")
        assert "base" not in [info.id for info in store.runs()]


def test_jena_loads_files_with_its_bulk_loader(homes: dict[str, Path], tmp_path: Path):
    _, files = write_bulk_files(homes["leaks"], tmp_path / "bulk", "jena")
    servers.load_with_tdbloader(files, tmp_path / "database")
    with servers.jena(tmp_path / "database") as server, provml.open(f"sparql+{server.url}") as store:
        assert_loaded(store, homes["leaks"])


def test_virtuoso_loads_files_with_its_bulk_loader(
    homes: dict[str, Path], running: dict[str, servers.Server], virtuoso_folder: Path
):
    folder, graph = virtuoso_folder / "bulk", "http://example.org/bulk"
    write_bulk_files(homes["leaks"], folder, "virtuoso", graph=graph)
    command = loader_command("virtuoso", folder, graph).removeprefix('isql EXEC="').removesuffix('"')
    servers.load_with_ld_dir(running["virtuoso"], command)
    url = f"sparql+{running['virtuoso'].url}?graph={graph}"
    with provml.open(url, user="dba", password="dba") as store:
        assert_loaded(store, homes["leaks"])


def assert_loaded(store: Store, home: Path) -> None:
    """An endpoint has all runs of a home, and a sync has nothing to send."""
    assert isinstance(store, EndpointStore)
    with provml.open(home) as local:
        assert [info.id for info in store.runs()] == [info.id for info in local.runs()]
        count = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
        assert store.query(count).rows == local.query(count).rows
    assert HomeSync(home, store.endpoint).send().runs == []


@pytest.mark.parametrize("case", list(CASES))
def test_an_independent_parser_accepts_every_question_as_sparql_1_1(case: str):
    prepareQuery(CATALOG[case.partition("-")[0]].bind(CASES[case]))


def test_the_independent_parser_rejects_extensions_of_sparql_1_1():
    with pytest.raises(Exception, match="Expected"):
        prepareQuery("SELECT * { ?s ?p ?o LATERAL { ?o ?q ?r } }")
