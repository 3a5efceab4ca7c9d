"""sync: send the runs of a home to a SPARQL endpoint."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provml.answers.humanize import format_duration
from provml.cli.options import (
    HomeType,
    complete_run,
    count_new_events,
    format_option,
    journals_home,
    print_answer,
    progress_bar,
)
from provml.cli.terminal import echo_message
from provml.errors import FileFormatError, ServiceError, plural

if TYPE_CHECKING:
    from provml.store.endpoint.client import Endpoint
    from provml.store.endpoint.sync import SyncReport

FOLLOW_SECONDS = 2.0


@click.command()
@click.option("--to", "url", metavar="URL", help="Endpoint, such as sparql+https://host/dataset.")
@click.option("--files", type=click.Path(path_type=Path), metavar="FOLDER", help="Write files for a bulk loader.")
@click.option("--engine", default="jena", show_default=True, metavar="NAME", help="Engine that will load the files.")
@click.option(
    "--run", "runs", multiple=True, metavar="RUN", shell_complete=complete_run, help="Only this run; repeatable."
)
@click.option("--prune", is_flag=True, help="Remove runs from the endpoint that this home has sent and has no longer.")
@click.option("--follow", is_flag=True, help="Go on with what is recorded meanwhile, until Ctrl-C.")
@click.option(
    "--chunk",
    type=click.IntRange(100, 1_000_000),
    default=50_000,
    show_default=True,
    metavar="TRIPLES",
    help="Triples in one request.",
)
@click.option(
    "--retry",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long an endpoint that is away, or not up yet, is tried again.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="File with the token of the endpoint.  [default: $PROVML_TOKEN]",
)
@click.option("--home", type=HomeType(path_type=Path), metavar="DIRECTORY", help="Directory of runs.")
@format_option
def sync(
    *,
    url: str | None,
    files: Path | None,
    engine: str,
    runs: tuple[str, ...],
    prune: bool,
    follow: bool,
    chunk: int,
    retry: float,
    token_file: Path | None,
    home: Path | None,
    fmt: str,
) -> None:
    """Send the runs of a home to a SPARQL endpoint.

    What the endpoint has already is not sent again, whoever sent it; the endpoint itself holds the progress. After an
    interruption the command goes on where it was. Many homes can be sent to one dataset. A user and a password are
    part of the URL, or in PROVML_USER and PROVML_PASSWORD. The exit code is 1 if something could not be sent.
    """
    from provml.journal.run_files import find_run_folder

    folder = journals_home(home)
    if (url is None) == (files is None):
        raise click.UsageError("Pass either --to URL or --files FOLDER.")
    if files is not None:
        _write_files(folder, files, engine, fmt)
        return
    from provml.remote.connection import read_token_file
    from provml.store.endpoint.address import parse_endpoint
    from provml.store.endpoint.client import Endpoint, Limits

    token = read_token_file(token_file) if token_file is not None else None
    ids = {find_run_folder(folder, run).name for run in runs}
    limits = Limits(retry_seconds=retry, connect_seconds=retry)
    endpoint = Endpoint(parse_endpoint(url or "", token=token), limits, _print_wait)
    try:
        while True:
            report = _send(folder, endpoint, ids, chunk=chunk, prune=prune)
            if not follow or report.runs or report.removed:
                _print(report, endpoint.address.text, fmt)
            if not follow:
                break
            time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        if not follow:
            raise
        return
    finally:
        endpoint.close()
    if report.problems:
        sys.exit(1)


def _print_wait(failure: ServiceError, seconds: float) -> None:
    """Say why nothing is sent, and for how long the endpoint is tried again."""
    reason, duration = failure.reason.rstrip("."), format_duration(math.ceil(seconds))
    echo_message(f"{failure.url}: {reason}. Trying again for {duration}; --retry sets the time.")


def _send(home: Path, endpoint: Endpoint, runs: set[str], *, chunk: int, prune: bool) -> SyncReport:
    from provml.store.endpoint.sync import HomeSync

    events = count_new_events(home, from_start=True) if sys.stderr.isatty() else 0
    with progress_bar("sending", events) as progress:
        job = HomeSync(home, endpoint, chunk_triples=chunk, on_progress=progress)
        try:
            return job.send(runs, prune=prune)
        except ServiceError as error:
            sent = plural(job.report.triples, "triple")
            advice = "The same command goes on where it stopped."
            raise ServiceError(error.url, f"{error.reason.rstrip('.')}; {sent} sent", advice) from None


def _write_files(home: Path, folder: Path, engine: str, fmt: str) -> None:
    from provml.answers import Answer
    from provml.store.dialects import DIALECTS
    from provml.store.endpoint.bulk_files import loader_command, write_bulk_files

    if engine not in DIALECTS:
        raise FileFormatError(f"unknown engine {engine!r}", f"Use one of {', '.join(DIALECTS)}.", file="--engine")
    report, files = write_bulk_files(home, folder, engine)
    if fmt != "table":
        print_answer(Answer(["file", "bytes"], [(str(path), path.stat().st_size) for path in files]), fmt)
        return
    click.echo(f"{plural(len(report.runs), 'run')} in {plural(len(files), 'file')} of {folder}")
    if command := loader_command(engine, folder):
        click.echo(f"Load them with: {command}")


def _print(report: SyncReport, url: str, fmt: str) -> None:
    from provml.answers import Answer

    if fmt != "table":
        columns = ["runs", "events", "triples", "files", "removed", "behind", "problems"]
        lists = (len(report.removed), len(report.behind), len(report.problems))
        row = (len(report.runs), report.events, report.triples, report.files, *lists)
        print_answer(Answer(columns, [row]), fmt)
    else:
        removed = f", removed {len(report.removed)}" if report.removed else ""
        click.echo(f"Sent {plural(len(report.runs), 'run')} ({plural(report.triples, 'triple')}) to {url}{removed}")
        for run in report.behind:
            click.echo(f"provml: {run}: the endpoint has more of it than this home.", err=True)
    for problem in report.problems:
        line = f":{problem.line}" if problem.line else ""
        click.echo(f"provml: {problem.file}{line}: {problem.reason}", err=True)


COMMANDS = (sync,)
