"""Kinds of work that a performance measures."""

from enum import Enum


class MethodType(Enum):
    """Kinds of work that a performance measures."""

    COMPUTATION = "COMPUTATION"
    INSTRUMENTATION = "INSTRUMENTATION"
    EXTRACTION = "EXTRACTION"
    PROVENANCE = "PROVENANCE"
    INDEXING = "INDEXING"
