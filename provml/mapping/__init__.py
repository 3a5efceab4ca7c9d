"""Events in, things out. The same events give the same things: at once, in several parts, or repeated.

iris          IRIs, minted from a run's id and a location, or from content
state         state of a mapper between two events, so that it can stop and continue anywhere
siblings      the other journals of a run, as far as mapping needs them
plan          the prospective side, derived from what is executed
workflow      the prospective side as a workflow file declares it
new_links     uses and productions of data, from which the index derives links between steps
context       what all event handlers share: state, names, lookups and the list of new things
sections      stages, steps and sections, and their parameters
measures      measures, batches and the summary of an epoch's batches
templates     batches as N-Triples, without building things
adaptations   hyperparameters that change during a stage
environment   where a run and its steps are executed
data          data and models
layers        layers of networks
annotations   tags, notes and names of a run
mapper        the dispatch from events to handlers
direction     whether a measure is better high or low
"""

from typing import TYPE_CHECKING, Any

from provml.mapping.new_links import EpochValue, NewLinks, best_key, latest_key
from provml.mapping.siblings import Siblings
from provml.mapping.state import State

if TYPE_CHECKING:
    from provml.mapping.annotations import annotation_things
    from provml.mapping.mapper import EventMapper, outcome

__all__ = [
    "EpochValue",
    "EventMapper",
    "NewLinks",
    "Siblings",
    "State",
    "annotation_things",
    "best_key",
    "latest_key",
    "outcome",
]

_LAZY = {"annotation_things": "annotations", "EventMapper": "mapper", "outcome": "mapper"}
"""What needs the vocabulary, whose classes take a third of the time that `provml ask` takes on a small home."""


def __getattr__(name: str) -> Any:
    """Import what needs the vocabulary when it is first used: a command with nothing to map does not need it."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
