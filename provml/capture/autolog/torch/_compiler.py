"""Hide the functions of autolog from PyTorch's compiler, so that a compiled training has the same graphs.

What the compiler traces it makes part of a graph: the functions that are called inside of compiled code ask
`is_dynamo_compiling` first, which the compiler replaces by True, and then do nothing. Code that runs between graphs is
compiled function by function as well, which this module prevents.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FunctionType
from typing import Any


def has_graphs() -> bool:
    """Return whether the compiler has made a graph in this process."""
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and bool(utils.counters["stats"]["unique_graphs"])


def hide(functions: Iterable[Any], *, with_callees: bool) -> None:
    """Keep functions from being compiled; `with_callees` also everything that they call.

    A version of PyTorch that cannot do this compiles them: the results are the same, some graphs are smaller.
    """
    eval_frame = sys.modules["torch"]._C._dynamo.eval_frame
    set_strategy = getattr(eval_frame, "set_code_exec_strategy", None)
    if set_strategy is None:
        return
    action = eval_frame._FrameAction
    strategy = eval_frame._FrameExecStrategy(action.SKIP, action.SKIP if with_callees else action.DEFAULT)
    for function in functions:
        if isinstance(function, FunctionType):
            set_strategy(function.__code__, strategy)


def hide_methods(*classes: type) -> None:
    """Keep the methods of classes, and everything that they call, from being compiled."""
    for cls in classes:
        for value in vars(cls).values():
            hide([value.fget if isinstance(value, property) else value], with_callees=True)
