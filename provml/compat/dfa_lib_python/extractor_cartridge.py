"""What an extractor does."""

from enum import Enum


class ExtractorCartridge(Enum):
    """What an extractor does with raw data."""

    EXTRACTION = "EXTRACTION"
    INDEXING = "INDEXING"
