"""A run as its journals tell it: which files they are, which one leads, how it stands, and which run a name means."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from provml import event, process
from provml.errors import NoSuchRun
from provml.journal import read_lines

BASE = "https://w3id.org/provml/run/"
"""What the IRI of a run begins with; its id follows."""
SILENT_SECONDS = 600.0
"""After how long without a sign of life a writer whose process cannot be seen from here counts as gone."""
YOUNG_SECONDS = 5.0
"""For how long a journal with nothing in it counts as just begun."""
REPORT = ".report.json"
"""What the file ends in that lies beside a journal whose run was validated when it ended."""

Member = TypeVar("Member")

# ---- its journals


def journals(home: Path) -> list[str]:
    """Every journal of a home, as run/file."""
    found = []
    with contextlib.suppress(OSError), os.scandir(home / "runs") as folders:
        for folder in folders:
            found += [f"{folder.name}/{file}" for file in _files(folder.path)]
    return sorted(found)


def journals_of(folder: Path) -> list[Path]:
    """Every journal of one run."""
    return [folder / name for name in sorted(_files(folder))]


def _files(folder: str | Path) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as files:  # a file, or removed just now
        return [file.name for file in files if file.name.endswith(".jsonl") and file.is_file()]
    return []


def first_line(path: Path) -> event.Run | None:
    """Who writes a journal, where its first line tells that."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
        for _, _, line in read_lines(path):
            what = event.decode(line)
            return what if isinstance(what, event.Run) else None
    return None


def last_line(path: Path) -> event.End | None:
    """How a writer ended, where its journal tells that; OSError where it may not be read."""
    found = None
    for _, _, line in read_lines(path):
        if line.startswith(b'{"e":"end"'):
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                what = event.decode(line)
                found = what if isinstance(what, event.End) else found
    return found


def is_main(first: event.Run | None) -> bool:
    """Whether a journal is a main one, and says so itself; a first line that is lost is made up without a time."""
    return first is not None and first.main and first.t == first.t


def in_order(members: Iterable[Member], first: Callable[[Member], event.Run | None]) -> list[Member]:
    """The journals of a run that have a first line, the main ones before others, each by the time they began."""
    found = []
    for number, member in enumerate(members):
        line = first(member)
        if line is not None:
            found.append((not is_main(line), line.t if line.t == line.t else 0.0, line.writer, number, member))
    return [member for *_, member in sorted(found, key=lambda one: one[:4])]


def leader(members: Sequence[Member], first: Callable[[Member], event.Run | None]) -> Member:
    """The journal by which a run stands: the main one that began last, for a run can be taken up again."""
    begun = in_order(members, first)
    mains = [member for member in begun if is_main(first(member))]
    return (mains or begun[:1] or members)[-1]


# ---- how it stands


@lru_cache(maxsize=1)
def _here(pid: int) -> tuple[str, str, str]:
    return process.host(), process.boot_id(), process.namespace()


def is_seen(first: event.Run) -> bool:
    """Whether a writer's process can be seen from here: on this machine since it last started, in this container."""
    return (first.host, first.boot, first.ns) == _here(os.getpid())


def is_gone(first: event.Run | None) -> bool:
    """Whether a writer surely lives no more. One that cannot be seen from here may be silent, and come back."""
    return first is not None and is_seen(first) and not process.is_alive(first.pid, first.t, first.born)


def status_of(path: Path, first: event.Run | None, end: event.End | None) -> str:
    """The true status by one journal: how it ended, or whether its writer still lives."""
    if end is not None:
        return end.status
    if first is None:
        return "RUNNING" if silence(path) < YOUNG_SECONDS else "LOST"
    if is_seen(first):
        return "KILLED" if is_gone(first) else "RUNNING"
    here, boot, _ = _here(os.getpid())
    patience = SILENT_SECONDS
    if first.host == here and first.boot != boot:  # from before this machine's last start, or another of its name
        patience = min(patience, max(uptime(), 2 * process.SIGN_SECONDS))
    if first.host and silence(path) < patience:
        return "RUNNING"
    return "KILLED" if first.host == here else "LOST"


def is_written(path: Path) -> bool:
    """Whether a process still writes a journal: any of a run's, not only the one that the run stands by."""
    try:
        return status_of(path, first_line(path), last_line(path)) == "RUNNING"
    except FileNotFoundError:
        return False
    except OSError:  # another user's: a sign of life is all that can be seen of it
        return silence(path) < SILENT_SECONDS


def uptime() -> float:
    """For how many seconds this machine has been on; for ever where it does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return float(Path("/proc/uptime").read_text().split()[0])
    return float("inf")


def silence(path: Path) -> float:
    """For how many seconds a journal has given no sign of life."""
    with contextlib.suppress(OSError):
        return time.time() - path.stat().st_mtime
    return float("inf")


def report_of(folder: Path) -> dict[str, Any] | None:
    """What was said of a run when it ended, if it was validated then."""
    for path in sorted(folder.glob(f"*{REPORT}")):
        with contextlib.suppress(OSError, ValueError):
            said = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(said, dict):
                return said
    return None


# ---- which one a name means


def find(given: str, ids: Sequence[str], latest: Callable[[], str]) -> str:
    """The id of a run: by itself, by its IRI, by the beginning or end that no other has, or as the `latest`."""
    wanted = given.removeprefix(BASE)
    if wanted == "latest" and ids:
        return latest()
    exact = [one for one in ids if one == wanted]
    like = [one for one in ids if wanted and (one.startswith(wanted) or one.endswith(wanted))]
    found = exact or like
    if len(found) == 1:
        return found[0]
    known = found or list(ids)
    near = known if found else difflib.get_close_matches(wanted, known, 3) or known
    raise NoSuchRun(given, tuple(near[:10]), ambiguous=bool(found))


def find_folder(home: Path, given: str) -> Path:
    """The folder of a run, found among the journals themselves."""
    ids = sorted({key.partition("/")[0] for key in journals(home)}, reverse=True)
    return home / "runs" / find(given, ids, lambda: max(ids, key=lambda one: (_began(home / "runs" / one), one)))


def _began(folder: Path) -> float:
    begun = in_order(map(first_line, journals_of(folder)), lambda line: line)
    return begun[0].t if begun and begun[0] is not None else 0.0
