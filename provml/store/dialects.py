"""The table of SPARQL engines: where each has its protocols, what it cannot do, and how queries are rewritten for it.

Questions and queries of provml are plain SPARQL 1.1. All that depends on an engine is in this table. The tests ask
Oxigraph, Apache Jena and Virtuoso every question (`docs/reference/engines.md`); the addresses of the others are those
that their manuals state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from provml.catalog import UNLIMITED, rewrite
from provml.rdf.namespaces import NODES, XSD
from provml.store.sparql_tokens import END, Token, tokenize

Rewrite = Callable[[str], str]
MAX_DIGITS = 6
"""Digits of a number in the answers of Virtuoso."""
TEXT_SUFFIX = "_provml_text"
"""End of the name of a column that holds the lexical form of another column."""


@dataclass(frozen=True)
class Dialect:
    """How to use one engine. Paths are relative to the address of the dataset; None: the engine has no such service."""

    name: str
    title: str
    server: str = ""
    """Start of the `Server` header of its answers."""
    query: str = ""
    update: str = ""
    graph_store: str | None = None
    data_graph: str = ""
    """The graph of the runs, where the default graph of the engine is the union of all graphs, or is missing."""
    graph_parameter: str = "graph"
    load_parameter: str = ""
    """A parameter of a load of many triples that makes it faster."""
    uses_digest: bool = False
    """Whether it refuses basic authentication without asking for a digest."""
    has_canonical_literals: bool = False
    """Whether it stores literals in their canonical form; for others they are brought into the form of Oxigraph."""
    has_quads: bool = False
    """Whether its Graph Store takes N-Quads of several graphs."""
    update_triples: int = 5000
    """Triples in one INSERT DATA."""
    has_exact_graphs: bool = True
    """Whether the triples of CONSTRUCT have numbers with all their digits."""
    question_rewrites: tuple[Rewrite, ...] = ()
    """Changes of the questions of the catalog."""
    rewrites: tuple[Rewrite, ...] = ()
    """Changes of every query, after those of questions."""
    repair: Callable[[bytes], bytes] | None = None
    """Changes of the JSON of an answer."""
    unanswered: frozenset[str] = frozenset()
    """Questions that it does not answer, or answers wrongly; a test checks that it answers all others."""
    is_tested: bool = False

    def rewrite_question(self, sparql: str) -> str:
        """Return an equivalent query of the catalog that this engine answers faster."""
        return _apply(self.question_rewrites, sparql)

    def rewrite(self, sparql: str) -> str:
        """Return an equivalent query that this engine answers as others do."""
        return _apply(self.rewrites, sparql)


def _apply(changes: tuple[Rewrite, ...], sparql: str) -> str:
    for change in changes:
        sparql = change(sparql)
    return sparql


# ---- rewrites


_LONG_INTEGER = re.compile(r"-?[0-9]{10,}")


def remove_unlimited(sparql: str) -> str:
    """Remove the LIMIT that stands for all rows: Virtuoso reserves memory for as many rows as it says."""
    return re.sub(rf"\bLIMIT\s+{UNLIMITED}\b", "", sparql, flags=re.IGNORECASE)


def add_lexical_forms(sparql: str) -> str:
    """Select the lexical form of each column as well: Virtuoso writes only six digits of a double in its answers."""
    tokens = tokenize(sparql)
    start = _index_of(tokens, "SELECT")
    if start is None or any(token.keyword in ("CONSTRUCT", "ASK", "DESCRIBE") for token in tokens[:start]):
        return sparql
    columns = _projected(tokens, start + 1)
    if columns is None:
        return sparql
    outer = " ".join(f"?{name} (STR(?{name}) AS ?{name}{TEXT_SUFFIX})" for name in columns)
    prologue, query = sparql[: tokens[start].start], sparql[tokens[start].start :]
    return f"{prologue}SELECT {outer} WHERE {{ {{ {query}\n}} }}"


def _index_of(tokens: list[Token], keyword: str) -> int | None:
    return next((index for index, token in enumerate(tokens) if token.keyword == keyword), None)


def _projected(tokens: list[Token], start: int) -> list[str] | None:
    """Return the columns of a SELECT clause; None for `SELECT *`."""
    columns: list[str] = []
    depth = 0
    for index in range(start, len(tokens)):
        token = tokens[index]
        if token.kind == END or token.text == "{" or token.keyword in ("WHERE", "FROM"):
            return columns
        if token.text == "*" and depth == 0:
            return None
        depth += (token.text == "(") - (token.text == ")")
        is_computed = depth == 1 and tokens[index - 1].keyword == "AS"
        if token.kind == "variable" and (depth == 0 or is_computed):
            columns.append(token.text[1:])
    return None


def restore_lexical_forms(body: bytes) -> bytes:
    """Put the lexical forms that `add_lexical_forms` selected in their places, and correct the types of terms."""
    answer = msgspec.json.decode(body)
    if "results" not in answer:
        return body
    if answer["head"]["vars"] == ["__ASK_RETVAL"]:
        value = any(row["__ASK_RETVAL"]["value"] in ("1", "true") for row in answer["results"]["bindings"])
        return msgspec.json.encode({"head": {}, "boolean": value})
    answer["head"] = {"vars": [name for name in answer["head"]["vars"] if not name.endswith(TEXT_SUFFIX)]}
    rows = []
    for row in answer["results"]["bindings"]:
        cells = {name: dict(cell) for name, cell in row.items() if not name.endswith(TEXT_SUFFIX)}
        for name, cell in cells.items():
            if cell["type"] == "typed-literal":
                text = row.get(f"{name}{TEXT_SUFFIX}")
                if text is None and len(re.sub(r"^[0.]+|\D", "", cell["value"].partition("e")[0])) >= MAX_DIGITS:
                    raise ValueError(f"the engine cut the number {cell['value']} to {MAX_DIGITS} digits")
                cell["type"], cell["value"] = "literal", (text or cell)["value"]
                if cell.get("datatype") == f"{XSD}decimal" and _LONG_INTEGER.fullmatch(cell["value"]):
                    cell["datatype"] = f"{XSD}integer"  # it has stored integers of more than 32 bits as decimals
        rows.append(cells)
    answer["results"] = {"bindings": rows}
    return msgspec.json.encode(answer)


def write_doubles_plainly(sparql: str) -> str:
    """Write doubles in texts as Oxigraph does: those that TDB2 has stored are `0.4e0` and `1.0E-5` there."""

    def plainly(match: re.Match[str]) -> str:
        variable = match[1]
        double = f"IF(DATATYPE({variable}) = xsd:double, {variable}, 1/0)"
        return f'COALESCE(REPLACE(STR(xsd:decimal({double})), "[.]0$", ""), STR({variable}))'

    return _TEXT_OF_VARIABLE.sub(plainly, sparql)


_TEXT_OF_VARIABLE = re.compile(r"(?<!REPLACE\()(?<!STRSTARTS\()(?<!STRAFTER\()\bSTR\((\?\w+)\)(?=\s*[,=)])")
"""The text of a variable that may be a number: it is joined to others, compared or selected."""


# ---- the table

PROVML_GRAPH = f"{NODES}graph"
"""The graph of the runs on engines without a default graph of its own."""

_NOT_ON_VIRTUOSO = frozenset(
    (
        "adaptations",
        "batch-times",
        "best-hyperparameters",
        "best-loss-and-layers",
        "best-on-dataset",
        "difference-of-runs",
        "environment-differences",
        "epochs",
        "filter-at-hyperparameter",
        "layers-of-model",
        "leakage",
        "lineage-backward",
        "loss-now",
        "models-by-range",
        "models-from-dataset",
        "raw-data-of-model",
        "runs-by-hyperparameter",
        "slowest-epochs",
        "who-did-what",
    )
)

EMBEDDED = Dialect("embedded", "Oxigraph, embedded", question_rewrites=(rewrite,), is_tested=True)
SPARQL_1_1 = Dialect("sparql", "any SPARQL 1.1 endpoint")

DIALECTS = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            Dialect(
                "oxigraph",
                "Oxigraph server",
                server="Oxigraph/",
                query="/query",
                update="/update",
                graph_store="/store",
                load_parameter="no_transaction",
                has_canonical_literals=True,
                has_quads=True,
                question_rewrites=(rewrite,),
                is_tested=True,
            ),
            Dialect(
                "jena",
                "Apache Jena Fuseki",
                server="Apache Jena Fuseki",
                query="/query",
                update="/update",
                graph_store="/data",
                has_quads=True,
                question_rewrites=(write_doubles_plainly,),
                is_tested=True,
            ),
            Dialect(
                "virtuoso",
                "Virtuoso 7.2.5",
                server="Virtuoso/",
                query="/sparql",
                update="/sparql-auth",
                graph_store="/sparql-graph-crud-auth",
                data_graph=PROVML_GRAPH,
                graph_parameter="graph-uri",
                uses_digest=True,
                update_triples=500,
                has_exact_graphs=False,
                rewrites=(remove_unlimited, add_lexical_forms),
                repair=restore_lexical_forms,
                unanswered=_NOT_ON_VIRTUOSO,
                is_tested=True,
            ),
            Dialect(
                "graphdb",
                "GraphDB and RDF4J",
                server="GraphDB",
                update="/statements",
                graph_store="/rdf-graphs/service",
                data_graph=PROVML_GRAPH,
            ),
            Dialect(
                "neptune",
                "Amazon Neptune",
                query="/sparql",
                update="/sparql",
                graph_store="/sparql/gsp/",
                data_graph=PROVML_GRAPH,
            ),
            Dialect("stardog", "Stardog", server="Stardog", query="/query", update="/update", graph_store=""),
            Dialect("qlever", "QLever", server="QLever", graph_store="", data_graph=PROVML_GRAPH),
            SPARQL_1_1,
        )
    }
)
"""The engines that an endpoint can be, by name."""

HOST_NAMES = MappingProxyType({".neptune.amazonaws.com": "neptune"})
"""Ends of host names that tell the engine."""


def by_server_header(header: str) -> Dialect | None:
    """Return the engine that sends a `Server` header."""
    return next((item for item in DIALECTS.values() if item.server and header.startswith(item.server)), None)
