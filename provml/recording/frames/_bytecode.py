"""The instructions and loops of a function, by their bytecode offsets."""

from __future__ import annotations

import dis
import inspect
import opcode
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

ENDING = ("RETURN_VALUE", "RETURN_CONST", "RAISE_", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD")
"""Prefixes of instructions after which the next one is not executed."""

SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Flags of functions that may wait inside of a loop, and that are found nowhere then."""
PASSING_ON = frozenset(
    {
        "autocast",
        "catch_warnings",
        "detect_anomaly",
        "enable_grad",
        "no_sync",
        "profile",
        "record_function",
        "set_detect_anomaly",
        "set_grad_enabled",
    }
)
"""Names of contexts for steps that pass each exception on."""
HARMLESS = ("NOP", "POP_TOP", "SWAP", "LOAD_CONST", "RETURN_CONST", "END_FOR", "POP_ITER")
"""Instructions that raise nothing."""


class CodeLoop(NamedTuple):
    """A loop of a function."""

    begin: int
    """The offset of the instruction that each iteration begins with."""
    offsets: frozenset[int]
    """The offsets of its instructions, with those that a compiler placed elsewhere, such as handlers of exceptions."""


@lru_cache(maxsize=256)
def loops_in(code: CodeType) -> tuple[CodeLoop, ...]:
    """Return the loops of a function, the innermost first."""
    instructions, following = instructions_of(code), _all_successors(code)
    preceding: dict[int, list[int]] = {}
    for offset, targets in following.items():
        for target in targets:
            preceding.setdefault(target, []).append(offset)
    ends: dict[int, list[int]] = {}
    for item in instructions:
        if "BACKWARD" in item.opname:  # a loop with `continue` has several jumps to its begin
            ends.setdefault(item.argval, []).append(item.offset)
    loops = []
    for begin, jumps in ends.items():
        offsets = {begin} | _reached(jumps, preceding, {begin})
        if opname(code, begin) == "FOR_ITER":
            offsets |= _offsets_with_iterator(code, begin)
        else:
            offsets |= _ends_of_while(code, begin, offsets)
        loops.append(CodeLoop(begin, frozenset(offsets)))
    return tuple(sorted(loops, key=lambda loop: len(loop.offsets)))


@lru_cache(maxsize=1024)
def loops_around(code: CodeType, offset: int) -> tuple[CodeLoop, ...]:
    """Return the loops around the instruction of a bytecode offset, the innermost first."""
    start = instruction_start(code, offset)
    return tuple(loop for loop in loops_in(code) if start in loop.offsets)


def _reached(starts: Iterable[int], following: Mapping[int, list[int]], ends: Iterable[int]) -> set[int]:
    """Return the offsets that are reached from some, without going on from the ends."""
    pending, reached = list(starts), set(ends)
    while pending:
        offset = pending.pop()
        if offset not in reached:
            reached.add(offset)
            pending += following.get(offset, [])
    return reached


def _offsets_with_iterator(code: CodeType, begin: int) -> set[int]:
    """Return the offsets from the `FOR_ITER` at an offset on at which its iterator is on the stack."""
    depths = _stack_depths(code)
    return set(reachable_offsets(code, begin, depths[begin])) if begin in depths else set()


@lru_cache(maxsize=256)
def _stack_depths(code: CodeType) -> dict[int, int]:
    """Return the stack depth at each offset of a function."""
    resume = next(item.offset for item in instructions_of(code) if item.opname == "RESUME")
    return reachable_offsets(code, resume, 0)


class _Lines(NamedTuple):
    """The lines of a function that have instructions."""

    of_offset: dict[int, int]
    columns: dict[int, int]
    """The column at which each line begins."""
    numbers: list[int]
    """In the order of the source."""

    def end_of_block(self, first: int, indentation: int) -> float:
        """Return the first line after a line that is less indented."""
        later = (self.numbers[place] for place in range(bisect_right(self.numbers, first), len(self.numbers)))
        return next((line for line in later if self.columns[line] < indentation), float("inf"))


@lru_cache(maxsize=256)
def _lines_of(code: CodeType) -> _Lines:
    columns: dict[int, int] = {}
    lines: dict[int, int] = {}
    for item in instructions_of(code):
        position: Any = item.positions  # type: ignore[attr-defined,unused-ignore]
        if position is not None and position.lineno is not None and position.col_offset is not None:
            columns[position.lineno] = min(columns.get(position.lineno, position.col_offset), position.col_offset)
            lines[item.offset] = position.lineno
    return _Lines(lines, columns, sorted(columns))


def _ends_of_while(code: CodeType, begin: int, offsets: set[int]) -> set[int]:
    """Return the offsets of the parts of a `while` loop that end it, by `raise` or `return`.

    In the bytecode they look like what follows the loop, so the positions in the source tell them apart: up to the
    next line that is less indented. What its condition leads to is no part of it, also an `else`.
    """
    lines = _lines_of(code)
    inside = {lines.of_offset[offset] for offset in offsets if offset in lines.of_offset}
    inside.discard(lines.of_offset.get(begin, 0))
    if not inside:
        return set()
    first, indentation = min(inside), min(lines.columns[line] for line in inside)
    end = lines.end_of_block(first, indentation)
    condition = {offset for offset in offsets if lines.of_offset.get(offset) == first}
    if lines.columns[first] == indentation:  # `while True`
        condition = set()
    following, pending, exits = successors(code), list(offsets - condition), set[int]()
    while pending:
        for offset in following[pending.pop()]:
            is_seen = offset in offsets or offset in exits
            if not is_seen and first <= lines.of_offset.get(offset, 0) < end:
                exits.add(offset)
                pending.append(offset)
    return exits if indentation > 0 else set()


@lru_cache(maxsize=256)
def earliest_offset(code: CodeType, offset: int) -> int:
    """Return the first bytecode offset that may be executed after an offset, by the jumps backward."""
    jumps = [(item.offset, item.argval) for item in dis.get_instructions(code) if "BACKWARD" in item.opname]
    earliest, previous = offset, None
    while earliest != previous:
        previous = earliest
        earliest = min([earliest, *(target for source, target in jumps if source >= previous)])
    return earliest


def instruction_start(code: CodeType, last: int) -> int:
    """Return the offset of the instruction that a frame is at: `f_lasti` may point at a cache entry after it."""
    while last > 0 and opname(code, last) == "CACHE":
        last -= 2
    return last


def opname(code: CodeType, offset: int) -> str:
    return opcode.opname[code.co_code[offset]] if offset >= 0 else ""


def reachable_offsets(code: CodeType, start: int, depth: int) -> dict[int, int]:
    """Return the offsets reachable from `start` without popping below `depth`, with the stack depth at each."""
    instructions, numbers, handlers = instructions_of(code), _numbers_of(code), _handlers_of(code)
    depths: dict[int, int] = {}
    pending = [(start, depth)]
    while pending:
        offset, current = pending.pop()
        if offset in depths or current < depth:
            continue
        depths[offset] = current
        instruction = instructions[numbers[offset]]
        handler = handlers.at(offset)
        if handler is not None and handler.depth >= depth:
            pending.append((handler.target, handler.depth + handler.lasti + 1))
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            effect = dis.stack_effect(instruction.opcode, instruction.arg, jump=True)
            pending.append((instruction.argval, current + effect))
        is_moved = instruction.opname == "SWAP" and (instruction.arg or 0) > current - depth  # dropped at a `return`
        if not is_moved and not instruction.opname.startswith(ENDING):
            effect = dis.stack_effect(instruction.opcode, instruction.arg, jump=False)
            pending.append((instructions[numbers[offset] + 1].offset, current + effect))
    return depths


@lru_cache(maxsize=256)
def instructions_of(code: CodeType) -> tuple[dis.Instruction, ...]:
    """Return the instructions of a function."""
    return tuple(dis.get_instructions(code))


@lru_cache(maxsize=256)
def _numbers_of(code: CodeType) -> dict[int, int]:
    """Return the numbers of the instructions of a function by their offsets."""
    return {item.offset: number for number, item in enumerate(instructions_of(code))}


@lru_cache(maxsize=256)
def successors(code: CodeType) -> dict[int, list[int]]:
    """Return the offsets that may follow each instruction, unless it raises."""
    instructions = instructions_of(code)
    offsets: dict[int, list[int]] = {}
    for number, item in enumerate(instructions):
        following = [item.argval] if item.opcode in dis.hasjrel or item.opcode in dis.hasjabs else []
        if not item.opname.startswith(ENDING) and number + 1 < len(instructions):
            following.append(instructions[number + 1].offset)
        offsets[item.offset] = following
    return offsets


def goes_on_at(code: CodeType, offset: int, other: int) -> bool:
    """Return whether the instruction at an offset may be followed by another, unless something raises."""
    return other in _reached([offset], successors(code), ())


@lru_cache(maxsize=256)
def _all_successors(code: CodeType) -> dict[int, list[int]]:
    """Return the offsets that may follow each instruction, also if it raises."""
    following = {offset: list(targets) for offset, targets in successors(code).items()}
    handlers = _handlers_of(code)
    for offset, targets in following.items():
        entry = handlers.at(offset)
        if entry is not None:
            targets.append(entry.target)
    return following


# ---- handlers of exceptions


@lru_cache(maxsize=256)
def exception_entries(code: CodeType) -> tuple[Any, ...]:
    """Return the parts of a function whose exceptions are handled: `start`, `end` and `target` of each."""
    bytecode: Any = dis.Bytecode(code)  # typeshed lacks `exception_entries`
    return tuple(bytecode.exception_entries)


class _Handlers(NamedTuple):
    """The handlers of a function: the parts whose exceptions they handle do not overlap and are in order."""

    entries: tuple[Any, ...]
    starts: list[int]

    def at(self, offset: int) -> Any:
        """Return the part that an offset is in; None if there is none."""
        place = bisect_right(self.starts, offset) - 1
        entry = self.entries[place] if place >= 0 else None
        return entry if entry is not None and offset < entry.end else None


@lru_cache(maxsize=256)
def _handlers_of(code: CodeType) -> _Handlers:
    entries = exception_entries(code)
    return _Handlers(entries, [entry.start for entry in entries])


def handler_at(code: CodeType, offset: int) -> int | None:
    """Return the offset of the handler of an exception that is raised at an offset; None if its caller handles it.

    A handler that always raises it again, such as a `finally`, is not the one.
    """
    for _ in range(len(exception_entries(code)) + 1):
        entry = _handlers_of(code).at(offset)
        handler = entry.target if entry is not None else None
        if handler is None or not _only_reraises(code, handler):
            return handler
        offset = max(_reached([handler], successors(code), ()))  # where it is raised again
    return None


def _only_reraises(code: CodeType, handler: int) -> bool:
    following = successors(code)
    names = {item.offset: item.opname for item in instructions_of(code)}
    ends = [offset for offset in _reached([handler], following, ()) if not following[offset]]
    return all(names[offset] == "RERAISE" for offset in ends)


def may_go_on(code: CodeType, handler: int) -> bool:
    """Return whether a function may go on after an exception that a handler is called with.

    The managers of contexts in `PASSING_ON` never keep an exception, in contrast to `contextlib.suppress`.
    """
    return not _only_reraises(code, handler) and not _is_exit_of_known_context(code, handler)


def _is_exit_of_known_context(code: CodeType, handler: int) -> bool:
    """Return whether a handler is the end of a `with` block whose context is one of `PASSING_ON`."""
    instructions, numbers = instructions_of(code), _numbers_of(code)
    first = numbers[handler]
    if [item.opname for item in instructions[first : first + 2]] != ["PUSH_EXC_INFO", "WITH_EXCEPT_START"]:
        return False
    number = numbers[min(entry.start for entry in exception_entries(code) if entry.target == handler)] - 1
    if instructions[number].opname != "BEFORE_WITH":
        return False
    call: Any = instructions[number - 1].positions  # type: ignore[attr-defined,unused-ignore]
    names = set[object]()
    for item in reversed(instructions[:number]):
        position: Any = item.positions  # type: ignore[attr-defined,unused-ignore]
        if None in (*call, *position) or (position.lineno, position.col_offset) < (call.lineno, call.col_offset):
            break
        names.add(item.argval)
    return not PASSING_ON.isdisjoint(names)


def always_passes(code: CodeType, offset: int) -> bool:
    """Return whether each call of a function that returns has executed the instruction at an offset."""
    if code.co_flags & SUSPENDING or any(may_go_on(code, entry.target) for entry in exception_entries(code)):
        return False
    names = {item.offset: item.opname for item in instructions_of(code)}
    reached = _reached([0], successors(code), {offset})
    return not any(names[other].startswith("RETURN_") for other in reached - {offset})


def only_returns_after(code: CodeType, loop: CodeLoop) -> bool:
    """Return whether a function does nothing after a loop, and returns nothing."""
    instructions, numbers, following = instructions_of(code), _numbers_of(code), successors(code)
    for offset in _reached(loop.offsets, following, ()) - loop.offsets:
        number = numbers[offset]
        item = instructions[number]
        is_harmless = item.opname in HARMLESS or item.opname.startswith("JUMP_")
        is_return = item.opname == "RETURN_VALUE" and instructions[number - 1].opname == "LOAD_CONST"
        if not is_harmless and not is_return:
            return False
    return True


def is_end_of_handler(code: CodeType, offset: int) -> bool:
    """Return whether an instruction forgets an exception that was handled, or the variable that it had."""
    number = _numbers_of(code)[offset]
    names = [item.opname for item in instructions_of(code)[max(number - 2, 0) : number + 1]]
    return names[-1] == "POP_EXCEPT" or (
        names[:2] == ["POP_EXCEPT", "LOAD_CONST"] and names[2].startswith(("STORE_", "DELETE_"))
    )


class Clause(NamedTuple):
    """An `except` clause."""

    classes: list[str]
    """The names of the exceptions that it catches; none for all."""
    line: int | None


def clause_around(code: CodeType, offset: int) -> Clause | None:
    """Return the `except` clause that an offset is in; None if there is none that names exceptions."""
    instructions = instructions_of(code)
    checks = [
        number
        for number, item in enumerate(instructions[:-1])
        if item.opname == "CHECK_EXC_MATCH" and item.offset < offset < instructions[number + 1].argval
    ]
    return _clause(code, checks[-1]) if checks else None


def only_clause(code: CodeType, handler: int) -> Clause | None:
    """Return the `except` clause of a handler; None if it has several, or one that does not name exceptions."""
    instructions = instructions_of(code)
    start = next(number for number, item in enumerate(instructions) if item.offset == handler)
    end = next(
        (number for number in range(start, len(instructions)) if instructions[number].opname == "RERAISE"), start
    )
    checks = [number for number in range(start, end) if instructions[number].opname == "CHECK_EXC_MATCH"]
    return _clause(code, checks[0]) if len(checks) == 1 else None


def _clause(code: CodeType, check: int) -> Clause:
    instructions, classes, number = instructions_of(code), [], check - 1
    while instructions[number].opname in (
        "LOAD_NAME",
        "LOAD_GLOBAL",
        "LOAD_ATTR",
        "LOAD_FAST",
        "LOAD_DEREF",
        "BUILD_TUPLE",
    ):
        item = instructions[number]
        if item.opname != "BUILD_TUPLE":
            classes.append(str(item.argval))
        number -= 2 if item.opname == "LOAD_ATTR" else 1  # `module.Class`: the module is not a part of the name
    lines = [line for start, line in dis.findlinestarts(code) if start <= instructions[check].offset]
    return Clause(classes[::-1], lines[-1] if lines else None)
