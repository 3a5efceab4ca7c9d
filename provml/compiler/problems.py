"""Problems of ontology files: what is missing or wrong, and what the compiler assumes instead."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from provml.errors import OntologyError


@dataclass(frozen=True)
class Problem:
    """Something that a file lacks or states wrongly, how to correct it, and the assumption that replaces it."""

    path: Path
    line: int | None
    reason: str
    advice: str
    assumption: str

    def __str__(self) -> str:
        return f"{self.path.name}{f':{self.line}' if self.line else ''}: {self.reason}; assumed: {self.assumption}"


class Problems:
    """All problems of the files of one compilation, each once."""

    def __init__(self) -> None:
        self._problems: dict[Problem, None] = {}

    def add(self, path: Path, line: int | None, reason: str, *, advice: str, assumption: str) -> None:
        self._problems[Problem(path, line, reason, advice, assumption)] = None

    def sorted(self) -> list[Problem]:
        """Return the problems by file and line."""
        return sorted(self._problems, key=lambda problem: (str(problem.path), problem.line or 0))

    def refuse(self) -> None:
        """Raise one `OntologyError` that lists all problems, if there are any."""
        problems = self.sorted()
        if not problems:
            return
        first, *others = problems
        rest = [OntologyError(each.reason, each.advice, file=str(each.path), line=each.line) for each in others]
        advice = "\n".join([first.advice, *map(str, rest)])
        raise OntologyError(first.reason, advice, file=str(first.path), line=first.line)
