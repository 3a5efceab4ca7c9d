"""The status of runs from their journals alone, reading only what is new: for clients that look every second."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from pathlib import Path

import msgspec

from provml.journal import events
from provml.journal.reader import END_PREFIX, read_header, read_lines
from provml.journal.run_files import journals_of_run
from provml.journal.status import WriterState, status_of_run

MAX_JOURNALS = 4096


class _Journal:
    """The header and the end of a journal, as far as it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.header: events.Header | None = None
        self.end: events.End | None = None

    def read(self) -> WriterState:
        """Read on, and return the state of the writer."""
        if self.header is None:
            self.header = read_header(self.path)
        for offset, _, line in read_lines(self.path, self.offset):
            self.offset = offset
            if line.startswith(END_PREFIX):
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    event = events.decode(line)
                    self.end = event if isinstance(event, events.End) else self.end
        return WriterState(self.path, self.header, self.end)


class RunEnds:
    """The ends of the journals that were asked for last."""

    def __init__(self) -> None:
        self._journals: OrderedDict[Path, _Journal] = OrderedDict()

    def status(self, folder: Path) -> str:
        """Return the status of the run in a folder."""
        return status_of_run([self._journal(path).read() for path in journals_of_run(folder)])[0]

    def _journal(self, path: Path) -> _Journal:
        journal = self._journals.pop(path, None) or _Journal(path)
        self._journals[path] = journal
        while len(self._journals) > MAX_JOURNALS:
            self._journals.popitem(last=False)
        return journal
