"""The ontology opens without network: with the XML catalog, and as one merged file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyoxigraph as ox
import pytest
from click.testing import CliRunner

from provml.cli import main

from . import reasoner
from .helpers import ALIGNMENTS, FILES, FOLDER, MODULES, headers, read

pytestmark = pytest.mark.xdist_group("owl")
CATALOGS = (FOLDER / "catalog-v001.xml", FOLDER / "alignment" / "catalog-v001.xml")
IMPORTS = ox.NamedNode("http://www.w3.org/2002/07/owl#imports")


def load_with_owl_api(document: Path, catalog: Path | None = None) -> dict[str, Any]:
    command = [sys.executable, reasoner.__file__, "load", document, *([catalog] if catalog else [])]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(process.stdout)


def iris_of(files: tuple[Path, ...]) -> set[str]:
    return {header.value for file in files for header in headers(read(file))}


@pytest.fixture(scope="module")
def modules() -> dict[str, Any]:
    return load_with_owl_api(FOLDER / "provml-dl.ttl", FOLDER / "catalog-v001.xml")


@pytest.mark.parametrize("catalog", CATALOGS, ids=["modules", "alignment"])
def test_catalog_maps_every_import_to_the_file_of_that_ontology(catalog: Path) -> None:
    entries = {
        entry.attrib["name"]: catalog.parent / entry.attrib["uri"]
        for entry in ElementTree.parse(catalog).iter(reasoner.CATALOG_URI)
    }
    for iri, file in entries.items():
        assert {header.value for header in headers(read(file))} == {iri}
    for file in catalog.parent.glob("*.ttl"):
        assert {triple.object.value for triple in read(file) if triple.predicate == IMPORTS} <= entries.keys()


def test_owl_api_loads_all_modules_with_the_catalog(modules: dict[str, Any]) -> None:
    assert set(modules["ontologies"]) == iris_of(MODULES)
    assert "https://w3id.org/provml#TrainingEpochExecution" in modules["classes"]


def test_owl_api_loads_the_alignment_with_its_catalog() -> None:
    loaded = load_with_owl_api(ALIGNMENTS[0], CATALOGS[1])
    assert iris_of(ALIGNMENTS[:1]) < set(loaded["ontologies"])


@pytest.mark.parametrize("name", ["provml.owl", "provml.ttl"])
def test_merged_file_has_the_axioms_of_all_modules(name: str, tmp_path: Path, modules: dict[str, Any]) -> None:
    result = CliRunner().invoke(main, ["ontology", "-o", str(tmp_path / name)])
    assert result.exit_code == 0, result.output
    merged = load_with_owl_api(tmp_path / name)
    assert merged["ontologies"] == ["https://w3id.org/provml/merged"]
    assert merged["logical_axioms"] == modules["logical_axioms"]
    assert merged["classes"] == modules["classes"]


def test_merged_json_ld_has_the_triples_of_the_turtle(tmp_path: Path) -> None:
    datasets = []
    for name in ("provml.jsonld", "provml.ttl"):
        assert CliRunner().invoke(main, ["ontology", "-o", str(tmp_path / name)]).exit_code == 0
        dataset = ox.Dataset(ox.parse(path=tmp_path / name))
        dataset.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
        datasets.append(dataset)
    assert datasets[0] == datasets[1]


def test_merged_file_has_a_complete_header(tmp_path: Path) -> None:
    path = tmp_path / "provml.ttl"
    assert CliRunner().invoke(main, ["ontology", "-o", str(path)]).exit_code == 0
    store = ox.Store()
    store.load(path=path)
    missing = store.query((Path(__file__).parent / "pitfalls" / "incomplete-header.rq").read_text(encoding="utf-8"))
    assert [str(row["missing"]) for row in missing] == []


def test_merged_ontology_on_standard_output_is_turtle() -> None:
    result = CliRunner().invoke(main, ["ontology"])
    assert result.exit_code == 0
    assert len(list(ox.parse(result.output, ox.RdfFormat.TURTLE))) > 3000


def test_unknown_extension_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["ontology", "-o", str(tmp_path / "provml.docx")])
    assert result.exit_code == 2
    assert "Use one of .owl, .ttl, .jsonld." in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_redirect_rules_cover_every_ontology() -> None:
    """https://w3id.org/provml/module/mls is the path module/mls of the directory provml."""
    for iri in iris_of(FILES) | {"https://w3id.org/provml/merged"}:
        directory, _, path = iri.removeprefix("https://w3id.org/").partition("/")
        rules = (FOLDER / "w3id" / directory / ".htaccess").read_text(encoding="utf-8")
        patterns = re.findall(r"^RewriteRule (\S+)", rules, re.MULTILINE)
        for requested in (path, f"{path}/0.2.0".lstrip("/")):
            assert any(re.search(pattern, requested) for pattern in patterns), (iri, requested)
