"""A home: ask it, verify it, make its index anew, and clear away what is left over."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from provml.cli.door import bar, existing, opened, put, size, unread, with_form, with_home
from provml.cli.output import LIMIT, give, with_limits, with_output
from provml.errors import BrokenFile


@click.command()
@click.argument("sparql", metavar="'SELECT …'|FILE|-")
@with_limits(f"{LIMIT:g}")
@with_output
@with_home
def query(
    sparql: str,
    timeout: float | None,
    allow_service: bool,
    form: str | None,
    output: Path | None,
    plot: bool,
    home: Path | None,
) -> None:
    """Ask all runs by SPARQL.

    Give a query, a file that holds one, or - to read it from the input.

    \b
    provml query 'SELECT ?run ?status { ?run a provml:LearningProcessExecution ; provlake:status ?status }'
    provml query best.rq --format csv
    provml query 'SELECT ?epoch ?loss { … }' --plot

    The prefixes prov, provml, provlake, mls, rdf, rdfs, owl, xsd, skos and dcterms are known. --plot draws
    the first column of numbers or times as x and the other numbers as y, a curve for each node or text beside them.
    """
    from provml.answer.curve import guessed

    text = read_query(sparql)
    with opened(home) as store:
        answer = store.query(
            text, sync=False, timeout=LIMIT if timeout is None else timeout or None, service=allow_service
        )
    if plot and not isinstance(answer, bool) and answer.rows:
        answer.curve = guessed(answer.columns, answer.rows)
    give(answer, form, output, plot)


def read_query(given: str) -> str:
    """The text of a query that is given as such, as a file or as -."""
    from provml.store import guard

    try:
        may_be_a_file = bool(given.strip()) and "\n" not in given and "{" not in given
        must_be_a_file = given.endswith((".rq", ".sparql")) or re.fullmatch(r"[^\s<{#]+", given)  # no query is one word
        if given == "-":
            text = sys.stdin.buffer.read().decode("utf-8-sig")
        elif may_be_a_file and (must_be_a_file or Path(given).exists()):
            text = Path(given).read_text(encoding="utf-8-sig")
        else:
            text = given
    except UnicodeDecodeError as error:
        place = "the input" if given == "-" else given
        raise BrokenFile("it is not text in UTF-8", "Give a file with a SPARQL query.", file=place) from error
    except IsADirectoryError as error:
        raise BrokenFile("it is a folder", "Give a file with a SPARQL query.", file=given) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BrokenFile(reason, "Give a file with a SPARQL query.", file=given) from error
    if guard.is_empty(text):
        raise click.UsageError(f"There is no query. Give one, such as '{guard.EXAMPLE}'.")
    return text


@click.command()
@with_form
@with_home
def verify(form: str, home: Path | None) -> None:
    """Read every journal anew and name the lines that are damaged.

    Each is told as file:line: reason; the command ends with 1 if there is one.
    """
    from provml.answer import Answer
    from provml.store import Store

    folder = existing(home)
    with Store(folder) as store:
        problems = store.verify()
    if form != "table":
        put(Answer(["file", "line", "reason"], [(str(folder / p.file), p.line, p.reason) for p in problems]), form)
    else:
        for problem in problems:
            line = f":{problem.line}" if problem.line else ""
            click.echo(f"{folder / problem.file}{line}: {problem.reason}")
        journals = len(list((folder / "runs").glob("*/*.jsonl")))
        lines = sum(problem.line > 0 for problem in problems)
        whole = len(problems) - lines
        counts = [f"{lines} damaged line{'s'[: lines != 1]}"] if lines else []
        counts += [f"{whole} file{'s'[: whole != 1]} left out"] if whole else []
        what = ", ".join(counts) or "nothing is damaged"
        click.echo(f"{journals} journal{'s'[: journals != 1]} read: {what}", err=bool(problems))
    if problems:
        sys.exit(1)


@click.command()
@with_home
def rebuild(home: Path | None) -> None:
    """Make the index anew from the journals."""
    from provml.store import Store

    folder = existing(home)
    with Store(folder) as store, bar("rebuilding", unread(folder, anew=True) if sys.stderr.isatty() else 0) as report:
        events = store.rebuild(report)
    click.echo(f"index made anew from {events} event{'s'[: events != 1]}")


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@with_form
@with_home
def gc(dry_run: bool, form: str, home: Path | None) -> None:
    """Clear away what dead processes left beside the index.

    Private copies of the index, half-made snapshots, half-written files and old logs that nobody uses; runs are never
    touched.
    """
    from provml.answer import Answer
    from provml.store.gc import collect

    left = collect(existing(home), dry_run=dry_run)
    if form != "table":
        put(Answer(["path", "bytes"], [(str(path), count) for path, count in left]), form)
        return
    if not left:
        click.echo("nothing is left over")
        return
    put(Answer(["left over", "size"], [(str(path), size(count)) for path, count in left]), form)
    click.echo(f"{'would free' if dry_run else 'freed'} {size(sum(count for _, count in left))}")


COMMANDS = (query, verify, rebuild, gc)
