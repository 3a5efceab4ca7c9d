"""log: print the events of a run, also while it is running."""

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

from provml.cli.options import format_option, home_option, open_run_folder, run_argument
from provml.cli.terminal import echo_message, terminal_width, wrap_line
from provml.paths import service_url, store_location

if TYPE_CHECKING:
    from provml.cli.event_lines import EventFormatter
    from provml.cli.run_tail import JournalTail, RunTail
    from provml.journal.events import AnyEvent

POLL_SECONDS = 0.2
"""Pause between two reads of journals that are followed."""

EXPLANATIONS = {
    "KILLED": "the process no longer exists and recorded no end",
    "LOST": "the writer shows no sign of life and recorded no end",
}
COLUMNS = ["time", "writer", "event", "at", "text"]


class Log:
    """The events of a run as lines: short text for people, whole events for programs."""

    def __init__(self, tail: RunTail, fmt: str, *, batches: bool) -> None:
        self.tail = tail
        self.fmt = fmt
        self.batches = batches
        self.formatters: dict[Path, EventFormatter] = {}
        self._reported_problems: dict[Path, int] = {}
        self._day = ""
        self._hint_shown = False

    def new_lines(self) -> Iterator[tuple[float, str]]:
        """Yield the new lines of all writers in the order of time."""
        return heapq.merge(*map(self._lines, self.tail.refresh()), key=lambda line: line[0])

    def _lines(self, journal: JournalTail) -> Iterator[tuple[float, str]]:
        from provml.cli.event_lines import EventFormatter

        formatter = self.formatters.setdefault(
            journal.path, EventFormatter(batches=self.batches or self.fmt != "table")
        )
        for seconds, event in journal.events():
            line = formatter.format(event)
            if self.fmt != "table":
                line = self._record(journal, seconds, event, line)
            if line:
                yield seconds, line

    def _record(self, journal: JournalTail, seconds: float, event: AnyEvent, text: str) -> str:
        import msgspec

        from provml.answers import as_json

        fields = msgspec.to_builtins(event)
        when = datetime.fromtimestamp(seconds, UTC).isoformat()
        if self.fmt == "json":
            return as_json({"time": when, "writer": journal.path.stem, **fields}, indent=None)
        out = io.StringIO()
        row = [when, journal.path.stem, fields["e"], fields.get("at", ""), text]
        csv.writer(out, lineterminator="").writerow(row)
        return out.getvalue()

    def print(self, lines: Iterable[tuple[float, str]]) -> None:
        """Print lines; a table has the time before each line and the date where it changes."""
        for seconds, line in lines:
            self.show_hint("")
            if self.fmt == "table":
                when = datetime.fromtimestamp(seconds)
                day = f"{when:%Y-%m-%d}"
                if self._day and day != self._day:
                    click.echo(click.style(day, dim=True))
                self._day = day
                time_of_day = f"{when:%H:%M:%S}"
                line = wrap_line(f"{time_of_day}  {line}", terminal_width(), len(time_of_day) + 2)
                line = line.replace(time_of_day, click.style(time_of_day, dim=True), 1)
            click.echo(line)
        self._print_problems()

    def _print_problems(self) -> None:
        for journal in self.tail.journals:
            reported = self._reported_problems.get(journal.path, 0)
            for number, reason in journal.problems[reported:]:
                place = f"{journal.path}:{number}: skipped a corrupted line" if number else f"{journal.path}: skipped"
                echo_message(f"{place}: {reason}")
            self._reported_problems[journal.path] = len(journal.problems)

    def show_hint(self, text: str) -> None:
        """Show the open sections in the last line of a terminal, until the next line is printed."""
        if self.fmt != "table" or not sys.stdout.isatty() or not (text or self._hint_shown):
            return
        sys.stdout.write(f"\r\x1b[2K{text[: shutil.get_terminal_size().columns - 1]}")
        sys.stdout.flush()
        self._hint_shown = bool(text)

    def open_sections(self) -> list[str]:
        """Return a line for each section that has begun and not ended."""
        return [line for formatter in self.formatters.values() for line in formatter.open_sections()]

    def close(self) -> None:
        """Print the open sections and the status of a run without a recorded end."""
        main = self.tail.main
        if self.fmt != "table" or main is None or main.end is not None:
            return
        status = self.tail.status
        last_seen = max(journal.last_seen for journal in self.tail.journals)
        suffix = "running" if status == "RUNNING" else "not ended"
        self.print((last_seen, f"{line}  {suffix}") for line in self.open_sections())
        if status in EXPLANATIONS:
            self.print([(last_seen, f"{status}: {EXPLANATIONS[status]}")])


@click.command("log")
@run_argument(default="latest")
@click.option("-f", "--follow", is_flag=True, help="Print new events until the run ends.")
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Print only the last N lines.")
@click.option("--batches", is_flag=True, help="Print every batch, not only epochs.")
@format_option
@home_option
def log_command(run: str, follow: bool, lines: int | None, *, batches: bool, fmt: str, home: Path | None) -> None:
    """Print the events of a run, also while it is running.

    RUN is a run id, a unique prefix or suffix of it, the name of one run, or `latest` (the default). The command reads
    the journals, not the index. With --format json each event is a JSON object on its own line.
    """
    from provml.cli.run_tail import RunTail

    if follow and service_url(store_location(home)):
        raise click.UsageError("--follow reads files. Run it on the machine of the service, with its directory.")
    with open_run_folder(home, run) as folder:
        _print_log(Log(RunTail(folder), fmt, batches=batches), fmt, lines, follow=follow)


def _print_log(log: Log, fmt: str, lines: int | None, *, follow: bool) -> None:
    try:
        if fmt == "csv":
            click.echo(",".join(COLUMNS))
        log.print(log.new_lines() if lines is None else deque(log.new_lines(), maxlen=lines))
        while follow:
            is_running = log.tail.status == "RUNNING"  # checked before reading, so that the last lines are read too
            log.print(log.new_lines())
            if not is_running:
                break
            log.show_hint("  ".join(log.open_sections()))
            time.sleep(POLL_SECONDS)
        log.show_hint("")
        log.close()
    except KeyboardInterrupt:
        log.show_hint("")


COMMANDS = (log_command,)
