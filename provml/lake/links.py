"""The closed relation `lineage`: what is behind data, steps and evaluations, over all runs of a lake.

The links are those that the index derives (`provml.store.links`), and the paths are those that questions follow. They
are closed when they are written, since not every engine has recursive SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Links = dict[str, set[str]]
_RANK_SUFFIX = re.compile(r"(.+)@\d+(\.\d+)?")
"""How the IRI of a stage ends in the journal of a rank other than the first."""


class Lineage(NamedTuple):
    """A row of the table `lineage`."""

    kind: str
    ref: str
    behind: str
    direct: bool


class LineageSource:
    """The rows of all runs that links follow from: flows, data and stages."""

    def __init__(self) -> None:
        self.generated_by: Links = {}
        self.used: Links = {}
        self.stage: dict[str, str] = {}
        self.contents: Links = {}
        self.specializations: Links = {}
        self.alternates: Links = {}
        self.models: set[str] = set()
        self.trainings: set[str] = set()
        self.evaluations: set[str] = set()
        self.members: Links = {}
        self.run_of: dict[str, str] = {}
        self.by_relation: dict[str, Links] = {"learned": {}, "tested": {}, "evaluated": {}}

    def add_flows(self, rows: Iterable[tuple[str, str, str, str]]) -> None:
        """Add flows: section, stage, data, relation."""
        for section, stage, data, relation in rows:
            self.stage[section] = stage
            if relation == "produced":
                self.generated_by.setdefault(data, set()).add(section)
            elif relation == "used":
                self.used.setdefault(section, set()).add(data)
            else:
                self.by_relation[relation].setdefault(section, set()).add(data)

    def add_data(self, rows: Iterable[tuple[str, str, str | None, str | None]]) -> None:
        """Add data: its IRI, kind, content and alternate."""
        for data, kind, content, alternate in rows:
            if kind == "model":
                self.models.add(data)
            if content is not None:
                self.contents.setdefault(data, set()).add(content)
                self.specializations.setdefault(content, set()).add(data)
            for other in (content, alternate):  # a specialization is an alternate too
                if other is not None:
                    self.alternates.setdefault(other, set()).add(data)

    def add_stages(self, rows: Iterable[tuple[str, str, str | None]]) -> None:
        """Add stages and steps: run, IRI, kind."""
        for run, stage, kind in rows:
            self.run_of[stage] = run
            self.members.setdefault(run, set()).add(stage)
            if kind == "training":
                self.trainings.add(stage)
            elif kind == "evaluation":
                self.evaluations.add(stage)

    # ---- links

    def lineage(self) -> list[Lineage]:
        """Return the closed relation, sorted."""
        built_on = self._built_on()
        rows = [*self._closed_steps(built_on), *self._made_by(), *self._origins()]
        rows += [
            Lineage("evaluated", test, stage, True) for test in self.evaluations for stage in self._trainings(test)
        ]
        return sorted(rows)

    def _built_on(self) -> Links:
        """Return the steps whose products a step used, or whose products have the same content."""
        built_on: Links = {}
        for section, entities in self.used.items():
            stage = self.stage[section]
            makers = {self._whole(maker) for entity in entities for maker in self._makers(entity)} - {stage}
            if makers:
                built_on.setdefault(stage, set()).update(makers)
        return built_on

    def _makers(self, entity: str) -> set[str]:
        nodes = {entity, *self.specializations.get(entity, ()), *self.alternates.get(entity, ())}
        return {maker for node in nodes for maker in self.generated_by.get(node, ())}

    def _whole(self, activity: str) -> str:
        return self.stage.get(activity, activity)

    @staticmethod
    def _closed_steps(built_on: Links) -> Iterable[Lineage]:
        for step, before in built_on.items():
            for behind in reachable(before, lambda node: built_on.get(node, ())):
                yield Lineage("built_on", step, behind, behind in before)

    def _made_by(self) -> Iterable[Lineage]:
        """Yield, for data that was used, the steps and sections behind it."""

        def behind(node: str) -> Iterable[str]:
            if node in self.used:
                return self.used[node]
            return [*self.generated_by.get(node, ()), *self.specializations.get(node, ())]

        for data in {entity for entities in self.used.values() for entity in entities}:
            makers = self.generated_by.get(data, set())
            for node in reachable(behind(data), behind):
                if node in self.stage:
                    yield Lineage("made_by", data, node, node in makers)

    def _origins(self) -> Iterable[Lineage]:
        """Yield, for the contents of test data, the data behind it that a training learned from."""

        def behind(node: str) -> Iterable[str]:
            if node in self.stage:
                return [self.stage[node], *self.used.get(node, ())]
            links = (self.generated_by, self.specializations, self.contents)
            return [other for link in links for other in link.get(node, ())]

        learned = {data for entities in self.by_relation["learned"].values() for data in entities}
        tested = {data for entities in self.by_relation["tested"].values() for data in entities}
        for content in tested.union(*(self.contents.get(data, ()) for data in tested)):
            start = {content, *self.specializations.get(content, ())}
            for node in reachable(start, behind) & learned:
                yield Lineage("origin", content, node, node == content)

    # ---- evaluations

    def _trainings(self, test: str) -> set[str]:
        """Return the trainings that made what an evaluation measured: by model, else by file, else by run."""
        evaluated = self.by_relation["evaluated"].get(test, set())
        makers = {self._whole(maker) for model in evaluated for maker in self.generated_by.get(model, ())}
        if not makers:
            contents = self.used.get(test, ())
            models = {file for content in contents for file in self.alternates.get(content, ())} & self.models
            makers = {self._whole(maker) for model in models for maker in self.generated_by.get(model, ())}
            if not models and not evaluated:
                makers = self.members.get(self.run_of[test], set())
        return {self._first_rank(maker) for maker in makers & self.trainings}

    def _first_rank(self, training: str) -> str:
        """Return the training that a further rank of it, such as `training@1`, is a part of."""
        match = _RANK_SUFFIX.fullmatch(training)
        firsts = [match[1], f"{match[1]}@0"] if match is not None else []  # of a parent process, or of rank 0
        if match is not None and match[2]:  # of rank 0 of this launch first
            firsts.insert(0, f"{match[1]}@0{match[2]}")
        return next((node for node in firsts if node in self.trainings), training)


def reachable(start: Iterable[str], links: Callable[[str], Iterable[str]]) -> set[str]:
    """Return the start and all nodes that links lead to."""
    nodes = set(start)
    pending = list(nodes)
    while pending:
        new = set(links(pending.pop())) - nodes
        nodes |= new
        pending += new
    return nodes


def as_columns(rows: list[Lineage]) -> dict[str, list[Any]]:
    """Return rows as columns."""
    return {name: [row[index] for row in rows] for index, name in enumerate(Lineage._fields)}
