"""Lifting: events in, things out. The same events give the same things, in one go, in pieces, or twice.

name         IRIs, minted from a run's id and a path, or from content
state        what a lifter has to remember between two events, so that it can stop anywhere
kin          the other journals of a run, as far as one needs to know them
plan         the prospective side, derived from what is executed
workflow     the prospective side as a file gives it
measure      measures, batches and the roll-ups of an epoch
mould        batches as text, at once
adaptation   hyperparameters that change
environment  where a run runs
artifact     data and models
network      layers
lifter       an event as things
trial        a run that has just ended, held to the shapes
"""

from provml.lift.kin import Kin
from provml.lift.lifter import Lifter, outcome
from provml.lift.state import State

__all__ = ["Kin", "Lifter", "State", "outcome"]
