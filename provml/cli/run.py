"""Runs: list them, see how one stands and what it did, take it out as RDF, remove it."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provml.cli.door import duration, existing, opened, put, size, with_form, with_home, with_run
from provml.cli.output import whole_file

if TYPE_CHECKING:
    from provml.answer import Answer
    from provml.cli.standing import Standing
    from provml.store import RunInfo

FORMS = ("nt", "nq", "ttl", "trig", "rdf", "jsonld")
SHOWN = 10
"""How many of the last epochs people see of each stage, unless they ask for all."""


@click.command()
@with_form
@with_home
def runs(form: str, home: Path | None) -> None:
    """List the runs, the latest first."""
    from provml.answer import Answer

    with opened(home) as store:
        found = store.runs()
    if form != "table":
        columns = ["run", "name", "model", "status", "started", "seconds", "error", "writers", "events"]
        rows: list[tuple[Any, ...]] = [
            (i.id, i.name, i.model, i.status, i.started, i.seconds, i.error, i.writers, i.events) for i in found
        ]
    else:
        columns = ["run", "name", "model", "status", "started", "lasted", "events"]
        rows = [(i.id, i.name, i.model, i.status, i.started, lasted(i), i.events) for i in found]
        if any(info.error for info in found):
            columns.append("error")
            rows = [(*row, info.error or None) for row, info in zip(rows, found, strict=True)]
    put(Answer(columns, rows), form, "No runs yet.")


def lasted(info: RunInfo) -> str:
    """How long a run took, or has taken so far."""
    if info.seconds is None and info.status == "RUNNING":
        return duration(max(time.time() - info.started.timestamp(), 0.0))
    return duration(info.seconds)


@click.command()
@with_run(default="latest")
@with_form
@with_home
def status(run: str, form: str, home: Path | None) -> None:
    """Tell how a run stands, also while it goes on.

    Its true status, faults of capture, what is under way, the latest measures, and the processes that write. RUN is
    an id, its beginning or end, or `latest` (also if left out). The journals are read as they are, without the index.
    """
    from provml.answer import Answer
    from provml.cli.glance import Glance
    from provml.cli.standing import Standing
    from provml.run import find_folder

    standing = Standing(Glance(find_folder(existing(home), run)))
    parts = {
        "now": Answer(["stage", "section", "of", "batches"], standing.now()),
        "measures": Answer(["stage", "section", "batch", "measure", "value"], standing.measures()),
        "writers": Answer(["writer", "process", "rank", "status", "events", "faults", "damaged"], standing.writers()),
    }
    if form == "table":
        if len(parts["writers"]) == 1:
            del parts["writers"]
        under_way = parts.pop("now")
        parts = {"now" if standing.status == "RUNNING" else "not ended": under_way, **parts}
        parts = {title: for_people(part) for title, part in parts.items()}
    tell(_facts(standing, form), parts, form)


def _facts(standing: Standing, form: str) -> dict[str, Any]:
    first, end = standing.first, standing.end
    began = first.t if first else None
    until = end.t if end else time.time() if standing.status == "RUNNING" else standing.seen
    seconds = max(until - began, 0.0) if began is not None else None
    return {
        "run": standing.run,
        "name": first.name if first else "",
        "model": first.model if first else "",
        "status": standing.status,
        "error": ": ".join(filter(None, end.error)) if end else "",
        "started": datetime.fromtimestamp(began, UTC) if began is not None else None,
        **({"seconds": seconds} if form != "table" else {"lasted": duration(seconds)}),
        "events": standing.events,
        "faults": standing.faults if form != "table" else _faults(standing),
        "validated": _validated(standing.glance.folder),
        "damaged": standing.damaged if form != "table" else standing.damaged or None,
    }


def _validated(folder: Path) -> str | None:
    """How a run stood when it was validated at its end; nothing where it was not."""
    from provml.run import report_of

    said = report_of(folder)
    return str(said.get("summary", "")) if said else None


def _faults(standing: Standing) -> str:
    return f"{standing.faults}, first with {standing.first_fault}" if standing.faults else "none"


@click.command()
@with_run(default="latest")
@click.option("--all", "whole", is_flag=True, help=f"Every epoch, not only the last {SHOWN} of a stage.")
@with_form
@with_home
def show(run: str, whole: bool, form: str, home: Path | None) -> None:
    """Show what a run did.

    Its stages, hyperparameters, measures, adaptations, datasets, models and environment, by SPARQL. RUN is an id, its
    beginning or end, or `latest` (also if left out).
    """
    from provml.cli.account import Account

    with opened(home) as store:
        info = store.run(run)
        parts = Account(store, info).parts()
    facts: dict[str, Any] = {
        "run": info.id,
        "name": info.name,
        "model": info.model,
        "status": info.status,
        "error": info.error,
        "started": info.started,
        **({"seconds": info.seconds, "iri": info.iri} if form != "table" else {"lasted": lasted(info)}),
        "validated": _validated(store.home / "runs" / info.id),
    }
    if form == "table":
        parts = {title: for_people(part) for title, part in parts.items()}
        if not whole:
            parts["measures"], left_out = last_of_each(parts["measures"])
            if left_out:
                parts[f"measures ({left_out} earlier: --all)"] = parts.pop("measures")
                parts = {key: parts[key] for key in sorted(parts, key=lambda k: ORDER.index(k.split()[0]))}
    tell(facts, parts, form)


ORDER = ["stages", "hyperparameters", "measures", "adaptations", "datasets", "models", "environment"]


def for_people(part: Answer) -> Answer:
    """A part with seconds, bytes and hashes as people read them, and without columns that say nothing."""
    from provml.answer import Answer

    ways = {"seconds": ("lasted", duration), "bytes": ("size", size), "sha256": ("sha256", lambda h: h and h[:12])}
    columns, rows = list(part.columns), part.rows
    for index, column in enumerate(part.columns):
        if column in ways:
            columns[index], way = ways[column]
            rows = [(*row[:index], way(row[index]), *row[index + 1 :]) for row in rows]
    kept = [i for i in range(len(columns)) if any(row[i] is not None and row[i] != "" for row in rows)]
    return Answer([columns[i] for i in kept], [tuple(row[i] for i in kept) for row in rows])


def last_of_each(measures: Answer) -> tuple[Answer, int]:
    """The last sections of each stage, and how many were left out."""
    from provml.answer import Answer

    kept: list[tuple[Any, ...]] = []
    by_stage: dict[str, list[tuple[Any, ...]]] = {}
    for row in measures.rows:
        by_stage.setdefault(row[0], []).append(row)
    for rows in by_stage.values():
        kept += rows[-SHOWN:]
    return Answer(measures.columns, kept), len(measures.rows) - len(kept)


def tell(facts: dict[str, Any], parts: dict[str, Answer], form: str) -> None:
    """Print facts and the parts below them: headed tables, one JSON object, or CSV with a value a line."""
    from provml.answer import Answer, as_json

    if form == "json":
        click.echo(as_json(facts | {title: part.to_dicts() for title, part in parts.items()}))
    elif form == "csv":
        rows: list[tuple[Any, ...]] = [("run", None, key, value) for key, value in facts.items()]
        for title, part in parts.items():
            for number, row in enumerate(part.to_dicts(), 1):
                rows += [(title, number, key, value) for key, value in row.items()]
        put(Answer(["part", "row", "name", "value"], rows), form)
    else:
        facing(facts)
        for title, part in parts.items():
            if part.columns == ["name", "value"]:
                click.echo(f"\n{click.style(title, bold=True)}")
                facing(dict(part.rows))
            elif part.rows:
                click.echo(f"\n{click.style(title, bold=True)}\n{part}")


def facing(facts: dict[str, Any]) -> None:
    """Print names and what they are, side by side; what is empty is left out."""
    from provml.answer import cell

    said = {key: text for key, value in facts.items() if (text := cell(value))}
    width = max(map(len, said), default=0)
    for key, text in said.items():
        click.echo(f"{key.ljust(width)}  {text}")


@click.command()
@with_run(required=False)
@click.option("--all", "whole", is_flag=True, help="All runs and all that was added.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where to write.")
@click.option("--format", "form", type=click.Choice(FORMS), help="By the ending of FILE, else ttl, unless given.")
@with_home
def export(run: str | None, whole: bool, output: Path | None, form: str | None, home: Path | None) -> None:
    """Write a run, or all of the home, as RDF.

    To a file, which is written whole or not at all, or to the output. RUN is an id, its beginning or end, or `latest`.
    """
    if (run is None) != whole:
        raise click.UsageError("Name a run, or give --all: provml export latest -o run.ttl")
    ending = output.suffix[1:].lower() if output is not None else ""
    if form is None and ending and ending not in FORMS:
        raise click.UsageError(f"No RDF ends in .{ending}. Let it end in one of {', '.join(FORMS)}, or give --format.")
    form = form or ending or "ttl"
    if output is None or str(output) == "-":
        with opened(home) as store:
            store.export(run, sys.stdout.buffer, form)
        sys.stdout.buffer.flush()
        return
    with opened(home) as store, whole_file(output) as file:
        count = store.export(run, file, form)
    click.echo(f"{count} triples in {output}", err=True)


@click.command()
@with_run(nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@with_home
def remove(run: tuple[str, ...], yes: bool, home: Path | None) -> None:
    """Remove runs for good.

    Their journals go, and all that only they said. RUN is an id, its beginning or end, or `latest`. Where one is not
    there or still goes on, none is removed.
    """
    with opened(home) as store:
        infos = {info.id: info for info in map(store.run, run)}
        for info in infos.values():
            if not yes:
                what = f"{info.name}, {info.status}, {info.events} events"
                click.confirm(f"Remove run {info.id} ({what}) for good?", abort=True, err=True)
        store.remove_all(infos)
    for removed in infos:
        click.echo(f"removed {removed}")


COMMANDS = (runs, status, show, export, remove)
