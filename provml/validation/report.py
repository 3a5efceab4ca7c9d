"""What validation said: true when the graph conforms, and one line a broken promise however often it is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SHOWN = 3


@dataclass(frozen=True)
class Result:
    """One node that breaks one promise."""

    focus: str
    path: str | None
    value: str | None
    message: str
    shape: str
    severity: str


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
        lines = [f"{len(self.results)} result(s) in {len(self.groups())} group(s):"]
        for (severity, message), results in self.groups().items():
            nodes = ", ".join(f"<{result.focus}>" for result in results[:SHOWN])
            more = f" and {len(results) - SHOWN} more" if len(results) > SHOWN else ""
            lines.append(f"- {severity} ({len(results)}): {message}\n  at {nodes}{more}")
        return "\n".join(lines)
