"""The order of events (30-49): which event precedes which, and cycles with an event strictly before itself.

Order is transitive, so all events of one kind of one node (all generations of an entity, all starts of an activity)
share an entry and an exit node: a constraint between two nodes is one edge, however many events they have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

from provml.errors import NodeNotFound
from provml.validation.cycles import find_cycles
from provml.validation.prov_constraints import prov_terms
from provml.validation.prov_constraints.prov_terms import END, GENERATION, INVALIDATION, START, USAGE, Kind
from provml.validation.prov_constraints.rules import rule_iri
from provml.validation.prov_constraints.statements import NO_VALUE, STATED, Statement
from provml.validation.prov_constraints.unification import UnifiedDocument
from provml.validation.prov_constraints.violations import Violation
from provml.validation.results import CycleStep

SIMULTANEOUS = {GENERATION: 39, INVALIDATION: 40, START: 31, END: 32}
"""The constraint that makes all events of a kind of one node simultaneous."""

STRICT = 42
"""The only constraint with a strict order."""

NO_CONSTRAINT = 0
"""The constraint of an edge from an entry node or to an exit node."""


class Event(NamedTuple):
    """An event: its kind, the number of its identifier, its entity or activity, and the inference it follows from.

    An event that no statement describes has no identifier.
    """

    kind: Kind
    identifier: int | None
    owner: int
    inference: int = STATED


class Group(NamedTuple):
    """The events of one kind of one node: edges to all of them end in `entry`, edges from them start in `exit`."""

    entry: int
    exit: int


class EventOrder:
    """The events of one bundle as a graph: an edge leads from an event to one that is not before it."""

    def __init__(self, unified: UnifiedDocument, entities: set[int], exclude: Collection[int] = ()) -> None:
        self.unified = unified
        self.events: list[Event | None] = []
        self.edges: list[list[tuple[int, int]]] = []
        """For each event the events that do not precede it, each with a constraint."""
        self._exclude = exclude
        self._groups: dict[tuple[Kind, int], Group] = {}
        self._passages: dict[tuple[Kind, int], Group] = {}
        self._by_identifier: dict[tuple[Kind, int], int] = {}
        self._statements: dict[Kind, list[Statement]] = defaultdict(list)
        for statement in unified.statements:
            self._statements[statement.kind].append(statement)
        find = unified.find
        pairs = unified.document.specializations
        self._specializations = sorted({(find(special), find(general)) for special, general in pairs})
        self._entities = entities
        self._inferred = self._inferred_events(entities)
        self._add_events()
        self._order_activities()
        self._order_entities()
        self._order_derivations()
        self._order_agents()
        del self._statements, self._specializations

    def _inferred_events(self, entities: set[int]) -> dict[Kind, set[int]]:
        """Return the nodes that have an event without a statement, as far as it matters.

        A declared entity has a generation and an invalidation (7), an attributed one a generation (13). Only the
        invalidation of a specialization precedes another event. Inferred starts and ends of declared activities (8)
        are not needed: no event precedes such a start or follows such an end.
        """
        attributed = {statement.slots[0] for statement in self._statements[prov_terms.ATTRIBUTION]}
        special = {special for special, _ in self._specializations}
        return {GENERATION: entities | attributed, INVALIDATION: entities & special}

    # ---- nodes

    def _add_node(self, event: Event | None) -> int:
        self.events.append(event)
        self.edges.append([])
        return len(self.events) - 1

    def _add_edge(self, before: int, after: int, constraint: int) -> None:
        if constraint not in self._exclude:
            self.edges[before].append((after, constraint))

    def _add_events(self) -> None:
        """Add a node per event, and entry and exit nodes if a node has several events of one kind."""
        members: dict[tuple[Kind, int], list[int]] = defaultdict(list)
        for kind in prov_terms.EVENTS:
            for statement in self._statements[kind]:
                key, owner = (kind, statement.identifier), statement.slots[0]
                if key not in self._by_identifier:
                    event = self._by_identifier[key] = self._add_node(
                        Event(kind, statement.identifier, owner, statement.inference)
                    )
                    if kind is not USAGE:
                        members[kind, owner].append(event)
        for group_key, events in members.items():
            if len(events) == 1:
                self._groups[group_key] = Group(events[0], events[0])
                continue
            group = self._groups[group_key] = Group(self._add_node(None), self._add_node(None))
            for event in events:
                self._add_edge(group.entry, event, NO_CONSTRAINT)
                self._add_edge(event, group.exit, NO_CONSTRAINT)
            self._add_edge(group.exit, group.entry, SIMULTANEOUS[group_key[0]])

    def _group(self, kind: Kind, owner: int) -> Group | None:
        """Return the events of one kind of a node, or None if it has none."""
        group = self._groups.get((kind, owner))
        if group is None and owner in self._inferred.get(kind, ()):
            event = self._add_node(Event(kind, None, owner, 7 if owner in self._entities else 13))
            group = self._groups[kind, owner] = Group(event, event)
        return group

    # ---- edges

    def _before(self, first: tuple[Kind, int], second: tuple[Kind, int], constraint: int) -> None:
        """Order all events of one group before all of another, if both have any."""
        earlier = self._group(*first)
        later = self._group(*second) if earlier is not None else None
        if earlier is not None and later is not None:
            self._add_edge(earlier.exit, later.entry, constraint)

    def _between(self, event: int, owner: int, kinds: tuple[Kind, Kind], constraints: tuple[int, int]) -> None:
        """Order an event between two kinds of events of a node, by one constraint each."""
        first, last = self._group(kinds[0], owner), self._group(kinds[1], owner)
        if first is not None:
            self._add_edge(first.exit, event, constraints[0])
        if last is not None:
            self._add_edge(event, last.entry, constraints[1])

    def _order_activities(self) -> None:
        """Order generations and usages within their activity (33, 34), and within the life of their entity (37, 38)."""
        duration, lifetime = (START, END), (GENERATION, INVALIDATION)
        for statement in self._statements[GENERATION]:
            event = self._by_identifier[GENERATION, statement.identifier]
            self._between(event, statement.slots[1], duration, (34, 34))
        for statement in self._statements[USAGE]:
            event, (activity, entity, _) = self._by_identifier[USAGE, statement.identifier], statement.slots
            self._between(event, activity, duration, (33, 33))
            self._between(event, entity, lifetime, (37, 38))

    def _order_entities(self) -> None:
        """Order the events of one node (30, 36), and starts and ends within the life of their trigger (43, 44)."""
        for kind, constraint in ((START, 43), (END, 44)):
            for statement in self._statements[kind]:
                event = self._by_identifier[kind, statement.identifier]
                self._between(event, statement.slots[1], (GENERATION, INVALIDATION), (constraint, constraint))
        for owner in self._inferred[INVALIDATION]:
            self._group(INVALIDATION, owner)
        for kind, owner in list(self._groups):
            if kind is START:
                self._before((START, owner), (END, owner), 30)
            elif kind is INVALIDATION:
                self._before((GENERATION, owner), (INVALIDATION, owner), 36)

    def _order_derivations(self) -> None:
        """Order the events of communications, derivations and specializations (35, 41, 42, 45, 46)."""
        events = self._by_identifier
        for statement in self._statements[prov_terms.COMMUNICATION]:
            informed, informant = statement.slots
            self._before((START, informant), (END, informed), 35)
        for statement in self._statements[prov_terms.DERIVATION]:
            derived, source, activity, generation, usage = statement.slots
            self._before((GENERATION, source), (GENERATION, derived), STRICT)
            if activity != NO_VALUE and (USAGE, usage) in events and (GENERATION, generation) in events:
                self._add_edge(events[USAGE, usage], events[GENERATION, generation], 41)
        for special, general in self._specializations:
            generations = self._passage(GENERATION, general), self._passage(GENERATION, special)
            self._add_edge(generations[0].exit, generations[1].entry, 45)
            invalidations = self._passage(INVALIDATION, special), self._passage(INVALIDATION, general)
            self._add_edge(invalidations[0].exit, invalidations[1].entry, 46)

    def _order_agents(self) -> None:
        """Order the events of associations, attributions and delegations (47-49)."""
        before = self._before
        for statement in self._statements[prov_terms.ASSOCIATION]:
            activity, agent = statement.slots[:2]
            before((START, activity), (INVALIDATION, agent), 47)
            before((GENERATION, agent), (END, activity), 47)
            before((START, activity), (END, agent), 47)
            before((START, agent), (END, activity), 47)
        for statement in self._statements[prov_terms.ATTRIBUTION]:
            entity, agent = statement.slots
            before((GENERATION, agent), (GENERATION, entity), 48)
            before((START, agent), (GENERATION, entity), 48)
        for statement in self._statements[prov_terms.DELEGATION]:
            delegate, responsible = statement.slots[:2]
            before((GENERATION, responsible), (INVALIDATION, delegate), 49)
            before((START, responsible), (END, delegate), 49)

    def _passage(self, kind: Kind, owner: int) -> Group:
        """Return the events of a node, or a node without an event, since specialization is transitive (19).

        Passages have no other edges, so that no other constraint becomes transitive by them.
        """
        group = self._group(kind, owner) or self._passages.get((kind, owner))
        if group is None:
            node = self._add_node(None)
            group = self._passages[kind, owner] = Group(node, node)
        return group

    # ---- violations

    def violations(self) -> Iterator[Violation]:
        """Iterate over one violation per set of events in which an event is strictly before itself."""
        strict = [
            (start, end, constraint)
            for start, successors in enumerate(self.edges)
            for end, constraint in successors
            if constraint == STRICT
        ]
        for cycle in find_cycles(self.edges, strict):
            steps = self._steps(cycle)
            events = [event for node, _ in cycle if (event := self.events[node]) is not None]
            reason = f"{steps[0].before} would be strictly before itself"
            nodes = tuple(dict.fromkeys(map(self._event_name, events)))
            yield Violation(STRICT, nodes, reason, cycle=steps, bundle=self.unified.document.bundle)

    def _steps(self, cycle: list[tuple[int, int]]) -> tuple[CycleStep, ...]:
        """Return the steps from event to event; nodes without an event between two of them belong to one step."""
        first = next(index for index, (node, _) in enumerate(cycle) if self.events[node] is not None)
        cycle = [*cycle[first:], *cycle[: first + 1]]
        steps: list[CycleStep] = []
        before, constraints = cycle[0][0], dict[int, None]()
        for (_, constraint), (after, _) in pairwise(cycle):
            if constraint != NO_CONSTRAINT:
                constraints[constraint] = None
            if self.events[after] is not None:
                steps.append(self._step(before, after, tuple(constraints)))
                before, constraints = after, {}
        return tuple(steps)

    def _step(self, before: int, after: int, constraints: tuple[int, ...]) -> CycleStep:
        events = [event for node in (before, after) if (event := self.events[node]) is not None]
        first, second = (self.unified.phrase(event.kind, event.identifier, event.owner) for event in events)
        inferences = tuple(sorted({event.inference for event in events} - {STATED}))
        nodes = (self._event_name(events[0]), self._event_name(events[1]))
        rules = tuple(map(rule_iri, (*constraints, *inferences)))
        return CycleStep(
            first, second, constraints, STRICT in constraints, nodes=nodes, inferences=inferences, rules=rules
        )

    def _event_name(self, event: Event) -> str:
        """Return the IRI of an event, or its entity or activity if it has none."""
        name = self.unified.name(event.identifier) if event.identifier is not None else None
        return name if name and name.startswith("<") else self.unified.show(event.owner)

    # ---- questions

    def precedes(self, first: str, second: str, *, strict: bool = False) -> bool:
        """Return whether an event (in Turtle syntax) precedes another; with `strict`, strictly."""
        ends = set(self._find_events(second))
        visited = {(node, False) for node in self._find_events(first)}
        queue = list(visited)
        while queue:
            node, is_strict = queue.pop()
            if node in ends and (is_strict or not strict):
                return True
            for successor, constraint in self.edges[node]:
                state = successor, is_strict or constraint == STRICT
                if state not in visited:
                    visited.add(state)
                    queue.append(state)
        return False

    def _find_events(self, name: str) -> list[int]:
        number = self.unified.document.lookup(name)
        events = []
        if number is not None:
            identifier = self.unified.find(number)
            keys = [(kind, identifier) for kind in prov_terms.EVENTS]
            events = [self._by_identifier[key] for key in keys if key in self._by_identifier]
        if not events:
            raise NodeNotFound(name.strip("<>"))
        return events
