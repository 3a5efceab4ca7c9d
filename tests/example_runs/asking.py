"""The graph of example runs, and queries on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyoxigraph as ox

from provml import rdf
from provml.catalog import Catalog, rewrite
from provml.store.index import Index
from provml.store.sync import sync

CATALOG = Catalog()
Row = tuple[Any, ...]


class ExampleGraph:
    """The journals of a home, indexed in memory."""

    def __init__(self, home: Path, *graphs: Path) -> None:
        self.index = Index(home, None)
        for path in graphs:
            self.index.backend.load(path.read_bytes(), ox.RdfFormat.TURTLE)
        self.sync()

    def sync(self) -> None:
        """Index what is new; there must be no problems."""
        sync(self.index)
        assert not self.index.problems()

    def ask(self, name: str, **values: Any) -> tuple[list[str], list[Row]]:
        """Return the columns and rows of a question's answer; its plain text and the rewritten text have the same."""
        plain = CATALOG[name].bind(values)
        columns, rows = self.query(rewrite(plain))
        assert (columns, list(map(str, rows))) == ((answer := self.query(plain))[0], list(map(str, answer[1])))
        return columns, rows

    def query(self, sparql: str) -> tuple[list[str], list[Row]]:
        """Return the columns and rows of a SELECT query."""
        answer = self.index.backend.graph().query(sparql)
        assert isinstance(answer, ox.QuerySolutions)
        columns = [variable.value for variable in answer.variables]
        return columns, [tuple(None if node is None else rdf.value(node) for node in row) for row in answer]

    def rows(self, name: str, *columns: str, **values: Any) -> list[Row]:
        """Return the rows of an answer, with some columns only."""
        names, rows = self.ask(name, **values)
        indexes = [names.index(column) for column in columns] if columns else range(len(names))
        return [tuple(row[index] for index in indexes) for row in rows]
