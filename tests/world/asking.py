"""A world as a graph, and questions to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyoxigraph as ox

from provml import rdf
from provml.catalog import Catalog
from provml.store.index import Index

CATALOG = Catalog()
Row = tuple[Any, ...]


class World:
    """The journals of a home, lifted into a store in memory."""

    def __init__(self, home: Path, *graphs: Path) -> None:
        self.index = Index(home, None)
        for path in graphs:
            self.index.store.load(path=str(path), format=ox.RdfFormat.TURTLE)
        self.sync()

    def sync(self) -> None:
        """Take in what is new; nothing of it may be refused."""
        self.index.sync()
        problems = [problem for journal in self.index.progress.journals.values() for problem in journal.problems]
        assert not problems, problems

    def ask(self, name: str, **values: Any) -> tuple[list[str], list[Row]]:
        """The columns and rows of an answer."""
        return self.query(CATALOG[name].bind(values))

    def query(self, sparql: str) -> tuple[list[str], list[Row]]:
        """The columns and rows of a SELECT."""
        answer = self.index.store.query(sparql)
        assert isinstance(answer, ox.QuerySolutions)
        columns = [variable.value for variable in answer.variables]
        return columns, [tuple(None if node is None else rdf.value(node) for node in row) for row in answer]

    def rows(self, name: str, *columns: str, **values: Any) -> list[Row]:
        """The rows of an answer, of these columns only."""
        heads, rows = self.ask(name, **values)
        places = [heads.index(column) for column in columns] if columns else range(len(heads))
        return [tuple(row[place] for place in places) for row in rows]
