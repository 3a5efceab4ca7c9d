"""Where the steps of a training are made: in which call of a function, and in which loop."""

from __future__ import annotations

import sys
from collections.abc import Collection
from types import CodeType, FrameType
from typing import Any

from provml.recording.exit_status import ExceptionSummary
from provml.recording.frames._bytecode import (
    CodeLoop,
    always_passes,
    earliest_offset,
    instruction_start,
    loops_around,
)
from provml.recording.frames._callers import MAX_CALLERS
from provml.recording.frames._caught import Place, Watch
from provml.recording.frames._exceptions import traceback_offsets
from provml.recording.frames._support import is_enabled, knows_bytecode


class CallTracker:
    """Numbers the calls of the user's function that does something, such as a step of an optimizer.

    No frame is kept: that would keep its variables alive. The identity of a frame may be used again by the next call of
    the same function. So a call is also over if it is not among the callers any more at some later event, or if its
    frame is at an instruction that cannot come after the last one.
    """

    def __init__(self, *libraries: str) -> None:
        self.number = 0
        """Number of the current call, from 1."""
        self._libraries = libraries
        self._frame: tuple[int, CodeType] | None = None
        self._offset = 0
        self._is_over = False

    def on_action(self) -> None:
        """Note that the innermost function outside of the libraries does it now."""
        frame: FrameType | None = sys._getframe(1) if is_enabled() else None
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in self._libraries:
            frame = frame.f_back
        if frame is not None:
            current = id(frame), frame.f_code
            if self._is_over or current != self._frame:
                self.number += 1
            self._frame, self._offset, self._is_over = current, frame.f_lasti, False

    def on_event(self) -> None:
        """Look whether the call goes on."""
        if self._frame is None or self._is_over:
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (id(frame), frame.f_code) != self._frame:
            frame = frame.f_back
        self._is_over = frame is None or frame.f_lasti < earliest_offset(frame.f_code, self._offset)


CodePlace = tuple[int, CodeType, int]
"""The identity of a frame, its code, and a bytecode offset."""


def caller_places(*libraries: str) -> list[CodePlace]:
    """Return where the callers outside of some libraries are, up to the script or the cell of a notebook."""
    frame: FrameType | None = sys._getframe(1) if is_enabled() else None
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in libraries:
        frame = frame.f_back
    return _places(frame)


def _places(frame: FrameType | None) -> list[CodePlace]:
    places: list[CodePlace] = []
    while frame is not None and len(places) < MAX_CALLERS:
        places.append((id(frame), frame.f_code, frame.f_lasti))
        frame = frame.f_back if not frame.f_code.co_name.startswith("<") else None
    return places


class LoopPosition:
    """The innermost frame that made all steps of a training, and where it made the last one that was noted.

    An exception comes from the training if it passes through this frame, inside a loop around the steps. No frame is
    kept, only identities and code.
    """

    def __init__(self, *libraries: str, begin: Collection[CodePlace] = ()) -> None:
        """`begin` are the places at which the optimizer was made: a loop around one of them makes several trainings."""
        self._libraries = libraries
        self._begin = begin
        self._callers: list[CodePlace] = []
        self._watch = Watch(self._place) if knows_bytecode() else None

    def _place(self) -> Place | None:
        return Place(*self._callers[0], self._outer_loops(*self._callers[0])) if self._callers else None

    def _outer_loops(self, identity: int, code: CodeType, offset: int) -> frozenset[CodeLoop]:
        """Return the loops around the steps that make several trainings, such as one over folds."""
        begins = [begin for frame, other, begin in self._begin if frame == identity and other is code]
        return frozenset(loop for begin in begins for loop in loops_around(code, begin))

    def watch(self, loss: Any) -> None:
        """Watch the loss of a step: when it is deleted may show an exception."""
        if self._watch is not None:
            self._watch.watch(loss)

    def caught(self, since: float) -> ExceptionSummary | None:
        """Return the exception that left the loop after its last step and that the script caught, if it is known."""
        return self._watch.caught(since) if self._watch is not None and self._callers else None

    def note(self, loops: int = 1, *, may_skip: bool = False, wrappers: Collection[str] = ()) -> None:
        """Note where the callers outside of the libraries are, up to the script or the cell of a notebook.

        `loops` is the number of nested loops that lead from one note to the next. A frame with fewer loops around the
        same instruction ended between the notes, and another call of its function got its address. `may_skip` is True
        if not each of the steps that the script makes is noted, as are those through packages of `wrappers`.
        """
        frame: FrameType | None = sys._getframe(1) if is_enabled() else None
        while frame is not None:
            package = str(frame.f_globals.get("__name__")).partition(".")[0]
            if package not in self._libraries:
                break
            may_skip = may_skip or package in wrappers
            frame = frame.f_back
        callers = _places(frame)
        innermost, uncounted = frame, loops - 1
        if self._callers:
            before = {identity: (code, offset) for identity, code, offset in self._callers}
            common = []
            for identity, code, offset in callers:
                if loops > 0:
                    loops -= len(loops_around(code, offset))
                previous = before.get(identity)
                if previous is not None and previous[0] is code and (loops <= 0 or offset != previous[1]):
                    common.append((identity, code, offset))
            callers = common or callers
        self._callers = callers
        if self._watch is not None and callers:
            while innermost is not None and id(innermost) != callers[0][0]:
                code, offset = innermost.f_code, innermost.f_lasti
                around = loops_around(code, offset)
                uncounted -= len(around)
                begin = around[-1].begin if around else instruction_start(code, offset)
                may_skip = may_skip or uncounted < 0 or not always_passes(code, begin)
                innermost = innermost.f_back
            self._watch.note(None if may_skip else innermost, uncounted, self._outer_loops(*callers[0]))

    def forget_items(self) -> None:
        """Note that an iteration of the loops may have made no step."""
        if self._watch is not None:
            self._watch.forget()

    def is_left_by(self, error: BaseException) -> bool:
        """Return whether an exception, or one that it was raised from, left the loop; True if that is unknown."""
        if not self._callers or not traceback_offsets(error):
            return True
        identity, code, offset = self._callers[0]
        checked: set[int] = set()
        exception: BaseException | None = error
        while exception is not None and id(exception) not in checked:  # contexts may form a cycle
            checked.add(id(exception))
            raised_at = traceback_offsets(exception).get(identity)
            if raised_at is not None:
                loops = {*loops_around(code, offset)} & {*loops_around(code, raised_at)}
                if raised_at == offset or not loops <= self._outer_loops(identity, code, offset):
                    return True
            exception = exception.__context__
        return False
