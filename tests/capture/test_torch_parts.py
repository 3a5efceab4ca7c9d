"""Parts of the PyTorch capture: means of batches, and the tracker of optimizers."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from provml.capture._hyperparameters import MANUAL  # noqa: E402
from provml.capture.torch._batch_means import BatchMeans  # noqa: E402  # it needs PyTorch
from provml.capture.torch._optimizers import OptimizerTracker, unwrap_network  # noqa: E402

pytestmark = pytest.mark.xdist_group("torch")  # loading PyTorch takes seconds: once is enough


def test_means_are_of_single_values_and_of_totals():
    means = BatchMeans()
    means.add({"loss": 1.0, "accuracy": np.float32(0.5), "text": "no number"})
    means.add({"loss": torch.tensor([3.0]), "vector": torch.ones(2)})
    means.add_totals({"loss": (8.0, 2)})
    assert means.means(exclude=()) == {"loss": 3.0, "accuracy": 0.5}
    assert means.means(exclude={"loss"}) == {"accuracy": 0.5}


class Calls:
    """Counts the calls of `on_change`."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def sgd(**settings: Any) -> Any:
    return torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), **{"lr": 0.5, **settings})


def tracker_of(*optimizers: Any) -> tuple[OptimizerTracker, Calls]:
    calls = Calls()
    tracker = OptimizerTracker({str(number): item for number, item in enumerate(optimizers)}, [], calls)
    tracker.on_training_begin()
    return tracker, calls


@pytest.mark.parametrize("count", [1, 2])
def test_a_step_calls_back_only_after_a_change_or_at_the_beginning_of_an_epoch(count: int):
    optimizers = [sgd() for _ in range(count)]
    tracker, calls = tracker_of(*optimizers)
    tracker.on_step(optimizers[0], (), {})
    assert calls.count == 1, "nothing was compared yet"
    tracker.on_compared()
    tracker.on_checked()
    tracker.on_step(optimizers[0], (), {})
    assert calls.count == 1
    tracker.on_epoch_deferred()
    tracker.on_step(optimizers[0], (), {})
    assert calls.count == 2, "an epoch is pending"
    tracker.on_checked()
    optimizers[-1].param_groups[0]["lr"] = 0.25
    tracker.on_step(optimizers[-1], (), {})
    assert calls.count == 3
    assert tracker.may_have_changed()


def test_a_check_is_due_only_if_batches_are_watched_and_a_value_changed():
    optimizer = sgd()
    tracker, _ = tracker_of(optimizer)
    tracker.on_compared()
    assert not tracker.is_check_due(True)
    optimizer.param_groups[0]["lr"] = 0.25
    assert tracker.is_check_due(True)
    assert not tracker.is_check_due(False)


def test_values_that_can_change_in_place_are_always_compared():
    tracker, _ = tracker_of(sgd(lr=torch.tensor(0.5), foreach=False))
    tracker.on_compared()
    assert tracker.may_have_changed()


def test_a_scheduler_that_was_passed_is_the_technique_and_another_change_is_manual():
    optimizer = sgd(momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    tracker = OptimizerTracker({"": optimizer}, [scheduler])
    tracker.on_training_begin()
    optimizer.step()
    scheduler.step()
    name, parameters = tracker.technique_of_change("learning_rate", 0.5, 0.25)
    assert (name, parameters["gamma"]) == ("ExponentialLR", 0.5)
    assert tracker.technique_of_change("momentum", 0.9, 0.5) == (MANUAL, {})


def test_a_tracker_without_optimizers_can_be_copied_and_pickled():
    for tracker in (copy.deepcopy(OptimizerTracker()), pickle.loads(pickle.dumps(OptimizerTracker()))):
        assert tracker.current_hyperparameters() == {}


def test_a_compiled_or_distributed_network_is_unwrapped():
    network = torch.nn.Sequential(torch.nn.Linear(4, 2))
    assert unwrap_network(torch.nn.DataParallel(network)) is network
    assert unwrap_network(network) is network
