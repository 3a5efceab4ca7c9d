"""PyTorch: a plain training loop is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provml
from capture.contract import (
    Boom,
    CaptureContract,
    Expected,
    adaptations,
    ask,
    datasets_used_by,
    evaluated_models,
    measures_by_epoch,
    used,
)
from capture.digits import digits
from provml.recording.run import Run

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

import mpmath  # noqa: E402  # it comes with sympy
import sympy  # noqa: E402  # it comes with PyTorch

from provml.capture.torch import Capture  # noqa: E402  # it needs PyTorch

pytestmark = pytest.mark.xdist_group("torch")  # loading PyTorch takes seconds: once is enough
DIGITS = {role: (torch.from_numpy(x), torch.from_numpy(y)) for role, (x, y) in digits().items()}


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1))
        self.out = torch.nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return self.out(self.body(x))


def loader(role: str = "training", **settings: Any) -> Any:
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(*DIGITS[role]), batch_size=48, shuffle=role == "training", **settings
    )


def evaluate(network: Any, role: str) -> dict[str, float]:
    x, y = DIGITS[role]
    network.eval()
    with torch.no_grad():
        prediction = network(x)
        loss = torch.nn.functional.cross_entropy(prediction, y)
    network.train()
    return {"loss": loss.item(), "accuracy": (prediction.argmax(1) == y).float().mean().item()}


def weights(network: Any) -> bytes:
    return b"".join(tensor.numpy().tobytes() for tensor in network.state_dict().values())


class TestTorch(CaptureContract):
    software = "torch"

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        torch.manual_seed(7)
        network, criterion = Network(), torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.5, momentum=0.5, weight_decay=1e-4)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
        training = loader()
        expected = Expected(b"", {}, {"loss": [], "accuracy": []}, {"loss": [], "accuracy": []})
        capture = None
        if run is not None:
            data = {"training": training, "test": DIGITS["test"]}
            capture = Capture("", network, optimizer, scheduler=scheduler, loss=criterion, data=data, run=run)
        for epoch in capture.epochs(4) if capture else range(4):
            for number, (x, y) in enumerate(capture.batches(training) if capture else training):
                optimizer.zero_grad()
                loss = criterion(network(x), y)
                loss.backward()
                optimizer.step()
                if capture:
                    capture.measured(loss=loss)
                if fails and number == 3:
                    raise Boom("in the middle")
            scheduler.step()
            for measures, role in ((expected.measures, "training"), (expected.validation, "validation")):
                for name, value in evaluate(network, role).items():
                    measures[name].append(value)
            if capture:
                epoch.measured(**{name: values[-1] for name, values in expected.measures.items()})
                with epoch.validation() as validation:
                    validation.measured(**{name: values[-1] for name, values in expected.validation.items()})
        expected.model = folder / "net.pt"
        torch.save(network.state_dict(), expected.model)
        expected.evaluation = evaluate(network, "test")
        if capture:
            capture.saved(expected.model)
            with capture.evaluation() as test:
                test.measured(**expected.evaluation)
            capture.finish()
        expected.result = weights(network)
        expected.hyperparameters = {
            "optimizer": "SGD", "learning_rate": 0.5, "momentum": 0.5, "weight_decay": 1e-4, "nesterov": False,
            "batch_size": 48, "epochs": 4, "loss": "CrossEntropyLoss", "scheduler": "StepLR", "num_workers": 0,
            "sampler": "RandomSampler", "batches": 10, "num_layers": 5,
        }  # fmt: skip
        expected.adaptations = [(3, "learning_rate", 0.5, 0.05, "StepLR")]  # not the one after the last epoch
        expected.layers = [
            ("body", "Sequential"), ("body.0", "Linear"), ("body.1", "ReLU"), ("body.2", "Dropout"), ("out", "Linear"),
        ]  # fmt: skip
        return expected


# ---- adaptations


def epochs(capture: Capture, network: Any, *optimizers: Any, count: int = 3, after: Any = None) -> None:
    """Run a plain loop with few batches."""
    for epoch in capture.epochs(count):
        for x, y in capture.batches(loader()):
            loss = torch.nn.functional.cross_entropy(network(x), y)
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            capture.measured(loss=loss)
            if callable(after):
                after()
        epoch.measured(loss=loss)


def test_a_manual_change_is_recorded_at_the_first_epoch_that_uses_it(tmp_path: Path):
    network = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    with Capture("digits", network, optimizer, home=tmp_path, strict=True) as capture:
        for epoch in capture.epochs(3):
            if epoch.index == 2:
                optimizer.param_groups[0]["momentum"] = 0.5
            for x, y in capture.batches(loader()):
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
            optimizer.param_groups[0]["lr"] /= 2
    with provml.open(tmp_path) as store:
        assert adaptations(store) == [
            (2, "learning_rate", 0.1, 0.05, "by hand"),
            (2, "momentum", 0.9, 0.5, "by hand"),
            (3, "learning_rate", 0.05, 0.025, "by hand"),
        ], "nothing was learned with the rate that was set after the last epoch"
        assert ask(store, "SELECT ?m { ?s a provml:TrainingEpochExecution ; provml:sectionIndex 2 ;"
                   " provml:hyperparameterInForce ?h . ?h prov:value ?m ; prov:wasDerivedFrom/rdfs:label 'momentum' }"
                   ) == [(0.5,)]  # fmt: skip


@pytest.mark.parametrize("watch", ["epoch", "batch"])
def test_a_cyclic_schedule_is_recorded_once_per_epoch_or_at_every_step(tmp_path: Path, watch: str):
    network = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=21)
    with Capture("digits", network, optimizer, scheduler=cycle, home=tmp_path, strict=True, watch=watch) as capture:
        epochs(capture, network, optimizer, count=2, after=cycle.step)
    with provml.open(tmp_path) as store:
        changes = adaptations(store)
        assert {row[4] for row in changes} == {"OneCycleLR"}
        assert {row[1] for row in changes} == {"learning_rate", "momentum"}
        assert len(changes) == (2 if watch == "epoch" else 38)


def test_several_optimizers_and_groups_have_separate_hyperparameters(tmp_path: Path):
    network = Network()
    body = torch.optim.SGD([{"params": network.body[0].weight}, {"params": network.body[0].bias, "lr": 0.2}], lr=0.1)
    out = torch.optim.Adam(network.out.parameters(), lr=0.01)
    lower = torch.optim.lr_scheduler.ExponentialLR(out, gamma=0.5)
    named = {"body": body, "out": out}
    with Capture("digits", network, named, scheduler=lower, home=tmp_path, strict=True) as capture:
        for _ in capture.epochs(2):
            for x, y in capture.batches(loader()):
                torch.nn.functional.cross_entropy(network(x), y).backward()
                body.step()
                out.step()
            body.param_groups[1]["lr"] = 0.3
            lower.step()
    with provml.open(tmp_path) as store:
        assert adaptations(store) == [
            (2, "body.group_2.learning_rate", 0.2, 0.3, "by hand"),
            (2, "out.learning_rate", 0.01, 0.005, "ExponentialLR"),
        ]
        names = {name for (name,) in ask(store, "SELECT ?n { ?a a provml:LearningHyperparameter ; rdfs:label ?n }")}
        assert {"body.learning_rate", "body.group_2.learning_rate", "out.betas", "optimizer"} <= names


def test_a_change_by_a_scheduler_that_was_not_passed_is_not_manual(tmp_path: Path):
    network = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    lower = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    with Capture("digits", network, optimizer, home=tmp_path, strict=True) as capture:
        for _ in capture.epochs(2):
            optimizer.step()
            lower.step()
    with provml.open(tmp_path) as store:
        assert {row[4] for row in adaptations(store)} == {"scheduler"}


def adaptations_of_steps(
    home: Path, optimizer: Any, before_step: Any, *, count: int = 3, **settings: Any
) -> list[tuple[Any, ...]]:
    """Return the adaptations of a loop with four steps per epoch; `before_step` is called before each."""
    with Capture("digits", None, optimizer, home=home, strict=True, capture_environment=False, **settings) as capture:
        for epoch in capture.epochs(count):
            for batch in capture.batches(range(1, 5)):
                before_step(epoch.index, batch)
                optimizer.step()
    with provml.open(home) as store:
        return adaptations(store)


def test_a_change_in_the_middle_of_an_epoch_belongs_to_that_epoch(tmp_path: Path):
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=0.5)

    def before_step(epoch: int, batch: int) -> None:
        if epoch == 2:
            optimizer.param_groups[0]["lr"] = {1: 0.5, 2: 0.25, 3: 0.25, 4: 0.5}[batch]

    changes = [(2, "learning_rate", 0.5, 0.25, "by hand"), (2, "learning_rate", 0.25, 0.5, "by hand")]
    assert adaptations_of_steps(tmp_path / "steps", optimizer, before_step) == changes
    assert adaptations_of_steps(tmp_path / "epochs", optimizer, before_step, watch="epoch") == []


class SelfHalving(torch.optim.SGD):
    """An optimizer that changes its own rate after each step."""

    def step(self, closure: Any = None) -> Any:
        result = super().step(closure)
        self.param_groups[0]["lr"] /= 2
        return result


def halved_by_itself(parameters: Any) -> Any:
    return SelfHalving(parameters, lr=0.5)


def halved_by_a_hook(parameters: Any) -> Any:
    optimizer = torch.optim.SGD(parameters, lr=0.5)

    def halve(optimizer: Any, args: Any, kwargs: Any) -> None:
        optimizer.param_groups[0]["lr"] /= 2

    optimizer.register_step_post_hook(halve)
    return optimizer


@pytest.mark.parametrize("has_batches", [True, False])
@pytest.mark.parametrize("create", [halved_by_itself, halved_by_a_hook])
def test_a_rate_set_after_a_step_belongs_to_the_epoch_of_the_next_step(tmp_path: Path, create: Any, has_batches: bool):
    optimizer = create(torch.nn.Linear(4, 2).parameters())
    with Capture("digits", None, optimizer, home=tmp_path, strict=True, capture_environment=False) as capture:
        for _ in capture.epochs(3):
            for _ in capture.batches([1]) if has_batches else [1]:
                optimizer.step()
    with provml.open(tmp_path) as store:
        assert adaptations(store) == [
            (2, "learning_rate", 0.5, 0.25, "by hand"),
            (3, "learning_rate", 0.25, 0.125, "by hand"),
        ]


class Wrapped(torch.optim.Optimizer):
    """A wrapper of an optimizer without hooks of its own, as in Accelerate."""

    def __init__(self, optimizer: Any, name: str) -> None:
        setattr(self, name, optimizer)
        self.wrapped = optimizer

    @property
    def param_groups(self) -> Any:
        return self.wrapped.param_groups

    def step(self, closure: Any = None) -> Any:
        return self.wrapped.step(closure)


@pytest.mark.parametrize(("name", "strict", "epoch"), [("optimizer", True, 1), ("other", False, 2)])
def test_a_wrapped_optimizer_is_checked_at_its_steps_or_else_once_per_epoch(
    tmp_path: Path, name: str, strict: bool, epoch: int
):
    optimizer = Wrapped(torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=0.5), name)
    settings = {"home": tmp_path, "strict": strict, "capture_environment": False}
    with Capture("digits", None, optimizer, **settings) as capture:
        assert capture.run.capture_errors == (not strict)
        for _ in capture.epochs(2):
            for batch in capture.batches([1, 2]):
                optimizer.step()
                optimizer.param_groups[0]["lr"] = 0.25 if batch == 1 else optimizer.param_groups[0]["lr"]
    with provml.open(tmp_path) as store:
        assert adaptations(store) == [(epoch, "learning_rate", 0.5, 0.25, "by hand")]


def test_an_optimizer_without_hooks_is_rejected_if_strict(tmp_path: Path):
    optimizer = Wrapped(torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=0.5), "other")
    run = provml.record("digits", home=tmp_path, strict=True, capture_environment=False)
    with run, pytest.raises(TypeError, match="Wrapped calls no hook at its steps"):
        Capture("digits", None, optimizer, run=run)


def test_a_change_of_a_tensor_in_the_middle_of_an_epoch_is_recorded(tmp_path: Path):
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=torch.tensor(0.5), foreach=False)

    def before_step(epoch: int, batch: int) -> None:
        if (epoch, batch) == (2, 2):
            optimizer.param_groups[0]["lr"].fill_(0.25)

    assert adaptations_of_steps(tmp_path, optimizer, before_step) == [(2, "learning_rate", 0.5, 0.25, "by hand")]


@pytest.mark.parametrize("watch", ["batch", "epoch"])
def test_an_undetected_change_in_place_is_recorded_at_the_next_epoch(tmp_path: Path, watch: str):
    rate, beta = torch.tensor(0.5), torch.tensor(0.75)
    optimizer = torch.optim.Adam(
        torch.nn.Linear(4, 2).parameters(), lr=rate, betas=(beta, torch.tensor(0.5)), foreach=False, capturable=True
    )

    def before_step(epoch: int, batch: int) -> None:
        if (epoch, batch) == (2, 2):
            rate.data.fill_(0.25)
            beta.fill_(0.125)

    changes = sorted(adaptations_of_steps(tmp_path, optimizer, before_step, watch=watch))
    assert [row[:2] for row in changes] == [(3, "betas"), (3, "learning_rate")]


@pytest.mark.parametrize("groups", [1, 2])
def test_a_group_replaced_in_the_middle_of_an_epoch_is_detected(tmp_path: Path, groups: int):
    groups_of_parameters = [{"params": torch.nn.Linear(4, 2).parameters()} for _ in range(groups)]
    optimizer = torch.optim.SGD(groups_of_parameters, lr=0.5)

    def before_step(epoch: int, batch: int) -> None:
        if (epoch, batch) == (2, 2):
            optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.25}

    assert adaptations_of_steps(tmp_path, optimizer, before_step) == [(2, "learning_rate", 0.5, 0.25, "by hand")]


def test_a_list_changed_in_place_is_detected(tmp_path: Path):
    optimizer = torch.optim.Adam(torch.nn.Linear(4, 2).parameters(), lr=0.5)
    optimizer.param_groups[0]["betas"] = [0.9, 0.75]

    def before_step(epoch: int, batch: int) -> None:
        if (epoch, batch) == (2, 2):
            optimizer.param_groups[0]["betas"][0] = 0.5

    (row,) = adaptations_of_steps(tmp_path, optimizer, before_step)
    assert row[:2] == (2, "betas")


def test_a_group_with_a_vector_is_recorded(tmp_path: Path):
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=0.5)
    optimizer.param_groups[0]["mask"] = torch.ones(3)

    def before_step(epoch: int, batch: int) -> None:
        if (epoch, batch) == (2, 2):
            optimizer.param_groups[0]["lr"] = 0.25

    assert adaptations_of_steps(tmp_path, optimizer, before_step) == [(2, "learning_rate", 0.5, 0.25, "by hand")]


def test_a_step_before_the_first_epoch_changes_nothing(tmp_path: Path):
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=0.5)
    with Capture("digits", None, optimizer, home=tmp_path, strict=True, capture_environment=False) as capture:
        optimizer.step()
        for _ in capture.epochs(2):
            for _ in capture.batches(range(3)):
                optimizer.step()
    with provml.open(tmp_path) as store:
        assert ask(store, "SELECT (COUNT(*) AS ?n) { ?s provml:batchCount 3 }") == [(2,)]


def test_a_manual_change_is_distinguished_from_a_scheduler_step_without_effect(tmp_path: Path):
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=0.5)
    rarely = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)

    def before_step(epoch: int, batch: int) -> None:
        if batch == 1 and epoch > 1:
            if epoch == 2:
                optimizer.param_groups[0]["lr"] = 0.25
            rarely.step()

    assert adaptations_of_steps(tmp_path, optimizer, before_step, count=4, scheduler=rarely) == [
        (2, "learning_rate", 0.5, 0.25, "by hand"),
        (4, "learning_rate", 0.25, 0.125, "StepLR"),
    ]


@pytest.mark.parametrize("passed", [True, False])
def test_a_plateau_is_distinguished_from_a_manual_change(tmp_path: Path, passed: bool):
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=0.5)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=0)

    def before_step(epoch: int, batch: int) -> None:
        if batch == 1 and epoch > 1:
            plateau.step({2: 1.0, 3: 2.0, 4: 0.5, 5: 0.25}[epoch])  # only the second is worse
        if (epoch, batch) == (4, 2):
            optimizer.param_groups[0]["lr"] = 0.5

    settings = {"scheduler": plateau} if passed else {}
    assert adaptations_of_steps(tmp_path, optimizer, before_step, count=5, **settings) == [
        (3, "learning_rate", 0.5, 0.05, "ReduceLROnPlateau" if passed else "scheduler"),
        (4, "learning_rate", 0.05, 0.5, "by hand"),
    ]


def test_steps_skipped_by_mixed_precision_are_no_change(tmp_path: Path):
    network = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with Capture("digits", network, optimizer, scaler=scaler, home=tmp_path, strict=True) as capture:
        for _ in capture.epochs(2):
            for x, y in capture.batches(loader()):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = torch.nn.functional.cross_entropy(network(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    with provml.open(tmp_path) as store:
        assert adaptations(store) == []
        scale = "SELECT ?v { ?h prov:value ?v ; prov:wasDerivedFrom/rdfs:label 'amp.scale' }"
        assert ask(store, scale) == [(1024.0,)]


@pytest.mark.parametrize(
    ("kind", "recorded"), [("float32", 0.001), ("float64", 0.001), ("float16", float(np.float16(0.001)))]
)
def test_a_tensor_rate_is_recorded_as_written_and_its_change_in_place_detected(
    tmp_path: Path, kind: str, recorded: float
):
    network = torch.nn.Linear(64, 10)
    rate = torch.tensor(0.001, dtype=getattr(torch, kind))
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, foreach=False)
    with Capture("digits", network, optimizer, home=tmp_path, strict=True) as capture:
        for epoch in capture.epochs(2):
            if epoch.index == 2:
                optimizer.param_groups[0]["lr"].mul_(0.5)
            epoch.measured(loss=0.5)
    with provml.open(tmp_path) as store:
        assert used(store)["learning_rate"] == recorded
        assert adaptations(store) == [(2, "learning_rate", recorded, recorded / 2, "by hand")]


class Halving:
    """A user-defined scheduler without `get_last_lr`."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def step(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] /= 2


def test_a_scheduler_without_get_last_lr_is_recorded_by_its_name(tmp_path: Path):
    optimizer = torch.optim.SGD(torch.nn.Linear(64, 10).parameters(), lr=0.5)
    halving = Halving(optimizer)
    with Capture("digits", None, optimizer, scheduler=halving, home=tmp_path, strict=True) as capture:
        for epoch in capture.epochs(3):
            epoch.measured(loss=0.5)
            halving.step()
    with provml.open(tmp_path) as store:
        assert [row[2:] for row in adaptations(store)] == [
            (0.5, 0.25, "Halving"),
            (0.25, 0.125, "Halving"),
        ]


def test_changes_of_a_group_that_was_added_are_recorded(tmp_path: Path):
    optimizer = torch.optim.SGD(torch.nn.Linear(64, 10).parameters(), lr=0.5)
    lower = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=1.0)
    with Capture("digits", None, optimizer, scheduler=lower, home=tmp_path, strict=True) as capture:
        for epoch in capture.epochs(3):
            if epoch.index == 2:
                optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))], "lr": 0.25})
            if epoch.index == 3:
                optimizer.param_groups[1]["lr"] = 0.125
            epoch.measured(loss=0.5)
    with provml.open(tmp_path) as store:
        assert adaptations(store) == [(3, "group_2.learning_rate", 0.25, 0.125, "by hand")]


def test_optimizer_and_scheduler_may_be_none(tmp_path: Path):
    with Capture("digits", None, None, scheduler=None, home=tmp_path, strict=True) as capture:
        for epoch in capture.epochs(1):
            epoch.measured(loss=0.5)
    with provml.open(tmp_path) as store:
        names = ask(store, "SELECT ?n { ?a a provml:LearningHyperparameter ; rdfs:label ?n }")
        assert not {("scheduler",), ("optimizer",)} & set(names)


# ---- loops


def test_a_batch_before_the_training_is_not_recorded(tmp_path: Path):
    with Capture("digits", home=tmp_path, strict=True) as capture:
        for _ in capture.batches([1, 2]):
            break
        for _ in capture.epochs(1):
            for loss in capture.batches([0.5, 0.25]):
                capture.measured(loss=loss)
    with provml.open(tmp_path) as store:
        rows = ask(store, "SELECT ?v { ?e a provml:BatchEvaluation ; prov:value ?v } ORDER BY ?v")
        assert rows == [(0.25,), (0.5,)]


def test_workers_of_a_loader_write_no_journal(tmp_path: Path):
    network = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    working = loader(num_workers=2)
    with Capture("digits", network, optimizer, data={"training": working}, home=tmp_path, strict=True) as capture:
        for _ in capture.epochs(2):
            for x, y in capture.batches(working):
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
    with provml.open(tmp_path) as store:
        run = store.run("latest")
        assert (run.status, run.writers) == ("FINISHED", 1)
        assert len(ask(store, "SELECT ?b { ?b a provml:BatchExecution }")) == 20


def linear() -> tuple[Any, Any]:
    network = torch.nn.Linear(64, 10)
    return network, torch.optim.SGD(network.parameters(), lr=0.1)


class Bar:
    """A progress bar with the attribute `iterable`, as tqdm has it."""

    def __init__(self, iterable: Any) -> None:
        self.iterable = iterable

    def __iter__(self) -> Any:
        yield from self.iterable


@pytest.mark.parametrize("wrap", [lambda loader: loader, Bar, iter], ids=["loader", "bar", "iterator"])
def test_the_loader_of_the_batches_is_recorded_if_no_data_was_passed(tmp_path: Path, wrap: Any):
    network, optimizer = linear()
    with Capture("digits", network, optimizer, home=tmp_path, strict=True) as capture:
        for _ in capture.epochs(2):
            for x, y in capture.batches(wrap(loader())):
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
    is_known = wrap is not iter
    with provml.open(tmp_path) as store:
        values = used(store)
        assert (values.get("batch_size"), values.get("sampler")) == (
            (48, "RandomSampler") if is_known else (None, None)
        )
        [data] = datasets_used_by(store, "TrainingExecution")
        assert len(data) == (2 if is_known else 1)  # pixels and labels; or a dataset about which nothing is known
        assert all(dataset.startswith("urn:sha256:") for dataset in data) is is_known
        assert store.problems == []


def test_a_loader_used_outside_of_a_training_is_not_recorded_for_the_next(tmp_path: Path):
    network, optimizer = linear()
    with Capture("digits", network, optimizer, home=tmp_path, strict=True) as capture:
        before = capture.batches(loader())
        for _ in capture.batches(loader("test")):
            pass
        for _ in capture.epochs(1):
            next(before)
            optimizer.step()
        with capture.evaluation() as test:
            for _ in capture.batches(loader("test")):
                pass
            test.measured(accuracy=0.5)
        epochs(capture, network, optimizer, count=1)
    with provml.open(tmp_path) as store:
        of_trainings = "SELECT DISTINCT ?t ?v { ?t a provml:TrainingExecution ; prov:used ?used ."
        settings = ask(store, of_trainings + " ?used prov:value ?v ; prov:wasDerivedFrom/rdfs:label 'sampler' }")
        assert [value for _, value in settings] == ["RandomSampler"] * 2
        data = ask(store, of_trainings + " ?used a provml:LearningDataset BIND(?used AS ?v) }")
        assert len({dataset for _, dataset in data}) == 2, "pixels and labels of the training"


@pytest.mark.parametrize("disabled", ["", "1"])
def test_batches_have_the_length_and_the_attributes_of_their_loader(
    tmp_path: Path, disabled: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PROVML_DISABLED", disabled)
    network, optimizer = linear()
    source = loader()
    with Capture("digits", network, optimizer, home=tmp_path, strict=True) as capture:
        recorded = capture.batches(source)
        for _ in capture.epochs(2):
            assert len(recorded) == len(source) == sum(1 for _ in recorded)
            optimizer.step()
        assert recorded.dataset is source.dataset
        assert recorded.sampler is source.sampler
        assert not hasattr(recorded, "missing")
        assert len(list(capture.batches(iter([1, 2])))) == 2
        assert capture.batches(iter([1, 2]))
        with pytest.raises(TypeError):
            len(capture.batches(iter([1, 2])))


def test_an_epoch_is_formatted_as_its_number(tmp_path: Path):
    network, optimizer = linear()
    with Capture("digits", network, optimizer, home=tmp_path, strict=True) as capture:
        for epoch in capture.epochs(1):
            assert ("%d" % epoch, f"{epoch:03d}", f"{epoch}", int(epoch)) == ("1", "001", "1", 1)  # noqa: UP031
            optimizer.step()
        with capture.run.training() as training:
            for epoch in training.epochs(1):
                assert ("%d" % epoch, f"{epoch:03d}", f"{epoch}", int(epoch)) == ("1", "001", "1", 1)  # noqa: UP031


def test_data_that_was_passed_is_recorded_for_any_loader(tmp_path: Path):
    network, optimizer = linear()
    data = {"training": loader("test")}
    with Capture("digits", network, optimizer, data=data, home=tmp_path, strict=True) as capture:
        epochs(capture, network, optimizer, count=1)
    with provml.open(tmp_path) as store:
        assert used(store)["sampler"] == "SequentialSampler"


def test_a_file_or_another_object_can_be_evaluated(tmp_path: Path):
    network, optimizer = linear()
    with Capture("digits", network, optimizer, home=tmp_path / "home", strict=True) as capture:
        for epoch in capture.epochs(3):
            torch.save(network.state_dict(), tmp_path / f"{epoch.index}.pt")
            capture.saved(tmp_path / f"{epoch.index}.pt")
        for model in (tmp_path / "2.pt", None, torch.optim.swa_utils.AveragedModel(network)):
            with capture.evaluation(model) as test:
                test.measured(accuracy=0.5)
    with provml.open(tmp_path / "home") as store:
        paths = dict(ask(store, "SELECT ?m ?p { ?m a provml:Model ; provlake:path ?p }"))
        produced = {model for (model,) in ask(store, "SELECT ?m { ?m a provml:Model ; prov:wasGeneratedBy ?t }")}
        first, second, third = evaluated_models(store)
        assert Path(paths[first]).name == "2.pt"
        assert second in produced
        assert third not in produced


def test_the_result_of_saved_can_be_evaluated(tmp_path: Path):
    network, optimizer = linear()
    saved = []
    with Capture("digits", network, optimizer, home=tmp_path / "home", strict=True) as capture:
        for epoch in capture.epochs(2):
            torch.save(network.state_dict(), tmp_path / f"{epoch.index}.pt")
            saved.append(capture.saved(tmp_path / f"{epoch.index}.pt"))
        with capture.evaluation(saved[0]) as test:
            test.measured(accuracy=0.5)
    with provml.open(tmp_path / "home") as store:
        paths = dict(ask(store, "SELECT ?m ?p { ?m a provml:Model ; provlake:path ?p ; prov:wasGeneratedBy ?t }"))
        (model,) = evaluated_models(store)
        assert Path(paths[model]).name == "1.pt"


def trained_and_evaluated(capture: Capture, network: Any, optimizer: Any, *, between: Any = None) -> None:
    """Train two epochs, evaluate the model at the end of each, and save it after that."""
    for epoch in capture.epochs(2):
        for x, y in capture.batches(loader()):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()
        with capture.evaluation() as test:
            test.measured(accuracy=0.5)
        if between is not None:
            between()
        torch.save(network.state_dict(), Path(f"{epoch.index}.pt"))
        capture.saved(Path(f"{epoch.index}.pt"))


def test_a_model_that_was_evaluated_and_then_saved_is_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    network, optimizer = linear()
    with Capture("digits", network, optimizer, home=tmp_path / "home", strict=True) as capture:
        trained_and_evaluated(capture, network, optimizer)
        with capture.evaluation() as test:
            test.measured(accuracy=0.7)
    with provml.open(tmp_path / "home") as store:
        paths = dict(ask(store, "SELECT ?m ?p { ?m a provml:Model ; prov:wasGeneratedBy ?t ; provlake:path ?p }"))
        evaluated = [Path(paths[model]).name for model in evaluated_models(store)]
        assert evaluated == ["1.pt", "2.pt", "2.pt"]
        assert len(ask(store, "SELECT ?m { ?m a provml:Model }")) == 2


def test_a_model_that_changed_between_evaluation_and_saving_is_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    network, optimizer = linear()
    steps = iter([lambda: optimizer.step(), lambda: network.weight.detach().zero_()])
    with Capture("digits", network, optimizer, home=tmp_path / "home", strict=True) as capture:
        trained_and_evaluated(capture, network, optimizer, between=lambda: next(steps)())
    with provml.open(tmp_path / "home") as store:
        rows = ask(store, "SELECT ?m { ?m a provml:Model ; prov:wasGeneratedBy ?t ; provlake:path ?p }")
        files = {model for (model,) in rows}
        assert len(files) == 2
        assert not files & set(evaluated_models(store))


@pytest.mark.parametrize("mode", ["map", "append"])
def test_a_step_is_not_a_measure_of_a_batch_or_its_epoch(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_JOURNAL", mode)
    network, optimizer = linear()
    with Capture("digits", network, optimizer, home=tmp_path, capture_environment=False) as capture:
        for _ in capture.epochs(2):
            for number, _ in enumerate(capture.batches([1, 2, 3])):
                capture.measured(loss=0.5, step=number)
    assert capture.run.capture_errors == 6
    with provml.open(tmp_path) as store:
        names = ask(store, "SELECT DISTINCT ?n { ?m a provml:EvaluationMeasure ; rdfs:label ?n }")
        assert names == [("loss",)]
        assert measures_by_epoch(store, "provml:TrainingEpochExecution") == {"loss": [0.5, 0.5]}


def test_a_file_that_was_rewritten_is_another_model(tmp_path: Path):
    network, optimizer = linear()
    best = tmp_path / "best.pt"
    with Capture("digits", network, optimizer, home=tmp_path / "home", strict=True) as capture:
        for epoch in capture.epochs(2):
            best.write_text(f"weights of {epoch.index}")
            if epoch.index == 1:
                capture.saved(best)
            with capture.evaluation(best) as test:
                test.measured(accuracy=epoch.index / 2)
        best.unlink()
        with capture.evaluation(best) as test:
            test.measured(accuracy=0.7)
    with provml.open(tmp_path / "home") as store:
        produced = {model for (model,) in ask(store, "SELECT ?m { ?m a provml:Model ; prov:wasGeneratedBy ?t }")}
        first, second, third = evaluated_models(store)
        assert first in produced
        assert second not in produced
        assert second != first
        assert third == second


def test_a_network_known_only_through_its_optimizer_can_be_evaluated(tmp_path: Path):
    network, optimizer = linear()
    with Capture("digits", optimizer=optimizer, home=tmp_path, strict=True) as capture:
        epochs(capture, network, optimizer, count=1)
        for model in (network, torch.nn.Linear(64, 10)):
            with capture.evaluation(model) as test:
                test.measured(accuracy=0.5)
    with provml.open(tmp_path) as store:
        produced = {model for (model,) in ask(store, "SELECT ?m { ?m a provml:Model ; prov:wasGeneratedBy ?t }")}
        assert [model in produced for model in evaluated_models(store)] == [True, False]


def test_a_resumed_training_continues_the_count_and_from_the_file_that_was_passed(tmp_path: Path):
    network, optimizer = linear()
    with Capture(
        "digits", network, optimizer, home=tmp_path / "home", strict=True, save_model=tmp_path / "a"
    ) as capture:
        epochs(capture, network, optimizer, count=2)
    again, optimizer = linear()
    data = {"model": tmp_path / "a"}
    with Capture("digits", again, optimizer, data=data, home=tmp_path / "home", strict=True) as capture:
        for _ in capture.epochs(2, first=3):
            optimizer.step()
        for _ in capture.epochs(1, first=5):
            optimizer.step()
    with provml.open(tmp_path / "home") as store:
        rows = ask(store, "SELECT ?i { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?i } ORDER BY ?i")
        assert [index for (index,) in rows] == [1, 2, 3, 4, 5]
        steps = [row[1] for row in store.ask("b3", model="digits@latest")]
        assert len(steps) == 3, "the first training, the resumed one, and the one after that"


def test_a_measure_outside_of_the_epochs_logs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with Capture("digits", *linear(), home=tmp_path) as capture:
        for _ in range(3):
            capture.measured(loss=0.5)
    assert caplog.text.count("capture.epochs(") == 1


def test_a_loop_left_by_break_stopped_early(tmp_path: Path):
    network = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with Capture("digits", network, optimizer, home=tmp_path / "break", strict=True) as capture:
        for epoch in capture.epochs(9):
            epoch.measured(loss=0.5)
            if epoch.index == 2:
                break
        with capture.evaluation() as test:
            test.measured(accuracy=0.5)
    with provml.open(tmp_path / "break") as store:
        assert adaptations(store) == [(2, "epochs", 9, 2, "by hand")]
        assert store.run("latest").status == "FINISHED"
        assert ask(store, "SELECT ?e { ?t a provml:EvaluationExecution ; provml:evaluated ?e }")


def test_a_loop_that_raised_is_a_failed_training(tmp_path: Path):
    def train() -> None:
        with Capture("digits", torch.nn.Linear(64, 10), home=tmp_path / "raised", strict=True) as capture:
            for epoch in capture.epochs(9):
                if epoch.index == 2:
                    raise Boom

    with pytest.raises(Boom):
        train()
    with provml.open(tmp_path / "raised") as store:
        assert adaptations(store) == []
        assert ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }") == [("FAILED",)]


def test_the_layers_of_a_lazy_or_wrapped_network_are_recorded(tmp_path: Path):
    network = torch.nn.DataParallel(torch.nn.Sequential(torch.nn.LazyLinear(8), torch.nn.Linear(8, 10)))
    with Capture("digits", network, home=tmp_path, strict=True, save_model=tmp_path / "models" / "net.pt") as capture:
        for _ in capture.epochs(1):
            network(DIGITS["test"][0])
    with provml.open(tmp_path) as store:
        rows = ask(store, "SELECT ?n ?c { ?l a provml:Layer ; rdfs:label ?n ; provml:parameterCount ?c } ORDER BY ?n")
        assert rows == [("0", 520), ("1", 90)]
        assert ask(store, "SELECT ?p { ?m a provml:Model ; provlake:path ?p }") == [
            (str(tmp_path / "models" / "net.pt"),)
        ]


def test_the_optimizer_is_unchanged_after_the_capture(tmp_path: Path):
    network = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    before = set(vars(optimizer)), str(optimizer.state_dict())
    with Capture("digits", network, optimizer, home=tmp_path, strict=True):
        assert optimizer._optimizer_step_post_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert (set(vars(optimizer)), str(optimizer.state_dict())) == before


def test_batches_before_a_break_have_durations_and_the_validation_has_data(tmp_path: Path):
    data = {"training": loader(), "validation": loader("validation")}
    with Capture("digits", torch.nn.Linear(64, 10), data=data, home=tmp_path, strict=True) as capture:
        for epoch in capture.epochs(2):
            for number, _ in enumerate(capture.batches(data["training"])):
                capture.measured(loss=0.1)
                if number == 2:
                    break
            capture.measured(accuracy=0.9)
            with epoch.validation() as validation:
                validation.measured(accuracy=0.8)
    with provml.open(tmp_path) as store:
        rows = ask(store, "SELECT ?s { ?b a provml:BatchExecution ; provml:elapsedSeconds ?s }")
        assert len(rows) == 6
        measures = measures_by_epoch(store, "provml:TrainingEpochExecution")
        assert measures == {"accuracy": [0.9, 0.9], "loss": pytest.approx([0.1, 0.1])}
        used = "SELECT ?d { ?v a provml:ValidationExecution ; prov:used ?d . ?d a provml:LearningDataset }"
        assert len(ask(store, used)) == 2


def test_a_hyperparameter_may_have_the_name_of_a_method_parameter(tmp_path: Path):
    with Capture("digits", home=tmp_path, strict=True) as capture:
        capture.begin_training({"name": "first", "using": "all", "by": "row", "rate": None})
    with provml.open(tmp_path) as store:
        rows = ask(
            store,
            "SELECT ?n ?v { ?h prov:value ?v ; prov:wasDerivedFrom/rdfs:label ?n }",
        )
        assert {("name", "first"), ("using", "all"), ("by", "row")} <= set(rows)


# ---- several processes

RANK = """
import torch
from provml.capture.torch import Capture
torch.manual_seed(0)
network = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
settings = {"home": home, "strict": True, "capture_environment": False, "save_model": home + "/net.pt"}
with Capture("digits", network, optimizer, **settings) as capture:
    for epoch in capture.epochs(2):
        for x in capture.batches(torch.ones(3, 1, 4)):
            network(x).sum().backward()
            optimizer.step()
        epoch.measured(loss=0.5)
"""


def test_each_rank_writes_a_journal_of_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    variables = {"PROVML_RUN": "both", "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    code = f"home = {str(tmp_path)!r}\n{RANK}"
    other = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **variables})
    for name, value in (variables | {"RANK": "0", "LOCAL_RANK": "0"}).items():
        monkeypatch.setenv(name, value)
    exec(RANK, {"home": str(tmp_path)})  # the first rank is this process: loading PyTorch takes seconds
    assert other.wait(120) == 0
    monkeypatch.undo()
    assert sorted(path.name for path in (tmp_path / "runs" / "both").glob("*.jsonl")) == ["main.jsonl", "rank-1.jsonl"]
    with provml.open(tmp_path) as store:
        assert (store.run("both").status, store.run("both").writers) == ("FINISHED", 2)
        assert len(ask(store, "SELECT ?e { ?e a provml:TrainingEpochExecution }")) == 4
        assert len(ask(store, "SELECT ?t { ?t a provml:TrainingExecution }")) == 2
        assert set(ask(store, "SELECT ?v { ?h prov:value ?v ; prov:wasDerivedFrom/rdfs:label 'world_size' }")) == {(2,)}
        models = ask(store, "SELECT ?path ?by { ?m a provml:Model ; provlake:path ?path ; prov:wasGeneratedBy ?by }")
        assert [path for path, _ in models] == [str(tmp_path / "net.pt")], (
            "only the first rank saves and records the model"
        )


def test_only_the_first_rank_saves_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "1")
    exec(RANK, {"home": str(tmp_path)})
    assert not (tmp_path / "net.pt").exists()


def test_values_of_the_wrong_type_are_rejected(tmp_path: Path):
    network = torch.nn.Linear(2, 1)
    with pytest.raises(provml.ProvmlError, match="optimizer takes optimizers of PyTorch"):
        Capture("digits", network, network, home=tmp_path / "home")
    for setting, value in (("network", 3), ("scheduler", 3), ("scaler", "amp")):
        with pytest.raises(provml.ProvmlError, match=f"{setting} takes"):
            Capture("digits", **{setting: value}, home=tmp_path / "home")
    assert not (tmp_path / "home").exists(), "no run was started"
    for count in ("3", 2.5, True):
        with Capture("digits", network, home=tmp_path / "home") as capture, pytest.raises(TypeError, match="epochs"):
            next(capture.epochs(count))
    for wrong in ({"count": -1}, {"count": 3, "first": "a"}, {"count": 3, "first": -1}):
        refused = pytest.raises((TypeError, ValueError), match=r"must be .*\. Use ")
        with Capture("digits", network, home=tmp_path / "home") as capture, refused:
            next(capture.epochs(**wrong))


def test_a_measure_of_batches_only_is_recorded_for_the_epoch_as_mean(tmp_path: Path):
    network = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with Capture("means", network, optimizer, home=tmp_path, strict=True) as capture:
        for epoch in capture.epochs(2):
            for x in capture.batches([1.0, 2.0, 6.0]):
                optimizer.zero_grad()
                (network(torch.ones(2)).sum() * x).backward()
                optimizer.step()
                capture.measured(loss=torch.tensor(x * epoch.index), other=x)
            epoch.measured(other=9.0)
    with provml.open(tmp_path) as store:
        assert store.ask("q3", model="means").column("value") == [3.0, 6.0]
        assert store.ask("q3", model="means", measure="other").column("value") == [9.0, 9.0]


KINDS: dict[str, Any] = {
    "float": float,
    "fraction": Fraction,
    "mpmath": mpmath.mpf,
    "sympy": lambda number: sympy.Rational(number),
    "numpy float32": np.float32,
    "array": np.array,
    "tensor": lambda number: torch.tensor(float(number), requires_grad=True),
    "bfloat16": lambda number: torch.tensor(number, dtype=torch.bfloat16),
    "integer": lambda number: torch.tensor(number),
    "parameter": lambda number: torch.nn.Parameter(torch.tensor(float(number))),
    "alternating": lambda number: np.float32(number) if number % 2 else float(number),
}


@pytest.mark.parametrize("settings", [{}, {"every": 3}, {"detail": "epoch"}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_includes_all_batches_for_any_type_of_number(tmp_path: Path, kind: str, settings: dict[str, Any]):
    with Capture("means", home=tmp_path, strict=True, **settings) as capture:
        for _ in capture.epochs(2):
            for number in capture.batches(range(1, 6)):
                capture.measured(loss=KINDS[kind](number), twice=2.0 * number)
    with provml.open(tmp_path) as store:
        assert store.ask("q3", model="means").column("value") == [3.0, 3.0]
        assert store.ask("q3", model="means", measure="twice").column("value") == [6.0, 6.0]
