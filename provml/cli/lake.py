"""lake build, lake update, lake show: the runs of a home as Parquet tables."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provml.cli.options import Command, format_option, journals_home, print_answer, require_modules
from provml.errors import plural

if TYPE_CHECKING:
    from provml.lake import LakeReport

MAX_PROBLEMS = 20
"""Lines that could not be read, which are printed at most."""


@click.group()
def lake() -> None:
    """Write the runs of a home as Parquet tables.

    DuckDB, Apache Spark, pandas and polars read the tables: `provml.lake.open(FOLDER)` in Python. It needs the extra
    `lake`, and for s3:// the extra `s3`.
    """


def _write_options(command: Command) -> Command:
    home = click.argument("home", type=click.Path(path_type=Path), required=False)
    out = click.option("-o", "--output", "folder", required=True, metavar="FOLDER|URL", help="Folder, or s3://… URL.")
    text = "Include runs that are still being written, as far as they are."
    is_open = click.option("--include-open", is_flag=True, help=text)
    return home(out(is_open(format_option(command))))


@lake.command()
@_write_options
def build(home: Path | None, folder: str, include_open: bool, fmt: str) -> None:
    """Write a lake from the journals of a home.

    The index is not needed. A lake that is there already is replaced when the new one is complete. HOME is a directory
    of runs, by default $PROVML_HOME or ./.provml. The exit code is 1 if something could not be read.
    """
    from provml.lake import build as write

    _run(write, home, folder, fmt, include_open=include_open)


@lake.command()
@_write_options
@click.option("--prune", is_flag=True, help="Remove runs that came from this home and that it has no longer.")
def update(home: Path | None, folder: str, include_open: bool, prune: bool, fmt: str) -> None:
    """Add what is new in a home to a lake.

    Only runs that are new or changed are read. Several homes can be added to one lake. A lake that is not there yet is
    created. The exit code is 1 if something could not be read.
    """
    from provml.lake import update as write

    _run(write, home, folder, fmt, include_open=include_open, prune=prune)


@lake.command()
@click.argument("folder")
@format_option
def show(folder: str, fmt: str) -> None:
    """Show the tables of a lake, with rows and bytes."""
    from provml.answers import Answer
    from provml.lake.folder import LakeFolder
    from provml.lake.schema import TABLES

    require_modules("lake", "pyarrow", "fsspec")
    manifest = LakeFolder(folder).require()
    parts = manifest.all_parts
    rows = []
    for table in TABLES:
        files = [part.files[table] for part in parts if table in part.files]
        rows.append((table, len(files), sum(file.rows for file in files), sum(file.size for file in files)))
    print_answer(Answer(["table", "files", "rows", "bytes"], rows), fmt)
    if fmt == "table":
        left_out = sum(map(len, manifest.left_out.values()))
        click.echo(f"{plural(len(manifest.runs), 'run')}; {left_out} left out because they were still being written")


def _run(write: Callable[..., LakeReport], home: Path | None, folder: str, fmt: str, **options: Any) -> None:
    require_modules("lake", "pyarrow", "fsspec")
    source = journals_home(home)
    count = _run_count(source) if sys.stderr.isatty() else 0
    with click.progressbar(length=count, label="reading runs", file=sys.stderr, show_pos=True, hidden=not count) as bar:
        report = write(source, folder, on_progress=bar.update, **options)
    _print(report, folder, fmt)
    for problem in report.problems[:MAX_PROBLEMS]:
        click.echo(f"provml: {problem}", err=True)
    if report.problems:
        more = len(report.problems) - MAX_PROBLEMS
        if more > 0:
            click.echo(f"provml: and {plural(more, 'more problem')}", err=True)
        sys.exit(1)


def _run_count(home: Path) -> int:
    from provml.journal import segments
    from provml.journal.run_files import run_folders

    return len(run_folders(home).union(segments.manifest(home)))


def _print(report: LakeReport, folder: str, fmt: str) -> None:
    from provml.answers import Answer

    if fmt != "table":
        columns = ["added", "changed", "removed", "left_out", "runs", "rows", "bytes", "files"]
        counts = [len(runs) for runs in (report.added, report.changed, report.removed, report.left_out)]
        print_answer(Answer(columns, [(*counts, report.runs, report.rows, report.size, report.parts)]), fmt)
        return
    words = [f"{len(runs):,} {word}" for word, runs in _changes(report) if runs]
    size = f"{report.size / 1e6:,.1f} MB" if report.size >= 1e5 else f"{report.size:,} bytes"
    click.echo(f"{folder}: {plural(report.runs, 'run')}, {plural(report.rows, 'row')}, {size}")
    click.echo(f"This time: {', '.join(words) if words else 'nothing new'}")
    if report.left_out:
        click.echo("Runs that are still being written come with a later update, or now with --include-open.")
    if report.missing:
        click.echo(f"{plural(len(report.missing), 'run')} of this home is there no longer: --prune removes such runs.")


def _changes(report: LakeReport) -> list[tuple[str, list[str]]]:
    return [
        ("added", report.added),
        ("changed", report.changed),
        ("removed", report.removed),
        ("open and included", report.included_open),
        ("open and left out", report.left_out),
        ("already there from another home", report.from_other_homes),
    ]


COMMANDS = (lake,)
