"""IRIs, minted locally (from a run's id and a path, from content for data), and times."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from provml.run import BASE as RUNS
from provml.values import IRI

BASE = "https://w3id.org/provml/"


def slug(text: str) -> str:
    """Text as one segment of an IRI; `~` and `@` stay free, to tell apart what has the same name."""
    text = text.strip()
    if text.isalnum() and text.isascii():
        return text
    return quote(text, safe="-._").replace("~", "%7E") or "unnamed"


def run(run_id: str) -> IRI:
    """The IRI of a run."""
    return IRI(f"{RUNS}{slug(run_id)}")


def plan(experiment: str, *parts: str) -> IRI:
    """The IRI of something on the prospective side of an experiment."""
    return IRI("/".join([f"{BASE}plan/{slug(experiment)}", *map(slug, parts)]))


def shared(kind: str, *parts: str) -> IRI:
    """The IRI of something that all runs share: a machine, a piece of software, a persona, a role."""
    return IRI("/".join([f"{BASE}{kind}", *map(slug, parts)]))


def data(run_iri: str, ref: str, own: str = "") -> IRI:
    """The IRI of data: by its content where that is known, else by the run's own name for it."""
    if ref.startswith("sha256:"):
        return IRI(f"urn:{ref}")
    return IRI(f"{run_iri}/data/{slug(ref)}{own}")


def moment(seconds: float) -> datetime:
    """A time of a journal as a datetime."""
    return datetime.fromtimestamp(seconds, UTC)
