"""The order of events (30-49): which is before which, whether one is strictly before itself, and by which steps.

Order is transitive, so events of one sort of one node (all generations of an entity, all starts of an activity) share
a way in and a way out: constraints between nodes are one edge each, however many events the nodes have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

from provml.errors import NoSuchNode
from provml.validation.constraints import term
from provml.validation.constraints.circle import circles
from provml.validation.constraints.document import NOTHING, Statement
from provml.validation.constraints.merging import Merged
from provml.validation.constraints.term import END, GENERATION, INVALIDATION, START, USAGE, Kind
from provml.validation.constraints.verdict import Step, Violation

AT_ONCE = {GENERATION: 39, INVALIDATION: 40, START: 31, END: 32}
"""The constraint by which all events of a sort of one node are at once."""

STRICT = 42


class Event(NamedTuple):
    """An event: its kind, the number of its name (None for one that only follows), and the node that it befalls."""

    kind: Kind
    name: int | None
    owner: int


class Order:
    """The events of one bundle as a graph: an edge leads from an event to one that is not before it.

    An edge is where it leads to and the constraint that it is from; 0 is a way in or out.
    """

    def __init__(self, merged: Merged, declared: set[int], without: Collection[int] = ()) -> None:
        self.merged = merged
        self.events: list[Event | None] = []
        self.edges: list[list[tuple[int, int]]] = []
        self._without = without
        self._groups: dict[tuple[Kind, int], tuple[int, int]] = {}
        self._passages: dict[tuple[Kind, int], tuple[int, int]] = {}
        self._by_name: dict[tuple[Kind, int], int] = {}
        self._said: dict[Kind, list[Statement]] = defaultdict(list)
        for one in merged.statements:
            self._said[one.kind].append(one)
        find = merged.find
        self._special = sorted({(find(one), find(general)) for one, general in merged.document.specializations})
        self._unnamed = self._follow(declared)
        self._gather()
        self._order_what_befalls_a_node()
        self._order_what_joins_nodes()
        del self._said, self._special

    def _follow(self, declared: set[int]) -> dict[Kind, set[int]]:
        """Who has an event that nobody names, where it can matter.

        A declared entity has a generation and an invalidation (7), an attributed one a generation (13). Of the
        invalidations, only that of a specialization comes before another event. The starts and ends of declared
        activities (8) need no node: nothing comes before the one or after the other.
        """
        attributed = {one.slots[0] for one in self._said[term.ATTRIBUTION]}
        return {GENERATION: declared | attributed, INVALIDATION: declared & {special for special, _ in self._special}}

    # ---- nodes

    def _node(self, event: Event | None) -> int:
        self.events.append(event)
        self.edges.append([])
        return len(self.events) - 1

    def _edge(self, before: int, after: int, constraint: int) -> None:
        if constraint not in self._without:
            self.edges[before].append((after, constraint))

    def _gather(self) -> None:
        """Make a node of each event, and a way in and out where a node has several events of one sort."""
        members: dict[tuple[Kind, int], list[int]] = defaultdict(list)
        for kind in term.EVENTS:
            for one in self._said[kind]:
                if (kind, one.name) not in self._by_name:
                    event = self._by_name[kind, one.name] = self._node(Event(kind, one.name, one.slots[0]))
                    if kind is not USAGE:
                        members[kind, one.slots[0]].append(event)
        for group, events in members.items():
            if len(events) == 1:
                self._groups[group] = events[0], events[0]
                continue
            inward, outward = self._groups[group] = self._node(None), self._node(None)
            for event in events:
                self._edge(inward, event, 0)
                self._edge(event, outward, 0)
            self._edge(outward, inward, AT_ONCE[group[0]])

    def _of(self, kind: Kind, owner: int) -> tuple[int, int] | None:
        """The way in and out of a node's events of one sort; None where it has none."""
        group = self._groups.get((kind, owner))
        if group is None and owner in self._unnamed.get(kind, ()):
            event = self._node(Event(kind, None, owner))
            group = self._groups[kind, owner] = event, event
        return group

    # ---- edges

    def _before(self, one: tuple[Kind, int], other: tuple[Kind, int], constraint: int) -> None:
        """All events of the one are before all of the other, where there are any."""
        first = self._of(*one)
        second = self._of(*other) if first is not None else None
        if first is not None and second is not None:
            self._edge(first[1], second[0], constraint)

    def _during(self, event: int, owner: int, kinds: tuple[Kind, Kind], constraint: int) -> None:
        """An event is between the events with which a node begins and ends."""
        first, last = self._of(kinds[0], owner), self._of(kinds[1], owner)
        if first is not None:
            self._edge(first[1], event, constraint)
        if last is not None:
            self._edge(event, last[0], constraint)

    def _order_what_befalls_a_node(self) -> None:
        """What an activity or an entity goes through: 30, 33, 34, 36-38, 43, 44."""
        run, life = (START, END), (GENERATION, INVALIDATION)
        for one in self._said[GENERATION]:
            self._during(self._by_name[GENERATION, one.name], one.slots[1], run, 34)
        for one in self._said[USAGE]:
            event, (activity, entity, _) = self._by_name[USAGE, one.name], one.slots
            self._during(event, activity, run, 33)
            before, after = self._of(GENERATION, entity), self._of(INVALIDATION, entity)
            if before is not None:
                self._edge(before[1], event, 37)
            if after is not None:
                self._edge(event, after[0], 38)
        for kind, constraint in ((START, 43), (END, 44)):
            for one in self._said[kind]:
                self._during(self._by_name[kind, one.name], one.slots[1], life, constraint)
        for owner in self._unnamed[INVALIDATION]:
            self._of(INVALIDATION, owner)
        for kind, owner in list(self._groups):
            if kind is START:
                self._before((START, owner), (END, owner), 30)
            elif kind is INVALIDATION:
                self._before((GENERATION, owner), (INVALIDATION, owner), 36)

    def _order_what_joins_nodes(self) -> None:
        """What statements between nodes say: 35, 41, 42, 45-49."""
        before, said = self._before, self._said
        for one in said[term.COMMUNICATION]:
            before((START, one.slots[1]), (END, one.slots[0]), 35)
        for one in said[term.DERIVATION]:
            derived, source, activity, generation, usage = one.slots
            before((GENERATION, source), (GENERATION, derived), STRICT)
            if activity != NOTHING and (USAGE, usage) in self._by_name and (GENERATION, generation) in self._by_name:
                self._edge(self._by_name[USAGE, usage], self._by_name[GENERATION, generation], 41)
        for special, general in self._special:
            self._edge(self._through(GENERATION, general)[1], self._through(GENERATION, special)[0], 45)
            self._edge(self._through(INVALIDATION, special)[1], self._through(INVALIDATION, general)[0], 46)
        for one in said[term.ASSOCIATION]:
            activity, agent = one.slots[:2]
            before((START, activity), (INVALIDATION, agent), 47)
            before((GENERATION, agent), (END, activity), 47)
            before((START, activity), (END, agent), 47)
            before((START, agent), (END, activity), 47)
        for one in said[term.ATTRIBUTION]:
            entity, agent = one.slots
            before((GENERATION, agent), (GENERATION, entity), 48)
            before((START, agent), (GENERATION, entity), 48)
        for one in said[term.DELEGATION]:
            delegate, responsible = one.slots[:2]
            before((GENERATION, responsible), (INVALIDATION, delegate), 49)
            before((START, responsible), (END, delegate), 49)

    def _through(self, kind: Kind, owner: int) -> tuple[int, int]:
        """The events of a node, or a passage where it has none: specialization is transitive all the same (19).

        Passages are no groups and have no edges but these, so nothing else becomes transitive by them.
        """
        group = self._of(kind, owner) or self._passages.get((kind, owner))
        if group is None:
            passage = self._node(None)
            group = self._passages[kind, owner] = passage, passage
        return group

    # ---- questions

    def violations(self) -> Iterator[Violation]:
        """One circle for every knot of events in which one is strictly before itself."""
        strict = [(one, other, by) for one, out in enumerate(self.edges) for other, by in out if by == STRICT]
        for circle in circles(self.edges, strict):
            steps = self._steps(circle)
            found = [event for node, _ in circle if (event := self.events[node]) is not None]
            reason = f"{steps[0].before} would be strictly before itself"
            nodes = tuple(dict.fromkeys(map(self._about, found)))
            yield Violation(STRICT, nodes, reason, cycle=steps, bundle=self.merged.document.bundle)

    def _steps(self, circle: list[tuple[int, int]]) -> tuple[Step, ...]:
        """A circle from event to event; what lies between two of them is one step."""
        first = next(place for place, (node, _) in enumerate(circle) if self.events[node] is not None)
        circle = [*circle[first:], *circle[: first + 1]]
        steps: list[Step] = []
        before, rules = circle[0][0], dict[int, None]()
        for (_, by), (after, _) in pairwise(circle):
            if by:
                rules[by] = None
            if self.events[after] is not None:
                steps.append(Step(self._tell(before), self._tell(after), tuple(rules), STRICT in rules))
                before, rules = after, {}
        return tuple(steps)

    def _tell(self, node: int) -> str:
        event = self.events[node]
        return self.merged.word(*event) if event is not None else "what follows"

    def _about(self, event: Event) -> str:
        """The IRI of an event, or the node that it befalls."""
        name = self.merged.name(event.name) if event.name is not None else None
        return name if name and name.startswith("<") else self.merged.show(event.owner)

    def precedes(self, first: str, second: str, *, strict: bool = False) -> bool:
        """Whether an event, named as Turtle does, is before another; with `strict`, whether it is so strictly."""
        starts, ends = self._find(first), set(self._find(second))
        seen = {(node, False) for node in starts}
        waiting = list(seen)
        while waiting:
            node, firmly = waiting.pop()
            if node in ends and (firmly or not strict):
                return True
            for after, by in self.edges[node]:
                state = after, firmly or by == STRICT
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
        return False

    def _find(self, name: str) -> list[int]:
        number = self.merged.document.known(name)
        found = (
            []
            if number is None
            else [
                self._by_name[kind, self.merged.find(number)]
                for kind in term.EVENTS
                if (kind, self.merged.find(number)) in self._by_name
            ]
        )
        if not found:
            raise NoSuchNode(name.strip("<>"))
        return found
