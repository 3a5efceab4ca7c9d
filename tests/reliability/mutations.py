"""Damage the files of a home, one at a time, and check what readers and `verify` say.

A damaged file of the index, a snapshot or a checkpoint must change no answer. Damage to a journal, a segment or an
artifact must be named by `verify`, must leave all other runs as they were, and must never be a traceback.
"""

from __future__ import annotations

import importlib
import logging
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from provml.errors import ProvmlError
from provml.store import Store
from reliability import homes
from reliability.sandbox import Outcome, attempt

OPERATIONS = (
    "flip",
    "flip",
    "flip",
    "flip",
    "truncate",
    "zeros",
    "remove",
    "empty",
    "swap",
    "extend",
    "folder",
    "link",
)
INDEX = "index/"
NO_DATA = ("LOCK", "lock", "LOG", "IDENTITY")
"""Files whose content nobody reads."""
SEALED = ("runs/", "segments/", "artifacts/", "seals/ledger.jsonl")
"""Files whose damage `verify` has to name; annotations are not sealed."""


class Mutation(NamedTuple):
    """A change of one file: the path below the home, what is done, and a position from 0 to 1."""

    path: str
    operation: str
    position: float

    def __str__(self) -> str:
        return f"{self.operation} {self.path} at {self.position:.4f}"


def choose(home: Path, count: int, seed: int = 0) -> list[Mutation]:
    """Return mutations that are spread evenly over the kinds of files of a home."""
    chance = random.Random(seed)
    kinds: dict[str, list[str]] = {}
    for path in sorted(home.rglob("*")):
        is_good = path.parent.name == homes.GOOD  # the run that is asked about stays as it is
        if path.is_file() and path.name not in NO_DATA and not is_good:
            kinds.setdefault(kind_of(path.relative_to(home)), []).append(str(path.relative_to(home)))
    names = sorted(kinds)
    return [
        Mutation(chance.choice(kinds[names[number % len(names)]]), chance.choice(OPERATIONS), chance.random())
        for number in range(count)
    ]


def kind_of(path: Path) -> str:
    """Return the kind of a file: its folder without ids and numbers, and the kind of its name."""
    folder = "/".join(part for part in path.parts[:-1] if part in ("index", "snapshot", "store", "runs", "annotations"))
    name = "" if path.parts[0] == "artifacts" else path.suffix or path.name.split("-")[0]
    return f"{folder or path.parts[0]}/{name}"


def apply(mutation: Mutation, home: Path) -> bool:
    """Change a file; return whether it has other content than before."""
    path = home / mutation.path
    before = path.read_bytes()
    path.unlink()  # a hard link to a file of a snapshot must stay as it is
    offset = min(int(len(before) * mutation.position), max(len(before) - 1, 0))
    if mutation.operation == "folder":
        path.mkdir()
        return True
    if mutation.operation == "link":
        target = home.parent / "outside"
        target.write_bytes(before[::-1])
        path.symlink_to(target)
        return True
    if mutation.operation == "remove":
        return True
    path.write_bytes(_changed(mutation.operation, before, offset, home))
    return path.read_bytes() != before


def _changed(operation: str, before: bytes, offset: int, home: Path) -> bytes:
    if operation == "flip":
        return before[:offset] + bytes([before[offset] ^ (1 << offset % 8)]) + before[offset + 1 :] if before else b"x"
    if operation == "truncate":
        return before[:offset]
    if operation == "zeros":
        return before[:offset] + bytes(min(64, len(before) - offset)) + before[offset + 64 :]
    if operation == "swap":
        others = [path for path in sorted(home.rglob("*")) if path.is_file() and path.stat().st_size > 0]
        return others[offset % len(others)].read_bytes()
    if operation == "extend":
        return before + before[-(offset % 100) - 1 :]
    return b""


def read(home: Path) -> dict[str, Any]:
    """Return what a store says about a home, what a reader beside it says, and what `verify` finds."""
    messages: list[str] = []
    logging.getLogger("provml").addHandler(_Collector(messages))
    with Store(home) as store, Store(home) as reader:
        result: dict[str, Any] = {"store": homes.answers(store), "reader": homes.answers(reader)}
    with Store(home) as store:
        problems = [*store.verify(), *store.check_seals().problems]
    result["problems"] = [f"{problem.file}:{problem.line}: {problem.reason}" for problem in problems]
    result["messages"] = messages
    result["modules"] = [name for name in sys.modules if name.startswith("provml.")]
    return result


class _Collector(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())


def check(mutation: Mutation, intact: Path, expected: dict[str, Any], scratch: Path) -> str:
    """Apply a mutation to a copy of a home; return what is wrong with the reaction, or an empty text."""
    home = scratch / "home"
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(intact, home, copy_function=shutil.copy2, symlinks=True)
    if not apply(mutation, home):
        return ""
    return judge(mutation, attempt(lambda: read(home)), expected)


def judge(mutation: Mutation, outcome: Outcome, expected: dict[str, Any]) -> str:
    """Return what is wrong with an outcome."""
    if outcome.error:
        is_clear = outcome.error in _CLEAR and not mutation.path.startswith((INDEX, "runs/", "artifacts/", "seals/"))
        return "" if is_clear else f"{outcome.error}\n{outcome.detail}"
    result = outcome.value
    if mutation.path.startswith(INDEX):
        return _differences(result, expected)
    if _other_runs(result["store"], mutation) != _other_runs(expected["store"], mutation):
        return "answers about other runs have changed"
    if mutation.path.startswith(SEALED) and "/annotations/" not in mutation.path and not result["problems"]:
        return "verify names no problem"
    return ""


_CLEAR = {error.__name__ for error in [ProvmlError, *ProvmlError.__subclasses__()]}


def _differences(result: dict[str, Any], expected: dict[str, Any]) -> str:
    for reader in ("store", "reader"):
        for name, value in expected[reader].items():
            if result[reader][name] != value:
                return f"{name} of the {reader} differs; messages: {result['messages']}"
    return ""


def _other_runs(answer: dict[str, Any], mutation: Mutation) -> list[tuple[str, ...]]:
    """Return the runs that a mutation does not concern."""
    packed = homes.PACKED if mutation.path.startswith("segments/") else ()
    return [run for run in answer["runs"] if f"/{run[0]}/" not in mutation.path and run[0] not in packed]


def sweep(folder: Path, count: int, seed: int = 0) -> Iterator[tuple[Mutation, str]]:
    """Yield mutations of a home that is built in a folder, each with what is wrong, if anything."""
    intact = folder / "intact"
    built = attempt(lambda: homes.build(intact) and None)  # the engine's threads do not survive a fork
    assert not built.error, built.detail
    expected = attempt(lambda: read(intact))
    assert not expected.error, expected.detail
    assert expected.value["problems"] == []
    for name in expected.value["modules"]:  # once, and not in each child
        importlib.import_module(name)
    for mutation in choose(intact, count, seed):
        yield mutation, check(mutation, intact, expected.value, folder / f"scratch-{os.getpid()}")
