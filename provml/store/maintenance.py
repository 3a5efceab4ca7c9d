"""Maintain a home: verify its journals, remove runs, copy it."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Collection, Iterable
from pathlib import Path

from provml.errors import FileFormatError
from provml.journal import segments
from provml.journal.process import user_name
from provml.journal.reader import JournalReader
from provml.journal.run_files import journals_of_run, list_annotations, list_journals
from provml.journal.seals import FOLDER as SEALS
from provml.journal.seals import LEDGER, Ledger
from provml.journal.status import is_being_written
from provml.store.annotations import read_annotations
from provml.store.artifacts import check_artifacts, copy_artifacts
from provml.store.checkpoint import JournalCheckpoint, Problem
from provml.store.imports import ImportedFiles
from provml.store.journal_mapping import JournalSource, map_events
from provml.store.siblings import FirstJournalCache

USER_FOLDERS = ("queries", "shapes")
"""Folders of a home with questions and shapes of the user."""


def verify(home: Path) -> list[Problem]:
    """Read all journals, annotations, artifacts and imported files, and return what is damaged or cannot be read."""
    first_journals, problems = FirstJournalCache(), []
    for key in list_journals(home):
        journal, file = JournalCheckpoint(), f"runs/{key}"
        try:
            for _ in map_events(JournalSource(file, home / file, first_journals), journal):
                pass
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError as error:
            journal.mark_unreadable(file, (error.strerror or str(error)).lower())
        problems += journal.problems
    for run in sorted({key.split("/")[0] for key in list_annotations(home)}):
        problems += read_annotations(home, run).problems
    problems += check_artifacts(home)
    problems += [Problem(file, 0, reason) for file, reason in segments.damages(home)]
    imported = ImportedFiles(home)
    checked = (imported.check(path) for path in sorted(imported.folder.glob("*.nq")))
    return problems + [problem for problem in checked if problem is not None]


def check_removable(home: Path, run_ids: Iterable[str]) -> None:
    """Raise FileFormatError if one of some runs is still running."""
    for folder in [home / "runs" / run_id for run_id in run_ids]:
        active = [path for path in journals_of_run(folder) if is_being_written(path)]
        if active:
            reason = "the run is still running" if len(active) == 1 else f"{len(active)} processes still write the run"
            raise FileFormatError(reason, "Stop it first.", file=f"{folder.name}/{active[0].name}")


def remove(home: Path, run_ids: Collection[str]) -> None:
    """Remove runs, each atomically; none of them if one is still running."""
    folders = [home / "runs" / run_id for run_id in run_ids]
    check_removable(home, run_ids)
    for folder in folders:
        removed = home / f"removed-{uuid.uuid4().hex[:8]}"
        with contextlib.suppress(FileNotFoundError):  # a packed run has no folder
            folder.rename(removed)
            shutil.rmtree(removed)
    segments.remove(home, run_ids)
    ledger = Ledger(home)
    if ledger.exists():
        for run_id in run_ids:
            ledger.append("removed", run=run_id, user=user_name())


def backup(home: Path, target: Path) -> None:
    """Copy everything but the index to a new folder, which is then a home of its own.

    Runs may be active. A copy that fails or is killed leaves nothing that looks like a home.
    """
    if target.exists() and not (target.is_dir() and all(path.suffix == ".part" for path in target.iterdir())):
        raise FileFormatError("the folder is not empty", "Use a new folder.", file=str(target))
    part = target / f"{uuid.uuid4().hex[:8]}.part"
    try:
        part.mkdir(parents=True)
        if (home / SEALS / LEDGER).is_file():  # first: a run that ends meanwhile has no seal in the copy
            (part / SEALS).mkdir()
            shutil.copy2(home / SEALS / LEDGER, part / SEALS / LEDGER)
        for key in [*list_journals(home), *list_annotations(home)]:
            _copy_lines(home / "runs" / key, part / "runs" / key)
        copy_artifacts(home, part)  # after the journals, so that all that they refer to is copied
        for path in sorted((home / "added").glob("*.nq")):
            (part / "added").mkdir(exist_ok=True)
            shutil.copy2(path, part / "added" / path.name)
        for name in USER_FOLDERS:
            if (home / name).is_dir():
                shutil.copytree(home / name, part / name)
        for path in sorted(part.iterdir()):
            path.rename(target / path.name)
    except (OSError, shutil.Error) as error:
        reason = str(error.strerror or error).lower()
        advice = "No copy was made: solve the problem and try again."
        raise FileFormatError(f"cannot be copied ({reason})", advice, file=str(error.filename or home)) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        with contextlib.suppress(OSError):
            target.rmdir()  # only if it is empty


def _copy_lines(path: Path, copy: Path) -> None:
    """Copy the complete lines of a journal or of annotations, which may be written to meanwhile."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        with copy.open("wb") as file:
            is_over = not is_being_written(path)
            file.writelines(line + b"\n" for line in JournalReader(path).read_lines(is_over=is_over))
        time_ns = segments.file_stat(path).st_mtime_ns
        os.utime(copy, ns=(time_ns, time_ns))
    except FileNotFoundError:  # its run was removed meanwhile
        copy.unlink(missing_ok=True)
