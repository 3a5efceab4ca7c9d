"""No query crashes the process, calls another machine unless allowed, or exceeds its limits."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import provml
from provml.answers import Answer
from provml.cli import main
from provml.errors import QueryError, QueryTimeout, ServiceNotAllowed
from provml.store import Store
from provml.store.query_guard import MAX_CHARS, MAX_DEPTH, MAX_JOINS, MAX_TOKENS, check

UNBOUNDED = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
HUGE = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?a ?d"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    with provml.record("flowers", model="alexnet", home=home, strict=True, capture_environment=False) as run:
        raw = run.dataset(b"raw", name="photos", role="raw")
        with run.training(using=raw, learning_rate=0.1, note='a "word"') as training:
            for epoch in training.epochs(20):
                epoch.measured(loss=1 / epoch.index)
    return home


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with provml.open(home) as opened:
        yield opened


# ---- nesting and length

PREFIXED = "PREFIX x: <http://example.org/> "
NESTED: dict[str, Callable[[int], str]] = {
    "groups": lambda n: "SELECT * " + "{" * n + " ?s ?p ?o " + "}" * n,
    "sub-selects": lambda n: "SELECT * {" * n + " ?s ?p ?o " + "}" * n,
    "optional groups": lambda n: "SELECT * {" + "OPTIONAL {" * n + " ?s ?p ?o " + "}" * (n + 1),
    "parentheses": lambda n: "SELECT * { FILTER " + "(" * n + "1" + ")" * n + "}",
    "calls": lambda n: "SELECT * { ?s ?p ?o FILTER(" + "STR(" * n + "?o" + ")" * n + ") }",
    "conditions": lambda n: "SELECT * { ?s ?p ?o FILTER(" + "IF(true, 1, " * n + "1" + ")" * n + ") }",
    "filters": lambda n: "SELECT * { FILTER(" + "NOT EXISTS { FILTER(" * n + "1" + ")}" * n + ") }",
    "paths": lambda n: "SELECT * { ?s " + "(" * n + "<a:b>" + ")+" * n + " ?o }",
    "lists": lambda n: "SELECT * { ?s ?p " + "(" * n + "1" + ")" * n + " }",
    "blank nodes": lambda n: "SELECT * { ?s ?p " + "[ ?p " * n + "1" + "]" * n + " }",
    "triple terms": lambda n: "SELECT * { ?s ?p " + "<<( ?s ?p " * n + "1" + ")>>" * n + " }",
    "parentheses that look like an IRI": lambda n: "SELECT * { FILTER(1<" + "(" * n + "1" + ")" * n + ")#>\n }",
    "calls that look like an IRI": lambda n: "SELECT * { ?s ?p ?o FILTER(1<" + "STR(" * n + "?o" + ")" * n + ")#>\n }",
    "annotations": lambda n: "SELECT * { ?s ?p ?o " + "{| ?p ?o " * n + "|}" * n + " }",
}
IN_A_ROW: dict[str, Callable[[int], str]] = {
    "sums": lambda n: "SELECT * { ?s ?p ?o FILTER(" + "1+" * n + "1) }",
    "differences": lambda n: "SELECT * { ?s ?p ?o FILTER(" + "1-" * n + "1) }",
    "a sum that looks like an IRI": lambda n: "SELECT * { FILTER(COALESCE(1<" + "1+" * n + "1,2>1)) }",
    "a sum after a language": lambda n: "SELECT * { ?s ?p 'x'@values . { FILTER(" + "1+" * n + "1) } }",
    "a sum after a name": lambda n: PREFIXED + "SELECT * { ?s ?p x:b.values . { FILTER(" + "1+" * n + "1) } }",
    "a sum after a variable": lambda n: "SELECT * { ?s ?p ?x·values . { FILTER(" + "1+" * n + "1) } }",
    "items in a word": lambda n: "SELECT * { ?s ?p (" + "true" * n + ") }",
    "alternatives": lambda n: "SELECT * { ?s ?p ?o FILTER(" + "?o||" * n + "?o) }",
    "negations": lambda n: "SELECT * { ?s ?p ?o FILTER(" + "!" * n + "?o) }",
    "steps of a path": lambda n: "SELECT * { ?s " + "<a:b>/" * n + "<a:b> ?o }",
    "branches of a path": lambda n: "SELECT * { ?s " + "<a:b>|" * n + "<a:b> ?o }",
    "unions": lambda n: "SELECT * { " + "{ ?s ?p ?o } UNION " * n + "{ ?s ?p ?o } }",
    "optional parts": lambda n: "SELECT * { " + "OPTIONAL { ?s ?p ?o } " * n + "}",
    "subtractions": lambda n: "SELECT * { ?s ?p ?o " + "MINUS { ?s ?p ?o } " * n + "}",
    "bindings": lambda n: "SELECT * { " + "".join(f"BIND(1 AS ?x{i}) " for i in range(n)) + "}",
    "triples": lambda n: "SELECT * { " + "?s ?p ?o . " * n + "}",
    "objects": lambda n: "SELECT * { ?s ?p 1" + ", 1" * n + " }",
    "items of a list": lambda n: "SELECT * { ?s ?p (" + "1 " * n + ") }",
    "items that are lists": lambda n: "SELECT * { ?s ?p (" + "(1) " * n + ") }",
    "items that are triples": lambda n: "SELECT * { ?s ?p (" + "<<( ?s ?p 1 )>> " * n + ") }",
    "steps in brackets": lambda n: "SELECT * { ?s (" + "<a:b>/" * n + "<a:b>)+ ?o }",
    "groups beside each other": lambda n: "SELECT * { " + "{ ?s ?p ?o } " * n + "}",
    "graphs": lambda n: "SELECT * { " + "GRAPH ?g { ?s ?p ?o } " * n + "}",
    "properties": lambda n: "SELECT * { ?s ?p 1" + "; ?p 1" * n + " }",
    "things without a name": lambda n: "SELECT * { " + "[ ?p 1 ] ?p 1 . " * n + "}",
    "triples that others tell of": lambda n: "SELECT * { <<?a ?b ?c>> ?d 1" + ", <<?a ?b ?c>>" * n + " }",
    "annotations": lambda n: "SELECT * { ?s ?p 1 " + "{| ?p 1 |} " * n + "}",
    "columns": lambda n: "SELECT " + "".join(f"(1 AS ?x{i}) " for i in range(n)) + "{}",
}


@pytest.mark.parametrize("kind", [*NESTED, *IN_A_ROW])
def test_a_query_that_would_crash_the_process_is_an_error(store: Store, kind: str):
    with pytest.raises(QueryError, match=r"levels of nesting|words and signs|characters|a comparison|patterns"):
        store.query((NESTED | IN_A_ROW)[kind](20_000))


PARSE = """
import sys, pyoxigraph as ox
for query in sys.stdin.read().split("\\0"):
    try:
        ox.Store().query(query)
    except SyntaxError:
        pass
print("alive")
"""


def longest(query: Callable[[int], str]) -> str:
    """Return the longest query of a kind that is allowed."""
    low, high = 1, 20_000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            check(query(middle))
            low = middle
        except QueryError:
            high = middle
    return query(low)


@pytest.mark.parametrize("kind", ["groups", "calls", "conditions", "filters", "paths", "triple terms"])
def test_the_deepest_allowed_query_does_not_crash_the_engine(kind: str):
    done = subprocess.run(
        [sys.executable, "-c", PARSE], input=longest(NESTED[kind]), capture_output=True, text=True, check=False
    )
    assert done.stdout == "alive\n", (done.returncode, done.stderr)


@pytest.mark.parametrize(
    "kind",
    [
        "sums",
        "differences",
        "negations",
        "branches of a path",
        "bindings",
        "subtractions",
        "columns",
    ],
)
def test_the_longest_allowed_query_does_not_crash_the_engine(kind: str):
    done = subprocess.run(
        [sys.executable, "-c", PARSE], input=longest(IN_A_ROW[kind]), capture_output=True, text=True, check=False
    )
    assert done.stdout == "alive\n", (done.returncode, done.stderr)


@pytest.mark.parametrize("kind", IN_A_ROW)
def test_the_longest_allowed_query_is_planned_quickly(kind: str):
    query = longest(IN_A_ROW[kind])
    timed = f"import time{PARSE}".replace('print("alive")', "print(time.process_time())")
    done = subprocess.run([sys.executable, "-c", timed], input=query, capture_output=True, text=True, check=False)
    assert float(done.stdout) < 15  # a few seconds on a busy machine


def test_a_hundred_patterns_can_be_joined_and_more_in_sub_queries(store: Store):
    most = "?s ?p ?o . " * (MAX_JOINS - 2)
    store.query(f"SELECT * {{ {most} }} LIMIT 1")
    for apart in (
        f"{{ {most} }} UNION {{ {most} }}",
        f"?s ?p ?o OPTIONAL {{ {most} }}",
        f"{{ SELECT ?s {{ {most} }} }} {{ SELECT ?s {{ {most} }} }}",
        f"?s ?p ?o FILTER NOT EXISTS {{ {most} }} MINUS {{ {most} }}",
    ):
        check(f"SELECT * {{ {apart} }}")
    with pytest.raises(QueryError, match="a group joins more than 100 patterns"):
        store.query(f"SELECT * {{ {most} {{ ?s ?p ?o . ?o ?p ?s }} }}")


def test_filters_columns_and_values_do_not_count_as_joins():
    values = ", ".join(map(str, range(500)))
    check(f"SELECT * {{ ?s ?p ?o FILTER(?o NOT IN ({values})) }}")
    names = ", ".join(f"x:2026-11-{number}" for number in range(500))
    check(f"{PREFIXED} SELECT * {{ ?s ?p ?o FILTER(?o IN ({names})) }}")
    check("SELECT * { " + "".join(f"VALUES ?x{n} {{ 1 2.5 <<( <a:b> <a:b> 1 )>> }} " for n in range(200)) + "}")
    check("SELECT " + " ".join(f"(SUM(?v) / 2 AS ?x{n})" for n in range(90)) + " { ?s ?p ?v }")
    check("SELECT * { ?s ?p ?o " + "".join(f"BIND(STR(?o) AS ?x{n}) " for n in range(300)) + "}")
    check("SELECT * { ?s ?p ?o " + "FILTER(?o > 1.5 || CONTAINS(?o, 'x') && ?o < -2) " * 100 + "}")


def test_brackets_in_literals_iris_and_comments_do_not_count_as_nesting(store: Store):
    brackets = "({[" * 1000
    store.query(f"SELECT * {{ ?s ?p '{brackets}' }} # {brackets}")
    store.query(f'SELECT * {{ ?s ?p """ {brackets} " \\" """ }}')
    with pytest.raises(QueryError, match="nesting"):
        store.query(f"SELECT * {{ ?s ?p '' }}\n{brackets}")


def test_rows_of_values_do_not_count_as_tokens(store: Store):
    many = " ".join(f"<http://example.org/{number}>" for number in range(MAX_TOKENS * 3))
    assert store.query(f"SELECT ?x {{ VALUES ?x {{ {many} }} ?x a prov:Entity }}") is not None
    rows = " ".join(f"({number} 'x')" for number in range(MAX_TOKENS * 2))
    assert len(store.query(f"SELECT * {{ VALUES (?x ?y) {{ {rows} }} }}")) == MAX_TOKENS * 2  # type: ignore[arg-type]
    chain = "1+" * (MAX_TOKENS * 2)
    with pytest.raises(QueryError, match="words and signs"):
        store.query(f"SELECT * {{ VALUES ?x {{ 1 }} FILTER({chain}1) }}")


def test_a_query_of_more_than_a_megabyte_is_an_error(store: Store):
    with pytest.raises(QueryError, match="characters"):
        store.query("ASK {}" + " " * MAX_CHARS)


def test_every_question_of_the_catalog_is_far_from_the_limits(store: Store):
    for query in store.catalog.values():
        check(query.text * 2)
    assert MAX_DEPTH >= 100


# ---- other machines


@pytest.fixture
def calls() -> Iterator[tuple[str, list[str]]]:
    """A server that records its requests."""
    heard: list[str] = []

    class Note(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.path)
            self.send_error(500)

        do_POST = do_GET  # noqa: N815  # so the library names it

        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Note)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", heard
    server.shutdown()
    thread.join()
    server.server_close()


CALLING = [
    "SELECT * { SERVICE <URL> { ?s ?p ?o } }",
    "SELECT * { service silent <URL> { ?s ?p ?o } }",
    "PREFIX x: <URL> SELECT * { SERVICE x:y { ?s ?p ?o } }",
    "PREFIX : <URL> SELECT * { SERVICE:y { ?s ?p ?o } }",
    "PREFIX x: <URL> SELECT * { SERVICEx:y { ?s ?p ?o } }",
    "SELECT * { ?s ?p ?o.SERVICE<URL>{ ?s ?p ?o } }",
    "SELECT * { VALUES ?x { 1 }SERVICE<URL>{ ?s ?p ?o } }",
    "SELECT * { OPTIONAL { ?s provlake:status true } VALUES ?x { trueSERVICE } SERVICE<URL>{ ?s ?p ?o } }",
    "SELECT * { { SELECT * { SERVICE <URL> { ?s ?p ?o } } } }",
    "SELECT * { FILTER EXISTS { #\nSERVICE #\n<URL> { ?s ?p ?o } } }",
    "ASK { SERVICE <URL> { ?s ?p ?o } }",
    "SELECT * { ?s <http://example.org/\\u0041#> ?o . SERVICE <URL> { ?s ?p ?o }\n }",
]
HIDDEN = [
    "SELECT * { FILTER(1<2)SERVICE#>\n<URL> { ?s ?p ?o } }",
    "SELECT * { BIND(1<2 AS ?x) FILTER(?x<3||1<2)SERVICE#>\n<URL> { ?s ?p ?o } }",
    "SELECT * { FILTER(1<'>')SERVICE <URL> { ?s ?p ?o }FILTER('a'='a') }",
    "SELECT * { FILTER(<<( ?s ?p ?o )>><2)SERVICE#>\n<URL> { ?s ?p ?o } }",
    "BASE <http://example.org/> SELECT * { FILTER(1<<(#>)SERVICE <URL> { ?s ?p ?o }\n }",
]
"""Queries in which a comparison looks like the start of an IRI that hides SERVICE."""


@pytest.mark.parametrize("query", CALLING)
def test_service_calls_no_other_machine_unless_allowed(store: Store, calls: tuple[str, list[str]], query: str):
    url, heard = calls
    with pytest.raises(ServiceNotAllowed, match="--allow-service"):
        store.query(query.replace("URL", url))
    assert heard == []


@pytest.mark.parametrize("query", HIDDEN)
def test_a_comparison_that_looks_like_an_iri_cannot_hide_service(
    store: Store, calls: tuple[str, list[str]], query: str
):
    url, heard = calls
    with pytest.raises(QueryError, match=r"an IRI or a comparison\. Put a space after <"):
        store.query(query.replace("URL", url))
    assert heard == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { ?s ?p ?o FILTER(?o<3 && ?p = <http://example.org/#a> && ?p IN (<a:b#c>, <a:b#(d)>)) }",
        "SELECT * { ?s (<a:b#c>/<a:b#d>|^<a:b#e>)* ?o BIND(<a:b#c> AS ?x) FILTER(1<2 || 2>1) }",
        "SELECT (COUNT(?s) AS ?n) { VALUES (?s ?o) { (<a:b#c> <a:b#d>) (UNDEF <a:b#e>) } ?s <a:b#p> ?o }",
        "SELECT * { ?s ?p '1'^^<http://www.w3.org/2001/XMLSchema#integer> FILTER(STRDT('1', <a:b#c>) < 2) }",
        "SELECT * { ?s ?p <<( ?s <a:b#c> <a:b#d> )>> , 'x'@en-GB FILTER(?s>?p) }",
    ],
)
def test_iris_with_special_characters_are_allowed_outside_comparisons(store: Store, query: str):
    assert store.query(query) is not None


def test_an_allowed_service_call_works_also_with_a_timeout(store: Store, calls: tuple[str, list[str]]):
    url, heard = calls
    for timeout in (None, 30.0):
        heard.clear()
        with pytest.raises(QueryError, match="500"):
            store.query(CALLING[0].replace("URL", url), service=True, timeout=timeout)
        assert heard == ["/"]


@pytest.mark.parametrize("query", ["LOAD <URL>", "SELECT * FROM <URL> { ?s ?p ?o }", "DESCRIBE <URL>"])
def test_from_loads_nothing_from_other_machines(store: Store, calls: tuple[str, list[str]], query: str):
    url, heard = calls
    try:
        answer = store.query(query.replace("URL", url))
        assert isinstance(answer, Answer)
        assert answer.rows == []
    except QueryError:
        assert query.startswith("LOAD")
    assert heard == []


def test_a_name_that_contains_service_is_not_a_call(store: Store):
    store.query(
        "PREFIX ex: <http://example.org/service#> "
        "SELECT ?service { ?service ex:service <http://example.org/SERVICE> , 'SERVICE' , 'x'@en # SERVICE\n }"
    )


def test_questions_of_a_user_are_checked_too(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "u1-call.rq").write_text(
        "#+ id: u1\n#+ summary: Who is out there?\n#+ columns: {s: iri}\n"
        "SELECT ?s WHERE { SERVICE <http://example.org/sparql> { ?s ?p ?o } }\n"
    )
    monkeypatch.setenv("PROVML_QUERIES", str(tmp_path))
    with provml.open(home) as store, pytest.raises(ServiceNotAllowed):
        store.ask("u1")


# ---- time and memory


def children() -> set[int]:
    """Return the ids of the running children of this process."""
    pids = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            pids.add(int(stat.parent.name))
    return pids


def test_a_query_is_killed_at_its_time_limit_and_leaves_no_files(store: Store, home: Path):
    before = children()
    with pytest.raises(QueryTimeout, match="its time limit of 1 s") as caught:
        store.query(UNBOUNDED, timeout=1)
    assert caught.value.seconds == 1
    assert children() <= before
    assert list((home / "index").glob("reader-*")) == []
    assert store.query("ASK { ?run provlake:status 'FINISHED' }") is True


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?e ?n ?v { ?e provml:sectionIndex ?n . ?m prov:wasGeneratedBy ?e ; prov:value ?v } ORDER BY ?n",
        "SELECT ?s ?nothing { ?s a provml:TrainingExecution OPTIONAL { ?s provml:nothing ?nothing } }",
        "SELECT ?v ?t { { ?s prov:value ?v } UNION { ?s prov:startedAtTime ?t } } ORDER BY ?t ?v",
        "SELECT ('x'@en AS ?a) (1.5 AS ?b) (xsd:double('NaN') AS ?c) (<a:b> AS ?d) (true AS ?e) {}",
        "ASK { ?run provlake:status 'FINISHED' }",
        "ASK { ?run provlake:status 'NOTHING' }",
        "CONSTRUCT { ?s rdfs:label ?l } WHERE { ?s rdfs:label ?l }",
        "SELECT * { ?nothing provml:nothing ?at_all }",
    ],
)
def test_an_answer_is_the_same_with_a_timeout(store: Store, query: str):
    here, there = store.query(query), store.query(query, timeout=60)
    if isinstance(here, Answer):
        assert isinstance(there, Answer)
        assert there.columns == here.columns
        assert sorted(map(repr, there.rows)) == sorted(map(repr, here.rows))
    else:
        assert there is here


def test_a_query_with_a_timeout_sees_the_latest_events(tmp_path: Path):
    with provml.open(tmp_path, create=True) as store:
        with provml.record("late", home=tmp_path, strict=True, capture_environment=False):
            pass
        assert store.query("ASK { ?run provlake:status 'FINISHED' }", timeout=60) is True


def test_a_store_in_memory_can_be_queried_with_a_timeout(home: Path):
    with provml.open(home), provml.open(home) as second:
        assert second.is_private
        assert second.query("ASK { ?run provlake:status 'FINISHED' }", timeout=60) is True
        with pytest.raises(QueryTimeout):
            second.query(UNBOUNDED, timeout=1)


def test_engine_errors_are_reported_from_a_query_with_a_timeout(store: Store):
    with pytest.raises(QueryError, match="is not declared"):
        store.query("SELECT ?x { ?x nope:y ?z }", timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="the system bounds no memory there")
def test_a_query_uses_no_more_memory_than_its_limit(store: Store):
    assert store.query("ASK {}", timeout=60, memory=2_000_000_000) is True
    with pytest.raises(QueryError, match="2 GB of memory"):
        store.query(HUGE, timeout=120, memory=2_000_000_000)


UNDER_LIMITS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
"""
"""Limits as of `ulimit -v` and `ulimit -t`, which a process cannot raise."""


@pytest.mark.parametrize(
    "work",
    [
        """from provml.store import Store
from provml.store.query_process import QueryLimits
with Store(sys.argv[1]) as store:
    print(store.query("SELECT ?o { VALUES ?o { 7 } }", timeout=1000).rows[0][0], end=" ")
    limits = QueryLimits(1000, 16 << 30)
    print(next(iter(store.backend.query("SELECT ?o { VALUES ?o { 7 } }", limits)))[0].value)""",
        """from provml.store import query_worker
query_worker._set_resource_limits(16 << 30)
print(7, resource.getrlimit(resource.RLIMIT_AS)[0] >> 30)""",
    ],
    ids=["query", "worker"],
)
def test_lower_limits_of_the_system_stay(home: Path, work: str):
    arguments = [sys.executable, "-c", UNDER_LIMITS + work, str(home)]
    process = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert process.stdout.split() in (["7", "7"], ["7", "8"]), process.stderr


def test_a_query_process_that_fails_says_why(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "pyoxigraph.py").write_text("raise ImportError('no engine here')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(QueryError, match="no engine here"):
        store.query("SELECT * { ?s ?p ?o } LIMIT 1", timeout=60)


def test_an_answer_uses_no_more_memory_of_the_parent_than_its_limit(home: Path):
    numbers = " ".join(map(str, range(100)))
    many = f"SELECT * {{ VALUES ?a {{ {numbers} }} VALUES ?b {{ {numbers} }} BIND('{'x' * 100_000}' AS ?c) }}"
    with provml.open(home), provml.open(home) as store:
        assert len(store.query(f"{many} LIMIT 100", timeout=60, memory=400_000_000)) == 100  # type: ignore[arg-type]
        with pytest.raises(QueryError, match=r"0\.4 GB of memory"):
            store.query(many, timeout=60, memory=400_000_000)


def test_the_command_kills_a_query_at_its_time_limit(home: Path):
    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["query", *words, "--home", str(home)])
        return done.exit_code, done.output

    code, output = run(UNBOUNDED, "--timeout", "1")
    assert code == 1
    assert "--timeout" in output
    assert run("ASK { ?run provlake:status 'FINISHED' }")[1] == "true\n"
    assert run("ASK { ?run provlake:status 'FINISHED' }", "--timeout", "0")[1] == "true\n"
    code, output = run("ASK { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }")
    assert code == 2
    assert "--allow-service" in output
    assert "--allow-service" not in run("ASK { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }", "--allow-service")[1]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send there")
def test_an_interrupted_query_leaves_no_process(home: Path):
    command = [sys.executable, "-m", "provml", "query", UNBOUNDED, "--home", str(home), "--timeout", "600"]
    asking = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # the test runner may ignore SIGINT
    )
    child = wait_for(lambda: [pid for pid in descendants(asking.pid) if "query_process.py" in command_of(pid)])
    asking.send_signal(signal.SIGINT)
    asking.communicate(timeout=60)
    assert asking.returncode != 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in child)
    assert list((home / "index").glob("reader-*")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals there")
@pytest.mark.parametrize("ending", ["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("by", ["command", "library"])
def test_a_killed_parent_leaves_no_process_and_no_copy(home: Path, by: str, ending: str):
    command = [sys.executable, "-m", "provml", "query", UNBOUNDED, "--home", str(home), "--timeout", "600"]
    if by == "library":
        asks = f"import provml; provml.open({str(home)!r}).query({UNBOUNDED!r}, timeout=600)"
        command = [sys.executable, "-c", asks]
    asking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    child = wait_for(lambda: [pid for pid in descendants(asking.pid) if "query_process.py" in command_of(pid)])
    time.sleep(1.0)  # until the engine is executing the query
    asking.send_signal(getattr(signal, ending))
    asking.communicate(timeout=60)
    wait_for(lambda: [1] if not any("query_process.py" in command_of(pid) for pid in child) else [])
    assert list((home / "index").glob("reader-*")) == []


def descendants(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def wait_for(look: Callable[[], list[int]]) -> list[int]:
    for _ in range(600):
        if result := look():
            return result
        time.sleep(0.1)
    raise AssertionError("timed out")
