"""Exceptions that left the loop of a training and that the script caught: nothing passes them to provml.

From Python 3.12 on, `sys.monitoring` reports each exception that is caught. Python 3.11 tells nobody, but an exception
leaves traces:

- when its handler ends, the variables of the frames that it left are deleted, such as the loss of the last step
- a script that keeps the exception keeps its traceback, which passes through the loop
- a loop over a `range` that only an exception can leave did not take its last item, see `_counted`
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from time import perf_counter
from types import CodeType, FrameType
from typing import Any, NamedTuple

from provml.recording.exit_status import (
    INTERRUPT,
    INTERRUPTION,
    UNKNOWN_EXCEPTION,
    ExceptionSummary,
    summarize_exception,
)
from provml.recording.frames._bytecode import (
    Clause,
    CodeLoop,
    clause_around,
    goes_on_at,
    handler_at,
    instruction_start,
    is_end_of_handler,
    loops_around,
    only_returns_after,
    opname,
)
from provml.recording.frames._counted import CountedLoops
from provml.recording.frames._exceptions import traceback_frames
from provml.recording.frames._support import knows_bytecode

IS_MONITORED = sys.version_info >= (3, 12)
TOOLS = (3, 4)
"""Numbers of tools of `sys.monitoring` that have no meaning of their own."""

NO_FAILURES = (["SystemExit"], ["StopIteration"], ["StopAsyncIteration"], ["GeneratorExit"])
"""What an `except` catches that may be no failure: the code of an exit is not known."""
MAX_SEARCHES = 64
"""Searches among all objects of a process at most: each takes as long as a collection of garbage."""


class Place(NamedTuple):
    """A frame that makes steps, and the bytecode offset at which it does."""

    identity: int
    code: CodeType
    offset: int
    outer_loops: frozenset[CodeLoop]
    """Loops that make several trainings."""

    def loop_around(self, raised_at: int | None = None) -> CodeLoop | None:
        """Return the innermost loop around the steps, and around another instruction of the frame."""
        loops = tuple(loop for loop in loops_around(self.code, self.offset) if loop not in self.outer_loops)
        if raised_at is not None:
            others = set(loops_around(self.code, raised_at))
            loops = tuple(loop for loop in loops if loop in others)
        return loops[0] if loops else None

    def is_outside(self, frame: FrameType, handler: int) -> bool:
        """Return whether a handler in a frame that is executed now is outside of the loop, and of what the loop calls.

        If the frame of the loop has ended, the exception may also be one that was raised after the loop.
        """
        loop = self.loop_around()
        if loop is None or (id(frame) == self.identity and frame.f_code is self.code):
            return loop is not None and handler not in loop.offsets
        return not _is_called_by(frame, self.identity, self.code)

    def is_left_by(self, error: BaseException, handler: int | None = None) -> bool:
        """Return whether an exception left a loop around the steps, and was caught outside of it.

        `handler` is the offset of the handler; by default, the one of the frame that the exception reached last.
        """
        passed = list(traceback_frames(error))
        for frame, raised_at in passed:
            if id(frame) == self.identity and frame.f_code is self.code:
                loop = self.loop_around(raised_at)
                catcher, caught_at = passed[0]
                if catcher is not frame:
                    return loop is not None and _was_ended_by_exception(frame)
                handler = handler_at(catcher.f_code, caught_at) if handler is None else handler
                return loop is not None and (handler is None or handler not in loop.offsets)
        return False

    def is_made_once(self, error: BaseException) -> bool:
        """Return whether the loop that an exception left cannot have been begun again after it was caught."""
        catcher, caught_at = next(traceback_frames(error))
        if id(catcher) != self.identity or catcher.f_code is not self.code:
            return True
        loop, handler = self.loop_around(caught_at), handler_at(self.code, caught_at)
        return loop is None or handler is None or not goes_on_at(self.code, handler, loop.begin)


def _callers_of(frame: FrameType) -> Iterator[FrameType]:
    """Yield a frame and its callers."""
    caller: FrameType | None = frame
    while caller is not None:
        yield caller
        caller = caller.f_back


def _is_called_by(frame: FrameType, identity: int, code: CodeType) -> bool:
    return any(id(caller) == identity and caller.f_code is code for caller in _callers_of(frame))


def _was_ended_by_exception(frame: FrameType) -> bool:
    """Return whether a frame has ended, and not by `return`: an exception that it returned may be raised later."""
    is_running = any(_is_called_by(item, id(frame), frame.f_code) for item in sys._current_frames().values())
    name = opname(frame.f_code, instruction_start(frame.f_code, frame.f_lasti))
    return not is_running and not name.startswith("RETURN_")


class CaughtException(NamedTuple):
    """An exception that left a loop."""

    time: float
    """When it was caught, by `perf_counter`."""
    summary: ExceptionSummary | None
    """None if it may be no failure."""


# ---- from Python 3.12 on


_watches: tuple[weakref.ref[MonitorWatch], ...] = ()
_users = 0
_tool: int | None = None


class MonitorWatch:
    """Waits for an exception that leaves a loop and is caught, by `sys.monitoring`."""

    def __init__(self, place: Callable[[], Place | None]) -> None:
        self._place = place
        self._caught: CaughtException | None = None
        _add_watch(self)

    def watch(self, loss: Any) -> None:
        """Do nothing: all exceptions are reported."""

    def note(self, frame: FrameType | None, uncounted: int, outer_loops: frozenset[CodeLoop]) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Do nothing."""

    def check(self, handler: int, error: BaseException) -> None:
        """Note an exception that has been caught, if it left the loop. One that ends an iterator is no failure."""
        place, trace = self._place(), error.__traceback__
        while place is not None and trace is not None and id(trace.tb_frame) != place.identity:
            trace = trace.tb_next
        if place is None or trace is None or isinstance(error, (StopIteration, StopAsyncIteration)):
            return
        if place.is_left_by(error, handler):
            self._caught = CaughtException(perf_counter(), summarize_exception(error))

    def caught(self, since: float) -> ExceptionSummary | None:
        """Return the exception that left the loop after a time."""
        return self._caught.summary if self._caught is not None and self._caught.time > since else None


def _add_watch(watch: MonitorWatch) -> None:
    global _watches
    _watches = (*(item for item in _watches if item() is not None), weakref.ref(watch))


def watch_exceptions() -> Callable[[], None]:
    """Watch for exceptions that leave a loop and are caught, until the returned function is called."""
    global _users, _tool
    if not IS_MONITORED or not knows_bytecode():
        return lambda: None
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    _users += 1
    if _tool is None:
        _tool = next((tool for tool in TOOLS if monitoring.get_tool(tool) is None), None)
        if _tool is not None:
            monitoring.use_tool_id(_tool, "provml")
            monitoring.register_callback(_tool, monitoring.events.EXCEPTION_HANDLED, _on_handled)
            monitoring.set_events(_tool, monitoring.events.EXCEPTION_HANDLED)
    return _stop_watching


def _stop_watching() -> None:
    global _users, _tool
    _users -= 1
    if not _users and _tool is not None:
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.set_events(_tool, 0)
        monitoring.register_callback(_tool, monitoring.events.EXCEPTION_HANDLED, None)
        monitoring.free_tool_id(_tool)
        _tool = None


def _on_handled(code: CodeType, handler: int, error: BaseException) -> None:
    try:
        for reference in _watches:
            watch = reference()
            if watch is not None:
                watch.check(handler, error)
    except Exception:  # an unexpected frame must not disturb the training
        pass


# ---- Python 3.11


class TraceWatch:
    """Looks for the traces of an exception that left a loop and was caught."""

    searches = 0
    """Searches among all objects so far, in this process."""

    def __init__(self, place: Callable[[], Place | None]) -> None:
        self._place = place
        self._caught: CaughtException | None = None
        self._loss: weakref.ref[Any] | None = None
        self._usual: tuple[CodeType, int] | None = None
        """Where a loss was deleted last: in a loop, the next one takes its name."""
        self._counted = CountedLoops()

    def watch(self, loss: Any) -> None:
        """Watch the loss of a step, to which a variable of the function refers."""
        self._loss = weakref.ref(loss, self._on_delete)

    def note(self, frame: FrameType | None, uncounted: int, outer_loops: frozenset[CodeLoop]) -> None:
        """Note the loops of a frame that makes a step, see `CountedLoops`; None if steps may be left out."""
        if frame is None:
            self._counted.forget()
        else:
            self._counted.note(frame, uncounted, outer_loops)

    def forget(self) -> None:
        """Note that an iteration may have made no step."""
        self._counted.forget()

    def _on_delete(self, reference: object) -> None:
        try:
            frame = sys._getframe(1)
            where = frame.f_code, frame.f_lasti
            if where == self._usual:
                return
            self._usual = where
            place, offset = self._place(), instruction_start(*where)
            if place is None or not is_end_of_handler(frame.f_code, offset):
                return
            if place.is_outside(frame, offset) and self._must_be_of_loop(frame, place):
                self._caught = CaughtException(perf_counter(), _summary(clause_around(frame.f_code, offset)))
                self._usual = None
        except Exception:  # at the end of the process, modules may be gone
            self._usual = None

    def _must_be_of_loop(self, frame: FrameType, place: Place) -> bool:
        """Return whether an exception that a frame caught was raised in the loop, not after it."""
        if id(frame) == place.identity or self._counted.was_left_by_exception():
            return True
        loops = [loop for loop in loops_around(place.code, place.offset) if loop not in place.outer_loops]
        return bool(loops) and only_returns_after(place.code, loops[-1])

    def caught(self, since: float) -> ExceptionSummary | None:
        """Return the exception that left the loop after a time."""
        place = self._place()
        if place is None or self._counted.is_complete():
            return None
        if self._caught is not None and self._caught.time > since:
            return self._caught.summary
        summary = _kept_exception(place)
        if summary is None and self._counted.was_left_by_exception():
            summary = _summary(self._counted.clause())
        return summary


def _summary(clause: Clause | None) -> ExceptionSummary | None:
    """Return what is known about an exception by the `except` that caught it; None if it may be no failure."""
    if clause is None:
        return UNKNOWN_EXCEPTION
    if clause.classes in NO_FAILURES:
        return None
    if clause.classes == [INTERRUPTION]:
        return INTERRUPT
    text = f"{UNKNOWN_EXCEPTION.message} as {' or '.join(clause.classes)} in line {clause.line}"
    return ExceptionSummary(UNKNOWN_EXCEPTION.type_name, text)


def _kept_exception(place: Place) -> ExceptionSummary | None:
    """Return an exception from the loop that was caught outside of it, and that something refers to."""
    if TraceWatch.searches >= MAX_SEARCHES:
        return None
    TraceWatch.searches += 1
    for item in gc.get_objects():
        is_exception = issubclass(type(item), BaseException)  # `type` triggers no proxy
        if is_exception and place.is_left_by(item) and place.is_made_once(item):
            return summarize_exception(item)
    return None


Watch = MonitorWatch if IS_MONITORED else TraceWatch
