"""A run, or all of a store, held to the shapes: provml's own and the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyoxigraph as ox

from provml.store.export import of_run
from provml.validation import Report
from provml.validation.engine import user_shapes, validate
from provml.validation.reference import own_shapes

if TYPE_CHECKING:
    from provml.store.home import Store

Progress = Callable[[int, int, str], None]


def check(
    store: Store,
    run_id: str | None,
    shapes: Iterable[Path | str] = (),
    *,
    engine: str = "compiled",
    progress: Progress | None = None,
) -> Report:
    """The report of a run (its journals, lifted), or of all that the index holds, against our shapes and the user's.

    All of a store is validated where it is, on the disk: memory does not grow with it.
    """
    what, held = graph(store, run_id)
    files = [*own_shapes(), *user_shapes(store.home), *shapes]
    return validate(held, files, engine=engine, what=what, progress=progress)


def graph(store: Store, run_id: str | None) -> tuple[str, ox.Store]:
    """What is to be validated, by name and as a store: a run in memory, or the index as it is."""
    if run_id is None:
        return f"all of {store.home}", store.engine
    info = store.run(run_id)
    return f"run {info.id}", of_run(store, info.id)
