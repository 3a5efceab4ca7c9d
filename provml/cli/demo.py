"""The command demo: trainings for real, recorded, validated and asked."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import click

from provml.cli.door import with_home
from provml.errors import BrokenFile
from provml.resources import default_home

ROOMY = 80
"""On a terminal with fewer columns, the bar and the answers are made to fit."""
FRAMEWORKS = ("keras", "torch", "sklearn")


@click.command()
@click.option("--framework", type=click.Choice(FRAMEWORKS), help="Train with this framework instead of plain Python.")
@with_home
def demo(framework: str | None, home: Path | None) -> None:
    """Train a small network in several settings, and ask what happened.

    Six real trainings are recorded (one of them fails), validated, and asked the eight questions of the DNNProv paper.
    Nothing but provml is needed; run again, it adds to what is there.
    """
    from provml.demo import framework as frameworks
    from provml.demo import tour, trial

    folder = (home or default_home()).absolute()
    model, train, besides = frameworks.way(framework)
    _try_to_write(folder)
    new: list[str] = []
    share = trial.EPOCHS + 1
    columns = shutil.get_terminal_size().columns
    is_narrow = columns < ROOMY
    with click.progressbar(
        length=share * len(trial.TRIALS),
        label="training",
        file=sys.stderr,
        item_show_func=_shown,
        width=0 if is_narrow else 36,  # 0: as wide as the terminal leaves room for
        show_eta=not is_narrow,
    ) as bar:
        for number, setting in enumerate(trial.TRIALS, start=1):
            try:
                for run in train(setting, folder):
                    if run not in new:
                        new.append(run)
                    bar.update(1, setting.name)
            except trial.Hopeless:
                pass  # the run is recorded as FAILED with this error, which is what it is here for
            bar.update(number * share - bar.pos, setting.name)
    option = f" --home {shlex.quote(str(home))}" if home else ""
    width = columns if sys.stdout.isatty() else None
    holds = tour.show(folder, model, new, click.echo, besides=besides, option=option, width=width)
    if not holds:
        sys.exit(1)


def _try_to_write(folder: Path) -> None:
    """A home that nothing can be written to is told at once: what is trained is kept there, recorded or not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = f"nothing can be written there ({(error.strerror or str(error)).lower()})"
        raise BrokenFile(reason, "Name another folder with --home or PROVML_HOME.", file=str(folder)) from error


def _shown(name: str | None) -> str:
    return name or ""


COMMANDS = (demo,)
