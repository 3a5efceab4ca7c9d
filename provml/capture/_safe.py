"""Errors of a capture, kept away from the training: reported to the run, never raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from provml.recording.run import Run

T = TypeVar("T")


def try_or(run: Run, function: Callable[[], T], default: T) -> T:
    """Return the result of a function, or the default if it raises: the rest of the training is still recorded."""
    try:
        return function()
    except Exception as error:
        run._report_error(error)
        return default
