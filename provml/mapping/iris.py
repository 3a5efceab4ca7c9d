"""IRIs, minted locally from a run's id and a location, or from the content of data; and times."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote

from provml.journal.events import OTHER_RUN, SHARED_NAME
from provml.model.values import IRI
from provml.rdf.namespaces import NODES, RUNS

MAX_NAME = 4096
"""Characters of a name in an IRI; of a longer name, an IRI has the start and the digest."""
MAX_CACHED = 200
"""Characters of a name whose segment is remembered: few names occur in most events."""

to_iri = lru_cache(4096)(IRI)
"""`IRI`, for texts that are built again for each event of a section."""


def quote_segment(text: str) -> str:
    """Return text as one segment of an IRI; `~` and `@` stay free for suffixes that make names unique."""
    return _quote(text) if len(text) > MAX_CACHED else _quote_cached(text)


def _quote(text: str) -> str:
    text = text.strip()
    if len(text) > MAX_NAME:
        text = f"{text[:MAX_NAME]}...{hashlib.sha256(text.encode()).hexdigest()}"
    if text.isalnum() and text.isascii():
        return text
    return quote(text, safe="-._").replace("~", "%7E") or "unnamed"


_quote_cached = lru_cache(4096)(_quote)


def run_iri(run_id: str) -> IRI:
    """Return the IRI of a run."""
    return IRI(f"{RUNS}{quote_segment(run_id)}")


def plan_iri(experiment: str, *parts: str) -> IRI:
    """Return the IRI of a node on the prospective side of an experiment."""
    return _nodes_iri("plan", experiment, *parts)


def shared_iri(kind: str, *parts: str) -> IRI:
    """Return the IRI of a node that all runs share: a machine, a piece of software, a persona, a role."""
    return _nodes_iri(kind, *parts)


@lru_cache(4096)
def _nodes_iri(kind: str, *parts: str) -> IRI:
    return IRI("/".join([f"{NODES}{kind}", *map(quote_segment, parts)]))


def data_iri(run: str, ref: str, suffix: str = "") -> IRI:
    """Return the IRI of data: by its content if the reference is a digest, else by its run's own name for it.

    A reference `run:ID/REF` means data that another run has named, `name:NAME` data that all runs call so.
    """
    if ref.startswith("sha256:"):
        return IRI(f"urn:{ref}")
    if ref.startswith(SHARED_NAME):
        return shared_iri("data", ref.removeprefix(SHARED_NAME))
    if ref.startswith(OTHER_RUN):
        run_id, _, name = ref.removeprefix(OTHER_RUN).partition("/")
        return IRI(f"{run_iri(run_id)}/data/{quote_segment(name)}")
    return IRI(f"{run}/data/{quote_segment(ref)}{suffix}")


def to_datetime(seconds: float) -> datetime:
    """Return a time of a journal (seconds since 1970) as a datetime in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
