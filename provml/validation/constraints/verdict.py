"""What the check said: true when the document is valid, else each violation with its constraint, nodes and reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provml.errors import NoSuchNode
from provml.validation.constraints.rule import DM, LINKS, RULES
from provml.validation.report import Report, Result

if TYPE_CHECKING:
    from provml.validation.constraints.order import Order

SHOWN, LONG = 5, 20
RECOMMENDATION = "https://www.w3.org/TR/prov-constraints/#"

UNNUMBERED = {
    DM: ("mandatory-part", "A statement has the parts that it cannot do without."),
    LINKS: ("unique-mention", "An entity mentions one entity of one bundle."),
}
"""The rules that have no number in PROV-CONSTRAINTS, by the document that they are from."""


@dataclass(frozen=True)
class Step:
    """One step of a cycle: an event that has to be before another, and the constraints that say so."""

    before: str
    after: str
    constraints: tuple[int, ...]
    strict: bool

    def __str__(self) -> str:
        relation = "is strictly before" if self.strict else "is not after"
        return f"{self.before} {relation} {self.after} ({_listed(self.constraints)})"


@dataclass(frozen=True)
class Violation:
    """One breach: the rule that it breaks, the nodes that break it, and how.

    `constraint` is the number of the rule, or the name of the document where a rule has none; `constraints` are the
    numbers of all rules that take part; `nodes` are as Turtle writes them; `cycle` is filled where events are in a
    circle; `bundle` is the named graph that is broken, None for what is in no named graph.
    """

    constraint: int | str
    nodes: tuple[str, ...]
    reason: str
    also: tuple[int, ...] = ()
    cycle: tuple[Step, ...] = ()
    bundle: str | None = None

    @property
    def constraints(self) -> tuple[int, ...]:
        """The numbers of all rules that take part, in order."""
        own = [self.constraint] if isinstance(self.constraint, int) else []
        return tuple(sorted({*own, *self.also, *(number for step in self.cycle for number in step.constraints)}))

    @property
    def name(self) -> str:
        """The name of the rule."""
        return _rule(self.constraint)[0]

    @property
    def promise(self) -> str:
        """What the rule promises, in words, with its number and name."""
        number = self.constraint
        return f"{f'Constraint {number}' if isinstance(number, int) else number} ({self.name}): {_rule(number)[1]}"

    def __str__(self) -> str:
        number = self.constraint
        place = f" [in the bundle {self.bundle}]" if self.bundle else ""
        lines = [
            f"{f'Constraint {number}' if isinstance(number, int) else number} ({self.name}){place}: {self.reason}",
            *(f"    {step}" for step in self.told()),
        ]
        return "\n".join(lines)

    def told(self) -> list[str]:
        """The steps of the cycle in words; of a very long one, the first."""
        more = len(self.cycle) - LONG
        return [*map(str, self.cycle[:LONG]), *([f"… and {more} more steps round"] if more > 0 else [])]


@dataclass(frozen=True)
class Verdict:
    """Whether a document is valid by PROV-CONSTRAINTS: true if it is, and what breaks it where it is not."""

    violations: tuple[Violation, ...]
    orders: dict[str | None, Order] = field(default_factory=dict, repr=False, compare=False)

    @property
    def valid(self) -> bool:
        """Whether nothing is broken."""
        return not self.violations

    def __bool__(self) -> bool:
        return self.valid

    def __len__(self) -> int:
        return len(self.violations)

    def __iter__(self) -> Iterator[Violation]:
        return iter(self.violations)

    def precedes(self, first: str, second: str, *, strict: bool = False, bundle: str | None = None) -> bool:
        """Whether the constraints say that one event is before another; with `strict`, that they are not at once.

        Events are given by the IRI of their generation, usage, invalidation, start or end (`_:b` for a blank node).
        """
        order = self.orders.get(_turtle(bundle) if bundle else None)
        if order is None:
            raise NoSuchNode(str(bundle))
        return order.precedes(_turtle(first), _turtle(second), strict=strict)

    def groups(self) -> dict[int | str, list[Violation]]:
        """The violations by the rule that they break."""
        grouped: dict[int | str, list[Violation]] = {}
        for violation in self.violations:
            grouped.setdefault(violation.constraint, []).append(violation)
        return grouped

    def __str__(self) -> str:
        if self.valid:
            return "The document is valid by PROV-CONSTRAINTS."
        lines = [f"The document is not valid by PROV-CONSTRAINTS: {len(self)} violation{'s'[: len(self) > 1]}."]
        for violations in self.groups().values():
            lines += [f"- {violation}" for violation in violations[:SHOWN]]
            if len(violations) > SHOWN:
                lines.append(f"  … and {len(violations) - SHOWN} more of {violations[0].name}")
        return "\n".join(lines)

    def to_report(self) -> Report:
        """The violations as results, grouped like those of shapes; the reason of each is its value."""
        return Report(
            tuple(
                Result(
                    focus=_bare(violation.nodes[0]),
                    path=None,
                    values=tuple(map(_literal, (violation.reason, *violation.told()))),
                    message=violation.promise,
                    shape=f"{RECOMMENDATION}{violation.name}",
                    severity="Violation",
                )
                for violation in self.violations
            )
        )


def _rule(number: int | str) -> tuple[str, str]:
    return UNNUMBERED[number] if isinstance(number, str) else RULES[number]


def _listed(numbers: tuple[int, ...]) -> str:
    return f"constraint{'s'[: len(numbers) > 1]} {' and '.join(map(str, numbers))}"


def _turtle(node: str) -> str:
    """A node as Turtle writes it, from an IRI or a term."""
    text = str(node)
    return text if text.startswith(("<", "_:")) else f"<{text}>"


def _bare(node: str) -> str:
    return node[1:-1] if node.startswith("<") else node


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
