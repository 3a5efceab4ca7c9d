"""Give changed files, texts and requests to the command line and the service: an answer or a message, never a crash."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from provml import paths
from provml.cli import main
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
activities:
  - name: train
    kind: training
    attributes: {learning_rate: number}
"""
SQL = """CREATE TABLE dataflow (id INTEGER PRIMARY KEY, tag VARCHAR(50));
INSERT INTO dataflow VALUES (1, 'alexnet');
CREATE TABLE ds_itraining (id INTEGER, optimizer VARCHAR(20), learning_rate DOUBLE);
INSERT INTO ds_itraining VALUES (1, 'adam', 0.1), (2, NULL, 1e-3);
"""
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


def check_file(seed: str, suffix: str, home: Path, chance: random.Random) -> str:
    """Load, validate or import a changed file."""
    path = home.parent / f"fuzzed.{suffix}"
    path.write_bytes(mutate(seed, chance))
    if suffix in FILES:
        return command("load", str(path), "--home", str(home)) or command("validate", str(path))
    if suffix == "yaml":
        return command("validate", str(path))
    return command("import", str(path), "--home", str(home))


def check_journal(home: Path, chance: random.Random) -> str:
    """Change a journal, and list the runs."""
    (path,) = (home / "runs" / "fourth").glob("*.jsonl")
    before = path.read_bytes()
    try:
        path.write_bytes(mutate(before.decode(), chance))
        return command("runs", "--home", str(home)) or command("verify", "--home", str(home))
    finally:
        path.write_bytes(before)


def check_query(home: Path, chance: random.Random) -> str:
    """Execute a changed question of the catalog as SPARQL."""
    question = chance.choice(sorted(paths.queries().glob("*.rq"))).read_text(encoding="utf-8")
    text = mutate(question, chance).decode("utf-8", "replace").replace("\0", "")
    return command("query", text, "--home", str(home), "--timeout", "10")


def check_arguments(home: Path, chance: random.Random) -> str:
    """Run a command with arguments that do not fit."""
    words = [chance.choice([*ARGUMENTS, *PIECES]) for _ in range(chance.randrange(6))]
    words = [word.replace("\0", "") for word in words]
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
        "/api/v1/runs/r/journals/main",
        "application/x-ndjson",
        '{"e":"run","v":2,"run":"r","writer":"main","name":"x","t":1.0}\n{"e":"end","t":2.0}\n',
    ),
    ("POST", "/sparql", "application/sparql-query", "SELECT * { ?s ?p ?o } LIMIT 1"),
    (
        "POST",
        "/api/v1/lineage",
        "application/json",
        '{"eventType": "START", "run": {"runId": "1"}, "job": {"namespace": "n", "name": "j"}}',
    ),
    ("PUT", "/graphs?graph=urn:g", "text/turtle", TURTLE),
    ("POST", "/api/v1/store/runs", "application/json", '{"limit": 1}'),
)
"""Method, path, media type and a body that is right."""


def check_request(client: Any, chance: random.Random) -> str:
    """Send a changed body; a status of 500 or more is wrong, but for 503 and 507."""
    method, target, media_type, body = chance.choice(TARGETS)
    headers = {"Authorization": "Bearer write", "Content-Type": media_type}
    response = client.request(method, target, content=mutate(body, chance), headers=headers)
    is_wrong = response.status_code >= 500 and response.status_code not in (503, 507)
    return f"{method} {target}: {response.status_code} {response.text[:300]}" if is_wrong else ""


def sweep(folder: Path, count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield kinds of inputs, `count` of each in a child of its own, with what is wrong, mostly nothing."""
    home = folder / "home"
    built = attempt(lambda: homes.build(home) and None)
    assert not built.error, built.detail
    checks: dict[str, Callable[[random.Random], str]] = {
        **{suffix: _file_check(FILES[suffix], suffix, home) for suffix in FILES},
        "workflow": _file_check(WORKFLOW, "yaml", home),
        "sql": _file_check(SQL, "sql", home),
        "journal": lambda chance: check_journal(home, chance),
        "query": lambda chance: check_query(home, chance),
        "arguments": lambda chance: check_arguments(home, chance),
    }
    for kind, check in checks.items():
        outcome = attempt(_repeat(check, count, seed), seconds=60 + 2 * count)
        yield kind, (outcome.error and f"{outcome.error} {outcome.detail}") or outcome.value
    outcome = attempt(lambda: _requests(home, count, seed), seconds=60 + 2 * count)
    yield "request", (outcome.error and f"{outcome.error} {outcome.detail}") or outcome.value


def _file_check(text: str, suffix: str, home: Path) -> Callable[[random.Random], str]:
    return lambda chance: check_file(text, suffix, home, chance)


def _repeat(check: Callable[[random.Random], str], count: int, seed: int) -> Callable[[], str]:
    return lambda: "; ".join({wrong for number in range(count) if (wrong := check(random.Random(seed + number)))})


def _requests(home: Path, count: int, seed: int) -> str:
    with service_client(home) as client:
        return _repeat(lambda chance: check_request(client, chance), count, seed)()
