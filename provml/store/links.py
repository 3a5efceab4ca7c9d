"""Links that the index derives after it has loaded what is new.

`provml:builtOn` and `provml:evaluatedTraining` follow from statements of several journals, which arrive in any order.
They are derived for the steps that used or produced something, and for steps and evaluations that refer to the same
data. `provml:latestEvaluation` and `provml:bestEvaluation` of a stage change while it runs. Deriving links again gives
the same links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

import pyoxigraph as ox

from provml.mapping import EpochValue, NewLinks, best_key, latest_key
from provml.rdf.namespaces import PROV, PROVLAKE, PROVML, RDF_TYPE

BUILT_ON = ox.NamedNode(f"{PROVML}builtOn")
EVALUATED_TRAINING = ox.NamedNode(f"{PROVML}evaluatedTraining")
LATEST, BEST = ox.NamedNode(f"{PROVML}latestEvaluation"), ox.NamedNode(f"{PROVML}bestEvaluation")

_TYPE = ox.NamedNode(RDF_TYPE)
_USED, _GENERATED_BY = ox.NamedNode(f"{PROV}used"), ox.NamedNode(f"{PROV}wasGeneratedBy")
_SPECIALIZATION, _ALTERNATE = ox.NamedNode(f"{PROV}specializationOf"), ox.NamedNode(f"{PROV}alternateOf")
_EVALUATED, _SECTION_OF = ox.NamedNode(f"{PROVML}evaluated"), ox.NamedNode(f"{PROVML}wasSectionOf")
_MEMBER_OF = ox.NamedNode(f"{PROVLAKE}wasMemberOfWorkflowExecution")
_TRAINING, _EVALUATION = ox.NamedNode(f"{PROVML}TrainingExecution"), ox.NamedNode(f"{PROVML}EvaluationExecution")
_ATTRIBUTE, _INDEX = ox.NamedNode(f"{PROVLAKE}wasDerivedFromAttribute"), ox.NamedNode(f"{PROVML}sectionIndex")
_RANK = ox.NamedNode(f"{PROVML}rankingValue")
_MODEL = ox.NamedNode(f"{PROVML}Model")
_GRAPH = ox.DefaultGraph()
_RANK_SUFFIX = re.compile(r"(.+)@\d+(\.\d+)?")
"""How the IRI of a stage ends in the journal of a rank other than the first, and of a further launch in one run."""
MAX_KNOWN = 100_000
"""Nodes whose links are remembered while links are derived: about 40 MB."""

Node = ox.NamedNode | ox.BlankNode
Nodes = set[Node]


class Quads(Protocol):
    """What the derivation reads of a store."""

    def quads_for_pattern(
        self,
        subject: ox.NamedNode | ox.BlankNode | ox.Triple | None,
        predicate: ox.NamedNode | None,
        object: ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple | None,  # noqa: A002  # as pyoxigraph has it
        graph_name: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None = None,
    ) -> Iterator[ox.Quad]:
        """Return the quads that match."""

    def __contains__(self, quad: ox.Quad) -> bool: ...


def derive_links(store: ox.Store, new: NewLinks) -> bool:
    """Add and remove links so that they agree with the graph; return whether any changed."""
    added, removed = link_changes(store, new)
    store.extend(added)
    for quad in removed:
        store.remove(quad)
    return bool(added or removed)


def link_changes(store: Quads, new: NewLinks) -> tuple[list[ox.Quad], list[ox.Quad]]:
    """Return the links that have to be added and removed so that they agree with the graph."""
    links = _Links(store)
    links.derive(new)
    return links.added, links.removed


class _Links:
    """The derivation of links in one store."""

    def __init__(self, store: Quads) -> None:
        self.store = store
        self.added: list[ox.Quad] = []
        self.removed: list[ox.Quad] = []
        self._known_objects: dict[tuple[Node, ox.NamedNode], list[Node]] = {}
        self._known_subjects: dict[tuple[ox.NamedNode, Node], list[Node]] = {}

    def derive(self, new: NewLinks) -> None:
        """Derive the links that follow from new statements."""
        uses: list[tuple[Node, Node]] = [(ox.NamedNode(step), ox.NamedNode(entity)) for step, entity in new.uses]
        users: dict[Node, Nodes] = {}
        for step, entity in new.products:
            users.setdefault(ox.NamedNode(step), set()).update(self._users(ox.NamedNode(entity)))
        pairs = {(step, maker) for step, entity in uses for maker in self._makers(entity)}
        pairs |= {(user, step) for step, steps in users.items() for user in steps}
        for user, maker in pairs:
            if user != maker:
                self._add(user, BUILT_ON, maker)
        stages = {step for step, _ in uses}.union(ox.NamedNode(stage) for stage in new.stages)
        for test in self._evaluations(stages.union(*users.values())):
            self._replace(test, EVALUATED_TRAINING, set(self._objects(test, EVALUATED_TRAINING)), self._trainings(test))
        for predicate, values in ((LATEST, new.latest), (BEST, new.best)):
            for (stage, measure), value in values.items():
                self._update_evaluation(ox.NamedNode(stage), predicate, ox.NamedNode(measure), value)

    def _add(self, subject: Node, predicate: ox.NamedNode, node: Node) -> None:
        quad = ox.Quad(subject, predicate, node, _GRAPH)
        if quad not in self.store:
            self.added.append(quad)

    def _replace(self, subject: Node, predicate: ox.NamedNode, old: Nodes, new: Nodes) -> None:
        self.added += [ox.Quad(subject, predicate, node, _GRAPH) for node in new - old]
        self.removed += [ox.Quad(subject, predicate, node, _GRAPH) for node in old - new]

    # ---- values of measures

    def _update_evaluation(
        self, stage: Node, predicate: ox.NamedNode, measure: ox.NamedNode, value: EpochValue
    ) -> None:
        """Link a stage to a new value of a measure, unless the value that it is linked to is later or better."""
        old = {node for node in self._objects(stage, predicate) if measure in self._objects(node, _ATTRIBUTE)}
        order = latest_key if predicate == LATEST else best_key
        if all(order(self._epoch_value(node)) < order(value) for node in old):
            self._replace(stage, predicate, old, {ox.NamedNode(value.iri)})

    def _epoch_value(self, evaluation: Node) -> EpochValue:
        sections = self._objects(evaluation, _GENERATED_BY)
        index = max((self._number(section, _INDEX) for section in sections), default=-1)
        return EpochValue(int(index), evaluation.value, self._number(evaluation, _RANK))

    def _number(self, node: Node, predicate: ox.NamedNode) -> float:
        quad = next(self.store.quads_for_pattern(node, predicate, None, _GRAPH), None)
        return float(quad.object.value) if quad is not None and isinstance(quad.object, ox.Literal) else -1.0

    # ---- data and steps

    def _makers(self, entity: Node) -> Nodes:
        """Return the steps that produced an entity, or, of a content, the steps that produced the same content."""
        entities = {entity, *self._subjects(_SPECIALIZATION, entity), *self._subjects(_ALTERNATE, entity)}
        return {self._whole(activity) for each in entities for activity in self._objects(each, _GENERATED_BY)}

    def _users(self, entity: Node) -> Nodes:
        """Return the steps that used an entity, or its content."""
        entities = {entity, *self._objects(entity, _SPECIALIZATION), *self._objects(entity, _ALTERNATE)}
        return {self._whole(activity) for each in entities for activity in self._subjects(_USED, each)}

    def _whole(self, activity: Node) -> Node:
        """Return the stage of a section; anything else is whole."""
        return next(iter(self._objects(activity, _SECTION_OF)), activity)

    # ---- evaluations

    def _evaluations(self, stages: Nodes) -> Nodes:
        """Return the evaluations among some stages, and those in the runs of the trainings among them."""
        trainings = {stage for stage in stages if self._has_type(stage, _TRAINING)}
        runs = {run for training in trainings for run in self._objects(training, _MEMBER_OF)}
        stages = stages | {member for run in runs for member in self._subjects(_MEMBER_OF, run)}
        return {stage for stage in stages if self._has_type(stage, _EVALUATION)}

    def _trainings(self, test: Node) -> Nodes:
        """Return the trainings that made what an evaluation measured: by model, else by file, else by run."""
        evaluated = set(self._objects(test, _EVALUATED))
        makers = {self._whole(activity) for model in evaluated for activity in self._objects(model, _GENERATED_BY)}
        if not makers:
            contents = self._objects(test, _USED)
            files = {model for content in contents for model in self._subjects(_ALTERNATE, content)}
            models = {model for model in files if self._has_type(model, _MODEL)}
            makers = {self._whole(activity) for model in models for activity in self._objects(model, _GENERATED_BY)}
            if not models and not evaluated:
                runs = self._objects(test, _MEMBER_OF)
                makers = {member for run in runs for member in self._subjects(_MEMBER_OF, run)}
        return {self._first_rank(maker) for maker in makers if self._has_type(maker, _TRAINING)}

    def _first_rank(self, training: Node) -> Node:
        """Return the training that a further rank of it, such as `training@1`, is a part of."""
        match = _RANK_SUFFIX.fullmatch(training.value)
        firsts = [match[1], f"{match[1]}@0"] if match is not None else []  # of a parent process, or of rank 0
        if match is not None and match[2]:  # of rank 0 of this launch first
            firsts.insert(0, f"{match[1]}@0{match[2]}")
        trainings = (node for node in map(ox.NamedNode, firsts) if self._has_type(node, _TRAINING))
        return next(trainings, training)

    # ---- the store

    def _objects(self, subject: Node, predicate: ox.NamedNode) -> list[Node]:
        nodes = self._known_objects.get((subject, predicate))
        if nodes is None:
            _make_room(self._known_objects)
            quads = self.store.quads_for_pattern(subject, predicate, None, _GRAPH)
            nodes = self._known_objects[subject, predicate] = [quad.object for quad in quads]  # type: ignore[misc]  # no literals
        return nodes

    def _subjects(self, predicate: ox.NamedNode, node: Node) -> list[Node]:
        nodes = self._known_subjects.get((predicate, node))
        if nodes is None:
            _make_room(self._known_subjects)
            quads = self.store.quads_for_pattern(None, predicate, node, _GRAPH)
            nodes = self._known_subjects[predicate, node] = [quad.subject for quad in quads]  # type: ignore[misc]  # no triple terms
        return nodes

    def _has_type(self, node: Node, cls: ox.NamedNode) -> bool:
        return ox.Quad(node, _TYPE, cls, _GRAPH) in self.store


def _make_room(cache: dict[Any, list[Node]]) -> None:
    """Forget what was read if it is much."""
    if len(cache) >= MAX_KNOWN:
        cache.clear()
