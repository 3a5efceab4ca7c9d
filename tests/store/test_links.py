"""Links that the index derives: the same in whatever order journals arrive, and after a run was removed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyoxigraph as ox
import pytest
from example_runs import leaks, seismic
from example_runs.asking import ExampleGraph

from provml.recording.run import record
from provml.store.links import BEST, BUILT_ON, EVALUATED_TRAINING, LATEST
from provml.store.store import Store

RUN = "https://w3id.org/provml/run/"


def links_of(graph: ox.Store) -> set[str]:
    """Return the derived links of a graph."""
    predicates = (BUILT_ON, EVALUATED_TRAINING, LATEST, BEST)
    return {str(quad.triple) for p in predicates for quad in graph.quads_for_pattern(None, p, None, ox.DefaultGraph())}


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("complete")
    seismic.life_cycle().write(home)
    leaks.write(home)
    return home


@pytest.mark.parametrize("seed", range(5))
def test_links_do_not_depend_on_the_order_in_which_journals_arrive(complete: Path, tmp_path: Path, seed: int):
    expected = links_of(ExampleGraph(complete).index.backend.graph())
    assert {BUILT_ON.value, EVALUATED_TRAINING.value, LATEST.value, BEST.value} == {
        text.split("> <")[1] for text in expected
    }
    folders = sorted(path for path in (complete / "runs").iterdir() if path.is_dir())
    random.Random(seed).shuffle(folders)
    graph = ExampleGraph(tmp_path)
    for folder in folders:
        shutil.copytree(folder, tmp_path / "runs" / folder.name)
        graph.sync()
    assert links_of(graph.index.backend.graph()) == expected


def test_links_follow_a_training_while_it_runs(tmp_path: Path):
    with record("live", home=tmp_path, model="net", run="live", strict=True) as run, run.training() as training:
        graph = ExampleGraph(tmp_path)
        for epoch, loss in zip(training.epochs(3), (0.5, 0.1, 0.3), strict=True):
            epoch.measured(loss=loss)
            graph.sync()
            values = {
                predicate: [
                    value
                    for (value,) in graph.query(
                        f"SELECT ?v {{ <{RUN}live/training> <{predicate.value}>/<http://www.w3.org/ns/prov#value> ?v }}"
                    )[1]
                ]
                for predicate in (LATEST, BEST)
            }
            assert values == {LATEST: [loss], BEST: [min((0.5, 0.1, 0.3)[: epoch.index])]}
    graph.sync()
    assert links_of(graph.index.backend.graph()) == links_of(ExampleGraph(tmp_path).index.backend.graph())


def test_the_maker_of_a_file_that_arrives_later_is_the_evaluated_training(tmp_path: Path):
    weights = tmp_path / "model.pt"
    weights.write_bytes(b"weights")
    later = tmp_path / "later"
    with record("maker", home=later, model="net", run="maker", strict=True) as run, run.training() as training:
        training.produced(weights)
    home = tmp_path / "home"
    with record("tester", home=home, model="net", run="tester", strict=True) as run:
        with run.training():
            pass
        with run.evaluation(of=run.dataset(weights)) as test:
            test.measured(accuracy=0.9)
    graph = ExampleGraph(home)
    shutil.copytree(later / "runs" / "maker", home / "runs" / "maker")
    graph.sync()
    trainings = graph.index.backend.graph().quads_for_pattern(None, EVALUATED_TRAINING, None, None)
    assert [quad.object.value for quad in trainings] == [f"{RUN}maker/training"]


def test_links_to_a_removed_run_are_removed(complete: Path, tmp_path: Path):
    shutil.copytree(complete / "runs", tmp_path / "home" / "runs")
    with Store(tmp_path / "home") as store:
        before = links_of(store.graph())
        store.remove("base")
        after = links_of(store.graph())
    assert {text for text in before if "/run/base/" in text}
    assert after == {text for text in before if "/run/base/" not in text}
