"""The result of a check: true if the document is valid, with the violations if it is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from provml.errors import NodeNotFound, plural
from provml.validation.prov_constraints.event_order import EventOrder
from provml.validation.prov_constraints.rules import RECOMMENDATION, rule_iri
from provml.validation.prov_constraints.violations import Violation
from provml.validation.report import Report
from provml.validation.results import Result

MAX_VIOLATIONS = 5
"""Violations shown per rule."""


@dataclass(frozen=True)
class Verdict:
    """Whether a document is valid by PROV-CONSTRAINTS, and its violations. `orders` has the events of each bundle."""

    violations: tuple[Violation, ...]
    orders: dict[str | None, EventOrder] = field(default_factory=dict, repr=False, compare=False)

    @property
    def valid(self) -> bool:
        """Whether there is no violation."""
        return not self.violations

    def __bool__(self) -> bool:
        return self.valid

    def __len__(self) -> int:
        return len(self.violations)

    def __iter__(self) -> Iterator[Violation]:
        return iter(self.violations)

    def precedes(self, first: str, second: str, *, strict: bool = False, bundle: str | None = None) -> bool:
        """Return whether the constraints order one event before another; with `strict`, strictly before it.

        Events are named by the IRI of their generation, usage, invalidation, start or end (`_:b` for a blank node).
        """
        order = self.orders.get(_to_turtle(bundle) if bundle else None)
        if order is None:
            raise NodeNotFound(str(bundle))
        return order.precedes(_to_turtle(first), _to_turtle(second), strict=strict)

    def groups(self) -> dict[int | str, list[Violation]]:
        """Return the violations by rule."""
        groups: dict[int | str, list[Violation]] = {}
        for violation in self.violations:
            groups.setdefault(violation.constraint, []).append(violation)
        return groups

    def __str__(self) -> str:
        if self.valid:
            return "The document is valid by PROV-CONSTRAINTS."
        lines = [f"The document is not valid by PROV-CONSTRAINTS: {plural(len(self), 'violation')}."]
        for violations in self.groups().values():
            lines += [f"- {violation}" for violation in violations[:MAX_VIOLATIONS]]
            if len(violations) > MAX_VIOLATIONS:
                lines.append(f"  … and {len(violations) - MAX_VIOLATIONS} more of {violations[0].name}")
        return "\n".join(lines)

    def to_report(self) -> Report:
        """Return the violations as a report; the value of each result is the reason."""
        return Report(tuple(map(_to_result, self.violations)))


def _to_result(violation: Violation) -> Result:
    node = violation.nodes[0]
    return Result(
        focus=node[1:-1] if node.startswith("<") else node,
        path=None,
        values=tuple(map(_to_literal, (violation.reason, *violation.cycle_lines(), *violation.inference_lines()))),
        message=violation.description,
        shape=f"{RECOMMENDATION}{violation.name}",
        severity="Violation",
        bundle=(violation.bundle or "").strip("<>"),
        reason=violation.reason,
        rules=tuple(rule_iri(number) for number in sorted({*violation.constraints, *violation.inferences})),
        cycle=violation.cycle,
    )


def _to_turtle(node: str) -> str:
    """Return an IRI or a term in Turtle syntax."""
    text = str(node)
    return text if text.startswith(("<", "_:")) else f"<{text}>"


def _to_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
