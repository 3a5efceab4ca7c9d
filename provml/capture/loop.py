"""A user's loop over a generator, by the frames that run it: whether it goes on, and how it was left."""

from __future__ import annotations

import gc
import inspect
import opcode
import sys
import threading
from types import CodeType, FrameType, TracebackType

from provml.process import instructions, raised_at

LEAVING = {"POP_TOP", "POP_ITER", "END_FOR"}
"""The instructions that drop a loop's generator at a `break` or a `return`; at an error, it is the one that raised."""
LETTING_GO = ("STORE_", "DELETE_")
"""How the instructions begin that drop one that had a name."""
WAITING = {"YIELD_VALUE", "RESUME"}
"""Where a generator is, around the user's own, that is closed itself."""


class Loop:
    """The loop as it is when it takes its next turn."""

    def __init__(self, frame: FrameType) -> None:
        self._thread = threading.get_ident()
        self._turns: dict[tuple[int, CodeType], int] = {}  # an id may come again, when its frame has gone
        self._left_from: dict[int, int] | None = None
        self._raised = False
        self.ran_out = False
        """Whether it was not left but came to its end, by what it goes over besides this generator."""
        runs: FrameType | None = frame
        while runs is not None:
            self._outermost = id(runs), runs.f_code
            self._turns[self._outermost] = self._turn = runs.f_lasti
            if not runs.f_code.co_flags & inspect.CO_GENERATOR:  # others, such as a progress bar, only pass it on
                break
            runs = runs.f_back

    def is_at(self, frame: FrameType) -> bool:
        """Whether it takes a turn just where it took its last, with nothing in between but the user's own loop."""
        return len(self._turns) == 1 and self._turns.get((id(frame), frame.f_code)) == frame.f_lasti

    def leave(self, frame: FrameType | None) -> None:
        """It was left, at what its frames are at now."""
        self._left_from = instructions(frame)
        at = frame
        while at is not None:
            name = _instruction(at)
            turn = self._turns.get((id(at), at.f_code))
            if turn is not None and name not in WAITING:
                if at.f_lasti == turn:  # where it takes its turns, something else such as `zip` or `islice` let it go
                    self._raised = self._is_raised()
                    self.ran_out = not self._raised
                else:
                    self._raised = name not in LEAVING and not name.startswith(LETTING_GO)
                return
            at = at.f_back

    def _is_raised(self) -> bool:
        """Whether an exception goes through its frames where they take a turn. Python shows one that nobody has caught
        yet nowhere, but its traceback is there."""
        traces = (one for one in gc.get_objects() if type(one) is TracebackType)  # no proxy is asked
        return any(self._turns.get((id(one.tb_frame), one.tb_frame.f_code)) == one.tb_lasti for one in traces)

    def failed(self, error: BaseException | None) -> BaseException | None:
        """The error that it was left by, as far as that is known; None where it was left by `break` or `return`."""
        if self._left_from is None:
            return error
        raised = raised_at(error)
        for frame, instruction in self._left_from.items():  # the innermost of the frames that it came through decides
            if frame in raised:
                if raised[frame] == instruction:
                    return error
                break
        return RuntimeError("the loop over its epochs was left by an exception") if self._raised else None

    def goes_on(self) -> bool:
        """Whether whoever asks is inside it; taken to be so where that cannot be known."""
        if self._left_from is not None:
            return False
        at: FrameType | None = sys._getframe(1)
        while at is not None:
            if (id(at), at.f_code) == self._outermost:
                return self._holds(at)
            at = at.f_back
        return threading.get_ident() != self._thread

    def _holds(self, frame: FrameType) -> bool:
        """Whether a frame is at an instruction, or else a line, of the loop."""
        import dis

        code = list(dis.get_instructions(frame.f_code))
        turn = next((one for one in code if one.offset == self._turn), None)
        if turn is None or turn.opname != "FOR_ITER":
            return True
        if self._turn <= frame.f_lasti < turn.argval:
            return True
        lines = dict(dis.findlinestarts(frame.f_code))
        inside = [line for offset, line in lines.items() if self._turn < offset < turn.argval and line is not None]
        return bool(inside) and min(inside) < frame.f_lineno <= max(inside)


def _instruction(frame: FrameType) -> str:
    return opcode.opname[frame.f_code.co_code[frame.f_lasti]] if frame.f_lasti >= 0 else ""
