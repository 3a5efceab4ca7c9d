"""A user's loop over a generator, by the frames that run it: whether it goes on, and how it was left."""

from __future__ import annotations

import gc
import inspect
import opcode
import sys
import threading
from types import CodeType, FrameType, TracebackType
from typing import Any

from provml.process import instructions, raised_at

LEAVING = {"POP_TOP", "POP_ITER", "END_FOR"}
"""The instructions that drop a loop's generator at a `break` or a `return`; at an error, it is the one that raised."""
LETTING_GO = ("STORE_", "DELETE_")
"""How the instructions begin that drop one that had a name."""
WAITING = {"YIELD_VALUE", "RESUME"}
"""Where a generator is, around the user's own, that is closed itself."""
ENDING = ("RETURN_VALUE", "RETURN_CONST", "RAISE_", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD")
"""How the instructions begin that the next one never follows."""


class Loop:
    """The loop as it is when it takes its next turn."""

    def __init__(self, frame: FrameType) -> None:
        self._thread = threading.get_ident()
        self._turns: dict[tuple[int, CodeType], int] = {}  # an id may come again, when its frame has gone
        self._left_from: dict[int, int] | None = None
        self._raised = False
        self.ran_out = False
        """Whether it was not left but came to its end, by what it goes over besides this generator."""
        self._frame, self._code, self._last = id(frame), frame.f_code, frame.f_lasti
        runs: FrameType | None = frame
        while runs is not None:
            self._outermost = id(runs), runs.f_code
            self._turns[self._outermost] = self._turn = runs.f_lasti
            if not runs.f_code.co_flags & inspect.CO_GENERATOR:  # others, such as a progress bar, only pass it on
                break
            runs = runs.f_back

    def is_at(self, frame: FrameType) -> bool:
        """Whether it takes a turn just where it took its last, with nothing in between but the user's own loop."""
        is_same = id(frame) == self._frame and frame.f_code is self._code and frame.f_lasti == self._last
        return is_same and len(self._turns) == 1

    def leave(self, frame: FrameType | None) -> None:
        """It was left, at what its frames are at now."""
        self._left_from = instructions(frame)
        at = frame
        while at is not None:
            place = _place(at.f_code, at.f_lasti)
            name = _name(at.f_code, place)
            turn = self._turn_in(id(at), at.f_code)
            if turn is not None and name not in WAITING:
                # where it takes its turns or has none left, something else such as `zip` or `islice` let it go
                if place == turn or (name == "POP_ITER" and _name(at.f_code, place - 2) == "END_FOR"):
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
        at = ((id(one.tb_frame), one.tb_frame.f_code, one.tb_lasti) for one in traces)
        return any(self._turn_in(frame, code) == _place(code, last) for frame, code, last in at)

    def _turn_in(self, frame: int, code: CodeType) -> int | None:
        """Where a frame takes its turns; None where it is none of the loop's."""
        last = self._turns.get((frame, code))
        return _place(code, last) if last is not None else None

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
        """Whether a frame is inside the loop: at an instruction that still has what it goes over on the stack."""
        code = frame.f_code
        turn = _place(code, self._turn)
        if _name(code, turn) != "FOR_ITER":
            return True
        try:
            start = next(place for place in range(0, len(code.co_code), 2) if _name(code, place) == "RESUME")
            depth = _reached(code, start, 0)[turn]
            return _place(code, frame.f_lasti) in _reached(code, turn, depth)
        except Exception:  # a Python whose instructions are others
            return True


def _place(code: CodeType, last: int) -> int:
    """Where the instruction begins that a frame is at: Python may be at the room for its caches, which comes after."""
    while last > 0 and _name(code, last) == "CACHE":
        last -= 2
    return last


def _name(code: CodeType, place: int) -> str:
    return opcode.opname[code.co_code[place]] if place >= 0 else ""


def _reached(code: CodeType, start: int, depth: int) -> dict[int, int]:
    """The instructions that can be come to from one without touching what is on the stack before it, which are so many
    values; and how many there are before each."""
    import dis

    known: Any = dis.Bytecode(code)  # its types lack the table of who catches what
    listed = list(known)
    numbers = {one.offset: number for number, one in enumerate(listed)}
    found: dict[int, int] = {}
    coming = [(start, depth)]
    while coming:
        place, held = coming.pop()
        if place in found or held < depth:
            continue
        found[place] = held
        one = listed[numbers[place]]
        for guard in known.exception_entries:
            if guard.start <= place < guard.end and guard.depth >= depth:
                coming.append((guard.target, guard.depth + guard.lasti + 1))
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
            coming.append((one.argval, held + dis.stack_effect(one.opcode, one.arg, jump=True)))
        is_moved = one.opname == "SWAP" and (one.arg or 0) > held - depth  # to be dropped at a `return`
        if not is_moved and not one.opname.startswith(ENDING):
            following = listed[numbers[place] + 1].offset
            coming.append((following, held + dis.stack_effect(one.opcode, one.arg, jump=False)))
    return found
