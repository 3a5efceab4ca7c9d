"""Set the markers `framework`, `slow` and `system` by test file, so that `make quick` can leave those tests out.

A file that imports a machine-learning framework is found by its source, or by its folder where it imports the tests
of a framework. The other markers go by the name of the file (without `test_`), in whatever folder it is.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

FRAMEWORK = re.compile(
    r"^\s*(?:import|from) (?:keras|lightgbm|lightning|sklearn|torch|transformers|xgboost)\b"
    r"|importorskip\(\s*(?:\"(?:keras|lightgbm|lightning|sklearn|torch|transformers|xgboost)\b|[a-z])",
    re.MULTILINE,
)
FRAMEWORK_FILES = {"docs", "examples"}  # pages and scripts with code for frameworks
FRAMEWORK_FOLDERS = {"autolog"}
SLOW = {  # reasoners, second engines, type checkers, builds, W3C suites, huge journals, many runs, indexes or exports
    "alignments", "annotations", "artifacts", "bench", "bills", "browser", "class_hierarchy", "compare",
    "compiled_datatypes", "constraint_shapes", "damaged_index", "datatypes", "determinism", "evidence", "exports",
    "graphs", "hostile", "hostile_journals", "index_comparison", "inference", "lake", "lake_questions",
    "lake_spark", "large_home", "lint", "loaded_graphs", "loading", "loops", "mapping_process", "markers", "mlflow",
    "options", "owl", "owners", "prov_export", "published_queries", "run_table", "scrub", "sealed_runs", "seals",
    "shacl_dash", "shacl_w3c", "site", "soak", "static_site", "stored_journals", "stream", "types", "typing",
    "updates", "validate", "wheel", "workflow",
}  # fmt: skip
SYSTEM = {  # other processes, signals, sockets, time limits
    "lake_s3", "lake_spark",
    "annotation_processes", "artifact_processes", "ask", "autolog_run", "background_sync", "batch_buffer", "browser",
    "bundles", "child_runs", "large_home",
    "clients", "crash", "demo", "endpoint", "endpoint_sync", "energy", "freshness", "header_timeout", "journals",
    "live", "log", "maintenance", "mapping_process",
    "openapi", "other_languages", "parse_file", "processes", "query_guard", "query_process", "remote_store",
    "repetition", "replay", "rerun", "rocrate_export",
    "security", "segments", "serve", "server", "shared_folder", "shipping", "soak", "sparql", "status", "store",
    "terminal", "traps",
}  # fmt: skip


@cache
def markers_of(path: Path) -> tuple[str, ...]:
    """Return the markers of all tests in a file."""
    name = path.stem.removeprefix("test_")
    markers = []
    in_framework_folder = path.parent.name in FRAMEWORK_FOLDERS
    if in_framework_folder or name in FRAMEWORK_FILES or FRAMEWORK.search(path.read_text(encoding="utf-8")):
        markers.append("framework")
    if name in SLOW:
        markers.append("slow")
    if name in SYSTEM:
        markers.append("system")
    return tuple(markers)


def is_left_out(path: Path, expression: str) -> bool:
    """Return whether `-m expression` leaves out all tests of a file: then it need not even be imported."""
    return path.suffix == ".py" and any(f"not {marker}" in expression for marker in markers_of(path))


def mark(items: list[pytest.Item]) -> None:
    """Add to each test the markers of its file."""
    for item in items:
        for marker in markers_of(item.path):
            item.add_marker(marker)
