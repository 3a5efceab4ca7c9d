"""What cannot be: types that exclude each other (50, 55), the impossibilities 51-54 and 56, and mandatory parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from provml.validation.constraints import term
from provml.validation.constraints.circle import circles
from provml.validation.constraints.document import NOTHING, Statement
from provml.validation.constraints.merging import Merged
from provml.validation.constraints.rule import DM
from provml.validation.constraints.term import Kind
from provml.validation.constraints.verdict import Violation

LONG = 10
"""More nodes of a circle than these are not all shown."""

DECLARED = "it is declared one"

Reason = tuple[Statement, int] | str


def entities(merged: Merged) -> tuple[set[int], set[int]]:
    """The declared entities and the empty collections, with what specializes them (inferences 19 and 21)."""
    find, document = merged.find, merged.document
    special: dict[int, list[int]] = defaultdict(list)
    for one, general in document.specializations:
        special[find(general)].append(find(one))
    found = []
    for start in (document.declared[term.ENTITY], document.empty):
        reached = {find(node) for node in start}
        waiting = [node for node in reached if node in special]
        while waiting:
            for node in special.get(waiting.pop(), ()):
                if node not in reached:
                    reached.add(node)
                    waiting.append(node)
        found.append(reached)
    return found[0], found[1]


def impossible(merged: Merged, declared: set[int], empty: set[int], without: Collection[int]) -> Iterator[Violation]:
    """Every violation of 51 to 56 and of the mandatory parts."""
    for found in (
        _missing(merged),
        _unspecified(merged),
        _reflexive(merged),
        _overlapping(merged, declared),
        _both(merged, declared, 50 not in without),
        _filled(merged, empty),
    ):
        yield from (violation for violation in found if violation.constraint not in without)


def _missing(merged: Merged) -> Iterator[Violation]:
    for statement, place in merged.document.missing:
        told = merged.tell(statement)
        nodes = (merged.name(statement.name) or merged.show(statement.slots[0]),)
        yield Violation(DM, nodes, f"{told} has no {statement.kind.slots[place].word}", bundle=merged.document.bundle)


def _unspecified(merged: Merged) -> Iterator[Violation]:
    for one in merged.statements:
        if one.kind is term.DERIVATION and one.slots[2] == NOTHING:
            named = [merged.show(number) for number in one.slots[3:] if number != NOTHING]
            if named:
                reason = f"{merged.tell(one)} names {' and '.join(named)} but no activity"
                nodes = (merged.show(one.slots[0]), merged.show(one.slots[1]), *named)
                yield Violation(51, nodes, reason, bundle=merged.document.bundle)


def _reflexive(merged: Merged) -> Iterator[Violation]:
    """Circles of specializations: one for each set of entities that specialize each other."""
    find, numbers = merged.find, dict[int, int]()
    through = [
        (numbers.setdefault(find(one), len(numbers)), numbers.setdefault(find(general), len(numbers)), 52)
        for one, general in sorted(merged.document.specializations)
    ]
    edges: list[list[tuple[int, int]]] = [[] for _ in numbers]
    for one, general, by in through:
        edges[one].append((general, by))
    nodes = list(numbers)
    for circle in circles(edges, through):
        names = [merged.show(nodes[node]) for node, _ in circle]
        shown = [*names[:LONG], "…"] if len(names) > LONG else names
        reason = f"{names[0]} is a specialization of itself: {' specializes '.join([*shown, names[0]])}"
        yield Violation(52, tuple(names), reason, (19,) if len(names) > 1 else (), bundle=merged.document.bundle)


def _overlapping(merged: Merged, declared: set[int]) -> Iterator[Violation]:
    """Identifiers of two kinds of statements (53), and of a statement and an element (54)."""
    find, document = merged.find, merged.document
    kinds: dict[int, dict[Kind, None]] = defaultdict(dict)
    for one in merged.statements:
        if one.kind is not term.ACTIVITY_TIMES and one.kind is not term.MENTION and merged.name(one.name):
            kinds[one.name][one.kind] = None
    elements = {
        term.ENTITY: declared,
        **{sort: {find(node) for node in document.declared[sort]} for sort in (term.ACTIVITY, term.AGENT)},
    }
    for number, found in kinds.items():
        disjoint = [kind.word for kind in found if kind in term.DISJOINT]
        if len(disjoint) > 1:
            name = merged.show(number)
            reason = f"{name} is {' and '.join(f'{_a(word)} {word}' for word in disjoint)}"
            yield Violation(53, (name,), reason, bundle=document.bundle)
        for sort, nodes in elements.items():
            if number in nodes:
                name, word = merged.show(number), next(iter(found)).word
                reason = f"{name} is {_a(sort)} {sort} and {_a(word)} {word}"
                yield Violation(54, (name,), reason, bundle=document.bundle)


def _both(merged: Merged, declared: set[int], typing: bool) -> Iterator[Violation]:
    """What is an entity and an activity, with why it is the one and the other (50, 55)."""
    find, document = merged.find, merged.document
    sorts: dict[str, dict[int, Reason]] = {
        term.ENTITY: {
            **dict.fromkeys(declared, "it is a specialization of an entity"),
            **{find(node): DECLARED for node in document.declared[term.ENTITY]},
        },
        term.ACTIVITY: {find(node): DECLARED for node in document.declared[term.ACTIVITY]},
    }
    if typing:
        for one in merged.statements:
            for place, slot in enumerate(one.kind.slots):
                if slot.sort in sorts and one.slots[place] != NOTHING:
                    sorts[slot.sort].setdefault(one.slots[place], (one, place))
        for word, pairs in (
            ("specialization", document.specializations),
            ("alternate", document.alternates),
            ("membership", document.members),
        ):
            for one_end, other_end in pairs:
                for node in (one_end, other_end):
                    sorts[term.ENTITY].setdefault(find(node), f"it takes part in a {word}")
    entity, activity = sorts[term.ENTITY], sorts[term.ACTIVITY]
    for node in sorted(entity.keys() & activity.keys(), key=merged.show):
        name = merged.show(node)
        whys = [_why(merged, found[node]) for found in (entity, activity)]
        reason = f"{name} is an entity ({whys[0]}) and an activity ({whys[1]})"
        also = (50,) if any(found[node] is not DECLARED for found in (entity, activity)) else ()
        yield Violation(55, (name,), reason, also, bundle=document.bundle)


def _filled(merged: Merged, empty: set[int]) -> Iterator[Violation]:
    for collection, member in sorted(merged.document.members):
        if merged.find(collection) in empty:
            name, other = merged.show(collection), merged.show(member)
            reason = f"{name} is an empty collection and has the member {other}"
            yield Violation(56, (name, other), reason, bundle=merged.document.bundle)


def _why(merged: Merged, reason: Reason) -> str:
    if isinstance(reason, str):
        return reason
    statement, place = reason
    return f"it is the {statement.kind.slots[place].word} of {merged.tell(statement)}"


def _a(word: str) -> str:
    return "an" if word[0] in "aeiou" and word != "usage" else "a"
