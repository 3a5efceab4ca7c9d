"""Output of answers: format, plot, terminal or file. A file is written completely or not at all."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from provml import paths
from provml.cli.options import Command, escape_option, escapes_formulas
from provml.cli.terminal import echo_message, terminal_width
from provml.errors import plural

if TYPE_CHECKING:
    from provml.answers import Answer
    from provml.answers.stream import RowStream

GRAPH_FORMATS = ("ttl", "nt", "jsonld")
FORMATS = ("table", "json", "csv", "tsv", "sparql-json", "sparql-xml", "sparql-csv", "sparql-tsv", *GRAPH_FORMATS)
FORMAT_BY_EXTENSION = {
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".srj": "sparql-json",
    ".srx": "sparql-xml",
    ".txt": "table",
    **{f".{fmt}": fmt for fmt in GRAPH_FORMATS},
}
IMAGE_EXTENSIONS = (".png", ".svg", ".pdf")
MAX_CHART_COLUMNS = 120
"""Maximum width of a terminal chart in characters."""

DEFAULT_TIMEOUT_SECONDS = 60.0
"""Time limit of a user's query."""


def limit_options(default: str) -> Callable[[Command], Command]:
    """Add the options `--timeout` and `--allow-service`."""

    def add(command: Command) -> Command:
        service = click.option("--allow-service", is_flag=True, help="Allow SERVICE, which calls other machines.")
        timeout = click.option(
            "--timeout",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help=f"Time limit of the query; 0 for none.  [default: {default}]",
        )
        return timeout(service(command))

    return add


def output_options(command: Command) -> Command:
    """Add the options `--format`, `--output` and `--plot`."""
    formats = (
        "table, json, csv or tsv; W3C results as sparql-json, sparql-xml, sparql-csv or sparql-tsv; "
        "ttl, nt or jsonld for CONSTRUCT and DESCRIBE.  [default: from the file extension, else table]"
    )
    plot = f"Draw a curve: in the terminal, or in a file with the extension {', '.join(IMAGE_EXTENSIONS)} or .txt."
    file = click.Path(path_type=Path, dir_okay=False)
    for option in (
        escape_option,
        click.option("--plot", is_flag=True, help=plot),
        click.option("-o", "--output", type=file, metavar="FILE", help="Write to this file, completely or not at all."),
        click.option("--format", "fmt", type=click.Choice(FORMATS), metavar="FORMAT", help=formats),
    ):
        command = option(command)
    return command


def write_answer(answer: Answer | bool, fmt: str | None, output: Path | None = None, plot: bool = False) -> None:
    """Print an answer, or write it to a file."""
    to_file = output is not None and str(output) != "-"
    extension = output.suffix.lower() if output is not None and to_file else ""
    _check_options(answer, fmt, extension, plot)
    if plot and extension in IMAGE_EXTENSIONS and not isinstance(answer, bool):
        content = render_image(answer, extension[1:])
    elif plot and not isinstance(answer, bool):
        content = render_chart(answer, to_file).encode()
    else:
        fmt = fmt or FORMAT_BY_EXTENSION.get(extension, "table")
        content = format_answer(answer, fmt, None if to_file else terminal_width()).encode()
    if output is not None and to_file:
        with atomic_write(output) as file:
            file.write(content)
        click.echo(f"Wrote {_describe(answer, extension)} to {output}", err=True)
    elif fmt in (None, "table", "json", "csv", "tsv"):
        # click removes the escape sequences of terminals from what goes to a pipe: right for tables, wrong for data
        click.echo(content.decode(), nl=False, color=None if fmt in (None, "table") else True)
    else:
        click.echo(content, nl=False)  # bytes: W3C formats are UTF-8, whatever the terminal's encoding


def print_note(note: str) -> None:
    """Print the note of an answer, if it has one."""
    if note:
        echo_message(note)


def stream_format(fmt: str | None, output: Path | None, plot: bool) -> str | None:
    """Return the format in which rows can be written to a file one by one, or None if they have to be collected."""
    from provml.answers.stream import STREAM_FORMATS

    if plot or output is None or str(output) == "-":
        return None
    chosen = fmt or FORMAT_BY_EXTENSION.get(output.suffix.lower(), "")
    return chosen if chosen in STREAM_FORMATS and not escapes_formulas() else None


def write_stream(stream: RowStream, fmt: str, output: Path) -> None:
    """Write the rows of a query to a file while they are computed."""
    if fmt in GRAPH_FORMATS and not stream.is_graph:
        raise _not_triples(fmt)
    with stream, atomic_write(output) as file:
        count = stream.write(file, fmt)
    click.echo(f"Wrote {plural(count, 'row')} to {output}", err=True)


def _not_triples(fmt: str) -> click.UsageError:
    return click.UsageError(f"{fmt} is a format for triples. Use it with CONSTRUCT or DESCRIBE.")


def _check_options(answer: Answer | bool, fmt: str | None, extension: str, plot: bool) -> None:
    """Raise UsageError if format, file extension and `--plot` do not go together."""
    if plot and fmt is not None:
        raise click.UsageError("--plot and --format exclude each other.")
    if plot and isinstance(answer, bool):
        raise click.UsageError("A yes or no answer cannot be plotted. Omit --plot.")
    if plot and extension not in ("", ".txt", *IMAGE_EXTENSIONS):
        raise click.UsageError(
            f"Unknown extension '{extension}' for a plot. Use {', '.join(IMAGE_EXTENSIONS)} or .txt."
        )
    if extension in IMAGE_EXTENSIONS and not plot:
        raise click.UsageError(f"'{extension}' is the extension of an image. Add --plot, or use another extension.")
    if extension and fmt is None and not plot and extension not in FORMAT_BY_EXTENSION:
        extensions = ", ".join(FORMAT_BY_EXTENSION)
        raise click.UsageError(f"Unknown extension '{extension}'. Use {extensions}, or pass --format.")


def _describe(answer: Answer | bool, extension: str) -> str:
    if extension in IMAGE_EXTENSIONS:
        return "a plot"
    return "the answer" if isinstance(answer, bool) else plural(len(answer), "row")


def format_answer(answer: Answer | bool, fmt: str, width: int | None = None) -> str:
    """Return an answer as text in a format, with a final newline; a table fits the width."""
    from provml.answers.formats import boolean_as_sparql

    kind, _, sparql = fmt.partition("-")
    if fmt in GRAPH_FORMATS:
        if isinstance(answer, bool) or not answer.is_graph:
            raise _not_triples(fmt)
        return answer.to_rdf(fmt)
    if isinstance(answer, bool):
        return boolean_as_sparql(answer, sparql or "csv")
    if sparql:
        return answer.to_sparql(sparql)
    if kind == "json":
        return answer.to_json() + "\n"
    if kind in ("csv", "tsv"):
        escape = escapes_formulas()
        return answer.to_csv(escape_formulas=escape) if kind == "csv" else answer.to_tsv(escape_formulas=escape)
    return f"{answer.to_text(width)}\n" if answer.rows else "No rows.\n"


def render_chart(answer: Answer, to_file: bool = False) -> str:
    """Draw the curves of an answer with the characters that the terminal can show."""
    if not answer.rows:
        return "No rows.\n"
    width = min(shutil.get_terminal_size().columns, MAX_CHART_COLUMNS)
    return answer.chart(width, ascii=not to_file and not can_encode("⣿┤│└─", sys.stdout)) + "\n"


def can_encode(characters: str, stream: Any) -> bool:
    """Return whether a stream can show some characters."""
    try:
        characters.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def render_image(answer: Answer, fmt: str) -> bytes:
    """Draw the curves of an answer with matplotlib and return the image file."""
    import io

    from provml.errors import MissingDependency

    curves = answer.curves()
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("matplotlib", "plot") from None
    from provml.answers.plot import draw

    figure, buffer = Figure(layout="constrained"), io.BytesIO()
    draw(curves, figure.subplots())
    figure.savefig(buffer, format=fmt, dpi=150, bbox_inches="tight")
    return buffer.getvalue()


def require_parent(path: Path) -> None:
    """Raise a usage error for a path in a folder that does not exist."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise click.UsageError(f"No directory {folder}. Create it, or write to another path.")


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` on success; refuse a path in a folder that does not exist."""
    require_parent(path)
    with paths.atomic_write(path) as file:
        yield file
