"""Keep capture errors away from the training, end sections when their `with` block ends, and check their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from operator import index
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ErrorReporter(Protocol):
    """The part of a run that `never_raise` needs."""

    @property
    def disabled(self) -> bool:
        """True if nothing is recorded."""

    def _report_error(self, error: Exception) -> None: ...


class RunMember(Protocol):
    """An object that belongs to a run."""

    @property
    def run(self) -> ErrorReporter:
        """The run."""


M = TypeVar("M", bound=RunMember)


def never_raise(method: Callable[Concatenate[M, P], None]) -> Callable[Concatenate[M, P], None]:
    """Make a method report its exceptions as capture errors of the run, and do nothing if recording is disabled.

    With `strict=True` the run raises the error after counting it.
    """

    @wraps(method)
    def guarded(self: M, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if not self.run.disabled:
            try:
                method(self, *args, **kwargs)
            except Exception as error:
                self.run._report_error(error)

    return guarded


@contextmanager
def report_errors(run: ErrorReporter) -> Iterator[None]:
    """Report an exception of a `with` block as a capture error of the run.

    This is `never_raise` for a part of a method, and for a method that returns a value.
    """
    try:
        yield
    except Exception as error:
        run._report_error(error)


def try_or(run: ErrorReporter, function: Callable[[], T], default: T) -> T:
    """Return the result of a function, or the default if it raises: the rest of the training is still recorded."""
    with report_errors(run):
        return function()
    return default


def as_index(value: Any, label: str) -> int:
    """Return a whole number of any type as an int. `label` names it in the message of the TypeError."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{label} must be a whole number, not {value!r} ({type(value).__name__}).") from None


class FormatsAsIndex:
    """A numbered section that is written as its number: `f"{epoch:03d}"`, `"%d" % epoch`, `range(epoch)`."""

    __slots__ = ()
    index: int

    def __index__(self) -> int:
        return self.index

    __int__ = __index__

    def __str__(self) -> str:
        return str(self.index)

    def __format__(self, spec: str) -> str:
        return format(self.index, spec)


class EndsOnExit:
    """Context manager whose `_end` gets the exception that left the `with` block, or None. Exceptions pass through."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        raise NotImplementedError
