"""How processes share a run: the run id in PROVML_RUN, the launcher of several ranks, and the rank of a process."""

from __future__ import annotations

import hashlib
import os
import sys
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from provml.journal import process
from provml.journal.reader import read_header
from provml.journal.run_files import RUN_ID, has_run, journals_of_run

LAUNCH_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID")
"""Variables that are the same in all ranks of a `torchrun`, and differ between launches that share an id."""
RANK_VARIABLES = (
    "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID",
)  # fmt: skip
SIZE_VARIABLES = (
    "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
)  # fmt: skip
LOCAL_SIZE_VARIABLES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
"""Number of ranks on this machine."""
LAUNCHERS = {
    "slurm": ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"),
    "mpi": ("PMIX_NAMESPACE",),
    "ompi": ("OMPI_MCA_ess_base_jobid",),
    "orte": ("OMPI_MCA_orte_hnp_uri",),
    "hydra": ("PMI_PORT",),
    "pals": ("PALS_APID",),
    "jsm": ("LSF_JOBID", "JSM_NAMESPACE_ID"),
}
"""Variables of other launchers that together identify one launch; all ranks have the same values."""
RERUN_VARIABLE = "PROVML_RERUN"
"""Set by `provml rerun` for the process that repeats a run, as JSON; see `RerunTarget`."""
STORE_KEY = "provml/run"
"""The key under which the ranks of a process group of PyTorch agree on a text."""
SPAWN_MODULE = "torch.multiprocessing.spawn"
_LAUNCHED: Counter[str] = Counter()
"""How many runs of each experiment this process, a rank, has begun."""
_RERUN: Counter[str] = Counter()
"""How many runs of each experiment this process has begun since it repeats a run."""


class RerunTarget(NamedTuple):
    """A run that this process repeats: its id, its experiment, and its position among the process's runs of that name.

    All runs of the process are recorded in `home`, whatever home the script chooses. If the script chooses the id of a
    run that was recorded before, the new run has the id with `suffix`. `started` is the time of the rerun in seconds
    since 1970.
    """

    run: str
    name: str
    position: int
    home: str
    suffix: str
    started: float

    @classmethod
    def of_process(cls) -> RerunTarget | None:
        """Return the run that this process repeats; None if it does not."""
        text = os.environ.get(RERUN_VARIABLE)
        if not text:
            return None
        import json

        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError):  # somebody else set the variable
            return None

    def new_id(self, run_id: str | None) -> str | None:
        """Return the id in place of one that the script chose: another one if a run had it before."""
        if not run_id or not has_run(Path(self.home), run_id):
            return run_id
        headers = map(read_header, journals_of_run(Path(self.home, "runs", run_id)))
        is_new = min((header.time for header in headers if header is not None), default=0.0) >= self.started
        return run_id if is_new else f"{run_id}-{self.suffix}"

    def repeated_run(self, name: str) -> str:
        """Return the id of the run that a run of this name repeats; empty if it is another run of the script."""
        _RERUN[name] += 1
        return self.run if name == self.name and _RERUN[name] == self.position else ""


def rank() -> int | None:
    """Return the rank of this process in a distributed training; None outside of one.

    PyTorch is asked if its process group is initialized, then the variables of the launcher, and the number that
    `torch.multiprocessing` gave to this process.
    """
    group = _process_group()
    if group is not None:
        return int(group.get_rank())
    number = _number_in(RANK_VARIABLES)
    if number is None and world_size() is not None and os.environ.get("NODE_RANK", "0") == "0":
        number = _number_in(("LOCAL_RANK",))  # Lightning sets no RANK for the processes that it starts
    if number is None:
        number = _spawned()[0]
    return number


def world_size() -> int | None:
    """Return the number of ranks of a distributed training; None if it is not known."""
    group = _process_group()
    return int(group.get_world_size()) if group is not None else _number_in(SIZE_VARIABLES)


def launched_run(experiment: str) -> str:
    """Return the id of the run that all ranks of one launch share; empty if nothing identifies the launch.

    The ranks agree through the store of PyTorch's process group, if it is initialized. Otherwise each computes the id
    from what the launcher tells all ranks. Ranks that record several runs share the first of an experiment, the
    second, and so on.
    """
    if rank() is None:
        return ""
    kind, launch = _launch()
    if not launch:
        return ""
    _LAUNCHED[experiment] += 1
    key = "\n".join([*launch, experiment, str(_LAUNCHED[experiment])])
    return f"{kind}-{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:12]}"


def _launch() -> tuple[str, list[str]]:
    """Return the kind of the launcher of this process, a rank, and what identifies the launch."""
    spawned = _spawned()[1]
    size = world_size()
    if size is not None and size < 2 and not spawned:
        return "", []
    if launch := _torchrun():
        return "torchrun", launch
    if (token := _agreed_token()) and size != 1:
        return "torch", [token]
    if spawned and size != 1:
        return "spawn", spawned
    for kind, names in LAUNCHERS.items():
        values = [os.environ.get(name, "") for name in names]
        if size is not None and all(values):
            return kind, [*values, *_local_launcher()]
    launcher = _local_launcher()
    return "mpi" if launcher else "", launcher


def _local_launcher() -> list[str]:
    """Return what identifies the process that started all ranks, if they are on this machine and it is known.

    MPICH gives its ranks nothing else that is common to them. Open MPI names its process by an id that another process
    may have later. Between the launcher and a rank, there may be a shell, which has the variables of the rank.
    """
    variable = next((name for name in RANK_VARIABLES if os.environ.get(name)), "")
    local_size = _number_in(LOCAL_SIZE_VARIABLES)
    if not variable or local_size is None or local_size != world_size():
        return []
    pid = os.getppid()
    while pid > 1 and process.has_variable(pid, variable):
        pid = process.parent(pid)
    ticks = process.start_ticks(pid) if pid > 1 else 0
    return [process.boot_id(), process.host(), str(pid), str(ticks)] if ticks else []


def is_launched() -> bool:
    """Return whether a launcher started this process as one of several ranks."""
    number = rank()
    return number is not None and (number > 0 or bool(_launch()[1]))


def _torchrun() -> list[str]:
    """Return what identifies a launch by `torchrun`; empty for any other process."""
    variables = os.environ
    size = variables.get("WORLD_SIZE", "")
    launch = variables.get("TORCHELASTIC_RUN_ID", "").replace("none", "")
    error_file = variables.get("TORCHELASTIC_ERROR_FILE", "")  # launch/attempt/local rank/error.json, on each machine
    attempt = str(Path(error_file).parents[1]) if error_file and variables.get("LOCAL_WORLD_SIZE") == size else ""
    if not size.isdecimal() or int(size) < 2 or not (launch or attempt):
        return []
    return [launch, attempt, *(variables.get(name, "") for name in LAUNCH_VARIABLES)]


def _process_group() -> Any:
    """Return `torch.distributed` if the script initialized its process group; PyTorch is not imported for this."""
    distributed = sys.modules.get("torch.distributed")
    try:
        return distributed if distributed is not None and distributed.is_initialized() else None
    except Exception:  # built without it
        return None


def _agreed_token() -> str:
    """Return a text that all ranks of the process group have, through its key-value store; empty without a group.

    The first rank to ask sets it. No rank waits for another: one that records nothing does not block the others.
    """
    group = _process_group()
    try:
        store = group.distributed_c10d._get_default_store() if group is not None else None
        return store.compare_set(STORE_KEY, "", uuid.uuid4().hex).decode() if store is not None else ""
    except Exception:  # another version of PyTorch, or a store that cannot compare
        return ""


def _spawned() -> tuple[int | None, list[str]]:
    """Return the number of a process that `torch.multiprocessing.spawn` started, and what identifies that call.

    One call starts its processes in order, so the number that `multiprocessing` counts on from is common to them.
    """
    multiprocessing = sys.modules.get("multiprocessing.process")
    parent = multiprocessing.parent_process() if multiprocessing is not None else None
    if multiprocessing is None or parent is None or parent.pid is None:
        return None, []
    current: Any = multiprocessing.current_process()
    target: Any = getattr(current, "_target", None)
    arguments: tuple[Any, ...] = getattr(current, "_args", ())
    is_spawned = getattr(target, "__module__", "") == SPAWN_MODULE and len(arguments) > 1
    if not is_spawned or not isinstance(arguments[1], int) or not current._identity:
        return None, []
    index = arguments[1]
    numbers = parent.pid, process.start_ticks(parent.pid), current._identity[-1] - index
    return index, [process.boot_id(), process.host(), *map(str, numbers)]


def rank_name(number: int) -> str:
    """Return the name of a rank among the writers of a run.

    A process may start ranks several times, for one run: those of a further call have the number of its first process.
    """
    identity = _child_identity()
    first = identity[-1] - number if _spawned()[1] and identity else 1
    return str(number) if first == 1 else f"{number}.{first}"


def is_worker_starting() -> bool:
    """Return whether this process, a worker of `multiprocessing`, is being set up: its rank is not known yet."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    return multiprocessing is not None and bool(getattr(multiprocessing.current_process(), "_inheriting", False))


def _number_in(names: Iterable[str]) -> int | None:
    """Return the number in the first of these variables that is set; None if it is none."""
    value = next((os.environ[name] for name in names if os.environ.get(name)), "")
    return int(value) if value.isdecimal() else None


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
    size = world_size()
    return is_chosen, f"rank {number} of {size}" if size is not None else f"rank {number}"


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
    Without a home, the process has recorded nothing so far, as a launcher that `provml run` started: the first child
    begins the run.
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
