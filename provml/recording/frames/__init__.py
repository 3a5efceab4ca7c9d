"""Inspection of the calling code: the only package that reads frames, tracebacks and bytecode.

Four facts are passed to nobody and are read here:

- the arguments of a framework's training function, from the variables of the callers of a callback
- how a loop was left: an iterator cannot see whether `break` or an exception dropped it
- whether a `sys.exit` was caught, and with which code a worker of `multiprocessing` exits
- which call of the user's function makes the steps of an optimizer, and whether an exception left its loop (autolog)

Frames are read and never changed. PROVML_NO_FRAME_INSPECTION=1 switches all of it off, and it is off by itself where
the interpreter has no frames. Bytecode is read only on the versions of CPython in `BYTECODE_VERSIONS`. The fallbacks:

- arguments that a framework hides are recorded only if they are passed to the capture
- an exception is the reason why a loop was left if it ends the stage, or if it is being handled at the next call of
  provml; otherwise the loop counts as left by `break`. A `with` block that the exception leaves is exact
- the last `sys.exit` counts as not caught, and a worker that was forked before the run counts as ended normally
"""

from provml.recording.frames._callers import (
    Caller,
    caller_arguments,
    caller_offsets,
    callers,
    is_called_by_interpreter,
    is_called_by_script,
    is_called_directly_from,
    is_called_from,
    worker_exit_code,
)
from provml.recording.frames._caught import watch_exceptions
from provml.recording.frames._exceptions import known_exceptions, raised_in_method, raised_in_package
from provml.recording.frames._loops import ForeignLoop, InspectedLoop, Loop, LoopIterable, TracedLoop
from provml.recording.frames._position import CallTracker, CodePlace, LoopPosition, caller_places
from provml.recording.frames._support import BYTECODE_VERSIONS, SWITCH, is_enabled, knows_bytecode

__all__ = [
    "BYTECODE_VERSIONS",
    "SWITCH",
    "CallTracker",
    "Caller",
    "CodePlace",
    "ForeignLoop",
    "InspectedLoop",
    "Loop",
    "LoopIterable",
    "LoopPosition",
    "TracedLoop",
    "caller_arguments",
    "caller_offsets",
    "caller_places",
    "callers",
    "is_called_by_interpreter",
    "is_called_by_script",
    "is_called_directly_from",
    "is_called_from",
    "is_enabled",
    "known_exceptions",
    "knows_bytecode",
    "raised_in_method",
    "raised_in_package",
    "watch_exceptions",
    "worker_exit_code",
]
