"""artifacts, get: list what runs have stored, and write it out."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from provml.answers.humanize import format_size
from provml.cli.options import complete_run, format_option, home_option, open_store, print_answer, run_argument
from provml.cli.output import atomic_write
from provml.cli.terminal import GENERATED_ID, terminal_width


@click.command()
@run_argument(required=False)
@format_option
@home_option
def artifacts(run: str | None, fmt: str, home: Path | None) -> None:
    """List the artifacts of a run, or of all runs.

    An artifact is a file, a folder, a text or a figure whose content a run stored in the home. RUN is a run id, a
    unique prefix or suffix of it, the name of one run, or `latest`.
    """
    from provml.answers import Answer

    with open_store(home) as store:
        stored = store.artifacts(run)
        is_stored = [artifact.is_stored for artifact in stored]
    if fmt != "table":
        columns = ["artifact", "run", "data", "bytes", "type", "sha256", "path", "time", "stored"]
        rows = [
            (a.name, a.run, a.data, a.size, a.media_type, a.sha256, a.path, a.time, is_here)
            for a, is_here in zip(stored, is_stored, strict=True)
        ]
        print_answer(Answer(columns, rows), fmt)
        return
    rows_by_column = {
        "artifact": [a.name for a in stored],
        "run": [GENERATED_ID.sub("", a.run) if terminal_width() else a.run for a in stored],
        "size": [format_size(a.size) for a in stored],
        "type": ["folder" if a.is_folder else a.media_type for a in stored],
        "sha256": [a.sha256[:12] for a in stored],
        "time": [a.time for a in stored],
    }
    if not all(is_stored):
        rows_by_column["stored"] = ["" if is_here else "missing" for is_here in is_stored]
    columns = list(rows_by_column)
    print_answer(Answer(columns, list(zip(*rows_by_column.values(), strict=True))), fmt, "No artifacts yet.")


@click.command()
@click.argument("artifact", metavar="ARTIFACT", shell_complete=complete_run)
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write to this file, or into this directory; `-` for standard output.  [default: the artifact's name]",
)
@home_option
def get(artifact: str, name: str | None, output: str | None, home: Path | None) -> None:
    """Write out what a run has stored.

    ARTIFACT is the name of an artifact, its SHA-256 or at least eight digits of it, or a run. With a run, NAME is the
    artifact; without NAME, a directory as -o gets all artifacts of the run. The content is checked against its SHA-256.

    \b
    provml get model.pt                     the artifact of this name
    provml get latest loss.png -o plots/    an artifact of a run, into a directory
    provml get latest -o everything/        all artifacts of a run
    """
    target = Path(output) if output is not None else None
    to_folder = target is not None and (target.is_dir() or str(output).endswith("/"))
    with open_store(home) as store:
        matches = {match.name: match for match in store.find_artifacts(artifact, name or "")}  # the last of each name
        if len(matches) > 1 and not to_folder:
            store.artifact(artifact)  # raises the error that lists the names
        if target is not None and to_folder:
            target.mkdir(exist_ok=True)
        for match in matches.values():  # while the store is open: that of a service fetches the content
            if output == "-":
                match.copy_to(sys.stdout.buffer)
                sys.stdout.buffer.flush()
                continue
            if target is not None and target.is_file() and not match.is_folder:
                with atomic_write(target) as file:  # the user named this file, so it is replaced
                    match.copy_to(file)
                path = target
            else:
                path = match.save(target if target is not None else match.file_name)
            click.echo(f"Wrote {format_size(match.size)} to {path}", err=True)


COMMANDS = (artifacts, get)
