"""Lifting: events in, things out. The same events give the same things, in one go, in pieces, or twice.

name     IRIs, minted from a run's id and a path, or from content
state    what a lifter has to remember between two events, so that it can stop anywhere
plan     the prospective side, derived from what is executed
lifter   an event as things
"""

from provml.lift.lifter import Lifter
from provml.lift.state import State

__all__ = ["Lifter", "State"]
