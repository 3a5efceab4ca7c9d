"""Do things with homes as several users of the system, and print what happened as JSON; needs root.

    python other_users.py FOLDER

Each action is done once as root first: the modules that it imports may be in a folder that others cannot read.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import provml
from provml.cli import main

ADA, EVA, GUEST = (61001, 61000), (61002, 61000), (61003, 61003)
"""User and group; Ada and Eva share a group."""


def as_user(user: tuple[int, int], umask: int, function: Callable[[], Any]) -> Any:
    """Call a function in a child of another user, and return what it returns."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(user[1])
            os.setuid(user[0])
            os.umask(umask)
            result = function()
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        os.write(write_end, json.dumps(result).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(data) if data else "ended without a result"


def record(home: Path, run: str) -> int:
    """Record a run; return the number of errors."""
    with provml.record("x", home=home, run=run, capture_environment=False) as recorded:
        recorded.training(learning_rate=0.1).measured(loss=1.0)
        recorded.text("hello", "note.txt")
        recorded.tag("good")
    return recorded.capture_errors


def record_and_die(home: Path, run: str) -> None:
    """Record a run, and be killed."""
    provml.record("x", home=home, run=run, capture_environment=False).training(learning_rate=0.1)
    os.kill(os.getpid(), signal.SIGKILL)


def call(*arguments: str) -> list[Any]:
    """Call the command line; return exit code and output."""
    result = CliRunner().invoke(main, list(arguments))
    trace = repr(result.exception) if result.exception and not isinstance(result.exception, SystemExit) else ""
    return [result.exit_code, result.output + result.stderr + trace]


def ask(home: Path) -> dict[str, Any]:
    """Return what a reader of a home gets."""
    with provml.open(home) as store:
        runs = {info.id: info.status for info in store.runs()}
        triples = next(iter(store.query("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }")))[0]
    return {"runs": runs, "triples": triples, "verify": call("verify", "--sealed", "--home", str(home))}


def write_all(home: Path) -> dict[str, Any]:
    """Try everything that writes to a home."""
    return {
        "tag": call("tag", "one", f"by-{os.getuid()}", "--home", str(home)),
        "pack": call("pack", "--home", str(home)),
        "record": record(home, f"by-{os.getuid()}"),
        "seal": call("seal", "--home", str(home)),
    }


def new_folder(parent: Path, name: str, mode: int) -> Path:
    """Create a folder of Ada and her group."""
    folder = parent / name
    folder.mkdir()
    os.chown(folder, *ADA)
    folder.chmod(mode)
    return folder / "home"


def share(parent: Path) -> dict[str, Any]:
    """Two people of a group write to one home; a guest reads."""
    home = new_folder(parent, "shared", 0o2775)
    results: dict[str, Any] = {
        "Ada records": as_user(ADA, 0o002, lambda: record(home, "one")),
        "Eva records": as_user(EVA, 0o002, lambda: record(home, "two")),
        "Ada is killed": as_user(ADA, 0o002, lambda: record_and_die(home, "three")),
        "Eva asks": as_user(EVA, 0o002, lambda: ask(home)),  # and seals what Ada's process left
        "Eva writes": as_user(EVA, 0o002, lambda: write_all(home)),
        "Ada asks": as_user(ADA, 0o002, lambda: ask(home)),
        "Ada writes": as_user(ADA, 0o002, lambda: write_all(home)),
        "guest asks": as_user(GUEST, 0o022, lambda: ask(home)),
        "guest writes": as_user(GUEST, 0o022, lambda: write_all(home)),
        "Ada asks again": as_user(ADA, 0o002, lambda: ask(home)),
    }
    return results


def keep_private(parent: Path) -> dict[str, Any]:
    """Ada shares nothing, then everything but one run."""
    home = new_folder(parent, "private", 0o755)
    as_user(ADA, 0o077, lambda: record(home, "one"))
    results = {
        "closed": as_user(GUEST, 0o022, lambda: call("runs", "--home", str(home))),
        "guest records": as_user(GUEST, 0o022, lambda: record(home, "x")),
    }
    home.chmod(0o755)
    results["closed runs"] = as_user(GUEST, 0o022, lambda: call("runs", "--home", str(home)))

    home = new_folder(parent, "mostly", 0o755)
    as_user(ADA, 0o022, lambda: record(home, "one"))
    as_user(ADA, 0o022, lambda: record(home, "two"))
    (home / "runs" / "one").chmod(0o700)
    results["closed run"] = as_user(GUEST, 0o022, lambda: call("runs", "--home", str(home)))
    results["closed run, verified"] = as_user(GUEST, 0o022, lambda: call("verify", "--home", str(home)))
    as_user(ADA, 0o022, lambda: ask(home))
    (home / "runs" / "one").chmod(0)
    results["closed and indexed run, verified"] = as_user(ADA, 0o022, lambda: call("verify", "--home", str(home)))

    home = new_folder(parent, "contents", 0o755)
    as_user(ADA, 0o022, lambda: record(home, "one"))
    (home / "artifacts").chmod(0o700)
    results["closed artifacts, verified"] = as_user(GUEST, 0o022, lambda: call("verify", "--home", str(home)))
    return results


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.chmod(0o755)
    warm = folder / os.fsdecode(b"w\xffrm")  # no text: its index is in memory, and the children may write theirs
    record(warm, "one")
    as_user((0, 0), 0o022, lambda: record_and_die(warm, "two"))
    ask(warm)
    write_all(warm)
    call("runs", "--home", str(warm))
    call("runs", "--home", __file__)  # loads what messages need
    call("runs", "no such run", "--home", str(warm))
    print(json.dumps({"share": share(folder), "private": keep_private(folder)}))
