"""Loops over validation or test data: `for x, y in capture.batches(loader, role="validation"):`."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from provml.capture.torch._batch_means import BatchMeans
from provml.journal.batch_buffer import BatchBuffer
from provml.recording.batches import Batch, BatchedSection
from provml.recording.run import Run
from provml.recording.safety import never_raise
from provml.recording.stages import Epoch, Stage


class ValidationLoop:
    """Records the loops over one loader: each is the validation of an epoch, or else an evaluation of the model.

    `begin` begins one and returns its section. It ends when something else begins: measures are often computed after
    the loop.
    """

    def __init__(self, run: Run, begin: Callable[[ValidationLoop, Any], Epoch | Stage | None]) -> None:
        self.run = run
        self.batch: Batch | None = None
        self.buffer: BatchBuffer | None = None
        self.epoch: BatchedSection | None = None
        self._begin = begin
        self._section: Epoch | Stage | None = None
        self._means = BatchMeans()
        self._names: set[str] = set()
        """Names of the measures of the whole section."""
        self._last_active = 0.0

    def on_first_batch(self, loader: Any) -> BatchedSection | None:
        """Begin the validation or evaluation of a first batch. The batches of an evaluation are not recorded."""
        self._means, self._names = BatchMeans(), set()
        self._section = section = self._begin(self, loader)
        if isinstance(section, Stage):
            self.epoch = BatchedSection(self.run, section._location)
            self.epoch._every = 0
        else:
            self.epoch = section
        self._last_active = perf_counter()
        return self.epoch

    def on_loop_left(self, batch: Batch) -> None:
        """End the batch in which a loop was left."""
        self.batch = None
        self._last_active = perf_counter()

    @never_raise
    def measured(self, /, **values: Any) -> None:
        """Record measures of the current batch, or after the loop of the whole validation."""
        batch = self.batch
        self._last_active = perf_counter()
        if batch is not None:
            is_in_buffer, errors = batch._record_values(values)
            if not is_in_buffer:
                self._means.add(values)
            for error in errors:
                self.run._report_error(error)
        elif self._section is not None:
            self._names.update(values)
            self._section.measured(**values)

    def end(self, error: BaseException | None = None) -> None:
        """End the validation or evaluation, at the time of its last measure or batch."""
        section, self._section, self.epoch, self.batch = self._section, None, None, None
        if isinstance(section, Epoch):
            section._release_buffer()
            self._means.add_totals(section._totals)
            section._ended = self._last_active
        if section is not None:
            section.measured(**self._means.means(exclude=self._names))
            section.done(error=error)
