"""How processes share a run: the run id in the environment variable PROVML_RUN, and the rank of a process."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections import Counter
from pathlib import Path

RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
LAUNCH_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID")
"""Variables that are the same in all ranks of a launch, and differ between launches that share an id."""
_LAUNCHED: Counter[str] = Counter()
"""How many runs of each experiment this process, a rank, has begun."""
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def rank() -> int | None:
    """Return the rank of this process in a distributed training; None outside of one."""
    value = next((os.environ[name] for name in RANK_VARIABLES if os.environ.get(name)), "")
    return int(value) if value.isdecimal() else None


def launched_run(experiment: str) -> str:
    """Return the id of the run that all ranks of one `torchrun` share; empty if nothing identifies the launch.

    Each rank computes the id from the variables of the launcher. Ranks that record several runs share the first of an
    experiment, the second, and so on. Other launchers also start processes that have nothing to do with each other.
    """
    variables = os.environ
    size = variables.get("WORLD_SIZE", "")
    if rank() is None or not size.isdecimal() or int(size) < 2:
        return ""
    launch = variables.get("TORCHELASTIC_RUN_ID", "").replace("none", "")
    error_file = variables.get("TORCHELASTIC_ERROR_FILE", "")  # launch/attempt/local rank/error.json, on each machine
    attempt = str(Path(error_file).parents[1]) if error_file and variables.get("LOCAL_WORLD_SIZE") == size else ""
    if not launch and not attempt:
        return ""
    _LAUNCHED[experiment] += 1
    parts = [launch, attempt, *(variables.get(name, "") for name in LAUNCH_VARIABLES)]
    key = "\n".join([*parts, experiment, str(_LAUNCHED[experiment])])
    return f"torchrun-{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:12]}"


def log_shared_run(run_id: str) -> None:
    """Log that the ranks of this launch are one run, from one of them."""
    is_chosen, process = _speaker()
    if is_chosen:
        message = "provml: %s and the other ranks of this launch are one run, %s. Set PROVML_RUN to choose its id."
        _warn(message, process, run_id)


def log_separate_runs() -> None:
    """Log how to join the ranks of a distributed training if this process, one of them, records a run of its own."""
    is_chosen, process = _speaker()
    if is_chosen:
        advice = "To join all processes of a training in one run, begin the run in their parent process, or"
        example = "set PROVML_RUN to one id for all of them: PROVML_RUN=$(date +%s) torchrun train.py"
        _warn("provml: %s records a run of its own. %s %s", process, advice, example)


def _speaker() -> tuple[bool, str]:
    """Return whether this process is the one that logs about the ranks, and its name in a message.

    The second rank logs, and the first one of each further machine. The rank of a child of `multiprocessing` is not
    known, so each but the first logs.
    """
    number = rank()
    if number is None:
        identity = _child_identity()
        return bool(identity) and identity[-1] > 1, "a child process of multiprocessing"
    is_chosen = number == 1 or (number > 1 and os.environ.get("LOCAL_RANK") == "0")
    size = os.environ.get("WORLD_SIZE", "")
    return is_chosen, f"rank {number} of {size}" if size.isdecimal() else f"rank {number}"


def _warn(message: str, *arguments: str) -> None:
    import logging

    logging.getLogger("provml").warning(message, *arguments)


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
