"""The two sides of a transformation."""

from enum import Enum


class SetType(Enum):
    """Whether a transformation takes a set in or gives it out."""

    INPUT = "INPUT"
    OUTPUT = "OUTPUT"
