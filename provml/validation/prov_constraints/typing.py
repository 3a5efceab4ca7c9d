"""Typing (50, 55), the impossibility constraints 51-54 and 56, and mandatory parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias

from provml.validation.cycles import find_cycles
from provml.validation.prov_constraints import prov_terms
from provml.validation.prov_constraints.prov_terms import Kind
from provml.validation.prov_constraints.rules import PROV_DM
from provml.validation.prov_constraints.statements import NO_VALUE, STATED, Statement
from provml.validation.prov_constraints.unification import UnifiedDocument
from provml.validation.prov_constraints.violations import Violation

MAX_CYCLE_NODES = 10
"""Nodes shown of a cycle of specializations."""

DECLARED = "it is declared as one"
SPECIALIZED = "it is a specialization of an entity"

TypeReason: TypeAlias = tuple[Statement, int] | str
"""Why a node has a type: a slot of a statement, or a description."""


def inferred_entities(unified: UnifiedDocument) -> tuple[set[int], set[int]]:
    """Return the declared entities and the empty collections, with their specializations (inferences 19 and 21)."""
    find, document = unified.find, unified.document
    specializations: dict[int, list[int]] = defaultdict(list)
    for special, general in document.specializations:
        specializations[find(general)].append(find(special))

    def closure(nodes: Iterable[int]) -> set[int]:
        reached = {find(node) for node in nodes}
        queue = [node for node in reached if node in specializations]
        while queue:
            for node in specializations.get(queue.pop(), ()):
                if node not in reached:
                    reached.add(node)
                    queue.append(node)
        return reached

    return closure(document.declared[prov_terms.ENTITY]), closure(document.empty_collections)


def find_impossible(
    unified: UnifiedDocument, entities: set[int], empty: set[int], exclude: Collection[int]
) -> Iterator[Violation]:
    """Iterate over the violations of 50 to 56 and of mandatory parts."""
    for violations in (
        _missing_parts(unified),
        _derivations_without_activity(unified),
        _specialization_cycles(unified),
        _overlapping_identifiers(unified, entities),
        _entities_and_activities(unified, entities, with_typing=50 not in exclude),
        _members_of_empty_collections(unified, empty),
    ):
        yield from (violation for violation in violations if violation.constraint not in exclude)


def _missing_parts(unified: UnifiedDocument) -> Iterator[Violation]:
    for statement, slot in unified.document.missing:
        nodes = (unified.name(statement.identifier) or unified.show(statement.slots[0]),)
        reason = f"{unified.describe(statement)} has no {statement.kind.slots[slot].noun}"
        yield Violation(PROV_DM, nodes, reason, bundle=unified.document.bundle)


def _derivations_without_activity(unified: UnifiedDocument) -> Iterator[Violation]:
    """Find derivations with a generation or usage but without an activity (51)."""
    for statement in unified.statements:
        if statement.kind is prov_terms.DERIVATION and statement.slots[2] == NO_VALUE:
            events = [unified.show(number) for number in statement.slots[3:] if number != NO_VALUE]
            if events:
                reason = f"{unified.describe(statement)} names {' and '.join(events)} but no activity"
                nodes = (unified.show(statement.slots[0]), unified.show(statement.slots[1]), *events)
                yield Violation(51, nodes, reason, bundle=unified.document.bundle)


def _specialization_cycles(unified: UnifiedDocument) -> Iterator[Violation]:
    """Find cycles of specializations (52): one for each set of entities that specialize each other."""
    find, numbers = unified.find, dict[int, int]()
    specializations = [
        (numbers.setdefault(find(special), len(numbers)), numbers.setdefault(find(general), len(numbers)), 52)
        for special, general in sorted(unified.document.specializations)
    ]
    edges: list[list[tuple[int, int]]] = [[] for _ in numbers]
    for special, general, constraint in specializations:
        edges[special].append((general, constraint))
    nodes = list(numbers)
    for cycle in find_cycles(edges, specializations):
        names = [unified.show(nodes[node]) for node, _ in cycle]
        shown = [*names[:MAX_CYCLE_NODES], "…"] if len(names) > MAX_CYCLE_NODES else names
        reason = f"{names[0]} is a specialization of itself: {' specializes '.join([*shown, names[0]])}"
        also = (19,) if len(names) > 1 else ()
        yield Violation(52, tuple(names), reason, also, bundle=unified.document.bundle)


def _overlapping_identifiers(unified: UnifiedDocument, entities: set[int]) -> Iterator[Violation]:
    """Find identifiers of two kinds of statements (53), and of a statement and an element (54)."""
    find, document = unified.find, unified.document
    kinds: dict[int, dict[Kind, None]] = defaultdict(dict)
    for statement in unified.statements:
        has_identifier = statement.kind not in (prov_terms.ACTIVITY_TIMES, prov_terms.MENTION)
        if has_identifier and unified.name(statement.identifier):
            kinds[statement.identifier][statement.kind] = None
    elements = {
        prov_terms.ENTITY: entities,
        prov_terms.ACTIVITY: {find(node) for node in document.declared[prov_terms.ACTIVITY]},
        prov_terms.AGENT: {find(node) for node in document.declared[prov_terms.AGENT]},
    }
    for number, statement_kinds in kinds.items():
        nouns = [kind.noun for kind in statement_kinds if kind in prov_terms.DISJOINT]
        if len(nouns) > 1:
            name = unified.show(number)
            reason = f"{name} is {' and '.join(map(_with_article, nouns))}"
            yield Violation(53, (name,), reason, bundle=document.bundle)
        for element, nodes in elements.items():
            if number in nodes:
                name, noun = unified.show(number), next(iter(statement_kinds)).noun
                reason = f"{name} is {_with_article(element)} and {_with_article(noun)}"
                yield Violation(54, (name,), reason, bundle=document.bundle)


def _entities_and_activities(unified: UnifiedDocument, entities: set[int], *, with_typing: bool) -> Iterator[Violation]:
    """Find nodes that are both an entity and an activity (55), with the reasons for both (50)."""
    find, document = unified.find, unified.document
    types: dict[str, dict[int, TypeReason]] = {
        prov_terms.ENTITY: {
            **dict.fromkeys(entities, SPECIALIZED),
            **{find(node): DECLARED for node in document.declared[prov_terms.ENTITY]},
        },
        prov_terms.ACTIVITY: {find(node): DECLARED for node in document.declared[prov_terms.ACTIVITY]},
    }
    if with_typing:
        _add_types_of_slots(unified, types)
        _add_entities_of_pairs(unified, types[prov_terms.ENTITY])
    entity, activity = types[prov_terms.ENTITY], types[prov_terms.ACTIVITY]
    for node in sorted(entity.keys() & activity.keys(), key=unified.show):
        name = unified.show(node)
        reasons = entity[node], activity[node]
        texts = [_describe_reason(unified, reason) for reason in reasons]
        also = (50,) if any(reason is not DECLARED for reason in reasons) else ()
        text = f"{name} is an entity ({texts[0]}) and an activity ({texts[1]})"
        statements = [reason[0] for reason in reasons if not isinstance(reason, str)]
        inferred_by = {statement.inference for statement in statements} - {STATED}
        if SPECIALIZED in reasons:
            inferred_by.add(21)
        yield Violation(55, (name,), text, also, bundle=document.bundle, inferred_by=tuple(sorted(inferred_by)))


def _add_types_of_slots(unified: UnifiedDocument, types: dict[str, dict[int, TypeReason]]) -> None:
    for statement in unified.statements:
        for index, slot in enumerate(statement.kind.slots):
            if slot.type in types and statement.slots[index] != NO_VALUE:
                types[slot.type].setdefault(statement.slots[index], (statement, index))


def _add_entities_of_pairs(unified: UnifiedDocument, entities: dict[int, TypeReason]) -> None:
    document = unified.document
    for noun, pairs in (
        ("a specialization", document.specializations),
        ("an alternate", document.alternates),
        ("a membership", document.members),
    ):
        for pair in pairs:
            for node in pair:
                entities.setdefault(unified.find(node), f"it takes part in {noun}")


def _members_of_empty_collections(unified: UnifiedDocument, empty: set[int]) -> Iterator[Violation]:
    for collection, member in sorted(unified.document.members):
        if unified.find(collection) in empty:
            name, other = unified.show(collection), unified.show(member)
            reason = f"{name} is an empty collection and has the member {other}"
            is_stated = unified.find(collection) in map(unified.find, unified.document.empty_collections)
            inferred_by = () if is_stated else (21,)
            yield Violation(56, (name, other), reason, bundle=unified.document.bundle, inferred_by=inferred_by)


def _describe_reason(unified: UnifiedDocument, reason: TypeReason) -> str:
    if isinstance(reason, str):
        return reason
    statement, slot = reason
    return f"it is the {statement.kind.slots[slot].noun} of {unified.describe(statement)}"


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" and noun != "usage" else f"a {noun}"
