"""What validation said: true when the graph conforms, and one entry a broken promise however often it is broken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from provml.errors import BrokenPromise

SHOWN = 3
"""How many nodes are shown of each broken promise."""
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

    `value` is the one that SHACL reports, whole, as N-Triples write it; empty where there is none or it is not known.
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
        return self.focus if self.focus.startswith("_:") else f"<{self.focus}>"


@dataclass(frozen=True)
class Checked:
    """What was validated: how many triples of what, against how many shapes (or other `rules`), by which engine."""

    what: str = ""
    triples: int = 0
    shapes: int = 0
    engine: str = ""
    handed_over: tuple[str, ...] = ()
    rules: str = "shape"

    def __str__(self) -> str:
        engine = ENGINES.get(self.engine, self.engine)
        said = f"{_counted(self.triples, 'triple')} against {_counted(self.shapes, self.rules)}, by {engine}"
        over = f"; {_counted(len(self.handed_over), 'shape')} handed to pySHACL" if self.handed_over else ""
        return f"{self.what}: {said}{over}" if self.what else f"{said}{over}"


@dataclass(frozen=True)
class Group:
    """All that breaks one promise: the results that are kept, and how many there are in all."""

    severity: str
    message: str
    results: tuple[Result, ...]
    count: int

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
    def size(self) -> int:
        """How many nodes break it; where not all results are kept, how many results there are."""
        return len(self.nodes) if self.count == len(self.results) else self.count

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
            one, two = self.checked, other.checked
            engine = f"{one.engine}, and {_counted(two.shapes, two.rules)}, by {two.engine}"
            checked = replace(one, engine=engine, handed_over=one.handed_over + two.handed_over)
        return Report(self.results + other.results, checked, {**self.counts, **other.counts})

    def groups(self) -> dict[tuple[str, str], Group]:
        """The results by severity and promise, the gravest first: a thousand epochs that break one promise are one.

        Where several shapes say the same of a node's property, as those of a class and of the classes above it do, it
        is told once: by a promise written by hand, else by the one that is broken least often.
        """
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
        groups = {key: Group(*key, tuple(held), len(held) + self._left_out(held)) for key, held in grouped.items()}
        return dict(sorted(groups.items(), key=lambda one: (_grave(one[0][0]), -one[1].size, one[0])))

    def _left_out(self, held: list[Result]) -> int:
        """How many results of the shapes and components of some there are that were not kept."""
        kept = Counter((result.shape, result.component) for result in self.results)
        told = {(result.shape, result.component) for result in held}
        return sum(max(self.counts.get(one, 0) - kept[one], 0) for one in told)

    @property
    def summary(self) -> str:
        """How it stands, in one line."""
        groups = self.groups()
        broken = sum(severity == "Violation" for severity, _ in groups)
        if broken:
            return f"The graph breaks {_counted(broken, 'promise')}"
        if groups:
            return f"The graph conforms, with {_counted(len(groups), 'remark')}"
        return f"The graph conforms to all {self.checked.rules if self.checked is not None else 'shape'}s"

    def __str__(self) -> str:
        groups = self.groups()
        if not groups:
            return f"{self.summary}."
        lines = [f"{self.summary}:"]
        for group in groups.values():
            more = f" and {group.size - SHOWN:,} more" if group.size > SHOWN else ""
            lines.append(
                f"- {group.severity} at {_counted(group.size, 'node')}: {group.promise}"
                f"\n  at {'; '.join(group.examples())}{more}"
            )
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


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
