"""Loops over an iterator: whether one is running, and whether `break` or an exception left it."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from time import perf_counter
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

from provml.recording.exit_status import INTERRUPT, UNKNOWN_EXCEPTION, ExceptionSummary, summarize_exception
from provml.recording.frames._bytecode import instruction_start, opname, reachable_offsets
from provml.recording.frames._callers import frame_offsets
from provml.recording.frames._exceptions import known_exceptions, raised_exception, traceback_offsets
from provml.recording.frames._support import is_enabled, knows_bytecode

LEAVING = {"POP_TOP", "POP_ITER", "END_FOR"}
"""Instructions that drop the iterator of a loop at a `break` or a `return`. At an exception, the frame is at the
instruction that raised."""
RELEASING = ("STORE_", "DELETE_")
"""Prefixes of instructions that drop an iterator that had a name."""
SUSPENDED = {"YIELD_VALUE", "RESUME", "CLEANUP_THROW"}
"""Instructions at which a generator around the iterator, such as a progress bar, waits when it is closed itself."""

T = TypeVar("T")


class Loop:
    """A `for` loop, without inspection: whether it is running, and how it was left."""

    exhausted = False
    """Whether the loop was not left but ended by something that it iterates over besides the items."""

    def __init__(self) -> None:
        self.is_left = False
        """Whether the loop was left before the last item."""
        self.left_time = 0.0
        """When the loop was left, by `perf_counter`."""
        self.is_over = False
        """Whether the loop took all items."""
        self._outer_error = id(sys.exc_info()[1])  # no reference, which would keep the frames of its traceback alive

    def take_item(self, frame: FrameType) -> None:
        """Note the frame that takes the next item."""

    def leave(self, frame: FrameType | None) -> None:
        """Note that the loop is left, and the frame that drops its iterator."""
        self.is_left, self.left_time = True, perf_counter()

    def exit_error(self, error: BaseException | None) -> BaseException | None:
        """Return the exception by which the loop was left, or None for a `break`.

        It is the exception that ends the stage or that is being handled. One that was already being handled when the
        loop began, as in a retry, is not the reason.
        """
        candidates = (error, sys.exc_info()[1])
        return next((item for item in candidates if item is not None and id(item) != self._outer_error), None)

    def is_running(self) -> bool:
        """Return whether the caller is inside the loop; True if that is unknown."""
        return not self.is_left and not self.is_over


class TracedLoop(Loop):
    """A loop of which only the positions of its frames are known when it is left, not their bytecode."""

    def __init__(self) -> None:
        super().__init__()
        self._left_at: dict[int, int] = {}

    def leave(self, frame: FrameType | None) -> None:
        """Note where the frames of the loop are when it is left."""
        super().leave(frame)
        self._left_at = frame_offsets(frame)

    def exit_error(self, error: BaseException | None) -> BaseException | None:
        """Return the exception by which the loop was left, or None for a `break`."""
        for candidate in (error, sys.exc_info()[1]):
            raised_at = traceback_offsets(candidate)
            frame = next((frame for frame in self._left_at if frame in raised_at), None)  # the innermost one decides
            if frame is not None and raised_at[frame] == self._left_at[frame]:
                return candidate
        return None


class InspectedLoop(TracedLoop):
    """A loop whose frames are known when it takes an item. Their bytecode tells a `break` from an exception."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()
        self._offsets: dict[tuple[int, CodeType], int] = {}  # with the code, since the id of a dead frame is reused
        self._outermost: tuple[int, CodeType] | None = None
        self._left_frame: tuple[int, CodeType] | None = None
        """The frame of the loop when it was left; None if the loop had already ended."""
        self._was_raised = False
        self._raised: ExceptionSummary | None = None
        self._interrupt_references = 0

    def take_item(self, frame: FrameType) -> None:
        """Note the frames that take the next item: a generator, such as a progress bar, passes it on."""
        self._offsets.clear()
        self._interrupt_references = sys.getrefcount(KeyboardInterrupt)
        caller: FrameType | None = frame
        while caller is not None:
            self._outermost = id(caller), caller.f_code
            self._offsets[self._outermost] = caller.f_lasti
            caller = caller.f_back if caller.f_code.co_flags & inspect.CO_GENERATOR else None

    def leave(self, frame: FrameType | None) -> None:
        """Note where the frames of the loop are when it is left, and the exception that leaves it."""
        super().leave(frame)
        while frame is not None:
            offset = instruction_start(frame.f_code, frame.f_lasti)
            start = self._offset_in(id(frame), frame.f_code)
            if start is not None and opname(frame.f_code, offset) not in SUSPENDED:
                self._left_frame = id(frame), frame.f_code
                self._was_raised = self._is_raising(frame, offset, start)
                if self._was_raised:
                    self._raised = summarize_exception(self._find_exception(frame) or self._unnamed_exception())
                return
            frame = frame.f_back

    def _is_raising(self, frame: FrameType, offset: int, start: int) -> bool:
        """Return whether an exception leaves the loop of a frame, which takes items at the offset `start`."""
        code, name = frame.f_code, opname(frame.f_code, offset)
        # where it takes items, or when none is left, the iterator was dropped by `zip`, `islice` or the like
        if offset == start or (name == "POP_ITER" and opname(code, offset - 2) == "END_FOR"):
            is_raising = self._is_unwinding()
            self.exhausted = not is_raising
            return is_raising
        if name in LEAVING or name.startswith(RELEASING):
            return False
        return (id(frame), code) != self._outermost or self._is_inside(offset)  # outside, it was left before

    def _find_exception(self, frame: FrameType) -> BaseException | None:
        try:
            return raised_exception(frame)
        except Exception:  # an object that cannot be inspected must not disturb the training
            return None

    def _unnamed_exception(self) -> ExceptionSummary:
        """Return the exception that leaves the loop, and that no object of Python is yet.

        Up to Python 3.11, an exception of C code is only a reference to its class until somebody catches it: of
        KeyboardInterrupt, which is the usual one, there is then one reference more than when the item was taken.
        """
        is_counted = sys.version_info < (3, 12)
        is_interrupt = is_counted and sys.getrefcount(KeyboardInterrupt) > self._interrupt_references
        return INTERRUPT if is_interrupt else UNKNOWN_EXCEPTION

    def _is_unwinding(self) -> bool:
        """Return whether an exception passes through the frames of the loop where they take an item."""
        traces = (item for item in gc.get_objects() if type(item) is TracebackType)
        positions = ((id(trace.tb_frame), trace.tb_frame.f_code, trace.tb_lasti) for trace in traces)
        return any(self._offset_in(frame, code) == instruction_start(code, last) for frame, code, last in positions)

    def _offset_in(self, frame: int, code: CodeType) -> int | None:
        """Return the offset at which a frame takes items; None if it does not belong to the loop."""
        last = self._offsets.get((frame, code))
        return instruction_start(code, last) if last is not None else None

    def exit_error(self, error: BaseException | None) -> BaseException | None:
        """Return the exception by which the loop was left, or None for a `break`."""
        if self._left_frame is not None and not self._was_raised:
            return None
        named = next((candidate for candidate in known_exceptions(error) if self._was_left_by(candidate)), None)
        if named is None and self._left_frame is None and self.is_left:
            return super().exit_error(error)
        return named or self._raised

    def _was_left_by(self, error: BaseException) -> bool:
        """Return whether an exception left the loop, also if a variable still holds the iterator of the loop."""
        frame, code = self._left_frame or self._outermost or (0, None)
        trace = error.__traceback__
        while trace is not None and (id(trace.tb_frame), trace.tb_frame.f_code) != (frame, code):
            trace = trace.tb_next
        offset = trace.tb_lasti if trace is not None else getattr(error, "raise_offsets", {}).get(frame)
        if offset is None:
            return False
        return self._left_at[frame] == offset if self._left_frame is not None else self._is_inside(offset)

    def is_running(self) -> bool:
        """Return whether the caller is inside the loop; True if that is unknown."""
        if self.is_left or self.is_over:
            return False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if (id(frame), frame.f_code) == self._outermost:
                return self._is_inside(frame.f_lasti)
            frame = frame.f_back
        return threading.get_ident() != self._thread

    def _is_inside(self, last: int) -> bool:
        """Return whether the outermost frame is at an instruction of the loop: its iterator is still on the stack."""
        if self._outermost is None:
            return True
        code, taken_at = self._outermost[1], self._offsets[self._outermost]
        try:
            start = instruction_start(code, taken_at)
            if opname(code, start) != "FOR_ITER":
                return True
            resume = next(offset for offset in range(0, len(code.co_code), 2) if opname(code, offset) == "RESUME")
            depth = reachable_offsets(code, resume, 0)[start]
            return instruction_start(code, last) in reachable_offsets(code, start, depth)
        except Exception:  # unexpected instructions
            return True


class _ForeignLoop(InspectedLoop):
    """A loop whose iterator survives an exception that it raises itself: an exception is noticed in the loop only."""

    def _is_unwinding(self) -> bool:
        return False


class ForeignLoop:
    """A loop over an iterator of another package: how it was left, when Python drops the iterator."""

    def __init__(self, iterator: Any, *libraries: str) -> None:
        self._loop: Loop | None = _ForeignLoop() if knows_bytecode() else None
        self._libraries = libraries
        self._reference = weakref.ref(iterator, self._on_drop) if self._loop is not None else None

    def note_item(self) -> None:
        """Note the frame that takes items. The frame is the same for all of them: one call is enough."""
        frame: FrameType | None = sys._getframe(1) if self._loop is not None else None
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in self._libraries:
            frame = frame.f_back
        if frame is not None and self._loop is not None:
            self._loop.take_item(frame)

    def _on_drop(self, reference: object) -> None:
        try:
            if self._loop is not None:
                self._loop.leave(sys._getframe(1))
        except Exception:  # at the end of the process, modules may be gone
            self._loop = None

    @property
    def exit_error(self) -> BaseException | None:
        """The exception that left the loop; None if it was not left, or by a `break`."""
        return self._loop.exit_error(None) if self._loop is not None and self._loop.is_left else None


class LoopIterable(Iterator[T]):
    """The items of a generator, with an observation of each loop over them.

    Each `for` has an iterator of its own, which Python drops when the loop is left, also if this object has a name. A
    second loop continues where the first was left, as with the generator itself. `on_item` is called with each item
    and its loop. On a version of Python whose bytecode is not known, a loop is of the class `uninspected`.
    """

    __slots__ = ("_generator", "_uninspected", "on_item")

    def __init__(
        self, generator: Generator[T, None, None], on_item: Callable[[T, Loop], None], uninspected: type[Loop] = Loop
    ) -> None:
        self._generator = generator
        self._uninspected = uninspected
        self.on_item = on_item

    def __iter__(self) -> Iterator[T]:
        if not is_enabled():
            return _LoopIterator(self, Loop())
        return _InspectedLoopIterator(self, InspectedLoop() if knows_bytecode() else self._uninspected())

    def __next__(self) -> T:
        return next(self._generator)

    def close(self) -> None:
        """End the items."""
        self._generator.close()


class _LoopIterator(Iterator[T]):
    """The iterator of one loop. Python deletes it when the loop is left."""

    __slots__ = ("_iterable", "_loop")

    def __init__(self, iterable: LoopIterable[T], loop: Loop) -> None:
        self._iterable = iterable
        self._loop = loop

    def __next__(self) -> T:
        try:
            item = next(self._iterable)
        except StopIteration:
            self._loop.is_over = True
            raise
        self._iterable.on_item(item, self._loop)
        return item

    def __del__(self) -> None:
        try:
            if not self._loop.is_over:
                self._loop.leave(self._dropping_frame())
        except Exception:  # at the end of the process, modules may be gone
            pass

    def _dropping_frame(self) -> FrameType | None:
        """Return the frame that drops the iterator; called by `__del__`."""
        return None


class _InspectedLoopIterator(_LoopIterator[T]):
    """The iterator of a loop whose frames are read."""

    __slots__ = ()

    def __next__(self) -> T:
        self._loop.take_item(sys._getframe(1))
        return super().__next__()

    def _dropping_frame(self) -> FrameType | None:
        return sys._getframe(1).f_back
