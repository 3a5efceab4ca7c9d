"""Journals of every released format version give the graph that they gave when they were recorded."""

from __future__ import annotations

import gzip
import io
import os
import shutil
from pathlib import Path

import pytest

import provml

FIXTURES = Path(__file__).parents[1] / "fixtures" / "journals"
LONG_AGO = 1_000_000_000.0
VERSIONS = ["v1", "v2", "v3", "v4"]


def copy_home(version: str, target: Path) -> Path:
    """Copy a stored home; its journals look as if their writers had been silent for years."""
    shutil.copytree(FIXTURES / version / "runs", target / "runs")
    for path in target.rglob("*.jsonl"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    return target


def graph_of(home: Path) -> list[bytes]:
    """Return the graph of a home as sorted N-Triples."""
    file = io.BytesIO()
    with provml.open(home) as store:
        assert store.problems == []
        store.export(None, file, "nt")
    return sorted(file.getvalue().splitlines(keepends=True))


def expected_graph(version: str) -> list[bytes]:
    return gzip.decompress((FIXTURES / version / "graph.nt.gz").read_bytes()).splitlines(keepends=True)


DERIVED = {
    f"<https://w3id.org/provml#{name}>".encode()
    for name in (
        *("adaptedStage", "bestEvaluation", "builtOn", "evaluatedOn", "evaluatedTraining", "latestEvaluation"),
        *("learnedFrom", "maxValue", "rankingValue", "validatedSection"),
    )
}
"""Statements that follow from others, and that the graphs were stored without."""


def assert_same(actual: list[bytes], expected: list[bytes]) -> None:
    """Check that a graph has all stored statements, and beyond them only derived ones and the person of each step."""
    assert not set(expected) - set(actual)
    added = [line.split(b" ", 2) for line in set(actual) - set(expected)]
    others = [(subject, node) for subject, predicate, node in added if predicate not in DERIVED]
    assert all(b"/persona/" in node and b"/run/" in subject for subject, node in others)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stored_home_gives_the_same_graph(tmp_path: Path, version: str) -> None:
    assert_same(graph_of(copy_home(version, tmp_path / "home")), expected_graph(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_backup_of_a_stored_home_gives_the_same_graph(tmp_path: Path, version: str) -> None:
    home, target = copy_home(version, tmp_path / "home"), tmp_path / "backup"
    with provml.open(home) as store:
        store.backup(target)
    assert not list(target.rglob("*.slate"))
    assert_same(graph_of(target), expected_graph(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stored_home_names_no_machine(version: str) -> None:
    for path in (FIXTURES / version).rglob("*.jsonl"):
        text = path.read_bytes()
        assert b'"host":"host-1"' in text or b'"host":' not in text  # an imported run names none
        assert not any(folder in text for folder in (b"/home/", b"/root", b"/tmp", b"/work", b"/opt", b"/usr"))
