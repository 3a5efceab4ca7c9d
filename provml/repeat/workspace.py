"""A place in which a run is executed again: a worktree at its commit with its changes and its data, and an environment.

Everything is in one folder, which is removed at the end. The checkout of the user is not touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import provml
from provml.errors import CannotRepeat
from provml.journal.artifacts import ArtifactFiles
from provml.recording.repetition import VARIABLES, git_environment
from provml.repeat.checks import exact_patch, has_digest, original_path
from provml.repeat.needs import STARTUP, DataFile, Needs

LEVELS = ("1", "2", "3")
"""Folders above the worktree, so that data at `../data` also has a place inside the workspace."""
Report = Callable[[str], None]


@dataclass
class Workspace:
    """Where the command is executed: the working directory, the code, the program of Python, and problems."""

    directory: Path
    code: Path | None
    python: str = sys.executable
    problems: list[str] = field(default_factory=list)
    """What differs from the first run and could not be changed."""

    def command(self, needs: Needs) -> list[str]:
        """Return the command of the run, with the script of this workspace."""
        arguments = [self._argument(needs, argument) for argument in needs.command[1:]]
        if needs.is_by_provml_run:
            arguments = ["-m", "provml", "run", *needs.autolog_options, *arguments]
        return [self.python, *arguments]

    def _argument(self, needs: Needs, argument: str) -> str:
        """Return an argument; one that is the script by an absolute path, or from outside, is the script here."""
        script, top = str(needs.process.get("script_path", "")), needs.checkout
        if self.code is None or top is None or not script or not Path(script).is_relative_to(top):
            return argument
        is_script = os.path.normpath(needs.working_directory / argument) == os.path.normpath(script)
        is_outside = not needs.working_directory.is_relative_to(top)
        if is_script and (Path(argument).is_absolute() or is_outside):
            return str(self.code / Path(script).relative_to(top))
        return argument

    def environment(self, needs: Needs) -> dict[str, str]:
        """Return the environment variables: those of this process, with the recorded ones as they were."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PROVML_")}
        for name in VARIABLES:
            variables.pop(name, None)
        variables |= {name: value for name, value in needs.variables.items() if not name.startswith("PROVML_")}
        paths = [self._path(needs, path) for path in variables.pop("PYTHONPATH", "").split(os.pathsep)]
        paths = [path for path in paths if path and not path.replace(os.sep, "/").endswith(STARTUP)]
        if paths:
            variables["PYTHONPATH"] = os.pathsep.join(paths)
        return variables

    def _path(self, needs: Needs, path: str) -> str:
        top = needs.checkout
        if self.code is None or top is None or not path or not Path(path).is_relative_to(top):
            return path
        return str(self.code / Path(path).relative_to(top))


@contextlib.contextmanager
def make_workspace(
    needs: Needs, repository: Path | None, *, folder: Path | None = None, keep: bool = False, report: Report
) -> Iterator[Workspace]:
    """Make a worktree with the code and the data of a run; remove it at the end unless it is to be kept."""
    if folder is None:
        root = Path(tempfile.mkdtemp(prefix="provml-rerun-"))
    else:
        root = folder.absolute()
        if root.exists() and any(root.iterdir()):
            raise CannotRepeat(needs.run, f"the folder {root} is not empty", "Pass a new folder.")
        root.mkdir(parents=True, exist_ok=True)
    tree = root.joinpath(*LEVELS, needs.checkout.name if needs.checkout is not None else "code")
    try:
        yield _fill(needs, repository, root, tree, report)
    finally:
        if keep:
            report(f"Kept {tree}")
        else:
            _git(repository, "worktree", "remove", "--force", str(tree))
            shutil.rmtree(root, ignore_errors=True)
            _git(repository, "worktree", "prune")


def _fill(needs: Needs, repository: Path | None, root: Path, tree: Path, report: Report) -> Workspace:
    commit = str(needs.process["git_commit"])
    report(f"Checking out {commit[:12]}")
    error = _git(repository, "-c", f"core.hooksPath={os.devnull}", "worktree", "add", "--detach", str(tree), commit)
    if error:
        raise CannotRepeat(needs.run, f"git made no worktree: {error}", "Check the repository.")
    workspace = Workspace(tree, tree)
    if "git_diff_sha256" in needs.process:
        _apply_patch(needs, repository, tree, workspace)
    directory, top = needs.working_directory, needs.checkout
    inside = top is not None and directory.is_relative_to(top)
    workspace.directory = tree / directory.relative_to(top) if inside and top is not None else root / "work"
    workspace.directory.mkdir(parents=True, exist_ok=True)
    for item in needs.data:
        _provide(needs, item, root, workspace, report)
    script, sha256 = Path(str(needs.process.get("script_path", ""))), needs.process.get("script_sha256")
    if sha256 and top is not None and script.is_relative_to(top):
        copy = tree / script.relative_to(top)
        if not has_digest(copy, str(sha256)):
            workspace.problems.append(f"the script {script.name} is not the one that ran")
    return workspace


def _apply_patch(needs: Needs, repository: Path | None, tree: Path, workspace: Workspace) -> None:
    exact = exact_patch(needs, repository)
    patch = exact if exact is not None else needs.patch
    if patch is None:
        workspace.problems.append("the uncommitted changes are not stored")
        return
    if exact is None:
        workspace.problems.append("the patch of uncommitted changes has redacted parts")
    error = _git(tree, "apply", "--binary", "--whitespace=nowarn", "-", data=patch)
    if error:
        workspace.problems.append(f"the patch of uncommitted changes cannot be applied: {error}")


def _git(folder: Path | None, *arguments: str, data: bytes = b"") -> str:
    """Run git; return the last line of its message if it fails, else an empty text."""
    if folder is None or not folder.is_dir():
        return f"there is no folder {folder}"
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=git_environment(), input=data, capture_output=True, check=False
    )
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else ""


# ---- data


def _provide(needs: Needs, item: DataFile, root: Path, workspace: Workspace, report: Report) -> None:
    """Have data at its path in the workspace, with its content if that exists anywhere."""
    if "://" in item.path or not item.sha256:
        return
    target = _target(needs, item, workspace)
    if target is None:  # outside of the checkout: it is used where it is
        if not has_digest(original_path(needs, item), item.sha256):
            workspace.problems.append(f"the data {item.path} is not the same")
        return
    if has_digest(target, item.sha256):
        return
    if not target.resolve().is_relative_to(root.resolve()):
        workspace.problems.append(f"the data {item.path} has no place in the workspace")
        return
    source = original_path(needs, item)
    if has_digest(source, item.sha256):
        report(f"Copying {item.path}")
        _copy(source, target)
    elif item.is_stored:
        report(f"Restoring {item.path}")
        _restore(ArtifactFiles(needs.home), item.sha256, target)
    else:
        workspace.problems.append(f"the data {item.path} is not the same")
        if source.exists() and not target.exists():
            _copy(source, target)


def _target(needs: Needs, item: DataFile, workspace: Workspace) -> Path | None:
    """Return the place of data in the workspace; None if the script finds it where it was."""
    path, top = Path(item.path), needs.checkout
    if not path.is_absolute():
        return workspace.directory / path
    if top is not None and workspace.code is not None and path.is_relative_to(top):
        return workspace.code / path.relative_to(top)
    return None


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def _restore(files: ArtifactFiles, sha256: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if files.is_folder(sha256):
        files.copy_folder(sha256, target)
        return
    with target.open("wb") as file:
        files.copy(sha256, file)


# ---- environment


def make_environment(needs: Needs, folder: Path, report: Report) -> str:
    """Make a virtual environment with the packages of a run; return its program of Python.

    provml itself is the one that runs now: the new run has to be linked to the first.
    """
    report("Making a virtual environment")
    _run(needs, [sys.executable, "-m", "venv", "--without-pip", str(folder)])
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    source = folder / "provml-source"
    source.mkdir()
    (source / "provml").symlink_to(Path(provml.__file__).parent, target_is_directory=True)
    done = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    Path(done.stdout.strip(), "provml.pth").write_text(f"{source}\n", encoding="utf-8")
    wanted = {name: version for name, version in (needs.packages or needs.software).items() if name != "provml"}
    if wanted:
        report(f"Installing {len(wanted)} packages")
        requirements = folder / "requirements.txt"
        requirements.write_text("".join(f"{name}=={version}\n" for name, version in wanted.items()), encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
        _run(needs, [*pip, "--disable-pip-version-check", "-r", str(requirements)])
    return str(python)


def _run(needs: Needs, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        reason = f"the virtual environment was not made: {lines[-1] if lines else done.returncode}"
        raise CannotRepeat(needs.run, reason, "Repeat the run without --venv, in an environment that you made.")
