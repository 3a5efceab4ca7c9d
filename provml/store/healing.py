"""Go on after damage to the files of an index: rebuild it from the journals, and do again what failed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from provml.answers import RowStream
from provml.store.backend import is_damaged
from provml.store.index import Index

MAX_ATTEMPTS = 3
"""Times that something is tried: a disk that damages every new index is not for this process to heal."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Healing(Protocol):
    """A store, as far as its healing needs it."""

    _index: Index

    def _heal(self, index: Index, damage: BaseException) -> None:
        """Replace a damaged index, unless another thread has done so."""


Healed = TypeVar("Healed", bound=Healing)


def healing(store: Healing, action: Callable[[], Result]) -> Result:
    """Return what an action on a store returns. If it finds the index damaged, rebuild the index and start again."""
    for _ in range(MAX_ATTEMPTS - 1):
        index = store._index
        try:
            return action()
        except Exception as error:
            if not is_damaged(error):
                raise
            damage = error.with_traceback(None)  # its frames hold rows of the damaged store, and so its lock
        store._heal(index, damage)
    return action()


def heals(
    method: Callable[Concatenate[Healed, Arguments], Result],
) -> Callable[Concatenate[Healed, Arguments], Result]:
    """Make a method of a store rebuild an index that it finds damaged, and start again."""

    @functools.wraps(method)
    def healed(self: Healed, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        values: Any = [list(value) if isinstance(value, Iterator) else value for value in args]  # to be read again
        return healing(self, lambda: method(self, *values, **kwargs))

    return healed


def healing_stream(store: Healing, execute: Callable[[], RowStream | bool]) -> RowStream | bool:
    """Execute a query as a stream that starts again on a rebuilt index, unless rows have been delivered already."""
    stream = execute()
    if isinstance(stream, bool):
        return stream
    return RowStream(stream.columns, _rows(store, stream, execute), is_graph=stream.is_graph)


def _rows(store: Healing, stream: RowStream, execute: Callable[[], RowStream | bool]) -> Iterator[tuple[Any, ...]]:
    is_first = True
    for attempt in range(MAX_ATTEMPTS):
        index = store._index
        try:
            for terms in stream.terms():
                is_first = False
                yield terms
            return
        except Exception as error:
            if not is_damaged(error):
                raise
            damage = error.with_traceback(None)
        finally:
            stream.close()
        store._heal(index, damage)
        if not is_first or attempt == MAX_ATTEMPTS - 1:
            raise damage
        again = execute()
        if isinstance(again, bool):
            return
        stream = again
