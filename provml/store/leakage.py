"""The trainings of all runs that learned from data on which their model was evaluated.

The question `leakage` lists each case with its path. This is the same check for a table of many runs, in time that
grows with the runs and not with the pairs of runs that share data: the links are read once and followed from each
training.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

Select = Callable[[str], Iterable[tuple[Any, ...]]]
Links = dict[str, set[str]]

EVALUATED = "SELECT ?evaluation ?training WHERE { ?evaluation provml:evaluatedTraining ?training }"
TESTED = "SELECT ?evaluation ?data WHERE { ?evaluation provml:evaluatedOn ?data }"
LEARNED = "SELECT ?training ?data WHERE { ?training provml:learnedFrom ?data }"
TESTED_BY_TRAININGS = """SELECT ?training ?data WHERE {
  ?use prov:hadRole provml:TestRole ; prov:entity ?data . ?section prov:qualifiedUsage ?use .
  ?section provml:wasSectionOf? ?training . ?training a provml:TrainingExecution
}"""
USED_BY_TRAININGS = """SELECT ?training ?data WHERE {
  ?training a provml:TrainingExecution ; prov:used ?data . ?data a provlake:DataReference .
}"""
RESERVED = """SELECT ?training ?data WHERE {
  ?training a provml:TrainingExecution ; prov:qualifiedUsage ?usage . ?usage prov:entity ?data ; prov:hadRole ?role .
  FILTER(?role IN (provml:ValidationRole, provml:TestRole))
}"""
USED_BY_STEPS = """SELECT ?step ?data WHERE {
  ?data a provlake:DataReference . ?step prov:used ?data . FILTER NOT EXISTS { ?step provml:aimedAtModel ?goal }
}"""
GENERATED = """SELECT ?data ?activity ?stage WHERE {
  ?data a provlake:DataReference ; prov:wasGeneratedBy ?activity . OPTIONAL { ?activity provml:wasSectionOf ?stage }
}"""
CONTENTS = "SELECT ?data ?content WHERE { ?data prov:specializationOf ?content }"
ALTERNATES = "SELECT ?data ?content WHERE { ?data prov:alternateOf ?content }"
BUILT_ON = "SELECT ?step ?earlier WHERE { ?step provml:builtOn ?earlier }"


def leaking_trainings(select: Select, among: Collection[str] | None = None) -> set[str]:
    """Return the IRIs of the trainings, or of those `among` some; `select` executes a query."""
    if among is None:
        tested = _links(select(TESTED))
        pairs = [(test.value, training.value) for test, training in select(EVALUATED) if test.value in tested]
    else:
        evaluated = select(restrict(EVALUATED, "training", among))
        pairs = [(test.value, training.value) for test, training in evaluated]
        tested = _links(select(restrict(TESTED, "evaluation", {test for test, _ in pairs})))
        pairs = [pair for pair in pairs if pair[0] in tested]
    return _Search(select, tested).leaking(pairs) if pairs else set()


def restrict(sparql: str, variable: str, iris: Iterable[str]) -> str:
    """Return a query for some values of a variable only."""
    values = " ".join(f"<{iri}>" for iri in sorted(iris))
    return sparql.replace("WHERE {", f"WHERE {{ VALUES ?{variable} {{ {values} }}", 1)


def _links(rows: Iterable[tuple[Any, ...]]) -> Links:
    links: Links = {}
    for subject, node in rows:
        links.setdefault(subject.value, set()).add(node.value)
    return links


def _inverse(links: Links) -> Links:
    inverse: Links = {}
    for subject, nodes in links.items():
        for node in nodes:
            inverse.setdefault(node, set()).add(subject)
    return inverse


class _Search:
    """The links between data and steps, and what they lead to."""

    def __init__(self, select: Select, tested: Links) -> None:
        self.tested = tested
        self.contents = _links(select(CONTENTS))
        self.learned = _links(select(LEARNED))
        self.tested_by_trainings = _links(select(TESTED_BY_TRAININGS))
        reserved = _links(select(RESERVED))
        used = _links(select(USED_BY_TRAININGS))
        self.training_data = {training: data - reserved.get(training, set()) for training, data in used.items()}
        self.step_data = _links(select(USED_BY_STEPS))
        self.built_on = _links(select(BUILT_ON))
        self.specializations = _inverse(self.contents)
        self.alternates = _inverse(_links(select(ALTERNATES)))
        self.makers: Links = {}
        for data, activity, stage in select(GENERATED):
            self.makers.setdefault(data.value, set()).add((stage or activity).value)
        learned_or_used = {step: self.step_data.get(step, set()) | data for step, data in self.learned.items()}
        self.upstream_of_training = _Upstream(self.built_on, self.step_data | learned_or_used, self.content_of)
        self.upstream_of_test = _Upstream(self.built_on, self.step_data, self.content_of)

    def content_of(self, data: str) -> set[str]:
        """Return the content that a run's entity is a specialization of, else the node itself."""
        return self.contents.get(data) or {data}

    def _all_contents(self, nodes: Iterable[str]) -> set[str]:
        return {content for data in nodes for content in self.content_of(data)}

    def leaking(self, pairs: Iterable[tuple[str, str]]) -> set[str]:
        learned = {training: self._all_contents(data) for training, data in self.learned.items()}
        tested = {test: self._all_contents(data) for test, data in self.tested.items()}
        leaking: set[str] = set()
        for test, training in pairs:
            contents, fitted = tested[test], learned.get(training, set())
            if (
                contents & fitted
                or contents & self._all_contents(self.tested_by_trainings.get(training, ()))
                or contents & self._made_from(training)
                or any(fitted & self.upstream_of_test[maker] for maker in self._makers_of_test(test))
            ):
                leaking.add(training)
        return leaking

    def _made_from(self, training: str) -> set[str]:
        """Return the contents that the data of a training was made from."""
        built_on = self.built_on.get(training, set())
        makers = set()
        for data in self.training_data.get(training, ()):
            alternates = self.specializations.get(data, set()) | self.alternates.get(data, set())
            makers |= {maker for node in (data, *alternates) for maker in self.makers.get(node, ())}
        return {content for maker in makers & built_on for content in self.upstream_of_training[maker]}

    def _makers_of_test(self, test: str) -> set[str]:
        nodes = {node for data in self.tested[test] for node in (data, *self.specializations.get(data, ()))}
        return {maker for node in nodes for maker in self.makers.get(node, ())}


class _Upstream:
    """The contents that a step, and the steps that it was built on, used; each step is visited once."""

    def __init__(self, built_on: Links, uses: Links, content_of: Callable[[str], set[str]]) -> None:
        self.built_on = built_on
        self.uses = uses
        self.content_of = content_of
        self.cache: dict[str, frozenset[str]] = {}

    def __getitem__(self, step: str) -> frozenset[str]:
        if step not in self.cache:
            steps, pending = {step}, [step]
            contents: set[str] = set()
            while pending:
                current = pending.pop()
                if current in self.cache:
                    contents |= self.cache[current]
                    continue
                contents.update(content for data in self.uses.get(current, ()) for content in self.content_of(data))
                pending += (new := self.built_on.get(current, set()) - steps)
                steps |= new
            self.cache[step] = frozenset(contents)
        return self.cache[step]
