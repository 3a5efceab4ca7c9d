"""The contract of captures for autolog: the same trainings, without a capture in the script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import provml
from capture.contract import CaptureContract, Expected
from provml.recording.run import Run


@contextmanager
def autologging(run: Run | None = None, **settings: Any) -> Iterator[None]:
    """Switch autolog on for a block."""
    provml.autolog(run=run, **settings)
    try:
        yield
    finally:
        provml.autolog(False)


class AutologContract(CaptureContract):
    """The tests of `explicit`, whose training runs without its capture and is recorded by autolog."""

    explicit: ClassVar[type[CaptureContract]]

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        if run is None:
            return cls.explicit.train(None, folder, fails=fails)
        with autologging(run):
            return cls.expected(cls.explicit.train(None, folder, fails=fails))

    @classmethod
    def expected(cls, expected: Expected) -> Expected:
        """Return what the framework can reveal: a score that the script computes by hand is not recorded."""
        return expected
