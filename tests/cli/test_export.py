"""`provml export`: runs as RDF files."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyoxigraph as ox
import pytest
from click.testing import CliRunner

from provml.cli import main
from provml.store.export import FORMATS as RDF_FORMATS
from provml.store.export_formats import EXPORT_FORMATS

from .helpers import error_of, invoke, output_of


@pytest.mark.parametrize("rdf_format", RDF_FORMATS)
def test_a_run_is_exported_as_rdf(recorded_home: Path, tmp_path: Path, rdf_format: str):
    file = tmp_path / f"run.{rdf_format}"
    result = invoke(recorded_home, "export", "flowers-1", "-o", str(file))
    assert result.exit_code == 0, result.output
    parsed_as = ox.RdfFormat.from_extension(rdf_format) or ox.RdfFormat.JSON_LD
    triples = {quad.triple for quad in ox.parse(file.read_bytes(), format=parsed_as)}
    assert f"Wrote {len(triples):,} triples to" in result.stderr
    printed = CliRunner().invoke(main, ["export", "flowers-1", "--format", rdf_format, "--home", str(recorded_home)])
    assert printed.stdout_bytes == file.read_bytes()


def test_export_to_a_file_with_an_unknown_extension_needs_a_format(recorded_home: Path, tmp_path: Path):
    message = error_of(recorded_home, "export", "flowers-1", "-o", str(tmp_path / "out.json"))
    assert "unknown extension '.json'. Formats with it: prov-json" in message
    assert "provml export --list" in message
    assert not list(tmp_path.iterdir())
    output_of(recorded_home, "export", "flowers-1", "-o", str(tmp_path / "out.json"), "--format", "jsonld")
    assert "@context" in json.loads((tmp_path / "out.json").read_text())
    output_of(recorded_home, "export", "flowers-1", "-o", str(tmp_path / "out"))
    assert (tmp_path / "out").read_text().startswith("@prefix")


def test_export_all_writes_all_runs(recorded_home: Path):
    exported = output_of(recorded_home, "export", "--all", "--format", "nt")
    assert "<https://w3id.org/provml/run/broken-1>" in exported
    assert "<https://w3id.org/provml/run/flowers-1>" in exported
    assert "run/flowers-1>" not in output_of(recorded_home, "export", "broken-1", "--format", "nt")


def test_a_failed_export_does_not_change_the_file(recorded_home: Path, tmp_path: Path):
    file = tmp_path / "run.ttl"
    file.write_text("before")
    error_of(recorded_home, "export", "nobody", "-o", str(file))
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["run.ttl"]
    assert "No directory" in error_of(recorded_home, "export", "flowers-1", "-o", str(tmp_path / "nowhere" / "x.ttl"))


def test_export_keeps_the_mode_of_a_file_and_writes_into_a_pipe_without_replacing_it(
    recorded_home: Path, tmp_path: Path
):
    file, pipe = tmp_path / "run.ttl", tmp_path / "pipe"
    file.write_text("before")
    file.chmod(0o640)
    output_of(recorded_home, "export", "broken-1", "-o", str(file))
    assert file.stat().st_mode & 0o777 == 0o640
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    output_of(recorded_home, "export", "broken-1", "-o", str(pipe), "--format", "ttl")
    assert reader.communicate()[0] == file.read_bytes()
    assert pipe.is_fifo()
    assert output_of(recorded_home, "export", "broken-1", "-o", "-") == file.read_text()


def test_export_needs_either_a_run_or_all(recorded_home: Path):
    assert "Pass a run or --all" in error_of(recorded_home, "export")
    assert "Pass a run or --all" in error_of(recorded_home, "export", "flowers-1", "--all")


def test_the_list_names_every_format_with_its_extra():
    listed = CliRunner().invoke(main, ["export", "--list"])
    assert listed.exit_code == 0
    words = listed.output.split()
    assert [name for name in EXPORT_FORMATS if name not in words] == []
    assert "provml[prov]" in words


def test_an_unknown_format_names_similar_ones(recorded_home: Path):
    message = error_of(recorded_home, "export", "flowers-1", "--as", "prov-jsn")
    assert "unknown format 'prov-jsn'. Did you mean prov-json" in message
    assert "provml export --list" in message


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    recorded_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("provml.store.export_formats.find_spec", lambda name: None)
    message = error_of(recorded_home, "export", "flowers-1", "--as", "provn", "-o", str(tmp_path / "x"))
    assert "This needs prov, which is not installed. Run `pip install 'provml[prov]'`." in message
    assert not list(tmp_path.iterdir())


def test_options_are_checked(recorded_home: Path, tmp_path: Path):
    assert "has no option 'colour'" in error_of(recorded_home, "export", "flowers-1", "--option", "colour=red")
    assert "is not NAME=VALUE" in error_of(recorded_home, "export", "flowers-1", "--option", "colour")
    assert "is a directory" in error_of(recorded_home, "export", "flowers-1", "-o", str(tmp_path), "--as", "ttl")


def test_other_names_and_long_extensions_select_a_format(recorded_home: Path, tmp_path: Path):
    output_of(recorded_home, "export", "flowers-1", "-o", str(tmp_path / "run.prov.json"))
    assert "activity" in json.loads((tmp_path / "run.prov.json").read_text())
    assert output_of(recorded_home, "export", "flowers-1", "--as", "PROV-N").startswith("document\n")
