"""Bills of materials and descriptions of data: valid by the libraries of their standards."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from web.viewer.homes import record_flowers, record_hostile

import provml

RUNS = ("tuesday", "wednesday", "h1", "h2")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("bills") / "home"
    record_flowers(home)
    record_hostile(home)
    return home


def exported(home: Path, run: str, fmt: str, **options: str) -> Any:
    buffer = io.BytesIO()
    with provml.open(home) as store:
        result = store.export_as(run, buffer, fmt, **options)
    return result, buffer.getvalue().decode()


def test_a_bill_of_cyclonedx_is_valid_by_the_strict_schema(home: Path):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    validator = JsonStrictValidator(SchemaVersion.V1_6)
    for run in RUNS:
        result, text = exported(home, run, "cyclonedx", license="MIT")
        assert validator.validate_str(text) is None, run
    assert not any("licence" in gap for gap in result.gaps)
    _, text = exported(home, "tuesday", "cyclonedx")
    components = {item["name"]: item for item in json.loads(text)["components"]}
    model = components["net"]
    card = model["modelCard"]
    assert {"type": "accuracy", "value": "0.9", "slice": "evaluation"} in card["quantitativeAnalysis"][
        "performanceMetrics"
    ]
    references = {item["bom-ref"] for item in components.values()}
    assert {item["ref"] for item in card["modelParameters"]["datasets"]} <= references
    assert len(model["hashes"][0]["content"]) == 64
    assert {"name": "provml:hyperparameter:learning_rate", "value": "0.2"} in model["properties"]
    assert components["provml"]["purl"].startswith("pkg:pypi/provml@")


def test_a_document_of_spdx_is_valid_by_its_model(home: Path):
    from spdx_python_model import v3_0_1 as spdx

    for run in RUNS:
        _, text = exported(home, run, "spdx", license="MIT")
        objects = spdx.SHACLObjectSet()
        spdx.JSONLDDeserializer().read(io.BytesIO(text.encode()), objects)
        assert not objects.link(), "every reference has a target"
    _, text = exported(home, "tuesday", "spdx")
    objects = spdx.SHACLObjectSet()
    spdx.JSONLDDeserializer().read(io.BytesIO(text.encode()), objects)
    objects.link()
    (model,) = objects.foreach_type("ai_AIPackage")
    assert {entry.key: entry.value for entry in model.ai_hyperparameter}["learning_rate"] == "0.2"
    assert {entry.key: entry.value for entry in model.ai_metric}["evaluation accuracy"] == "0.9"
    relations = [item for item in objects.foreach_type("Relationship") if item.from_ is model]
    kinds = [str(item.relationshipType).rpartition("/")[2] for item in relations]
    assert sorted(kinds) == ["dependsOn", "hasConcludedLicense", "hasDeclaredLicense", "testedOn", "trainedOn"]
    trained = next(item for item in relations if str(item.relationshipType).endswith("trainedOn"))
    assert [data.name for data in trained.to] == ["gray images"]


def test_croissant_is_loaded_by_its_library(home: Path, tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlcroissant as mlc

        for run in RUNS:
            result, text = exported(home, run, "croissant", license="cc-by-4.0", url="https://example.org")
            (tmp_path / "croissant.json").write_text(text)
            dataset = mlc.Dataset(tmp_path / "croissant.json")
            assert dataset.metadata.license == ["cc-by-4.0"]
            assert [gap for gap in result.gaps if "citation" not in gap] == []
        _, text = exported(home, "tuesday", "croissant", license="cc-by-4.0")
        (tmp_path / "croissant.json").write_text(text)
        metadata = mlc.Dataset(tmp_path / "croissant.json").metadata
    files = {item.name: item for item in metadata.distribution}
    assert sorted(files) == ["gray images", "images", "test images"]
    assert all(len(item.sha256) == 64 for item in files.values())
    described = {item["name"]: item for item in json.loads(text)["distribution"]}
    derived = described["gray images"]
    assert derived["prov:wasDerivedFrom"] == [{"@id": f"urn:sha256:{described['images']['sha256']}"}]
    assert "colours=2" in derived["prov:wasGeneratedBy"][0]["prov:label"]
