"""Execute a run again, record that as a new run that is linked to the first, and compare both."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provml.answers import html_table
from provml.errors import CannotRepeat
from provml.journal.annotations import AnnotationFile, annotate
from provml.journal.reader import read_header
from provml.journal.run_files import HasId, has_run, journals_of_run, run_folders
from provml.paths import absolute, default_home
from provml.recording.inherit import RERUN_VARIABLE
from provml.repeat.checks import Check, check_run
from provml.repeat.comparison import ATOL, RTOL, Comparison, Verdict, compare_results, read_results
from provml.repeat.needs import Needs, read_needs
from provml.repeat.workspace import Report, Workspace, make_environment, make_workspace
from provml.store import Store


@dataclass(frozen=True, repr=False)
class Rerun:
    """The result of a rerun: both runs, the checks, how the command ended, and how the results differ.

    `run` and `comparison` are None if nothing was executed (`dry_run`). `conditions` lists what was not as in the first
    run.
    """

    first: str
    run: str | None
    checks: tuple[Check, ...]
    conditions: tuple[str, ...]
    command: tuple[str, ...]
    exit_code: int | None = None
    comparison: Comparison | None = None

    @property
    def verdict(self) -> Verdict | None:
        """REPRODUCED, CLOSE, DIFFERS or UNDECIDED; None if nothing was executed."""
        return self.comparison.verdict if self.comparison is not None else None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the verdict is what it is."""
        return self.comparison.reasons if self.comparison is not None else ()

    def __repr__(self) -> str:
        return f"<Rerun of {self.first}: {self.verdict or 'not executed'}>"

    def _repr_html_(self) -> str:
        rows = [("run", self.run), ("verdict", self.verdict), ("reasons", "; ".join(self.reasons))]
        return html_table([f"Rerun of {self.first}", ""], [*rows, ("conditions", "; ".join(self.conditions))])

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        comparison = self.comparison
        first = comparison.first_difference if comparison is not None else None
        return {
            "first": self.first,
            "run": self.run,
            "verdict": str(self.verdict) if self.verdict else None,
            "reasons": list(self.reasons),
            "first_difference": str(first) if first is not None else None,
            "exit_code": self.exit_code,
            "command": list(self.command),
            "conditions": list(self.conditions),
            "not_compared": list(comparison.skipped) if comparison is not None else [],
            "checks": [{"subject": check.subject, "level": check.level, "text": check.text} for check in self.checks],
            "differences": [
                {
                    "kind": item.kind,
                    "name": item.name,
                    "first": item.first,
                    "second": item.second,
                    "close": item.is_close,
                }
                for item in (comparison.differences if comparison is not None else ())
            ],
        }


def check_repeatable(
    run: str | HasId, *, home: str | os.PathLike[str] | None = None, repository: str | os.PathLike[str] | None = None
) -> list[Check]:
    """Return what would stand in the way of repeating a run, and what is met. Nothing is executed."""
    needs = _find(run, home)
    is_in_place = "git_commit" not in needs.process
    return check_run(needs, repository=Path(repository) if repository else None, in_place=is_in_place)


def rerun(
    run: str | HasId,
    *,
    home: str | os.PathLike[str] | None = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    ignore: Sequence[str] = (),
    repository: str | os.PathLike[str] | None = None,
    workspace: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    venv: bool = False,
    force: bool = False,
    keep: bool = False,
    dry_run: bool = False,
    report: Report = lambda text: None,
) -> Rerun:
    """Execute a run again in a worktree of its commit, with its data, and compare the results.

    `run` is an id or a name as for `Store.run`. Measures are close if they differ by at most `atol + rtol * first`;
    those whose names match a pattern of `ignore` are not compared. `repository` is a clone that has the commit, by
    default the checkout of the run. `workspace` is a new folder for the worktree, which `keep` leaves there. With
    `in_place` the command runs in its own working directory. With `venv` it runs in a new virtual environment with the
    packages of the run. `force` goes on although data or code differ. Raise CannotRepeat if the run cannot be repeated.
    """
    needs = _find(run, home)
    clone = absolute(Path(repository)) if repository else needs.checkout
    checks = check_run(needs, repository=clone, in_place=in_place, venv=venv)
    stops = [check for check in checks if check.level == "fatal" or (check.level == "obstacle" and not force)]
    if dry_run:
        return Rerun(needs.run, None, tuple(checks), (), tuple(needs.command))
    if stops:
        advice = f"`provml verify --reproducible {needs.run}` lists all checks."
        advice = advice if _is_fatal(stops) else f"Restore it, or go on all the same with --force. {advice}"
        raise CannotRepeat(needs.run, " ".join(check.text for check in stops), advice)
    folder = Path(workspace) if workspace else None
    with _place(needs, clone, in_place=in_place, folder=folder, keep=keep, report=report) as place:
        if place.problems and not force:
            raise CannotRepeat(needs.run, "; ".join(place.problems), "Go on all the same with --force.")
        with _environment(needs, place, venv=venv, report=report):
            command = place.command(needs)
            before = run_folders(needs.home)
            code = _execute(needs, place, command)
    warnings = [check.text for check in checks if check.level in ("warning", "obstacle")]
    second = _new_run(needs, before)
    if second is None:
        reason = f"the command ended with the exit code {code} and recorded no run that repeats it"
        raise CannotRepeat(needs.run, reason, "Run the command yourself and look at its output.")
    ignored = tuple(ignore)
    comparison = compare_results(
        read_results(needs.home, needs.run), read_results(needs.home, second), rtol=rtol, atol=atol, ignore=ignored
    )
    result = Rerun(needs.run, second, tuple(checks), (*place.problems, *warnings), tuple(command), code, comparison)
    text = f"Rerun of {needs.run}: {comparison.verdict}. {'; '.join(comparison.reasons)}."
    annotate(AnnotationFile(needs.home / "runs" / second), "note", [text])
    return result


def _is_fatal(checks: Sequence[Check]) -> bool:
    return any(check.level == "fatal" for check in checks)


def _find(run: str | HasId, home: str | os.PathLike[str] | None) -> Needs:
    """Return what a run needs; for a rerun, what the run needs that it repeated."""
    folder = absolute(Path(home) if home else default_home())
    with Store(folder) as store:
        info = store.run(run)
    needs = read_needs(folder, info.id)
    visited = {needs.run}
    while (first := needs.header.rerun_of) and first not in visited and has_run(folder, first):
        visited.add(first)  # the workspace of a rerun is gone
        needs = read_needs(folder, first)
    return needs


@contextlib.contextmanager
def _place(
    needs: Needs, clone: Path | None, *, in_place: bool, folder: Path | None, keep: bool, report: Report
) -> Iterator[Workspace]:
    if in_place:
        yield Workspace(needs.working_directory, None)
        return
    with make_workspace(needs, clone, folder=folder, keep=keep, report=report) as workspace:
        yield workspace


@contextlib.contextmanager
def _environment(needs: Needs, place: Workspace, *, venv: bool, report: Report) -> Iterator[None]:
    if not venv:
        yield
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="provml-venv-") as folder:
        place.python = make_environment(needs, Path(folder, "venv"), report)
        yield


def _execute(needs: Needs, place: Workspace, command: list[str]) -> int:
    """Execute the command, with its output where that of this process goes, and return its exit code."""
    target = {
        "run": needs.run,
        "name": needs.header.name,
        "position": needs.position(),
        "home": str(needs.home),
        "suffix": f"rerun-{os.urandom(3).hex()}",
        "started": time.time(),
    }
    variables = place.environment(needs) | {"PROVML_HOME": str(needs.home), RERUN_VARIABLE: json.dumps(target)}
    for name in ("PROVML_CAPTURE_CODE", "PROVML_JOURNAL", "PROVML_VARIABLES"):
        if name in os.environ:
            variables[name] = os.environ[name]
    sys.stdout.flush()
    sys.stderr.flush()
    with subprocess.Popen(command, cwd=place.directory, env=variables) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the command got it too: wait until it has ended, then compare what there is
                continue


def _new_run(needs: Needs, before: set[str]) -> str | None:
    """Return the run that the command recorded as the one that repeats this one; None if there is none."""
    for run in sorted(run_folders(needs.home) - before):
        headers = map(read_header, journals_of_run(needs.home / "runs" / run))
        if any(header is not None and header.rerun_of == needs.run for header in headers):
            return run
    return None
