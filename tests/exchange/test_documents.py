"""PROV documents, run crates and documents of yProv4ML become runs."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import pytest
import zarr
from prov.model import ProvDocument

import provml
from provml.errors import FileFormatError
from provml.exchange import read
from provml.journal import events

from .truth import check_report, load_run


def document() -> ProvDocument:
    doc = ProvDocument()
    doc.add_namespace("ex", "http://example.org/")
    doc.entity("ex:iris", {"prov:label": "iris.csv", "ex:rows": 150})
    doc.entity("ex:net", {"prov:label": "net.pt"})
    doc.activity("ex:train", "2026-01-02T03:04:05+00:00", "2026-01-02T03:05:05+00:00", {"ex:learning_rate": 0.1})
    doc.agent("ex:ana", {"prov:label": "Ana"})
    doc.used("ex:train", "ex:iris", other_attributes={"prov:role": "training"})
    doc.wasGeneratedBy("ex:net", "ex:train")
    doc.wasAssociatedWith("ex:train", "ex:ana")
    doc.wasDerivedFrom("ex:net", "ex:iris")
    return doc


FORMATS = {
    "json": ("d.json", {}),
    "xml": ("d.xml", {}),
    "provn": ("d.provn", {}),
    "rdf": ("d.ttl", {"rdf_format": "turtle"}),
}


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_prov_document_in_any_format_is_the_same_run(fmt: str, tmp_path: Path):
    name, arguments = FORMATS[fmt]
    path = tmp_path / name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rdflib, about what `prov` calls
        path.write_text(document().serialize(format=fmt, **arguments))
    report = read(path, tmp_path / "home")
    check_report(report)
    run = load_run(tmp_path / "home", report.runs[0].id)
    assert report.format == "prov"
    assert run.params == {"learning_rate": 0.1}
    assert run.datasets["iris.csv"].values == {"rows": 150}
    assert run.roles["iris.csv"] == "training"
    assert [event.location for event in run.of(events.Produced)] == ["train"]
    assert run.header.by == "Ana"
    done = run.of(events.Done)[0]
    assert (done.seconds, done.time) == (60.0, 1767323105.0)
    assert report.totals.tallies["relations"].left_out == 1  # the derivation
    with provml.open(tmp_path / "home") as store:
        assert store.verify() == []
        assert [r for r in store.validate(run.id).results if r.severity == "Violation"] == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("d.provn", "document\n  activity(", "it cannot be parsed"),
        ("d.json", '{"entity": {"a": ' + "[" * 200 + "]" * 200 + "}}", "nested too deep"),
        ("d.xml", '<!DOCTYPE a [<!ENTITY x "y">]><prov:document xmlns:prov="http://www.w3.org/ns/prov#"/>', "DOCTYPE"),
    ],
)
def test_a_damaged_or_hostile_document_is_an_error(name: str, text: str, message: str, tmp_path: Path):
    (tmp_path / name).write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read(tmp_path / name, tmp_path / "home", fmt="prov")
    assert not (tmp_path / "home").exists()


CRATE: list[dict[str, Any]] = [
    {"@id": "./", "@type": "Dataset", "name": "digits", "description": "a crate"},
    {"@id": "#train", "@type": "CreateAction", "name": "train", "startTime": "2026-01-02T03:04:05Z",
     "endTime": "2026-01-02T03:05:05Z", "actionStatus": "http://schema.org/CompletedActionStatus",
     "instrument": {"@id": "train.py"}, "agent": {"@id": "#ana"}, "object": [{"@id": "iris.csv"}, {"@id": "#lr"}],
     "result": [{"@id": "net.pt"}, {"@id": "#acc"}]},
    {"@id": "iris.csv", "@type": "File", "name": "iris.csv", "sha256": "a" * 64, "contentSize": "42"},
    {"@id": "net.pt", "@type": "File", "name": "net.pt"},
    {"@id": "train.py", "@type": ["File", "SoftwareSourceCode"], "name": "train.py"},
    {"@id": "#lr", "@type": "PropertyValue", "name": "learning_rate", "value": "0.1"},
    {"@id": "#acc", "@type": "PropertyValue", "name": "accuracy", "value": 0.5},
    {"@id": "#ana", "@type": "Person", "name": "Ana"},
]  # fmt: skip


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_a_run_crate_is_a_run(kind: str, tmp_path: Path):
    text = json.dumps({"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": CRATE})
    source = tmp_path / "crate"
    source.mkdir()
    (source / "ro-crate-metadata.json").write_text(text)
    if kind == "zip":
        source = tmp_path / "crate.zip"
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("ro-crate-metadata.json", text)
            archive.writestr("../../outside.txt", "never unpacked")
    report = read(source, tmp_path / "home")
    check_report(report)
    run = load_run(tmp_path / "home", report.runs[0].id)
    assert run.params == {"learning_rate": 0.1}
    assert run.points == {"accuracy": [(None, 0.5)]}
    assert (run.datasets["iris.csv"].sha256, run.datasets["iris.csv"].size) == ("a" * 64, 42)
    assert (run.status, run.header.by) == ("FINISHED", "Ana")
    assert not (tmp_path.parent / "outside.txt").exists()


def test_a_zip_bomb_is_refused(tmp_path: Path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ro-crate-metadata.json", b" " * (65 << 20))
    with pytest.raises(FileFormatError, match="more than 64 MiB"):
        read(path, tmp_path / "home")


def test_a_crate_without_actions_is_no_run(tmp_path: Path):
    path = tmp_path / "ro-crate-metadata.json"
    path.write_text(json.dumps({"@graph": CRATE[:1]}))
    report = read(path, tmp_path / "home")
    assert report.is_empty
    assert "no action" in str(report)


def test_a_document_of_yprov4ml_with_tables_beside_it(tmp_path: Path):
    content = {
        "prefix": {"yprov4ml": "yprov4ml"},
        "activity": {
            "context:digits": {
                "yprov4ml:level": 0, "yprov4ml:experiment_name": "digits", "yprov4ml:run_id": 1,
                "yprov4ml:lr": {"$": "0.1", "type": "xsd:double"}, "yprov4ml:optimizer": "sgd",
            },
            "context:Context.TRAINING": {"yprov4ml:level": 1},
        },
        "agent": {"yprov4ml:ana": {}},
        "entity": {
            f"yprov4ml:loss_{context}": {
                "yprov4ml:label": "loss", "yprov4ml:path": f"prov/metrics/loss_Context.{context}_GR0.csv",
                "yprov4ml:context": f"Context.{context}",
            }
            for context in ("TRAINING", "VALIDATION")
        },
    }  # fmt: skip
    (tmp_path / "metrics").mkdir()
    for context in ("TRAINING", "VALIDATION"):
        rows = "".join(f"{epoch},{1 / (epoch + 1)},{1767323045000 + epoch}\n" for epoch in range(3))
        (tmp_path / "metrics" / f"loss_Context.{context}_GR0.csv").write_text(f"loss,Context.{context},x\n{rows}")
    (tmp_path / "prov_digits.json").write_text(json.dumps(content))
    report = read(tmp_path / "prov_digits.json", tmp_path / "home")
    check_report(report)
    assert report.format == "yprov4ml"
    run = load_run(tmp_path / "home", report.runs[0].id)
    assert run.params == {"lr": 0.1, "optimizer": "sgd"}
    assert [index for index, _ in run.points["training/loss_TRAINING"]] == [1, 2, 3]
    assert run.points["validation/loss_VALIDATION"][2] == (3, 1 / 3)
    assert (run.kind, run.status, run.header.by) == ("epoch", "FINISHED", "ana")


STAMPS = [1767323045000 + number for number in range(5)]
VALUES = [0.1, 0.25, float("nan"), float("inf"), 1e-7]


def write_netcdf(path: Path, rows: int = 5) -> None:
    """Write a metric as yProv4ML does, with the library that it uses."""
    with netCDF4.Dataset(path, mode="w", format="NETCDF4") as file:
        file._name, file._context, file._source = "loss", "Context.TRAINING", "std"
        file.createDimension("time", None)
        columns = {"epochs": ("i4", range(5)), "values": ("f4", VALUES), "timestamps": ("i8", STAMPS)}
        for name, (kind, values) in columns.items():
            file.createVariable(name, kind, ("time",), "zlib")
            file.variables[name][0:rows] = list(values)[:rows]


def write_zarr(path: Path) -> None:
    """Write a metric as yProv4ML does, in two portions."""
    group = zarr.open(str(path), mode="w")
    group.attrs["name"] = "loss"
    columns = {"epochs": ("i4", list(range(5))), "values": ("f4", VALUES), "timestamps": ("i8", STAMPS)}
    for name, (kind, values) in columns.items():
        codec = zarr.codecs.BloscCodec(cname="zstd")
        group.create_array(name, shape=(0,), chunks=(1000,), dtype=kind, compressors=codec)
        group[name].append(values[:2])
        group[name].append(values[2:])
    group.store.close()


def write_yprov_document(folder: Path, table: str) -> Path:
    content = {
        "prefix": {"yprov4ml": "yprov4ml"},
        "activity": {"context:digits": {"yprov4ml:experiment_name": "digits", "yprov4ml:run_id": 1}},
        "entity": {"yprov4ml:loss": {"yprov4ml:path": f"metrics/{table}", "yprov4ml:context": "Context.TRAINING"}},
    }
    path = folder / "prov_digits.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(("suffix", "write"), [(".nc", write_netcdf), (".zarr", write_zarr)])
def test_metrics_of_yprov4ml_in_arrays_are_read_value_by_value(tmp_path: Path, suffix: str, write: Any):
    (tmp_path / "metrics").mkdir()
    name = f"loss_Context.TRAINING_std_GR0{suffix}"
    write(tmp_path / "metrics" / name)
    document = write_yprov_document(tmp_path, name)
    report = read(document, tmp_path / "home")
    check_report(report)
    run = load_run(tmp_path / "home", report.runs[0].id)
    assert list(map(str, run.points["training/loss"])) == list(map(str, enumerate(VALUES, 1)))
    assert "1 run already here" in str(read(document, tmp_path / "home"))


@pytest.mark.parametrize("damage", ["cut", "text", "bomb"])
def test_a_damaged_array_leaves_its_metric_out_and_says_so(tmp_path: Path, damage: str):
    (tmp_path / "metrics").mkdir()
    path = tmp_path / "metrics" / "loss_GR0.nc"
    if damage == "text":
        path.write_text("epoch,value")
    elif damage == "bomb":
        with h5py.File(path, "w") as file:
            for name in ("epochs", "values", "timestamps"):
                file.create_dataset(name, shape=(1 << 50,), chunks=(1 << 20,), dtype="i4")
    else:
        write_netcdf(path)
        path.write_bytes(path.read_bytes()[:2000])
    report = read(write_yprov_document(tmp_path, path.name), tmp_path / "home")
    check_report(report)
    assert "loss" in str(report)
    run = load_run(tmp_path / "home", report.runs[0].id)
    assert not run.points
