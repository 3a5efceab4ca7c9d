"""The prospective side: plans and attributes, derived from the first execution that shows them, each told once."""

from __future__ import annotations

from collections.abc import Callable

from provml.content import Direction, direction_of
from provml.event import LEARNING
from provml.lift import name
from provml.lift.state import State
from provml.things import Thing
from provml.values import IRI
from provml.vocab import (
    Adaptation,
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
    ModelHyperparameter,
    ModelProspection,
    ModelSchema,
    PreparationParameter,
    Round,
    Training,
    TrainingEpoch,
    Validation,
    ValidationEpoch,
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


class Plan:
    """The plans of one experiment; what is new is handed to `tell`."""

    def __init__(self, experiment: str, model: str, state: State, tell: Callable[[Thing], None]) -> None:
        self.name = experiment
        self.model_name = model
        self.state = state
        self.tell = tell
        self.experiment = name.plan(experiment)

    def once(self, iri: IRI, make: Callable[[IRI], Thing], kind: str = "") -> IRI:
        """Tell a plan when it is first met; where a name can be met as several kinds, as each of them."""
        key = f"{iri}#{kind}" if kind else iri
        if key not in self.state.planned:
            self.state.planned.add(str(key))
            self.tell(make(iri))
        return iri

    def tell_experiment(self) -> None:
        self.once(self.experiment, lambda iri: LearningExperiment(iri, label=self.name, tag="Learning"))

    def step(self, kind: str, title: str) -> IRI:
        """The plan of a stage or a step, a part of the experiment."""
        cls = STEPS.get(kind, DataTransformation)
        iri = name.plan(self.name, title or kind)
        if kind in LEARNING and self._is_of_another_stage(iri, kind, title):
            iri = IRI(f"{iri}~{kind}")

        def make(iri: IRI) -> Thing:
            part = "has_learning_stage" if kind in LEARNING else "has_data_transformation"
            self.tell(LearningExperiment(self.experiment, **{part: iri}))  # type: ignore[arg-type]
            return cls(iri, label=title, tag=kind.capitalize())

        return self.once(iri, make, cls.__name__)

    def _is_of_another_stage(self, iri: IRI, kind: str, title: str) -> bool:
        """Whether a name is that of a stage of another kind: no plan is both a training and a validation."""
        others = set(LEARNING) - {kind}
        return title in others or any(f"{iri}#{STEPS[other].__name__}" in self.state.planned for other in others)

    def section(self, stage_kind: str, kind: str, stage: IRI) -> IRI:
        """The plan of an epoch, a batch, a fold, a round, or of what a user calls otherwise, of a stage."""
        cls: type[LearningStageSection]
        if kind == "epoch":
            cls = {"training": TrainingEpoch, "validation": ValidationEpoch}.get(stage_kind, Epoch)
        else:
            cls = {"batch": Batch, "fold": Fold, "round": Round}.get(kind, LearningStageSection)

        def make(iri: IRI) -> Thing:
            self.tell(STEPS[stage_kind](stage, has_section=iri))  # type: ignore[call-arg]  # the learning stages have it
            return cls(iri, label=f"{kind.capitalize()} Execution", tag=kind.capitalize())

        return self.once(IRI(f"{stage}/{name.slug(kind)}"), make)

    def parameter(self, kind: str, step: IRI, title: str) -> IRI:
        """A hyperparameter of a stage, or a parameter of a step before learning."""
        cls = LearningHyperparameter if kind in LEARNING else PreparationParameter

        def make(iri: IRI) -> Thing:
            self.tell(STEPS.get(kind, DataTransformation)(step, has_input_attribute=iri))
            return cls(iri, label=title, tag="Hyperparameter" if kind in LEARNING else "Parameter")

        return self.once(IRI(f"{step}/parameter/{name.slug(title)}"), make, cls.__name__)

    def measure(self, title: str) -> IRI:
        """A measure. One declared against what its name tells is a node of its own: other runs wrote the guess."""
        if f"{title}#turned" in self.state.planned:
            turned: Direction = "minimize" if direction_of(title) == "maximize" else "maximize"
            return self.once(
                name.plan(self.name, "measure", title, turned),
                lambda iri: EvaluationMeasure(iri, label=title, tag="Model Evaluation", direction=turned),
            )
        return self.once(
            name.plan(self.name, "measure", title),
            lambda iri: EvaluationMeasure(iri, label=title, tag="Model Evaluation", direction=direction_of(title)),
        )

    def declare(self, title: str, direction: Direction | None) -> None:
        """A measure has this direction from now on, whatever its name tells."""
        if direction is None or direction_of(title) in (None, direction):
            self.state.planned.discard(f"{title}#turned")
        else:
            self.state.planned.add(f"{title}#turned")

    def dataset(self, title: str) -> IRI:
        return self.once(
            name.plan(self.name, "data", title), lambda iri: LearningDatasetReference(iri, label=title, tag="Dataset")
        )

    def features(self, title: str) -> IRI:
        return self.once(
            name.plan(self.name, "features", title), lambda iri: FeatureSet(iri, label=title, tag="Features")
        )

    def characteristic(self, kind: str, title: str) -> IRI:
        cls = FeatureSetCharacteristic if kind == "features" else DatasetCharacteristic
        return self.once(
            name.plan(self.name, "characteristic", kind, title), lambda iri: cls(iri, label=title, tag="Characteristic")
        )

    def model(self, title: str = "") -> IRI:
        title = title or self.model_name
        return self.once(
            name.plan(self.name, "model", title), lambda iri: ModelProspection(iri, label=title, tag="Model")
        )

    def schema(self) -> IRI:
        def make(iri: IRI) -> Thing:
            self.tell(ModelProspection(self.model(), has_model_schema=iri))
            return ModelSchema(iri, label=f"{self.model_name} network", tag="Model Schema")

        return self.once(name.plan(self.name, "network", self.model_name), make)

    def model_hyperparameter(self, title: str) -> IRI:
        return self.once(
            name.plan(self.name, "model-hyperparameter", title),
            lambda iri: ModelHyperparameter(iri, label=title, tag="Hyperparameter"),
        )

    def adaptation(self, technique: str) -> IRI:
        title = technique or "adaptation"

        def make(iri: IRI) -> Thing:
            self.tell(LearningExperiment(self.experiment, has_data_transformation=iri))
            return Adaptation(iri, label=title, tag="Adaptation", technique=technique or None)

        return self.once(name.plan(self.name, "adaptation", title), make)
