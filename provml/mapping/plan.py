"""The prospective side: plans and attributes, derived from the first execution that shows them, each emitted once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from provml.journal.events import LEARNING_KINDS, MAX_MEASURES
from provml.mapping.direction import DIRECTIONS, Direction, direction_of
from provml.mapping.iris import plan_iri, quote_segment, to_iri
from provml.mapping.state import State
from provml.model.thing import Thing
from provml.model.values import IRI
from provml.vocab import (
    Adaptation,
    AdaptationParameter,
    Attribute,
    Batch,
    DataCuration,
    DataPreparation,
    DatasetCharacteristic,
    DataSplit,
    DataTransformation,
    Epoch,
    Evaluation,
    EvaluationMeasure,
    FeatureExtraction,
    FeatureSet,
    FeatureSetCharacteristic,
    Filter,
    Fold,
    LearningDatasetReference,
    LearningExperiment,
    LearningHyperparameter,
    LearningStageSection,
    LearningTask,
    ModelHyperparameter,
    ModelProspection,
    ModelSchema,
    PreparationParameter,
    Round,
    Training,
    TrainingEpoch,
    Validation,
    ValidationEpoch,
    ValidationSection,
)

STEPS: dict[str, type[DataTransformation]] = {
    "training": Training,
    "validation": Validation,
    "evaluation": Evaluation,
    "curation": DataCuration,
    "preparation": DataPreparation,
    "filter": Filter,
    "split": DataSplit,
    "extraction": FeatureExtraction,
    "step": DataTransformation,
}
EPOCHS: dict[str, type[LearningStageSection]] = {"training": TrainingEpoch, "validation": ValidationEpoch}
SECTIONS: dict[str, type[LearningStageSection]] = {"batch": Batch, "fold": Fold, "round": Round}


class TooManyMeasures(ValueError):
    """A run has more measures than the graph of a run may have."""

    def __init__(self) -> None:
        super().__init__(f"the run has more than {MAX_MEASURES:,} different measures; further ones are left out")


class Plan:
    """The plans of one experiment. Each method returns an IRI, and emits the node when it is first asked for."""

    def __init__(self, state: State, emit: Callable[[Thing], None]) -> None:
        self.state = state
        self.emit = emit
        self.name = state.experiment
        self.experiment = plan_iri(self.name)

    def register(self, iri: IRI, kind: str = "") -> bool:
        """Return True if a node (or a node as this kind, if a name can be used for several kinds) is new."""
        key = f"{iri}#{kind}" if kind else str(iri)
        if key in self.state.emitted:
            return False
        self.state.emitted.add(key)
        return True

    def emit_once(self, cls: type[Thing], iri: IRI, **values: Any) -> IRI:
        """Emit a node unless it was emitted before."""
        if self.register(iri):
            self.emit(cls(iri, **values))
        return iri

    def emit_experiment(self) -> None:
        """Emit the experiment itself."""
        self.emit_once(LearningExperiment, self.experiment, label=self.name, tag="Learning")

    def task(self) -> IRI:
        """Return the learning task of the experiment."""
        return self.emit_once(LearningTask, IRI(f"{self.experiment}#task"), label="task", tag="Learning Task")

    # ---- steps and sections

    def step(self, kind: str, name: str) -> IRI:
        """Return the plan of a stage or a step, which is a part of the experiment."""
        cls = STEPS.get(kind, DataTransformation)
        iri = plan_iri(self.name, name or kind)
        if kind in LEARNING_KINDS and self._names_another_stage(iri, kind, name):
            iri = IRI(f"{iri}~{kind}")
        if self.register(iri, cls.__name__):
            if kind in LEARNING_KINDS:
                self.emit(LearningExperiment(self.experiment, has_learning_stage=iri))
            else:
                self.emit(LearningExperiment(self.experiment, has_data_transformation=iri))
            self.emit(cls(iri, label=name, tag=kind.capitalize()))
        return iri

    def _names_another_stage(self, iri: IRI, kind: str, name: str) -> bool:
        """Return True if a stage of another kind has this name: no plan is both a training and a validation."""
        for other in LEARNING_KINDS:
            if other != kind and (name == other or f"{iri}#{STEPS[other].__name__}" in self.state.emitted):
                return True
        return False

    def section(self, stage_kind: str, kind: str, stage: IRI) -> IRI:
        """Return the plan of the epochs, batches, folds, rounds or sections of a user's own kind of a stage."""
        iri = to_iri(f"{stage}/{quote_segment(kind)}")
        if self.register(iri):
            own = ValidationSection if stage_kind == "validation" else LearningStageSection
            cls = EPOCHS.get(stage_kind, Epoch) if kind == "epoch" else SECTIONS.get(kind, own)
            self.emit(STEPS[stage_kind](stage, has_section=iri))  # type: ignore[call-arg]  # learning stages have it
            self.emit(cls(iri, label=f"{kind.capitalize()} Execution", tag=kind.capitalize()))
        return iri

    def adaptation(self, technique: str) -> IRI:
        """Return the plan of the adaptations by a technique."""
        name = technique or "adaptation"
        iri = plan_iri(self.name, "adaptation", name)
        if self.register(iri):
            self.emit(LearningExperiment(self.experiment, has_data_transformation=iri))
            self.emit(Adaptation(iri, label=name, tag="Adaptation", technique=technique or None))
        return iri

    # ---- parameters

    def parameter(self, kind: str, step: IRI, name: str) -> IRI:
        """Return a hyperparameter of a stage, or a parameter of a step of another kind."""
        is_learning = kind in LEARNING_KINDS
        cls = LearningHyperparameter if is_learning else PreparationParameter
        iri = to_iri(f"{step}/parameter/{quote_segment(name)}")
        if self.register(iri, cls.__name__):
            self.emit(STEPS.get(kind, DataTransformation)(step, has_input_attribute=iri))
            self.emit(cls(iri, label=name, tag="Hyperparameter" if is_learning else "Parameter"))
        return iri

    def adaptation_parameter(self, adaptation: IRI, name: str) -> IRI:
        """Return a parameter of an adaptation technique."""
        iri = IRI(f"{adaptation}/parameter/{quote_segment(name)}")
        return self.emit_once(AdaptationParameter, iri, label=name, tag="Hyperparameter")

    def model_hyperparameter(self, name: str) -> IRI:
        """Return a hyperparameter of the models."""
        iri = plan_iri(self.name, "model-hyperparameter", name)
        return self.emit_once(ModelHyperparameter, iri, label=name, tag="Hyperparameter")

    def seed(self, name: str) -> IRI:
        """Return the random seed of a library, which is a hyperparameter of the whole run."""
        iri = IRI(f"{self.experiment}#seed/{quote_segment(name)}")
        return self.emit_once(LearningHyperparameter, iri, label=f"seed of {name}", tag="Hyperparameter")

    def consumption(self, name: str, unit: str) -> IRI:
        """Return the energy or the emissions of the experiment's runs, in a unit."""
        iri = IRI(f"{self.experiment}#consumption/{quote_segment(name)}")
        return self.emit_once(Attribute, iri, label=name, unit=unit)

    # ---- measures

    def measure(self, name: str) -> IRI:
        """Return a measure.

        A measure whose declared direction contradicts its name has an IRI of its own, because other runs of the
        experiment may have emitted the direction that the name implies.
        """
        direction = self.direction(name)
        declared = [direction] if direction is not None and direction_of(name) not in (None, direction) else []
        iri = plan_iri(self.name, "measure", name, *declared)
        if iri not in self.state.emitted:
            if self.state.measure_count >= MAX_MEASURES:
                raise TooManyMeasures
            self.state.measure_count += 1
        return self.emit_once(EvaluationMeasure, iri, label=name, tag="Model Evaluation", direction=direction)

    def direction(self, measure: str) -> Direction | None:
        """Return whether a measure is to be minimized or maximized, as declared, else as its name implies."""
        for direction in DIRECTIONS:
            if _direction_key(measure, direction) in self.state.emitted:
                return direction
        return direction_of(measure)

    def declare_direction(self, measure: str, direction: Direction | None) -> None:
        """Set the direction of a measure from now on, whatever its name implies; None takes it back."""
        self.state.emitted -= {_direction_key(measure, each) for each in DIRECTIONS}
        if direction is not None:
            self.state.emitted.add(_direction_key(measure, direction))

    # ---- data and models

    def dataset(self, name: str) -> IRI:
        """Return a dataset."""
        return self.emit_once(LearningDatasetReference, plan_iri(self.name, "data", name), label=name, tag="Dataset")

    def file(self, name: str) -> IRI:
        """Return a file that is neither a dataset nor a model, such as a picture."""
        return self.emit_once(Attribute, plan_iri(self.name, "file", name), label=name, tag="File")

    def features(self, name: str) -> IRI:
        """Return a set of features."""
        return self.emit_once(FeatureSet, plan_iri(self.name, "features", name), label=name, tag="Features")

    def characteristic(self, kind: str, name: str) -> IRI:
        """Return a characteristic of datasets or of sets of features."""
        cls = FeatureSetCharacteristic if kind == "features" else DatasetCharacteristic
        iri = plan_iri(self.name, "characteristic", kind, name)
        return self.emit_once(cls, iri, label=name, tag="Characteristic")

    def model(self, name: str = "") -> IRI:
        """Return a model, by default the one that the experiment trains."""
        name = name or self.state.model
        return self.emit_once(ModelProspection, plan_iri(self.name, "model", name), label=name, tag="Model")

    def model_schema(self) -> IRI:
        """Return the network of the model that the experiment trains."""
        name = self.state.model
        iri = plan_iri(self.name, "network", name)
        if self.register(iri):
            self.emit(ModelProspection(self.model(), has_model_schema=iri))
            self.emit(ModelSchema(iri, label=f"{name} network", tag="Model Schema"))
        return iri


def _direction_key(measure: str, direction: Direction) -> str:
    """Return the key in `State.emitted` of a declared direction."""
    return f"{measure}#{direction}"
