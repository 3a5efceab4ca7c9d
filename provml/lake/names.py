"""Names of runs, models, datasets and measures in a lake.

The store's lookups ask SPARQL; this object answers the few queries that they have by SQL, so that a name means the same
in both and a wrong one gives the same error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from provml.answers import Answer
from provml.journal.run_files import resolve_run_id
from provml.mapping import iris
from provml.model.values import IRI
from provml.store import name_lookup
from provml.store.dialects import Dialect

Select = Callable[[str, Mapping[str, Any]], list[tuple[Any, ...]]]
_NAMED = "SELECT DISTINCT name FROM {} WHERE name IS NOT NULL"
NAMES = {
    name_lookup.NAME_QUERIES["model"]: """SELECT DISTINCT model FROM sections WHERE model IS NOT NULL
        UNION SELECT DISTINCT model FROM runs WHERE model IS NOT NULL""",
    name_lookup.NAME_QUERIES["measure"]: " UNION ".join(
        _NAMED.format(table) for table in ("measures", "summaries", "batch_measures")
    ),
}
DATASETS = """
SELECT DISTINCT data, name, sha256 AS other FROM data WHERE kind = 'dataset' AND content IS NULL AND name IS NOT NULL
UNION
SELECT DISTINCT data, name, path FROM data WHERE kind = 'dataset' AND content IS NULL AND name IS NOT NULL
ORDER BY data, name, other"""
CONTENTS = """SELECT DISTINCT data FROM data
WHERE kind = 'dataset' AND content IS NULL AND substr(sha256, 1, length(:digits)) = :digits"""
RUNS_OF_DATA = """SELECT DISTINCT r.iri FROM runs r JOIN flows f ON f.run = r.run
WHERE f.data = :node OR f.data IN (SELECT data FROM data WHERE content = :node) ORDER BY r.iri LIMIT 3"""
HAS_NODE = """SELECT 1 WHERE EXISTS (SELECT 1 FROM runs WHERE iri = :node)
  OR EXISTS (SELECT 1 FROM sections WHERE section = :node) OR EXISTS (SELECT 1 FROM data WHERE data = :node)"""
_IRI = re.compile(r"<([^<>]+)>")
_DIGITS = re.compile(r'STRSTARTS\(\?digest, "([0-9a-f]+)"\)')


class _Unchanged(NamedTuple):
    """What the lookups of the store use of an engine."""

    dialect: Dialect


class FoundRun(NamedTuple):
    """A run of a lake."""

    id: str
    iri: IRI


class LakeNames:
    """What the lookups of the store need, from a lake. `select` executes SQL and returns rows."""

    def __init__(self, select: Select, *, opens_files: bool = True) -> None:
        self._select = select
        self.opens_files = opens_files

    @property
    def backend(self) -> Any:
        """An engine that leaves queries as they are: `_answer` recognizes them by their text."""
        return _Unchanged(Dialect("lake", "a lake"))

    def stream(self, sparql: str, *, sync: bool = True) -> Any:
        """No lookup that a lake supports needs a stream."""
        raise NotImplementedError

    def _answer(
        self, sparql: str, *, sync: bool = True, timeout: float | None = None, service: bool = False
    ) -> Answer | bool:
        """Answer a query of a lookup by SQL."""
        if sparql.startswith("ASK"):
            match = _IRI.search(sparql)
            return bool(match and self._select(HAS_NODE, {"node": match[1]}))
        if sparql in NAMES:
            return Answer(["name"], self._select(NAMES[sparql], {}))
        if sparql == name_lookup.DATASETS:
            rows = [(IRI(data), name, other) for data, name, other in self._select(DATASETS, {})]
            return Answer(["node", "name", "other"], rows)
        if digits := _DIGITS.search(sparql):
            return Answer(["node"], [(IRI(data),) for (data,) in self._select(CONTENTS, {"digits": digits[1]})])
        match = _IRI.search(sparql)
        runs = self._select(RUNS_OF_DATA, {"node": match[1] if match else ""})
        return Answer(["run"], [(IRI(run),) for (run,) in runs])

    def run(self, run_id: str) -> Any:
        """Find a run by id, name, a unique start or end of its id, IRI, or as `latest`."""
        rows = self._select("SELECT run, name FROM runs ORDER BY started DESC NULLS LAST, run DESC", {})
        names: dict[str, str] = dict(rows)
        resolved = resolve_run_id(run_id, list(names), lambda: next(iter(names)), lambda: names)
        return FoundRun(resolved, iris.run_iri(resolved))
