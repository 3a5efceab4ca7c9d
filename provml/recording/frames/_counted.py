"""Loops over a `range`: whether an exception left them. For Python 3.11 only.

If only an exception can leave a loop, and each of its iterations makes a step, then a loop whose last step had not the
last item was left by an exception. The variable of the loop is that item.
"""

from __future__ import annotations

import dis
import inspect
import operator
import sys
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

from provml.recording.frames._bytecode import (
    SUSPENDING,
    Clause,
    CodeLoop,
    exception_entries,
    goes_on_at,
    handler_at,
    instruction_start,
    instructions_of,
    loops_around,
    may_go_on,
    only_clause,
    successors,
)

MAX_RANGE_INSTRUCTIONS = 24
"""Instructions that compute the arguments of a `range` at most."""
SEES_VARIABLES = frozenset({"locals", "vars", "dir", "eval", "exec"})
"""Functions of Python that give a function the dictionary of its variables."""
VARIABLES = ("STORE_NAME", "STORE_GLOBAL", "STORE_FAST", "STORE_DEREF")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
}


class CountedLoop(NamedTuple):
    """A `for` loop over a `range` that only an exception can leave, and that makes a step in each iteration."""

    variable: str
    arguments: tuple[dis.Instruction, ...]
    """The instructions that compute the arguments of the range."""
    names: tuple[str, ...]
    """The names in these arguments, and in those of the loops inside it."""


class State(NamedTuple):
    """A loop when it made a step."""

    loop: CodeLoop
    counted: CountedLoop | None
    """None if an iteration may make no step, or if something other than an exception may leave the loop."""
    items: range
    """Empty if they are not known."""
    item: object

    @property
    def is_last(self) -> bool:
        """Whether the step had the last item."""
        return bool(self.items) and self.item == self.items[-1]

    @property
    def has_more(self) -> bool:
        """Whether items are left."""
        return self.item in self.items and not self.is_last

    def follows(self, before: State | None) -> bool:
        """Return whether an iteration is the same as one before, or the next one, or the first one of another loop."""
        if before is None or before.counted is None or not self.items or self.item not in self.items:
            return True
        if self.items != before.items or before.item not in self.items:
            return before.is_last and self.item == self.items[0]
        distance = self.items.index(self.item) - self.items.index(before.item)  # type: ignore[arg-type]
        return distance in (0, 1) or self.item == self.items[0]

    def goes_on(self, frame: FrameType | None) -> bool:
        """Return whether a frame is inside the loop, and not in a later loop at the same place."""
        if frame is None or self.counted is None or self.loop not in loops_around(frame.f_code, frame.f_lasti):
            return False
        current: Any = _variables(frame).get(self.counted.variable)
        return current not in self.items or self.items.index(current) >= self.items.index(self.item)  # type: ignore[arg-type]


class CountedLoops:
    """The loops around the last step that was noted, the innermost first."""

    def __init__(self) -> None:
        self._states: list[State] = []
        self._frame: tuple[int, CodeType] | None = None
        self._offset = 0
        self._irregular: set[int] = set()
        """The begins of loops that left an item out, or whose range has changed."""

    def note(self, frame: FrameType, uncounted: int, outer_loops: Collection[CodeLoop] = ()) -> None:
        """Note the loops of a frame that makes a step, without the innermost `uncounted` ones, and the outer loops."""
        code, offset = frame.f_code, instruction_start(frame.f_code, frame.f_lasti)
        before = {state.loop.begin: state for state in self._states} if self._frame == (id(frame), code) else {}
        self.forget()
        if code.co_flags & SUSPENDING:
            return
        if not before:
            self._irregular.clear()
        self._frame, self._offset = (id(frame), code), offset
        step, variables, is_certain = offset, None, True
        names: tuple[str, ...] = ()
        has_changed = False  # the range of an inner loop: it may be empty in a later iteration
        for number, loop in enumerate(loops_around(code, offset)):
            if number >= uncounted and loop not in outer_loops:
                counted = counted_loop(code, loop, step, names) if is_certain else None
                items, item = range(0), None
                if counted is not None:
                    variables = _variables(frame) if variables is None else variables
                    items, item = _items(counted, frame, variables)
                    names = counted.names
                state, previous = State(loop, counted, items, item), before.get(loop.begin)
                if has_changed or not state.follows(previous):
                    self._irregular.add(loop.begin)
                has_changed = has_changed or (previous is not None and bool(previous.items) and previous.items != items)
                if loop.begin in self._irregular:
                    state = State(loop, None, range(0), None)
                self._states.append(state)
                is_certain = bool(state.items)
            step = loop.begin

    def forget(self) -> None:
        """Know nothing about the loops."""
        self._states, self._frame = [], None

    def is_complete(self) -> bool:
        """Return whether all loops took their last item."""
        return bool(self._states) and all(state.is_last for state in self._states)

    def was_left_by_exception(self) -> bool:
        """Return whether it is certain that an exception left a loop."""
        missed = [state for state in self._states if state.has_more]
        current = self._current_frame() if missed else None
        return any(not state.goes_on(current) for state in missed)

    def clause(self) -> Clause | None:
        """Return the only `except` clause around the loops; None if the exception was caught elsewhere."""
        if self._frame is None:
            return None
        code, inside = self._frame[1], frozenset[int]().union(*(state.loop.offsets for state in self._states))
        handler = handler_at(code, self._offset)
        while handler is not None and handler in inside:
            handler = handler_at(code, handler)
        return only_clause(code, handler) if handler is not None else None

    def _current_frame(self) -> FrameType | None:
        """Return the frame, if it has not ended."""
        for innermost in sys._current_frames().values():
            frame: FrameType | None = innermost
            while frame is not None:
                if (id(frame), frame.f_code) == self._frame:
                    return frame
                frame = frame.f_back
        return None


@lru_cache(maxsize=256)
def _uses_snapshot(code: CodeType) -> bool:
    """Return whether a function may get at the dictionary of its variables."""
    loaded = {item.argval for item in instructions_of(code) if item.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return not SEES_VARIABLES.isdisjoint(loaded) or "f_locals" in code.co_names


def _variables(frame: FrameType) -> dict[str, Any]:
    """Return the variables of a frame; none if they cannot be read unnoticed.

    Python 3.11 keeps a copy of the variables of a function in one dictionary for each frame. It is emptied, since it
    would keep the values alive, unless the function might use it itself.
    """
    code = frame.f_code
    if not code.co_flags & (inspect.CO_NEWLOCALS | inspect.CO_OPTIMIZED):
        return frame.f_locals
    if sys.gettrace() is not None or _uses_snapshot(code):
        return {}
    snapshot = frame.f_locals
    variables = dict(snapshot)
    snapshot.clear()
    return variables


@lru_cache(maxsize=256)
def counted_loop(code: CodeType, loop: CodeLoop, step: int, inner: tuple[str, ...] = ()) -> CountedLoop | None:
    """Return the counted loop, if only an exception leaves it and each of its iterations executes the offset `step`.

    `inner` are the names in the arguments of the loops inside it: these might have no items later.
    """
    instructions = instructions_of(code)
    first = next(number for number, item in enumerate(instructions) if item.offset == loop.begin)
    if instructions[first].opname != "FOR_ITER" or instructions[first + 1].opname not in VARIABLES:
        return None
    variable, arguments = instructions[first + 1].argval, _range_arguments(instructions[:first])
    if arguments is None or _stores(code, variable, loop.offsets) > 1:
        return None
    names = inner + tuple(item.argval for item in arguments if type(item.argval) is str)
    if any(_stores(code, name, loop.offsets) for name in names):
        return None
    following = successors(code)
    for offset in loop.offsets - {loop.begin}:
        if not loop.offsets.issuperset(following[offset]):
            return None  # it may be left by `break` or `return`
    for entry in exception_entries(code):
        is_inside = entry.target in loop.offsets and any(entry.start <= offset < entry.end for offset in loop.offsets)
        if is_inside and goes_on_at(code, entry.target, loop.begin) and may_go_on(code, entry.target):
            return None  # an iteration may end with an exception that is caught inside
    pending, reached = [instructions[first + 1].offset], {step}
    while pending:
        offset = pending.pop()
        if offset == loop.begin:
            return None  # an iteration may make no step
        if offset not in reached:
            reached.add(offset)
            pending += following[offset]
    return CountedLoop(variable, arguments, names)


def _stores(code: CodeType, variable: str, offsets: Collection[int] | None = None) -> int:
    """Return how often a variable is set or deleted: at some offsets of a function, and in the functions inside it."""
    instructions = (item for item in instructions_of(code) if offsets is None or item.offset in offsets)
    own = [item for item in instructions if item.argval == variable and item.opname.startswith(("STORE_", "DELETE_"))]
    return len(own) + sum(_stores(inner, variable) for inner in code.co_consts if isinstance(inner, CodeType))


def _range_arguments(instructions: tuple[dis.Instruction, ...]) -> tuple[dis.Instruction, ...] | None:
    """Return the instructions that compute the arguments of the `range` that these end with; None for another call."""
    if [item.opname for item in instructions[-3:]] != ["PRECALL", "CALL", "GET_ITER"]:
        return None
    before = instructions[:-3][-MAX_RANGE_INSTRUCTIONS:]
    for number in range(len(before) - 1, -1, -1):
        if before[number].argval == "range" and before[number].opname in ("LOAD_NAME", "LOAD_GLOBAL"):
            return before[number + 1 :]
    return None


def _items(loop: CountedLoop, frame: FrameType, variables: Mapping[str, Any]) -> tuple[range, object]:
    """Return the items of a loop, as its range is now, and the current one; no items if they cannot be computed."""
    stack: list[Any] = []
    try:
        if frame.f_globals.get("range", range) is range:
            for item in loop.arguments:
                if item.opname == "LOAD_CONST":
                    stack.append(item.argval)
                elif item.opname in ("LOAD_NAME", "LOAD_FAST", "LOAD_DEREF"):
                    stack.append(variables[item.argval])
                elif item.opname == "LOAD_GLOBAL":
                    stack.append(frame.f_globals[item.argval])
                elif item.opname == "LOAD_ATTR":
                    stack.append(_attributes(stack.pop())[item.argval])
                else:  # an operator, or something unknown
                    second, first = stack.pop(), stack.pop()
                    stack.append(OPERATORS[item.argrepr](first, second))
            if stack and all(type(argument) is int for argument in stack):
                return range(*stack), variables.get(loop.variable)
    except Exception:  # a variable that exists no more, or arguments of another kind
        pass
    return range(0), None


def _attributes(owner: Any) -> Mapping[str, Any]:
    """Return the attributes of a namespace, without calling a property of another object."""
    attributes: dict[str, Any] = vars(owner)
    return attributes
