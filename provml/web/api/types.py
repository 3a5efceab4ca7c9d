"""Types of the REST interface: what answers and bodies look like."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from provml.journal.refusals import Refusal
from provml.rdf.namespaces import DCTERMS, PREFIXES, PROV, PROVLAKE, PROVML, RDFS, XSD
from provml.store import RunInfo

RUN_CONTEXT = {
    "rdfs": RDFS,
    "prov": PROV,
    "provlake": PROVLAKE,
    "provml": PROVML,
    "xsd": XSD,
    "id": f"{DCTERMS}identifier",
    "name": "rdfs:label",
    "status": "provlake:status",
    "started": {"@id": "prov:startedAtTime", "@type": "xsd:dateTime"},
    "seconds": {"@id": "provml:elapsedSeconds", "@type": "xsd:double"},
}
"""JSON-LD context of a run: other names describe the answer, not the run."""
TERM_CONTEXT = {
    **PREFIXES,
    "kinds": "@type",
    "label": "rdfs:label",
    "definition": "skos:definition",
    "domain": {"@id": "rdfs:domain", "@type": "@id"},
    "range": {"@id": "rdfs:range", "@type": "@id"},
}
"""JSON-LD context of terms. In a list of terms, that of each term is the whole list's."""
RUN_TYPE = "provlake:WorkflowExecution"


class Table(msgspec.Struct, kw_only=True):
    """A table: rows are lists of values in the order of the columns. `next` is the address of the next page."""

    columns: list[str]
    types: dict[str, str] = {}
    rows: list[list[Any]]
    total: int
    offset: int = 0
    limit: int | None = None
    next: str | None = None
    note: str = ""


class Note(msgspec.Struct, kw_only=True):
    """A note that somebody wrote about a run."""

    text: str
    by: str = ""
    time: datetime


class Run(msgspec.Struct, kw_only=True):
    """A run. The object is JSON-LD: `@id` is the node of the run in the graph."""

    context: dict[str, Any] = msgspec.field(name="@context")
    iri: str = msgspec.field(name="@id")
    type: str = msgspec.field(name="@type")
    id: str
    name: str
    experiment: str
    model: str
    status: str
    started: datetime
    seconds: float | None
    error: str
    writers: int
    events: int
    capture_errors: int
    tags: list[str]
    notes: list[Note]
    parent: str
    children: list[str]
    links: dict[str, str]


class Annotation(msgspec.Struct, kw_only=True):
    """A tag, a note or a name for a run; `removed` takes a tag or a note back."""

    kind: Literal["tag", "note", "name"]
    text: str
    by: str = ""
    removed: bool = False


class QuestionParameter(msgspec.Struct, kw_only=True):
    """A parameter of a question."""

    name: str
    type: str
    help: str
    required: bool
    multiple: bool
    default: Any = None
    example: Any = None
    node_kind: str = ""
    name_kind: str = ""


class Question(msgspec.Struct, kw_only=True):
    """A question of the catalog."""

    name: str
    aliases: list[str]
    summary: str
    intent: str
    source: str
    needs: str
    is_packaged: bool
    columns: dict[str, str]
    parameters: list[QuestionParameter]
    plot: dict[str, Any] | None
    sparql: str
    url: str


class Questions(msgspec.Struct):
    """The questions of the catalog, and files that cannot be read."""

    questions: list[Question]
    errors: list[str]


class Term(msgspec.Struct, kw_only=True):
    """A term of an ontology. The object is JSON-LD."""

    context: dict[str, Any] | msgspec.UnsetType = msgspec.field(name="@context", default=msgspec.UNSET)
    iri: str = msgspec.field(name="@id")
    name: str
    kinds: list[str]
    label: str = ""
    definition: str = ""
    parents: list[str] = []
    domain: list[str] = []
    range: list[str] = []


class Terms(msgspec.Struct, kw_only=True):
    """Terms of the ontologies. The object is JSON-LD, as a graph of terms."""

    context: dict[str, Any] = msgspec.field(name="@context")
    terms: list[Term]
    total: int


class Events(msgspec.Struct, kw_only=True):
    """Events of a run after a cursor. `next` is the cursor for the next request; `more`: there are more already."""

    events: list[Any]
    next: str
    more: bool
    status: str


class LineageGraph(msgspec.Struct, kw_only=True):
    """What a thing came from, or what came of it."""

    subject: str
    forward: bool
    items: list[Any]
    steps: list[Any]
    runs: list[Any]
    used: list[Any]
    generated: list[Any]
    informed: list[Any]
    omitted_steps: int
    omitted_runs: int


class Status(msgspec.Struct, kw_only=True):
    """The service and its home."""

    version: str
    runs: int
    triples: int
    position: str
    read_only: bool
    access: str
    refused: list[Refusal]
    """Requests of recording clients that were refused, the latest first."""


def run_of(info: RunInfo, children: list[str], base: str) -> Run:
    """Return the description of a run."""
    url = f"{base}/api/v1/runs/{info.id}"
    parts = ("stages", "hyperparameters", "epochs", "measures", "adaptations", "layers", "datasets", "models")
    more = ("environment", "artifacts", "lineage", "validation", "graph", "events")
    return Run(
        context=RUN_CONTEXT,
        iri=str(info.iri),
        type=RUN_TYPE,
        id=info.id,
        name=info.name,
        experiment=info.experiment,
        model=info.model,
        status=info.status,
        started=info.started,
        seconds=info.seconds,
        error=info.error,
        writers=info.writers,
        events=info.events,
        capture_errors=info.capture_errors.count,
        tags=list(info.tags),
        notes=[Note(text=note.text, by=note.by, time=note.added) for note in info.notes],
        parent=info.parent,
        children=children,
        links={"self": url, **{part: f"{url}/{part}" for part in (*parts, *more)}},
    )
