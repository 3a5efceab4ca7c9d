"""The runs of a service in Python and on the command line: the same answers as where the home is."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import provml
from provml.cli import main
from provml.errors import (
    ArtifactNotFound,
    InvalidParameter,
    ProvmlError,
    QueryError,
    QueryTimeout,
    RunNotFound,
    ServiceError,
    ServiceUnreachable,
)
from provml.journal.process import user_name
from provml.store import Store

from .services import TOKEN, ServiceParent, ServiceProcess, free_port

OWN_QUESTION = """#+ name: rates
#+ summary: The values above a least one
#+ params:
#+   least: {type: double, default: 0.15}
SELECT ?value { ?node a provml:LearningHyperparameterValue ; prov:value ?value FILTER(?value > $least) }
ORDER BY ?value
"""


def record_home(folder: Path) -> None:
    files = folder / "files"
    files.mkdir()
    (files / "a.txt").write_text("one")
    for number, rate in enumerate((0.1, 0.2, 0.4), 1):
        with provml.record("flowers", model="alexnet", home=folder / "home", run=f"r{number}") as run:
            raw = run.dataset(b"raw", name="raw.csv")
            data = run.prepared(b"clean", step="clean", using=raw, name="train.csv", role="training")
            with run.training(learning_rate=rate, using=data, optimizer="sgd") as training:
                for epoch in training.epochs(4):
                    epoch.measured(loss=rate / epoch.index, accuracy=0.5 + 0.1 * epoch.index)
                training.adapted(learning_rate=rate / 2)
                model = training.produced(b"model" * number, name="alexnet")
            with run.evaluation(of=model) as evaluation:
                evaluation.measured(accuracy=0.9 - rate)
            run.keep(b"weights" * number, name="weights.bin")
            run.keep(files, name="files")
            run.tag("good")
    (folder / "home" / "queries").mkdir()
    (folder / "home" / "queries" / "rates.rq").write_text(OWN_QUESTION)


@pytest.fixture(scope="module")
def served(
    service_parent: ServiceParent, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ServiceProcess, Path]]:
    """A service over a home, and a copy of the home."""
    import shutil

    folder = tmp_path_factory.mktemp("remote")
    record_home(folder)
    shutil.copytree(folder / "home", folder / "copy")
    process = ServiceProcess(service_parent, folder / "home")
    process.start()
    yield process, folder / "copy"
    process.kill()


@pytest.fixture
def stores(served: tuple[ServiceProcess, Path]) -> Iterator[tuple[Store, Store]]:
    """The store of the service, and the same as a store of this machine."""
    with provml.open(served[0].url, token=TOKEN) as remote, provml.open(served[1]) as local:
        yield remote, local


def outcome(work: Any) -> Any:
    try:
        answer = work()
    except ProvmlError as error:
        return type(error), str(error)
    return answer.columns, answer.rows, answer.note, answer.types


def test_every_question_has_the_same_answer(stores: tuple[Store, Store]):
    remote, local = stores
    answered = 0
    for name in local.catalog:
        params = local.catalog[name].params
        values = {key: param.example for key, param in params.items() if param.required}
        expected = outcome(lambda name=name, values=values: local.ask(name, **values))
        assert outcome(lambda name=name, values=values: remote.ask(name, **values)) == expected, name
        answered += bool(expected[1]) and expected[0] is not type
    assert answered > 20
    assert "rates" in remote.catalog


def test_tables_comparisons_and_runs_are_the_same(stores: tuple[Store, Store]):
    remote, local = stores
    assert isinstance(remote, Store)
    assert remote.runs() == local.runs()
    assert remote.run("r2") == local.run("r2")
    assert remote.run("latest").tags == ("good",)
    for options in ({}, {"where": "learning_rate > 0.15", "sort": "learning_rate", "descending": True}, {"limit": 1}):
        ours, theirs = remote.table(**options), local.table(**options)
        assert (ours.columns, ours.rows) == (theirs.columns, theirs.rows)
    assert remote.compare("r1", "r2").rows == local.compare("r1", "r2").rows
    assert str(remote.lineage("r1")) == str(local.lineage("r1"))
    assert remote.curves(["r1", "r2"], "loss") == local.curves(["r1", "r2"], "loss")
    assert remote.annotations("r1") == local.annotations("r1")
    assert remote.sparql("time-and-loss-by-epoch", model="alexnet") == local.sparql(
        "time-and-loss-by-epoch", model="alexnet"
    )


def test_queries_give_the_same_terms(stores: tuple[Store, Store]):
    remote, local = stores
    for text in (
        "SELECT ?s ?v { ?s prov:value ?v } ORDER BY ?s ?v",
        "SELECT (1.50 AS ?a) ('x'@en AS ?b) (?none AS ?c) { }",
        "CONSTRUCT { ?s a provml:Model } WHERE { ?s a provml:Model }",
    ):
        ours, theirs = remote.query(text), local.query(text)
        assert not isinstance(ours, bool)
        assert not isinstance(theirs, bool)
        assert (ours.columns, sorted(map(str, ours.terms()))) == (theirs.columns, sorted(map(str, theirs.terms())))
    assert remote.query("ASK { ?s a provml:Model }") is True
    assert remote.query("SELECT ?x { ?x a provml:Nodel }").note == local.query("SELECT ?x { ?x a provml:Nodel }").note  # type: ignore[union-attr]
    rate = {"bindings": {"rate": 0.2}}
    counted = remote.query("SELECT (COUNT(*) AS ?n) { ?s prov:value $rate }", **rate)  # type: ignore[arg-type]
    assert counted.rows[0][0] > 0  # type: ignore[union-attr]
    with remote.stream("SELECT ?s { ?s ?p ?o }") as stream:  # type: ignore[union-attr]
        assert sum(1 for _ in stream) > 100


def test_exports_and_validation_are_the_same(stores: tuple[Store, Store]):
    remote, local = stores
    for run in ("r1", None):
        for fmt in ("ttl", "nt", "jsonld"):
            ours, theirs = io.BytesIO(), io.BytesIO()
            assert remote.export(run, ours, fmt) == local.export(run, theirs, fmt)
            assert ours.getvalue() == theirs.getvalue()
        report = remote.validate(run)
        assert report.conforms
        messages = [(result.focus, result.message) for result in report]
        assert messages == [(result.focus, result.message) for result in local.validate(run)]
        assert str(report.scope)
    assert len(remote.report("r1").to_html()) > 1000


def test_formats_of_other_tools_are_the_same(stores: tuple[Store, Store], tmp_path: Path):
    remote, local = stores
    for fmt in ("model-card", "annex-iv", "cyclonedx", "openlineage", "ml-schema"):
        ours, theirs = io.BytesIO(), io.BytesIO()
        assert remote.export("r1", ours, fmt) == local.export("r1", theirs, fmt)
        assert ours.getvalue() == theirs.getvalue(), fmt
    for store, name in ((remote, "remote"), (local, "local")):
        store.export("r2", tmp_path / name, "ro-crate", files="yes")
    names = [sorted(path.relative_to(root).as_posix() for path in root.rglob("*")) for root in tmp_path.iterdir()]
    assert names[0] == names[1]


def test_artifacts_are_fetched(stores: tuple[Store, Store], tmp_path: Path):
    remote, _ = stores
    assert [artifact.name for artifact in remote.artifacts("r2")] == ["weights.bin", "files"]
    assert remote.artifact("r2", "weights.bin").read() == b"weightsweights"
    remote.artifact("r2", "files").save(tmp_path / "files")
    assert (tmp_path / "files" / "a.txt").read_text() == "one"
    with pytest.raises(ArtifactNotFound):
        remote.artifact("r2", "nothing")


def test_errors_are_those_of_a_store(stores: tuple[Store, Store]):
    remote, local = stores
    for text in ("SELECT {", "SELECT ?x { ?x nope:a ?y }", "DELETE WHERE { ?s ?p ?o }"):
        messages = []
        for store in (remote, local):
            with pytest.raises(QueryError) as error:
                store.query(text)
            messages.append((str(error.value), error.value.line))
        assert messages[0] == messages[1]
    with pytest.raises(RunNotFound, match="No run 'nobody'"):
        remote.run("nobody")
    with pytest.raises(InvalidParameter):
        remote.ask("time-and-loss-by-epoch", modell="alexnet")
    with pytest.raises(ServiceError, match="on the machine of the service"):
        remote.remove("r1")
    with pytest.raises(ServiceError, match="on the machine of the service"):
        remote.verify()


def test_a_query_that_takes_too_long_is_ended_by_the_service(service_parent: ServiceParent, tmp_path: Path):
    with provml.record("x", home=tmp_path / "home") as run, run.training() as training:
        for _ in training.epochs(100):
            pass
    query = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
    service = ServiceProcess(service_parent, tmp_path / "home", query_seconds=3)
    service.start()
    try:
        with provml.open(service.url, token=TOKEN) as store:
            with pytest.raises(QueryTimeout, match="the service's time limit of 3 s"):
                store.query(query, timeout=60)
            with pytest.raises(QueryTimeout, match=r"its time limit of 0\.5 s"):
                store.query(query, timeout=0.5)
            assert store.query("ASK {}", timeout=2) is True  # the worker is free again, before the service's limit
    finally:
        service.kill()


def test_annotations_are_written_by_the_user_here(service: ServiceProcess):
    with provml.record("x", home=service.home, run="r") as run:
        run.training().done()
    with provml.open(service.url, token=TOKEN) as store:
        assert store.tag("r", "a", "b").tags == ("a", "b")
        assert store.untag("r", "a").tags == ("b",)
        assert store.note("r", "a note").notes[0].by == user_name()
        assert store.rename("r", "other", by="ada").name == "other"
        with pytest.raises(ProvmlError, match="is no tag"):
            store.untag("r", "a")
    with (
        provml.open(service.url, token="read-token-of-the-tests") as store,
        pytest.raises(ServiceError, match="write token"),
    ):
        store.tag("r", "c")


def test_what_is_recorded_is_there_at_once(service: ServiceProcess):
    with provml.open(service.url, token=TOKEN) as store:
        assert store.runs() == []
        with provml.record("x", home=service.url) as run:
            run.training(learning_rate=0.5).done()
        assert store.table().column("learning_rate") == [0.5]
        assert "closed" not in repr(store)
    assert "closed" in repr(store)
    with pytest.raises(ValueError, match="closed"):
        store.runs()


def test_a_service_that_is_not_there_or_does_not_know_us(service: ServiceProcess, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ServiceUnreachable, match="Check the URL"):
        provml.open(f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("PROVML_TOKEN")
    with provml.open(service.url) as store, pytest.raises(ServiceError, match="token"):
        store.runs()


# ---- the command line


def invoke(home: object, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--home", str(home)], env={"PROVML_TOKEN": TOKEN})


@pytest.mark.parametrize(
    "command",
    [
        "runs --sort learning_rate --format json",
        "show r1 --format json",
        "status r1 --format csv",
        "log r1",
        "ask time-and-loss-by-epoch --model alexnet --format csv",
        "ask --list",
        "query 'SELECT ?s { ?s a provml:Model } ORDER BY ?s'",
        "compare r1 r2",
        "export r1 --format nt",
        "artifacts r1",
        "lineage r1",
        "validate r1 --format markdown",
        "plot r1 --measure loss",
        "get r1 weights.bin -o -",
        "graphs",
        "ask rates --least 0.3 --format csv",
    ],
)
def test_commands_take_the_url_of_a_service(served: tuple[ServiceProcess, Path], command: str):
    import shlex

    remote, local = (invoke(home, *shlex.split(command)) for home in (served[0].url, served[1]))
    assert (remote.exit_code, remote.stderr) == (local.exit_code, local.stderr) == (0, local.stderr)
    assert remote.stdout.replace(served[0].url, "HOME") == local.stdout.replace(str(served[1]), "HOME")


def test_commands_that_read_files_say_so(served: tuple[ServiceProcess, Path]):
    for command in ("verify", "rebuild", "gc", "sync --to http://127.0.0.1:9"):
        result = invoke(served[0].url, *command.split())
        assert result.exit_code == 1
        assert "on the machine of the service" in result.stderr
    assert invoke(served[0].url, "log", "-f").exit_code == 2
    assert "needs a directory" in invoke(served[0].url, "replay").stderr


def test_a_file_is_loaded_listed_validated_and_unloaded(service: ServiceProcess, tmp_path: Path):
    file = tmp_path / "one.ttl"
    file.write_text("<http://example.org/a> <http://example.org/b> 1 .")
    assert invoke(service.url, "validate", str(file)).exit_code == 0
    for graph in ("default", "http://example.org/g"):
        option = ["--graph", graph] if graph != "default" else []
        assert invoke(service.url, "load", str(file), *option).exit_code == 0
        listed = json.loads(invoke(service.url, "graphs", "--format", "json").stdout)
        assert [(row["graph"], row["triples"]) for row in listed] == [(graph, 1)]
        assert "Removed 1 triple " in invoke(service.url, "unload", graph).stdout


def test_ship_and_status_on_the_command_line(service: ServiceProcess, tmp_path: Path):
    with provml.record("x", home=service.url, run="r", shipping={"online": False}) as run:
        run.training().done()
    home = str(run.home)
    facts = json.loads(invoke(home, "status", "r", "--format", "json").stdout)
    assert facts["shipped_to"] == service.url
    assert facts["unshipped_bytes"] == (run.home / "runs" / "r" / "main.jsonl").stat().st_size
    shown = invoke(home, "status", "r").stdout
    assert f"shipped to   {service.url}" in shown
    with provml.record("x", home=service.url, run="later") as later:
        later.training().done()
    assert later.home == run.home
    assert "1 other run (" in invoke(home, "status", "later").stdout
    assert json.loads(invoke(home, "status", "later", "--format", "json").stdout)["other_unshipped_runs"] == 1
    done = CliRunner().invoke(main, ["ship", home, service.url], env={"PROVML_TOKEN": TOKEN})
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("2 runs (")
    assert "not shipped  nothing" in invoke(home, "status", "r").stdout
    assert "other run" not in invoke(home, "status", "later").stdout
    (tmp_path / "token").write_text("not the token\n")
    command = ["ship", home, service.url, "--token-file", str(tmp_path / "token")]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 1
    assert "token" in refused.stderr
    tagged = invoke(service.url, "tag", "r", "good")
    assert (tagged.exit_code, tagged.stdout) == (0, "Tags of r: good\n")
    assert invoke(service.url, "note", "r", "a note").exit_code == 0
    assert invoke(service.url, "note", "r", "--remove", "1").exit_code == 0
    assert "is now named best" in invoke(service.url, "rename", "r", "best").stdout


def test_without_its_token_a_service_asks_for_it_by_the_name_of_the_setting(
    service: ServiceProcess, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PROVML_TOKEN", raising=False)
    with (
        pytest.raises(ServiceError, match=r"needs a token.*PROVML_TOKEN or token=") as caught,
        provml.open(service.url) as store,
    ):
        store.runs()
    assert caught.value.status == 401
