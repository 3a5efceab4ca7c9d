"""Options and helpers that commands share: the run, the home, the format, and a store opened with progress."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from provml.cli.terminal import echo_message, terminal_width
from provml.errors import IndexDamaged, MissingDependency, ServiceError, plural
from provml.paths import default_home, endpoint_url, is_url, service_url, store_location

if TYPE_CHECKING:
    from provml.answers import Answer
    from provml.store import Store

STORE_ADVICE = "PROVML_STORE is set to this URL. Pass a directory with --home, or unset the variable."
PROGRESS_MIN_EVENTS = 20_000
"""A progress bar is shown when at least this many events have to be indexed."""

Command = TypeVar("Command", bound=Callable[..., object])


def run_argument(**attrs: Any) -> Callable[[Command], Command]:
    """Add the argument `RUN`, which the shell completes."""
    return click.argument("run", callback=_check_run_name, shell_complete=complete_run, **attrs)


def _check_run_name(
    ctx: click.Context, param: click.Parameter, value: str | tuple[str, ...] | None
) -> str | tuple[str, ...] | None:
    names = value if isinstance(value, tuple) else (value,)
    if any(name is not None and not name.strip() for name in names):
        raise click.BadParameter("The name is empty. Pass a run id, or `latest`.", ctx, param)
    return value


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the run ids with a given prefix, for shell completion."""
    runs = Path(store_location(ctx.params.get("home")) or default_home()) / "runs"
    from provml.journal import segments

    ids = sorted({path.name for path in runs.glob("*") if path.is_dir()}.union(segments.manifest(runs.parent)))[::-1]
    return [CompletionItem(name) for name in [*ids, "latest"] if name.startswith(incomplete)]


class HomeType(click.Path):
    """A directory as a `Path`, or the URL of a service or a SPARQL endpoint as text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert a value of the command line."""
        return value if is_url(value) or endpoint_url(value) else super().convert(value, param, ctx)


def home_option(command: Command) -> Command:
    """Add the option `--home`, also known as `--store`; its value is a URL as text or a path."""
    defaults = "[default: $PROVML_STORE, $PROVML_HOME or ./.provml]"
    text = f"Directory of runs, URL of a service, or sparql+URL of an endpoint.  {defaults}"
    kind = HomeType(path_type=Path)
    return click.option("--home", "--store", "home", type=kind, metavar="DIRECTORY|URL", help=text)(command)


def format_option(command: Command) -> Command:
    """Add the option `--format` with a table for people, JSON and CSV."""
    choice = click.Choice(["table", "json", "csv"])
    option = click.option("--format", "fmt", type=choice, default="table", show_default=True, help="Output format.")
    return option(escape_option(command))


ESCAPE_FORMULAS = "provml.escape_formulas"
"""Key of the option `--escape-formulas` in the context of a command."""


def escape_option(command: Command) -> Command:
    """Add the option `--escape-formulas`, which `escapes_formulas` returns."""
    text = "CSV: an apostrophe before texts that a spreadsheet takes for formulas."
    return click.option("--escape-formulas", is_flag=True, expose_value=False, callback=_keep_escape, help=text)(
        command
    )


def _keep_escape(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[ESCAPE_FORMULAS] = value


def escapes_formulas() -> bool:
    """Return whether the current command has the option `--escape-formulas`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(ESCAPE_FORMULAS))


def require_home(home: Path | str | None) -> Path:
    """Return the home to read, or raise HomeNotFound: reading never creates a home.

    Without a home, $PROVML_STORE counts before $PROVML_HOME; a URL is refused.
    """
    location = store_location(home)
    return journals_home(location, "" if home or not location else STORE_ADVICE)


def journals_home(home: Path | str | None, advice: str = "") -> Path:
    """Return the home whose journals are sent or written somewhere else.

    $PROVML_STORE does not count: it is where these runs are read, which is often where they are sent.
    """
    from provml.journal import run_files

    if url := endpoint_url(home) or service_url(home):
        place = (
            "where the journals are, with their" if endpoint_url(home) else "on the machine of the service, with its"
        )
        advice = f"Run it {place} directory. {advice}".rstrip()
        raise ServiceError(_without_credentials(url), "this command reads files", advice)
    return run_files.require_home(Path(home) if home else default_home())


def local_home(home: Path | str | None) -> Path:
    """Return the home to write, which need not exist yet."""
    if url := endpoint_url(home) or service_url(home):
        raise ServiceError(_without_credentials(url), "this command needs a directory", "Pass it with --home.")
    return Path(home or default_home()).absolute()


def served_home(home: Path | str | None) -> Path:
    """Return the home to read and write, which need not exist yet; $PROVML_STORE counts before $PROVML_HOME."""
    location = store_location(home)
    if not home and (url := endpoint_url(location) or (service_url(location) if location else "")):
        raise ServiceError(_without_credentials(url), "this command needs a directory", STORE_ADVICE)
    return local_home(location)


def _without_credentials(url: str) -> str:
    """Return a URL as messages show it; one that cannot be parsed is an error of its own."""
    from provml.remote.connection import parse_address
    from provml.store.endpoint.address import parse_endpoint

    return parse_endpoint(url).text if endpoint_url(url) else parse_address(url).url


def home_for_reading(folder: Path) -> str:
    """Return the option that reads a home, with a space before it; empty if commands read that home anyway."""
    store = store_location(None)
    if store is None or (not endpoint_url(store) and not is_url(store) and Path(store).absolute() == folder.absolute()):
        return ""
    return f" --home {shlex.quote(str(folder))}"


def note_where_runs_are(folder: Path) -> None:
    """Say where new runs are if commands do not read that home."""
    if option := home_for_reading(folder):
        echo_message(f"The runs are in {folder}. PROVML_STORE is set to another store: read them with{option}.")


def require_modules(extra: str, *names: str) -> None:
    """Raise MissingDependency unless the modules of an extra are installed; none is imported."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise MissingDependency(" and ".join(missing), extra)


@contextlib.contextmanager
def open_run_folder(home: Path | None, run: str) -> Iterator[Path]:
    """Find the folder of a run; that of a service is copied to a temporary one."""
    from provml.journal.run_files import find_run_folder

    url = service_url(store_location(home))
    if not url:
        yield find_run_folder(require_home(home), run)
        return
    from tempfile import TemporaryDirectory

    from provml.store.remote import RemoteStore

    with TemporaryDirectory(prefix="provml-") as folder, RemoteStore(url) as store:
        yield store.fetch_journals(run, Path(folder))


@contextlib.contextmanager
def open_store(home: Path | str | None, *, create: bool = False) -> Iterator[Store]:
    """Open the store of a home and index new events, with a progress bar on a terminal if there are many.

    Without a home, $PROVML_STORE counts before $PROVML_HOME. `create` creates a home that does not exist.
    """
    from provml.store import Store
    from provml.store import open_store as open_any

    home = store_location(home)
    if url := endpoint_url(home) or service_url(home):
        with open_any(url) as store:
            yield store
        return
    folder = local_home(home) if create else require_home(home)
    new_events = count_new_events(folder) if sys.stderr.isatty() else 0
    with Store(folder, create=create) as store:
        with progress_bar("indexing", new_events) as report:
            store.sync(report)
        problems = store.problems
        if problems:
            lines = plural(len(problems), "journal line")
            echo_message(f"{lines} could not be indexed. Run `provml verify` for details.")
        yield store
        if store.is_compacting and sys.stderr.isatty():
            echo_message("The index has doubled and is being compacted. Wait a moment.")


@contextlib.contextmanager
def progress_bar(label: str, events: int) -> Iterator[Callable[[int], None] | None]:
    """Yield a callback that advances a progress bar, or None off a terminal and for few events."""
    if events < PROGRESS_MIN_EVENTS or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=events, label=label, file=sys.stderr, show_pos=True) as bar:
        yield bar.update


def count_new_events(home: Path, *, from_start: bool = False) -> int:
    """Count the journal events that are not indexed yet, or all events with `from_start`."""
    from provml.journal.reader import count_events
    from provml.journal.run_files import list_journals
    from provml.store.checkpoint import IndexCheckpoint, read

    checkpoint = IndexCheckpoint()
    if not from_start:
        with contextlib.suppress(IndexDamaged):  # all events have to be indexed again
            checkpoint = read(home / "index" / "progress")
    count = 0
    for name in list_journals(home):
        journal = checkpoint.journals.get(f"runs/{name}")
        count += count_events(home / "runs" / name, journal.offset if journal else 0)
    return count


def print_answer(answer: Answer, fmt: str, empty: str = "") -> None:
    """Print an answer; a table without rows is replaced by the text `empty`."""
    if fmt == "json":
        click.echo(answer.to_json())
    elif fmt == "csv":
        # with `color`, since click removes the escape sequences of terminals from what goes to a pipe
        click.echo(answer.to_csv(escape_formulas=escapes_formulas()), nl=False, color=True)
    elif empty and not answer.rows:
        click.echo(empty)
    else:
        click.echo(answer.to_text(terminal_width()))
