"""A world as a graph, and questions to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyoxigraph as ox

from provml import rdf
from provml.catalog import Catalog
from provml.lift import name
from provml.store.index import Index

CATALOG = Catalog()
Row = tuple[Any, ...]
AIM = """
PREFIX provml: <https://w3id.org/provml#>
PREFIX prov: <http://www.w3.org/ns/prov#>
INSERT { $run provml:aimedAtModel $model . ?stage provml:aimedAtModel $model }
WHERE {
  OPTIONAL {
    ?stage <https://w3id.org/provlake#wasMemberOfWorkflowExecution> $run ; a provml:LearningStageExecution
  }
} ;
INSERT { ?training prov:used ?network }
WHERE { ?network a provml:ModelSchemaValue BIND(IRI(REPLACE(STR(?network), "/network$", "")) AS ?training) }
"""


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
        self._aim()

    def _aim(self) -> None:
        """Until lifting says which model a run aims at, and that a training used its network: say it here."""
        store = self.index.store
        if bool(store.query("ASK { ?run <https://w3id.org/provml#aimedAtModel> ?model }")):
            return
        for journal in self.index.progress.journals.values():
            state = journal.state
            assert state.first is not None
            run, model = name.run(state.first.run), name.plan(state.experiment, "model", state.model)
            store.update(AIM.replace("$run", f"<{run}>").replace("$model", f"<{model}>"))

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
