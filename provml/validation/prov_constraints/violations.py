"""Violations of PROV-CONSTRAINTS, described for people."""

from __future__ import annotations

from dataclasses import dataclass

from provml.validation.prov_constraints.rules import PROV_DM, PROV_LINKS, RULES
from provml.validation.results import CycleStep

MAX_STEPS = 20
"""Steps shown of a cycle."""
LAST_INFERENCE = 21
"""The definitions and inferences have the numbers up to this one, the constraints those after it."""

UNNUMBERED_RULES = {
    PROV_DM: ("mandatory-part", "A statement has its mandatory parts."),
    PROV_LINKS: ("unique-mention", "An entity mentions one entity of one bundle."),
}
"""The rules that have no number in PROV-CONSTRAINTS, by the document that defines them."""


@dataclass(frozen=True)
class Violation:
    """A violation of a rule: the rule, the nodes that violate it, and the reason.

    `constraint` is the number of the rule, or the document of a rule without a number. `also` are the numbers of
    further rules that take part. `nodes` are in Turtle syntax. `cycle` has the steps of a cycle of events. `bundle` is
    the named graph, or None for the default graph. `inferred_by` are the numbers of the inferences that gave
    statements that the violation follows from.
    """

    constraint: int | str
    nodes: tuple[str, ...]
    reason: str
    also: tuple[int, ...] = ()
    cycle: tuple[CycleStep, ...] = ()
    bundle: str | None = None
    inferred_by: tuple[int, ...] = ()

    @property
    def inferences(self) -> tuple[int, ...]:
        """The numbers of the inferences that led to the violation, sorted."""
        steps = (number for step in self.cycle for number in step.inferences)
        numbers = {*self.inferred_by, *steps, *(number for number in self.also if number <= LAST_INFERENCE)}
        return tuple(sorted(numbers))

    @property
    def constraints(self) -> tuple[int, ...]:
        """The numbers of all rules that take part, sorted."""
        own = [self.constraint] if isinstance(self.constraint, int) else []
        return tuple(sorted({*own, *self.also, *(number for step in self.cycle for number in step.constraints)}))

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self._rule[0]

    @property
    def title(self) -> str:
        """The number and name of the rule."""
        number = self.constraint
        return f"{f'Constraint {number}' if isinstance(number, int) else number} ({self.name})"

    @property
    def description(self) -> str:
        """The number, name and description of the rule."""
        return f"{self.title}: {self._rule[1]}"

    @property
    def _rule(self) -> tuple[str, str]:
        return UNNUMBERED_RULES[self.constraint] if isinstance(self.constraint, str) else RULES[self.constraint]

    def __str__(self) -> str:
        place = f" [in the bundle {self.bundle}]" if self.bundle else ""
        lines = [*self.cycle_lines(), *self.inference_lines()]
        return "\n".join([f"{self.title}{place}: {self.reason}", *(f"    {line}" for line in lines)])

    def inference_lines(self) -> list[str]:
        """Return a description of each inference that led to the violation."""
        return [f"by inference {number} ({RULES[number][0]}): {RULES[number][1]}" for number in self.inferences]

    def cycle_lines(self) -> list[str]:
        """Return a description of each step of the cycle, at most MAX_STEPS."""
        omitted = len(self.cycle) - MAX_STEPS
        return [*map(str, self.cycle[:MAX_STEPS]), *([f"… and {omitted} more steps"] if omitted > 0 else [])]
