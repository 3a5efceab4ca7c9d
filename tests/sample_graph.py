"""A small real training described with the vocabulary by hand, for tests that need a graph without the mapper."""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from provml.model.thing import Thing
from provml.vocab import (
    TRAINING_ROLE,
    Adaptation,
    AdaptationExecution,
    EvaluationMeasure,
    LearningDataset,
    LearningDatasetReference,
    LearningExperiment,
    LearningHyperparameter,
    LearningHyperparameterValue,
    LearningProcessExecution,
    Model,
    ModelEvaluation,
    ModelProspection,
    Training,
    TrainingEpoch,
    TrainingEpochExecution,
    TrainingExecution,
    Usage,
)

BASE = "http://example.org/demo"
Point = tuple[float, float, int]


class Plan:
    """The prospective side: the data, steps, parameters, measures and model of the training."""

    def __init__(self) -> None:
        plan = f"{BASE}/plan"
        self.rate = LearningHyperparameter(f"{plan}/learning_rate", label="learning_rate", tag="Hyperparameter")
        self.data = LearningDatasetReference(f"{plan}/points", label="points")
        self.model = ModelProspection(f"{plan}/model", label="two-clusters", tag="Model")
        self.loss = EvaluationMeasure(f"{plan}/loss", label="loss", tag="Model Evaluation", direction="minimize")
        self.accuracy = EvaluationMeasure(
            f"{plan}/accuracy", label="accuracy", tag="Model Evaluation", direction="maximize"
        )
        self.epoch = TrainingEpoch(
            f"{plan}/epoch", label="Epoch Execution", has_output_attribute=[self.loss, self.accuracy]
        )
        self.adaptation = Adaptation(f"{plan}/step-decay", label="step decay", technique="step decay")
        self.training = Training(
            f"{plan}/training",
            label="training",
            tag="Training",
            has_input_attribute=[self.rate, self.data],
            has_output_attribute=self.model,
            has_section=self.epoch,
        )
        self.experiment = LearningExperiment(
            f"{plan}/experiment",
            label="two clusters",
            has_learning_stage=self.training,
            has_data_transformation=self.adaptation,
        )


def points(count: int = 200, seed: int = 17) -> list[Point]:
    """Two overlapping clusters in the plane."""
    rng = random.Random(seed)
    return [
        (rng.gauss(side * 1.2, 1.0), rng.gauss(side * 0.8, 1.0), int(side > 0))
        for side in (rng.choice((-1, 1)) for _ in range(count))
    ]


def learn(data: list[Point], weights: list[float], rate: float) -> tuple[float, float]:
    """Do one epoch of logistic regression by gradient descent; return its loss and accuracy."""
    loss = hits = 0.0
    for x, y, label in data:
        prediction = 1 / (1 + math.exp(-(weights[0] + weights[1] * x + weights[2] * y)))
        loss -= math.log(max(prediction if label else 1 - prediction, 1e-12))
        hits += (prediction > 0.5) == bool(label)
        for index, value in enumerate((1.0, x, y)):
            weights[index] += rate * (label - prediction) * value
    return loss / len(data), hits / len(data)


def training(run: str = f"{BASE}/run/1", *, epochs: int = 8, rate: float = 0.1, adapt_at: int = 5) -> Iterator[Thing]:
    """Train, and yield the things that describe the training."""
    plan, data, weights = Plan(), points(), [0.0, 0.0, 0.0]
    content = repr(data).encode()
    digest = hashlib.sha256(content).hexdigest()
    dataset = LearningDataset(
        f"urn:sha256:{digest}",
        was_derived_from_attribute=plan.data,
        sha256=digest,
        size_bytes=len(content),
        path="points",
    )
    process = LearningProcessExecution(
        run, was_derived_from_workflow=plan.experiment, started_at_time=datetime.now(UTC)
    )
    in_force = LearningHyperparameterValue(f"{run}/learning_rate/0", was_derived_from_attribute=plan.rate, value=rate)
    start = time.perf_counter()
    stage = TrainingExecution(
        f"{run}/training",
        was_derived_from_data_transformation=plan.training,
        was_member_of_workflow_execution=process,
        used=[dataset, in_force],
        qualified_usage=Usage(f"{run}/training/usage", entity=dataset, had_role=TRAINING_ROLE),
        started_at_time=datetime.now(UTC),
    )
    for index in range(1, epochs + 1):
        started, clock = datetime.now(UTC), time.perf_counter()
        loss, accuracy = learn(data, weights, float(in_force.value))  # type: ignore[arg-type]  # created from a float
        epoch = TrainingEpochExecution(
            f"{run}/training/epoch/{index}",
            section_index=index,
            was_derived_from_data_transformation=plan.epoch,
            was_section_of=stage,
            started_at_time=started,
            ended_at_time=datetime.now(UTC),
            elapsed_seconds=time.perf_counter() - clock,
            hyperparameter_in_force=in_force,
            status="FINISHED",
        )
        for measure, value in ((plan.loss, loss), (plan.accuracy, accuracy)):
            yield ModelEvaluation(
                f"{epoch.iri}/{measure.label[0]}",
                was_derived_from_attribute=measure,
                was_generated_by=epoch,
                value=value,
            )
        if index == adapt_at:
            adaptation = AdaptationExecution(
                f"{run}/adaptation/{index}",
                was_derived_from_data_transformation=plan.adaptation,
                was_member_of_workflow_execution=process,
                adapted_during=epoch,
                technique="step decay",
                started_at_time=datetime.now(UTC),
            )
            in_force = LearningHyperparameterValue(
                f"{run}/learning_rate/{index}",
                was_derived_from_attribute=plan.rate,
                value=rate / 10,
                was_generated_by=adaptation,
                revises_value=in_force,
            )
    ended, model_content = datetime.now(UTC), repr(weights).encode()
    yield Model(
        f"{run}/model",
        was_derived_from_attribute=plan.model,
        was_generated_by=stage,
        sha256=hashlib.sha256(model_content).hexdigest(),
        size_bytes=len(model_content),
    )
    elapsed = time.perf_counter() - start
    yield stage.replace(ended_at_time=ended, elapsed_seconds=elapsed, status="FINISHED")
    yield process.replace(ended_at_time=ended, elapsed_seconds=elapsed, status="FINISHED")
