"""How an answer leaves: in which format, drawn or written, to the terminal or to a file that is written whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from provml.cli.door import Command

if TYPE_CHECKING:
    from provml.answer import Answer

GRAPHS = ("ttl", "nt", "jsonld")
FORMS = ("table", "json", "csv", "tsv", "sparql-json", "sparql-xml", "sparql-csv", "sparql-tsv", *GRAPHS)
ENDINGS = {
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".srj": "sparql-json",
    ".srx": "sparql-xml",
    ".txt": "table",
    **{f".{form}": form for form in GRAPHS},
}
PICTURES = (".png", ".svg", ".pdf")
WIDEST = 120
"""How many columns a chart takes at most, however wide the terminal is."""

LIMIT = 60.0
"""After how many seconds a query of a user's own is ended unless they say."""


def with_limits(default: str) -> Callable[[Command], Command]:
    """The options that say how long a query may take, and whether it may call other machines."""
    said = "End the query after so many seconds; 0 for never."

    def add(command: Command) -> Command:
        command = click.option("--allow-service", is_flag=True, help="Let the query call other machines by SERVICE.")(
            command
        )
        kind = click.FloatRange(min=0)
        return click.option("--timeout", type=kind, metavar="SECONDS", help=f"{said}  [default: {default}]")(command)

    return add


def with_output(command: Command) -> Command:
    """The options that say how an answer leaves."""
    formats = (
        "table for people (the default); json, csv, tsv for programs; W3C's sparql-json, -xml, -csv, -tsv; "
        "ttl, nt, jsonld for the triples of CONSTRUCT and DESCRIBE."
    )
    place = "Write to this file, whole or not at all; its ending says the format unless given."
    drawn = f"Draw the curve; in a file that ends in {', '.join(PICTURES)}, as a picture, in .txt with characters."
    for option in (
        click.option("--plot", is_flag=True, help=drawn),
        click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=place),
        click.option("--format", "form", type=click.Choice(FORMS), metavar="FORMAT", help=formats),
    ):
        command = option(command)
    return command


def give(answer: Answer | bool, form: str | None, output: Path | None = None, plot: bool = False) -> None:
    """Print or write an answer."""
    to_file = output is not None and str(output) != "-"
    ending = output.suffix.lower() if output is not None and to_file else ""
    if plot and form is not None:
        raise click.UsageError("--plot draws: give it without --format.")
    if ending in PICTURES and not plot:
        raise click.UsageError(f"{output} would be a picture: give --plot, or another ending.")
    if ending and form is None and not plot and ending not in ENDINGS:
        endings = ", ".join(ENDINGS)
        raise click.UsageError(f"No answer ends in {ending}. Let it end in one of {endings}, or give --format.")
    if plot and ending not in ("", ".txt", *PICTURES):
        raise click.UsageError(f"No drawing ends in {ending}. Let it end in one of {', '.join(PICTURES)}, or .txt.")
    if plot and isinstance(answer, bool):
        raise click.UsageError("A yes or no cannot be drawn: ask without --plot.")
    if plot and ending in PICTURES and not isinstance(answer, bool):
        made = picture(answer, ending[1:])
    else:
        form = form or ENDINGS.get(ending, "table")
        made = (chart(answer, to_file) if plot and not isinstance(answer, bool) else written(answer, form)).encode()
    if output is not None and to_file:
        with whole_file(output) as file:
            file.write(made)
        what = "a picture" if ending in PICTURES else "the answer" if isinstance(answer, bool) else _rows(len(answer))
        click.echo(f"{what} in {output}", err=True)
    elif form in (None, "table", "json", "csv", "tsv"):
        click.echo(made.decode(), nl=False)
    else:
        click.echo(made, nl=False)  # as bytes: W3C says UTF-8, whatever the terminal's encoding


def _rows(count: int) -> str:
    return f"{count} row{'s'[: count != 1]}"


def written(answer: Answer | bool, form: str) -> str:
    """An answer in one of the formats, with its last line ended."""
    from provml.answer.form import truth_as_sparql

    kind, _, sparql = form.partition("-")
    if form in GRAPHS:
        if isinstance(answer, bool) or not answer.is_graph:
            raise click.UsageError(f"{form} is for triples, and these are none: ask by CONSTRUCT or DESCRIBE.")
        return answer.to_rdf(form)
    if isinstance(answer, bool):
        return truth_as_sparql(answer, sparql or "csv")
    if sparql:
        return answer.to_sparql(sparql)
    if kind == "json":
        return answer.to_json() + "\n"
    if kind in ("csv", "tsv"):
        return answer.to_csv() if kind == "csv" else answer.to_tsv()
    return f"{answer}\n" if answer.rows else "No rows.\n"


def chart(answer: Answer, to_file: bool = False) -> str:
    """The curves of an answer drawn for the terminal, with what its encoding has."""
    if not answer.rows:
        return "No rows.\n"
    width = min(shutil.get_terminal_size().columns, WIDEST)
    return answer.chart(width, ascii=not to_file and not _can_draw(sys.stdout)) + "\n"


def _can_draw(stream: Any) -> bool:
    try:
        "⣿┤│└─".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def picture(answer: Answer, form: str) -> bytes:
    """The curves of an answer drawn by matplotlib, as a file."""
    import io

    from provml.errors import MissingPart

    curves = answer.curves()
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPart("matplotlib", "plot") from None
    from provml.answer.curve import draw

    figure, out = Figure(layout="constrained"), io.BytesIO()
    draw(curves, figure.subplots())
    figure.savefig(out, format=form, dpi=150, bbox_inches="tight")
    return out.getvalue()


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes its place when all is written, or not at all; a device or a pipe is written to."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    folder = path.parent
    if not folder.is_dir():
        raise click.UsageError(f"There is no folder {folder}. Make it first, or write elsewhere.")
    number, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".part", dir=folder)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
