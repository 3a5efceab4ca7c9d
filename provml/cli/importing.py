"""import: bring runs of other tools into a home."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provml.cli.options import format_option, home_option, local_home, note_where_runs_are, print_answer
from provml.paths import service_url

if TYPE_CHECKING:
    from provml.exchange import ImportReport

PROGRESS_MIN_BYTES = 16 << 20
"""Size of a source from which a progress bar is shown."""


@click.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--as", "source_format", metavar="FORMAT", default="", help="Format of the source.")
@click.option("--model", default="", metavar="NAME", help="Name of the model, if the source has none.")
@click.option(
    "--report", "report_file", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as JSON."
)
@click.option("--follow", is_flag=True, help="Import again whenever the source has changed, until Ctrl-C.")
@format_option
@home_option
def import_command(
    source: Path,
    *,
    source_format: str,
    model: str,
    report_file: Path | None,
    follow: bool,
    fmt: str,
    home: Path | None,
) -> None:
    """Import the runs of another tool.

    SOURCE is a file or a folder of that tool; its format is recognised by its content, unless --as names it. Imported
    runs are runs as any others: they can be listed, shown, asked about, validated and exported. Importing a source
    again adds what is new in it. The home is created if it does not exist.

    \b
    mlflow       mlflow.db, a folder mlruns, or the URL of a database
    wandb        offline runs of Weights & Biases
    tensorboard  event files
    sacred       folders of the FileStorageObserver
    dvclive      folders of DVCLive
    codecarbon   emissions.csv
    flowcept     buffers of JSON lines
    provlake     logs of the client
    openlineage  files of events
    dfanalyzer   database dumps of DfAnalyzer, DNNProv, Keras-Prov and CNNProv
    yprov4ml     PROV-JSON and tables of metrics
    rocrate      run crates
    prov         PROV-N, PROV-JSON, PROV-XML and RDF documents
    bundle       runs.provml.zip, which `provml bundle` wrote
    home         another home of provml; `provml merge` does the same

    The report says what was kept, what was guessed and why, what the source does not have, and what a run has no place
    for. Parts that cannot be imported are listed with the reason. The exit code is 1 if no run was found.
    """
    from provml.exchange import follow as follow_source
    from provml.exchange import read

    if follow:
        with contextlib.suppress(KeyboardInterrupt):
            for report in follow_source(source, home, fmt=source_format, model=model):
                _write(report, report_file)
                click.echo(report.summary())
        return
    with progress(source) as report_progress:
        report = read(source, home, fmt=source_format, model=model, on_progress=report_progress)
    _write(report, report_file)
    print_report(report, fmt)
    if home is None and not service_url():
        note_where_runs_are(local_home(home))
    if report.is_empty:
        sys.exit(1)


def _write(report: ImportReport, path: Path | None) -> None:
    if path is not None:
        report.write(path)


def print_report(report: ImportReport, fmt: str) -> None:
    """Print the report of an import."""
    from provml.answers import Answer

    if fmt == "table":
        columns = ("run", "name", "model", "epochs", "measures", "result")
        if report.runs:
            rows = [row[: len(columns)] for row in report.rows()[: len(report.runs)]]
            click.echo(str(Answer(list(columns), rows)))
        click.echo(str(report))
    else:
        print_answer(Answer(list(report.columns), report.rows()), fmt)
        click.echo(report.summary(), err=True)


@contextlib.contextmanager
def progress(source: Path, min_bytes: int = PROGRESS_MIN_BYTES) -> Iterator[Callable[[int], None] | None]:
    """Yield a callback that advances a progress bar by bytes, or None off a terminal and for a small source."""
    from provml.exchange.source_files import size_of

    size = size_of(source) if sys.stderr.isatty() else 0
    if size < min_bytes:
        yield None
        return
    with click.progressbar(length=size, label="reading", file=sys.stderr) as bar:
        yield bar.update


COMMANDS = (import_command,)
