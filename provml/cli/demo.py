"""demo: real trainings, recorded, validated and queried."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import click

from provml.cli.options import home_for_reading, home_option, local_home
from provml.errors import FileFormatError

NARROW_COLUMNS = 80
"""On a narrower terminal, the progress bar and the answers are shortened to fit."""
FRAMEWORKS = ("keras", "torch", "sklearn")


@click.command(short_help="Record six small trainings and ask questions.")
@click.option("--framework", type=click.Choice(FRAMEWORKS), help="Train with this framework instead of plain Python.")
@home_option
def demo(framework: str | None, home: Path | None) -> None:
    """Record six small trainings and ask the questions of the DNNProv paper.

    The trainings are real, and one of them fails. They are recorded, validated, and queried with the eight questions of
    the paper. Only provml is needed. Each call adds six runs to the home.
    """
    from provml.demo import frameworks, report, settings

    folder = local_home(home)
    model, train, parameters = frameworks.choose(framework)
    _check_writable(folder)
    new: list[str] = []
    share = settings.EPOCHS + 1
    columns = shutil.get_terminal_size().columns
    is_narrow = columns < NARROW_COLUMNS
    with click.progressbar(
        length=share * len(settings.SETTINGS),
        label="training",
        file=sys.stderr,
        item_show_func=_setting_name,
        width=0 if is_narrow else 36,  # 0: the full width of the terminal
        show_eta=not is_narrow,
    ) as bar:
        for number, setting in enumerate(settings.SETTINGS, start=1):
            try:
                for run in train(setting, folder):
                    if run not in new:
                        new.append(run)
                    bar.update(1, setting.name)
            except settings.TrainingDiverged:
                pass  # this setting fails on purpose: its run is recorded as FAILED
            bar.update(number * share - bar.pos, setting.name)
    option = f" --home {shlex.quote(str(home))}" if home else home_for_reading(folder)
    width = columns if sys.stdout.isatty() else None
    holds = report.show(folder, model, new, click.echo, parameters=parameters, home_option=option, width=width)
    if not holds:
        sys.exit(1)


def _check_writable(folder: Path) -> None:
    """Fail before the trainings start if the home is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = f"the directory is not writable ({(error.strerror or str(error)).lower()})"
        advice = "Choose another home with --home or PROVML_HOME."
        raise FileFormatError(reason, advice, file=str(folder)) from error


def _setting_name(name: str | None) -> str:
    return name or ""


COMMANDS = (demo,)
