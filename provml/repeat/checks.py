"""What stands in the way of repeating a run: command, code, data, packages, seeds, machine."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from provml.errors import plural
from provml.paths import is_url
from provml.recording import environment
from provml.recording.hashing import digest
from provml.recording.repetition import git_environment, packages, redact_patch, uncommitted_changes
from provml.repeat.needs import DataFile, Needs

Level = Literal["met", "warning", "obstacle", "fatal"]
"""`warning`: the results may differ. `obstacle`: they will probably differ. `fatal`: the run cannot be repeated."""
GIT_SECONDS = 60.0
MAX_NAMES = 5


@dataclass(frozen=True)
class Check:
    """The result of one check: what was checked, how it stands, and a sentence."""

    subject: str
    level: Level
    text: str


def check_run(
    needs: Needs, *, repository: Path | None = None, in_place: bool = False, venv: bool = False
) -> list[Check]:
    """Return the results of all checks. Nothing is changed."""
    checks = [
        *_check_end(needs),
        *_check_command(needs),
        *_check_code(needs, repository or needs.checkout, in_place=in_place),
        *(_check_data(needs, item) for item in needs.data),
        *_check_packages(needs, venv=venv),
        *_check_seeds(needs),
        *_check_machine(needs),
    ]
    if not needs.data:
        checks.append(Check("data", "warning", "No files are recorded as data, so changes of data go unnoticed."))
    return checks


def _check_end(needs: Needs) -> Iterator[Check]:
    status = f"is {needs.end.status}" if needs.end is not None else "has not ended"
    if needs.end is None or needs.end.status != "FINISHED":
        yield Check("run", "warning", f"The run {status}, so there may be little to compare.")


def _check_command(needs: Needs) -> Iterator[Check]:
    if not needs.command:
        text = "No command is recorded: the environment was not captured, or the run was imported."
        yield Check("command", "fatal", text)
    elif not needs.is_command_whole:
        text = f"Parts of the command were redacted or cut: {needs.process['command_line']}"
        yield Check("command", "fatal", text)
    elif needs.process.get("script_path") is None and "-m" not in needs.command:
        yield Check("command", "fatal", "The run was not recorded by a script: a notebook cannot be started again.")
    elif needs.header.rank or _has_ranks(needs):
        text = f"A launcher started several processes ({needs.writers} journals); only the command of one is recorded."
        yield Check("command", "fatal", text)
    else:
        yield Check("command", "met", f"The command is {needs.process['command_line']}")


def _has_ranks(needs: Needs) -> bool:
    """Return whether a launcher made up the id of the run."""
    return needs.run.startswith(("torchrun-", "torch-", "spawn-", "slurm-", "mpi-", "ompi-", "hydra-", "pals-", "jsm-"))


# ---- code


def has_commit(repository: Path, commit: str) -> bool:
    """Return whether a repository has a commit."""
    return _git(repository, "cat-file", "-e", f"{commit}^{{commit}}") is not None


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git; None if it fails."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=git_environment(),
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None


def exact_patch(needs: Needs, repository: Path | None) -> bytes | None:
    """Return the uncommitted changes of a run byte by byte: the stored patch, or those that the checkout still has.

    None if neither has the recorded SHA-256: the patch was redacted, was too large, or was not stored.
    """
    sha256 = str(needs.process.get("git_diff_sha256", ""))
    patch = needs.patch
    if patch is not None and hashlib.sha256(patch).hexdigest() == sha256:
        return patch
    if repository is None or not repository.is_dir():
        return None
    files = [str(needs.process.get("script_path", ""))]
    changes = uncommitted_changes(repository, GIT_SECONDS, _relative(files, repository))
    if changes is None or not changes.patch:
        return None
    is_same = changes.sha256 == sha256 or (patch is not None and redact_patch(changes.patch) == patch)
    return changes.patch if is_same else None


def _relative(files: list[str], top: Path) -> list[str]:
    return [Path(file).relative_to(top).as_posix() for file in files if Path(file).is_relative_to(top)]


def _check_code(needs: Needs, repository: Path | None, *, in_place: bool) -> Iterator[Check]:
    commit = str(needs.process.get("git_commit", ""))
    if not commit or in_place:
        yield from _check_code_in_place(needs, commit, in_place=in_place)
        return
    if repository is None or not repository.is_dir():
        text = f"The checkout {repository} is not here. Pass a clone of it with --repository."
        yield Check("code", "fatal", text)
        return
    if not has_commit(repository, commit):
        yield Check("code", "fatal", f"{repository} has no commit {commit[:12]}. Fetch it, or pass another clone.")
        return
    yield Check("code", "met", f"{repository} has the commit {commit[:12]}")
    if "git_diff_sha256" in needs.process:
        if exact_patch(needs, repository) is not None:
            yield Check("changes", "met", "The changes that were not committed are stored")
        elif needs.patch is not None:
            yield Check("changes", "obstacle", "The patch of uncommitted changes has redacted parts.")
        else:
            text = "The code had changes that were not committed; the patch was too large, or was not to be stored."
            yield Check("changes", "obstacle", text)
    elif needs.process.get("git_dirty"):
        yield Check("changes", "obstacle", "The code had changes that were not committed, and they are not stored.")


def _check_code_in_place(needs: Needs, commit: str, *, in_place: bool) -> Iterator[Check]:
    if not in_place:
        text = "The code was not in a git checkout. Use --in-place: the script then runs in its own folder, and may"
        yield Check("code", "fatal", f"{text} overwrite files there.")
        return
    folder = needs.checkout or needs.working_directory
    if not needs.working_directory.is_dir():
        yield Check("code", "fatal", f"The working directory {needs.working_directory} is not here.")
        return
    state = environment.code(folder) if commit else {}
    if commit and state.get("git_commit") != commit:
        current = str(state.get("git_commit", "none"))[:12]
        yield Check("code", "obstacle", f"The checkout is at the commit {current}, the run was at {commit[:12]}.")
    script = Path(str(needs.process.get("script_path", "")))
    if needs.process.get("script_sha256") and not has_digest(script, str(needs.process["script_sha256"])):
        yield Check("script", "obstacle", f"{script} has another content now, or is missing.")
    else:
        yield Check("script", "met", f"{script} is the same")


def has_digest(path: Path, sha256: str) -> bool:
    """Return whether a file or folder exists and has a content."""
    if not path.exists():
        return False
    result = digest(path)
    return result is not None and result[0] == sha256


# ---- data


def original_path(needs: Needs, item: DataFile) -> Path:
    """Return where data was when it was used."""
    return needs.working_directory / item.path


def _check_data(needs: Needs, item: DataFile) -> Check:
    if is_url(item.path) or "://" in item.path:
        return Check("data", "warning", f"{item.path} is an address: whether it has changed is not checked.")
    if not item.sha256:
        return Check("data", "warning", f"{item.path} has no digest: whether it has changed is not known.")
    path = original_path(needs, item)
    if has_digest(path, item.sha256):
        return Check("data", "met", f"{item.path} is the same")
    if item.is_stored:
        return Check("data", "met", f"{item.path} has changed or is gone; the home has the content")
    problem = "has another content now" if path.exists() else f"is not at {path}"
    return Check("data", "obstacle", f"{item.path} {problem}.")


# ---- packages, seeds, machine


def _check_packages(needs: Needs, *, venv: bool) -> Iterator[Check]:
    version = str(needs.process.get("python_version", ""))
    current = ".".join(map(str, sys.version_info[:3]))
    if version and version.split(".")[:2] != current.split(".")[:2]:
        yield Check("packages", "warning", f"The run used Python {version}; this is {current}.")
    recorded = needs.packages or needs.software
    if not recorded:
        yield Check("packages", "warning", "No installed packages are recorded.")
    elif venv:
        yield Check("packages", "met", f"The environment will have {plural(len(recorded), 'package')} of the run")
    else:
        yield _compare_packages(needs, recorded)


def _compare_packages(needs: Needs, recorded: dict[str, str]) -> Check:
    installed = dict(line.split("==") for line in packages().splitlines()) | environment.software()
    wrong = [
        f"{name} {version} (here {installed.get(name, 'missing')})"
        for name, version in recorded.items()
        if installed.get(name) != version and name != "provml"
    ]
    if not wrong:
        return Check("packages", "met", f"{plural(len(recorded), 'package')} have the same versions")
    wrong.sort(key=lambda text: text.split()[0] not in needs.software)  # imported ones first
    more = f" and {len(wrong) - MAX_NAMES} more" if len(wrong) > MAX_NAMES else ""
    return Check("packages", "warning", f"Other versions: {', '.join(wrong[:MAX_NAMES])}{more}. Use --venv.")


def _check_seeds(needs: Needs) -> Iterator[Check]:
    if needs.seeds:
        seeds = ", ".join(f"{name} {seed}" for name, seed in needs.seeds.items())
        yield Check("seeds", "met", f"Seeds are recorded: {seeds}")
    else:
        yield Check("seeds", "warning", "No seed of a random generator is recorded: results may differ each time.")


def _check_machine(needs: Needs) -> Iterator[Check]:
    current = environment.machine()
    for name in ("processor", "accelerator"):
        if name in needs.machine and needs.machine[name] != current.get(name):
            there, here = _names(needs.machine[name]), _names(current.get(name) or "none")
            yield Check("machine", "warning", f"The {name} was {there}; here it is {here}.")


def _names(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
