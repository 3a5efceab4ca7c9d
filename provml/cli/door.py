"""The door: errors end as messages, the options that commands share, and a home opened for reading."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from provml.errors import BrokenFile, ProvmlError
from provml.resources import default_home, mode

if TYPE_CHECKING:
    from provml.answer import Answer
    from provml.store import Store

LONG = 20_000
"""How many new events make taking them in take so long that a bar is shown."""

Command = TypeVar("Command", bound=Callable[..., object])


class Commands(click.Group):
    """A group whose commands end with the message and the exit code of our errors, not with a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that lacks a character still shows the rest
        try:
            return super().invoke(ctx)
        except ProvmlError as error:
            click.echo(f"provml: {error}", err=True)
            ctx.exit(error.exit_code)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            place = f"{error.filename}: " if error.filename else ""
            click.echo(f"provml: {place}{(error.strerror or str(error)).lower()}. Check it and try again.", err=True)
            ctx.exit(2)


def with_run(**more: Any) -> Callable[[Command], Command]:
    """The argument `RUN`, which the shell completes."""
    return click.argument("run", callback=_named, shell_complete=run_ids, **more)


def _named(
    ctx: click.Context, param: click.Parameter, value: str | tuple[str, ...] | None
) -> str | tuple[str, ...] | None:
    given = value if isinstance(value, tuple) else (value,)
    if any(one is not None and not one.strip() for one in given):
        raise click.BadParameter("Name a run by its id, or say latest.", ctx, param)
    return value


def run_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of runs that begin so, for the shell."""
    runs = Path(ctx.params.get("home") or default_home()) / "runs"
    found = sorted((path.name for path in runs.glob("*") if path.is_dir()), reverse=True) if runs.is_dir() else []
    return [CompletionItem(name) for name in [*found, "latest"] if name.startswith(incomplete)]


def with_home(command: Command) -> Command:
    """The option `--home`."""
    said = "The folder of the runs; PROVML_HOME, or .provml here, unless given."
    return click.option("--home", type=click.Path(path_type=Path), metavar="FOLDER", help=said)(command)


def with_form(command: Command) -> Command:
    """The option `--format`."""
    said = "A table for people (the default), JSON or CSV for programs."
    kinds = click.Choice(["table", "json", "csv"])
    return click.option("--format", "form", type=kinds, default="table", help=said)(command)


def existing(home: Path | None) -> Path:
    """The home to read: it must be there, for reading makes none."""
    folder = home or default_home()
    advice = "Record a run there first, or name another with --home or PROVML_HOME."
    if not mode(folder):
        raise BrokenFile("there is no such home", advice, file=str(folder))
    if not folder.is_dir():
        raise BrokenFile("it is a file, not a home", advice, file=str(folder))
    if not any((folder / part).is_dir() for part in ("runs", "added", "index")):
        raise BrokenFile("no run was ever kept in it", advice, file=str(folder))
    return folder


@contextlib.contextmanager
def opened(home: Path | None) -> Iterator[Store]:
    """The store of a home with all that is new taken in; a bar on the terminal where that is much."""
    from provml.store import Store

    folder = existing(home)
    waiting = unread(folder) if sys.stderr.isatty() else 0
    with Store(folder) as store:
        with bar("taking in", waiting) as report:
            store.sync(report)
        problems = store.index.problems()
        if problems:
            places = f"{len(problems)} place{'s'[: len(problems) != 1]}"
            click.echo(f"provml: not all could be taken in ({places}); provml verify tells what", err=True)
        yield store


@contextlib.contextmanager
def bar(label: str, events: int) -> Iterator[Callable[[int], None] | None]:
    """What to tell of events as they are taken in: a progress bar, only on a terminal and only where it takes long."""
    if events < LONG or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=events, label=label, file=sys.stderr, show_pos=True) as shown:
        yield shown.update


def unread(home: Path, *, anew: bool = False) -> int:
    """How many events of the journals the index has not read yet; all of them where it is made `anew`."""
    from provml.store.progress import Progress, read

    known = Progress() if anew else read(home / "index" / "progress")
    events = 0
    for path in (home / "runs").glob("*/*.jsonl"):
        journal = known.journals.get(path.relative_to(home).as_posix())
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(journal.offset if journal else 0)
            events += sum(_events(line) for line in file if line.endswith(b"\n"))
    return events


def _events(line: bytes) -> int:
    """How many events a line tells, without its being read."""
    if not line.startswith(b'{"e":"batches"'):
        return 1
    batches = line[: line.find(b"]")].count(b",") - 1
    return batches * 2 if b'"values"' in line else batches


def put(answer: Answer, form: str, nothing: str = "") -> None:
    """Print an answer; `nothing` is what people read where it has no rows."""
    if form == "json":
        click.echo(answer.to_json())
    elif form == "csv":
        click.echo(answer.to_csv(), nl=False)
    elif nothing and not answer.rows:
        click.echo(nothing)
    else:
        click.echo(str(answer))


def duration(seconds: float | None) -> str:
    """A time span as people say it."""
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours:02} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {whole % 60:02} s"


def size(count: int | None) -> str:
    """So many bytes as people say it."""
    if count is None or count < 0:
        return ""
    if count < 1000:
        return f"{count} B"
    amount = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 999.5 or unit == "TB":
            return f"{amount:.3g} {unit}"
    return ""
