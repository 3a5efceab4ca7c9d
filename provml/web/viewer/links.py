"""Addresses of pages: paths of the service, or files of a static site."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from urllib.parse import quote, urlencode

from provml.rdf.namespaces import NODES

RUN_TABS = ("epochs", "layers", "environment", "lineage", "validation", "artifacts", "rdf")
"""Parts of the page of a run that have an address of their own."""
MAX_COMPARED = 12
"""Runs that can be compared; more curves could not be told apart."""
EXAMPLE_ORIGIN = "http://127.0.0.1:8420"
"""Stands in texts for the address of the service; a page that a service sends has its own."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class Links:
    """Addresses of the pages of a service."""

    is_static = False

    def page(self, name: str, **params: object) -> str:
        """Return the address of a page, with parameters that are neither None nor empty."""
        return with_query(f"/{name}", params)

    def static(self, name: str, version: str) -> str:
        """Return the address of a static file; the version lets browsers keep it."""
        return f"/static/{name}?v={version}"

    def run(self, run_id: str, tab: str = "", **params: object) -> str:
        """Return the address of a run, or of a part of its page."""
        path = f"/runs/{quote(run_id, safe='')}"
        return with_query(f"{path}/{tab}" if tab else path, params)

    def compare(self, run_ids: Iterable[str]) -> str:
        """Return the address of a comparison."""
        return f"/compare?{urlencode([('r', run) for run in run_ids])}"

    def node(self, iri: str, fmt: str = "") -> str:
        """Return the address of any node, as a page or in a format of RDF."""
        return with_query("/nodes", {"iri": iri, "format": fmt})

    def term(self, name: str) -> str:
        """Return the address of a class or a property by its prefixed name."""
        return f"/ontology/{quote(name, safe=':')}"

    def question(self, name: str, **params: object) -> str:
        """Return the address of a question."""
        return with_query(f"/questions/{quote(name, safe='')}", params)

    def lineage(self, subject: str, *, forward: bool = False, fmt: str = "", opened: Iterable[str] = ()) -> str:
        """Return the address of a lineage; `opened` are folded nodes whose parts it shows."""
        direction = "forward" if forward else ""
        return with_query("/lineage", {"of": subject, "dir": direction, "open": list(opened), "format": fmt})


class FileLinks(Links):
    """Addresses of the files of a static site: all in one folder, relative. An empty address means no link."""

    is_static = True
    PAGES = ("", "models", "data", "dataflow", "validation", "questions", "ontology")

    def __init__(
        self, run_ids: Iterable[str], pages: tuple[str, ...] = PAGES, tabs: tuple[str, ...] = RUN_TABS
    ) -> None:
        self.run_ids = frozenset(run_ids)
        self.pages = pages
        self.tabs = tabs
        self.nodes: frozenset[str] = frozenset()
        """Nodes other than runs that have a page."""
        self.terms: frozenset[str] = frozenset()
        """Classes and properties that have a page, by their prefixed names."""

    def page(self, name: str, **params: object) -> str:
        """Return the file of a page; pages that answer to parameters exist without them only."""
        return f"{name or 'index'}.html" if name in self.pages and not _query(params) else ""

    def static(self, name: str, version: str) -> str:
        """Return a static file."""
        return f"static/{name}"

    def run(self, run_id: str, tab: str = "", **params: object) -> str:
        """Return the file of a run, or of a part of its page."""
        if run_id not in self.run_ids or _query(params) or (tab and tab not in self.tabs):
            return ""
        return f"run-{_file_name(run_id)}{'-' if tab else ''}{tab}.html"

    def compare(self, run_ids: Iterable[str]) -> str:
        """Return the file that compares all runs of the site; others are compared by the service."""
        ids = set(run_ids)
        return "compare.html" if ids == self.run_ids and 2 <= len(ids) <= MAX_COMPARED else ""

    def node(self, iri: str, fmt: str = "") -> str:
        """Return the file of a run or of another node that has one, as a page only."""
        run_id = iri.removeprefix(f"{NODES}run/")
        page = "" if fmt or run_id == iri else self.run(run_id)
        return page or (f"node-{sha256(iri.encode()).hexdigest()[:20]}.html" if iri in self.nodes and not fmt else "")

    def term(self, name: str) -> str:
        """Return the file of a class or a property that occurs in the runs."""
        return f"term-{_file_name(name)}.html" if name in self.terms else ""

    def question(self, name: str, **params: object) -> str:
        """Return the file of a question without parameters."""
        return "" if _query(params) else f"question-{_file_name(name)}.html"

    def lineage(self, subject: str, *, forward: bool = False, fmt: str = "", opened: Iterable[str] = ()) -> str:
        """Return the lineage of a run, which is a part of its page."""
        return "" if forward or fmt or list(opened) else self.run(subject, "lineage")


def _query(params: dict[str, object]) -> str:
    return urlencode({name: value for name, value in params.items() if value not in (None, "", False, [])}, doseq=True)


def with_query(path: str, params: dict[str, object]) -> str:
    """Return a path with the parameters that are neither None, False nor empty."""
    query = _query(params)
    return f"{path}?{query}" if query else path


def _file_name(text: str) -> str:
    """Return text as a part of a file name; different texts give different names."""
    return _UNSAFE.sub(lambda match: f"~{ord(match[0]):x}~", text)
