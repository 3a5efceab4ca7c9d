"""Exceptions: which one is being handled or is leaving a frame, and what it passed through."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterator
from types import FrameType, TracebackType
from typing import Any

from provml.recording.frames._bytecode import instruction_start, opname
from provml.recording.frames._support import is_enabled

MAX_OLD_EXCEPTIONS = 16
"""Exceptions without a traceback that are examined at most if none is young: each takes as long as a collection."""


def known_exceptions(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, the one that is being handled, the last one that a notebook showed, and their contexts."""
    yielded: set[int] = set()  # contexts may form a cycle
    for exception in (error, sys.exc_info()[1], getattr(sys, "last_value", None)):
        while isinstance(exception, BaseException) and id(exception) not in yielded:
            yielded.add(id(exception))
            yield exception
            exception = exception.__context__


def raised_in_method(error: BaseException | None, method: str, owners: Collection[Any]) -> bool:
    """Return whether an exception, or one that it was raised from, passed through a method of one of the owners."""
    checked: set[int] = set()
    while is_enabled() and error is not None and id(error) not in checked:  # contexts may form a cycle
        checked.add(id(error))
        for frame, _ in traceback_frames(error):
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
        if id(error) in earlier:
            continue
        modules = (str(frame.f_globals.get("__name__")) for frame, _ in traceback_frames(error))
        if any(module.partition(".")[0] == package for module in modules):
            return error
    return None


def traceback_frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames that an exception passed, outermost first, with the bytecode offset in each."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lasti
        trace = trace.tb_next


def traceback_offsets(error: BaseException | None) -> dict[int, int]:
    """Return the bytecode offsets that an exception passed, by the id of the frame."""
    offsets: dict[int, int] | None = getattr(error, "raise_offsets", None)  # of an exit, which has no traceback yet
    if offsets is not None:
        return offsets
    return {id(frame): offset for frame, offset in traceback_frames(error)} if error is not None else {}


def raised_exception(frame: FrameType) -> BaseException | None:
    """Return the exception that is leaving a frame; None if it is not certain which one it is.

    Python hands out an exception only when it is caught, so it is searched among all objects: its traceback passes
    through the frame. Up to Python 3.11 this is so only if it was caught and raised again on its way.
    """
    young = gc.get_objects(0) + gc.get_objects(1)  # not `[*…]`, a list that would contain itself
    objects = gc.get_objects()
    exceptions = [item for item in objects if issubclass(type(item), BaseException)]  # `type` triggers no proxy
    if sys.version_info < (3, 12):
        traces = [item for item in objects if type(item) is TracebackType]
        later = {id(trace.tb_next) for trace in traces} | {id(error.__traceback__) for error in exceptions}
        heads = [trace for trace in traces if trace.tb_frame is frame and id(trace) not in later]
        if heads:
            return _raised_with(heads[0], exceptions, young) if len(heads) == 1 else None
    passing = [error for error in exceptions if traceback_offsets(error).get(id(frame)) == frame.f_lasti]
    return passing[0] if len(passing) == 1 else None


def _raised_with(head: TracebackType, exceptions: list[Any], young: list[Any]) -> BaseException | None:
    """Return the exception of a traceback that no exception has yet, on Python 3.11.

    If it was caught on its way, it has the part of the traceback up to there. Otherwise only the exception of a `raise`
    exists: an object with no traceback to which no object refers, and a young one, unless garbage was collected just
    now. C code leaves it to the `except` to create one.
    """
    entries = [head]
    while entries[-1].tb_next is not None:
        entries.append(entries[-1].tb_next)
    positions = set(map(id, entries))
    caught: list[BaseException] = [error for error in exceptions if id(error.__traceback__) in positions]
    if caught:
        return caught[0]
    code = entries[-1].tb_frame.f_code
    if opname(code, instruction_start(code, entries[-1].tb_lasti)) != "RAISE_VARARGS":
        return None
    is_young = set(map(id, young))
    fresh = [error for error in exceptions if error.__traceback__ is None]
    own = (FrameType, list)  # this search refers to it, too
    for errors in (
        [error for error in fresh if id(error) in is_young],
        fresh if len(fresh) <= MAX_OLD_EXCEPTIONS else [],
    ):
        candidates = [error for error in errors if all(isinstance(item, own) for item in gc.get_referrers(error))]
        if candidates:
            return candidates[0] if len(candidates) == 1 else None
    return None
