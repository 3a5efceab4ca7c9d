"""Requests to a SPARQL endpoint: the SPARQL 1.1 Protocol, the Graph Store Protocol, and SPARQL Update.

Every request may be repeated: a load adds the same triples again, an update replaces what it replaced before. A request
that fails because the endpoint is away, busy or restarting is repeated with growing pauses, up to a limit.
"""

from __future__ import annotations

import base64
import http.client
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import pyoxigraph as ox

from provml.answers.parse_results import JSON_RESULTS, parse_results
from provml.errors import ProvmlError, QueryError, QueryTimeout, ServiceError, ServiceUnreachable
from provml.rdf.namespaces import PREFIXES
from provml.remote.connection import Address, Connection, Response
from provml.store.dialects import DIALECTS, SPARQL_1_1, Dialect, by_server_header
from provml.store.endpoint.address import QUERY_PATHS, EndpointAddress
from provml.store.sparql_tokens import tokenize

FORM = "application/x-www-form-urlencoded"
N_TRIPLES, N_QUADS = "application/n-triples", "application/n-quads"
BUSY = (429, 502, 503, 504)
"""HTTP statuses of a server that may answer later."""
MAX_PAUSE_SECONDS = 5.0
PROBE_SECONDS = 30.0
CREDENTIALS_ADVICE = "Pass token=…, or a user and a password: PROVML_TOKEN, or PROVML_USER and PROVML_PASSWORD."
ADDRESS_ADVICE = "Check the URL of the dataset, and that the server is running there."


class Limits(NamedTuple):
    """Time limits of requests, in seconds: for an answer, for a load or update, and for repeated attempts.

    `connect_seconds` is how long an endpoint that does not answer at first is tried again: not at all by default, since
    most of these URLs are mistyped.
    """

    query_seconds: float = 300.0
    write_seconds: float = 600.0
    retry_seconds: float = 30.0
    connect_seconds: float = 0.0


OnWait = Callable[[ServiceError, float], None]
"""Called before the first pause of a request, with what was wrong and the seconds until no more attempts are made."""


class _Request(NamedTuple):
    """A request: its path below the dataset, and its parameters in the URL."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]
    query: str = ""


class _Connection(Connection):
    """A connection with basic, bearer or digest authentication, and a time limit for each request."""

    def __init__(self, address: EndpointAddress) -> None:
        parts = urlsplit(address.url)
        super().__init__(Address(f"{parts.scheme}://{parts.netloc}", address.token))
        self._user, self._password = address.user, address.password
        self._digest: tuple[Any, dict[str, str]] | None = None
        self.sends_basic = True

    def exchange(self, request: _Request, target: str, seconds: float) -> Response:
        """Send a request; repeat it once if the server asks for a digest."""
        method, body, headers = request.method, request.body, request.headers
        self.set_read_seconds(seconds)
        response = self.request(method, target, body, {**headers, **self._answer_challenge(method, target)})
        challenge = response.headers.get("WWW-Authenticate", "")
        if response.status == 401 and self._user and challenge.lower().startswith("digest"):
            self._learn_challenge(challenge)
            response = self.request(method, target, body, {**headers, **self._answer_challenge(method, target)})
        return response

    def _authorization(self) -> dict[str, str]:
        if self._user and self._digest is None and self.sends_basic:
            pair = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return super()._authorization()

    def _learn_challenge(self, challenge: str) -> None:
        passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
        passwords.add_password(None, self.url, self._user, self._password)
        fields = urllib.request.parse_keqv_list(urllib.request.parse_http_list(challenge.partition(" ")[2]))
        self._digest = urllib.request.HTTPDigestAuthHandler(passwords), fields

    def _answer_challenge(self, method: str, target: str) -> dict[str, str]:
        if self._digest is None:
            return {}
        handler, fields = self._digest
        request = urllib.request.Request(f"{self.url}{target}", method=method)
        return {"Authorization": f"Digest {handler.get_authorization(request, fields)}"}


class Endpoint:
    """A dataset of a SPARQL endpoint. Requests are sent one at a time."""

    def __init__(
        self,
        address: EndpointAddress,
        limits: Limits = Limits(),  # noqa: B008  # immutable
        on_wait: OnWait | None = None,
    ) -> None:
        self.address = address
        self.limits = limits
        self.is_open = True
        self._on_wait = on_wait
        self._connect_end = time.monotonic() + limits.connect_seconds
        self._lock = threading.Lock()
        self._connection = _Connection(address)
        parts = urlsplit(address.url)
        self._path, self._options = parts.path, parts.query
        self.dialect = DIALECTS[address.engine] if address.engine else SPARQL_1_1
        self._query_path = ""
        try:
            self._discover()
        except BaseException:
            self.close()
            raise
        self._connection.sends_basic = not self.dialect.uses_digest
        self.data_graph = address.graph or self.dialect.data_graph
        """The graph of the runs; empty for the default graph."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- discovery

    def _discover(self) -> None:
        """Find out where the dataset answers queries, and which engine it is unless the address says so."""
        if self.address.engine:
            self._strip(self.dialect)
            self._query_path = self.dialect.query
            self._probe(self._query_path)
            return
        failures: list[ServiceError] = []
        for path in ("", *QUERY_PATHS):
            try:
                response = self._probe(path)
            except ServiceUnreachable:
                raise
            except ServiceError as error:
                failures.append(error)
                continue
            dialect = by_server_header(response.headers.get("Server", ""))
            if dialect is None:
                self._query_path = path
                if path == "/query":  # as Fuseki has it
                    self.dialect = DIALECTS["jena"]
                return
            self.dialect = dialect
            self._strip(dialect)
            self._query_path = path or dialect.query
            return
        raise next((error for error in failures if error.status in (401, 403)), failures[0])

    def _strip(self, dialect: Dialect) -> None:
        """Take the address of the query service for that of its dataset."""
        if dialect.query and self._path.endswith(dialect.query):
            self._path = self._path.removesuffix(dialect.query)

    def _probe(self, path: str) -> Response:
        body = urlencode({"query": "ASK {}"}).encode()
        request = _Request("POST", path, body, {"Content-Type": FORM, "Accept": JSON_RESULTS})
        # a query of no triples takes no time: an endpoint that does not answer it in time is not ready yet
        response = self._repeat(request, PROBE_SECONDS, self._connect_end, after_timeout=True)
        if response.status < 400 and not _is_boolean(response):
            raise ServiceError(self.address.url, "no SPARQL endpoint answers there", ADDRESS_ADVICE, status=404)
        return self._check(response)

    # ---- queries

    def query(self, sparql: str, *, graph: str | None = None, seconds: float = 0.0) -> Any:
        """Execute a query on the graph of the runs, or on another graph; return solutions, a boolean or triples."""
        rewritten = self.dialect.rewrite(sparql)
        try:
            return self._query(rewritten, graph, seconds)
        except QueryError as error:
            if rewritten == sparql or self.dialect.repair is None:
                raise
            failure = error
        try:  # the rewritten text may be too much for the compiler of the engine
            return self._query(sparql, graph, seconds)
        except ServiceError:
            raise failure from None

    def _query(self, sparql: str, graph: str | None, seconds: float) -> Any:
        target = self.data_graph if graph is None else graph
        fields = {"query": declare_prefixes(sparql)}
        if target:
            fields["default-graph-uri"] = target
        headers = {"Content-Type": FORM, "Accept": N_TRIPLES if returns_triples(sparql) else JSON_RESULTS}
        try:
            request = _Request("POST", self._query_path, urlencode(fields).encode(), headers)
            response = self._request(request, seconds or self.limits.query_seconds)
        except ServiceUnreachable as error:
            if seconds and "timed out" in error.reason:
                raise QueryTimeout(seconds) from None
            raise
        except ServiceError as error:
            raise as_query_error(error) from None
        return self._parse(response)

    def _parse(self, response: Response) -> Any:
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        kind = JSON_RESULTS if kind == "application/json" else kind  # as some servers call it
        try:
            repair = self.dialect.repair if kind == JSON_RESULTS else None
            return parse_results(repair(response.body) if repair is not None else response.body, kind)
        except (ValueError, SyntaxError) as error:
            raise ServiceError(self.address.url, str(error), "Ask again, or add a LIMIT.") from None

    def triples(self, where: str = "?s ?p ?o", graph: str | None = None) -> Iterator[ox.Triple]:
        """Return the matches of a pattern of ?s, ?p and ?o as triples, with numbers as they were written."""
        if self.dialect.has_exact_graphs:
            return iter(self.query(f"CONSTRUCT {{ ?s ?p ?o }} WHERE {{ {where} }}", graph=graph))
        rows = self.query(f"SELECT ?s ?p ?o WHERE {{ {where} }}", graph=graph)
        return (ox.Triple(row["s"], row["p"], row["o"]) for row in rows)

    # ---- writing

    def update(self, sparql: str) -> None:
        """Execute an update."""
        body = urlencode({"update": declare_prefixes(sparql)}).encode()
        try:
            self._request(_Request("POST", self.dialect.update, body, {"Content-Type": FORM}))
        except ServiceUnreachable:
            raise
        except ServiceError as error:
            raise as_query_error(error) from None

    def load(self, ntriples: bytes, graph: str = "", *, is_large: bool = False) -> None:
        """Add N-Triples to a graph: by the Graph Store Protocol, else by SPARQL Update. There are no blank nodes."""
        if not ntriples:
            return
        if not self.dialect.has_canonical_literals:
            ntriples = canonical(ntriples, ox.RdfFormat.N_TRIPLES)
        if self.dialect.graph_store is None:
            self.insert(ntriples.splitlines(), graph)
            return
        self._load(self._graph_query(graph), ntriples, N_TRIPLES, is_large=is_large)

    def load_quads(self, nquads: bytes) -> None:
        """Add N-Quads of named graphs."""
        if not nquads:
            return
        if self.dialect.has_quads and self.dialect.graph_store is not None:
            if not self.dialect.has_canonical_literals:
                nquads = canonical(nquads, ox.RdfFormat.N_QUADS)
            self._load("", nquads, N_QUADS, is_large=False)
            return
        graphs: dict[bytes, list[bytes]] = {}
        for line in nquads.splitlines():
            triple, _, graph = line.removesuffix(b" .").rpartition(b" ")
            graphs.setdefault(graph[1:-1], []).append(triple + b" .")
        for graph, lines in graphs.items():
            self.load(b"\n".join(lines) + b"\n", graph.decode())

    def _load(self, query: str, body: bytes, kind: str, *, is_large: bool) -> None:
        parameter = self.dialect.load_parameter if is_large else ""
        query = "&".join(filter(None, (query, parameter)))
        self._request(_Request("POST", self.dialect.graph_store or "", body, {"Content-Type": kind}, query))

    def _graph_query(self, graph: str) -> str:
        return f"{self.dialect.graph_parameter}={quote(graph, safe='')}" if graph else "default"

    def insert(self, lines: Iterable[bytes], graph: str = "") -> None:
        """Add lines of N-Triples by SPARQL Update."""
        lines, size = list(lines), self.dialect.update_triples
        for start in range(0, len(lines), size):
            text = b"\n".join(lines[start : start + size]).decode()
            self.update(f"INSERT DATA {{ {in_graph(text, graph)} }}")

    def drop(self, graph: str) -> None:
        """Remove a named graph; it need not exist."""
        self.update(f"DROP SILENT GRAPH <{graph}>")

    # ---- requests

    def close(self) -> None:
        """Close the connection."""
        self.is_open = False
        with self._lock:
            self._connection.close()

    def _request(self, request: _Request, seconds: float = 0.0) -> Response:
        """Send a request until it succeeds; raise the error of the last attempt."""
        end = time.monotonic() + self.limits.retry_seconds
        response = self._repeat(request, seconds or self.limits.write_seconds, end)
        return self._check(response)

    def _repeat(self, request: _Request, seconds: float, end: float, *, after_timeout: bool = False) -> Response:
        """Send a request until the endpoint neither is away nor busy, or until `end`.

        Returns the last answer, also one that says that the endpoint is busy, or raises ServiceUnreachable.
        """
        pause, is_first = 0.25, True
        while True:
            try:
                response = self._send(request, seconds)
                if response.status not in BUSY or time.monotonic() + pause > end:
                    return response
                failure = self._refusal(response)
            except ServiceUnreachable as error:
                if "certificate" in error.reason or ("timed out" in error.reason and not after_timeout):
                    raise  # it will never answer, or it still works on the request
                if time.monotonic() + pause > end:
                    raise
                failure = error
            if is_first and self._on_wait is not None:
                self._on_wait(failure, end - time.monotonic())
            is_first = False
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def _send(self, request: _Request, seconds: float) -> Response:
        if not self.is_open:
            raise ValueError("This store is closed. Open a new one with provml.open(url).")
        options = "&".join(filter(None, (self._options, request.query)))
        target = f"{self._path}{request.path}{f'?{options}' if options else ''}" or "/"
        try:
            with self._lock:
                return self._connection.exchange(request, target, seconds)
        except ServiceUnreachable as error:
            raise ServiceUnreachable(self.address.url, error.reason, ADDRESS_ADVICE) from None

    def _check(self, response: Response) -> Response:
        if response.status >= 300:
            raise self._refusal(response)
        return response

    def _refusal(self, response: Response) -> ServiceError:
        status, reason = response.status, describe_body(response)
        phrase = f"HTTP status {status} {http.client.responses.get(status, '')}".rstrip()
        if status in (401, 403):
            reason, advice = f"the endpoint refused access ({phrase})", CREDENTIALS_ADVICE
        elif status < 400 or status in (404, 405):
            reason, advice = f"no SPARQL endpoint answers there ({phrase})", ADDRESS_ADVICE
        else:
            advice = "Try again later." if status in BUSY else "Check the request, and the log of the server."
        return ServiceError(self.address.url, reason or phrase, advice, status=status)


def _is_boolean(response: Response) -> bool:
    """Return whether an answer is that of an ASK in JSON; Virtuoso answers in a form of its own, as one row."""
    try:
        answer = msgspec.json.decode(response.body)
    except ValueError:
        return False
    return isinstance(answer, dict) and ("boolean" in answer or "results" in answer)


def describe_body(response: Response) -> str:
    """Return the first lines of an error page, without HTML."""
    text = response.body[:4000].decode("utf-8", "replace")
    text = re.sub(r"(?is)<(?:style|script)\b.*?</(?:style|script)>|<[^>]{0,200}>", " ", text)
    text = text.partition("SPARQL query:")[0]  # Virtuoso repeats the query
    return " ".join(text.split())[:300]


def as_query_error(error: ServiceError) -> ProvmlError:
    """Return the error of a query that the engine refused; other errors stay as they are."""
    if error.status not in (400, 500):
        return error
    return QueryError(error.reason, f"The endpoint {error.url} reported this.")


def declare_prefixes(sparql: str) -> str:
    """Declare the usual prefixes that a query uses and does not declare, in front of its first line."""
    declared = set(re.findall(r"\bPREFIX\s+([\w.\-]*):", sparql, re.IGNORECASE))
    used = (name for name in PREFIXES if name not in declared and re.search(rf"(?<![\w.\-]){name}:", sparql))
    return "".join(f"PREFIX {name}: <{PREFIXES[name]}> " for name in used) + sparql


def returns_triples(sparql: str) -> bool:
    """Return whether a query is a CONSTRUCT or DESCRIBE."""
    forms = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
    form = next((token.keyword for token in tokenize(sparql) if token.keyword in forms), "")
    return form in forms[2:]


def canonical(data: bytes, fmt: ox.RdfFormat) -> bytes:
    """Return N-Triples or N-Quads with literals as Oxigraph stores them, so that all engines have the same texts."""
    store = ox.Store()
    store.bulk_load(data, format=fmt, lenient=True)
    return store.dump(format=fmt, from_graph=ox.DefaultGraph() if fmt == ox.RdfFormat.N_TRIPLES else None) or b""


def in_graph(triples: str, graph: str) -> str:
    """Return triples as the data of an update of a graph."""
    return f"GRAPH <{graph}> {{ {triples} }}" if graph else triples
