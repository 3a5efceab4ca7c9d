"""Keep capture errors away from the training, end sections when their `with` block ends, and check their numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from provml.journal.location import MAX_INDEX

P = ParamSpec("P")
T = TypeVar("T")
ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.pow)
DIVISION = (operator.truediv, operator.floordiv, operator.mod, divmod)


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


def as_index(value: Any, label: str, advice: str = "") -> int:
    """Return a whole number of any type, from 0 on, as an int. `label` and `advice` are for the message of the error.

    True and False are refused: they are settings in the wrong place.
    """
    try:
        index = operator.index(value) if not isinstance(value, bool) else None
    except TypeError:
        index = None
    if index is None:
        problem = f"{label} must be a whole number, not {value!r} ({type(value).__name__})."
        raise TypeError(f"{problem} {advice}".rstrip())
    if not 0 <= index <= MAX_INDEX:
        bound = "at least 0" if index < 0 else f"at most {MAX_INDEX}"
        raise ValueError(f"{label} must be {bound}, not {index}. {advice}".rstrip())
    return index


def as_epoch_count(value: Any) -> int:
    """Return the number of epochs of a loop."""
    return as_index(value, "The number of epochs", "Use epochs(3), or epochs(items) for an epoch of each item.")


def as_first(value: Any, unit: str) -> int:
    """Return the number of the first epoch or batch of a loop."""
    return as_index(value, f"`first`, the number of the first {unit},", "Use first=5 to go on after 4.")


def _number(value: Any) -> Any:
    return value.index if isinstance(value, ActsAsNumber) else value


def _operator(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a method that applies an operator to the number of a section and another value."""
    return lambda self, other: function(self.index, _number(other))


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a method that applies an operator to another value and the number of a section."""
    return lambda self, other: function(other, self.index)


class ActsAsNumber:
    """A numbered section that behaves as its number: `f"{epoch:03d}"`, `"%d" % epoch`, `epoch + 1`, `epoch == 3`."""

    __slots__ = ()
    index: int

    def __index__(self) -> int:
        return self.index

    __int__ = __index__

    def __str__(self) -> str:
        return str(self.index)

    def __format__(self, spec: str) -> str:
        return format(self.index, spec)

    def __hash__(self) -> int:
        return hash(self.index)

    def __eq__(self, other: object) -> bool:
        return bool(self.index == _number(other))

    __lt__, __le__, __gt__, __ge__ = map(_operator, (operator.lt, operator.le, operator.gt, operator.ge))
    __add__, __sub__, __mul__, __pow__ = map(_operator, ARITHMETIC)
    __truediv__, __floordiv__, __mod__, __divmod__ = map(_operator, DIVISION)
    __radd__, __rsub__, __rmul__, __rpow__ = map(_reflected, ARITHMETIC)
    __rtruediv__, __rfloordiv__, __rmod__, __rdivmod__ = map(_reflected, DIVISION)


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
