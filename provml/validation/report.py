"""What validation said: true when the graph conforms, and one entry a broken promise however often it is broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SHOWN = 3

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
}
"""What was wrong, by the SHACL constraint component that found it."""


@dataclass(frozen=True)
class Result:
    """One node that breaks one promise; `values` are those it breaks it with, as Turtle writes them."""

    focus: str
    path: str | None
    values: tuple[str, ...]
    message: str
    shape: str
    severity: str
    component: str = ""

    @property
    def problem(self) -> str:
        """What was wrong, in words."""
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", self.component).lower()
        return PROBLEMS.get(self.component, f"fails {words}" if words else "does not hold")


@dataclass(frozen=True)
class Report:
    """All results of one validation; empty, and so true, when everything holds."""

    results: tuple[Result, ...]

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

    def groups(self) -> dict[tuple[str, str], list[Result]]:
        """The results by severity and message: a thousand epochs that break one promise are one group."""
        grouped: dict[tuple[str, str], list[Result]] = {}
        for result in self.results:
            grouped.setdefault((result.severity, result.message), []).append(result)
        return dict(sorted(grouped.items(), key=lambda item: (item[0][0] != "Violation", -len(item[1]), item[0])))

    def __str__(self) -> str:
        if not self.results:
            return "The graph conforms to all shapes."
        groups = self.groups()
        lines = [f"The graph breaks {_counted(len(groups), 'promise')}:"]
        for (severity, message), results in groups.items():
            problems = "; ".join(dict.fromkeys(result.problem for result in results))
            nodes: dict[str, dict[str, None]] = {}
            for result in results:
                focus = result.focus if result.focus.startswith("_:") else f"<{result.focus}>"
                nodes.setdefault(focus, {}).update(dict.fromkeys(value for value in result.values if value != focus))
            shown = [f"{node} with {', '.join(held)}" if held else node for node, held in list(nodes.items())[:SHOWN]]
            more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
            promise = f"{message} {problems[0].upper()}{problems[1:]}."
            lines.append(f"- {severity} at {_counted(len(nodes), 'node')}: {promise}\n  at {'; '.join(shown)}{more}")
        return "\n".join(lines)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
