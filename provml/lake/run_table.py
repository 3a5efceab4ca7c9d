"""The table of runs of a lake, with the rows and columns of the store's: the same rules over rows of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from provml.answers import Answer
from provml.journal.capture_errors import ErrorSummary
from provml.lake.names import Select
from provml.lake.values import from_columns
from provml.store import leakage
from provml.store import run_table as store_table
from provml.store.run_info import RunInfo
from provml.store.run_table import Row, natural_key

EPOCH = datetime.fromtimestamp(0, UTC)
RUNS = """SELECT run, name, model, status, unix_micros(started) AS started, seconds, error, writers, events, experiment,
  tags, parent, capture_errors, lost_batches
FROM runs ORDER BY started DESC NULLS LAST, run DESC"""
STAGES = """SELECT s.kind, s.section, r.iri, unix_micros(s.started) AS started
FROM sections s JOIN runs r ON r.run = s.run
WHERE s.section = s.stage AND s.kind IN ('training', 'validation', 'evaluation')"""
_LATEST = """SELECT stage, section, node, name, number, text, type FROM (
  SELECT *, row_number() OVER (PARTITION BY stage, name ORDER BY idx DESC, node DESC) AS place
  FROM measures WHERE idx IS NOT NULL
) ranked WHERE place = 1"""
VALUES = {
    store_table.HYPERPARAMETERS: """SELECT p.section, p.node, p.name, p.number, p.text, p.type
FROM settings p JOIN sections t ON t.section = p.section
WHERE p.relation = 'used' AND p.kind = 'hyperparameter' AND NOT p.layer AND t.kind = 'training'""",
    store_table.LATEST: f"SELECT stage, node, name, number, text, type FROM ({_LATEST}) latest",
    store_table.OF_STAGES: """SELECT m.stage, m.node, m.name, m.number, m.text, m.type
FROM measures m JOIN sections s ON s.section = m.section
WHERE m.section = m.stage AND s.kind IN ('training', 'validation', 'evaluation')""",
}
LINKS = {
    store_table.EVALUATED: "SELECT ref, behind FROM lineage WHERE kind = 'evaluated'",
    store_table.VALIDATED: f"""SELECT v.stage, e.stage AS training
FROM ({_LATEST}) latest
JOIN sections v ON v.section = latest.section
JOIN sections e ON e.section = v.validates
WHERE v.kind = 'validation' AND e.kind = 'training'
UNION
SELECT l.ref, l.behind
FROM lineage l
JOIN sections v ON v.section = l.ref
JOIN sections t ON t.section = l.behind
WHERE l.kind = 'built_on' AND l.direct AND v.kind = 'validation' AND t.kind = 'training'""",
}
CONSUMPTION = "SELECT section, node, name, number, text, type FROM consumption WHERE component IS NULL"

LEAKAGE = {
    leakage.EVALUATED: LINKS[store_table.EVALUATED],
    leakage.TESTED: "SELECT section, data FROM flows WHERE relation = 'tested'",
    leakage.CONTENTS: "SELECT DISTINCT data, content FROM data WHERE content IS NOT NULL",
    leakage.ALTERNATES: """SELECT data, alternate FROM data WHERE alternate IS NOT NULL
UNION SELECT data, content FROM data WHERE content IS NOT NULL""",
    leakage.LEARNED: "SELECT section, data FROM flows WHERE relation = 'learned'",
    leakage.TESTED_BY_TRAININGS: """SELECT f.stage, f.data FROM flows f JOIN sections t ON t.section = f.stage
WHERE f.role = 'test' AND t.kind = 'training'""",
    leakage.RESERVED: """SELECT f.section, f.data FROM flows f JOIN sections t ON t.section = f.section
WHERE f.role IN ('validation', 'test') AND t.kind = 'training' AND t.section = t.stage""",
    leakage.USED_BY_TRAININGS: """SELECT f.section, f.data FROM flows f JOIN sections t ON t.section = f.section
WHERE f.relation = 'used' AND t.kind = 'training' AND t.section = t.stage""",
    leakage.USED_BY_STEPS: """SELECT f.section, f.data FROM flows f JOIN sections s ON s.section = f.section
WHERE f.relation = 'used' AND s.model IS NULL""",
    leakage.GENERATED: "SELECT data, section, stage FROM flows WHERE relation = 'produced'",
    leakage.BUILT_ON: "SELECT ref, behind FROM lineage WHERE kind = 'built_on' AND direct",
}
"""The SQL of each query of the store's check for leakage."""


class _Node(NamedTuple):
    value: str


class _LakeLoader(store_table._Loader):
    """The store's reading of all runs, with SQL for its queries."""

    def __init__(self, infos: list[RunInfo], select: Select) -> None:
        self._rows = select
        super().__init__(infos, None)  # type: ignore[arg-type]  # every use of the engine is replaced below

    def _load_stages(self) -> None:
        for kind, stage, run, started in self._rows(STAGES, {}):
            self.stages[stage] = (kind, run, "" if started is None else f"{started:020}")
            self.by_run.setdefault(run, {}).setdefault(kind, []).append(stage)

    def _values(self, sparql: str, *, first: bool = False) -> dict[str, Row]:
        values: dict[str, dict[str, tuple[str, Any]]] = {}
        for stage, node, name, *cells in self._rows(VALUES[sparql], {}):
            by_name = values.setdefault(stage, {})
            old = by_name.get(name)
            if old is None or (natural_key(node) < natural_key(old[0])) is first:
                by_name[name] = node, from_columns(*cells)
        return {stage: {name: value for name, (_, value) in row.items()} for stage, row in values.items()}

    def _links_of_trainings(self, sparql: str) -> Iterator[tuple[Any, ...]]:
        return ((_Node(stage), _Node(training)) for stage, training in self._rows(LINKS[sparql], {}))

    def _amounts(self) -> Iterator[tuple[str, str, str, float]]:
        return ((stage, node, name, from_columns(*cells)) for stage, node, name, *cells in self._rows(CONSUMPTION, {}))

    def _leaking(self) -> set[str]:
        return leakage.leaking_trainings(
            lambda sparql: (tuple(map(_Node, row)) for row in self._rows(LEAKAGE[sparql], {}))
        )


def run_table(select: Select) -> Answer:
    """Return the table of runs; `select` executes SQL."""
    return _LakeLoader([_info(*row) for row in select(RUNS, {})], select).table().answer()


def _info(
    run: str, name: str, model: str, status: str, started: int | None, *rest: Any
) -> RunInfo:  # the order of RUNS
    seconds, error, writers, events, experiment, tags, parent, count, lost = rest
    return RunInfo(
        id=run,
        name=name,
        model=model,
        status=status,
        started=EPOCH + timedelta(microseconds=started or 0),
        seconds=seconds,
        error=error,
        writers=writers,
        events=events,
        experiment=experiment,
        tags=tuple(tags.split(", ")) if tags else (),
        parent=parent,
        capture_errors=ErrorSummary(count=count, lost_batches=lost),
    )
