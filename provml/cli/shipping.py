"""ship: send the runs of a home to a service."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provml.answers.humanize import format_size
from provml.cli.options import complete_run, format_option, journals_home, print_answer
from provml.errors import ServiceError, plural

if TYPE_CHECKING:
    from provml.remote.shipper import HomeShipment

FOLLOW_SECONDS = 1.0


@click.command()
@click.argument("home", type=click.Path(path_type=Path))
@click.argument("url")
@click.option(
    "--run", "runs", multiple=True, metavar="RUN", shell_complete=complete_run, help="Only this run; repeatable."
)
@click.option("--follow", is_flag=True, help="Go on with what is recorded meanwhile, until Ctrl-C.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="File with the write token of the service.  [default: $PROVML_TOKEN]",
)
@format_option
def ship(home: Path, url: str, *, runs: tuple[str, ...], follow: bool, token_file: Path | None, fmt: str) -> None:
    """Send the runs of a home to a service.

    HOME is a directory of runs, URL that of a service, such as http://host:8420. What the service has already is not
    sent again, whoever sent it: an interrupted shipment goes on where it was. Runs that are being recorded are sent as
    far as they are. The exit code is 1 if the service refused a run.
    """
    from provml.journal.run_files import find_run_folder
    from provml.remote.connection import parse_address, read_token_file
    from provml.remote.shipper import HomeShipment

    folder = journals_home(home)
    address = parse_address(url, read_token_file(token_file) if token_file is not None else None)
    ids = {find_run_folder(folder, run).name for run in runs}
    shipment = HomeShipment(folder, address, ids)
    try:
        if follow:
            _follow(shipment)
        else:
            shipment.send()
    finally:
        shipment.close()
    _report(shipment, folder, fmt)


def _follow(shipment: HomeShipment) -> None:
    is_away = False
    try:
        while True:
            try:
                shipment.send()
                is_away = False
            except ServiceError as error:
                if not is_away:
                    click.echo(f"provml: {error} Trying again.", err=True)
                is_away = True
            time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        return


def _report(shipment: HomeShipment, folder: Path, fmt: str) -> None:
    from provml.answers import Answer
    from provml.journal.shipping import read_state, unsent_bytes

    rows = []
    for run in shipment.sent_runs():
        state = read_state(folder / "runs" / run)
        size = sum(state.sent.values()) if state is not None else 0
        missing = unsent_bytes(folder / "runs" / run, state) if state is not None else 0
        rows.append((run, size, missing, shipment.errors.get(run, "")))
    if fmt != "table":
        print_answer(Answer(["run", "bytes", "missing", "error"], rows), fmt)
    else:
        total = format_size(sum(row[1] for row in rows))
        click.echo(f"{plural(len(rows), 'run')} ({total}) at {shipment.url}")
        for run, error in shipment.errors.items():
            click.echo(f"provml: {run}: {error}", err=True)
    if shipment.errors:
        sys.exit(1)


COMMANDS = (ship,)
