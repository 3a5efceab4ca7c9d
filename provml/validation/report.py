"""The report of a validation: true if the graph conforms, with one entry per violated constraint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from provml.errors import ValidationFailed, plural
from provml.validation import report_formats
from provml.validation.results import (
    GroupKey,
    Result,
    ResultGroup,
    ShapeComponent,
    ValidationScope,
    group_results,
)

ProgressCallback: TypeAlias = Callable[[int, int, str], None]
"""Called during long work with the number of finished steps, the number of all steps, and the name of the next one."""


@dataclass(frozen=True)
class Report:
    """All results of a validation; true if no result is a Violation. Warnings and infos do not count.

    If there were too many results to keep, `counts` gives the number of all of them by shape and component.
    """

    results: tuple[Result, ...]
    scope: ValidationScope | None = None
    counts: Mapping[ShapeComponent, int] = field(default_factory=dict)

    @property
    def conforms(self) -> bool:
        """Whether no result has the severity Violation."""
        return not any(result.severity == "Violation" for result in self.results)

    def __bool__(self) -> bool:
        return self.conforms

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __add__(self, other: Report) -> Report:
        """Combine two reports on the same data."""
        scope = self.scope or other.scope
        if self.scope is not None and other.scope is not None:
            others = (replace(other.scope, others=()), *other.scope.others)
            scope = replace(self.scope, others=self.scope.others + others)
        return Report(self.results + other.results, scope, {**self.counts, **other.counts})

    def groups(self) -> dict[GroupKey, ResultGroup]:
        """Return the results by severity and message, the most severe first.

        A thousand epochs that violate one constraint are one group. If several shapes report the same property of a
        node, as those of a class and its superclasses do, the most specific one is used.
        """
        return dict(self._groups)

    @cached_property
    def _groups(self) -> dict[GroupKey, ResultGroup]:
        return group_results(self.results, self.counts)

    @property
    def summary(self) -> str:
        """The outcome in one line."""
        groups = self.groups()
        violated = sum(severity == "Violation" for severity, _ in groups)
        if violated:
            return f"The graph violates {plural(violated, 'constraint')}"
        if groups:
            return f"The graph conforms, with {plural(len(groups), 'remark')}"
        return f"The graph conforms to all {' and '.join(self.scope.rule_kinds) if self.scope else 'shapes'}"

    def __str__(self) -> str:
        groups = self.groups()
        if not groups:
            return f"{self.summary}."
        lines = [f"{self.summary}:"]
        for group in groups.values():
            more = f" {group.remainder()}" if group.remainder() else ""
            lines.append(f"- {group.severity} {group.extent}: {group.description}")
            lines.append(f"  at {'; '.join(group.examples())}{more}")
        return "\n".join(lines)

    def raise_if_failed(self) -> None:
        """Raise `ValidationFailed` if the graph does not conform."""
        if not self.conforms:
            raise ValidationFailed(tuple(message for severity, message in self.groups() if severity == "Violation"))

    def to_json(self) -> str:
        """Return the report as JSON: the outcome, the scope, the violated constraints and every result."""
        return report_formats.as_json(self)

    def to_sarif(self) -> str:
        """Return the report as SARIF 2.1.0, for tools of code review. If `scope.label` is a file, it has its lines."""
        from provml.validation.sarif import as_sarif

        return as_sarif(self)

    def to_markdown(self) -> str:
        """Return the report as Markdown, for example for a pull request."""
        return report_formats.as_markdown(self)

    def to_html(self) -> str:
        """Return the report as an HTML fragment."""
        return report_formats.as_html(self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_rdf(self) -> str:
        """Return the report as a standard sh:ValidationReport in Turtle, in which a warning makes sh:conforms false."""
        return report_formats.as_turtle(self.results)


def sorted_report(results: Iterable[Result]) -> Report:
    """Return a report of results in an order that does not depend on the engine."""
    return Report(
        tuple(sorted(results, key=lambda r: (r.severity, r.message, r.focus, r.path or "", r.component, r.values)))
    )
