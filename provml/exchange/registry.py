"""The importers by the name of their format. A source is read by the first one that recognises it."""

from __future__ import annotations

from provml.exchange.base import Importer, RunImporter
from provml.exchange.bundles import BundleFile
from provml.exchange.codecarbon import CodeCarbonTable
from provml.exchange.dnnprov import DfAnalyzerDump
from provml.exchange.dvclive import DvcLiveFolder
from provml.exchange.flowcept import FlowceptBuffer
from provml.exchange.homes import OtherHome
from provml.exchange.message_logs import OpenLineageFile, ProvLakeLog
from provml.exchange.mlflow_store import MlflowStore
from provml.exchange.prov_documents import ProvDocumentFile
from provml.exchange.rocrate import RunCrate
from provml.exchange.sacred import SacredRuns
from provml.exchange.tensorboard import TensorBoardEvents
from provml.exchange.wandb import WandbOffline
from provml.exchange.yprov import YProvDocument

ALL: tuple[Importer | RunImporter, ...] = (
    BundleFile(),
    OtherHome(),
    DfAnalyzerDump(),
    MlflowStore(),
    WandbOffline(),
    TensorBoardEvents(),
    SacredRuns(),
    DvcLiveFolder(),
    CodeCarbonTable(),
    FlowceptBuffer(),
    OpenLineageFile(),
    ProvLakeLog(),
    RunCrate(),
    YProvDocument(),
    ProvDocumentFile(),
)
IMPORTERS: dict[str, Importer | RunImporter] = {importer.name: importer for importer in ALL}
