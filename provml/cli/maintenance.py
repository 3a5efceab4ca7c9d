"""Maintenance of a home: check the journals, rebuild the index, remove leftover files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provml.answers.humanize import format_size
from provml.cli.options import (
    count_new_events,
    format_option,
    home_option,
    print_answer,
    progress_bar,
    require_home,
)
from provml.errors import plural

if TYPE_CHECKING:
    from provml.store.checkpoint import Problem
    from provml.store.seal_check import SealReport

MAX_NAMES = 5
"""Number of journals that a note lists."""


@click.command()
@click.option(
    "--signed-by",
    "signers",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="KEY",
    help="Check the signatures of the ledger with a public key, or with a file of allowed signers of OpenSSH.",
)
@click.option("--sealed", is_flag=True, help="Count a journal without a seal as a problem.")
@click.option(
    "--reproducible",
    "run",
    metavar="RUN",
    help="Check only what would stand in the way of repeating this run with `provml rerun`.",
)
@format_option
@home_option
def verify(signers: Path | None, sealed: bool, run: str | None, fmt: str, home: Path | None) -> None:
    """Check journals, seals, artifacts and the index.

    Each problem is printed as file:line: reason. The exit code is 1 if there is a problem. The index is compared with
    the journals: one that was changed after it was indexed disagrees, and `provml rebuild` makes the index follow it.
    Journals are compared with their seals: one that was changed, cut or removed after it was written is a problem.
    To check the recorded provenance against constraints, use `provml validate`.
    """
    from provml.answers import Answer
    from provml.journal.run_files import list_journals
    from provml.store import Store
    from provml.store.checkpoint import Problem

    folder = require_home(home)
    if run is not None:
        if signers is not None or sealed:
            raise click.UsageError("--reproducible checks one run only. Use it without --signed-by and --sealed.")
        sys.exit(_check_repeatable(run, folder, fmt))
    with Store(folder) as store:
        problems = store.verify()
        seals = store.check_seals()
    if sealed:
        problems += [Problem(f"runs/{key}", 0, "has no seal; `provml seal` makes one") for key in seals.unsealed]
    if signers is not None:
        problems += _check_signatures(folder, signers, seals, verbose=fmt == "table")
    if fmt != "table":
        rows = [(str(folder / problem.file), problem.line, problem.reason) for problem in problems]
        print_answer(Answer(["file", "line", "reason"], rows), fmt)
    else:
        for problem in problems:
            line = f":{problem.line}" if problem.line else ""
            click.echo(f"{folder / problem.file}{line}: {problem.reason}")
        journals = len(list_journals(folder))
        if seals.rewritten:
            click.echo(f"Rewritten after they were sealed: {_names(seals.rewritten)}.", err=True)
        if seals.unsealed and not sealed:
            names = _names(seals.unsealed)
            text = f"{plural(len(seals.unsealed), 'journal')} without a seal: {names}."
            click.echo(f"{text} If you know where they come from, run `provml seal`.", err=True)
        click.echo(f"Checked {plural(journals, 'journal')}: {_summary(problems)}", err=bool(problems))
    if problems:
        sys.exit(1)


def _names(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _check_repeatable(run: str, folder: Path, fmt: str) -> int:
    """Print what a rerun needs; return 1 if something stands in the way."""
    from provml.answers import Answer
    from provml.cli.rerun import print_checks
    from provml.repeat import check_repeatable

    checks = check_repeatable(run, home=folder)
    if fmt == "table":
        print_checks(checks)
    else:
        print_answer(Answer(["subject", "level", "text"], [(c.subject, c.level, c.text) for c in checks]), fmt)
    return int(any(check.level in ("obstacle", "fatal") for check in checks))


def _check_signatures(folder: Path, signers: Path, seals: SealReport, *, verbose: bool) -> list[Problem]:
    """Return what is wrong with the signatures: none by these signers, or one that does not hold.

    Signatures by other keys, and lines that no signature covers, are only mentioned.
    """
    from provml.evidence import check_signatures
    from provml.store.checkpoint import Problem
    from provml.store.seal_check import find_unsigned_changes

    checks = check_signatures(folder, signers)
    wrong = [check for check in checks if check.error and not check.is_by_other_key]
    problems = [Problem(f"seals/signatures/{check.statement}", 0, check.error) for check in wrong]
    valid = [check for check in checks if not check.error]
    if not valid:
        problems.append(Problem("seals/ledger.jsonl", 0, f"has no valid signature by {signers.name}"))
    for check in valid if verbose else ():
        anchors = f", with {', '.join(check.anchors)}" if check.anchors else ""
        click.echo(f"Signed by {check.signer}: {plural(check.line_count, 'line')} of the ledger, {check.time}{anchors}")
    for check in checks if verbose else ():
        if check.is_by_other_key:
            click.echo(f"Not checked: {check.statement}, {check.error}. Check it with the key of its signer.", err=True)
    covered = max((check.line_count for check in valid), default=0)
    problems += find_unsigned_changes(folder, covered, seals.unsealed) if valid else []
    if valid and covered < seals.line_count and verbose:
        click.echo(
            f"{plural(seals.line_count - covered, 'line')} of the ledger came after the last signature.", err=True
        )
    return problems


def _summary(problems: list[Problem]) -> str:
    damages = [problem for problem in problems if not problem.in_index]
    lines = sum(problem.line > 0 for problem in damages)
    files, differences = len(damages) - lines, len(problems) - len(damages)
    counts = [plural(lines, "corrupted line")] if lines else []
    counts += [plural(files, "file") + " with a problem"] if files else []
    counts += [plural(differences, "problem") + " of the index"] if differences else []
    advice = ". If the journals are right, run `provml rebuild`." if differences else ""
    return (", ".join(counts) or "no problems") + advice


@click.command()
@home_option
def rebuild(home: Path | None) -> None:
    """Rebuild the index from the journals."""
    from provml.store import Store

    folder = require_home(home)
    events = count_new_events(folder, from_start=True) if sys.stderr.isatty() else 0
    with Store(folder) as store, progress_bar("rebuilding", events) as report:
        events = store.rebuild(report)
    click.echo(f"Rebuilt the index from {plural(events, 'event')}")


@click.command()
@click.option("--dry-run", is_flag=True, help="List the files without removing them.")
@click.option(
    "--min-age",
    type=click.FloatRange(min=0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Keep files that changed within this time: they may be in use.",
)
@click.option("--artifacts", is_flag=True, help="Remove the artifacts that belong to no run any more, too.")
@format_option
@home_option
def gc(dry_run: bool, min_age: float, artifacts: bool, fmt: str, home: Path | None) -> None:
    """Remove temporary files left by dead processes.

    Private copies of the index, incomplete snapshots, partially written files and old logs. Runs are never touched,
    and artifacts only with --artifacts: those whose runs were all removed.
    """
    from provml.answers import Answer
    from provml.store.artifacts import collect_unreferenced
    from provml.store.gc import collect

    folder = require_home(home)
    leftovers = collect(folder, dry_run=dry_run, min_age_seconds=min_age)
    unreferenced = collect_unreferenced(folder, dry_run=dry_run or not artifacts)
    if artifacts:
        leftovers += unreferenced
    elif unreferenced:
        click.echo(offer_removal(unreferenced), err=True)
    if fmt != "table":
        print_answer(Answer(["path", "bytes"], [(str(path), size) for path, size in leftovers]), fmt)
        return
    if not leftovers:
        click.echo("Nothing to remove")
        return
    print_answer(Answer(["file", "size"], [(str(path), format_size(size)) for path, size in leftovers]), fmt)
    click.echo(f"{'Would free' if dry_run else 'Freed'} {format_size(sum(size for _, size in leftovers))}")


def offer_removal(unreferenced: list[tuple[Path, int]]) -> str:
    """Return a hint about artifacts that belong to no run any more."""
    size = format_size(sum(size for _, size in unreferenced))
    verb = "belongs" if len(unreferenced) == 1 else "belong"
    count = plural(len(unreferenced), "artifact")
    return f"provml: {count} ({size}) {verb} to no run any more. Remove with `provml gc --artifacts`."


@click.command()
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Pack at most N runs.")
@home_option
def pack(limit: int | None, home: Path | None) -> None:
    """Move the journals of runs that have ended into segments.

    For homes with many runs: a segment holds the compressed journals of thousands of runs. All commands work as before,
    and `provml unpack` writes the journals back, byte for byte. Running and killed runs, and runs that are shipped to a
    service, stay as they are.
    """
    from provml.store import Store

    with Store(require_home(home)) as store:
        packed = store.pack(limit)
    click.echo(f"Packed {plural(len(packed), 'run')}" if packed else "Nothing to pack")


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@home_option
def unpack(runs: tuple[str, ...], home: Path | None) -> None:
    """Write the journals of packed runs back to files.

    Without a run, all packed runs are written back.
    """
    from provml.store import Store

    with Store(require_home(home)) as store:
        unpacked = store.unpack(runs or None)
    click.echo(f"Unpacked {plural(len(unpacked), 'run')}" if unpacked else "Nothing to unpack")


COMMANDS = (verify, rebuild, pack, unpack, gc)
