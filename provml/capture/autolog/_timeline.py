"""The course of a training loop: its steps and validations, and the rule that divides the steps into epochs.

The rules, in this order:

- a pass over the training loader is an epoch, unless several steps were made with the only batch of a pass
- without a loader, a call of the function that makes the steps is an epoch, if it makes more than one step
- otherwise the steps between two validations are an epoch
- otherwise there are no epochs, only steps

The first steps wait until it is clear which rule holds: until the second batch of a loader, in most cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from provml.recording.frames import ForeignLoop

LOADER, CALL, VALIDATION, STEPS = "pass over the training loader", "call of the function that trains", "validation", ""
"""The rules."""
MAX_WAITING_STEPS = 100_000
MAX_WAITING_SECONDS = 600.0
"""Steps wait no longer for a rule, since they are lost if the process is killed."""


@dataclass(eq=False, slots=True)
class Pass:
    """One iteration over a loader."""

    loader: Any
    began: float
    batches: int = 0
    is_fresh: bool = False
    """Whether it gave a batch since the last backward pass."""
    is_over: bool = False
    loop: ForeignLoop | None = None
    iterator: Callable[[], Any] = lambda: None
    """Returns the iterator, or None if the loop was left: it is a weak reference."""

    @property
    def is_open(self) -> bool:
        """Whether the iterator may give more batches."""
        return not self.is_over and self.iterator() is not None

    @property
    def exit_error(self) -> BaseException | None:
        """The exception that left the loop over the loader, also if the script caught it."""
        return self.loop.exit_error if self.loop is not None and not self.is_over else None


@dataclass(eq=False, slots=True)
class Row:
    """A step of each optimizer: the losses by the optimizer's number, and changed hyperparameters."""

    began: float
    source: Pass | None
    """The pass of the training loader that gave the batch."""
    batch: int
    """The number of that batch in its pass."""
    call: int
    """The number of the call of the user's function."""
    ended: float = 0.0
    losses: dict[int, list[Any]] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)
    closures: int = 0
    """How often an optimizer evaluated the loss in one step, if it did so itself."""
    change: Any = None


@dataclass(eq=False, slots=True)
class Phase:
    """Forward passes without gradients, after some steps: a validation, or an evaluation."""

    began: float
    rule: str
    source: Pass | None = None
    ended: float = 0.0
    losses: list[tuple[str, Any, int, bool]] = field(default_factory=list)
    """Function, value, number of rows, and whether the value is a sum over the rows."""
    batches: int = 0
    is_inside_pass: bool = False
    """Whether the training loader had more batches to give."""
    is_in_evaluation_mode: bool = False
    model: Any = None
    """The file that the evaluated model was loaded from."""

    @property
    def counts(self) -> bool:
        """Whether something was evaluated. Within a pass, only another loader or the mode of the network shows that."""
        if not self.losses and not self.batches:
            return self.is_in_evaluation_mode and self.model is not None
        return not self.is_inside_pass or self.is_in_evaluation_mode or self.source is not None


class Timeline:
    """Divides rows and phases into epochs and hands them on in order."""

    def __init__(
        self,
        on_epoch: Callable[[Row, str], None],
        on_row: Callable[[Row], None],
        on_phases: Callable[[list[Phase], bool], None],
    ) -> None:
        self.rule: str | None = None
        """The rule; None while it is not known."""
        self.waiting: list[Row | Phase] = []
        self._on_epoch, self._on_row, self._on_phases = on_epoch, on_row, on_phases
        self._phases: list[Phase] = []
        """Phases after the last row."""
        self._section: object = None
        self._source: Pass | None = None
        """The pass that is the open epoch, if passes are the epochs."""
        self._validations = 0

    def add_row(self, row: Row) -> None:
        """Add a step that has ended."""
        if self.rule is not None:
            if row.source is not None and row.source is self._source and not self._phases:
                self._on_row(row)
            else:
                self._hand_on(row)
            return
        self.waiting.append(row)
        self.decide(row)
        if self.waiting and self._waits_too_long(row):
            self.set_rule(STEPS)

    def add_phase(self, phase: Phase) -> None:
        """Add a phase that has ended."""
        if self.rule is None:
            self.waiting.append(phase)
        else:
            self._phases.append(phase)

    def end(self) -> None:
        """Hand on what is left; phases after the last step may be evaluations."""
        if self.rule is None:
            self.decide(None)
        if self.rule is None:
            self.set_rule(STEPS)
        phases, self._phases = self._phases, []
        if phases:
            self._on_phases(phases, True)

    # ---- the rule

    def decide(self, latest: Row | None) -> None:
        """Set the rule if the waiting steps reveal it. `latest` is the last step; None at the end."""
        rows = [item for item in self.waiting if isinstance(item, Row)]
        if self.rule is not None or not rows:
            return
        first = rows[0]
        if first.source is not None and (_is_loop(first.source, rows) or (latest is None and first.source.is_over)):
            if _is_loop(first.source, rows) or max(_steps_per_batch(rows)) == 1:
                self.set_rule(LOADER)
        elif latest is not None and len(rows) > 1:
            before = rows[-2]
            count = sum(row.call == before.call for row in rows)
            has_phase = any(isinstance(item, Phase) for item in self.waiting)
            if latest.call != before.call and count > 1:
                self.set_rule(CALL)
            elif has_phase:
                self.set_rule(VALIDATION)

    def _waits_too_long(self, latest: Row) -> bool:
        first = self.waiting[0]
        return len(self.waiting) > MAX_WAITING_STEPS or latest.ended - first.began > MAX_WAITING_SECONDS

    def set_rule(self, rule: str) -> None:
        """Set the rule and hand on what waited for it."""
        self.rule = rule
        waiting, self.waiting = self.waiting, []
        for item in waiting:
            if isinstance(item, Phase):
                self._phases.append(item)
            else:
                self._hand_on(item)

    def _hand_on(self, row: Row) -> None:
        phases, self._phases = self._phases, []
        if phases:
            self._on_phases(phases, False)
            self._validations += 1
        section = self._section_of(row)
        if section != self._section:
            self._section = section
            self._source = row.source if self.rule == LOADER else None
            self._on_epoch(row, self.rule or STEPS)
        self._on_row(row)

    def _section_of(self, row: Row) -> object:
        if self.rule == LOADER:
            return id(row.source) if row.source is not None else self._section
        return {CALL: row.call, VALIDATION: self._validations}.get(self.rule or STEPS, 0)


def _steps_per_batch(rows: list[Row]) -> list[int]:
    """Return the largest number of steps that an optimizer made with one batch, for each batch."""
    counts: dict[tuple[int, int], dict[int, int]] = {}
    for row in rows:
        of_batch = counts.setdefault((id(row.source), row.batch), {})
        for optimizer, steps in row.steps.items():
            of_batch[optimizer] = of_batch.get(optimizer, 0) + steps
    return [max(of_batch.values(), default=0) for of_batch in counts.values()]


def _is_loop(source: Pass, rows: list[Row]) -> bool:
    """Return whether the passes over a loader are the loop: it gave a second batch, or a second pass of one batch."""
    if source.batches > 1:
        return True
    return len({id(row.source) for row in rows}) > 1 and max(_steps_per_batch(rows)) == 1


def now() -> float:
    """Return the time by the clock of rows and phases."""
    return perf_counter()
