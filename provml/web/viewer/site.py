"""The pages as files: a site of one run or of a whole home, which needs no server and no network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from starlette.datastructures import QueryParams

from provml.errors import FileFormatError
from provml.store import RunInfo, Store
from provml.web.viewer import (
    compare_page,
    dataflow_page,
    node_page,
    ontology_page,
    questions_page,
    run_page,
    runs_page,
    things_page,
    validation_page,
)
from provml.web.viewer.links import RUN_TABS, FileLinks
from provml.web.viewer.render import STATIC_FILES, render, static_file
from provml.web.viewer.viewer import Page, Viewer, run_of

NO_PARAMS = QueryParams("")
MAX_NODES = 5000
"""Nodes other than runs that have a page; of more, the first by IRI."""
KINDS = ("provlake:DataTransformationExecution", "provlake:DataReference", "provml:Model", "prov:Agent", "prov:Plan")
SITE_NODES = f"""SELECT DISTINCT ?node {{
  VALUES ?kind {{ {" ".join(KINDS)} }} ?node a ?kind FILTER NOT EXISTS {{ ?node provml:wasSectionOf ?stage }}
}}"""
"""Steps, data, models, people and plans; epochs and batches are on the pages of their runs."""


class SiteViewer(Viewer):
    """A viewer of some runs whose pages are files."""

    def __init__(self, store: Store, infos: Sequence[RunInfo], links: FileLinks) -> None:
        super().__init__(store, links)
        self.infos = list(infos)
        self._ids = {info.id for info in infos}
        self._shows_all = len(self._ids) == len(store.runs())

    @property
    def shows_all(self) -> bool:
        """True if the site is about all runs of the home."""
        return self._shows_all

    def runs(self) -> list[RunInfo]:
        """Return the runs of the site."""
        return self.infos

    def latest_ids(self, limit: int) -> list[str]:
        """Return the ids of the latest runs of the site."""
        return [info.id for info in self.infos[:limit]]

    def shows(self, run_id: str) -> bool:
        """True if a run is a part of the site."""
        return run_id in self._ids


def write_site(
    store: Store,
    folder: Path,
    runs: Sequence[RunInfo] | None = None,
    *,
    validate: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the pages of some runs, or of all (None), into a new or empty folder; return the number of pages.

    The folder appears when everything is written. Without `validate`, the pages about validation are left out.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileFormatError("the folder exists and is not empty", "Pass a new folder.", file=str(folder))
    infos = store.runs() if runs is None else list(runs)
    pages = tuple(name for name in FileLinks.PAGES if validate or name != "validation")
    links = FileLinks([info.id for info in infos], pages=pages, tabs=_tabs(validate=validate))
    viewer = SiteViewer(store, infos, links)
    links.nodes, links.terms = _nodes(viewer), frozenset(ontology_page.used_terms(viewer))
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "static").mkdir(parents=True)
    try:
        for name in STATIC_FILES:
            (part / "static" / name).write_bytes(static_file(name).content)
        count = 0
        for file, active, page in _pages(viewer, links):
            (part / file).write_text(render(page(), links, active=active), encoding="utf-8")
            count += 1
            if progress is not None:
                progress(count, len(infos))
        if folder.is_dir():
            folder.rmdir()
        part.rename(folder)
    finally:
        viewer.close()
        shutil.rmtree(part, ignore_errors=True)
    return count


def _tabs(*, validate: bool) -> tuple[str, ...]:
    return tuple(tab for tab in RUN_TABS if validate or tab != "validation")


def _pages(viewer: SiteViewer, links: FileLinks) -> Iterator[tuple[str, str, Callable[[], Page]]]:
    """Yield the file, the place in the navigation and the page, of all pages."""
    functions: dict[str, Callable[[Viewer, QueryParams], Page]] = {
        "": runs_page.runs,
        "models": things_page.models,
        "data": things_page.data,
        "dataflow": dataflow_page.dataflow,
        "validation": validation_page.validation,
        "questions": questions_page.questions,
        "ontology": ontology_page.ontology,
    }
    for name in links.pages:
        yield links.page(name), name, lambda name=name: functions[name](viewer, NO_PARAMS)  # type: ignore[misc]
    ids = [info.id for info in viewer.infos]
    if links.compare(ids):
        params = QueryParams([("r", run_id) for run_id in ids])
        yield links.compare(ids), "", lambda: compare_page.compare(viewer, params)
    for info in viewer.infos:
        yield links.run(info.id), "", lambda info=info: run_page.run(viewer, NO_PARAMS, info.id)  # type: ignore[misc]
        for tab in links.tabs:
            yield links.run(info.id, tab), "", lambda info=info, tab=tab: _part(viewer, info, tab)  # type: ignore[misc]
    for name in viewer.store.catalog:
        yield links.question(name), "questions", lambda name=name: _question(viewer, name)  # type: ignore[misc]
    for name in sorted(links.terms):
        yield links.term(name), "ontology", lambda name=name: ontology_page.term(viewer, NO_PARAMS, name)  # type: ignore[misc]
    for iri in sorted(links.nodes):
        yield links.node(iri), "", lambda iri=iri: node_page.node(viewer, QueryParams({"iri": iri}))  # type: ignore[misc]


def _nodes(viewer: SiteViewer) -> frozenset[str]:
    """Return the nodes other than runs that have a page: those of the runs, and those that belong to no run."""
    nodes = {node for (node,) in viewer.select(SITE_NODES) if viewer.shows_node(node)}
    if not viewer.shows_all:
        nodes = {node for node in nodes if run_of(node)}
    return frozenset(sorted(map(str, nodes))[:MAX_NODES])


def _part(viewer: Viewer, info: RunInfo, tab: str) -> Page:
    page = run_page.run_part(viewer, NO_PARAMS, info.id, tab)
    assert isinstance(page, Page)
    return page


def _question(viewer: Viewer, name: str) -> Page:
    page = questions_page.question(viewer, NO_PARAMS, name)
    assert isinstance(page, Page)
    return page
