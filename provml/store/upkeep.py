"""A home kept in order: its journals verified, runs removed, all of it copied."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

import msgspec

from provml import event
from provml.errors import BrokenFile
from provml.run import is_written, journals, journals_of
from provml.slate import snapshot, unwritten
from provml.store.adding import Added
from provml.store.kin import Eldest
from provml.store.progress import Journal, Problem
from provml.store.reading import lifted, whole_lines

BESIDE = ("queries", "shapes")
"""Folders of a home in which users keep questions and promises of their own."""


def verify(home: Path) -> list[Problem]:
    """Read every journal and every file that was added anew; what is damaged, or cannot be read."""
    eldest, found = Eldest(), []
    for key in journals(home):
        journal, file = Journal(), f"runs/{key}"
        try:
            for _ in lifted(file, home / file, journal, eldest):
                pass
        except FileNotFoundError:  # removed just now
            continue
        except OSError as error:
            journal.refuse(file, (error.strerror or str(error)).lower())
        found += journal.problems
    added = Added(home)
    checked = (added.check(path) for path in sorted(added.folder.glob("*.nq")))
    return found + [problem for problem in checked if problem is not None]


def remove(home: Path, run_ids: Iterable[str]) -> None:
    """Remove runs, each in one step, so that no half of one is left; none of them where one still goes on."""
    folders = [home / "runs" / run_id for run_id in run_ids]
    for folder in folders:
        writing = [path for path in journals_of(folder) if is_written(path)]
        if writing:
            what = "the run still goes on" if len(writing) == 1 else f"{len(writing)} processes still write it"
            raise BrokenFile(what, "Stop it first.", file=f"{folder.name}/{writing[0].name}")
    for folder in folders:
        away = home / f"removed-{uuid.uuid4().hex[:8]}"
        folder.rename(away)
        shutil.rmtree(away)


def backup(home: Path, target: Path) -> None:
    """Copy the journals, what was added and the user's own questions and shapes to a new folder, a home of its own.

    Runs may go on. What fails, or is killed, leaves no half of it that looks like a home.
    """
    if target.exists() and not (target.is_dir() and all(path.suffix == ".part" for path in target.iterdir())):
        raise BrokenFile("there is something already", "Name a new folder.", file=str(target))
    part = target / f"{uuid.uuid4().hex[:8]}.part"
    try:
        part.mkdir(parents=True)
        for key in journals(home):
            _copy_lines(home / "runs" / key, part / "runs" / key)
        for path in sorted((home / "added").glob("*.nq")):
            (part / "added").mkdir(exist_ok=True)
            shutil.copy2(path, part / "added" / path.name)
        for name in BESIDE:
            if (home / name).is_dir():
                shutil.copytree(home / name, part / name)
        for path in sorted(part.iterdir()):
            path.rename(target / path.name)
    except (OSError, shutil.Error) as error:
        reason = str(error.strerror or error).lower()
        advice = "Nothing is left of the copy: see to it and try again."
        raise BrokenFile(f"it cannot be copied ({reason})", advice, file=str(error.filename or home)) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        with contextlib.suppress(OSError):
            target.rmdir()  # where nothing came of it


def _copy_lines(path: Path, copy: Path) -> None:
    """Copy the whole lines of a journal, which may be written to meanwhile."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        with copy.open("wb") as file:
            is_over, told, held = not is_written(path), 0, snapshot(path)
            for _, _, line in whole_lines(path):
                file.write(line + b"\n")
                told = max(told, _told(line))
            file.writelines(line + b"\n" for line in unwritten(held, told, is_over=is_over))
        shutil.copystat(path, copy)
    except FileNotFoundError:  # its run was removed just now
        copy.unlink(missing_ok=True)


def _told(line: bytes) -> int:
    """How many batches a journal tells together, by a line of it."""
    if line.startswith(b'{"e":"batches"'):
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):  # a damaged line is copied as it is
            what = event.decode(line)
            return what.told if isinstance(what, event.Batches) else 0
    return 0
