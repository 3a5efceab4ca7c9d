"""What validation said: true when the graph conforms, and one entry a broken promise however often it is broken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from provml.errors import BrokenPromise
from provml.rdf.literal import XSD

Progress = Callable[[int, int, str], None]
"""What is told of long work: how much is done, of how much, and what comes next."""
SHOWN = 3
"""How many nodes are shown of each broken promise."""
LONG = 80
"""How much is shown of a text."""
GRAVEST = ("Violation", "Warning", "Info")
ENGINES = {"compiled": "the compiled engine", "reference": "pySHACL"}
BY_HAND = "https://w3id.org/provml/shape/"

PROBLEMS = {
    "MinCount": "too few values",
    "MaxCount": "too many values",
    "QualifiedMinCount": "too few values",
    "QualifiedMaxCount": "too many values",
    "Class": "wrong class, or no class is given",
    "Datatype": "wrong datatype",
    "NodeKind": "a literal for a node, or a node for a literal",
    "In": "not one of these",
    "HasValue": "the value asked for is missing",
    "Pattern": "not of the form asked for",
    "MinLength": "too short",
    "MaxLength": "too long",
    "MinInclusive": "outside the limits",
    "MaxInclusive": "outside the limits",
    "MinExclusive": "outside the limits",
    "MaxExclusive": "outside the limits",
    "LessThan": "not less than it must be",
    "LessThanOrEquals": "more than it may be",
    "Equals": "not equal to what it must equal",
    "Disjoint": "two that must differ share a value",
    "LanguageIn": "not in one of these languages",
    "UniqueLang": "two values in one language",
    "Not": "it has what is excluded (disjoint)",
    "Or": "none of the alternatives fits",
    "Xone": "none, or more than one, of the alternatives fits",
    "Closed": "a property that is not allowed here",
    "SPARQL": "",
}
"""What was wrong, by the SHACL constraint component that found it."""


@dataclass(frozen=True)
class Result:
    """One node that breaks one promise; `values` are those it breaks it with, as Turtle writes them, long ones cut.

    `focus` and `shape` are IRIs as they are, and all else as N-Triples write it: `_:b` or a literal. `value` is the one
    that SHACL reports, whole, as N-Triples write it; empty where there is none or it is not known.
    """

    focus: str
    path: str | None
    values: tuple[str, ...]
    message: str
    shape: str
    severity: str
    component: str = ""
    value: str = ""

    @property
    def problem(self) -> str:
        """What was wrong, in words; nothing where the promise itself says it."""
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", self.component).lower()
        return PROBLEMS.get(self.component, f"fails {words}" if words else "")

    @property
    def node(self) -> str:
        """The node, as Turtle writes it."""
        if self.focus.startswith('"'):
            return shown(self.focus)
        return self.focus if self.focus.startswith("_:") else f"<{self.focus}>"


@dataclass(frozen=True)
class Checked:
    """What was validated: how many triples of what, against how many shapes (or other `rules`), by which engine.

    `also` is what else the same was held to.
    """

    what: str = ""
    triples: int = 0
    shapes: int = 0
    engine: str = ""
    handed_over: tuple[str, ...] = ()
    rules: str = "shape"
    also: tuple[Checked, ...] = ()

    @property
    def kinds(self) -> list[str]:
        """What it was held to, in one word each."""
        return list(dict.fromkeys(f"{one.rules}s" for one in (self, *self.also)))

    def __str__(self) -> str:
        all_ = (self, *self.also)
        parts = [f"{_counted(one.shapes, one.rules)}, by {ENGINES.get(one.engine, one.engine)}" for one in all_]
        said = f"{_counted(self.triples, 'triple')} against {', and '.join(parts)}"
        over = sum(len(one.handed_over) for one in all_)
        said += f"; {_counted(over, 'shape')} handed to pySHACL" if over else ""
        return f"{self.what}: {said}" if self.what else said


@dataclass(frozen=True)
class Group:
    """All that breaks one promise: the results that are kept, and how many there are in all.

    A shape may have several messages: of its results that were not kept, nobody knows which one they have. Then `count`
    is of those that are kept, and it `has_more`.
    """

    severity: str
    message: str
    results: tuple[Result, ...]
    count: int
    has_more: bool = False

    @property
    def promise(self) -> str:
        """The promise, and what was wrong."""
        problems = "; ".join(dict.fromkeys(result.problem for result in self.results if result.problem))
        return f"{self.message} {problems[0].upper()}{problems[1:]}." if problems else self.message

    @property
    def nodes(self) -> dict[str, tuple[str, ...]]:
        """The nodes that break it, each with the values that it breaks it with."""
        nodes: dict[str, dict[str, None]] = {}
        for result in self.results:
            held = nodes.setdefault(result.node, {})
            held.update(dict.fromkeys(value for value in result.values if value != result.node))
        return {node: tuple(held) for node, held in nodes.items()}

    @property
    def is_whole(self) -> bool:
        """Whether all results are kept, so that all nodes are known."""
        return self.count == len(self.results) and not self.has_more

    @property
    def told(self) -> str:
        """How many nodes break it; where not all results are kept, how many results there are."""
        if self.is_whole:
            return f"at {_counted(len(self.nodes), 'node')}"
        return f"in {_counted(self.count, 'result')}{' or more' if self.has_more else ''}"

    def rest(self, most: int = SHOWN) -> str:
        """How many nodes there are beyond the examples."""
        if not self.is_whole:
            return "and more"
        return f"and {len(self.nodes) - most:,} more" if len(self.nodes) > most else ""

    def examples(self, most: int = SHOWN) -> list[str]:
        """Some of the nodes, with their values."""
        shown = list(self.nodes.items())[:most]
        return [f"{node} with {', '.join(held)}" if held else node for node, held in shown]


@dataclass(frozen=True)
class Report:
    """All results of one validation; true when no promise is broken. Warnings and infos do not break it.

    Where there were too many to keep, `counts` tells how many there are by shape and component.
    """

    results: tuple[Result, ...]
    checked: Checked | None = None
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def conforms(self) -> bool:
        """Whether nothing of the severity Violation was found."""
        return not any(result.severity == "Violation" for result in self.results)

    def __bool__(self) -> bool:
        return self.conforms

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __add__(self, other: Report) -> Report:
        """Both, as one."""
        checked = self.checked or other.checked
        if self.checked is not None and other.checked is not None:
            others = (replace(other.checked, also=()), *other.checked.also)
            checked = replace(self.checked, also=self.checked.also + others)
        return Report(self.results + other.results, checked, {**self.counts, **other.counts})

    def groups(self) -> dict[tuple[str, str], Group]:
        """The results by severity and promise, the gravest first: a thousand epochs that break one promise are one.

        Where several shapes say the same of a node's property, as those of a class and of the classes above it do, it
        is told once: by a promise written by hand, else by the one that is broken least often.
        """
        return dict(self._groups)

    @cached_property
    def _groups(self) -> dict[tuple[str, str], Group]:
        often = Counter(result.message for result in self.results)
        told: dict[object, Result] = {}
        for number, result in enumerate(self.results):
            said = (result.severity, result.focus, result.path, result.component, result.values)
            key: object = said if result.path is not None else number
            if key not in told or _rank(result, often) < _rank(told[key], often):
                told[key] = result
        grouped: dict[tuple[str, str], list[Result]] = {}
        named: dict[tuple[str, str, str], str] = {}
        for result in told.values():
            # Messages may have values filled in: then those of one shape and component belong together all the same.
            message = result.message
            if often[message] == 1:
                message = named.setdefault((result.severity, result.shape, result.component), message)
            grouped.setdefault((result.severity, message), []).append(result)
        kept = Counter((result.shape, result.component) for result in self.results)
        left = {one: count - kept[one] for one, count in self.counts.items() if count > kept[one]}
        more = {key: {(one.shape, one.component) for one in held} & left.keys() for key, held in grouped.items()}
        shared = Counter(one for ones in more.values() for one in ones)
        groups = {}
        for key, held in grouped.items():
            rest = sum(left[one] for one in more[key] if shared[one] == 1)
            groups[key] = Group(*key, tuple(held), len(held) + rest, any(shared[one] > 1 for one in more[key]))
        return dict(sorted(groups.items(), key=lambda one: (_grave(one[0][0]), -one[1].count, one[0])))

    @property
    def summary(self) -> str:
        """How it stands, in one line."""
        groups = self.groups()
        broken = sum(severity == "Violation" for severity, _ in groups)
        if broken:
            return f"The graph breaks {_counted(broken, 'promise')}"
        if groups:
            return f"The graph conforms, with {_counted(len(groups), 'remark')}"
        return f"The graph conforms to all {' and '.join(self.checked.kinds) if self.checked else 'shapes'}"

    def __str__(self) -> str:
        groups = self.groups()
        if not groups:
            return f"{self.summary}."
        lines = [f"{self.summary}:"]
        for group in groups.values():
            more = f" {group.rest()}" if group.rest() else ""
            lines.append(f"- {group.severity} {group.told}: {group.promise}\n  at {'; '.join(group.examples())}{more}")
        return "\n".join(lines)

    def raise_if_broken(self) -> None:
        """Raise `BrokenPromise` where it does not conform."""
        if not self.conforms:
            raise BrokenPromise(tuple(message for severity, message in self.groups() if severity == "Violation"))

    def to_json(self) -> str:
        """It as JSON: how it stands, what was checked, the broken promises and every result."""
        from provml.validation.format import as_json

        return as_json(self)

    def to_markdown(self) -> str:
        """It as Markdown, for a pull request or a page."""
        from provml.validation.format import as_markdown

        return as_markdown(self)

    def to_html(self) -> str:
        """It as a piece of HTML."""
        from provml.validation.format import as_html

        return as_html(self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_rdf(self) -> str:
        """It as a standard sh:ValidationReport, in Turtle. By the standard, a warning too makes sh:conforms false."""
        from provml.validation.format import as_turtle

        return as_turtle(self)


def _rank(result: Result, often: Counter[str]) -> tuple[bool, int, str]:
    return (not result.shape.startswith(BY_HAND), often[result.message], result.message)


def _grave(severity: str) -> tuple[int, str]:
    return (GRAVEST.index(severity), "") if severity in GRAVEST else (len(GRAVEST), severity)


def shown(term: object) -> str:
    """A term as Turtle writes it, cut where it is long."""
    text = str(term)
    end = text.rfind('"')
    if text.startswith('"') and end > LONG + 1:
        text = f"{text[:LONG]}…{text[end:]}"
    return re.sub(rf"\^\^<{XSD}(\w+)>$", r"^^xsd:\1", text)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
