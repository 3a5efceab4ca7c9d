"""Triples as PROV statements: short and qualified forms alike, and unknowns for what is left out (definitions 1-4)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from provml.validation.constraints import term
from provml.validation.constraints.term import MUST, Kind

NOTHING = -1
"""What is in a slot that has nothing in it (PROV-N's `-`)."""

_MOMENT = re.compile(
    r'^"(?P<second>-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:(?P<part>\.\d*?)0*)?(?P<zone>Z|[+-]\d\d:\d\d)?"'
    r"\^\^<http://www.w3.org/2001/XMLSchema#dateTime(?:Stamp)?>$"
)


class Statement:
    """One statement: its kind, its identifier (`name`) and what fills its slots, as numbers of the document's names."""

    __slots__ = ("kind", "name", "slots")

    def __init__(self, kind: Kind, name: int, slots: list[int]) -> None:
        self.kind = kind
        self.name = name
        self.slots = slots


class Document:
    """The statements of one bundle. Nodes, times and unknowns are numbers; `names` says what they stand for."""

    def __init__(self, bundle: str | None = None) -> None:
        self.bundle = bundle
        self.names: list[str | None] = []
        self.statements: list[Statement] = []
        self.declared: dict[str, set[int]] = {term.ENTITY: set(), term.ACTIVITY: set(), term.AGENT: set()}
        self.empty: set[int] = set()
        self.specializations: set[tuple[int, int]] = set()
        self.alternates: set[tuple[int, int]] = set()
        self.members: set[tuple[int, int]] = set()
        self.missing: list[tuple[Statement, int]] = []
        """The mandatory slots that nothing fills."""
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The number of a node or literal, by the text that Turtle has for it."""
        number = self._numbers.get(name)
        if number is None:
            if name[0] == '"':
                moment = _moment(name)
                if moment != name:
                    number = self._numbers[name] = self.number(moment)
                    return number
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number

    def known(self, name: str) -> int | None:
        """The number of a name that the document has; None for another."""
        return self._numbers.get(name)

    def unknown(self) -> int:
        """A new unknown."""
        self.names.append(None)
        return len(self.names) - 1

    def say(self, kind: Kind, name: int | None, values: Iterable[int | None]) -> Statement:
        """Add a statement; what is None is unknown, or nothing where the slot may be empty."""
        slots = [
            (NOTHING if slot.need is term.NONE else self.unknown()) if value is None else value
            for slot, value in zip(kind.slots, values, strict=True)
        ]
        statement = Statement(kind, self.unknown() if name is None else name, slots)
        self.statements.append(statement)
        return statement


def _moment(name: str) -> str:
    """A time in one way of writing, so that equal moments are equal names."""
    match = _MOMENT.match(name)
    if match is None:
        return name
    second, part, zone = match["second"], match["part"] or "", match["zone"] or ""
    if zone not in ("", "Z"):
        try:
            second = datetime.fromisoformat(second + zone).astimezone(UTC).replace(tzinfo=None).isoformat()
            zone = "Z"
        except (ValueError, OverflowError):  # a year that Python has no word for: only the same text is the same time
            return name
    return f'"{second}{part if part != "." else ""}{zone}"^^<http://www.w3.org/2001/XMLSchema#dateTime>'


class _Reading:
    """What the triples of one bundle say, before it is put together."""

    def __init__(self, bundle: str | None) -> None:
        self.document = Document(bundle)
        self.direct: dict[tuple[Kind, int, int], None] = {}
        self.subjects: dict[int, dict[Kind, list[int]]] = defaultdict(dict)
        self.parts: dict[int, dict[str, list[int]]] = defaultdict(dict)
        self.times: dict[tuple[Kind, int], list[tuple[int, int]]] = defaultdict(list)
        self.mentions: dict[int, dict[str, list[int]]] = defaultdict(dict)

    def short(self, subject: int, kind: Kind, other: int) -> None:
        self.direct[kind, subject, other] = None

    def qualified(self, subject: int, kind: Kind, node: int) -> None:
        self.subjects[node].setdefault(kind, []).append(subject)

    def part(self, node: int, name: str, value: int) -> None:
        self.parts[node].setdefault(name, []).append(value)

    def moment(self, node: int, place: tuple[Kind, int], time: int) -> None:
        self.times[place].append((node, time))

    def pair(self, one: int, held: str, other: int) -> None:
        getattr(self.document, held).add((one, other))

    def mention(self, subject: int, name: str, other: int) -> None:
        self.mentions[subject].setdefault(name, []).append(other)

    def classed(self, node: int, name: str) -> None:
        sort = term.ELEMENTS.get(name)
        if sort is None:
            self.subjects[node].setdefault(term.CLASSES[name], [])
            return
        self.document.declared[sort].add(node)
        if name in term.EMPTY:
            self.document.empty.add(node)

    def put_together(self) -> Document:
        inferable = self._inferable()
        for node, kinds in self.subjects.items():
            self._qualified(node, kinds, inferable)
        said = {(one.kind, one.slots[0], one.slots[1]) for one in self.document.statements}
        say = self.document.say
        for kind, subject, other in self.direct:
            if (kind, subject, other) not in said:  # a qualified form says it, and more
                say(kind, None, [subject, other, *[None] * (len(kind.slots) - 2)])
        for kind in (term.GENERATION, term.INVALIDATION):
            for node, time in self.times[kind, 2]:
                say(kind, None, [node, None, time])
        self._activities()
        for subject, said_of in self.mentions.items():
            self._mentioned(subject, said_of)
        return self.document

    def _activities(self) -> None:
        """Declared activities, each with its times; one that has a time is declared by it."""
        starts, ends = (dict[int, list[int]](), dict[int, list[int]]())
        for times, place in ((starts, 0), (ends, 1)):
            for node, time in self.times[term.ACTIVITY_TIMES, place]:
                times.setdefault(node, []).append(time)
        declared = self.document.declared[term.ACTIVITY]
        declared.update(starts, ends)
        for node in sorted(declared):
            for values in _abreast([starts.get(node, []), ends.get(node, [])]):
                self.document.say(term.ACTIVITY_TIMES, node, values)

    def _inferable(self) -> dict[Kind, set[int]]:
        """The generations and usages that a derivation with an activity tells the rest of (inference 11)."""
        found: dict[Kind, set[int]] = {term.GENERATION: set(), term.USAGE: set()}
        for parts in self.parts.values():
            if "hadActivity" in parts:
                found[term.GENERATION].update(parts.get("hadGeneration", ()))
                found[term.USAGE].update(parts.get("hadUsage", ()))
        return found

    def _qualified(self, node: int, kinds: dict[Kind, list[int]], inferable: dict[Kind, set[int]]) -> None:
        parts = self.parts.get(node, {})
        special = [kind for kind in kinds if kind is not term.INFLUENCE]
        if term.MENTION in kinds:
            special.remove(term.MENTION)
            for subject in kinds[term.MENTION]:
                self._mentioned(subject, parts)
        said: list[Statement] = []
        for kind in special:
            filled = [kinds[kind], *(parts.get(slot.property, []) for slot in kind.slots[1:])]
            for values in _abreast(filled):
                said.append(self.document.say(kind, node, values))
            for place, slot in enumerate(kind.slots):
                if slot.need is MUST and not filled[place] and not (place == 0 and node in inferable.get(kind, ())):
                    self.document.missing.append((said[-1], place))
        subjects, influencers = kinds.get(term.INFLUENCE, []), parts.get("influencer", [])
        if not special and term.INFLUENCE in kinds:
            influencers = influencers + [one for name in ("entity", "activity", "agent") for one in parts.get(name, ())]
            for values in _abreast([subjects, influencers]):
                said.append(self.document.say(term.INFLUENCE, node, values))
            for place, filler in enumerate((subjects, influencers)):
                if not filler:
                    self.document.missing.append((said[-1], place))
        elif len(special) > 1 or subjects or influencers:  # `merging` makes it the same as the others (15)
            for values in _abreast([subjects, influencers]):
                self.document.say(term.INFLUENCE, node, values)

    def _mentioned(self, subject: int, parts: dict[str, list[int]]) -> None:
        generals, bundles = parts.get("entity", []), parts.get("bundle", [])
        for values in _abreast([generals, bundles]):
            said = self.document.say(term.MENTION, subject, [subject, *values])
            self.document.specializations.add((subject, said.slots[1]))
        for place, filler in enumerate((generals, bundles), 1):
            if not filler:
                self.document.missing.append((said, place))


def _abreast(filled: list[list[int]]) -> list[list[int | None]]:
    """Rows in which each value of each slot stands once at least: one row where no slot has two."""
    width = max(1, *map(len, filled))
    return [[values[min(n, len(values) - 1)] if values else None for values in filled] for n in range(width)]


Route = tuple[Callable[[_Reading, int, Any, int], None], Any, bool]


def _routes() -> dict[str, Route]:
    """For each property that says something: who takes it in, as what, and whether from object to subject."""
    routes: dict[str, Route] = {
        **{name: (_Reading.short, kind, False) for name, kind in term.DIRECT.items()},
        **{name: (_Reading.qualified, kind, False) for name, kind in term.QUALIFIED.items()},
        **{name: (_Reading.part, name, False) for name in term.PARTS},
        **{name: (_Reading.moment, place, False) for name, place in term.TIMES.items()},
        **{name: (_Reading.pair, held, False) for name, held in term.PAIRS.items()},
        **{name: (_Reading.mention, part, False) for name, part in term.MENTIONS.items()},
    }
    for name, other in term.INVERSES.items():
        routes[name] = (*routes[other][:2], True)
    return {term.PROV + name: route for name, route in routes.items()}


def read(quads: Iterable[Any]) -> list[Document]:
    """The bundles of some quads: each named graph is one, and what is in no named graph is another."""
    import pyoxigraph as ox

    routes = _routes()
    classes = {term.PROV + name: name for name in (*term.ELEMENTS, *term.CLASSES)}
    default = ox.DefaultGraph()
    readings = {default: _Reading(None)}
    for quad in quads:
        predicate = quad.predicate.value
        if predicate == term.RDF_TYPE:
            name = classes.get(getattr(quad.object, "value", ""), "")
            if not name or not isinstance(quad.object, ox.NamedNode):
                continue
        elif predicate not in routes:
            continue
        graph = getattr(quad, "graph_name", default)
        reading = readings.get(graph)
        if reading is None:
            reading = readings[graph] = _Reading(str(graph))
        number = reading.document.number
        subject = number(str(quad.subject))
        if predicate == term.RDF_TYPE:
            reading.classed(subject, name)
            continue
        take, what, turned = routes[predicate]
        other = number(str(quad.object))
        take(reading, other, what, subject) if turned else take(reading, subject, what, other)
    return [reading.put_together() for reading in readings.values()]
