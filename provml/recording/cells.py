"""Cells of IPython and Jupyter: the active runs hear at once that a cell raised, not at the end of the kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class CellWatch:
    """Calls `on_error` with the exception and the number of each cell that raised. The hook is IPython's own."""

    def __init__(self, on_error: Callable[[BaseException, int], None]) -> None:
        self.number = 0
        """How many cells have ended since the first run of this process began."""
        self._on_error = on_error
        self._shell: Any = None

    def start(self) -> None:
        """Register with the shell that runs this code, if there is one; IPython is not imported for this."""
        ipython = sys.modules.get("IPython")
        try:
            shell = ipython.get_ipython() if ipython is not None else None
            if shell is not None and shell is not self._shell:
                shell.events.register("post_run_cell", self._on_cell)
                self._shell = shell
        except Exception:  # another version of IPython: the end of the process tells
            return

    def _on_cell(self, result: Any) -> None:
        error = getattr(result, "error_in_exec", None)
        try:
            if isinstance(error, BaseException):
                self._on_error(error, self.number)
        finally:
            self.number += 1
