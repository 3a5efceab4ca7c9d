"""Types of sets."""

from enum import Enum


class SetType(Enum):
    """Whether a set is an input or an output of a transformation."""

    INPUT = "INPUT"
    OUTPUT = "OUTPUT"
