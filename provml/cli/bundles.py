"""bundle, merge: move runs between homes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from provml.answers.humanize import format_size
from provml.cli.importing import print_report, progress
from provml.cli.options import (
    format_option,
    home_option,
    local_home,
    note_where_runs_are,
    open_store,
    require_home,
    run_argument,
)
from provml.cli.output import require_parent
from provml.errors import plural


@click.command()
@run_argument(nargs=-1)
@click.option("--all", "all_runs", is_flag=True, help="Bundle all runs of the home.")
@click.option("--children", is_flag=True, help="Bundle their child runs too.")
@click.option("--no-artifacts", is_flag=True, help="Leave out the contents that the runs stored.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Output: runs.provml.zip."
)
@home_option
def bundle(
    *,
    run: tuple[str, ...],
    all_runs: bool,
    children: bool,
    no_artifacts: bool,
    output: Path | None,
    home: Path | None,
) -> None:
    """Pack runs into one file for another home.

    \b
    provml bundle monday tuesday -o runs.provml.zip
    provml import runs.provml.zip --home elsewhere

    The file has the journals, tags, notes and stored contents of the runs, with their digests. Importing it brings each
    run in once, however often it comes; a run that has grown since is continued. RUN is a run id, a unique prefix or
    suffix of it, the name of one run, or `latest`.
    """
    from provml.exchange.bundles import write_bundle

    if output is None:
        raise click.UsageError("Pass a file, for example: provml bundle latest -o run.provml.zip")
    if bool(run) == all_runs:
        raise click.UsageError("Pass runs or --all, for example: provml bundle latest -o run.provml.zip")
    require_parent(output)
    folder = require_home(home)
    with open_store(home) as store:
        infos = {info.id: info for info in (store.runs() if all_runs else store.find_runs(run))}
        if children:
            infos |= {info.id: info for info in store.descendants(infos)}
    listed = write_bundle(folder, infos, output, with_artifacts=not no_artifacts)
    contents = f" and {plural(len(listed.contents), 'stored content')}" if listed.contents else ""
    size = format_size(output.stat().st_size)
    click.echo(f"Wrote {plural(len(listed.runs), 'run')}{contents} to {output} ({size})", err=True)
    running = [info.id for info in infos.values() if info.status == "RUNNING"]
    if running:
        names = ", ".join(running[:3])
        click.echo(f"Still running, bundled as far as they are: {names}. Bundle them again later.", err=True)


@click.command()
@click.argument("other", metavar="OTHER_HOME", type=click.Path(path_type=Path, file_okay=False))
@format_option
@home_option
def merge(other: Path, fmt: str, home: Path | None) -> None:
    """Bring the runs of another home into this one.

    \b
    provml merge /media/laptop/.provml

    Journals, tags, notes and stored contents come in; the other home is only read, and its runs may be active. A run
    that is here already is brought up to date. If two different runs have the same id, the one that is here stays. The
    exit code is 1 if a run was left out.
    """
    from provml.exchange import read

    folder = local_home(home)
    with progress(other) as report_progress:
        report = read(other, folder, fmt="home", on_progress=report_progress)
    print_report(report, fmt)
    if home is None:
        note_where_runs_are(folder)
    if report.skipped:
        sys.exit(1)


COMMANDS = (bundle, merge)
