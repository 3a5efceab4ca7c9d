"""compare: what differs between runs, and what is the same."""

from __future__ import annotations

from pathlib import Path

import click

from provml.cli.options import format_option, home_option, open_store, print_answer, run_argument
from provml.cli.terminal import terminal_width


@click.command()
@run_argument(nargs=-1, required=True)
@format_option
@home_option
def compare(run: tuple[str, ...], fmt: str, home: Path | None) -> None:
    """Show what differs between runs.

    \b
    provml compare monday tuesday
    provml compare monday tuesday latest --format csv

    Compares hyperparameters, data, measures, adaptations, code, environment, and where the data of the trainings comes
    from: the lineage names the first step or dataset that differs. What is the same comes last, in one line. RUN is a
    run id, a unique prefix or suffix of it, the name of one run, or `latest`.
    """
    from provml.cli.run_comparison import format_comparison

    with open_store(home) as store:
        comparison = store.compare(*run)
    if fmt == "table":
        click.echo(format_comparison(comparison, terminal_width()))
    else:
        print_answer(comparison, fmt)


COMMANDS = (compare,)
