"""Triples as PROV statements: short and qualified forms, and unknowns for omitted parts (definitions 1-4)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from provml.rdf.namespaces import PROV, RDF_TYPE, XSD
from provml.validation.prov_constraints import prov_terms
from provml.validation.prov_constraints.prov_terms import REQUIRED, Kind

STATED = 0
"""The inference of what a document states itself."""
NO_VALUE = -1
"""The value of a slot without a value (`-` in PROV-N)."""

_DATETIME = re.compile(
    r'^"(?P<second>-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:(?P<fraction>\.\d*?)0*)?(?P<zone>Z|[+-]\d\d:\d\d)?"'
    rf"\^\^<{XSD}dateTime(?:Stamp)?>$"
)


class Statement:
    """A statement: its kind, its identifier and the values of its slots, as numbers of a document.

    `inference` is the number of the inference that it follows from, or STATED.
    """

    __slots__ = ("identifier", "inference", "kind", "slots")

    def __init__(self, kind: Kind, identifier: int, slots: list[int], inference: int = STATED) -> None:
        self.kind = kind
        self.inference = inference
        self.identifier = identifier
        self.slots = slots


class Document:
    """The statements of one bundle. Nodes, times and unknowns are numbers; `names` has their Turtle text, or None.

    With `has_placeholders`, a slot without a value is the `-` of PROV-N. In RDF it may also be stated elsewhere.
    """

    def __init__(self, bundle: str | None = None, *, has_placeholders: bool = False) -> None:
        self.bundle = bundle
        self.has_placeholders = has_placeholders
        self.names: list[str | None] = []
        self.statements: list[Statement] = []
        self.declared: dict[str, set[int]] = {
            prov_terms.ENTITY: set(),
            prov_terms.ACTIVITY: set(),
            prov_terms.AGENT: set(),
        }
        self.empty_collections: set[int] = set()
        self.specializations: set[tuple[int, int]] = set()
        self.alternates: set[tuple[int, int]] = set()
        self.members: set[tuple[int, int]] = set()
        self.missing: list[tuple[Statement, int]] = []
        """The required slots without a value."""
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Return the number of a node or literal in Turtle syntax; assign one if it is new."""
        number = self._numbers.get(name)
        if number is None:
            if name[0] == '"':
                normalized = _normalize_time(name)
                if normalized != name:
                    number = self._numbers[name] = self.number(normalized)
                    return number
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number

    def lookup(self, name: str) -> int | None:
        """Return the number of a name, or None if the document does not have it."""
        return self._numbers.get(name)

    def new_unknown(self) -> int:
        """Return the number of a new unknown."""
        self.names.append(None)
        return len(self.names) - 1

    def add(
        self, kind: Kind, identifier: int | None, values: Iterable[int | None], *, inference: int = STATED
    ) -> Statement:
        """Add a statement; None stands for an omitted identifier or value."""
        slots = [
            (NO_VALUE if slot.if_omitted is prov_terms.EMPTY_SLOT else self.new_unknown()) if value is None else value
            for slot, value in zip(kind.slots, values, strict=True)
        ]
        statement = Statement(kind, self.new_unknown() if identifier is None else identifier, slots, inference)
        self.statements.append(statement)
        return statement


def _normalize_time(name: str) -> str:
    """Return an xsd:dateTime literal in UTC, so that equal times have equal names."""
    match = _DATETIME.match(name)
    if match is None:
        return name
    second, fraction, zone = match["second"], match["fraction"] or "", match["zone"] or ""
    if zone not in ("", "Z"):
        try:
            second = datetime.fromisoformat(second + zone).astimezone(UTC).replace(tzinfo=None).isoformat()
            zone = "Z"
        except (ValueError, OverflowError):  # a year that Python does not support: compare the text only
            return name
    return f'"{second}{fraction if fraction != "." else ""}{zone}"^^<{XSD}dateTime>'


class _DocumentBuilder:
    """Collects the triples of one bundle and builds its document."""

    def __init__(self, bundle: str | None) -> None:
        self.document = Document(bundle)
        self.short_forms: dict[tuple[Kind, int, int], None] = {}
        self.subjects: dict[int, dict[Kind, list[int]]] = defaultdict(dict)
        """The subjects of each qualified statement, by its kinds."""
        self.parts: dict[int, dict[str, list[int]]] = defaultdict(dict)
        self.times: dict[tuple[Kind, int], list[tuple[int, int]]] = defaultdict(list)
        self.mentions: dict[int, dict[str, list[int]]] = defaultdict(dict)

    # ---- triples

    def add_short_form(self, subject: int, kind: Kind, other: int) -> None:
        self.short_forms[kind, subject, other] = None

    def add_qualified(self, subject: int, kind: Kind, node: int) -> None:
        self.subjects[node].setdefault(kind, []).append(subject)

    def add_part(self, node: int, name: str, value: int) -> None:
        self.parts[node].setdefault(name, []).append(value)

    def add_time(self, node: int, slot: tuple[Kind, int], time: int) -> None:
        self.times[slot].append((node, time))

    def add_pair(self, subject: int, attribute: str, other: int) -> None:
        getattr(self.document, attribute).add((subject, other))

    def add_mention(self, subject: int, name: str, other: int) -> None:
        self.mentions[subject].setdefault(name, []).append(other)

    def add_class(self, node: int, name: str) -> None:
        element = prov_terms.ELEMENTS.get(name)
        if element is None:
            self.subjects[node].setdefault(prov_terms.CLASSES[name], [])
            return
        self.document.declared[element].add(node)
        if name in prov_terms.EMPTY_COLLECTIONS:
            self.document.empty_collections.add(node)

    # ---- statements

    def build(self) -> Document:
        add = self.document.add
        inferable = self._inferable()
        for node, kinds in self.subjects.items():
            self._build_qualified(node, kinds, inferable)
        qualified = {(item.kind, item.slots[0], item.slots[1]) for item in self.document.statements}
        for kind, subject, other in self.short_forms:
            if (kind, subject, other) not in qualified:  # a qualified form implies the short one
                add(kind, None, [subject, other, *[None] * (len(kind.slots) - 2)])
        for kind in (prov_terms.GENERATION, prov_terms.INVALIDATION):
            for node, time in self.times[kind, 2]:
                add(kind, None, [node, None, time])
        self._build_activities()
        for subject, parts in self.mentions.items():
            self._build_mention(subject, parts)
        return self.document

    def _build_activities(self) -> None:
        """Add the declared activities with their times; a start or end time declares an activity too."""
        starts, ends = (dict[int, list[int]](), dict[int, list[int]]())
        for times, slot in ((starts, 0), (ends, 1)):
            for node, time in self.times[prov_terms.ACTIVITY_TIMES, slot]:
                times.setdefault(node, []).append(time)
        declared = self.document.declared[prov_terms.ACTIVITY]
        declared.update(starts, ends)
        for node in sorted(declared):
            for values in _zip_longest_rows([starts.get(node, []), ends.get(node, [])]):
                self.document.add(prov_terms.ACTIVITY_TIMES, node, values)

    def _inferable(self) -> dict[Kind, set[int]]:
        """Return the generations and usages whose parts follow from a derivation with an activity (inference 11)."""
        inferable: dict[Kind, set[int]] = {prov_terms.GENERATION: set(), prov_terms.USAGE: set()}
        for parts in self.parts.values():
            if "hadActivity" in parts:
                inferable[prov_terms.GENERATION].update(parts.get("hadGeneration", ()))
                inferable[prov_terms.USAGE].update(parts.get("hadUsage", ()))
        return inferable

    def _build_qualified(self, node: int, kinds: dict[Kind, list[int]], inferable: dict[Kind, set[int]]) -> None:
        """Add the statements of a qualified node; one node may have several kinds."""
        parts = self.parts.get(node, {})
        for subject in kinds.get(prov_terms.MENTION, ()):
            self._build_mention(subject, parts)
        specific = [kind for kind in kinds if kind not in (prov_terms.INFLUENCE, prov_terms.MENTION)]
        for kind in specific:
            values = [kinds[kind], *(parts.get(slot.property, []) for slot in kind.slots[1:])]
            statement = self._add_rows(kind, node, values)
            for index, slot in enumerate(kind.slots):
                is_inferable = index == 0 and node in inferable.get(kind, ())
                if slot.if_omitted is REQUIRED and not values[index] and not is_inferable:
                    self.document.missing.append((statement, index))
        self._build_influence(node, kinds, is_plain=not specific, has_several_kinds=len(specific) > 1)

    def _build_influence(
        self, node: int, kinds: dict[Kind, list[int]], *, is_plain: bool, has_several_kinds: bool
    ) -> None:
        """Add the influence that a qualified node is by inference 15, if it can matter."""
        parts = self.parts.get(node, {})
        subjects, influencers = kinds.get(prov_terms.INFLUENCE, []), parts.get("influencer", [])
        if is_plain and prov_terms.INFLUENCE in kinds:
            influencers = influencers + [
                value for name in ("entity", "activity", "agent") for value in parts.get(name, ())
            ]
            statement = self._add_rows(prov_terms.INFLUENCE, node, [subjects, influencers])
            self._note_missing(statement, (subjects, influencers))
        elif has_several_kinds or subjects or influencers:  # unification equates it with the others
            self._add_rows(prov_terms.INFLUENCE, node, [subjects, influencers]).inference = 15

    def _build_mention(self, subject: int, parts: dict[str, list[int]]) -> None:
        generals, bundles = parts.get("entity", []), parts.get("bundle", [])
        for values in _zip_longest_rows([generals, bundles]):
            statement = self.document.add(prov_terms.MENTION, subject, [subject, *values])
            self.document.specializations.add((subject, statement.slots[1]))
        self._note_missing(statement, (generals, bundles), first_slot=1)

    def _add_rows(self, kind: Kind, node: int, values: list[list[int]]) -> Statement:
        """Add one statement per row of values, and return the last one."""
        rows = _zip_longest_rows(values)
        return [self.document.add(kind, node, row) for row in rows][-1]

    def _note_missing(self, statement: Statement, values: tuple[list[int], ...], first_slot: int = 0) -> None:
        for slot, slot_values in enumerate(values, first_slot):
            if not slot_values:
                self.document.missing.append((statement, slot))


def _zip_longest_rows(columns: list[list[int]]) -> list[list[int | None]]:
    """Return rows that contain each value of each column; short columns repeat their last value."""
    count = max(1, *map(len, columns))
    return [[values[min(row, len(values) - 1)] if values else None for values in columns] for row in range(count)]


Route: TypeAlias = tuple[Callable[[_DocumentBuilder, int, Any, int], None], Any, bool]
"""A method of the builder, its second argument, and whether subject and object are swapped."""


def _routes() -> dict[str, Route]:
    """Return the route of each property of PROV-O."""
    builder = _DocumentBuilder
    routes: dict[str, Route] = {
        **{name: (builder.add_short_form, kind, False) for name, kind in prov_terms.DIRECT.items()},
        **{name: (builder.add_qualified, kind, False) for name, kind in prov_terms.QUALIFIED.items()},
        **{name: (builder.add_part, name, False) for name in prov_terms.PARTS},
        **{name: (builder.add_time, slot, False) for name, slot in prov_terms.TIMES.items()},
        **{name: (builder.add_pair, attribute, False) for name, attribute in prov_terms.PAIRS.items()},
        **{name: (builder.add_mention, part, False) for name, part in prov_terms.MENTIONS.items()},
    }
    for name, other in prov_terms.INVERSES.items():
        routes[name] = (*routes[other][:2], True)
    return {PROV + name: route for name, route in routes.items()}


def parse_documents(quads: Iterable[Any]) -> list[Document]:
    """Return the documents of some quads: one for the default graph and one for each named graph."""
    import pyoxigraph as ox

    routes = _routes()
    classes = {PROV + name: name for name in (*prov_terms.ELEMENTS, *prov_terms.CLASSES)}
    default = ox.DefaultGraph()
    builders = {default: _DocumentBuilder(None)}
    for quad in quads:
        predicate = quad.predicate.value
        class_name = ""
        if predicate == RDF_TYPE:
            class_name = classes.get(quad.object.value, "") if isinstance(quad.object, ox.NamedNode) else ""
        if not class_name and predicate not in routes:
            continue
        graph = getattr(quad, "graph_name", default)
        builder = builders.get(graph)
        if builder is None:
            builder = builders[graph] = _DocumentBuilder(str(graph))
        number = builder.document.number
        subject = number(str(quad.subject))
        if class_name:
            builder.add_class(subject, class_name)
            continue
        method, argument, is_inverse = routes[predicate]
        other = number(str(quad.object))
        if is_inverse:
            method(builder, other, argument, subject)
        else:
            method(builder, subject, argument, other)
    return [builder.build() for builder in builders.values()]
