"""Unknowns become what they must be: inferences 9-11 and 14, then the key and uniqueness constraints 22-29, to the end.

Two statements with one identifier are one statement (22, 23), and so are two that say that the same activity did the
same (24-27); what fills their slots is then the same. Where one of the two is unknown, it becomes the other; two that
are known and differ are a violation. Each merge looks again only at the statements that it touches, the fewer ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from provml import rdf
from provml.validation.constraints import term
from provml.validation.constraints.document import NOTHING, Document, Statement
from provml.validation.constraints.rule import LINKS
from provml.validation.constraints.term import Kind
from provml.validation.constraints.verdict import Violation

UNIQUE: dict[Kind, tuple[int, int, str]] = {
    term.GENERATION: (24, 1, "generated"),
    term.INVALIDATION: (25, 1, "invalidated"),
    term.START: (26, 2, "started"),
    term.END: (27, 2, "ended"),
}
"""Which constraint makes two events of one subject the same, by which slot, and the verb for it."""

TIMED: dict[Kind, tuple[int, int]] = {term.START: (28, 0), term.END: (29, 1)}
"""Which constraint gives an event the time of its activity, and which of the times."""

LATE = (term.ACTIVITY_TIMES, term.INFLUENCE)
"""What others ask for: an event for the times of its activity, a statement for the influence of its name (15)."""


class Merged:
    """A document in which all that must be the same is the same: `statements` are each said once."""

    def __init__(self, document: Document, without: Collection[int] = ()) -> None:
        self.document = document
        self.violations: dict[Violation, None] = {}
        self.steps = 0
        """How many statements were looked at, which is what the time goes with."""
        self._without = without
        infer(document)
        names = document.names
        self._parent = list(range(len(names)))
        self._name = list(names)
        self._constant = [name is not None and name[0] != "_" for name in names]
        self._touching: dict[int, list[Statement]] = {}
        self._because: dict[int, frozenset[int]] = {}
        self._waiting = sorted(document.statements, key=lambda one: one.kind in LATE)
        self._merge_all()
        self.statements = self._said_once() if self._touching else document.statements
        del self._touching, self._waiting

    def find(self, number: int) -> int:
        """The number that stands for all that is the same."""
        parent = self._parent
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    def name(self, number: int) -> str | None:
        """What Turtle writes for a number; None for an unknown without a name."""
        return self._name[self.find(number)]

    def show(self, number: int) -> str:
        """What Turtle writes, or a word for what has no name."""
        return (self.name(number) or "something unknown").replace(f"<{rdf.XSD}dateTime>", "xsd:dateTime")

    def tell(self, statement: Statement) -> str:
        """A statement in words: the generation <g> of <e>."""
        if statement.kind is term.ACTIVITY_TIMES:
            return f"the activity {self.show(statement.name)}"
        named = None if statement.kind is term.MENTION else statement.name
        return self.word(statement.kind, named, statement.slots[0])

    def word(self, kind: Kind, number: int | None, subject: int) -> str:
        """A statement in words; a blank node is no name that would help to find it, unless there is nothing else."""
        name = "" if number is None else self.name(number) or ""
        about = self.name(subject)
        shown = name if name.startswith("<") or not about else ""
        return f"the {kind.word}{f' {shown}' if shown else ''}{f' {kind.by} {about}' if about else ''}"

    def _merge_all(self) -> None:
        by_name: dict[tuple[Kind, int], Statement] = {}
        by_actor: dict[tuple[Kind, int, int], Statement] = {}
        find, waiting = self.find, self._waiting
        while waiting:
            statement = waiting.pop()
            self.steps += 1
            kind, name = statement.kind, find(statement.name)
            twin = by_name.setdefault((kind, name), statement)
            if twin is not statement:
                self._same_parts(twin, statement)
            elif kind in LATE and self._touching:  # only now is it known as such: what it has to do with looks again
                waiting.extend(one for one in self._touching[name] if one.kind not in LATE)
            influence = by_name.get((term.INFLUENCE, name))
            if influence is not None and kind not in LATE and kind is not term.MENTION:
                for place in (0, 1):
                    self._same(influence.slots[place], statement.slots[place], 23, statement, place)
            unique = UNIQUE.get(kind)
            if unique is not None:
                subject, actor = find(statement.slots[0]), find(statement.slots[unique[1]])
                twin = by_actor.setdefault((kind, subject, actor), statement)
                if twin is not statement:
                    self._same(twin.name, statement.name, unique[0], statement, None)
            timed = TIMED.get(kind)
            if timed is not None:
                activity = by_name.get((term.ACTIVITY_TIMES, find(statement.slots[0])))
                if activity is not None:
                    self._same(activity.slots[timed[1]], statement.slots[3], timed[0], statement, 3)

    def _same_parts(self, one: Statement, other: Statement) -> None:
        key = 22 if one.kind is term.ACTIVITY_TIMES else 23
        for place, (mine, its) in enumerate(zip(one.slots, other.slots, strict=True)):
            if mine == NOTHING and its != NOTHING:
                one.slots[place] = its
                (self._touching or self._touch())[self.find(its)].append(one)
            elif mine != its and its != NOTHING:
                self._same(mine, its, key, one, place)

    def _same(self, one: int, other: int, number: int, statement: Statement, place: int | None) -> None:
        """Make two the same, or tell that they cannot be."""
        one, other = self.find(one), self.find(other)
        if one == other or number in self._without:
            return
        if self._constant[one] and self._constant[other]:
            self._clash(one, other, number, statement, place)
            return
        touching = self._touching or self._touch()
        if len(touching[one]) < len(touching[other]):
            one, other = other, one
        self._parent[other] = one
        if self._constant[other] or self._name[one] is None:
            self._name[one], self._constant[one] = self._name[other], self._constant[other]
        because = self._because.pop(other, frozenset()) | self._because.get(one, frozenset())
        self._because[one] = because | {number} if place is None else because
        moved = touching.pop(other)
        touching[one] += moved
        self._waiting.extend(moved)

    def _touch(self) -> dict[int, list[Statement]]:
        """Which statements a number is in; made with the first merge, as most documents of one source need none."""
        touching = self._touching = defaultdict[int, list[Statement]](list)
        for statement in self.document.statements:
            touching[statement.name].append(statement)
            for number in statement.slots:
                if number != NOTHING:
                    touching[number].append(statement)
        return touching

    def _clash(self, one: int, other: int, number: int, statement: Statement, place: int | None) -> None:
        first, second = sorted((self.show(one), self.show(other)))
        subject = self.show(statement.slots[0])
        rule: int | str = number
        also = tuple(sorted(self._because.get(self.find(statement.name), ())))
        if place is None:
            actor, verb = self.show(statement.slots[UNIQUE[statement.kind][1]]), UNIQUE[statement.kind][2]
            reason = f"{first} and {second} both say that {actor} {verb} {subject}; they are two and must be one"
            nodes: tuple[str, ...] = (first, second, subject, actor)
        else:
            word = statement.kind.slots[place].word
            if number in (28, 29):
                reason = f"{subject} has the {'start' if number == 28 else 'end'} time {self.show(one)}"
                reason += f" and {self.tell(statement)} has the time {self.show(other)}"
            else:
                reason = f"{self.tell(statement)} has two values for its {word}: {first} and {second}"
            if also:
                reason += f" (it is one by constraint {' and '.join(map(str, also))})"
            if statement.kind is term.MENTION:
                rule = LINKS
            nodes = (self.name(statement.name) or subject, first, second)
        self.violations[Violation(rule, nodes, reason, also, bundle=self.document.bundle)] = None

    def _said_once(self) -> list[Statement]:
        """The statements with what they became, each once."""
        find, kept = self.find, dict[tuple[Any, ...], Statement]()
        for one in self.document.statements:
            one.name = find(one.name)
            one.slots = [number if number == NOTHING else find(number) for number in one.slots]
            kept.setdefault((one.kind, one.name, *one.slots), one)
        return list(kept.values())


def infer(document: Document) -> None:
    """Add what follows from starts, ends, derivations and delegations (9, 10, 11, 14).

    The other inferences change no verdict through a statement of their own. What 5 and 6 add lies between the events
    that constraint 35 orders; 7, 13 and 21 say that an entity has a generation, which `order` knows; 8 gives a start
    and an end that nothing else is before or after, and the times of 28 and 29; 12, 16-18 and 20 make entities into
    alternates, which they may be; 15 matters where two statements of different kinds have one identifier: an influence
    of that name, which `document` or this adds, then takes part in the merging.
    """
    names = document.names
    derivations = {one.name for one in document.statements if one.kind is term.DERIVATION}
    for one in list(document.statements):
        if one.kind in (term.START, term.END):
            trigger, starter = one.slots[1], one.slots[2]
            if names[trigger] is not None or names[starter] is not None:
                document.say(term.GENERATION, None, [trigger, starter, None])
        elif one.kind is term.DERIVATION and one.slots[2] != NOTHING:
            derived, source, activity, generation, usage = one.slots
            if generation == NOTHING:
                generation = one.slots[3] = document.unknown()
            if usage == NOTHING:
                usage = one.slots[4] = document.unknown()
            document.say(term.USAGE, usage, [activity, source, None])
            document.say(term.GENERATION, generation, [derived, activity, None])
            for name in derivations.intersection((generation, usage)):
                document.say(term.INFLUENCE, name, [None, None])
        elif one.kind is term.DELEGATION:
            delegate, responsible, activity = one.slots
            document.say(term.ASSOCIATION, None, [activity, delegate, None])
            document.say(term.ASSOCIATION, None, [activity, responsible, None])
