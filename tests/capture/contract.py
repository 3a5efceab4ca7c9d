"""Tests that every capture passes: classes that the tests of each framework subclass.

A subclass trains on scikit-learn's digits in `train` and returns what the framework itself reports about the training.
The tests compare it with what was recorded.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

import provml
from provml.recording.run import Run
from provml.validation import validate

RELATIVE_TOLERANCE = 1e-6
Recorded = tuple["Expected", Any]


class Boom(Exception):
    """The error that the contract raises in the middle of a training."""


@dataclass
class Expected:
    """What a framework itself reports about a training. Epochs, rounds and folds are counted from 1."""

    result: bytes
    """Everything that was learned, as bytes: weights, trees, coefficients."""
    hyperparameters: dict[str, Any]
    """Some hyperparameters that must be recorded, with their values."""
    measures: dict[str, list[float]]
    """Measures of the training, by epoch."""
    validation: dict[str, list[float]] = field(default_factory=dict)
    """Measures of the validation during the training, by epoch."""
    adaptations: list[tuple[int, str, float, float, str]] = field(default_factory=list)
    """All adaptations: epoch, hyperparameter, old value, new value, technique."""
    layers: list[tuple[str, str]] = field(default_factory=list)
    """Name and type of all layers in order."""
    evaluation: dict[str, float] = field(default_factory=dict)
    """Measures of an evaluation after the training."""
    model: Path | None = None
    """The file that the model was saved to."""


class FailingRun(Run):
    """A run that raises at every event after the first ones."""

    def __init__(self, events: int, home: Path) -> None:
        super().__init__("digits", model="net", home=home, capture_environment=False)
        self.remaining_events, self.original_emit = events, self._emit
        self._emit = self.emit_or_raise

    def emit_or_raise(self, event: Any) -> None:
        self.remaining_events -= 1
        if self.remaining_events < 0:
            raise RuntimeError("broken")
        self.original_emit(event)


class CaptureContract:
    """Tests of one training. A subclass defines `train` and `software`."""

    software: ClassVar[str]
    """The name of the framework in the recorded environment."""
    section: ClassVar[str] = "provml:TrainingEpochExecution"
    """The class of the sections that have measures."""

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        """Train with a fixed seed and a capture that records into `run`; without a capture if `run` is None.

        Files are saved in `folder`. With `fails`, user code raises `Boom` in the middle of the training.
        """
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def recorded(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
        home = tmp_path_factory.mktemp("recorded")
        with provml.record("digits", model="net", home=home / "home", run="whole", strict=True) as run:
            expected = cls.train(run, home)
        with provml.open(home / "home") as store:
            yield expected, store

    @pytest.fixture(scope="class")
    @classmethod
    def plain(cls, tmp_path_factory: pytest.TempPathFactory) -> Expected:
        return cls.train(None, tmp_path_factory.mktemp("plain"))

    # ---- what is recorded

    def test_hyperparameters_are_recorded_with_their_values(self, recorded: Recorded):
        expected, store = recorded
        rows = ask(
            store,
            """SELECT ?name ?value { ?training a provml:TrainingExecution ; prov:used ?v .
               ?v a provml:LearningHyperparameterValue ; prov:value ?value ;
                  provlake:wasDerivedFromAttribute/rdfs:label ?name }""",
        )
        values: dict[str, list[Any]] = {}
        for name, value in rows:
            values.setdefault(name, []).append(value)
        assert expected.hyperparameters
        for name, value in expected.hyperparameters.items():
            assert name in values, f"{name} is not among {sorted(values)}"
            assert any(is_close(value, actual) for actual in values[name]), f"{name} is {values[name]}, not {value!r}"

    def test_layers_are_recorded_in_order(self, recorded: Recorded):
        expected, store = recorded
        rows = ask(
            store,
            """SELECT ?name ?type { ?network a provml:ModelSchemaValue ; provml:hasLayer+ ?layer .
               ?layer provml:layerIndex ?index ; rdfs:label ?name ; provml:layerType ?type } ORDER BY ?index""",
        )
        assert rows == expected.layers

    def test_measures_are_recorded_by_epoch(self, recorded: Recorded):
        expected, store = recorded
        assert expected.measures
        assert measures_by_epoch(store, self.section) == approximately(expected.measures)

    def test_validation_is_a_separate_stage_with_an_epoch_for_each_training_epoch(self, recorded: Recorded):
        expected, store = recorded
        assert measures_by_epoch(store, "provml:ValidationEpochExecution") == approximately(expected.validation)
        if expected.validation:
            pairs = ask(
                store,
                f"""SELECT ?index ?other {{ ?validation a provml:ValidationEpochExecution ; provml:sectionIndex ?index ;
                    prov:wasInformedBy ?epoch . ?epoch a {self.section} ; provml:sectionIndex ?other }}""",
            )
            assert pairs
            assert all(index == other for index, other in pairs)

    def test_all_adaptations_are_recorded_and_no_others(self, recorded: Recorded):
        expected, store = recorded
        assert adaptations(store) == [
            (
                epoch,
                name,
                pytest.approx(old, rel=RELATIVE_TOLERANCE),
                pytest.approx(new, rel=RELATIVE_TOLERANCE),
                technique,
            )
            for epoch, name, old, new, technique in expected.adaptations
        ]

    def test_the_model_is_recorded(self, recorded: Recorded):
        expected, store = recorded
        rows = ask(
            store,
            """SELECT ?model { ?model a provml:Model ; prov:wasGeneratedBy ?by .
               { ?by a provml:TrainingExecution } UNION { ?by provml:wasSectionOf/a provml:TrainingExecution } }""",
        )
        assert rows
        if expected.model is not None:
            assert (digest_of(expected.model),) in ask(
                store, "SELECT ?d { ?model a provml:Model ; provlake:sha256 ?d }"
            )

    def test_the_evaluation_is_recorded_with_the_evaluated_model(self, recorded: Recorded):
        expected, store = recorded
        rows = ask(
            store,
            """SELECT ?name ?value { ?test a provml:EvaluationExecution ; prov:used ?model . ?model a provml:Model .
               ?v prov:wasGeneratedBy ?test ; a provml:ModelEvaluation ; prov:value ?value ;
                  provlake:wasDerivedFromAttribute/rdfs:label ?name }""",
        )
        assert dict(rows) == {
            name: pytest.approx(value, rel=RELATIVE_TOLERANCE) for name, value in expected.evaluation.items()
        }

    def test_the_environment_has_the_framework_with_its_version(self, recorded: Recorded):
        _, store = recorded
        rows = ask(
            store,
            """SELECT ?name ?version { ?environment a provlake:ExecutionEnvironment ; provml:hasSoftware ?s .
               ?s rdfs:label ?name ; provml:softwareVersion ?version }""",
        )
        assert self.software in dict(rows)

    def test_a_successful_training_is_finished(self, recorded: Recorded):
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
        assert store.problems == [], store.problems

    # ---- what does not change

    def test_the_result_is_identical_with_and_without_a_capture(self, recorded: Recorded, plain: Expected):
        expected, _ = recorded
        assert expected.result == plain.result
        assert expected.measures == plain.measures

    @pytest.mark.parametrize("events", [0, 4, 12])
    def test_errors_of_a_capture_do_not_change_the_training(self, events: int, plain: Expected, tmp_path: Path):
        run = FailingRun(events, tmp_path / "home")
        expected = self.train(run, tmp_path)
        run._emit = run.original_emit
        run.finish()
        assert run.capture_errors > 0
        assert expected.result == plain.result
        assert expected.model is None or expected.model.exists()

    def test_the_training_is_unchanged_if_recording_is_disabled(
        self, plain: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("PROVML_DISABLED", "1")
        with provml.record("digits", model="net", home=tmp_path / "home", strict=True) as run:
            expected = self.train(run, tmp_path)
        assert expected.result == plain.result
        assert expected.model is None or expected.model.exists()
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

    @pytest.mark.parametrize("in_handler", [True, False])
    def test_an_exception_that_the_program_catches_fails_the_training(self, tmp_path: Path, in_handler: bool):
        run = provml.record("digits", model="net", home=tmp_path / "home", run="failed", strict=True)
        try:
            self.train(run, tmp_path, fails=True)
        except Boom:
            if in_handler:
                run.finish()
        run.finish()
        with provml.open(tmp_path / "home") as store:
            rows = ask(
                store,
                """SELECT ?status ?type { ?training a provml:TrainingExecution ; provlake:status ?status ;
                   provlake:exceptionType ?type }""",
            )
            assert rows in ([("FAILED", "Boom")], [("FAILED", "UnknownException")][in_handler:])
            assert store.run("failed").status == "FAILED"
            planned = {"epochs", "num_boost_round", "num_iterations"}
            assert not [row for row in adaptations(store) if row[1] in planned], "the plan was not changed"


class SeveralTrainingsContract:
    """Tests of one capture that records several trainings. A subclass defines how to train a model on some rows."""

    @classmethod
    def capture(cls, **settings: Any) -> Any:
        """Return a capture of the framework."""
        raise NotImplementedError

    @classmethod
    def train_on(cls, capture: Any, folder: Path, rows: slice, model: Any = None) -> Any:
        """Train a new model, or continue to train the given one, on these rows of the digits; return the model."""
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
            first, second, third = datasets_used_by(store, "TrainingExecution")
            assert first
            assert len(first | second | third) == len(first) + len(second) + len(third)

    def test_only_a_training_of_the_same_model_continues_from_it(self, several: tuple[Any, Path, Path]):
        capture, folder, home = several
        model = self.train_on(capture, folder, slice(0, 200))
        self.train_on(capture, folder, slice(0, 200))
        self.train_on(capture, folder, slice(0, 200), model)
        capture.finish()
        with provml.open(home) as store:
            produced, before = models_of(store)
            assert before == [None, None, produced[0]]


class EvaluationContract(SeveralTrainingsContract):
    """Tests of frameworks that report which model they evaluate."""

    @classmethod
    def evaluate_on(cls, capture: Any, folder: Path, rows: slice, model: Any) -> None:
        """Evaluate a model on these rows."""
        raise NotImplementedError

    def test_each_evaluation_is_recorded_on_its_own_data(self, several: tuple[Any, Path, Path]):
        capture, folder, home = several
        model = self.train_on(capture, folder, slice(0, 200))
        self.evaluate_on(capture, folder, slice(500, 600), model)
        self.evaluate_on(capture, folder, slice(600, 650), model)
        capture.finish()
        with provml.open(home) as store:
            first, second = datasets_used_by(store, "EvaluationExecution")
            assert first
            assert not first & second

    def test_an_evaluation_is_recorded_with_its_model(self, several: tuple[Any, Path, Path]):
        capture, folder, home = several
        first = self.train_on(capture, folder, slice(0, 200))
        second = self.train_on(capture, folder, slice(0, 200))
        for model in (first, second, first, second):
            self.evaluate_on(capture, folder, slice(500, 600), model)
        capture.finish()
        with provml.open(home) as store:
            produced, _ = models_of(store)
            assert evaluated_models(store) == [produced[0], produced[1], produced[0], produced[1]]

    def test_a_model_that_was_evaluated_in_memory_is_the_model_of_the_file_it_is_saved_in(
        self, several: tuple[Any, Path, Path]
    ):
        capture, folder, home = several
        model = self.train_on(capture, folder, slice(0, 200))
        self.evaluate_on(capture, folder, slice(500, 600), model)
        file = folder / "saved.bin"
        file.write_bytes(b"weights")
        capture.saved(file)
        self.evaluate_on(capture, folder, slice(600, 650), model)
        capture.finish()
        with provml.open(home) as store:
            first, second = evaluated_models(store)
            assert first == second
            digests = ask(store, "SELECT ?m { ?m a provml:Model ; prov:alternateOf/provlake:path ?p }")
            assert (first,) in digests, "the model is an alternate of the content of its file"
            assert store.validate("latest")


# ---- queries


def ask(store: Any, sparql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a SPARQL query."""
    return [tuple(row) for row in store.query(sparql).rows]


def used(store: Any, kind: str = "TrainingExecution") -> dict[str, Any]:
    """Return the values that stages of a class used, by name."""
    return dict(
        ask(
            store,
            f"""SELECT ?name ?value {{ ?stage a provml:{kind} ; prov:used ?v . ?v prov:value ?value ;
                provlake:wasDerivedFromAttribute/rdfs:label ?name }}""",
        )
    )


def model_facts(store: Any) -> dict[str, Any]:
    """Return the recorded characteristics of models, by name."""
    return dict(
        ask(
            store,
            """SELECT ?name ?value { ?v a provml:ModelHyperparameterValue ; prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name }""",
        )
    )


def measures_by_epoch(store: Any, section: str) -> dict[str, list[float]]:
    """Return the measures of the sections of a class by name, in the order of the sections."""
    rows = ask(
        store,
        f"""SELECT ?name ?value {{ ?section a {section} ; provml:sectionIndex ?index .
            ?v prov:wasGeneratedBy ?section ; a provml:ModelEvaluation ; prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name }} ORDER BY ?name ?index""",
    )
    measures: dict[str, list[float]] = {}
    for name, value in rows:
        measures.setdefault(name, []).append(value)
    return measures


def datasets_used_by(store: Any, kind: str) -> list[set[str]]:
    """Return the datasets that each stage of a class used, in the order of the stages."""
    rows = ask(
        store,
        f"""SELECT ?stage ?data {{ ?stage a provml:{kind} ; prov:startedAtTime ?t ; prov:used ?data .
            ?data a provml:LearningDataset }} ORDER BY ?t""",
    )
    datasets: dict[str, set[str]] = {}
    for stage, data in rows:
        datasets.setdefault(stage, set()).add(data)
    return list(datasets.values())


def models_of(store: Any) -> tuple[list[Any], list[Any]]:
    """Return, for each training in order, the last model that it produced, and the model that it continued from."""
    rows = ask(
        store,
        """SELECT ?training ?produced ?before { ?training a provml:TrainingExecution ; prov:startedAtTime ?t .
           OPTIONAL { { ?produced prov:wasGeneratedBy ?training } UNION
             { ?produced prov:wasGeneratedBy/provml:wasSectionOf ?training } ?produced a provml:Model }
           OPTIONAL { ?training prov:used ?before . ?before a provml:Model } } ORDER BY ?t ?produced""",
    )
    produced, before = {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}
    return list(produced.values()), list(before.values())


def evaluated_models(store: Any) -> list[Any]:
    """Return the models that were evaluated, in the order of the evaluations."""
    rows = ask(
        store,
        "SELECT ?m { ?e a provml:EvaluationExecution ; prov:startedAtTime ?t ; provml:evaluated ?m } ORDER BY ?t",
    )
    return [model for (model,) in rows]


def adaptations(store: Any) -> list[tuple[Any, ...]]:
    """Return all adaptations in order: epoch, hyperparameter, old value, new value, technique."""
    return ask(
        store,
        """SELECT ?epoch ?name ?old ?new ?technique { ?adaptation a provml:AdaptationExecution ;
           provml:adaptedDuring ?during ; prov:startedAtTime ?t .
           ?setting prov:wasGeneratedBy ?adaptation ; prov:value ?new ; provml:revisesValue/prov:value ?old ;
                    provlake:wasDerivedFromAttribute/rdfs:label ?name .
           OPTIONAL { ?during provml:sectionIndex ?epoch } OPTIONAL { ?adaptation provml:technique ?technique } }
           ORDER BY ?t ?epoch ?name""",
    )


def approximately(measures: dict[str, list[float]]) -> dict[str, Any]:
    """Return measures that compare with a tolerance: frameworks convert 32-bit floats in different ways."""
    return {name: pytest.approx(values, rel=RELATIVE_TOLERANCE) for name, values in measures.items()}


def is_close(expected: Any, actual: Any) -> bool:
    """Return whether a value is the expected one."""
    if isinstance(expected, float) and isinstance(actual, (int, float)):
        return bool(actual == pytest.approx(expected, rel=RELATIVE_TOLERANCE))
    return bool(expected == actual)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file or a folder, as provml computes it."""
    from provml.recording import hashing

    digest = hashing.digest(path)
    assert digest is not None
    return digest.sha256
