"""A literal, slow implementation of PROV-CONSTRAINTS: every inference adds statements, every pair is compared.

The real checker must give the same verdicts on small documents. A statement is a tuple: a relation, an identifier if
the relation has one, and arguments. `?1` is an unknown, `_:b` a blank node and therefore unknown too, `-` is no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, product

Fact = tuple[str, ...]

IDENTIFIED = ("gen", "use", "inv", "start", "end", "com", "der", "att", "ass", "del", "inf")
DISJOINT = ("gen", "use", "inv", "start", "end", "com", "att", "ass", "del")
TYPES = {
    "gen": "ea.",
    "use": "ae.",
    "inv": "ea.",
    "start": "aea.",
    "end": "aea.",
    "com": "aa",
    "der": "eea..",
    "att": "e.",
    "ass": "a.e",
    "del": "..a",
    "spec": "ee",
    "alt": "ee",
    "mem": "ee",
    "entity": "e",
    "activity": "a..",
}
"""The type of each argument after the identifier by constraint 50: an entity, an activity, or neither."""


class Conflict(Exception):
    """Two different constants that must be equal."""


class LiteralChecker:
    """The chase of one document: `valid`, and `precedes` for named events if there is no conflict."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._unknowns = (f"?{n}" for n in count())
        self.facts = {self._expand(fact) for fact in facts}
        self.same: dict[str, str] = {}
        self.has_conflict = False
        try:
            while self._infer() | self._unify():
                pass
        except Conflict:
            self.has_conflict = True
        self.before = set() if self.has_conflict else set(self._order())
        self.valid = not self.has_conflict and not any(self._impossible()) and not self._is_cyclic()

    def _expand(self, fact: Fact) -> Fact:
        """Replace omitted arguments (empty strings) by unknowns, by definition 4."""
        relation, *rest = fact
        if relation == "der" and rest[3] != "-":
            rest[4:] = ["" if argument == "-" else argument for argument in rest[4:]]
        return relation, *(argument or next(self._unknowns) for argument in rest)

    def of(self, relation: str) -> list[Fact]:
        return [fact[1:] for fact in self.facts if fact[0] == relation]

    def _has(self, relation: str, *pattern: str | None) -> bool:
        return any(all(p is None or p == a for p, a in zip(pattern, fact, strict=True)) for fact in self.of(relation))

    def _infer(self) -> bool:
        """Apply the inferences 5 to 21; return whether they added a fact."""
        inferred = [*self._infer_activities(), *self._infer_events(), *self._infer_agents(), *self._infer_entities()]
        size = len(self.facts)
        self.facts.update(self._expand(fact) for fact in inferred)
        return len(self.facts) > size

    def _infer_activities(self) -> Iterator[Fact]:
        for _, a2, a1 in self.of("com"):  # 5
            if not any(a == a1 and self._has("use", None, a2, e, None) for _, e, a, _ in self.of("gen")):
                e = next(self._unknowns)
                yield from [("gen", "", e, a1, ""), ("use", "", a2, e, "")]
        for (_, e, a1, _), (_, a2, used, _) in product(self.of("gen"), self.of("use")):  # 6
            if e == used and not self._has("com", None, a2, a1):
                yield "com", "", a2, a1
        for a, t1, t2 in self.of("activity"):  # 8
            for relation, t in (("start", t1), ("end", t2)):
                if not self._has(relation, None, a, None, None, t):
                    yield relation, "", a, "", "", t

    def _infer_events(self) -> Iterator[Fact]:
        for (e,) in self.of("entity"):  # 7
            for relation in ("gen", "inv"):
                if not self._has(relation, None, e, None, None):
                    yield relation, "", e, "", ""
        for _, _, e, a, _ in self.of("start") + self.of("end"):  # 9, 10
            if not self._has("gen", None, e, a, None):
                yield "gen", "", e, a, ""
        for _, e2, e1, a, g, u in self.of("der"):  # 11
            if "-" not in (a, g, u):
                yield from [("use", u, a, e1, "")] * (not self._has("use", u, a, e1, None))
                yield from [("gen", g, e2, a, "")] * (not self._has("gen", g, e2, a, None))

    def _infer_agents(self) -> Iterator[Fact]:
        for _, e, agent in self.of("att"):  # 13
            if not any(e == e2 and self._has("ass", None, a, agent, None) for _, e2, a, _ in self.of("gen")):
                a = next(self._unknowns)
                yield from [("gen", "", e, a, ""), ("ass", "", a, agent, "")]
        for _, delegate, responsible, a in self.of("del"):  # 14
            for agent in (delegate, responsible):
                if not self._has("ass", None, a, agent, None):
                    yield "ass", "", a, agent, ""
        for relation in IDENTIFIED[:-1]:  # 15
            yield from (("inf", name, first, second) for name, first, second, *_ in self.of(relation))

    def _infer_entities(self) -> Iterator[Fact]:
        yield from (("alt", e, e) for (e,) in self.of("entity"))  # 16
        for (e1, e2), (e3, e4) in product(self.of("alt"), repeat=2):  # 17, 18
            yield from [("alt", e2, e1)] + [("alt", e1, e4)] * (e2 == e3)
        for (e1, e2), (e3, e4) in product(self.of("spec"), repeat=2):  # 19
            yield from [("spec", e1, e4)] * (e2 == e3)
        for e2, e1 in self.of("spec"):  # 20, 21
            yield "alt", e2, e1
            yield from ((kind, e2) for kind in ("entity", "empty") if self._has(kind, e1))

    def _unify(self) -> bool:
        """Apply the key and uniqueness constraints 22 to 29 to one pair."""
        for first, second in self._equal():
            if first != second:
                if not _is_unknown(first) and not _is_unknown(second):
                    raise Conflict(first, second)
                old, new = (first, second) if _is_unknown(first) else (second, first)
                if old[0] == "_" and new[0] == "?":
                    old, new = new, old
                self.same[old] = new
                self.facts = {tuple(new if part == old else part for part in fact) for fact in self.facts}
                return True
        return False

    def _equal(self) -> Iterator[tuple[str, str]]:
        for relation in (*IDENTIFIED, "activity"):  # 22, 23
            for statement, other in product(self.of(relation), repeat=2):
                if statement[0] == other[0]:
                    yield from zip(statement, other, strict=True)
        for relation in ("gen", "inv"):  # 24, 25
            for statement, other in product(self.of(relation), repeat=2):
                if statement[1:3] == other[1:3]:
                    yield statement[0], other[0]
        for relation in ("start", "end"):  # 26, 27
            for statement, other in product(self.of(relation), repeat=2):
                if (statement[1], statement[3]) == (other[1], other[3]):
                    yield statement[0], other[0]
        for a, t1, t2 in self.of("activity"):  # 28, 29
            yield from ((t1, time) for _, a2, _, _, time in self.of("start") if a2 == a)
            yield from ((t2, time) for _, a2, _, _, time in self.of("end") if a2 == a)

    def _order(self) -> Iterator[tuple[str, str, bool]]:
        """Iterate over the ordered events by the constraints 30 to 49, and whether the order is strict."""
        gen, use, inv, start, end = map(self.of, ("gen", "use", "inv", "start", "end"))
        for (event, a1, *_), (later, a2, *_) in [
            *product(start, end),  # 30
            *product(start, start),  # 31
            *product(end, end),  # 32
            *product(start, use),  # 33
            *product(use, end),  # 33
            *product(gen, inv),  # 36
            *product(gen, gen),  # 39
            *product(inv, inv),  # 40
            *[(s, (g[0], g[2])) for s, g in product(start, gen)],  # 34
            *[((g[0], g[2]), f) for g, f in product(gen, end)],  # 34
            *[(g, (u[0], u[2])) for g, u in product(gen, use)],  # 37
            *[((u[0], u[2]), i) for u, i in product(use, inv)],  # 38
            *[(g, (s[0], s[2])) for g, s in product(gen, start + end)],  # 43, 44
            *[((s[0], s[2]), i) for s, i in product(start + end, inv)],  # 43, 44
        ]:
            if a1 == a2:
                yield event, later, False
        for _, _, _, a, g, u in self.of("der"):  # 41
            if "-" not in (a, g, u):
                yield u, g, False
        joined = {
            **{("com", first, last): None for _, last, first in self.of("com")},
            **{("der", source, derived): None for _, derived, source, *_ in self.of("der")},
            **{("spec", general, special): None for special, general in self.of("spec")},
            **{("ass", activity, agent): None for _, activity, agent, _ in self.of("ass")},
            **{("att", agent, entity): None for _, entity, agent in self.of("att")},
            **{("del", responsible, delegate): None for _, delegate, responsible, _ in self.of("del")},
        }
        for relation, node, other in joined:
            for firsts, first, lasts, last in {
                "com": [(start, node, end, other)],  # 35
                "der": [(gen, node, gen, other)],  # 42
                "spec": [(gen, node, gen, other), (inv, other, inv, node)],  # 45, 46
                "ass": [
                    (start, node, inv, other),
                    (gen, other, end, node),
                    (start, node, end, other),
                    (start, other, end, node),
                ],
                "att": [(gen, node, gen, other), (start, node, gen, other)],  # 48
                "del": [(gen, node, inv, other), (start, node, end, other)],  # 49
            }[relation]:
                for (before, owner, *_), (after, its, *_) in product(firsts, lasts):
                    if owner == first and its == last:
                        yield before, after, relation == "der"

    def _impossible(self) -> Iterator[bool]:
        types: dict[str, set[str]] = {"e": set(), "a": set(), ".": set()}
        for relation, *rest in self.facts:
            arguments = rest[1:] if relation in IDENTIFIED else rest
            for letter, argument in zip(TYPES.get(relation, ""), arguments, strict=False):
                types[letter].add(argument)
        yield bool((types["e"] & types["a"]) - {"-"})  # 50, 55
        yield any(a == "-" and (g, u) != ("-", "-") for *_, a, g, u in self.of("der"))  # 51
        yield any(e1 == e2 for e1, e2 in self.of("spec"))  # 52
        names = {relation: {fact[0] for fact in self.of(relation)} for relation in IDENTIFIED}
        yield any(names[r] & names[s] for r, s in product(DISJOINT, repeat=2) if r != s)  # 53
        elements = {fact[0] for kind in ("entity", "activity", "agent") for fact in self.of(kind)}
        yield any(elements & identifiers for identifiers in names.values())  # 54
        yield any(self._has("empty", c) for c, _ in self.of("mem"))  # 56

    def _is_cyclic(self) -> bool:
        return any(strict and self._reach(after, before, False) for before, after, strict in self.before)

    def _reach(self, first: str, second: str, strict: bool) -> bool:
        visited, queue = {(first, False)}, [(first, False)]
        while queue:
            node, is_strict = queue.pop()
            if node == second and (is_strict or not strict):
                return True
            for before, after, is_strict_edge in self.before:
                state = after, is_strict or is_strict_edge
                if before == node and state not in visited:
                    visited.add(state)
                    queue.append(state)
        return False

    def precedes(self, first: str, second: str, *, strict: bool = False) -> bool:
        while first in self.same:
            first = self.same[first]
        while second in self.same:
            second = self.same[second]
        return self._reach(first, second, strict)


def _is_unknown(name: str) -> bool:
    return name.startswith(("?", "_:"))
