"""import: bring runs of other tools into a home."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from provml.cli.options import format_option, home_option, print_answer

PROGRESS_MIN_BYTES = 16 << 20
"""Size of a file from which a progress bar is shown."""


@click.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--as", "source_format", metavar="FORMAT", default="", help="Format of the source.")
@click.option("--model", default="", metavar="NAME", help="Name of the model, if the source has none.")
@format_option
@home_option
def import_command(source: Path, source_format: str, model: str, fmt: str, home: Path | None) -> None:
    """Import the runs of another tool.

    SOURCE is a file of that tool; its format is recognised by its content, unless --as names it. Imported runs are runs
    as any others: they can be listed, shown, asked about, validated and exported. Importing a source again adds what is
    new in it. The home is created if it does not exist.

    \b
    dfanalyzer  database dumps of DfAnalyzer, DNNProv, Keras-Prov and CNNProv

    Parts of a source that cannot be imported are listed with the reason. The exit code is 1 if no run was found.
    """
    from provml.answers import Answer
    from provml.exchange import read

    with _progress(source) as report_progress:
        report = read(source, home, fmt=source_format, model=model, on_progress=report_progress)
    if fmt == "table":
        columns = ("run", "name", "model", "epochs", "measures", "result")
        if report.runs:
            rows = [row[: len(columns)] for row in report.rows()[: len(report.runs)]]
            click.echo(str(Answer(list(columns), rows)))
        click.echo(str(report))
    else:
        print_answer(Answer(list(report.columns), report.rows()), fmt)
        click.echo(report.summary(), err=True)
    if report.is_empty:
        sys.exit(1)


@contextlib.contextmanager
def _progress(source: Path, min_bytes: int = PROGRESS_MIN_BYTES) -> Iterator[Callable[[int], None] | None]:
    """Yield a callback that advances a progress bar by bytes, or None off a terminal and for a small source."""
    size = source.stat().st_size if source.is_file() else 0
    if size < min_bytes or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=size, label="reading", file=sys.stderr) as bar:
        yield bar.update


COMMANDS = (import_command,)
