"""What the caller of a hook was given, as its frame holds it: frameworks do not tell their callbacks all of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

FRAMES = 24
"""How far up the caller of a hook is looked for."""


def caller(module: str, *names: str) -> dict[str, Any]:
    """What a function of a framework was given, as the one that called this hook holds it; nothing if it is not found.

    The frameworks do not tell a callback. The frames are only read.
    """
    frame = sys._getframe(1).f_back
    for _ in range(FRAMES):
        if frame is None:
            break
        if frame.f_globals.get("__name__") == module and frame.f_code.co_name in names:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def named(function: Callable[..., Any] | None) -> str | None:
    """The name of a function that a framework was given; one that the framework has wrapped has its own."""
    if function is None:
        return None
    inside = getattr(function, "func", None)
    for cell in getattr(function, "__closure__", None) or ():
        inside = inside or (cell.cell_contents if callable(cell.cell_contents) else None)
    is_wrapped = str(getattr(function, "__module__", "")).partition(".")[0] in ("xgboost", "lightgbm")
    inner = inside if is_wrapped and callable(inside) else function
    return str(getattr(inner, "__name__", "") or type(inner).__name__)
