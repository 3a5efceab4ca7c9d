"""rerun: execute a run again and compare the results."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provml.cli.options import home_option, require_home, run_argument

if TYPE_CHECKING:
    from provml.repeat import Check, Rerun

MARKS = {"met": "ok", "warning": "warning", "obstacle": "OBSTACLE", "fatal": "OBSTACLE"}
COLORS = {"REPRODUCED": "green", "CLOSE": "yellow", "DIFFERS": "red", "UNDECIDED": "yellow"}
MAX_LINES = 10
"""Differences that are listed."""


def _check_tolerance(context: click.Context, param: click.Parameter, value: float) -> float:
    if math.isnan(value):  # is in every range
        raise click.BadParameter("nan is no tolerance.", context, param)
    return value


def _tolerance_option(name: str, default: float, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator of an option that takes a tolerance."""
    kind = click.FloatRange(min=0)
    return click.option(name, type=kind, callback=_check_tolerance, default=default, show_default=True, help=text)


@click.command(short_help="Execute a run again and compare the results.")
@run_argument(default="latest")
@_tolerance_option("--rtol", 1e-3, "Relative tolerance.")
@_tolerance_option("--atol", 1e-8, "Absolute tolerance.")
@click.option("--ignore", multiple=True, metavar="PATTERN", help="Do not compare these measures; may be repeated.")
@click.option("--exact", is_flag=True, help="Exit with 1 also if the results are only close.")
@click.option("--venv", is_flag=True, help="Install the packages of the run in a new virtual environment first.")
@click.option("--in-place", is_flag=True, help="Use the working directory of the run; files there may be overwritten.")
@click.option("--force", is_flag=True, help="Go on although code or data are not the same.")
@click.option("--dry-run", is_flag=True, help="Only check what a rerun needs.")
@click.option(
    "--repository",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="A clone that has the commit.  [default: the checkout of the run]",
)
@click.option(
    "--workspace",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="A new folder for the worktree, which is kept.  [default: a temporary one]",
)
@click.option("--format", "fmt", type=click.Choice(["table", "json"]), default="table", help="Text, or JSON.")
@home_option
def rerun(run: str, fmt: str, exact: bool, workspace: Path | None, home: Path | None, **options: Any) -> None:
    """Execute a run again and compare the results.

    The command of the run is executed in a git worktree at its commit, with its uncommitted changes and its data. The
    new run is linked to the first. Settings, data, measures and digests of models are compared.

    \b
    REPRODUCED  all equal                                     exit code 0
    CLOSE       measures within --rtol and --atol             exit code 0
    DIFFERS     anything else; UNDECIDED: nothing to compare  exit code 1
    The run cannot be repeated here                           exit code 3
    """
    from provml.repeat import rerun as execute_again

    folder = require_home(home)
    result = execute_again(
        run,
        home=folder,
        workspace=workspace,
        keep=workspace is not None,
        report=lambda text: click.echo(f"provml: {text}", err=True),
        **options,
    )
    if fmt == "json":
        click.echo(json.dumps(result.to_dict(), indent=1))
    elif result.verdict is None:
        print_checks(result.checks)
    else:
        _print_result(result)
    sys.exit(_exit_code(result, exact=exact))


def _exit_code(result: Rerun, *, exact: bool) -> int:
    if result.verdict is None:
        return 3 if any(check.level in ("obstacle", "fatal") for check in result.checks) else 0
    is_success = result.verdict == "REPRODUCED" or (result.verdict == "CLOSE" and not exact)
    return 0 if is_success else 1


def print_checks(checks: Sequence[Check]) -> None:
    """Print what a rerun needs, and what stands in the way."""
    for check in checks:
        click.echo(f"{MARKS[check.level]:9} {check.subject:9} {check.text}")
    count = sum(check.level in ("obstacle", "fatal") for check in checks)
    click.echo("Nothing stands in the way." if not count else f"{count} of {len(checks)} checks failed.")


def _print_result(result: Rerun) -> None:
    comparison = result.comparison
    if comparison is None:
        return
    verdict = click.style(comparison.verdict, fg=COLORS[comparison.verdict], bold=True)
    click.echo(f"{verdict}  {result.first}, repeated as {result.run}")
    for reason in comparison.reasons:
        click.echo(f"  {reason}")
    if result.exit_code:
        click.echo(f"  the command ended with the exit code {result.exit_code}")
    first = comparison.first_difference
    if first is not None:
        click.echo(f"First difference: {first}")
    others = [item for item in comparison.differences if item is not first]
    for item in others[:MAX_LINES]:
        click.echo(f"  {item}{' (close)' if item.is_close and item.kind == 'measures' else ''}")
    if len(others) > MAX_LINES:
        click.echo(f"  and {len(others) - MAX_LINES:,} more: --format json")
    if comparison.skipped:
        click.echo(f"Not compared: {', '.join(comparison.skipped)}")
    for condition in result.conditions:
        click.echo(f"Note: {condition}")


COMMANDS = (rerun,)
