"""PROV-CONSTRAINTS word for word, without regard to speed: every inference adds statements, every pair is compared.

What it says about small documents is what the real checker has to say. A statement is a tuple: a relation, an
identifier where the relation has one, and arguments; `?1` is an unknown, `_:b` a blank node and as such unknown too,
`-` is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, product

Fact = tuple[str, ...]

IDENTIFIED = ("gen", "use", "inv", "start", "end", "com", "der", "att", "ass", "del", "inf")
DISJOINT = ("gen", "use", "inv", "start", "end", "com", "att", "ass", "del")
SORTS = {
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
"""What constraint 50 makes of each argument after the identifier: an entity, an activity, or neither."""


class Clash(Exception):
    """Two constants that would have to be one."""


class Literal:
    """The chase of one document: `valid`, and `precedes` for named events where no two constants clashed."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._fresh = (f"?{n}" for n in count())
        self.facts = {self._expanded(fact) for fact in facts}
        self.same: dict[str, str] = {}
        self.clashed = False
        try:
            while self._infer() | self._unify():
                pass
        except Clash:
            self.clashed = True
        self.before = set() if self.clashed else set(self._order())
        self.valid = not self.clashed and not any(self._impossible()) and not self._circular()

    def _expanded(self, fact: Fact) -> Fact:
        """Definition 4: unknowns for what was left out (given as the empty text)."""
        relation, *rest = fact
        if relation == "der" and rest[3] != "-":
            rest[4:] = ["" if argument == "-" else argument for argument in rest[4:]]
        return relation, *(argument or next(self._fresh) for argument in rest)

    def of(self, relation: str) -> list[Fact]:
        return [fact[1:] for fact in self.facts if fact[0] == relation]

    def _has(self, relation: str, *pattern: str | None) -> bool:
        return any(all(p is None or p == a for p, a in zip(pattern, fact, strict=True)) for fact in self.of(relation))

    def _infer(self) -> bool:
        """Inferences 5 to 21; one that is already witnessed adds nothing."""
        new: list[Fact] = []
        for _, a2, a1 in self.of("com"):  # 5
            if not any(a == a1 and self._has("use", None, a2, e, None) for _, e, a, _ in self.of("gen")):
                e = next(self._fresh)
                new += [("gen", "", e, a1, ""), ("use", "", a2, e, "")]
        for (_, e, a1, _), (_, a2, used, _) in product(self.of("gen"), self.of("use")):  # 6
            if e == used and not self._has("com", None, a2, a1):
                new.append(("com", "", a2, a1))
        for (e,) in self.of("entity"):  # 7, 16
            new += [(one, "", e, "", "") for one in ("gen", "inv") if not self._has(one, None, e, None, None)]
            new += [("alt", e, e)]
        for a, t1, t2 in self.of("activity"):  # 8
            for one, t in (("start", t1), ("end", t2)):
                if not self._has(one, None, a, None, None, t):
                    new.append((one, "", a, "", "", t))
        for _, _, e, a, _ in self.of("start") + self.of("end"):  # 9, 10
            if not self._has("gen", None, e, a, None):
                new.append(("gen", "", e, a, ""))
        for _, e2, e1, a, g, u in self.of("der"):  # 11
            if "-" not in (a, g, u):
                new += [("use", u, a, e1, "")] * (not self._has("use", u, a, e1, None))
                new += [("gen", g, e2, a, "")] * (not self._has("gen", g, e2, a, None))
        for _, e, agent in self.of("att"):  # 13
            if not any(e == e2 and self._has("ass", None, a, agent, None) for _, e2, a, _ in self.of("gen")):
                a = next(self._fresh)
                new += [("gen", "", e, a, ""), ("ass", "", a, agent, "")]
        for _, one, other, a in self.of("del"):  # 14
            new += [("ass", "", a, ag, "") for ag in (one, other) if not self._has("ass", None, a, ag, None)]
        for relation in IDENTIFIED[:-1]:  # 15
            new += [("inf", name, one, other) for name, one, other, *_ in self.of(relation)]
        for (e1, e2), (e3, e4) in product(self.of("alt"), repeat=2):  # 17, 18
            new += [("alt", e2, e1)] + [("alt", e1, e4)] * (e2 == e3)
        for (e1, e2), (e3, e4) in product(self.of("spec"), repeat=2):  # 19
            new += [("spec", e1, e4)] * (e2 == e3)
        for e2, e1 in self.of("spec"):  # 20, 21
            new += [("alt", e2, e1)]
            new += [(one, e2) for one in ("entity", "empty") if self._has(one, e1)]
        size = len(self.facts)
        self.facts.update(self._expanded(fact) for fact in new)
        return len(self.facts) > size

    def _unify(self) -> bool:
        """Key and uniqueness constraints 22 to 29, one pair at a time."""
        for one, other in self._equal():
            if one != other:
                if not _unknown(one) and not _unknown(other):
                    raise Clash(one, other)
                gone, stays = (one, other) if _unknown(one) else (other, one)
                if gone[0] == "_" and stays[0] == "?":
                    gone, stays = stays, gone
                self.same[gone] = stays
                self.facts = {tuple(stays if part == gone else part for part in fact) for fact in self.facts}
                return True
        return False

    def _equal(self) -> Iterator[tuple[str, str]]:
        for relation in (*IDENTIFIED, "activity"):  # 22, 23
            for one, other in product(self.of(relation), repeat=2):
                if one[0] == other[0]:
                    yield from zip(one, other, strict=True)
        for relation in ("gen", "inv"):  # 24, 25
            for one, other in product(self.of(relation), repeat=2):
                if one[1:3] == other[1:3]:
                    yield one[0], other[0]
        for relation in ("start", "end"):  # 26, 27
            for one, other in product(self.of(relation), repeat=2):
                if (one[1], one[3]) == (other[1], other[3]):
                    yield one[0], other[0]
        for a, t1, t2 in self.of("activity"):  # 28, 29
            yield from ((t1, time) for _, a2, _, _, time in self.of("start") if a2 == a)
            yield from ((t2, time) for _, a2, _, _, time in self.of("end") if a2 == a)

    def _order(self) -> Iterator[tuple[str, str, bool]]:
        """Constraints 30 to 49: what is before what, and whether strictly."""
        gen, use, inv, start, end = map(self.of, ("gen", "use", "inv", "start", "end"))
        for (one, a1, *_), (other, a2, *_) in [
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
                yield one, other, False
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
        for relation, one, other in joined:
            for firsts, first, lasts, last in {
                "com": [(start, one, end, other)],  # 35
                "der": [(gen, one, gen, other)],  # 42
                "spec": [(gen, one, gen, other), (inv, other, inv, one)],  # 45, 46
                "ass": [
                    (start, one, inv, other),
                    (gen, other, end, one),
                    (start, one, end, other),
                    (start, other, end, one),
                ],
                "att": [(gen, one, gen, other), (start, one, gen, other)],  # 48
                "del": [(gen, one, inv, other), (start, one, end, other)],  # 49
            }[relation]:
                for (before, owner, *_), (after, its, *_) in product(firsts, lasts):
                    if owner == first and its == last:
                        yield before, after, relation == "der"

    def _impossible(self) -> Iterator[bool]:
        sorts: dict[str, set[str]] = {"e": set(), "a": set(), ".": set()}
        for relation, *rest in self.facts:
            arguments = rest[1:] if relation in IDENTIFIED else rest
            for sort, argument in zip(SORTS.get(relation, ""), arguments, strict=False):
                sorts[sort].add(argument)
        yield bool((sorts["e"] & sorts["a"]) - {"-"})  # 50, 55
        yield any(a == "-" and (g, u) != ("-", "-") for *_, a, g, u in self.of("der"))  # 51
        yield any(e1 == e2 for e1, e2 in self.of("spec"))  # 52
        names = {relation: {fact[0] for fact in self.of(relation)} for relation in IDENTIFIED}
        yield any(names[r] & names[s] for r, s in product(DISJOINT, repeat=2) if r != s)  # 53
        elements = {fact[0] for kind in ("entity", "activity", "agent") for fact in self.of(kind)}
        yield any(elements & found for found in names.values())  # 54
        yield any(self._has("empty", c) for c, _ in self.of("mem"))  # 56

    def _circular(self) -> bool:
        return any(strict and self._reach(after, before, False) for before, after, strict in self.before)

    def _reach(self, first: str, second: str, strict: bool) -> bool:
        seen, waiting = {(first, False)}, [(first, False)]
        while waiting:
            node, firmly = waiting.pop()
            if node == second and (firmly or not strict):
                return True
            for before, after, by in self.before:
                if before == node and (after, firmly or by) not in seen:
                    seen.add((after, firmly or by))
                    waiting.append((after, firmly or by))
        return False

    def precedes(self, first: str, second: str, *, strict: bool = False) -> bool:
        while first in self.same:
            first = self.same[first]
        while second in self.same:
            second = self.same[second]
        return self._reach(first, second, strict)


def _unknown(name: str) -> bool:
    return name.startswith(("?", "_:"))
