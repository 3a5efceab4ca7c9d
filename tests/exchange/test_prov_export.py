"""Runs as PROV documents: what the package `prov` reads back is what was recorded."""

from __future__ import annotations

import io
from pathlib import Path

import prov
import pytest
from prov.model import ProvActivity, ProvDocument, ProvEntity, ProvUsage
from web.viewer.homes import record_flowers, record_hostile

import provml
from provml.errors import WrongValue
from provml.exchange.prov_export import prov_document, write_document

RUN = "https://w3id.org/provml/run/tuesday"


def document_of(home: Path, run: str) -> ProvDocument:
    with provml.open(home) as store:
        return prov_document(quad.triple for quad in store.graph(run))


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> ProvDocument:
    home = tmp_path_factory.mktemp("prov") / "home"
    record_flowers(home)
    return document_of(home, "tuesday")


def names(document: ProvDocument, kind: type) -> set[str]:
    return {record.identifier.uri for record in document.get_records(kind) if record.identifier is not None}


def test_steps_are_activities_with_times_and_data_are_entities(flowers: ProvDocument):
    activities = {record.identifier.uri: record for record in flowers.get_records(ProvActivity)}
    assert {RUN, f"{RUN}/training", f"{RUN}/training/6"} <= activities.keys()
    training = activities[f"{RUN}/training"]
    assert training.get_startTime() < training.get_endTime()
    assert any("model" in name or "data" in name for name in names(flowers, ProvEntity))


def test_a_use_has_its_role(flowers: ProvDocument):
    uses = [dict(record.attributes) for record in flowers.get_records(ProvUsage)]
    roles = {str(value) for use in uses for key, value in use.items() if str(key) == "prov:role"}
    assert any("test" in role.lower() for role in roles)


@pytest.mark.parametrize("fmt", ["json", "provn"])
def test_a_document_is_read_back_as_it_was(flowers: ProvDocument, fmt: str):
    text = write_document(flowers, fmt).decode()
    again = prov.read(io.StringIO(text), format=fmt)
    assert again == flowers


def test_hostile_names_stay_readable(tmp_path: Path):
    record_hostile(tmp_path / "home")
    document = document_of(tmp_path / "home", "h1")
    for fmt in ("json", "provn"):
        again = prov.read(io.StringIO(write_document(document, fmt).decode()), format=fmt)
        assert names(again, ProvActivity) == names(document, ProvActivity)


def test_an_unknown_format_names_the_others(flowers: ProvDocument):
    with pytest.raises(WrongValue, match="provn, json, xml"):
        write_document(flowers, "docx")
