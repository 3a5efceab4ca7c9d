"""The types of attributes."""

from enum import Enum


class AttributeType(Enum):
    """What the values of an attribute are; a file is given by its path."""

    TEXT = "TEXT"
    NUMERIC = "NUMERIC"
    FILE = "FILE"
    RDFILE = "RDFILE"
