"""Import from and export to the formats of other tools.

base          what an importer is
importing     the registry of importers, and the import of a source
run_journals  imported runs as journals of a home
dnnprov       database dumps of DfAnalyzer, DNNProv, Keras-Prov and CNNProv
"""

from provml.exchange.base import Importer, ImportOptions, SkippedPart, SourceRun
from provml.exchange.importing import ImportReport, follow, read
from provml.exchange.losses import LossReport
from provml.exchange.registry import IMPORTERS
from provml.exchange.run_journals import ImportedRun

__all__ = [
    "IMPORTERS",
    "ImportOptions",
    "ImportReport",
    "ImportedRun",
    "Importer",
    "LossReport",
    "SkippedPart",
    "SourceRun",
    "follow",
    "read",
]
