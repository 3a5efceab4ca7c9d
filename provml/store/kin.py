"""The journals of one run as files: which of them began first, and what that of a parent had told at a moment."""

from __future__ import annotations

from pathlib import Path

import msgspec

from provml import event
from provml.journal import read_lines
from provml.lift import Kin, Lifter, State

FIRST_WORDS = 1 << 16
SKIPPED = (b'{"e":"batch', b'{"e":"measured"')
"""Lines that leave nothing that another journal could need: of a batch, of batches, of measures."""


class Eldest:
    """The first journal of each run, or that there is none, found once: good for one reading of a home."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Path, list[event.AnyEvent]] | None] = {}

    def of(self, folder: Path) -> tuple[Path, list[event.AnyEvent]] | None:
        """The journal of a run's folder that began first among the main ones, and its first words."""
        known = self._known.get(folder)
        if folder not in self._known or (known is not None and not known[0].exists()):
            mains: list[tuple[float, str, Path, list[event.AnyEvent]]] = []
            for path in folder.glob("*.jsonl"):
                words = first_words(path)
                if words and isinstance(words[0], event.Run) and words[0].main and words[0].v <= event.VERSION:
                    mains.append((words[0].t, words[0].writer, path, words))
            known = min(mains, key=lambda one: one[:2])[2:] if mains else None
            self._known[folder] = known
        return known


def first_words(path: Path) -> list[event.AnyEvent]:
    """Who writes a journal and by which workflow, from its first lines."""
    try:
        with path.open("rb") as file:
            lines = file.read(FIRST_WORDS).split(b"\n")[:-1]
            words = [event.decode(line) for line in lines[:1]]
            if len(lines) > 1 and lines[1].startswith(b'{"e":"workflow"'):
                words.append(event.decode(lines[1]))
            return words
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return []


class Siblings(Kin):
    """The kin of one journal."""

    def __init__(self, path: Path, eldest: Eldest, children: frozenset[Path] = frozenset()) -> None:
        self.path = path
        self.children = children
        self.run = path.parent.name
        self.writer = path.stem
        self._eldest = eldest

    def elder(self, first: event.Run) -> list[event.AnyEvent]:
        """The first words of the run's first journal; nothing where this is it, or none is to be found."""
        found = self._eldest.of(self.path.parent)
        return found[1] if found is not None and found[0] != self.path else []

    def known_by(self, first: event.Run) -> State | None:
        """What the journal of the parent had told when a writer began, with what the parent knew from its own."""
        path = self._parent(first)
        if path is None or path == self.path or path in self.children:
            return None
        lifter = Lifter(kin=Siblings(path, self._eldest, self.children | {self.path}))
        for _, _, line in read_lines(path):
            if line.startswith(SKIPPED):
                continue
            try:
                what = event.decode(line)
                if getattr(what, "t", first.t) > first.t:
                    break
                lifter.feed(what)
            except Exception:  # a damaged line, which is reported where that journal itself is read
                continue
            lifter.things.clear()
        return lifter.state

    def _parent(self, first: event.Run) -> Path | None:
        """The journal that a writer was forked from; the run's first where none is said."""
        if first.parent:
            path = self.path.parent / f"{Path(first.parent).name}.jsonl"
            return path if path.is_file() else None
        found = self._eldest.of(self.path.parent)
        return found[0] if found is not None else None
