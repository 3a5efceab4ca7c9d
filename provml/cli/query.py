"""query: run SPARQL over all runs of a home."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provml.cli.options import home_option, open_store
from provml.cli.output import (
    DEFAULT_TIMEOUT_SECONDS,
    limit_options,
    output_options,
    print_note,
    stream_format,
    write_answer,
    write_stream,
)
from provml.errors import FileFormatError

if TYPE_CHECKING:
    from provml.answers import Answer


@click.command()
@click.argument("sparql", metavar="'SELECT …'|FILE|-")
@click.option("--inference", is_flag=True, help="Also see what follows by RDFS and OWL 2 RL.")
@limit_options(f"{DEFAULT_TIMEOUT_SECONDS:g}")
@output_options
@home_option
def query(
    sparql: str,
    *,
    timeout: float | None,
    allow_service: bool,
    inference: bool,
    fmt: str | None,
    output: Path | None,
    plot: bool,
    home: Path | None,
) -> None:
    """Run a SPARQL query over all runs.

    Pass the query, a file that contains it, or - to read it from standard input. For the questions of the catalog,
    use `provml ask`.

    \b
    provml query 'SELECT ?run ?status { ?run a provml:LearningProcessExecution ; provlake:status ?status }'
    provml query best.rq --format csv
    provml query 'SELECT ?epoch ?loss { … }' --plot

    The prefixes prov, provml, provlake, mls, rdf, rdfs, owl, xsd, skos and dcterms are declared. --plot draws the
    first column of numbers or times as x and the other columns of numbers as y, one curve for each node or text.
    """
    from provml.answers.plot import guess_curve
    from provml.store.healing import healing
    from provml.store.query_terms import note_on_unknown_terms

    text = read_query(sparql)
    limit = DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout or None
    row_format = stream_format(fmt, output, plot)
    with open_store(home) as store:
        if output is not None and row_format is not None:
            stream = store.stream(text, sync=False, timeout=limit, service=allow_service, inference=inference)
            if not isinstance(stream, bool):
                write_stream(stream, row_format, output)
                print_note(stream.note)
                return
            answer: Answer | bool = stream
        else:
            answer = store.query(text, sync=False, timeout=limit, service=allow_service, inference=inference)
        if isinstance(answer, bool):
            note = healing(store, lambda: note_on_unknown_terms(text, store.backend))
        else:
            note = answer.note
    if plot and not isinstance(answer, bool) and answer.rows:
        answer.curve = guess_curve(answer.columns, answer.rows)
    write_answer(answer, fmt, output, plot)
    print_note(note)


def read_query(source: str) -> str:
    """Return the text of a query that is passed directly, as a file name, or as - for standard input."""
    from provml.store import query_guard

    advice = "Pass a SPARQL query, or a file that contains one."
    try:
        if source == "-":
            text = sys.stdin.buffer.read().decode("utf-8-sig")
        elif _is_file_name(source):
            text = Path(source).read_text(encoding="utf-8-sig")
        else:
            text = source
    except UnicodeDecodeError as error:
        name = "standard input" if source == "-" else source
        raise FileFormatError("the text is not UTF-8", advice, file=name) from error
    except IsADirectoryError as error:
        raise FileFormatError("it is a directory", advice, file=source) from error
    except OSError as error:
        raise FileFormatError((error.strerror or str(error)).lower(), advice, file=source) from error
    if query_guard.is_empty(text):
        raise click.UsageError(f"The query is empty. Pass one, such as '{query_guard.EXAMPLE}'.")
    return text


def _is_file_name(source: str) -> bool:
    if not source.strip() or "\n" in source or "{" in source:
        return False
    if source.endswith((".rq", ".sparql")) or re.fullmatch(r"[^\s<{#]+", source):  # no query is a single word
        return True
    return Path(source).exists()


COMMANDS = (query,)
