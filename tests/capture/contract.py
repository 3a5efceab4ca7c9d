"""What every capture does, whichever framework it watches: one class of tests that each framework's tests subclass.

A subclass says in `train` how its framework trains on scikit-learn's digits, and gives back what the framework itself
says of that training; the tests here hold what was recorded against it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

import provml
from provml.recorder import Recorder
from provml.validation import validate

CLOSE = 1e-6


Recorded = tuple["Told", Any]


class Boom(Exception):
    """What the contract has a training raise in its middle."""


@dataclass
class Told:
    """What a framework itself says of a training. Epochs (rounds, folds) count from 1."""

    result: bytes
    """All that was learned, to the last bit: weights, trees, coefficients."""
    hyperparameters: dict[str, Any]
    """Some that must be there, with these values."""
    measures: dict[str, list[float]]
    """Of the training, by epoch."""
    validation: dict[str, list[float]] = field(default_factory=dict)
    """Of the validation inside the training, by epoch."""
    adaptations: list[tuple[int, str, float, float, str]] = field(default_factory=list)
    """All of them: in which epoch, which hyperparameter, from what, to what, by which technique."""
    layers: list[tuple[str, str]] = field(default_factory=list)
    """All of them in order, by name and type."""
    evaluation: dict[str, float] = field(default_factory=dict)
    """Measures of an evaluation after the training."""
    model: Path | None = None
    """The file that the model was saved to."""


class Faulty(Recorder):
    """A recorder that breaks at every event after some: what no recorder does, but a capture may meet its like."""

    def __init__(self, events: int, home: Path) -> None:
        super().__init__("digits", model="net", home=home, capture_environment=False)
        self.events, self.whole = events, self.tell
        self.tell = self.break_down

    def break_down(self, what: Any) -> None:
        self.events -= 1
        if self.events < 0:
            raise RuntimeError("broken")
        self.whole(what)


class CaptureContract:
    """The contract. A subclass gives `train`, says its `software`, and may narrow what its framework has."""

    software: ClassVar[str]
    """The name under which the framework stands in the environment."""
    section: ClassVar[str] = "provml:TrainingEpochExecution"
    """The class of the sections that measures belong to."""

    @classmethod
    def train(cls, run: Recorder | None, folder: Path, *, fails: bool = False) -> Told:
        """Train, seeded, with a capture on `run` (none: without any capture), files into `folder`; `fails`: raise
        `Boom` in the middle of the training, from the user's side."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def recorded(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
        home = tmp_path_factory.mktemp("recorded")
        with provml.record("digits", model="net", home=home / "home", run="whole", strict=True) as run:
            told = cls.train(run, home)
        with provml.open(home / "home") as store:
            yield told, store

    @pytest.fixture(scope="class")
    @classmethod
    def plain(cls, tmp_path_factory: pytest.TempPathFactory) -> Told:
        return cls.train(None, tmp_path_factory.mktemp("plain"))

    # ---- what is recorded

    def test_hyperparameters_are_recorded_with_their_values(self, recorded: Recorded):
        told, store = recorded
        rows = ask(
            store,
            """SELECT ?name ?value { ?training a provml:TrainingExecution ; prov:used ?v .
               ?v a provml:LearningHyperparameterValue ; prov:value ?value ;
                  provlake:wasDerivedFromAttribute/rdfs:label ?name }""",
        )
        found: dict[str, list[Any]] = {}
        for name, value in rows:
            found.setdefault(name, []).append(value)
        assert told.hyperparameters
        for name, value in told.hyperparameters.items():
            assert name in found, f"{name} is not among {sorted(found)}"
            assert any(is_close(value, one) for one in found[name]), f"{name} is {found[name]}, not {value!r}"

    def test_layers_are_recorded_in_order(self, recorded: Recorded):
        told, store = recorded
        rows = ask(
            store,
            """SELECT ?name ?type { ?network a provml:ModelSchemaValue ; provml:hasLayer+ ?layer .
               ?layer provml:layerIndex ?index ; rdfs:label ?name ; provml:layerType ?type } ORDER BY ?index""",
        )
        assert rows == told.layers

    def test_measures_are_recorded_by_epoch(self, recorded: Recorded):
        told, store = recorded
        assert told.measures
        assert by_epoch(store, self.section) == nearly(told.measures)

    def test_validation_is_a_stage_of_its_own_with_an_epoch_for_each_of_the_training(self, recorded: Recorded):
        told, store = recorded
        assert by_epoch(store, "provml:ValidationEpochExecution") == nearly(told.validation)
        if told.validation:
            twins = ask(
                store,
                f"""SELECT ?index ?other {{ ?twin a provml:ValidationEpochExecution ; provml:sectionIndex ?index ;
                    prov:wasInformedBy ?epoch . ?epoch a {self.section} ; provml:sectionIndex ?other }}""",
            )
            assert twins
            assert all(index == other for index, other in twins)

    def test_every_adaptation_is_recorded_and_nothing_else_is(self, recorded: Recorded):
        told, store = recorded
        assert adaptations(store) == [
            (epoch, name, pytest.approx(old, rel=CLOSE), pytest.approx(new, rel=CLOSE), technique)
            for epoch, name, old, new, technique in told.adaptations
        ]

    def test_the_model_is_recorded(self, recorded: Recorded):
        told, store = recorded
        rows = ask(
            store,
            """SELECT ?model { ?model a provml:Model ; prov:wasGeneratedBy ?by .
               { ?by a provml:TrainingExecution } UNION { ?by provml:wasSectionOf/a provml:TrainingExecution } }""",
        )
        assert rows
        if told.model is not None:
            assert (digest_of(told.model),) in ask(store, "SELECT ?d { ?model a provml:Model ; provlake:sha256 ?d }")

    def test_the_evaluation_is_recorded_with_the_model_that_it_judged(self, recorded: Recorded):
        told, store = recorded
        rows = ask(
            store,
            """SELECT ?name ?value { ?test a provml:EvaluationExecution ; prov:used ?model . ?model a provml:Model .
               ?v prov:wasGeneratedBy ?test ; a provml:ModelEvaluation ; prov:value ?value ;
                  provlake:wasDerivedFromAttribute/rdfs:label ?name }""",
        )
        assert dict(rows) == {name: pytest.approx(value, rel=CLOSE) for name, value in told.evaluation.items()}

    def test_the_environment_has_the_framework_with_its_version(self, recorded: Recorded):
        _, store = recorded
        rows = ask(
            store,
            """SELECT ?name ?version { ?environment a provlake:ExecutionEnvironment ; provml:hasSoftware ?s .
               ?s rdfs:label ?name ; provml:softwareVersion ?version }""",
        )
        assert self.software in dict(rows)

    def test_a_training_that_ended_well_says_so(self, recorded: Recorded):
        _, store = recorded
        assert store.run("whole").status == "FINISHED"
        assert ask(store, "SELECT DISTINCT ?s { ?stage a provml:LearningStageExecution ; provlake:status ?s }") == [
            ("FINISHED",)
        ]
        assert not ask(store, "SELECT ?c { ?run a provml:LearningProcessExecution ; rdfs:comment ?c }")  # no faults

    def test_the_run_conforms_to_all_shapes(self, recorded: Recorded):
        _, store = recorded
        file = io.BytesIO()
        store.export("whole", file, "nt")
        report = validate(file.getvalue())
        assert report, str(report)
        assert store.problems == []

    # ---- what it leaves alone

    def test_the_result_is_the_same_to_the_last_bit_with_capture_and_without(self, recorded: Recorded, plain: Told):
        told, _ = recorded
        assert told.result == plain.result
        assert told.measures == plain.measures

    @pytest.mark.parametrize("events", [0, 4, 12])
    def test_faults_of_capture_leave_the_training_as_it_is(self, events: int, plain: Told, tmp_path: Path):
        run = Faulty(events, tmp_path / "home")
        told = self.train(run, tmp_path)
        run.tell = run.whole
        run.finish()
        assert run.faults > 0
        assert told.result == plain.result
        assert told.model is None or told.model.exists()

    def test_where_recording_is_off_the_training_is_as_it_is(
        self, plain: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("PROVML_DISABLED", "1")
        with provml.record("digits", model="net", home=tmp_path / "home", strict=True) as run:
            told = self.train(run, tmp_path)
        assert told.result == plain.result
        assert told.model is None or told.model.exists()
        assert not (tmp_path / "home").exists()

    def test_an_exception_inside_the_training_is_recorded_and_reaches_the_user(self, tmp_path: Path):
        run = provml.record("digits", model="net", home=tmp_path / "home", run="failed", strict=True)
        with pytest.raises(Boom), run:
            self.train(run, tmp_path, fails=True)
        with provml.open(tmp_path / "home") as store:
            assert store.run("failed").status == "FAILED"
            rows = ask(
                store,
                """SELECT ?status ?type { ?training a provml:TrainingExecution ; provlake:status ?status ;
                   provlake:exceptionType ?type }""",
            )
            assert rows == [("FAILED", "Boom")]


class SeveralContract:
    """What holds where one capture records several trainings. A subclass says how to train a model on some rows."""

    @classmethod
    def capture(cls, **settings: Any) -> Any:
        """A capture of the framework."""
        raise NotImplementedError

    @classmethod
    def train_on(cls, capture: Any, folder: Path, rows: slice, model: Any = None) -> Any:
        """Train a fresh model, or one that is given further, on these rows of the digits; the model."""
        raise NotImplementedError

    @pytest.fixture
    @classmethod
    def several(cls, tmp_path: Path) -> Iterator[tuple[Any, Path, Path]]:
        home = tmp_path / "home"
        with cls.capture(home=home, strict=True, model="net", capture_environment=False) as capture:
            yield capture, tmp_path, home

    def test_each_training_is_recorded_on_its_own_data(self, several: tuple[Any, Path, Path]):
        capture, folder, home = several
        model = self.train_on(capture, folder, slice(0, 200))
        self.train_on(capture, folder, slice(200, 350), model)
        self.train_on(capture, folder, slice(350, 400))
        capture.finish()
        with provml.open(home) as store:
            first, second, third = used_by(store, "TrainingExecution")
            assert first
            assert len(first | second | third) == len(first) + len(second) + len(third)

    def test_only_the_same_model_is_one_gone_on_with(self, several: tuple[Any, Path, Path]):
        capture, folder, home = several
        model = self.train_on(capture, folder, slice(0, 200))
        self.train_on(capture, folder, slice(0, 200))
        self.train_on(capture, folder, slice(0, 200), model)
        capture.finish()
        with provml.open(home) as store:
            made, before = models_of(store)
            assert before == [None, None, made[0]]


class JudgingContract(SeveralContract):
    """What holds where a framework says which model it judges."""

    @classmethod
    def judge_on(cls, capture: Any, folder: Path, rows: slice, model: Any) -> None:
        """Evaluate a model on these rows."""
        raise NotImplementedError

    def test_each_evaluation_is_recorded_on_its_own_data(self, several: tuple[Any, Path, Path]):
        capture, folder, home = several
        model = self.train_on(capture, folder, slice(0, 200))
        self.judge_on(capture, folder, slice(500, 600), model)
        self.judge_on(capture, folder, slice(600, 650), model)
        capture.finish()
        with provml.open(home) as store:
            first, second = used_by(store, "EvaluationExecution")
            assert first
            assert not first & second

    def test_an_evaluation_judges_the_model_that_it_was_given(self, several: tuple[Any, Path, Path]):
        capture, folder, home = several
        one = self.train_on(capture, folder, slice(0, 200))
        other = self.train_on(capture, folder, slice(0, 200))
        for model in (one, other, one, other):
            self.judge_on(capture, folder, slice(500, 600), model)
        capture.finish()
        with provml.open(home) as store:
            made, _ = models_of(store)
            assert judged(store) == [made[0], made[1], made[0], made[1]]


# ---- asking


def ask(store: Any, sparql: str) -> list[tuple[Any, ...]]:
    """The rows of a question."""
    return [tuple(row) for row in store.query(sparql).rows]


def used(store: Any, kind: str = "TrainingExecution") -> dict[str, Any]:
    """The values that stages of one class used, by name."""
    return dict(
        ask(
            store,
            f"""SELECT ?name ?value {{ ?stage a provml:{kind} ; prov:used ?v . ?v prov:value ?value ;
                provlake:wasDerivedFromAttribute/rdfs:label ?name }}""",
        )
    )


def model_facts(store: Any) -> dict[str, Any]:
    """What is known of models, by name."""
    return dict(
        ask(
            store,
            """SELECT ?name ?value { ?v a provml:ModelHyperparameterValue ; prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name }""",
        )
    )


def by_epoch(store: Any, section: str) -> dict[str, list[float]]:
    """The measures of the sections of one class, by name, in the order of the sections."""
    rows = ask(
        store,
        f"""SELECT ?name ?value {{ ?section a {section} ; provml:sectionIndex ?index .
            ?v prov:wasGeneratedBy ?section ; a provml:ModelEvaluation ; prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name }} ORDER BY ?name ?index""",
    )
    found: dict[str, list[float]] = {}
    for name, value in rows:
        found.setdefault(name, []).append(value)
    return found


def used_by(store: Any, kind: str) -> list[set[str]]:
    """The data that each stage of a kind used, in the order of the stages."""
    rows = ask(
        store,
        f"""SELECT ?stage ?data {{ ?stage a provml:{kind} ; prov:startedAtTime ?t ; prov:used ?data .
            ?data a provml:LearningDataset }} ORDER BY ?t""",
    )
    found: dict[str, set[str]] = {}
    for stage, data in rows:
        found.setdefault(stage, set()).add(data)
    return list(found.values())


def models_of(store: Any) -> tuple[list[Any], list[Any]]:
    """Of each training in order: the model that it made last, and the one that it went on from."""
    rows = ask(
        store,
        """SELECT ?training ?made ?before { ?training a provml:TrainingExecution ; prov:startedAtTime ?t .
           OPTIONAL { { ?made prov:wasGeneratedBy ?training } UNION
             { ?made prov:wasGeneratedBy/provml:wasSectionOf ?training } ?made a provml:Model }
           OPTIONAL { ?training prov:used ?before . ?before a provml:Model } } ORDER BY ?t ?made""",
    )
    made, before = {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}
    return list(made.values()), list(before.values())


def judged(store: Any) -> list[Any]:
    """The models that the evaluations judged, in their order."""
    rows = ask(
        store,
        "SELECT ?m { ?e a provml:EvaluationExecution ; prov:startedAtTime ?t ; provml:evaluated ?m } ORDER BY ?t",
    )
    return [model for (model,) in rows]


def adaptations(store: Any) -> list[tuple[Any, ...]]:
    """All adaptations, in their order: epoch, hyperparameter, old, new, technique."""
    return ask(
        store,
        """SELECT ?epoch ?name ?old ?new ?technique { ?adaptation a provml:AdaptationExecution ;
           provml:adaptedDuring ?during ; prov:startedAtTime ?t .
           ?setting prov:wasGeneratedBy ?adaptation ; prov:value ?new ; provml:revisesValue/prov:value ?old ;
                    provlake:wasDerivedFromAttribute/rdfs:label ?name .
           OPTIONAL { ?during provml:sectionIndex ?epoch } OPTIONAL { ?adaptation provml:technique ?technique } }
           ORDER BY ?t ?epoch ?name""",
    )


def nearly(measures: dict[str, list[float]]) -> dict[str, Any]:
    """The same, compared with a tolerance: frameworks give floats of 32 bits in more than one way."""
    return {name: pytest.approx(values, rel=CLOSE) for name, values in measures.items()}


def is_close(wanted: Any, found: Any) -> bool:
    """Whether a value is the one that was wanted."""
    if isinstance(wanted, float) and isinstance(found, (int, float)):
        return bool(found == pytest.approx(wanted, rel=CLOSE))
    return bool(wanted == found)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file or a folder, as provml knows it."""
    from provml import content

    known = content.of(path)
    assert known is not None
    return known.sha256
