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
from provml.cli.runs import RDF_FORMATS

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


def test_the_command_has_the_formats_of_the_store():
    from provml.store import export

    assert tuple(export.FORMATS) == RDF_FORMATS


def test_export_to_a_file_with_an_unknown_extension_needs_a_format(recorded_home: Path, tmp_path: Path):
    message = error_of(recorded_home, "export", "flowers-1", "-o", str(tmp_path / "out.json"))
    assert "Unknown extension '.json'. Use .nt, .nq, .ttl, .trig, .rdf, .jsonld, or pass --format." in message
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
