"""tag, note, rename: annotate a run, also while it is running or long after."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from provml.cli.options import Command, home_option, open_store, require_home, run_argument
from provml.cli.terminal import echo_message
from provml.paths import service_url, store_location


def by_option(command: Command) -> Command:
    """Add the option `--by`."""
    return click.option("--by", default="", metavar="NAME", help="The person.  [default: the user]")(command)


@click.command()
@run_argument()
@click.argument("tags", metavar="TAG...", nargs=-1, required=True)
@click.option("-r", "--remove", "removed", is_flag=True, help="Remove the tags instead.")
@by_option
@home_option
def tag(run: str, tags: tuple[str, ...], *, removed: bool, by: str, home: Path | None) -> None:
    """Give a run tags, or remove them.

    A tag is a keyword of one line, such as `baseline`. RUN is a run id, a unique prefix or suffix of it, the
    name of one run, or `latest`. Tags are stored next to the journals of the run, which do not change.
    """
    from provml.journal.annotations import present_texts
    from provml.journal.run_files import find_run_folder
    from provml.store.annotations import add_annotations, read_annotations

    if service_url(store_location(home)):
        with open_store(home) as store:
            info = store.untag(run, *tags, by=by) if removed else store.tag(run, *tags, by=by)
        click.echo(f"Tags of {info.id}: {', '.join(info.tags) or 'none'}")
        return
    folder = require_home(home)
    run_id = find_run_folder(folder, run).name
    add_annotations(folder, run_id, "tag", tags, by=by, removed=removed)
    present = present_texts(read_annotations(folder, run_id).annotations, "tag")
    click.echo(f"Tags of {run_id}: {', '.join(present) or 'none'}")


@click.command()
@run_argument()
@click.argument("text", required=False)
@click.option(
    "-r", "--remove", "number", type=click.IntRange(min=1), metavar="N", help="Remove the N-th note of `provml show`."
)
@by_option
@home_option
def note(run: str, text: str | None, number: int | None, *, by: str, home: Path | None) -> None:
    """Add a note to a run.

    TEXT is the note; `-` reads it from standard input. RUN is a run id, a unique prefix or suffix of it, the name of
    one run, or `latest`.
    """
    from provml.journal.annotations import present_texts
    from provml.journal.run_files import find_run_folder
    from provml.store.annotations import add_annotations, read_annotations

    if (text is None) == (number is None):
        raise click.UsageError('Pass a text or --remove N, for example: provml note latest "the loss diverges"')
    new = sys.stdin.read() if text == "-" else text or ""
    if service_url(store_location(home)):
        with open_store(home) as store:
            info = store.run(run)
            if number is None:
                store.note(info, new, by=by)
            else:
                store.remove_note(info, _numbered(info.id, number, [note.text for note in info.notes]), by=by)
        run_id = info.id
    else:
        folder = require_home(home)
        run_id = find_run_folder(folder, run).name
        notes = present_texts(read_annotations(folder, run_id).annotations, "note")
        texts = [new] if number is None else [_numbered(run_id, number, notes)]
        add_annotations(folder, run_id, "note", texts, by=by, removed=number is not None)
    click.echo(f"Added a note to {run_id}" if number is None else f"Removed note {number} of {run_id}")


def _numbered(run_id: str, number: int, notes: Sequence[str]) -> str:
    """Return the n-th note of a run."""
    from provml.errors import InvalidAnnotation

    if number > len(notes):
        advice = f"`provml show {run_id}` lists its notes."
        raise InvalidAnnotation("note", "", f"{number} does not exist: run {run_id} has {len(notes)}", advice)
    return notes[number - 1]


@click.command()
@run_argument()
@click.argument("name")
@by_option
@home_option
def rename(run: str, name: str, *, by: str, home: Path | None) -> None:
    """Give a run a name of its own.

    The name is shown instead of the name of the experiment, and commands accept it in place of the run's id if no other
    run has it. RUN is a run id, a unique prefix or suffix of it, the name of one run, or `latest`.
    """
    from provml.journal.run_files import find_run_folder, names_by_run
    from provml.store.annotations import add_annotations

    if service_url(store_location(home)):
        with open_store(home) as store:
            run_id = store.rename(run, name, by=by).id
            names = {info.id: info.name for info in store.runs()}
    else:
        folder = require_home(home)
        run_id = find_run_folder(folder, run).name
        add_annotations(folder, run_id, "name", [name], by=by)
        names = names_by_run(folder)
    click.echo(f"Run {run_id} is now named {names[run_id]}")
    others = [other for other, other_name in names.items() if other != run_id and other_name == names[run_id]]
    if others:
        echo_message(f"{others[0]} has the same name. Use the ids of these runs, or another name.")


COMMANDS = (tag, note, rename)
