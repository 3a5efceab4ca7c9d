"""Import from and export to the formats of other tools.

base          what an importer is
importing     the registry of importers, and the import of a source
run_journals  imported runs as journals of a home
dnnprov       database dumps of DfAnalyzer, DNNProv, Keras-Prov and CNNProv
prov_documents  RDF with PROV-O as PROV-N, PROV-JSON and PROV-XML
"""

from provml.exchange.base import Importer, ImportOptions, SkippedPart, SourceRun
from provml.exchange.importing import IMPORTERS, ImportReport, read
from provml.exchange.run_journals import ImportedRun

__all__ = [
    "IMPORTERS",
    "ImportOptions",
    "ImportReport",
    "ImportedRun",
    "Importer",
    "SkippedPart",
    "SourceRun",
    "read",
]
