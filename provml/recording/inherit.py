"""How processes share a run: the run id in the environment variable PROVML_RUN, and the rank of a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from provml.journal.run_files import RUN_ID

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def rank() -> int | None:
    """Return the rank of this process in a distributed training; None outside of one."""
    value = next((os.environ[name] for name in RANK_VARIABLES if os.environ.get(name)), "")
    return int(value) if value.isdecimal() else None


def log_separate_runs() -> None:
    """Log how to join the ranks of a distributed training if this process, one of them, records a run of its own.

    Not every rank logs it: the second one does, and the first one of each further machine. The rank of a child of
    `multiprocessing` is not known, so each but the first logs it.
    """
    number = rank()
    if number is not None:
        is_chosen = number == 1 or (number > 1 and os.environ.get("LOCAL_RANK") == "0")
        size = os.environ.get("WORLD_SIZE", "")
        process = f"rank {number} of {size}" if size.isdecimal() else f"rank {number}"
    else:
        identity = _child_identity()
        is_chosen = bool(identity) and identity[-1] > 1
        process = "a child process of multiprocessing"
    if is_chosen:
        import logging

        advice = "To join all processes of a training in one run, begin the run in their parent process, or"
        example = "set PROVML_RUN to one id for all of them: PROVML_RUN=$(date +%s) torchrun train.py"
        logging.getLogger("provml").warning("provml: %s records a run of its own. %s %s", process, advice, example)


def _child_identity() -> tuple[int, ...]:
    """Return the numbers by which `multiprocessing` identifies a child process; empty in any other process."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    return multiprocessing.current_process()._identity if multiprocessing is not None else ()


def inherited_run(home: str | os.PathLike[str] | None = None) -> tuple[str, str, bool]:
    """Return id and home of the run in PROVML_RUN, and whether a recording process exported it.

    A bare id comes from a launcher of several ranks: rank 0 begins the run. `id@process@home` comes from a parent
    process that records the run: its child processes join it. A child that asks for another home gets a run of its own.
    """
    run_id, _, rest = os.environ.get("PROVML_RUN", "").partition("@")
    pid, _, run_home = rest.partition("@")
    if pid == str(os.getpid()) or not RUN_ID.fullmatch(run_id):
        return "", "", False
    if home and run_home and os.path.realpath(home) != os.path.realpath(run_home):
        return "", "", False
    return run_id, run_home, bool(pid)


class ExportedRun:
    """The run in PROVML_RUN that child processes of this process join."""

    def __init__(self) -> None:
        self._previous: str | None = None

    def set(self, run_id: str, home: Path) -> None:
        """Let child processes that start from now on join a run."""
        own = f"@{os.getpid()}@"
        current = os.environ.get("PROVML_RUN")
        if current is None or own not in current:
            self._previous = current
        os.environ["PROVML_RUN"] = f"{run_id}{own}{home}"

    def clear(self) -> None:
        """Restore PROVML_RUN to its value before this process recorded."""
        if self._previous is not None:
            os.environ["PROVML_RUN"] = self._previous
        else:
            os.environ.pop("PROVML_RUN", None)
