"""What a performance was measured of."""

from enum import Enum


class MethodType(Enum):
    """What a performance was measured of."""

    COMPUTATION = "COMPUTATION"
    INSTRUMENTATION = "INSTRUMENTATION"
    EXTRACTION = "EXTRACTION"
    PROVENANCE = "PROVENANCE"
    INDEXING = "INDEXING"
