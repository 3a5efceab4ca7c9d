"""run: run a script, with its trainings recorded and nothing in it changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from provml.cli.options import home_option
from provml.paths import is_url

OWN_PROGRAM = ("-m", "-c", "-")
"""Arguments of Python that stand in place of a script."""


class ScriptCommand(click.Command):
    """A command whose options end with the script: what follows belongs to the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with_value = {text for option in self.params if not getattr(option, "is_flag", True) for text in option.opts}
        position = 0
        while position < len(args) and args[position].startswith("-") and args[position] not in OWN_PROGRAM:
            if args[position] == "--":
                return super().parse_args(ctx, args)
            position += 2 if args[position] in with_value else 1
        return super().parse_args(ctx, [*args[:position], "--", *args[position:]])


@click.command(
    cls=ScriptCommand,
    short_help="Run a script and record its trainings.",
    options_metavar="[OPTIONS]",
    add_help_option=True,
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
@click.option("--name", default="", help="Name of the experiment.  [default: the name of the script]")
@click.option("--model", default="", help="Name of the model.  [default: the name of the experiment]")
@click.option("--detail", type=click.Choice(["batch", "epoch"]), help="The smallest section that is recorded.")
@click.option("--every", type=click.IntRange(min=1), help="Record every n-th batch.")
@click.option("--framework", "frameworks", multiple=True, help="Record only this framework; may be repeated.")
@home_option
def run(program: tuple[str, ...], home: Path | None, frameworks: tuple[str, ...], **settings: Any) -> None:
    """Run a script, or a module with -m, and record its trainings. Nothing in it has to be changed.

    Everything after the script is passed to it. It runs as with `python`: its exit code, its output and its tracebacks
    are the same. Processes that it starts are recorded too.

        provml run train.py --epochs 10

        provml run -m torch.distributed.run --nproc-per-node 2 train.py
    """
    from provml.capture.autolog import check_frameworks, export_new_run, startup_folder
    from provml.recording.inherit import is_launched

    if not program or (program[0] in ("-m", "-c") and len(program) < 2):
        raise click.UsageError("There is nothing to run. Use `provml run train.py` or `provml run -m package.module`.")
    if program[0] not in OWN_PROGRAM and not Path(program[0]).exists():
        raise click.UsageError(f"There is no script {program[0]!r}. Use `provml run -m {program[0]}` for a module.")
    check_frameworks(list(frameworks) or None)
    chosen = {name: value for name, value in settings.items() if value}
    chosen |= {"frameworks": list(frameworks)} if frameworks else {}
    if program[0] not in OWN_PROGRAM:  # processes that the script starts may record before it
        chosen.setdefault("name", Path(program[0]).stem)
    environment = dict(os.environ)
    environment["PROVML_AUTOLOG"] = json.dumps(chosen)
    if home:
        environment["PROVML_HOME"] = str(home if is_url(str(home)) else Path(home).absolute())
    if not is_launched():  # `mpirun -n 2 provml run train.py`: the ranks find the id of their run themselves
        environment.setdefault("PROVML_RUN", export_new_run())
    paths = [str(startup_folder()), *filter(None, [environment.get("PYTHONPATH", "")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, *program]
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":  # there, a program that replaces itself returns to the shell at once
        sys.exit(subprocess.call(command, env=environment))
    os.execve(command[0], command, environment)


COMMANDS = (run,)
