"""Who a process is: its machine, its place among others that share a run, whether it lives, and how it ends."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

SIGN_SECONDS = 60.0
"""How often a process that records and has nothing to say gives a sign of life."""


def host() -> str:
    """The name of this machine."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node()


def boot_id() -> str:
    """What tells this start of the machine from others, so that a process id means something."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def namespace() -> str:
    """What tells the process ids of this container from those of others; empty where the system has none."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # a name, and no path
    return ""


def born() -> int:
    """When this process was started, in the machine's ticks since its own start; 0 where it does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_fields("self")[19])
    return 0


def is_alive(pid: int, since: float, ticks: int = 0) -> bool:
    """Whether the process that wrote at a time is still there, and not another with its number.

    `ticks` is when it was `born`: that no change of the clock can blur.
    """
    try:
        fields = _fields(pid)
    except OSError:
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
    if fields[0] in "ZX":
        return False
    with contextlib.suppress(OSError, ValueError, IndexError):
        if ticks:
            return int(fields[19]) == ticks
        up = float(Path("/proc/uptime").read_text().split()[0])
        started = time.time() - up + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return started <= since + 2.0
    return True


def _fields(pid: int | str) -> list[str]:
    """What the kernel tells of a process, from its state on."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


# ---- the run that it shares with others

RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_outer: list[str] = []


def rank() -> int | None:
    """The number of this process in a distributed training, if it is one of several."""
    said = next((os.environ[name] for name in RANKS if os.environ.get(name)), "")
    return int(said) if said.isdecimal() else None


def handed_down(wanted: str | os.PathLike[str] | None = None) -> tuple[str, str, bool]:
    """The run that PROVML_RUN names, its home, and whether a process that records it handed it down.

    A bare id comes from whoever started all ranks, and the first rank begins the run; `id@process@home` comes from a
    recorder, for its child processes to join. One that wants another home has a run of its own there.
    """
    run, _, rest = os.environ.get("PROVML_RUN", "").partition("@")
    pid, _, home = rest.partition("@")
    if pid == str(os.getpid()) or not RUN_ID.fullmatch(run):
        return "", "", False
    if wanted and home and os.path.realpath(wanted) != os.path.realpath(home):
        return "", "", False
    return run, home, bool(pid)


def hand_down(run: str, home: Path) -> None:
    """Let the child processes that are started from now on join a run."""
    mine = f"@{os.getpid()}@"
    before = os.environ.get("PROVML_RUN")
    if before is None or mine not in before:
        _outer[:] = [] if before is None else [before]
    os.environ["PROVML_RUN"] = f"{run}{mine}{home}"


def hand_down_no_more() -> None:
    """Leave PROVML_RUN as it was before this process recorded."""
    if _outer:
        os.environ["PROVML_RUN"] = _outer[0]
    else:
        os.environ.pop("PROVML_RUN", None)


# ---- how it ends


def ending(error: BaseException | None) -> tuple[str, list[str]]:
    """How something ended that was left by an error or by none: a status, and the error's type and message."""
    if error is None or isinstance(error, GeneratorExit):
        return "FINISHED", []
    if isinstance(error, SystemExit) and error.code in (None, 0, False):
        return "FINISHED", []
    try:
        message = str(error)[:2000]
    except Exception:
        message = ""
    return "FAILED", [type(error).__name__, message]


_builtin_exit = _original_exit = sys.exit
_original_quit: Callable[..., NoReturn] | None = None
_left: list[SystemExit] = []
_failed: list[BaseException] = []
_before: object = None
_is_expecting = False


class _Exit(SystemExit):
    """What `sys.exit` raises while it is watched: it notes where it dies; below no frame if nobody caught it."""

    frames: dict[int, int]

    def at(self, frame: FrameType) -> _Exit:
        """Itself, knowing where it is raised."""
        self.frames = instructions(frame)
        return self

    def __del__(self) -> None:
        if sys._getframe().f_back is None:
            _left[:] = [self]


_Exit.__name__ = _Exit.__qualname__ = "SystemExit"  # as users know it
_Exit.__module__ = "builtins"


def watch_exit() -> None:
    """From now on, know by what this process ends: Python tells that of an exception, but not of `sys.exit`."""
    global _before, _original_exit, _original_quit
    _before = getattr(sys, "last_value", None)
    if sys.exit is not _exit:
        _original_exit, sys.exit = sys.exit, _exit
    quitter = _quitter()
    if quitter is not None and quitter.__call__ is not _quit:
        _original_quit, quitter.__call__ = quitter.__call__, _quit


def unwatch_exit() -> None:
    """Leave `sys.exit`, `exit` and `quit` as they were."""
    if sys.exit is _exit:
        sys.exit = _original_exit
    quitter = _quitter()
    if quitter is not None and quitter.__call__ is _quit:
        quitter.__call__ = _original_quit


def _quitter() -> Any:
    """The class of `exit` and `quit`, which are there unless Python was started without `site`."""
    site = sys.modules.get("_sitebuiltins")
    return site.Quitter if site is not None else None


def _quit(self: object, code: object = None) -> NoReturn:
    """What `exit` and `quit` do, but by way of `sys.exit`."""
    with contextlib.suppress(Exception):
        sys.stdin.close()  # as they do, for shells that go on with what is typed next
    sys.exit(code)  # type: ignore[arg-type]  # anything that is printed


def _exit(status: object = None, /) -> NoReturn:
    """Exit, as ever; in another thread than the main one, that ends no process."""
    if threading.current_thread() is threading.main_thread() and _original_exit is _builtin_exit:
        # under no name here, which its traceback would hold: then it would die in a sweep only, which may be too late
        raise (_Exit() if status is None else _Exit(status)).at(sys._getframe(1))
    _original_exit(status)  # type: ignore[arg-type]


def _expect_worker() -> None:
    """This may become a worker of `multiprocessing`: it was forked, or is just being made ready."""
    global _is_expecting
    workers = sys.modules.get("multiprocessing.util")
    if workers is not None and not _is_expecting:
        _is_expecting = True
        workers.register_after_fork(_watch_worker, lambda watch: watch())


def _watch_worker() -> None:
    """In a worker that begins: know by what it ends. From Python 3.13 on, that has been caught when its end comes."""
    from multiprocessing import current_process, parent_process

    if parent_process() is None:
        return
    worker: Any = current_process()
    work = worker.run

    def run() -> None:
        try:
            work()
        except BaseException as error:
            _failed[:] = [error]
            raise

    worker.run = run


_expect_worker()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_expect_worker)


def _worker_exit() -> SystemExit | None:
    """What a worker that was not watched from its beginning ends by, as far as the code that it leaves with tells."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_bootstrap":  # in there, the code is not known yet
        if frame.f_globals.get("__name__") in ("multiprocessing.popen_fork", "multiprocessing.forkserver"):
            code = frame.f_locals.get("code")
            return SystemExit(code) if code else None
        frame = frame.f_back
    return None


def instructions(frame: FrameType | None) -> dict[int, int]:
    """A frame and those that called it, the innermost first: the instruction that each is at, by the frame's id."""
    found = {}
    while frame is not None:
        found[id(frame)] = frame.f_lasti
        frame = frame.f_back
    return found


def raised_at(error: BaseException | None) -> dict[int, int]:
    """The instructions that an error came through, by the frame's id."""
    if isinstance(error, _Exit):
        return error.frames
    found = {}
    trace = error.__traceback__ if error is not None else None
    while trace is not None:
        found[id(trace.tb_frame)] = trace.tb_lasti
        trace = trace.tb_next
    return found


def ended_by() -> BaseException | None:
    """At the end of a process: the exception that ended it, if one did. In a notebook a cell's error ends nothing."""
    if _failed or _left:
        return (_failed or _left)[0]
    last = getattr(sys, "last_value", None)
    if last is _before or hasattr(sys, "ps1") or not isinstance(last, BaseException):
        return _worker_exit()
    return last
