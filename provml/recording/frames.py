"""Inspection of the calling code: the only module that reads frames, tracebacks and bytecode.

Four facts are passed to nobody and are read here:

- the arguments of a framework's training function, from the variables of the callers of a callback
- how a loop was left: an iterator cannot see whether `break` or an exception dropped it
- whether a `sys.exit` was caught, and with which code a worker of `multiprocessing` exits
- which call of the user's function makes the steps of an optimizer, and whether an exception left its loop (autolog)

Frames are read and never changed. PROVML_NO_FRAME_INSPECTION=1 switches all of it off, and it is off by itself where
the interpreter has no frames. Bytecode is read only on the versions of CPython in `BYTECODE_VERSIONS`. The fallbacks:

- arguments that a framework hides are recorded only if they are passed to the capture
- an exception is the reason why a loop was left if it ends the stage, or if it is being handled at the next call of
  provml; otherwise the loop counts as left by `break`. A `with` block that the exception leaves is exact
- the last `sys.exit` counts as not caught, and a worker that was forked before the run counts as ended normally
"""

from __future__ import annotations

import dis
import gc
import inspect
import opcode
import os
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable, Collection, Generator, Iterator
from functools import lru_cache
from time import perf_counter
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple, TypeVar

from provml.recording.exit_status import INTERRUPT, UNKNOWN_EXCEPTION, ExceptionSummary, summarize_exception

SWITCH = "PROVML_NO_FRAME_INSPECTION"
BYTECODE_VERSIONS = ((3, 11), (3, 14))
"""First and last version of CPython whose bytecode is known."""
MAX_OLD_EXCEPTIONS = 16
"""Exceptions without a traceback that are examined at most if none is young: each takes as long as a collection."""
MAX_CALLERS = 24
"""Callers of a callback that are searched at most."""
LEAVING = {"POP_TOP", "POP_ITER", "END_FOR"}
"""Instructions that drop the iterator of a loop at a `break` or a `return`. At an exception, the frame is at the
instruction that raised."""
RELEASING = ("STORE_", "DELETE_")
"""Prefixes of instructions that drop an iterator that had a name."""
SUSPENDED = {"YIELD_VALUE", "RESUME"}
"""Instructions at which a generator around the iterator, such as a progress bar, waits when it is closed itself."""
ENDING = ("RETURN_VALUE", "RETURN_CONST", "RAISE_", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD")
"""Prefixes of instructions after which the next one is not executed."""

T = TypeVar("T")


def is_enabled() -> bool:
    """Return whether frames may be inspected."""
    return os.environ.get(SWITCH, "").lower() in ("", "0", "false", "no") and hasattr(sys, "_getframe")


def knows_bytecode(version: tuple[int, int] = sys.version_info[:2]) -> bool:
    """Return whether bytecode may be inspected: only on versions of CPython that are known, this one by default."""
    first, last = BYTECODE_VERSIONS
    is_known = sys.implementation.name == "cpython" and first <= version <= last
    return is_known and is_enabled()


# ---- callers


class Caller(NamedTuple):
    """A call that has not returned yet."""

    frame: FrameType

    @property
    def module(self) -> str:
        """The name of the module that the function was defined in."""
        return str(self.frame.f_globals.get("__name__"))

    @property
    def function(self) -> str:
        """The name of the function."""
        return self.frame.f_code.co_name

    @property
    def variables(self) -> dict[str, Any]:
        """A copy of the local variables, which include the arguments."""
        return dict(self.frame.f_locals)


def callers() -> Iterator[Caller]:
    """Return the callers of the callback that calls the caller of this function, the innermost first."""
    return _callers(sys._getframe(2).f_back) if is_enabled() else iter(())


def caller_arguments(module: str, *names: str) -> dict[str, Any]:
    """Return the local variables of the nearest caller with one of these names in a module; empty if there is none."""
    for caller in _callers(sys._getframe(1).f_back) if is_enabled() else ():
        if caller.function in names and caller.module == module:
            return caller.variables
    return {}


def _callers(frame: FrameType | None) -> Iterator[Caller]:
    for _ in range(MAX_CALLERS):
        if frame is None:
            return
        yield Caller(frame)
        frame = frame.f_back


def caller_offsets() -> dict[int, int]:
    """Return the bytecode offsets of the caller of the calling function and of its callers."""
    return _frame_offsets(sys._getframe(2))


def is_called_by_interpreter() -> bool:
    """Return whether no Python code called the calling function, such as a `__del__` at the end of the process."""
    return sys._getframe(1).f_back is None


def worker_exit_code() -> Any:
    """Return the code with which a worker of `multiprocessing` is exiting; None if there is none."""
    frame: FrameType | None = sys._getframe() if is_enabled() else None
    while frame is not None and frame.f_code.co_name != "_bootstrap":  # inside it, the exit code is not known yet
        if frame.f_globals.get("__name__") in ("multiprocessing.popen_fork", "multiprocessing.forkserver"):
            return frame.f_locals.get("code")
        frame = frame.f_back
    return None


def is_called_from(*modules: str) -> bool:
    """Return whether a function of one of these modules, or of a package of that name, is a caller, however far."""
    frame: FrameType | None = sys._getframe(1) if is_enabled() else None
    prefixes = _package_prefixes(modules)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if isinstance(name, str) and (name in modules or name.startswith(prefixes)):
            return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=16)
def _package_prefixes(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the names of all modules inside of some packages begin with."""
    return tuple(f"{package}." for package in packages)


def is_called_directly_from(*packages: str) -> bool:
    """Return whether the caller of the calling function is in one of these packages."""
    return is_enabled() and str(sys._getframe(2).f_globals.get("__name__")).startswith(packages)


def is_called_by_script(*packages: str) -> bool:
    """Return whether the innermost caller outside of some packages is a script or module that is not installed."""
    frame: FrameType | None = sys._getframe(2) if is_enabled() else None
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in packages:
        frame = frame.f_back
    if frame is None:
        return False
    file = os.path.realpath(frame.f_code.co_filename)
    installed = [os.path.realpath(path) for path in sysconfig.get_paths().values()]
    return not any(file.startswith(path + os.sep) for path in installed if path != os.path.realpath(sys.prefix))


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
        self._is_over = frame is None or frame.f_lasti < _earliest_offset(frame.f_code, self._offset)


class LoopPosition:
    """The innermost frame that made all steps of a training, and where it made the last one that was noted.

    An exception comes from the training if it passes through this frame, inside a loop around the steps. No frame is
    kept, only identities and code.
    """

    def __init__(self, *libraries: str) -> None:
        self._libraries = libraries
        self._callers: list[tuple[int, CodeType, int]] = []

    def note(self, loops: int = 1) -> None:
        """Note where the callers outside of the libraries are, up to the script or the cell of a notebook.

        `loops` is the number of nested loops that lead from one note to the next. A frame with fewer loops around the
        same instruction ended between the notes, and another call of its function got its address.
        """
        frame: FrameType | None = sys._getframe(1) if is_enabled() else None
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in self._libraries:
            frame = frame.f_back
        callers: list[tuple[int, CodeType, int]] = []
        while frame is not None and len(callers) < MAX_CALLERS:
            callers.append((id(frame), frame.f_code, frame.f_lasti))
            frame = frame.f_back if not frame.f_code.co_name.startswith("<") else None
        if self._callers:
            before = {identity: (code, offset) for identity, code, offset in self._callers}
            common = []
            for identity, code, offset in callers:
                if loops > 0:
                    loops -= _loops_around(code, offset)
                previous = before.get(identity)
                if previous is not None and previous[0] is code and (loops <= 0 or offset != previous[1]):
                    common.append((identity, code, offset))
            callers = common or callers
        self._callers = callers

    def is_left_by(self, error: BaseException) -> bool:
        """Return whether an exception, or one that it was raised from, left the loop; True if that is unknown."""
        if not self._callers or not _traceback_offsets(error):
            return True
        identity, code, offset = self._callers[0]
        checked: set[int] = set()
        exception: BaseException | None = error
        while exception is not None and id(exception) not in checked:  # contexts may form a cycle
            checked.add(id(exception))
            raised_at = _traceback_offsets(exception).get(identity)
            if raised_at is not None and (raised_at == offset or _share_loop(code, offset, raised_at)):
                return True
            exception = exception.__context__
        return False


@lru_cache(maxsize=256)
def _loops(code: CodeType) -> list[tuple[int, int]]:
    """Return the first and last bytecode offsets of the loops of a function."""
    ends: dict[int, int] = {}
    for item in dis.get_instructions(code):
        if "BACKWARD" in item.opname:  # a loop with `continue` has several jumps to its begin; the last one ends it
            ends[item.argval] = item.offset
    return list(ends.items())


@lru_cache(maxsize=256)
def _loops_around(code: CodeType, offset: int) -> int:
    """Return the number of loops around a bytecode offset."""
    return sum(begin <= offset <= end for begin, end in _loops(code))


@lru_cache(maxsize=256)
def _share_loop(code: CodeType, first: int, second: int) -> bool:
    """Return whether two bytecode offsets are in one loop."""
    return any(begin <= first <= end and begin <= second <= end for begin, end in _loops(code))


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


@lru_cache(maxsize=256)
def _earliest_offset(code: CodeType, offset: int) -> int:
    """Return the first bytecode offset that may be executed after an offset, by the jumps backward."""
    jumps = [(item.offset, item.argval) for item in dis.get_instructions(code) if "BACKWARD" in item.opname]
    earliest, previous = offset, None
    while earliest != previous:
        previous = earliest
        earliest = min([earliest, *(target for source, target in jumps if source >= previous)])
    return earliest


# ---- loops


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
        self._left_at = _frame_offsets(frame)

    def exit_error(self, error: BaseException | None) -> BaseException | None:
        """Return the exception by which the loop was left, or None for a `break`."""
        for candidate in (error, sys.exc_info()[1]):
            raised_at = _traceback_offsets(candidate)
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
            offset = _instruction_start(frame.f_code, frame.f_lasti)
            start = self._offset_in(id(frame), frame.f_code)
            if start is not None and _opname(frame.f_code, offset) not in SUSPENDED:
                self._left_frame = id(frame), frame.f_code
                self._was_raised = self._is_raising(frame, offset, start)
                if self._was_raised:
                    self._raised = summarize_exception(self._find_exception(frame) or self._unnamed_exception())
                return
            frame = frame.f_back

    def _is_raising(self, frame: FrameType, offset: int, start: int) -> bool:
        """Return whether an exception leaves the loop of a frame, which takes items at the offset `start`."""
        code, name = frame.f_code, _opname(frame.f_code, offset)
        # where it takes items, or when none is left, the iterator was dropped by `zip`, `islice` or the like
        if offset == start or (name == "POP_ITER" and _opname(code, offset - 2) == "END_FOR"):
            is_raising = self._is_unwinding()
            self.exhausted = not is_raising
            return is_raising
        if name in LEAVING or name.startswith(RELEASING):
            return False
        return (id(frame), code) != self._outermost or self._is_inside(offset)  # outside, it was left before

    def _find_exception(self, frame: FrameType) -> BaseException | None:
        try:
            return _raised_exception(frame)
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
        return any(self._offset_in(frame, code) == _instruction_start(code, last) for frame, code, last in positions)

    def _offset_in(self, frame: int, code: CodeType) -> int | None:
        """Return the offset at which a frame takes items; None if it does not belong to the loop."""
        last = self._offsets.get((frame, code))
        return _instruction_start(code, last) if last is not None else None

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
            start = _instruction_start(code, taken_at)
            if _opname(code, start) != "FOR_ITER":
                return True
            resume = next(offset for offset in range(0, len(code.co_code), 2) if _opname(code, offset) == "RESUME")
            depth = _reachable(code, resume, 0)[start]
            return _instruction_start(code, last) in _reachable(code, start, depth)
        except Exception:  # unexpected instructions
            return True


class _ForeignLoop(InspectedLoop):
    """A loop whose iterator survives an exception that it raises itself: an exception is noticed in the loop only."""

    def _is_unwinding(self) -> bool:
        return False


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


# ---- exceptions


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
        for frame, _ in _traceback_frames(error):
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
        modules = (str(frame.f_globals.get("__name__")) for frame, _ in _traceback_frames(error))
        if any(module.partition(".")[0] == package for module in modules):
            return error
    return None


def _traceback_frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames that an exception passed, outermost first, with the bytecode offset in each."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lasti
        trace = trace.tb_next


def _traceback_offsets(error: BaseException | None) -> dict[int, int]:
    """Return the bytecode offsets that an exception passed, by the id of the frame."""
    offsets: dict[int, int] | None = getattr(error, "raise_offsets", None)  # of an exit, which has no traceback yet
    if offsets is not None:
        return offsets
    return {id(frame): offset for frame, offset in _traceback_frames(error)} if error is not None else {}


def _frame_offsets(frame: FrameType | None) -> dict[int, int]:
    """Return the bytecode offset of a frame and its callers, by the id of the frame, innermost first."""
    offsets = {}
    while frame is not None:
        offsets[id(frame)] = frame.f_lasti
        frame = frame.f_back
    return offsets


def _raised_exception(frame: FrameType) -> BaseException | None:
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
    passing = [error for error in exceptions if _traceback_offsets(error).get(id(frame)) == frame.f_lasti]
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
    if _opname(code, _instruction_start(code, entries[-1].tb_lasti)) != "RAISE_VARARGS":
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


# ---- bytecode


def _instruction_start(code: CodeType, last: int) -> int:
    """Return the offset of the instruction that a frame is at: `f_lasti` may point at a cache entry after it."""
    while last > 0 and _opname(code, last) == "CACHE":
        last -= 2
    return last


def _opname(code: CodeType, offset: int) -> str:
    return opcode.opname[code.co_code[offset]] if offset >= 0 else ""


def _reachable(code: CodeType, start: int, depth: int) -> dict[int, int]:
    """Return the offsets reachable from `start` without popping below `depth`, with the stack depth at each."""
    import dis

    bytecode: Any = dis.Bytecode(code)  # typeshed lacks `exception_entries`
    instructions = list(bytecode)
    numbers = {instruction.offset: number for number, instruction in enumerate(instructions)}
    depths: dict[int, int] = {}
    pending = [(start, depth)]
    while pending:
        offset, current = pending.pop()
        if offset in depths or current < depth:
            continue
        depths[offset] = current
        instruction = instructions[numbers[offset]]
        for handler in bytecode.exception_entries:
            if handler.start <= offset < handler.end and handler.depth >= depth:
                pending.append((handler.target, handler.depth + handler.lasti + 1))
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            effect = dis.stack_effect(instruction.opcode, instruction.arg, jump=True)
            pending.append((instruction.argval, current + effect))
        is_moved = instruction.opname == "SWAP" and (instruction.arg or 0) > current - depth  # dropped at a `return`
        if not is_moved and not instruction.opname.startswith(ENDING):
            effect = dis.stack_effect(instruction.opcode, instruction.arg, jump=False)
            pending.append((instructions[numbers[offset] + 1].offset, current + effect))
    return depths
