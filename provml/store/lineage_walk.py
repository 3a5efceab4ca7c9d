"""Walk from a node of the graph to the past or to the future, over steps and what they used and generated.

Sections count as their stage, and batches are never visited: the work depends on the number of steps and epochs. What a
run generates is an entity of its own; other runs use its content (`urn:sha256:…`), so the walk goes through both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from provml.answers import Answer
from provml.errors import NodeNotFound
from provml.model.values import IRI
from provml.store.name_lookup import Queryable

NODES_PER_QUERY = 500
MAX_SECTION_DEPTH = 3
"""A batch is a section of an epoch, and an epoch of a stage."""

IS_DATA = "FILTER (EXISTS { ?item a provlake:DataReference } || NOT EXISTS { ?item a provlake:AttributeValue })"
"""Parameters, measures and the layers of a network are values of attributes, but no data."""
TYPES = "SELECT ?node ?type { ?node a ?type }"
RUNS = "SELECT ?node ?run { ?node provlake:wasMemberOfWorkflowExecution ?run }"
MEMBERS = "SELECT ?node ?step { ?step provlake:wasMemberOfWorkflowExecution ?node }"
WHOLES = "SELECT ?node ?whole { ?node provml:wasSectionOf ?whole }"
TIMES = """SELECT ?node ?began ?ended {
  OPTIONAL { ?node prov:startedAtTime ?began }
  OPTIONAL { ?node prov:endedAtTime ?ended }
}"""
PRODUCERS = "SELECT DISTINCT ?node ?activity { ?node prov:wasGeneratedBy ?activity }"
COPIES = "SELECT DISTINCT ?node ?copy ?activity { ?copy prov:alternateOf ?node ; prov:wasGeneratedBy ?activity }"
CONTENTS = "SELECT DISTINCT ?node ?content { ?node prov:alternateOf ?content }"
CONSUMERS = "SELECT DISTINCT ?node ?activity { ?activity prov:used ?node }"
INPUTS = (
    f"SELECT DISTINCT ?node ?item {{ ?node prov:used ?item . {IS_DATA} }}",
    f"SELECT DISTINCT ?node ?item {{ ?section provml:wasSectionOf ?node ; prov:used ?item . {IS_DATA} }}",
)
OF_SECTION = "?section provml:wasSectionOf ?node . ?item prov:wasGeneratedBy ?section ."
OUTPUTS = (
    f"SELECT DISTINCT ?node ?item {{ ?item prov:wasGeneratedBy ?node . {IS_DATA} }}",
    f"SELECT DISTINCT ?node ?item {{ {OF_SECTION} {IS_DATA} }}",
)
"""Queries about `?node`; the second of a pair is about its sections."""


class WalkLimits(NamedTuple):
    """How much a walk collects; the rest is counted."""

    runs: int = 200
    steps: int = 4000
    producers: int = 8
    """Steps that generated the same content, of which the latest are collected."""


DEFAULT_LIMITS = WalkLimits()


class Span(NamedTuple):
    """Start and end of a step."""

    began: datetime | None = None
    ended: datetime | None = None


def rows_about(store: Queryable, sparql: str | tuple[str, ...], nodes: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of one or more queries about `?node`, for each of some nodes."""
    distinct = list(dict.fromkeys(nodes))
    for query in (sparql,) if isinstance(sparql, str) else sparql:
        for start in range(0, len(distinct), NODES_PER_QUERY):
            values = " ".join(f"<{node}>" for node in distinct[start : start + NODES_PER_QUERY])
            answer = store._answer(query.replace("{", f"{{ VALUES ?node {{ {values} }} ", 1), sync=False)
            if isinstance(answer, Answer):
                yield from answer.rows


class LineageWalk:
    """The steps and items behind a node, or after it.

    `uses` are pairs of a step and an item, `generations` pairs of an item and a step. `aliases` maps content to the
    only entity in the picture that has it. `starts` are the nodes that the walk began with; for a run it is `run`.
    """

    def __init__(self, store: Queryable, node: IRI, *, is_forward: bool, limits: WalkLimits = DEFAULT_LIMITS) -> None:
        self.store = store
        self.node = node
        self.is_forward = is_forward
        self.limits = limits
        self.run: IRI | None = None
        self.starts: set[IRI] = set()
        self.steps: dict[IRI, None] = {}
        self.items: dict[IRI, None] = {}
        self.uses: dict[tuple[IRI, IRI], None] = {}
        self.generations: dict[tuple[IRI, IRI], None] = {}
        self.aliases: dict[IRI, IRI] = {}
        self.omitted_steps = 0
        self.omitted_runs: set[IRI] = set()
        self._runs: set[IRI] = set()
        self._spans: dict[IRI, Span] = {}
        steps = self._begin()
        items = list(self.starts) if not steps else []
        while items or steps:
            if self.is_forward:
                items += self._generated(steps)
                steps, items = self._consumers(items), []
            else:
                items += self._used(steps)
                steps, items = self._producers(items), []

    def _rows(self, sparql: str | tuple[str, ...], nodes: Iterable[IRI]) -> Iterator[tuple[Any, ...]]:
        return rows_about(self.store, sparql, nodes)

    def _begin(self) -> list[IRI]:
        """Return the steps to begin with: those of a run, or a step itself; none for data and models."""
        node = self.node
        types = {str(type_).rpartition("#")[2] for _, type_ in self._rows(TYPES, [node])}
        if not types and not self.store._answer(
            f"ASK {{ {{ <{node}> ?p ?o }} UNION {{ ?s ?p <{node}> }} }}", sync=False
        ):
            raise NodeNotFound(node)
        if "WorkflowExecution" in types:
            self.run = node
            steps = self._add_steps(self._stages(step for _, step in self._rows(MEMBERS, [node])).values())
            if not self.is_forward:
                self._generated(steps)
            return steps
        if "Activity" in types:
            stage = self._stages([node])[node]
            self.starts = {stage}
            return self._add_steps([stage])
        copies = dict.fromkeys(copy for _, copy, _ in self._rows(COPIES, [node]))
        if len(copies) == 1:  # one step made this content: its entity says more, such as the epoch
            (self.node,) = copies
        self.starts = {self.node}
        self.items[self.node] = None
        return []

    def _stages(self, activities: Iterable[IRI]) -> dict[IRI, IRI]:
        """Return the stage or step that each activity is, or is a section of."""
        stages = {activity: activity for activity in activities}
        for _ in range(MAX_SECTION_DEPTH):
            wholes = dict(self._rows(WHOLES, stages.values()))
            if not wholes:
                break
            stages = {activity: wholes.get(stage, stage) for activity, stage in stages.items()}
        return stages

    def _add_steps(self, steps: Iterable[IRI]) -> list[IRI]:
        """Add the steps that are new, as long as there is space, and return them; adaptations are no steps."""
        new = [step for step in dict.fromkeys(steps) if step not in self.steps]
        adaptations = {node for node, type_ in self._rows(TYPES, new) if str(type_).endswith("#AdaptationExecution")}
        new = [step for step in new if step not in adaptations]
        self._read_spans(new)
        run_of = dict(self._rows(RUNS, new))
        added = []
        for step in sorted(new, key=self._time_key):
            run = run_of.get(step, step)
            if run not in self._runs and len(self._runs) >= self.limits.runs:
                self.omitted_runs.add(run)
            elif len(self.steps) >= self.limits.steps:
                self.omitted_steps += 1
            else:
                self._runs.add(run)
                self.steps[step] = None
                added.append(step)
        return added

    def _read_spans(self, steps: list[IRI]) -> None:
        self._spans.update({node: Span(began, ended) for node, began, ended in self._rows(TIMES, steps)})

    def _time_key(self, step: IRI) -> tuple[float, str]:
        began = self._spans.get(step, Span()).began
        return began.timestamp() if isinstance(began, datetime) else 0.0, step

    def _add_item(self, item: IRI) -> bool:
        """Add an item and return whether it is new."""
        is_new = item not in self.items
        self.items[item] = None
        return is_new

    def _add_generation(self, item: IRI, step: IRI) -> None:
        if step in self.steps:
            self.generations[item, step] = None

    # ---- to the past

    def _used(self, steps: list[IRI]) -> list[IRI]:
        """Add what steps used, and return what is new of it."""
        new = []
        for step, item in self._rows(INPUTS, steps):
            self.uses[step, item] = None
            if self._add_item(item):
                new.append(item)
        return new

    def _producers(self, items: list[IRI]) -> list[IRI]:
        """Add the steps that generated items, and return those that are new."""
        pairs = list(self._rows(PRODUCERS, items))
        own = {item for item, _ in pairs}
        copies: dict[IRI, list[tuple[IRI, IRI]]] = {}
        for content, copy, activity in self._rows(COPIES, [item for item in items if item not in own]):
            copies.setdefault(content, []).append((copy, activity))
        activities = [activity for _, activity in pairs]
        activities += [activity for makers in copies.values() for _, activity in makers]
        stages = self._stages(activities)
        new = self._add_steps(stages[activity] for _, activity in pairs)
        for item, activity in pairs:
            self._add_generation(item, stages[activity])
        for content, makers in copies.items():
            new += self._add_makers(content, [(copy, stages[activity]) for copy, activity in makers])
        return new

    def _add_makers(self, content: IRI, makers: list[tuple[IRI, IRI]]) -> list[IRI]:
        """Add the steps that generated some content before it was used, the latest of them, and return the new ones.

        `makers` are pairs of an entity with this content and the step that generated it.
        """
        self._read_spans([step for _, step in makers])
        last_use = self._last_use(content)
        earlier = [
            maker
            for maker in makers
            if last_use is None or (began := self._spans[maker[1]].began) is None or began <= last_use
        ]
        earlier.sort(key=lambda maker: (self._time_key(maker[1]), maker[0]))
        self.omitted_steps += len(earlier[: -self.limits.producers])
        earlier = earlier[-self.limits.producers :]
        new = self._add_steps(step for _, step in earlier)
        if len(earlier) == 1 and content not in self.starts:
            copy, step = earlier[0]
            self.aliases[content] = copy
            self._add_item(copy)
            self._add_generation(copy, step)
        else:
            for _, step in earlier:
                self._add_generation(content, step)
        return new

    def _last_use(self, content: IRI) -> datetime | None:
        """Return when the steps that used some content had all ended; None if that is not known."""
        ends = [self._spans[step].ended for step, item in self.uses if item == content]
        known_ends = [end for end in ends if end is not None]
        return max(known_ends) if known_ends and len(known_ends) == len(ends) else None

    # ---- to the future

    def _generated(self, steps: list[IRI]) -> list[IRI]:
        """Add what steps generated, and return what is new of it."""
        new = []
        for step, item in self._rows(OUTPUTS, steps):
            self._add_generation(item, step)
            if self._add_item(item):
                new.append(item)
        return new

    def _consumers(self, items: list[IRI]) -> list[IRI]:
        """Add the steps that used items or their content, and return those that are new."""
        item_of = {item: item for item in items}
        for item, content in self._rows(CONTENTS, items):
            item_of.setdefault(content, item)
        for content, copy, _ in self._rows(COPIES, self.starts.intersection(items)):
            item_of[copy] = content
        pairs = list(self._rows(CONSUMERS, item_of))
        stages = self._stages(activity for _, activity in pairs)
        new = self._add_steps(stages[activity] for _, activity in pairs)
        for node, activity in pairs:
            if stages[activity] in self.steps:
                self.uses[stages[activity], item_of[node]] = None
        return new
