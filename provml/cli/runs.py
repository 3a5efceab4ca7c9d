"""runs, status, show, remove: list runs, inspect one, delete it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provml.answers.humanize import format_duration, format_size
from provml.cli.options import (
    format_option,
    home_option,
    open_run_folder,
    open_store,
    print_answer,
    run_argument,
)
from provml.cli.terminal import echo_message, terminal_width
from provml.errors import RunNotFound, plural
from provml.journal.statuses import STATUSES

if TYPE_CHECKING:
    from provml.answers import Answer
    from provml.cli.run_status import RunStatus
    from provml.journal.capture_errors import ErrorSummary
    from provml.store import Annotation, RunInfo, Store

MAX_EPOCHS = 10
"""Epochs of each stage that `show` prints without --all."""
LARGE_RUN_BYTES = 2_000_000
"""Size of journals from which a removal takes longer than a user expects: about 600,000 triples."""
PARTS = [
    "children",
    "stages",
    "hyperparameters",
    "measures",
    "adaptations",
    "datasets",
    "models",
    "artifacts",
    "environment",
    "capture errors",
]
"""Order of the parts that `show` prints."""


@click.command()
@click.option("--where", metavar="CONDITION", help="Only runs that fulfil a condition on the columns.")
@click.option("--sort", metavar="COLUMN", help="Sort by a column; missing values come last.  [default: latest first]")
@click.option("--desc", "descending", is_flag=True, help="Sort in descending order.")
@click.option(
    "--status",
    type=click.Choice(STATUSES, case_sensitive=False),
    multiple=True,
    help="Only runs with this status; can be repeated.",
)
@click.option("--name", metavar="PATTERN", help="Only runs with this name; * stands for any text.")
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="Only the first N rows.")
@format_option
@home_option
def runs(
    *,
    where: str | None,
    sort: str | None,
    descending: bool,
    status: tuple[str, ...],
    name: str | None,
    limit: int | None,
    fmt: str,
    home: Path | None,
) -> None:
    """List the runs by hyperparameters and measures, latest first.

    A run with several trainings has a row for each, a distributed training one. Hyperparameters have their initial
    values, measures their latest: test_ of the evaluation, val_ of the validation, train_ of the training. Values that
    all runs share are in one line above the table. A condition compares columns with values: --where 'learning_rate >
    0.01 and optimizer == "Adam"', with and, or, not, parentheses, in (1, 2) and null for a missing value.
    """
    from provml.cli.run_table import format_runs
    from provml.store.healing import healing

    if descending and sort is None:
        raise click.UsageError("--desc needs --sort COLUMN.")
    with open_store(home) as store:
        is_plain = (where, sort, status, name) == (None, None, (), None)
        everything = healing(store, lambda: store._run_table(limit if is_plain else None))
    table = everything.filtered(where, status or None, name)
    if sort is not None:
        table = table.sorted(sort, descending=descending)
    if limit is not None:
        table = table.first(limit)
    if fmt != "table":
        print_answer(table.answer(), fmt)
    elif table.rows:
        click.echo(format_runs(table, terminal_width()))
    else:
        total = plural(len(everything.rows), "run")
        click.echo(f"None of {total} matches." if everything.rows else "No runs yet.")


def duration_of(info: RunInfo) -> str:
    """Return the duration of a run; of a running one, the time since its start."""
    if info.seconds is None and info.status == "RUNNING":
        return format_duration(max(time.time() - info.started.timestamp(), 0.0))
    return format_duration(info.seconds)


@click.command()
@run_argument(default="latest")
@format_option
@home_option
def status(run: str, fmt: str, home: Path | None) -> None:
    """Show a run's status, also while it is running.

    Prints the status, capture errors, open stages, the latest measures and the writing processes. RUN is a run id, a
    unique prefix or suffix of it, the name of one run, or `latest` (the default). The command reads the journals, not
    the index.
    """
    from provml.cli.run_status import RunStatus
    from provml.cli.run_tail import RunTail

    with open_run_folder(home, run) as folder:
        _print_status(RunStatus(RunTail(folder)), fmt)


def _print_status(state: RunStatus, fmt: str) -> None:
    from provml.answers import Answer

    parts = {
        "now": Answer(["stage", "section", "of", "batches"], state.open_sections()),
        "measures": Answer(["stage", "section", "batch", "measure", "value"], state.measures()),
        "writers": Answer(["writer", "process", "rank", "status", "events", "errors", "corrupted"], state.writers()),
        **error_part(state.errors, fmt),
    }
    if fmt == "table":
        if len(parts["writers"]) == 1:
            del parts["writers"]
        open_sections = parts.pop("now")
        parts = {"now" if state.status == "RUNNING" else "not ended": open_sections, **parts}
        parts = {title: humanize(part) for title, part in parts.items()}
    print_report(_facts(state, fmt), parts, fmt)


def _facts(state: RunStatus, fmt: str) -> dict[str, Any]:
    from provml.journal.annotations import present_texts, read, resolve
    from provml.journal.run_files import run_name

    first, end = state.first, state.end
    started = first.time if first else None
    until = end.time if end else time.time() if state.status == "RUNNING" else state.last_seen
    seconds = max(until - started, 0.0) if started is not None else None
    return {
        "run": state.run,
        "name": run_name(state.tail.folder),
        "model": first.model if first else "",
        "parent": first.parent_run if first else "",
        "tags": ", ".join(present_texts(resolve(read(state.tail.folder)), "tag")),
        "status": state.status,
        "error": ": ".join(filter(None, end.error)) if end else "",
        "started": datetime.fromtimestamp(started, UTC) if started is not None else None,
        **({"seconds": seconds} if fmt != "table" else {"duration": format_duration(seconds)}),
        "events": state.events,
        **error_facts(state.errors, fmt),
        **cut_facts(state.cut_texts, fmt),
        **_shipping_facts(state.tail.folder, fmt),
        **_refusal_facts(state.tail.folder, fmt),
        "validated": _validation_summary(state.tail.folder),
        "corrupted": state.corrupted if fmt != "table" else state.corrupted or None,
    }


def _shipping_facts(folder: Path, fmt: str) -> dict[str, Any]:
    """Return where a run is shipped to, and what has not arrived there; empty if it stays here.

    Other runs of the home that have not arrived are named too: the latest run may be the only one that has.
    """
    from provml.journal.shipping import has_shipped, read_state, unsent_bytes, unshipped_runs

    home, state = folder.parent.parent, read_state(folder)
    others = [entry for entry in unshipped_runs(home) if entry[0] != folder.name] if state or has_shipped(home) else []
    facts: dict[str, Any] = {}
    size = unsent_bytes(folder, state) if state is not None else 0
    if state is not None and fmt != "table":
        missing = {"unshipped_bytes": size, "unshipped_artifacts": len(state.contents)}
        facts = {"shipped_to": state.url, **missing, "shipping_error": state.error}
    elif state is not None:
        parts = [format_size(size)] if size else []
        parts += [plural(len(state.contents), "artifact")] if state.contents else []
        facts = {
            "shipped to": state.url,
            "not shipped": " and ".join(parts) or "nothing",
            "shipping error": state.error,
        }
    if others and fmt != "table":
        facts["other_unshipped_runs"] = len(others)
    elif others:
        total = format_size(sum(entry[2] for entry in others))
        facts["not shipped too"] = f"{plural(len(others), 'other run')} ({total}); send with `provml ship`"
    return facts


def _refusal_facts(folder: Path, fmt: str) -> dict[str, Any]:
    """Return how many requests about a run a service refused; empty if it refused none."""
    from provml.journal.refusals import read_refusals

    refusals = read_refusals(folder.parent.parent, folder.name)
    if not refusals:
        return {}
    count = sum(refusal.requests for refusal in refusals)
    if fmt != "table":
        return {"refused_requests": count}
    last = max(refusals, key=lambda refusal: refusal.time)
    when = datetime.fromtimestamp(last.time, UTC).isoformat(sep=" ", timespec="seconds")
    return {"refused": f"{plural(count, 'request')}, the last by {last.client} at {when} ({last.code})"}


def _validation_summary(folder: Path) -> str | None:
    """Return the summary of the validation at the end of a run, or None if the run was not validated."""
    from provml.journal.run_files import read_report

    report = read_report(folder)
    return str(report.get("summary", "")) if report else None


def error_facts(errors: ErrorSummary, fmt: str) -> dict[str, Any]:
    """Return the number of capture errors and of lost batches."""
    if fmt != "table":
        return {"capture_errors": errors.count, "lost_batches": errors.lost_batches}
    return {"errors": errors.count or "none", "lost batches": errors.lost_batches or None}


def cut_facts(count: int, fmt: str) -> dict[str, Any]:
    """Return the number of texts of which the graph has only the head."""
    return {"cut_texts": count} if fmt != "table" else {"cut texts": f"{count}, whole as artifacts" if count else None}


def error_part(errors: ErrorSummary, fmt: str) -> dict[str, Answer]:
    """Return a table of all capture errors with their numbers."""
    from provml.answers import Answer

    return {"capture errors" if fmt == "table" else "errors": Answer(["error", "count"], errors.rows())}


@click.command()
@run_argument(default="latest")
@click.option(
    "--all", "all_epochs", is_flag=True, help=f"Print every epoch, not only the last {MAX_EPOCHS} of a stage."
)
@format_option
@home_option
def show(run: str, all_epochs: bool, fmt: str, home: Path | None) -> None:
    """Show what a run did.

    Prints tags, notes, stages, hyperparameters, measures, adaptations, datasets, models and environment, read from the
    graph. RUN is a run id, a unique prefix or suffix of it, the name of one run, or `latest` (the default).
    """
    from provml.answers import Answer
    from provml.store.run_tables import RunTables

    with open_store(home) as store:
        info = store.run(run)
        names = {other: _name_of(store, other) for other in (info.parent, info.rerun_of) if other}
        children = [(i.id, i.name, i.status, i.seconds, i.error or None) for i in store.children(info)]
        repetitions = store.repetitions(info)
        parts = {
            "children": Answer(["run", "name", "status", "seconds", "error"], children),
            **RunTables(store, info).parts(),
            "artifacts": Answer(
                ["artifact", "bytes", "type", "sha256"],
                [(a.name, a.size, "folder" if a.is_folder else a.media_type, a.sha256) for a in store.artifacts(info)],
            ),
        }
        parts["environment"] = parts.pop("environment")  # last
    facts: dict[str, Any] = {
        "run": info.id,
        "name": info.name,
        **({"experiment": info.experiment} if fmt != "table" or info.experiment != info.name else {}),
        "model": info.model,
        "parent": _other_run(info.parent, names) if fmt == "table" else info.parent,
        "rerun of": _other_run(info.rerun_of, names) if fmt == "table" else info.rerun_of,
        "repeated by": ", ".join(other.id for other in repetitions),
        "tags": ", ".join(info.tags),
        "status": info.status,
        "error": info.error,
        "started": info.started,
        **({"seconds": info.seconds, "iri": info.iri} if fmt != "table" else {"duration": duration_of(info)}),
        **error_facts(info.capture_errors, fmt),
        "validated": _validation_summary(store.home / "runs" / info.id),
    }
    parts |= error_part(info.capture_errors, fmt)
    if fmt == "table":
        parts = {title: humanize(part) for title, part in parts.items()}
        if not all_epochs:
            parts["measures"], omitted = tail_by_stage(parts["measures"])
            if omitted:
                parts[f"measures ({omitted} earlier: --all)"] = parts.pop("measures")
                parts = {key: parts[key] for key in sorted(parts, key=lambda key: PARTS.index(key.partition(" (")[0]))}
        print_pairs(facts)
        print_notes(info.notes)
        print_parts(parts)
        return
    notes = Answer(["note", "by", "time"], [(note.text, note.by or None, note.added) for note in info.notes])
    print_report(facts, {"notes": notes, **parts}, fmt)


def _name_of(store: Store, run: str) -> str:
    """Return the name of a run by its id."""
    try:
        return store.run(run).name
    except RunNotFound:
        return "not in this home"


def _other_run(run: str, names: dict[str, str]) -> str:
    """Return the id and the name of a run; empty if there is none."""
    return f"{run} ({names[run]})" if run else ""


def humanize(part: Answer) -> Answer:
    """Return a table with formatted durations, sizes and digests, without its empty columns."""
    from provml.answers import Answer

    formatters = {
        "seconds": ("duration", format_duration),
        "bytes": ("size", format_size),
        "sha256": ("sha256", lambda digest: digest and digest[:12]),
    }
    columns, rows = list(part.columns), part.rows
    for index, column in enumerate(part.columns):
        if column in formatters:
            columns[index], formatter = formatters[column]
            rows = [(*row[:index], formatter(row[index]), *row[index + 1 :]) for row in rows]
    filled = [i for i in range(len(columns)) if any(row[i] is not None and row[i] != "" for row in rows)]
    return Answer([columns[i] for i in filled], [tuple(row[i] for i in filled) for row in rows])


def tail_by_stage(measures: Answer) -> tuple[Answer, int]:
    """Return the last rows of each stage, and the number of omitted rows."""
    from provml.answers import Answer

    by_stage: dict[str, list[tuple[Any, ...]]] = {}
    for row in measures.rows:
        by_stage.setdefault(row[0], []).append(row)
    tail = [row for rows in by_stage.values() for row in rows[-MAX_EPOCHS:]]
    return Answer(measures.columns, tail), len(measures.rows) - len(tail)


def print_report(facts: dict[str, Any], parts: dict[str, Answer], fmt: str) -> None:
    """Print facts and tables: tables with headings, one JSON object, or CSV with one value per line."""
    from provml.answers import Answer, as_json

    if fmt == "json":
        click.echo(as_json(facts | {title: part.to_dicts() for title, part in parts.items()}))
    elif fmt == "csv":
        rows: list[tuple[Any, ...]] = [("run", None, key, value) for key, value in facts.items()]
        for title, part in parts.items():
            for number, row in enumerate(part.to_dicts(), 1):
                rows += [(title, number, key, value) for key, value in row.items()]
        print_answer(Answer(["part", "row", "name", "value"], rows), fmt)
    else:
        print_pairs(facts)
        print_parts(parts)


def print_parts(parts: dict[str, Answer]) -> None:
    """Print tables with headings, without empty ones."""
    for title, part in parts.items():
        if part.columns == ["name", "value"]:
            click.echo(f"\n{click.style(title, bold=True)}")
            print_pairs(dict(part.rows))
        elif part.rows:
            click.echo(f"\n{click.style(title, bold=True)}\n{part.to_text(terminal_width())}")


def print_notes(notes: Sequence[Annotation]) -> None:
    """Print the notes of a run in full, with their numbers, who wrote them and when."""
    from provml.answers.table import MIN_CELL_WIDTH, format_cell, single_line, wrap_text

    columns = terminal_width()
    if notes:
        click.echo(f"\n{click.style('notes', bold=True)}")
    for number, note in enumerate(notes, 1):
        click.echo(f"{number}. {single_line(note.by)}, {format_cell(note.added)}")
        for line in note.text.splitlines():
            text = single_line(line)
            for part in wrap_text(text, max(columns - 3, MIN_CELL_WIDTH)) if columns else [text]:
                click.echo(f"   {part}")


def print_pairs(facts: dict[str, Any]) -> None:
    """Print names and values in two columns, without empty values."""
    from provml.answers.table import MAX_WRAPPED_LENGTH, MIN_CELL_WIDTH, format_cell, wrap_text

    columns = terminal_width()
    limit = {"limit": MAX_WRAPPED_LENGTH} if columns else {}
    texts = {key: text for key, value in facts.items() if (text := format_cell(value, **limit))}
    width = max(map(len, texts), default=0)
    for key, text in texts.items():
        lines = wrap_text(text, max(columns - width - 2, MIN_CELL_WIDTH)) if columns else [text]
        click.echo(
            "\n".join(f"{label.ljust(width)}  {line}" for label, line in zip_longest([key], lines, fillvalue=""))
        )


def _journal_bytes(home: Path, run_ids: Iterable[str]) -> int:
    from provml.journal.run_files import journals_of_run
    from provml.journal.segments import file_stat

    return sum(file_stat(path).st_size for run_id in run_ids for path in journals_of_run(home / "runs" / run_id))


@click.command()
@run_argument(nargs=-1, required=True)
@click.option("--children", is_flag=True, help="Delete their child runs too.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@home_option
def remove(run: tuple[str, ...], children: bool, yes: bool, home: Path | None) -> None:
    """Delete runs permanently.

    Deletes their journals and everything in the graph that only they state. RUN is a run id, a unique prefix or suffix
    of it, the name of one run, or `latest`. If one of the runs does not exist or is still running, none is deleted.
    Child runs stay, without --children. Artifacts stay, until `provml gc --artifacts`.
    """
    from provml.cli.maintenance import offer_removal
    from provml.store.artifacts import contents_of_run, unreferenced_among

    with open_store(home) as store:
        infos = {info.id: info for info in map(store.run, run)}
        if children:
            infos |= {info.id: info for info in store.descendants(infos)}
        for info in infos.values():
            if not yes:
                details = f"{info.name}, {info.status}, {plural(info.events, 'event')}"
                if stay := [child for child in store.children(info) if child.id not in infos]:
                    details += f", its {plural(len(stay), 'child run')} will stay"
                click.confirm(f"Delete run {info.id} ({details}) permanently?", abort=True, err=True)
        contents = set[str]().union(*(contents_of_run(store.home, run_id) for run_id in infos))
        if sys.stderr.isatty() and _journal_bytes(store.home, infos) > LARGE_RUN_BYTES:
            echo_message("A large run takes about ten seconds for each million triples. Wait a moment.")
        store.remove_all(infos)
        unreferenced = unreferenced_among(store, contents)
    for run_id in infos:
        click.echo(f"Deleted {run_id}")
    if unreferenced:
        click.echo(offer_removal(unreferenced), err=True)


COMMANDS = (runs, status, show, remove)
