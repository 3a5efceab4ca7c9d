"""How far the index has read: for each journal an offset and the lifter's state, and what is known of each run."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import msgspec

from provml import event, field, lift, rdf, resources, things, values, vocab, workflow
from provml.lift import State

MOST_PROBLEMS = 1000
"""So many are kept for a journal; more would tell nothing new."""


class Problem(msgspec.Struct, frozen=True):
    """A line that could not be taken in, or not whole."""

    file: str
    line: int
    reason: str


class Journal(msgspec.Struct):
    """One journal file, as far as it is read.

    `events` is how many were lifted, and `told` how many batches that were told together: those on a writer's slate are
    lifted before it writes them. `elder` is the journal of its run by whose words it is lifted, if there is one. `left`
    is how the file looked when it was read to its end: to a last event, or after its writer was gone or silent.
    """

    offset: int = 0
    number: int = 0
    events: int = 0
    told: int = 0
    state: State = msgspec.field(default_factory=State)
    elder: str = ""
    end: event.End | None = None
    left: tuple[int, int] | None = None
    problems: list[Problem] = []

    def complain(self, file: str, line: int, reason: str) -> None:
        """Note a problem."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(file, line, reason[:300]))

    def refuse(self, file: str, reason: str) -> None:
        """Note that nothing more can be read of it now."""
        self.forgive()
        self.problems.append(Problem(file, 0, reason[:300]))

    def forgive(self) -> None:
        """Forget that it could not be read."""
        self.problems = [problem for problem in self.problems if problem.line]

    def rest(self, left: tuple[int, int]) -> None:
        """Forget what only further events would need: a file that looks so has none."""
        state = self.state
        self.state = State(state.first, state.experiment, state.model, state.own)
        self.left = left

    def restart(self) -> None:
        """Forget all, to be read from the beginning."""
        self.offset = self.number = self.events = self.told = 0
        self.state, self.end, self.left = State(), None, None


class Progress(msgspec.Struct):
    """All journals by path below the home, the standing told for each run, the files added by hand, and whether so much
    was loaded that the store is to be optimized."""

    made: str = ""
    journals: dict[str, Journal] = {}
    told: dict[str, str] = {}
    added: list[str] = []
    is_rough: bool = False


@cache
def making() -> str:
    """What an index is made by, as a digest: other ontologies, or another way to lift, make another one."""
    digest = hashlib.sha256(str(event.VERSION).encode())
    files = [*resources.ontologies().glob("*.ttl")]
    for room in (lift, rdf, vocab):
        files += Path(str(room.__file__)).parent.glob("*.py")
    files += [Path(str(room.__file__)) for room in (event, field, things, values, workflow)]
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def decode(held: bytes) -> Progress:
    """The progress held in bytes; none where they are of another making."""
    try:
        return msgspec.msgpack.decode(held, type=Progress)
    except msgspec.MsgspecError:
        return Progress()


def encode(progress: Progress) -> bytes:
    """The progress as bytes."""
    return msgspec.msgpack.encode(progress)


def read(path: Path) -> Progress:
    """The progress kept in a file; none where there is no such file or it is of another making."""
    try:
        return decode(path.read_bytes())
    except OSError:
        return Progress()


def write(path: Path, held: bytes) -> None:
    """Keep the progress, whole or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(held)
    temporary.replace(path)
