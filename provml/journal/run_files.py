"""The home of runs, the journal files of a run, and the lookup of a run by id, name, prefix or IRI."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from provml.errors import HomeNotFound, RunNotFound
from provml.journal import events, segments
from provml.journal.annotations import FOLDER as ANNOTATIONS
from provml.journal.annotations import file_sizes, present_name, read, resolve
from provml.journal.reader import read_header
from provml.paths import DEFAULT_NAME, path_mode

REPORT_SUFFIX = ".report.json"
"""Suffix of the validation report next to the journal of a run that was validated when it ended."""
MAX_SUGGESTIONS = 3
RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
"""Ids of runs and of writers: what may become the name of a folder or a file."""
Journal = TypeVar("Journal")


HOME_FOLDERS = ("runs", "added", "index", segments.FOLDER)
"""Folders of a home; any of them makes a directory a home."""


class HasId(Protocol):
    """A run: one that is being recorded, or the summary of one."""

    @property
    def id(self) -> str:
        """The id of the run."""


class RunFiles(NamedTuple):
    """The folder of a run: the names of its journals, and whether somebody annotated the run."""

    run: str
    journals: list[str]
    is_annotated: bool


def require_home(home: Path) -> Path:
    """Return a home to read, or raise HomeNotFound: reading never creates a home."""
    mode = path_mode(home)
    if mode and _is_home(home):
        return home
    reason = "" if not mode else "the directory holds no runs" if stat.S_ISDIR(mode) else "it is a file"
    raise HomeNotFound(str(home), reason, _similar_homes(home))


def _is_home(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in HOME_FOLDERS)


def _similar_homes(home: Path) -> tuple[str, ...]:
    """Return homes that may be meant: the default one inside a directory, and those next to it with a similar name."""
    inner = home / DEFAULT_NAME
    siblings: list[str] = []
    with contextlib.suppress(OSError):
        names = [path.name for path in home.parent.iterdir()]
        siblings = difflib.get_close_matches(home.name, names, MAX_SUGGESTIONS)
    return tuple(str(folder) for folder in (inner, *map(home.with_name, siblings)) if _is_home(folder))


def run_folders(home: Path) -> set[str]:
    """Return the names of the folders of runs; a packed run has none, unless it is annotated."""
    try:
        return set(os.listdir(home / "runs"))  # noqa: PTH208  # the names alone, of many folders
    except (FileNotFoundError, NotADirectoryError):  # any other error: nobody knows which runs there are
        return set()


def scan_runs(home: Path, runs: Iterable[str] | None = None) -> Iterator[RunFiles]:
    """Yield the folders of some runs of a home, by default of all."""
    for run in run_folders(home).union(segments.manifest(home)) if runs is None else runs:
        journals, is_annotated = _scan_folder(f"{home}/runs/{run}")
        yield RunFiles(run, _with_packed(journals, segments.names_of_run(home, run)), is_annotated)


def _scan_folder(path: str | Path) -> tuple[list[str], bool]:
    """Return the journals in a folder of a run, and whether somebody annotated the run."""
    journals, is_annotated = [], False
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl") and entry.is_file():
                    journals.append(entry.name)
                elif entry.name == ANNOTATIONS:
                    is_annotated = True
    except (FileNotFoundError, NotADirectoryError):  # a file, or a folder that was just removed
        pass
    except OSError:  # whoever reads the journal that nearly every run has gets the error
        journals.append(f"{events.MAIN_WRITER}.jsonl")
    return journals, is_annotated


def _with_packed(journals: list[str], packed: list[str]) -> list[str]:
    """Return the journals in a folder and those in segments, read in this order: a journal may be packed meanwhile."""
    return journals + [name for name in packed if name not in journals]


def has_run(home: Path, run: str) -> bool:
    """Return whether a home has a run with this id, packed or not."""
    return (home / "runs" / run).is_dir() or run in segments.manifest(home)


def list_journals(home: Path) -> list[str]:
    """Return all journals of a home as `run/file`."""
    return sorted(f"{files.run}/{name}" for files in scan_runs(home) for name in files.journals)


def list_annotations(home: Path) -> list[str]:
    """Return all files of annotations of a home as `run/annotations/file`."""
    annotated = (files.run for files in scan_runs(home) if files.is_annotated)
    return sorted(f"{run}/{ANNOTATIONS}/{name}" for run in annotated for name in file_sizes(home / "runs" / run))


def journals_of_run(folder: Path) -> list[Path]:
    """Return the journals in the folder of a run."""
    journals, _ = _scan_folder(folder)
    return [folder / name for name in sorted(_with_packed(journals, segments.names(folder)))]


def is_main(header: events.Header | None) -> bool:
    """Return whether a journal is a main one by its own header; a header made up for a lost line has no time."""
    return header is not None and header.main and header.time == header.time


def sort_journals(journals: Iterable[Journal], header_of: Callable[[Journal], events.Header | None]) -> list[Journal]:
    """Return the journals of a run that have a header: main ones first, each group by start time."""
    keyed = []
    for number, journal in enumerate(journals):
        header = header_of(journal)
        if header is not None:
            start = header.time if header.time == header.time else 0.0
            keyed.append((not is_main(header), start, header.writer, number, journal))
    return [journal for *_, journal in sorted(keyed, key=lambda item: item[:4])]


def main_journal(journals: Sequence[Journal], header_of: Callable[[Journal], events.Header | None]) -> Journal:
    """Return the journal that decides the status of a run: the main one that began last, since a run can be resumed."""
    in_order = sort_journals(journals, header_of)
    mains = [journal for journal in in_order if is_main(header_of(journal))]
    return (mains or in_order[:1] or journals)[-1]


def read_report(folder: Path) -> dict[str, Any] | None:
    """Return the validation report of a run, if it was validated when it ended."""
    for path in sorted(folder.glob(f"*{REPORT_SUFFIX}")):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            report = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(report, dict):
                return report
    return None


def resolve_run_id(
    name: str,
    ids: Sequence[str],
    latest: Callable[[], str],
    names: Callable[[], Mapping[str, str]] = dict,
) -> str:
    """Return the id that a name stands for: an id, an IRI, a unique name, start or end of an id, or `latest`.

    `names` returns the names of the runs by their ids. A name comes before a part of an id.
    """
    from provml.rdf.namespaces import RUNS  # not at the top: recording does not load provml.rdf

    wanted = str(name).removeprefix(RUNS)  # a number is not an id, but deserves the same message
    if wanted == "latest" and ids:
        return latest()
    if wanted in ids:
        return wanted
    names_by_id = names()
    named = [run_id for run_id in ids if names_by_id.get(run_id) == wanted]
    similar = [run_id for run_id in ids if wanted and (run_id.startswith(wanted) or run_id.endswith(wanted))]
    matches = named or similar
    if len(matches) == 1:
        return matches[0]
    from difflib import get_close_matches  # not at the top: recording does not need it

    close = get_close_matches(wanted, [*ids, *dict.fromkeys(names_by_id.values())], MAX_SUGGESTIONS)
    suggestions = matches or close or list(ids)
    raise RunNotFound(name, tuple(suggestions[:10]), ambiguous=bool(matches), similar=bool(close), is_name=bool(named))


def find_run_folder(home: Path, name: str) -> Path:
    """Return the folder of a run by its name, from the journals alone."""
    ids = sorted({files.run for files in scan_runs(home) if files.journals}, reverse=True)
    runs = home / "runs"
    run_id = resolve_run_id(
        name,
        ids,
        lambda: max(ids, key=lambda run_id: (_start_time(runs / run_id), run_id)),
        lambda: names_by_run(home),
    )
    return runs / run_id


def names_by_run(home: Path) -> dict[str, str]:
    """Return the names of all runs of a home by their ids, from the journals alone."""
    return {files.run: run_name(home / "runs" / files.run) for files in scan_runs(home) if files.journals}


def run_name(folder: Path) -> str:
    """Return the name of a run: the latest that somebody gave to it, else that of its first journal."""
    name = present_name(resolve(read(folder)))
    header = _first_header(folder)
    return name or (header.run_name or header.name if header is not None else "")


def _start_time(folder: Path) -> float:
    header = _first_header(folder)
    return header.time if header is not None else 0.0


def _first_header(folder: Path) -> events.Header | None:
    headers = sort_journals(map(read_header, journals_of_run(folder)), lambda header: header)
    return headers[0] if headers else None
