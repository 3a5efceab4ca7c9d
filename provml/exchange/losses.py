"""What an import preserved of a source, what it guessed, what the source does not have, and what has no place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from provml.errors import plural

POINTS, PARAMETERS, TAGS, DATASETS, FILES = "metric points", "parameters", "tags", "datasets", "files"
MODELS, TEXTS, OTHERS = "models", "texts", "other records"
"""Kinds of items that sources hold."""


@dataclass(frozen=True)
class Remark:
    """Something that an import did to items of a kind, and why."""

    kind: str
    subject: str
    reason: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"


@dataclass
class Tally:
    """The items of one kind: how many the source holds, and what became of them."""

    source: int = 0
    exact: int = 0
    guessed: int = 0
    left_out: int = 0

    @property
    def is_complete(self) -> bool:
        """True if every item of the source is accounted for."""
        return self.source == self.exact + self.guessed + self.left_out

    def add(self, other: Tally) -> None:
        """Add the numbers of another tally."""
        self.source += other.source
        self.exact += other.exact
        self.guessed += other.guessed
        self.left_out += other.left_out


@dataclass
class LossReport:
    """The account of an import. Every item of the source is exact, guessed or left out."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    guesses: list[Remark] = field(default_factory=list)
    losses: list[Remark] = field(default_factory=list)
    absent: list[Remark] = field(default_factory=list)
    """What a run can say and the source does not have."""

    def tally(self, kind: str) -> Tally:
        """Return the numbers of a kind of items."""
        return self.tallies.setdefault(kind, Tally())

    def count(self, kind: str, number: int = 1) -> None:
        """Count items that the source holds."""
        if number:
            self.tally(kind).source += number

    def preserve(self, kind: str, number: int = 1) -> None:
        """Count items that are in the run as they were."""
        if number:
            self.tally(kind).exact += number

    def guess(self, kind: str, subject: str, reason: str, number: int = 1) -> None:
        """Count items that are in the run by a guess; 0 for a guess about items that are counted elsewhere."""
        if number:
            self.tally(kind).guessed += number
        self.guesses.append(Remark(kind, subject, reason, number))

    def leave_out(self, kind: str, subject: str, reason: str, number: int = 1) -> None:
        """Count items that are not in the run."""
        if number:
            self.tally(kind).left_out += number
        self.losses.append(Remark(kind, subject, reason, number))

    def lack(self, subject: str, reason: str) -> None:
        """Note something that the source does not have."""
        self.absent.append(Remark("", subject, reason, 0))

    def add(self, other: LossReport) -> None:
        """Add the numbers of another report."""
        for kind, tally in other.tallies.items():
            self.tally(kind).add(tally)

    @property
    def is_complete(self) -> bool:
        """True if the numbers add up to what the source holds."""
        return all(tally.is_complete for tally in self.tallies.values())

    def to_data(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "totals": {
                kind: {
                    "source": tally.source,
                    "kept": tally.exact,
                    "guessed": tally.guessed,
                    "not_representable": tally.left_out,
                }
                for kind, tally in self.tallies.items()
            },
            "guessed": [_data(remark) for remark in self.guesses],
            "not_representable": [_data(remark) for remark in self.losses],
            "not_in_source": [{"what": remark.subject, "why": remark.reason} for remark in self.absent],
        }

    def lines(self) -> list[str]:
        """Return the report as lines of text; remarks of the same kind and reason are joined."""
        lines = [_sentence(kind, tally) for kind, tally in self.tallies.items() if tally.source]
        for word, remarks in (
            ("guessed", self.guesses),
            ("not representable", self.losses),
            ("not in the source", self.absent),
        ):
            grouped: dict[str, list[str]] = {}
            for remark in remarks:
                subjects = grouped.setdefault(remark.reason, [])
                if remark.subject not in subjects:
                    subjects.append(remark.subject)
            lines += [f"{word}: {_join(subjects)}: {reason}" for reason, subjects in grouped.items()]
        return lines


def _sentence(kind: str, tally: Tally) -> str:
    parts = [f"{tally.exact:,} kept"]
    if tally.guessed:
        parts.append(f"{tally.guessed:,} kept by a guess")
    if tally.left_out:
        parts.append(f"{tally.left_out:,} not representable")
    missing = tally.source - tally.exact - tally.guessed - tally.left_out
    if missing:
        parts.append(f"{missing:,} not accounted for")
    return f"{kind}: {tally.source:,} in the source; {', '.join(parts)}"


def _join(subjects: list[str], limit: int = 5) -> str:
    more = len(subjects) - limit
    return ", ".join(subjects[:limit]) + (f" and {plural(more, 'other')}" if more > 0 else "")


def _data(remark: Remark) -> dict[str, Any]:
    return {"kind": remark.kind, "what": remark.subject, "why": remark.reason, "count": remark.count}
