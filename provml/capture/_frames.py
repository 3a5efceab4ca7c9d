"""Inspection of Python frames: arguments that frameworks hide from callbacks. `provml.recording.loops` has the loops.

Frames are read and never changed. All of it is best effort and can be switched off with the environment variable
PROVML_NO_FRAME_INSPECTION=1. It is off by itself where the interpreter has no frames. Then `caller_arguments` and
`caller_frames` return nothing: arguments of a framework's training function, such as the planned number of rounds or
the data, are not recorded unless they are passed to the capture.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from types import FrameType
from typing import Any

from provml.recording.loops import is_enabled, known_exceptions

MAX_FRAMES = 24
"""Callers of a callback that are searched at most."""


def caller_frames() -> Iterator[FrameType]:
    """Return the frames above the callback that calls the caller of this function, the innermost first."""
    return _callers(sys._getframe(2).f_back) if is_enabled() else iter(())


def caller_arguments(module: str, *names: str) -> dict[str, Any]:
    """Return the local variables of the nearest caller with one of these names in a module; empty if there is none."""
    for frame in _callers(sys._getframe(1).f_back) if is_enabled() else ():
        if frame.f_globals.get("__name__") == module and frame.f_code.co_name in names:
            return dict(frame.f_locals)
    return {}


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(MAX_FRAMES):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def raised_in_method(error: BaseException | None, method: str, owners: Collection[Any]) -> bool:
    """Return whether an exception, or one that it was raised from, passed through a method of one of the owners."""
    checked: set[int] = set()
    while is_enabled() and error is not None and id(error) not in checked:  # contexts may form a cycle
        checked.add(id(error))
        trace = error.__traceback__
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            if frame.f_code.co_name == method and any(frame.f_locals.get("self") is owner for owner in owners):
                return True
        error = error.__context__
    return False


def raised_in_package(package: str, earlier: Collection[int]) -> BaseException | None:
    """Return the exception that is being handled, or that a notebook showed last, if it passed through a package.

    `earlier` are ids of exceptions that do not count. Without inspection or a package, the one being handled counts.
    """
    if not is_enabled() or not package:
        handled = sys.exc_info()[1]
        return handled if id(handled) not in earlier else None
    for error in known_exceptions(None):
        trace = error.__traceback__ if id(error) not in earlier else None
        while trace is not None:
            if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] == package:
                return error
            trace = trace.tb_next
    return None
