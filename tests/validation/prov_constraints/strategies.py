"""Random PROV documents as facts, and facts as triples of PROV-O."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pyoxigraph as ox
from hypothesis import strategies as st

from validation.prov_constraints.literal import IDENTIFIED, Fact

EX, PROV = "http://example.org/", "http://www.w3.org/ns/prov#"
TYPE = ox.NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
TIME = ox.NamedNode("http://www.w3.org/2001/XMLSchema#dateTime")

FORMS = {
    "gen": ("Generation", "wasGeneratedBy", ("activity", "atTime")),
    "use": ("Usage", "used", ("entity", "atTime")),
    "inv": ("Invalidation", "wasInvalidatedBy", ("activity", "atTime")),
    "start": ("Start", "wasStartedBy", ("entity", "hadActivity", "atTime")),
    "end": ("End", "wasEndedBy", ("entity", "hadActivity", "atTime")),
    "com": ("Communication", "wasInformedBy", ("activity",)),
    "der": ("Derivation", "wasDerivedFrom", ("entity", "hadActivity", "hadGeneration", "hadUsage")),
    "att": ("Attribution", "wasAttributedTo", ("agent",)),
    "ass": ("Association", "wasAssociatedWith", ("agent", "hadPlan")),
    "del": ("Delegation", "actedOnBehalfOf", ("agent", "hadActivity")),
    "inf": ("Influence", "wasInfluencedBy", ("influencer",)),
}
PAIRS = {"spec": "specializationOf", "alt": "alternateOf", "mem": "hadMember"}
CLASSES = {"entity": "Entity", "agent": "Agent", "empty": "EmptyCollection", "activity": "Activity"}


def term(name: str) -> ox.NamedNode | ox.BlankNode | ox.Literal:
    if name.startswith("_:"):
        return ox.BlankNode(name[2:])
    if name[0] == "t":
        return ox.Literal(f"2020-01-01T0{name[1]}:00:00", datatype=TIME)
    return ox.NamedNode(EX + name)


def triples(facts: Iterable[Fact]) -> list[ox.Triple]:
    """Return facts in PROV-O: in the short form if they have the two ends only, else in the qualified form."""
    result: dict[ox.Triple, None] = {}
    blank = (ox.BlankNode(f"own{n}") for n in count())

    def add(subject: ox.NamedNode | ox.BlankNode, name: str, other: ox.NamedNode | ox.BlankNode | ox.Literal) -> None:
        result[ox.Triple(subject, ox.NamedNode(PROV + name), other)] = None

    for relation, first, *rest in facts:
        node = term(first) if first else next(blank)
        if relation in PAIRS:
            add(node, PAIRS[relation], term(rest[0]))
        elif relation in CLASSES:
            result[ox.Triple(node, TYPE, ox.NamedNode(PROV + CLASSES[relation]))] = None
            for name, time in zip(("startedAtTime", "endedAtTime"), rest, strict=False):
                if time:
                    add(node, name, term(time))
        else:
            cls, short, parts = FORMS[relation]
            filled = [(part, value) for part, value in zip(parts, rest[1:], strict=True) if value not in ("", "-")]
            if not first and len(filled) == 1 and filled[0][0] == parts[0]:
                add(term(rest[0]), short, term(filled[0][1]))
            else:
                result[ox.Triple(node, TYPE, ox.NamedNode(PROV + cls))] = None
                add(term(rest[0]), f"qualified{cls}", node)
                for part, value in filled:
                    add(node, part, term(value))
    return list(result)


entities, activities, agents = (
    st.sampled_from(names) for names in (["e1", "e2", "e3", "_:e"], ["a1", "a2", "_:a"], ["ag1", "e1", "a1"])
)
times = st.sampled_from(["", "", "t1", "t2"])


def maybe(names: st.SearchStrategy[str], other: str = "") -> st.SearchStrategy[str]:
    return st.just(other) | names


def ids(letter: str) -> st.SearchStrategy[str]:
    return st.sampled_from([f"{letter}1", f"{letter}2", f"_:{letter}", ""])


FACTS: dict[str, tuple[st.SearchStrategy[str], ...]] = {
    "gen": (ids("g"), entities, maybe(activities), times),
    "use": (ids("u"), activities, maybe(entities), times),
    "inv": (ids("i"), entities, maybe(activities), times),
    "start": (ids("s"), activities, maybe(entities), maybe(activities), times),
    "end": (ids("f"), activities, maybe(entities), maybe(activities), times),
    "com": (ids("c"), activities, activities),
    "der": (ids("d"), entities, entities, maybe(activities, "-"), maybe(ids("g"), "-"), maybe(ids("u"), "-")),
    "att": (ids("r"), entities, agents),
    "ass": (ids("o"), activities, maybe(agents), maybe(entities, "-")),
    "del": (ids("l"), agents, agents, maybe(activities)),
    "inf": (st.sampled_from(["g1", "u1", "s1", "x1"]), entities, activities),
    "spec": (entities, entities),
    "alt": (entities, entities),
    "mem": (entities, entities),
    "entity": (entities,),
    "agent": (agents,),
    "empty": (entities,),
    "activity": (activities, times, times),
}


def _merge_by_identifier(facts: list[Fact]) -> list[Fact]:
    """Return facts that RDF can express: all facts of one derivation or association share their parts."""
    parts: dict[tuple[str, str, int], str] = {}
    facts = [
        tuple("-" if not part and fact[0] == "der" and n > 3 else part for n, part in enumerate(fact)) for fact in facts
    ]
    for fact in facts:
        for place, part in enumerate(fact):
            if part not in ("", "-"):
                parts.setdefault((fact[0], fact[1], place), part)
    return [
        tuple(
            parts.get((fact[0], fact[1], n), part) if part == "-" and fact[1] else part for n, part in enumerate(fact)
        )
        for fact in facts
    ] + [("entity", fact[1]) for fact in facts if fact[0] == "empty"]


def _facts(*relations: str, size: int = 8) -> st.SearchStrategy[list[Fact]]:
    fact = st.sampled_from(relations).flatmap(lambda relation: st.tuples(st.just(relation), *FACTS[relation]))
    return st.lists(fact, min_size=2, max_size=size).map(_merge_by_identifier)


THEMES = {
    "everything": _facts(*FACTS),
    "derivation": _facts("gen", "use", "der", "entity", "start", "end", "inv"),
    "specialization": _facts("spec", "gen", "inv", "use", "entity", "der", "empty", "mem"),
    "responsibility": _facts("ass", "att", "del", "gen", "inv", "start", "end", "agent", size=7),
    "times": _facts("activity", "start", "end", "gen", size=6),
    "influence": _facts("inf", "gen", "use", "start", size=5),
}
"""Documents of all kinds of statements, and of related kinds."""

documents = THEMES["everything"]


def events(facts: Iterable[Fact]) -> list[str]:
    """Return the identifiers of the events."""
    return sorted({fact[1] for fact in facts if fact[0] in IDENTIFIED[:5] and fact[1]})
