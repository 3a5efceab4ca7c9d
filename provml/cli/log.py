"""The log of a run: its events as they come."""

from __future__ import annotations

import csv
import heapq
import io
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provml.cli.door import existing, with_form, with_home, with_run

if TYPE_CHECKING:
    from provml import event
    from provml.cli.glance import Glance, Tail
    from provml.cli.narration import Narrator

PAUSE = 0.2
"""Seconds between two looks at journals that are followed."""

GONE = {"KILLED": "its process is gone and told no end", "LOST": "its writer shows no sign of life and told no end"}
COLUMNS = ["time", "writer", "event", "at", "told"]


class Log:
    """The journals of a run as lines: short ones for people, whole events for programs."""

    def __init__(self, glance: Glance, form: str, *, batches: bool) -> None:
        self.glance = glance
        self.form = form
        self.batches = batches
        self.narrators: dict[Path, Narrator] = {}
        self._told_damage: dict[Path, int] = {}
        self._day = ""
        self._hinted = False

    def new(self) -> Iterator[tuple[float, str]]:
        """The lines since the last time, those of several writers in the order of time."""
        tails = self.glance.look()
        return heapq.merge(*map(self._lines, tails), key=lambda line: line[0])

    def _lines(self, tail: Tail) -> Iterator[tuple[float, str]]:
        from provml.cli.narration import Narrator

        narrator = self.narrators.setdefault(tail.path, Narrator(batches=self.batches or self.form != "table"))
        for seconds, what in tail.events():
            line = narrator.tell(what)
            if self.form != "table":
                line = self._record(tail, seconds, what, line)
            if line:
                yield seconds, line

    def _record(self, tail: Tail, seconds: float, what: event.AnyEvent, told: str) -> str:
        import msgspec

        from provml.answer import as_json

        held = msgspec.to_builtins(what)
        when = datetime.fromtimestamp(seconds, UTC).isoformat()
        if self.form == "json":
            return as_json({"time": when, "writer": tail.path.stem, **held}, indent=None)
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow([when, tail.path.stem, held["e"], held.get("at", ""), told])
        return out.getvalue()

    def put(self, lines: Iterable[tuple[float, str]]) -> None:
        """Print lines, with the time before each where people read them, and the day where it is another."""
        for seconds, line in lines:
            self.hint("")
            if self.form == "table":
                when = datetime.fromtimestamp(seconds)
                day = f"{when:%Y-%m-%d}"
                if self._day and day != self._day:
                    click.echo(click.style(day, dim=True))
                self._day = day
                line = f"{click.style(f'{when:%H:%M:%S}', dim=True)}  {line}"
            click.echo(line)
        for tail in self.glance.tails:
            told = self._told_damage.get(tail.path, 0)
            for number, reason in tail.damaged[told:]:
                what = f"{tail.path}:{number}: damaged line left out" if number else f"{tail.path}: left out"
                click.echo(f"provml: {what}: {reason}", err=True)
            self._told_damage[tail.path] = len(tail.damaged)

    def hint(self, text: str) -> None:
        """Show on a terminal, until the next line, what is under way."""
        if self.form != "table" or not sys.stdout.isatty() or not (text or self._hinted):
            return
        sys.stdout.write(f"\r\x1b[2K{text[: shutil.get_terminal_size().columns - 1]}")
        sys.stdout.flush()
        self._hinted = bool(text)

    def under_way(self) -> list[str]:
        """What has begun and not ended, in the words of every writer."""
        return [line for narrator in self.narrators.values() for line in narrator.under_way()]

    def close(self) -> None:
        """Tell people what was under way where no end was told, and how the run stands."""
        main = self.glance.main
        if self.form != "table" or main is None or main.end is not None:
            return
        status = self.glance.status
        last = max(tail.seen for tail in self.glance.tails)
        ending = "under way" if status == "RUNNING" else "not ended"
        self.put((last, f"{line}  {ending}") for line in self.under_way())
        if status in GONE:
            self.put([(last, f"{status}: {GONE[status]}")])


@click.command("log")
@with_run(default="latest")
@click.option("-f", "--follow", is_flag=True, help="Go on as the training does, until it ends.")
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Only the last N lines so far.")
@click.option("--batches", is_flag=True, help="Tell every batch too, not only epochs.")
@with_form
@with_home
def log_(run: str, follow: bool, lines: int | None, batches: bool, form: str, home: Path | None) -> None:
    """Tell what happened in a run, event by event.

    RUN is an id, its beginning or end, or `latest` (also if left out). The journals are read as they are, so a
    training that goes on is told as it goes. With --format json each event is an object on a line of its own.
    """
    from provml.cli.glance import Glance
    from provml.run import find_folder

    log = Log(Glance(find_folder(existing(home), run)), form, batches=batches)
    try:
        if form == "csv":
            click.echo(",".join(COLUMNS))
        log.put(log.new() if lines is None else deque(log.new(), maxlen=lines))
        while follow:
            goes_on = log.glance.status == "RUNNING"  # asked before reading, so that the last lines are read too
            log.put(log.new())
            if not goes_on:
                break
            log.hint("  ".join(log.under_way()))
            time.sleep(PAUSE)
        log.hint("")
        log.close()
    except KeyboardInterrupt:
        log.hint("")


COMMANDS = (log_,)
