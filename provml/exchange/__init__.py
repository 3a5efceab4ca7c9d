"""Import from and export to the formats of other tools.

base            what an importer is
importing       the import of a source, once or as long as it grows, and the report
registry        the importers by format
foreign_run     the record of a tracker's run that importers fill
foreign_events  that record as events: epochs or steps, validation, adaptations
activity_graph  activities and entities of a document, and their events
losses          the account: kept, guessed, not in the source, not representable
points          points of metrics in limited memory
typed_text      types of values that a tool wrote as text
source_files    files of a source, read with care
protobuf        protobuf messages by field number
mapping_table   what an export format takes from a run, for its page in the documentation
prov_export     RDF with PROV-O as PROV-N, PROV-JSON, PROV-XML and PROV-JSONLD
imported_run    what became of a run that was imported
run_journals    imported runs as journals of a home
replaced_journals  what the ledger says about journals that a later import replaces
run_transfer    runs that travel between homes as they are
bundles, homes  sources of such runs: zip files, other homes
growing_journal the journal of a run that another program records piece by piece
run_summary     what the exporters below need of a run, from the graph
card_export, mlflow_export, tables_export, ml_vocabularies_export, openlineage_export   exporters
cyclonedx_export, spdx_export, croissant_export, rocrate_export   exporters of bills of materials, data and crates
annex_iv_export drafts of technical documentation
mlflow, openlineage, provlake   translations that serve both a protocol and files

Importers: mlflow_store, wandb, tensorboard, sacred, dvclive, codecarbon, flowcept, message_logs (ProvLake and
OpenLineage), dnnprov (DfAnalyzer), yprov, rocrate, prov_documents.
"""

from provml.exchange.base import Importer, ImportOptions, SkippedPart, SourceRun
from provml.exchange.imported_run import ImportedRun
from provml.exchange.importing import ImportReport, bundle, follow, merge, read
from provml.exchange.losses import LossReport
from provml.exchange.registry import IMPORTERS

__all__ = [
    "IMPORTERS",
    "ImportOptions",
    "ImportReport",
    "ImportedRun",
    "Importer",
    "LossReport",
    "SkippedPart",
    "SourceRun",
    "bundle",
    "follow",
    "merge",
    "read",
]
