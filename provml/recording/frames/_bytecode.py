"""The instructions and loops of a function, by their bytecode offsets."""

from __future__ import annotations

import dis
import opcode
from functools import lru_cache
from types import CodeType
from typing import Any

ENDING = ("RETURN_VALUE", "RETURN_CONST", "RAISE_", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD")
"""Prefixes of instructions after which the next one is not executed."""


@lru_cache(maxsize=256)
def loops_in(code: CodeType) -> list[tuple[int, int]]:
    """Return the first and last bytecode offsets of the loops of a function."""
    ends: dict[int, int] = {}
    for item in dis.get_instructions(code):
        if "BACKWARD" in item.opname:  # a loop with `continue` has several jumps to its begin; the last one ends it
            ends[item.argval] = item.offset
    return list(ends.items())


@lru_cache(maxsize=256)
def loops_around(code: CodeType, offset: int) -> int:
    """Return the number of loops around a bytecode offset."""
    return sum(begin <= offset <= end for begin, end in loops_in(code))


@lru_cache(maxsize=256)
def share_loop(code: CodeType, first: int, second: int) -> bool:
    """Return whether two bytecode offsets are in one loop."""
    return any(begin <= first <= end and begin <= second <= end for begin, end in loops_in(code))


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
