"""The status of a section or a process: FINISHED, or FAILED, INTERRUPTED or PRUNED with the exception that left it."""

from __future__ import annotations

from provml.journal.redaction import redact_text

MAX_MESSAGE_CHARS = 2000
PRUNING = ("TrialPruned",)
"""Exceptions by which a search ends a trial that is not promising (Optuna)."""
INTERRUPTION = KeyboardInterrupt.__name__
"""The exception of Ctrl-C and of the stop button of a notebook: a person ended it, not a fault."""


class ExceptionSummary(Exception):
    """An exception by its type and message alone: the exception itself would keep the frames of its traceback alive."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.message = message


UNKNOWN_EXCEPTION = ExceptionSummary("UnknownException", "left by an exception that the program caught")
"""The reason if an exception left a section and Python has no object for it any more."""
INTERRUPT = ExceptionSummary(INTERRUPTION, "")


def summarize_exception(error: BaseException | None) -> ExceptionSummary | None:
    """Return the type and message of an exception; None for none, and for an exit of the program without a failure."""
    status, details = status_of_exit(error)
    return ExceptionSummary(*details) if status in ("FAILED", "INTERRUPTED") else None


def status_of_exit(error: BaseException | None) -> tuple[str, list[str]]:
    """Return the status of a section that an exception left, or that ended without one: (status, [type, message])."""
    if error is None or isinstance(error, GeneratorExit):
        return "FINISHED", []
    if isinstance(error, SystemExit) and error.code in (None, 0, False):
        return "FINISHED", []
    if isinstance(error, ExceptionSummary):
        return "INTERRUPTED" if error.type_name == INTERRUPTION else "FAILED", [error.type_name, error.message]
    status = "PRUNED" if type(error).__name__ in PRUNING else "FAILED"
    if isinstance(error, KeyboardInterrupt):
        status = "INTERRUPTED"
    try:
        message = redact_text(str(error)[: 2 * MAX_MESSAGE_CHARS])[:MAX_MESSAGE_CHARS]
    except Exception:
        message = ""
    return status, [type(error).__name__, message]
