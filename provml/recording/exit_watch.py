"""The exception that ends this process, also an uncaught `sys.exit`."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from provml.recording import frames


class ExitWatch:
    """Finds the exception that ends this process, while a run is active.

    Python keeps an uncaught exception in `sys.last_value`, but not an uncaught SystemExit. So `sys.exit`, `exit` and
    `quit` are replaced: they raise an `_Exit`, which reports here when nobody caught it. Without inspection of frames,
    the last exit counts as not caught.
    """

    def __init__(self) -> None:
        self.uncaught_exit: SystemExit | None = None
        self.original_exit = sys.exit
        self._original_quit: Callable[..., NoReturn] | None = None
        self._worker_error: BaseException | None = None
        self._last_value: object = None
        self._awaits_worker = False

    def start(self) -> None:
        """Replace `sys.exit`, `exit` and `quit`."""
        self._last_value = getattr(sys, "last_value", None)
        if sys.exit is not _exit:
            self.original_exit, sys.exit = sys.exit, _exit
            self.uncaught_exit = None
        quitter = _site_quitter()
        if quitter is not None and quitter.__call__ is not _quit:
            self._original_quit, quitter.__call__ = quitter.__call__, _quit

    def stop(self) -> None:
        """Restore `sys.exit`, `exit` and `quit`."""
        if sys.exit is _exit:
            sys.exit = self.original_exit
        quitter = _site_quitter()
        if quitter is not None and quitter.__call__ is _quit:
            quitter.__call__ = self._original_quit

    def exception(self) -> BaseException | None:
        """Return the exception that ends the process, at its end. In a notebook, the error of a cell is not one."""
        error = self._worker_error or self.uncaught_exit
        if error is not None:
            return error
        last = getattr(sys, "last_value", None)
        if last is self._last_value or hasattr(sys, "ps1") or not isinstance(last, BaseException):
            return _worker_exit()
        return last

    def await_worker(self) -> None:
        """Prepare for this process to become a worker of `multiprocessing`: it was forked, or is being set up."""
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not self._awaits_worker:
            self._awaits_worker = True
            util.register_after_fork(self, ExitWatch._watch_worker)

    def _watch_worker(self) -> None:
        """Keep the exception that ends a worker. From Python 3.13 on, it has been caught before the worker's end."""
        from multiprocessing import current_process, parent_process

        if parent_process() is None:
            return
        worker: Any = current_process()
        original_run = worker.run

        def run() -> None:
            try:
                original_run()
            except BaseException as error:
                self._worker_error = error
                raise

        worker.run = run


class _Exit(SystemExit):
    """SystemExit of the replaced `sys.exit`. If it is deleted with no calling frame, nobody caught it."""

    raise_offsets: dict[int, int]
    """The bytecode offsets of the callers of `sys.exit`, see `frames`."""

    def with_offsets(self, offsets: dict[int, int]) -> _Exit:
        """Return itself, with the offsets at which it is raised."""
        self.raise_offsets = offsets
        return self

    def __del__(self) -> None:
        if frames.is_called_by_interpreter():
            EXIT_WATCH.uncaught_exit = self


_Exit.__name__ = _Exit.__qualname__ = "SystemExit"  # tracebacks and messages show the name that users know
_Exit.__module__ = "builtins"

_builtin_exit = sys.exit
EXIT_WATCH = ExitWatch()


def _exit(status: object = None, /) -> NoReturn:
    """Replacement of `sys.exit`. In another thread than the main one, SystemExit does not end the process."""
    if threading.current_thread() is threading.main_thread() and EXIT_WATCH.original_exit is _builtin_exit:
        if frames.is_enabled():
            # Not bound to a name: the traceback would keep it alive until the garbage collector runs, maybe too late.
            raise (_Exit() if status is None else _Exit(status)).with_offsets(frames.caller_offsets())
        EXIT_WATCH.uncaught_exit = SystemExit() if status is None else SystemExit(status)
    EXIT_WATCH.original_exit(status)  # type: ignore[arg-type]


def _quit(self: object, code: object = None) -> NoReturn:
    """Replacement of `exit` and `quit`, which calls `sys.exit`."""
    with contextlib.suppress(Exception):
        sys.stdin.close()  # as the originals do: a shell would go on with the next input
    sys.exit(code)  # type: ignore[arg-type]  # any object that can be printed


def _site_quitter() -> Any:
    """Return the class of `exit` and `quit`; None if Python was started without `site`."""
    site = sys.modules.get("_sitebuiltins")
    return site.Quitter if site is not None else None


def _worker_exit() -> SystemExit | None:
    """Return the exit of a worker that was not watched from its start."""
    code = frames.worker_exit_code()
    return SystemExit(code) if code else None


EXIT_WATCH.await_worker()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=EXIT_WATCH.await_worker)
