"""Random worlds for the questions that scan: several runs that share data, preparations, models and evaluations."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from provml.recording.energy import TOTAL, Amount, EnergyRecorder
from provml.recording.run import Run

MODELS = ("net", "wide net", "größe")
FILES = tuple(f"file {number}" for number in range(5))


def record_world(home: Path, seed: int, runs: int = 5) -> None:
    """Record runs that use, make, learn from and test on a small number of files, in random order."""
    chance = random.Random(seed)
    for number in range(runs):
        _record_run(home, chance, f"run-{number}")
    _record_run(home, chance, "run-0")  # resumed


def _record_run(home: Path, chance: random.Random, name: str) -> None:
    fails = chance.random() < 0.15
    model = chance.choice(MODELS)
    run = Run("world", home=home, model=model, run=name, strict=True, capture_environment=False)
    if chance.random() < 0.5:
        run._energy = EnergyRecorder(_Meter(chance), run._emit)
    data = [_dataset(run, chance) for _ in range(2)]
    for _ in range(chance.randrange(4)):
        data += _record_step(run, chance, chance.sample(data, 1))
    models: list[Any] = []
    for _ in range(chance.choice((1, 1, 2))):
        models += _record_training(run, chance, data)
    for _ in range(chance.randrange(3)):
        _record_evaluation(run, chance, data, models)
    if chance.random() < 0.3:
        run.tag("tried", "small")
    run.finish(error=ValueError("diverged") if fails else None)


class _Meter:
    """A meter that reads random amounts, since not every machine has one."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._total = 0.0

    def read(self) -> dict[str, Amount]:
        self._total += self._chance.random()
        return {name: Amount(self._total, "a meter", name == TOTAL) for name in (TOTAL, "gpu")}

    def emissions(self, energy: float) -> Amount | None:
        return Amount(energy * 0.4, "a grid", False)

    def stop(self) -> None:
        pass


def _dataset(run: Run, chance: random.Random) -> Any:
    file = chance.choice(FILES)
    roles = ({}, {}, {"role": "validation"}, {"role": "test"})
    return run.dataset(file.encode(), name=file, **chance.choice(roles))


def _record_step(run: Run, chance: random.Random, using: list[Any]) -> list[Any]:
    verb = chance.choice((run.preparation, run.filter, run.split, run.step))
    first = chance.randrange(0, 500, 50)
    values = chance.choice(({}, {"first_slice": first, "last_slice": first + 99}, {"first_slice": float(first)}))
    with verb(f"step {chance.randrange(3)}", using=using, **values) as step:
        file = chance.choice(FILES)
        return [step.produced(file.encode(), name=file) for _ in range(chance.randrange(3))]


def _record_training(run: Run, chance: random.Random, data: list[Any]) -> list[Any]:
    rates: dict[str, Any] = {"learning_rate": chance.choice((0.1, 1e-7, 1, "auto")), "momentum": chance.random()}
    models = []
    kind = chance.choice(("epoch", "epoch", "round", "fold"))
    with run.training(using=chance.sample(data, 1 + chance.randrange(2)), **rates) as training:
        if chance.random() < 0.3:
            training.layers([{"name": "dense", "units": 64}])
        for index in range(1, 1 + chance.randrange(1, 4)):
            epoch = training.epoch(index, kind=kind)
            for batch in epoch.batches(range(chance.randrange(3))):
                batch.measured(loss=chance.choice((chance.random(), float("nan"), 1)), accuracy=chance.random())
            epoch.measured(loss=chance.choice((chance.random(), float("inf"), 2)), accuracy=chance.random())
            if chance.random() < 0.4:  # the same measure again
                for value in chance.sample((10.0, 9.0, -3.5, 1e-7, float("nan")), 3):
                    epoch.measured(loss=value)
            if chance.random() < 0.5:
                with epoch.validation() as validation:
                    validation.measured(loss=chance.random())
            if chance.random() < 0.3:
                training.adapted(learning_rate=0.01, technique="decay")
            if chance.random() < 0.4:
                models.append(epoch.produced(f"weights {chance.randrange(6)}".encode(), k=chance.randrange(3)))
            if chance.random() < 0.9:
                epoch.done()
        if chance.random() < 0.6:
            models.append(training.produced(f"weights {chance.randrange(6)}".encode()))
    return models


def _record_evaluation(run: Run, chance: random.Random, data: list[Any], models: list[Any]) -> None:
    of = chance.choice(models) if models and chance.random() < 0.8 else None
    tested = chance.sample(data, 1) if chance.random() < 0.8 else []
    with run.evaluation(of=of, using=tested) as evaluation:
        evaluation.measured(accuracy=chance.choice((chance.random(), 1, float("nan"))), loss=chance.random())
