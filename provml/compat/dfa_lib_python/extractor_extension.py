"""The formats that extractors read."""

from enum import Enum


class ExtractorExtension(Enum):
    """The format or the program of an extractor."""

    PROGRAM = "PROGRAM"
    CSV = "CSV"
    FITS = "FITS"
    FASTBIT = "FASTBIT"
    OPTIMIZED_FASTBIT = "OPTIMIZED_FASTBIT"
    POSTGRES_RAW = "POSTGRES_RAW"
