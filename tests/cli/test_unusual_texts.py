"""Output is well-formed and complete whatever the recorded texts are: control characters, markup, formulas."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from pathlib import Path

import pyoxigraph as ox
import pytest
from click.testing import CliRunner

import provml
from provml.cli import main

TEXTS = {
    "ansi": "\x1b[31mred\x1b[0m",
    "control": "null\x01 bell\x07 del\x7f tab\t line\n noncharacter\ufffe separator\u2028",
    "markup": "]]> & < \" ' <script>",
    "formula": "=HYPERLINK(1)",
    "plus": "+1+1",
    "at": "@x",
}
QUERY = "SELECT ?v { ?s a provml:LearningHyperparameterValue ; prov:value ?v }"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("texts") / "home"
    with provml.record("unusual \x1b[31m", home=home, run="unusual") as run, run.training(neg=-3, **TEXTS) as training:
        training.execution(output="a\x08b\x0bc")
    return home


def invoke(*arguments: str) -> bytes:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


@pytest.mark.parametrize("name", ["nt", "ttl", "trig", "rdf", "jsonld"])
def test_an_export_is_well_formed_and_has_each_text(home: Path, name: str):
    content = invoke("export", "unusual", "--as", name, "--home", str(home))
    if name == "rdf":
        ET.fromstring(content)
    rdf_format = ox.RdfFormat.from_extension(name)
    assert rdf_format is not None
    values = {quad.object.value for quad in ox.parse(content, format=rdf_format) if isinstance(quad.object, ox.Literal)}
    if name != "rdf":
        assert set(TEXTS.values()) <= values
    assert TEXTS["markup"] in values
    assert TEXTS["formula"] in values


def test_csv_in_a_pipe_has_the_texts_as_they_are(home: Path):
    output = invoke("query", QUERY, "--format", "csv", "--home", str(home)).decode()
    assert set(TEXTS.values()) <= {row[0] for row in csv.reader(io.StringIO(output, newline=""))}


def test_formulas_are_escaped_on_request(home: Path, tmp_path: Path):
    command = ("query", QUERY, "--home", str(home), "--escape-formulas")
    file = tmp_path / "rows.csv"
    invoke(*command, "-o", str(file))
    for text in (invoke(*command, "--format", "csv").decode(), file.read_bytes().decode()):
        cells = {row[0] for row in csv.reader(io.StringIO(text, newline=""))}
        assert {"'=HYPERLINK(1)", "'+1+1", "'@x", "-3", TEXTS["markup"]} <= cells
        assert "=HYPERLINK(1)" not in cells
    assert b"unusual" in invoke("runs", "--format", "csv", "--escape-formulas", "--home", str(home))
