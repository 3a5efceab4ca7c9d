"""Unification: inferences 9-11 and 14, then the key and uniqueness constraints 22-29 until nothing changes.

Two statements with one identifier are one statement (22, 23), and so are two statements that an activity did the same
to an entity (24-27); the values of their slots are then equal. An unknown becomes the other value; two different known
values are a violation. After a merge only the statements that it affects are examined again, and the smaller set of
the two moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

from provml.rdf.namespaces import XSD
from provml.validation.prov_constraints import prov_terms
from provml.validation.prov_constraints.prov_terms import Kind
from provml.validation.prov_constraints.rules import PROV_LINKS
from provml.validation.prov_constraints.statements import NO_VALUE, STATED, Document, Statement
from provml.validation.prov_constraints.violations import LAST_INFERENCE, Violation


class Uniqueness(NamedTuple):
    """A constraint that makes two events of one subject the same if their actors are equal."""

    constraint: int
    actor_slot: int
    verb: str


class Cause(NamedTuple):
    """Why two values are equal: the constraint, the statement with its slot, and the inferences of the statements.

    The slot is None for identifiers.
    """

    constraint: int
    statement: Statement
    slot: int | None
    inferences: Collection[int]


UNIQUENESS = {
    prov_terms.GENERATION: Uniqueness(24, 1, "generated"),
    prov_terms.INVALIDATION: Uniqueness(25, 1, "invalidated"),
    prov_terms.START: Uniqueness(26, 2, "started"),
    prov_terms.END: Uniqueness(27, 2, "ended"),
}

ACTIVITY_TIME: dict[Kind, tuple[int, int]] = {prov_terms.START: (28, 0), prov_terms.END: (29, 1)}
"""The constraint that equates the time of an event with that of its activity, and the slot of the activity."""

EXAMINED_FIRST = (prov_terms.ACTIVITY_TIMES, prov_terms.INFLUENCE)
"""Statements that others look up: an event looks up the times of its activity, any statement its influence (15)."""


class UnifiedDocument:
    """A document whose equal values are unified; `statements` has each statement once."""

    def __init__(self, document: Document, exclude: Collection[int] = ()) -> None:
        self.document = document
        self.violations: dict[Violation, None] = {}
        self.steps = 0
        """The number of examined statements, which determines the time."""
        self._exclude = exclude
        infer(document)
        names = document.names
        self._parent = list(range(len(names)))
        self._names = list(names)
        self._is_constant = [name is not None and name[0] != "_" for name in names]
        self._uses: dict[int, list[Statement]] = {}
        self._merged_by: dict[int, frozenset[int]] = {}
        self._queue = sorted(document.statements, key=lambda statement: statement.kind in EXAMINED_FIRST)
        self._by_identifier: dict[tuple[Kind, int], Statement] = {}
        self._by_actor: dict[tuple[Kind, int, int], Statement] = {}
        while self._queue:
            self._examine(self._queue.pop())
        self.statements = self._distinct_statements() if self._uses else document.statements
        del self._uses, self._queue, self._by_identifier, self._by_actor

    # ---- names

    def find(self, number: int) -> int:
        """Return the number that represents all numbers unified with this one."""
        parent = self._parent
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    def name(self, number: int) -> str | None:
        """Return the Turtle text of a number, or None for an unknown."""
        return self._names[self.find(number)]

    def show(self, number: int) -> str:
        """Return the Turtle text of a number for a message."""
        if number == NO_VALUE:
            return "none (-)"
        return (self.name(number) or "an unknown node").replace(f"<{XSD}dateTime>", "xsd:dateTime")

    def describe(self, statement: Statement) -> str:
        """Describe a statement: "the generation <g> of <e>"."""
        if statement.kind is prov_terms.ACTIVITY_TIMES:
            return f"the activity {self.show(statement.identifier)}"
        identifier = None if statement.kind is prov_terms.MENTION else statement.identifier
        return self.phrase(statement.kind, identifier, statement.slots[0])

    def phrase(self, kind: Kind, identifier: int | None, subject: int) -> str:
        """Describe a statement by its kind, identifier and subject; a blank identifier is shown without a subject."""
        name = "" if identifier is None else self.name(identifier) or ""
        subject_name = self.name(subject)
        shown = f" {name}" if name and (name.startswith("<") or not subject_name) else ""
        return f"the {kind.noun}{shown}{f' {kind.preposition} {subject_name}' if subject_name else ''}"

    # ---- merging

    def _examine(self, statement: Statement) -> None:
        """Apply the constraints 22 to 29 to a statement."""
        self.steps += 1
        kind, identifier = statement.kind, self.find(statement.identifier)
        other = self._by_identifier.setdefault((kind, identifier), statement)
        if other is not statement:
            self._unify_slots(other, statement)
        elif kind in EXAMINED_FIRST and self._uses:  # new under this identifier: examine what looks it up again
            self._queue.extend(user for user in self._uses[identifier] if user.kind not in EXAMINED_FIRST)
        self._unify_with_influence(statement, identifier)
        if kind in UNIQUENESS:
            self._unify_with_same_actor(statement)
        if kind in ACTIVITY_TIME:
            constraint, slot = ACTIVITY_TIME[kind]
            activity = self._by_identifier.get((prov_terms.ACTIVITY_TIMES, self.find(statement.slots[0])))
            if activity is not None:
                inferences = {activity.inference, statement.inference}
                self._unify(activity.slots[slot], statement.slots[3], Cause(constraint, statement, 3, inferences))

    def _unify_with_influence(self, statement: Statement, identifier: int) -> None:
        influence = self._by_identifier.get((prov_terms.INFLUENCE, identifier))
        if influence is None or statement.kind in EXAMINED_FIRST or statement.kind is prov_terms.MENTION:
            return
        for slot in (0, 1):
            inferences = {influence.inference, statement.inference, 15}
            self._unify(influence.slots[slot], statement.slots[slot], Cause(23, statement, slot, inferences))

    def _unify_with_same_actor(self, statement: Statement) -> None:
        uniqueness = UNIQUENESS[statement.kind]
        subject, actor = self.find(statement.slots[0]), self.find(statement.slots[uniqueness.actor_slot])
        other = self._by_actor.setdefault((statement.kind, subject, actor), statement)
        if other is not statement:
            inferences = {other.inference, statement.inference}
            cause = Cause(uniqueness.constraint, statement, None, inferences)
            self._unify(other.identifier, statement.identifier, cause)

    def _unify_slots(self, first: Statement, second: Statement) -> None:
        key = 22 if first.kind is prov_terms.ACTIVITY_TIMES else 23
        inferences = {first.inference, second.inference}
        for slot, (value, other) in enumerate(zip(first.slots, second.slots, strict=True)):
            if self.document.has_placeholders and NO_VALUE in (value, other) and value != other:
                if key not in self._exclude:
                    self._report_conflict((value, other), Cause(key, first, slot, inferences))
            elif value == NO_VALUE and other != NO_VALUE:
                first.slots[slot] = other
                (self._uses or self._collect_uses())[self.find(other)].append(first)
            elif other not in (value, NO_VALUE):
                self._unify(value, other, Cause(key, first, slot, inferences))

    def _unify(self, first: int, second: int, cause: Cause) -> None:
        """Unify two values, or report a violation if both are known."""
        first, second = self.find(first), self.find(second)
        if first == second or cause.constraint in self._exclude:
            return
        if self._is_constant[first] and self._is_constant[second]:
            self._report_conflict((first, second), cause)
            return
        uses = self._uses or self._collect_uses()
        if len(uses[first]) < len(uses[second]):
            first, second = second, first
        self._parent[second] = first
        if self._is_constant[second] or self._names[first] is None:
            self._names[first], self._is_constant[first] = self._names[second], self._is_constant[second]
        merged_by = self._merged_by.pop(second, frozenset()) | self._merged_by.get(first, frozenset())
        if cause.slot is None:
            merged_by |= {cause.constraint, *cause.inferences} - {STATED}
        self._merged_by[first] = merged_by
        moved = uses.pop(second)
        uses[first] += moved
        self._queue.extend(moved)

    def _collect_uses(self) -> dict[int, list[Statement]]:
        """Collect the statements that use each number; done at the first merge, since most documents need none."""
        uses = self._uses = defaultdict[int, list[Statement]](list)
        for statement in self.document.statements:
            uses[statement.identifier].append(statement)
            for number in statement.slots:
                if number != NO_VALUE:
                    uses[number].append(statement)
        return uses

    def _distinct_statements(self) -> list[Statement]:
        """Replace all numbers by their representatives and drop duplicate statements."""
        find = self.find
        statements: dict[tuple[Any, ...], Statement] = {}
        for statement in self.document.statements:
            statement.identifier = find(statement.identifier)
            statement.slots = [number if number == NO_VALUE else find(number) for number in statement.slots]
            statements.setdefault((statement.kind, statement.identifier, *statement.slots), statement)
        return list(statements.values())

    # ---- violations

    def _report_conflict(self, values: tuple[int, int], cause: Cause) -> None:
        constraint, statement, slot, inferences = cause
        first, second = sorted(map(self.show, values))
        subject = self.show(statement.slots[0])
        merged_by = self._merged_by.get(self.find(statement.identifier), frozenset())
        also = tuple(sorted(number for number in merged_by if number > LAST_INFERENCE))
        inferred_by = tuple(sorted({*inferences, *merged_by} - {STATED, *also}))
        rule: int | str = constraint
        if slot is None:
            uniqueness = UNIQUENESS[statement.kind]
            actor = self.show(statement.slots[uniqueness.actor_slot])
            reason = f"{first} and {second} both say that {actor} {uniqueness.verb} {subject}, but must be the same"
            nodes: tuple[str, ...] = (first, second, subject, actor)
        else:
            reason = self._describe_conflict(values, constraint, statement, slot)
            if also:
                reason += f" (merged by constraint {' and '.join(map(str, also))})"
            if statement.kind is prov_terms.MENTION:
                rule = PROV_LINKS
            nodes = (self.name(statement.identifier) or subject, first, second)
        violation = Violation(rule, nodes, reason, also, bundle=self.document.bundle, inferred_by=inferred_by)
        self.violations[violation] = None

    def _describe_conflict(self, values: tuple[int, int], constraint: int, statement: Statement, slot: int) -> str:
        if constraint in (28, 29):
            event = "start" if constraint == 28 else "end"
            times = f"the {event} time {self.show(values[0])}", f"the time {self.show(values[1])}"
            return f"{self.show(statement.slots[0])} has {times[0]} and {self.describe(statement)} has {times[1]}"
        first, second = sorted(map(self.show, values))
        return (
            f"{self.describe(statement)} has two values for its {statement.kind.slots[slot].noun}: {first} and {second}"
        )


def infer(document: Document) -> None:
    """Add the statements that follow from starts, ends, derivations and delegations (9, 10, 11, 14).

    The statements of the other inferences do not change a verdict. Those of 5 and 6 are between the events that
    constraint 35 orders. 7, 13 and 21 say that an entity has a generation, which `event_order` handles. 8 gives a start
    and an end that no other event precedes or follows, and the times of 28 and 29. 12, 16-18 and 20 make entities
    alternates, which is allowed. 15 matters if two statements of different kinds have one identifier: `statements` or
    this function then adds an influence with that identifier, which takes part in unification.
    """
    names = document.names
    derivations = {item.identifier for item in document.statements if item.kind is prov_terms.DERIVATION}
    for statement in list(document.statements):
        if statement.kind in (prov_terms.START, prov_terms.END):
            trigger, actor = statement.slots[1], statement.slots[2]
            if names[trigger] is not None or names[actor] is not None:
                number = 9 if statement.kind is prov_terms.START else 10
                document.add(prov_terms.GENERATION, None, [trigger, actor, None], inference=number)
        elif statement.kind is prov_terms.DERIVATION and statement.slots[2] != NO_VALUE:
            _infer_from_derivation(document, statement, derivations)
        elif statement.kind is prov_terms.DELEGATION:
            delegate, responsible, activity = statement.slots
            document.add(prov_terms.ASSOCIATION, None, [activity, delegate, None], inference=14)
            document.add(prov_terms.ASSOCIATION, None, [activity, responsible, None], inference=14)


def _infer_from_derivation(document: Document, statement: Statement, derivations: set[int]) -> None:
    """Add the usage of the source and the generation of the result by the activity of a derivation (11)."""
    for slot in (3, 4):
        if statement.slots[slot] == NO_VALUE:
            statement.slots[slot] = document.new_unknown()
    derived, source, activity, generation, usage = statement.slots
    document.add(prov_terms.USAGE, usage, [activity, source, None], inference=11)
    document.add(prov_terms.GENERATION, generation, [derived, activity, None], inference=11)
    for identifier in derivations.intersection((generation, usage)):
        document.add(prov_terms.INFLUENCE, identifier, [None, None], inference=15)
