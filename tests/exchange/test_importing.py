"""Imports into a home: the format is recognised, a repeated import adds what is new, and an imported run is a run."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

import provml
from provml.cli.importing import import_command
from provml.errors import FileFormatError
from provml.exchange import IMPORTERS, read
from provml.exchange.importing import choose_importer
from provml.store import gc

from .test_dnnprov import EPOCHS, HEAD, SETTINGS, dump

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


def files(home: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()}


def test_a_report_has_the_runs_with_their_epochs_and_measures(tmp_path: Path):
    report = read(dump(tmp_path), tmp_path / "home", model="alexnet")
    assert [(run.name, run.model, run.result, run.epochs, run.measures) for run in report.runs] == [
        ("net", "alexnet", "new", 3, 5),
        ("net", "alexnet", "new", 1, 2),
    ]
    assert str(report).splitlines()[:3] == [
        "dump.sql (dfanalyzer): imported 2 runs with 4 epochs",
        "parameters: 6 in the source; 6 kept",
        "metric points: 7 in the source; 7 kept",
    ]
    assert report.rows()[0] == (report.runs[0].id, "net", "alexnet", 3, 5, "new", None)
    assert "imported 2 runs" in report._repr_html_()


def test_importing_again_writes_nothing(tmp_path: Path):
    home = tmp_path / "home"
    first = read(dump(tmp_path), home)
    before = files(home)
    report = read(dump(tmp_path), home)
    assert files(home) == before
    assert [(run.id, run.result) for run in report.runs] == [(run.id, "unchanged") for run in first.runs]
    assert report.summary() == "dump.sql (dfanalyzer): imported 0 runs with 0 epochs; 2 runs already here"


def test_a_run_that_has_grown_replaces_the_earlier_import_in_the_index(tmp_path: Path):
    home = tmp_path / "home"
    short = EPOCHS.replace("COPY 2", "COPY 1").replace('2|"110.0"|"5.0"|0.25|1\n', "")
    read(dump(tmp_path, SETTINGS + short), home)
    epochs = "SELECT ?index { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?index } ORDER BY ?index"
    with provml.open(home) as store:
        assert (store.run("latest").status, store.query(epochs).rows) == ("LOST", [(1,)])
    report = read(dump(tmp_path, SETTINGS + EPOCHS), home)
    assert [run.result for run in report.runs] == ["changed"]
    assert "imported 1 run with 2 epochs, 1 of them changed since the last import" in str(report)
    with provml.open(home) as store:
        assert (store.run("latest").status, store.query(epochs).rows) == ("FINISHED", [(1,), (2,)])
        assert len(store.runs()) == 1


def test_a_journal_of_an_earlier_version_is_the_same_import(tmp_path: Path):
    home = tmp_path / "home"
    [run] = read(dump(tmp_path, SETTINGS + EPOCHS), home).runs
    [journal] = (home / "runs" / run.id).iterdir()
    journal.rename(journal.with_name("dnnprov.jsonl"))
    assert [run.result for run in read(dump(tmp_path, SETTINGS + EPOCHS), home).runs] == ["unchanged"]
    assert [path.name for path in (home / "runs" / run.id).iterdir()] == ["dnnprov.jsonl"]


def test_an_imported_run_is_a_run(tmp_path: Path):
    [run] = read(dump(tmp_path, SETTINGS + EPOCHS), tmp_path / "home").runs
    with provml.open(tmp_path / "home") as store:
        info = store.run(run.id)
        assert (info.name, info.model, info.status, info.seconds) == ("net", "net", "FINISHED", 10.0)
        assert [row[1:] for row in store.ask("q3", model="net")] == [(1, 5.0, 0.5), (2, 5.0, 0.25)]
        assert store.validate(run.id)
        assert store.export(run.id, io.BytesIO(), "ttl") > 50
        assert store.verify() == []
        store.remove(run.id)
        assert store.runs() == []


@pytest.mark.parametrize(
    ("text", "fmt", "message"),
    [
        (
            "no dump",
            "",
            "dump.sql: the format is not recognised. Name it with --as. Formats: bundle, home, ",
        ),
        ("no dump", "dfanalyzer", "dump.sql: it contains no table rows. Pass a MonetDB dump of DfAnalyzer"),
        (HEAD, "excel", "dump.sql: unknown format 'excel'. Formats: bundle, home, dfanalyzer, "),
        (HEAD.replace("\t0.5\t0.75\t1", "\thalf\t0.75\t1"), "", "dump.sql:47: loss is not a number ('half')"),
        ('COPY 1 RECORDS INTO "public"."ds_x" FROM stdin\n\n', "", "it contains no runs"),
    ],
)
def test_a_source_that_cannot_be_read_is_an_error_and_no_home_is_created(
    tmp_path: Path, text: str, fmt: str, message: str
):
    with pytest.raises(FileFormatError) as caught:
        read(dump(tmp_path, text), tmp_path / "home", fmt=fmt)
    assert message in str(caught.value)
    assert not (tmp_path / "home").exists()


def test_a_missing_source_and_bytes_that_are_no_text_are_errors(tmp_path: Path):
    with pytest.raises(FileFormatError, match="no such file or directory"):
        read(tmp_path / "none.sql", tmp_path / "home")
    binary = tmp_path / "binary.sql"
    binary.write_bytes(HEAD.encode().replace(b"flowers", b"\xff\xfe"))
    with pytest.raises(FileFormatError, match="it is not UTF-8 text"):
        read(binary, tmp_path / "home")
    with pytest.raises(FileFormatError, match="it cannot be read"):
        read(tmp_path, tmp_path / "home", fmt="dfanalyzer")


def test_a_source_with_nothing_but_skipped_parts_has_no_runs(tmp_path: Path):
    report = read(dump(tmp_path, SETTINGS + EPOCHS.replace("|0.25|1", "|0.25|0")), tmp_path / "home")
    assert report.is_empty
    assert str(report).splitlines()[1].startswith("skipped net: the training of 1970-01-01 00:01:40 has an epoch twice")


def test_progress_adds_up_to_the_size_of_the_file(tmp_path: Path):
    path, sizes = dump(tmp_path), list[int]()
    read(path, tmp_path / "home", on_progress=sizes.append)
    assert sum(sizes) == path.stat().st_size


def test_every_importer_has_a_name_and_a_summary(tmp_path: Path):
    for name, importer in IMPORTERS.items():
        assert importer.name == name == name.lower()
        assert importer.summary
        page = "move-runs.md" if name in ("bundle", "home") else f"import/{name}.md"
        assert (HOW_TO / page).is_file()
        assert f"({page})" in (HOW_TO / "import-runs.md").read_text()
        assert re.search(rf"^ *{name} ", import_command.help or "", re.MULTILINE)
        assert choose_importer(dump(tmp_path), name) is importer
        assert not importer.recognises(tmp_path / "none")


def test_leftovers_of_a_killed_import_are_removed(tmp_path: Path):
    read(dump(tmp_path), tmp_path / "home")
    leftover = tmp_path / "home" / "import-12345678.part"
    leftover.write_text("{}")
    assert leftover in [path for path, _ in gc.collect(tmp_path / "home", min_age_seconds=0.0)]
    assert not leftover.exists()
