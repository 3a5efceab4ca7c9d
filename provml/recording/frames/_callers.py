"""Callers of the calling code: their modules, functions and variables."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple

from provml.recording.frames._support import is_enabled

MAX_CALLERS = 24
"""Callers of a callback that are searched at most."""


class Caller(NamedTuple):
    """A call that has not returned yet."""

    frame: FrameType

    @property
    def module(self) -> str:
        """The name of the module that the function was defined in."""
        return str(self.frame.f_globals.get("__name__"))

    @property
    def function(self) -> str:
        """The name of the function."""
        return self.frame.f_code.co_name

    @property
    def variables(self) -> dict[str, Any]:
        """A copy of the local variables, which include the arguments."""
        return dict(self.frame.f_locals)


def callers() -> Iterator[Caller]:
    """Return the callers of the callback that calls the caller of this function, the innermost first."""
    return iterate_callers(sys._getframe(2).f_back) if is_enabled() else iter(())


def caller_arguments(module: str, *names: str) -> dict[str, Any]:
    """Return the local variables of the nearest caller with one of these names in a module; empty if there is none."""
    for caller in iterate_callers(sys._getframe(1).f_back) if is_enabled() else ():
        if caller.function in names and caller.module == module:
            return caller.variables
    return {}


def iterate_callers(frame: FrameType | None) -> Iterator[Caller]:
    for _ in range(MAX_CALLERS):
        if frame is None:
            return
        yield Caller(frame)
        frame = frame.f_back


def caller_offsets() -> dict[int, int]:
    """Return the bytecode offsets of the caller of the calling function and of its callers."""
    return frame_offsets(sys._getframe(2))


def is_called_by_interpreter() -> bool:
    """Return whether no Python code called the calling function, such as a `__del__` at the end of the process."""
    return sys._getframe(1).f_back is None


def worker_exit_code() -> Any:
    """Return the code with which a worker of `multiprocessing` is exiting; None if there is none."""
    frame: FrameType | None = sys._getframe() if is_enabled() else None
    while frame is not None and frame.f_code.co_name != "_bootstrap":  # inside it, the exit code is not known yet
        if frame.f_globals.get("__name__") in ("multiprocessing.popen_fork", "multiprocessing.forkserver"):
            return frame.f_locals.get("code")
        frame = frame.f_back
    return None


def is_called_from(*modules: str) -> bool:
    """Return whether a function of one of these modules, or of a package of that name, is a caller, however far."""
    frame: FrameType | None = sys._getframe(1) if is_enabled() else None
    prefixes = _package_prefixes(modules)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if isinstance(name, str) and (name in modules or name.startswith(prefixes)):
            return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=16)
def _package_prefixes(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the names of all modules inside of some packages begin with."""
    return tuple(f"{package}." for package in packages)


def is_called_directly_from(*packages: str) -> bool:
    """Return whether the caller of the calling function is in one of these packages."""
    return is_enabled() and str(sys._getframe(2).f_globals.get("__name__")).startswith(packages)


def is_called_by_script(*packages: str) -> bool:
    """Return whether the innermost caller outside of some packages is a script or module that is not installed."""
    frame: FrameType | None = sys._getframe(2) if is_enabled() else None
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in packages:
        frame = frame.f_back
    if frame is None:
        return False
    file = os.path.realpath(frame.f_code.co_filename)
    installed = [os.path.realpath(path) for path in sysconfig.get_paths().values()]
    return not any(file.startswith(path + os.sep) for path in installed if path != os.path.realpath(sys.prefix))


def frame_offsets(frame: FrameType | None) -> dict[int, int]:
    """Return the bytecode offset of a frame and its callers, by the id of the frame, innermost first."""
    offsets = {}
    while frame is not None:
        offsets[id(frame)] = frame.f_lasti
        frame = frame.f_back
    return offsets
