"""Give changed files, texts and requests to the command line and the service: an answer or a message, never a crash."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from provml import paths, workflow
from provml.cli import main
from provml.errors import ProvmlError
from reliability import homes
from reliability.sandbox import attempt

TURTLE = """@prefix prov: <http://www.w3.org/ns/prov#> .
<urn:a> a prov:Activity ; prov:startedAtTime "2026-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> ;
  prov:used <urn:e>, [ prov:value 1.5, "text"@en ] ."""
RDF_XML = """<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns:p="urn:p#"><rdf:Description rdf:about="urn:s"><p:o rdf:resource="urn:o"/><p:v>1 &amp; 2</p:v>
</rdf:Description></rdf:RDF>"""
FILES = {
    "ttl": TURTLE,
    "trig": f"{TURTLE}\n<urn:g> {{ <urn:s> <urn:p> 1 }}",
    "nt": '<urn:s> <urn:p> "o"@en .\n<urn:s> <urn:q> _:b .\n_:b <urn:p> <<( <urn:s> <urn:p> "x" )>> .\n',
    "nq": '<urn:s> <urn:p> "o" <urn:g> .\n',
    "rdf": RDF_XML,
    "jsonld": '{"@context": {"p": "urn:p"}, "@id": "urn:s", "p": [{"@value": "1"}, {"@id": "urn:o", "p": true}]}',
}
"""Seeds of `provml load`, by the suffix of the file."""
WORKFLOW = """name: flowers
version: 1.10
stores:
  scratch: {type: FileSystem, address: /data, description: a disk}
environments:
  node: {hostname: node07, cores: 28, memory: 256 GiB, accelerators: [K80, A100]}
software: {python: 3.12}
attributes:
  train.h5: {kind: dataset, stored in: [scratch]}
  learning_rate: {kind: hyperparameter, type: double}
  loss: {kind: measure, type: double, direction: minimize}
  alexnet: {kind: model, about: http://example.org/alexnet}
transformations:
  training: {kind: training, inputs: [train.h5, learning_rate], outputs: [loss, alexnet], description: One.}
"""
TABLES = {
    "itrainingmodel": ("opt VARCHAR, learning_rate DOUBLE", ["adam", 0.1]),
    "ilayers": ("name VARCHAR, attribute_type VARCHAR, value VARCHAR", ["dense", "units", "\\303\\244"]),
    "otrainingmodel": ("epoch INTEGER, loss DOUBLE, accuracy DOUBLE", [0, 0.5, 1e-3]),
    "oadaptation": ("new_lrate DOUBLE, epoch_id INTEGER", [0.01, 0]),
    "otestingmodel": ("loss DOUBLE, accuracy DOUBLE", [0.4, 0.9]),
}
"""Tables of DNNProv: columns and a row."""


def _dump() -> str:
    """Return a dump of MonetDB with a row in each table."""
    parts = ["START TRANSACTION;"]
    for number, (table, (columns, row)) in enumerate(TABLES.items()):
        definitions = ["id INTEGER", "trainingmodel_task_id INTEGER", "timestamp VARCHAR", *columns.split(", ")]
        named = (f'        "{name}" {kind}(500)' for name, kind in map(str.split, definitions))
        cells = "\t".join(f'"{cell}"' if isinstance(cell, str) else str(cell) for cell in [f"{1e9 + number}", *row])
        parts.append(f'CREATE TABLE "flowers"."ds_{table}" (\n' + ",\n".join(named) + "\n);")
        parts.append(f"COPY 1 RECORDS INTO \"flowers\".\"ds_{table}\" FROM stdin USING DELIMITERS '\\t','\\n','\"';")
        parts.append(f"1\t2\t{cells}")
    return "\n".join([*parts, "COMMIT;", ""])


SQL = _dump()
PIECES = ("\0", "\x1b[31m", "\ud800", "{" * 50, "9" * 400, "'; DROP", "é" * 30, "<", "%s", "\n", "-1", "NaN", "../..")
COMMANDS = ("runs", "show", "status", "ask", "query", "log", "compare", "export", "lineage", "verify", "artifacts")
ARGUMENTS = ("latest", "third", "--format", "csv", "json", "-n", "5", "--home", "--help", "-o", "--sort", "--where")


def mutate(text: str, chance: random.Random) -> bytes:
    """Return a text with a few changes: removed, doubled, swapped and inserted pieces, and other bytes."""
    data = text.encode("utf-8", "surrogatepass")
    for _ in range(chance.randrange(1, 5)):
        start = chance.randrange(len(data) + 1)
        end = min(start + chance.randrange(20), len(data))
        piece = chance.choice(PIECES).encode("utf-8", "surrogatepass")
        data = chance.choice(
            [
                data[:start] + data[end:],
                data[:end] + data[start:],
                data[:start] + piece + data[end:],
                data[:start] + bytes([chance.randrange(256)]) + data[start + 1 :],
            ]
        )
    return data


def command(*arguments: str) -> str:
    """Run a command of provml in this process; return its traceback if it has one."""
    result = CliRunner().invoke(main, [*arguments], catch_exceptions=True)
    if result.exception is None or isinstance(result.exception, SystemExit):
        return ""
    return f"{arguments}: {type(result.exception).__name__}: {result.exception}"[:500]


def commands_for(path: Path, home: Path) -> list[list[str]]:
    """Return the commands that read a file of this kind."""
    if path.suffix == ".sql":
        return [["import", str(path), "--as", "dfanalyzer", "--home", str(home)]]
    return [["load", str(path), "--home", str(home)], ["validate", str(path)]]


def check_file(seed: str, suffix: str, home: Path, chance: random.Random) -> str:
    """Load and validate, or import, a changed file."""
    path = home.parent / f"fuzzed.{suffix}"
    path.write_bytes(mutate(seed, chance))
    return next(filter(None, (command(*arguments) for arguments in commands_for(path, home))), "")


def check_workflow(home: Path, chance: random.Random) -> str:
    """Record a run with a changed workflow file: it is read, or refused with an error of provml."""
    path = home.parent / "fuzzed.yaml"
    path.write_bytes(mutate(WORKFLOW, chance))
    try:
        workflow.restore(workflow.load(path))
    except ProvmlError:
        return ""
    except Exception as error:
        return f"{path.read_bytes()!r}: {type(error).__name__}: {error}"
    return ""


def check_seeds(home: Path) -> str:
    """Return which unchanged input is refused: changes of it would be refused early, and would test nothing."""
    for suffix, text in [*FILES.items(), ("sql", SQL)]:
        path = home.parent / f"seed.{suffix}"
        path.write_text(text, encoding="utf-8")
        for arguments in commands_for(path, home):
            result = CliRunner().invoke(main, arguments)
            if result.exit_code not in (0, int(arguments[0] == "validate")):  # 1: a violation was found
                return f"{arguments}: exit code {result.exit_code}: {result.output}"
    path = home.parent / "seed.yaml"
    path.write_text(WORKFLOW, encoding="utf-8")
    workflow.load(path)
    for text in questions():
        result = CliRunner().invoke(main, query_arguments(text, home))
        if result.exit_code:
            return f"{text}: exit code {result.exit_code}: {result.output}"
    return ""


def check_journal(home: Path, chance: random.Random) -> str:
    """Change a journal, and list the runs."""
    (path,) = (home / "runs" / "fourth").glob("*.jsonl")
    before = path.read_bytes()
    try:
        path.write_bytes(mutate(before.decode(), chance))
        return command("runs", "--home", str(home)) or command("verify", "--home", str(home))
    finally:
        path.write_bytes(before)


def questions() -> list[str]:
    """Return the questions of the catalog as SPARQL, without values: variables with `$` are those of SPARQL as well."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(paths.queries().glob("*.rq"))]
    return [re.sub(r"LIMIT \$\w+", "LIMIT 10", re.sub(r"\{[ $\w]*\$\w+ *\}", "{ UNDEF }", text)) for text in texts]


def query_arguments(text: str, home: Path) -> list[str]:
    """Return the command that executes a query, which may take ten seconds."""
    return ["query", text, "--home", str(home), "--timeout", "10"]


def check_query(home: Path, chance: random.Random) -> str:
    """Execute a changed question of the catalog as SPARQL."""
    text = mutate(chance.choice(questions()), chance).decode("utf-8", "replace").replace("\0", "")
    return command(*query_arguments(text, home))


def check_arguments(home: Path, chance: random.Random) -> str:
    """Run a command with arguments that do not fit."""
    os.chdir(home.parent)  # for files that a command writes
    words = [chance.choice([*ARGUMENTS, *PIECES]) for _ in range(chance.randrange(6))]
    words = [word.replace("\0", "").replace("\ud800", "\udcff") for word in words]  # as a shell can pass them
    return command(chance.choice(COMMANDS), *words, *(["--home", str(home)] if chance.random() < 0.8 else []))


def service_client(home: Path) -> Any:
    """Return a client of a service over a home, in this process."""
    from starlette.testclient import TestClient

    from provml.web.app import create_app
    from provml.web.service import Service
    from provml.web.settings import ServiceSettings, Tokens

    service = Service(ServiceSettings(home, tokens=Tokens("read", "write")))
    return TestClient(create_app(service), base_url="http://127.0.0.1", raise_server_exceptions=False)


TARGETS = (
    (
        "PUT",
        "/api/v1/runs/NEW/journals/main",
        "application/x-ndjson",
        '{"e":"run","v":2,"run":"NEW","writer":"main","name":"x","t":1.0}\n{"e":"end","t":2.0}\n',
    ),
    ("POST", "/sparql", "application/sparql-query", "SELECT * { ?s ?p ?o } LIMIT 1"),
    ("PUT", "/graphs?graph=urn:g", "text/turtle", TURTLE),
    *(
        ("POST", path, "application/json", json.dumps(body))
        for path, body in {
            "/api/v1/store/runs/third/annotations": {"kind": "note", "texts": ["a"], "by": "b"},
            "/api/v1/lineage": {
                "eventType": "START",
                "run": {"runId": "1"},
                "job": {"namespace": "n", "name": "j"},
            },
            "/api/2.0/mlflow/runs/create": {
                "experiment_id": "0",
                "start_time": 1,
                "tags": [{"key": "a", "value": "b"}],
            },
            "/retrospective-provenance": [
                {
                    "prov_obj": {"task": {"id": 1.5, "startTime": 1.5}, "dt": "t", "type": "Input", "values": {"n": 5}},
                    "dataflow_name": None,
                    "act_type": "task",
                }
            ],
            "/pde/dataflow/json": {
                "tag": "flow",
                "transformations": [
                    {
                        "tag": "t",
                        "sets": [{"tag": "s", "type": "INPUT", "attributes": [{"name": "a", "type": "NUMERIC"}]}],
                    }
                ],
            },
            "/pde/task/json": {
                "dataflow": "flow",
                "exec": "flow-2026-11-17 14:31:45.157200",
                "transformation": "t",
                "id": "1",
                "status": "RUNNING",
                "sets": [{"tag": "s", "elements": [["1"]]}],
            },
        }.items()
    ),
)
"""Method, path, media type and a body that is right."""


def send(client: Any, target: tuple[str, str, str, str], chance: random.Random, *, is_changed: bool = True) -> Any:
    """Send a request, with a changed body or as it is."""
    run = f"r{chance.randrange(10**9)}"
    method, path, media_type, body = (text.replace("NEW", run) for text in target)
    headers = {"Authorization": "Bearer write", "Content-Type": media_type}
    return client.request(method, path, content=mutate(body, chance) if is_changed else body, headers=headers)


def check_request(client: Any, chance: random.Random) -> str:
    """Send a changed request; a status of 500 or more is wrong, but for 503 and 507."""
    target = chance.choice(TARGETS)
    response = send(client, target, chance)
    is_wrong = response.status_code >= 500 and response.status_code not in (503, 507)
    return f"{target[1]}: {response.status_code} {response.text[:300]}" if is_wrong else ""


def sweep(folder: Path, count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield kinds of inputs, `count` of each in a child of its own, with what is wrong, mostly nothing."""
    home = folder / "home"
    built = attempt(lambda: homes.build(home) and None)
    assert not built.error, built.detail
    outcome = attempt(lambda: check_seeds(home))
    assert not outcome.error, outcome.detail
    assert not outcome.value, outcome.value
    checks: dict[str, Callable[[random.Random], str]] = {
        **{suffix: _file_check(FILES[suffix], suffix, home) for suffix in FILES},
        "workflow": lambda chance: check_workflow(home, chance),
        "sql": _file_check(SQL, "sql", home),
        "journal": lambda chance: check_journal(home, chance),
        "query": lambda chance: check_query(home, chance),
        "arguments": lambda chance: check_arguments(home, chance),
    }
    for kind, check in checks.items():
        outcome = attempt(_repeat(check, count, seed), seconds=60 + 12 * count)  # a query may take ten
        yield kind, (outcome.error and f"{outcome.error} {outcome.detail}") or outcome.value
    outcome = attempt(lambda: _requests(home, count, seed), seconds=60 + 2 * count)
    yield "request", (outcome.error and f"{outcome.error} {outcome.detail}") or outcome.value


def _file_check(text: str, suffix: str, home: Path) -> Callable[[random.Random], str]:
    return lambda chance: check_file(text, suffix, home, chance)


def _repeat(check: Callable[[random.Random], str], count: int, seed: int) -> Callable[[], str]:
    return lambda: "; ".join({wrong for number in range(count) if (wrong := check(random.Random(seed + number)))})


def _requests(home: Path, count: int, seed: int) -> str:
    with service_client(home) as client:
        for target in TARGETS:
            response = send(client, target, random.Random(seed), is_changed=False)
            if not response.is_success:
                return f"{target[1]}, unchanged: {response.status_code} {response.text[:300]}"
        return _repeat(lambda chance: check_request(client, chance), count, seed)()
