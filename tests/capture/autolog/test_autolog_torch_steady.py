"""The short path for steady PyTorch loops: it is taken, and records the same as the path for all loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.autolog.contracts import autologging
from capture.autolog.test_autolog_torch import batch_losses, rules
from capture.contract import adaptations, ask, measures_by_epoch

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from provml.capture.autolog.torch import _observer, _steady  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.xdist_group("torch")

X, Y = torch.randn(40, 4, generator=torch.Generator().manual_seed(2)), torch.arange(40) % 3


def loader(rows: int = 40) -> Any:
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[:rows], Y[:rows]), batch_size=2)


def network() -> Any:
    torch.manual_seed(4)
    return torch.nn.Sequential(torch.nn.Linear(4, 3))


def interrupted_by_everything(folder: Path) -> None:
    """Validate, save, change settings, skip and accumulate steps in the middle of epochs; leave the last one."""
    model, second = network(), torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    validation = loader(8)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X[:4]), Y[:4])
        loss.backward()
        return loss

    for epoch in range(3):
        for number, (x, y) in enumerate(loader()):
            model.train()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x) + second, y)
            if number == 15:
                (loss / 2).backward()
                loss = F.cross_entropy(model(x), y) / 2
            loss.backward()
            if number == 9:
                continue  # a step that is not made
            optimizer.step(closure if number == 17 else None)
            if number == 7:
                optimizer.param_groups[0]["lr"] /= 2
            elif number == 11:
                model.eval()
                with torch.no_grad():
                    for x_test, y_test in validation:
                        F.cross_entropy(model(x_test), y_test)
            elif number == 13:
                torch.save(model.state_dict(), folder / f"{epoch}.pt")
            elif number == 18 and epoch == 1:
                optimizer.add_param_group({"params": [second], "lr": 0.01})
            elif number == 6 and epoch == 2:
                break


def checkpointing(folder: Path) -> list[float]:
    """Activations are computed again by a backward pass inside of each backward pass; one of them fails."""
    first, second = network(), torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    losses = []
    for epoch in range(3):
        for number, (x, y) in enumerate(loader()):
            hidden = torch.utils.checkpoint.checkpoint(first, x.requires_grad_(), use_reentrant=True)
            loss = F.cross_entropy(second(hidden), y)
            optimizer.zero_grad()
            if number == 12 and epoch == 1:
                with pytest.raises(RuntimeError, match="Mismatch in shape"):
                    loss.backward(torch.ones(7))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def stepping_in_backward(folder: Path) -> list[float]:
    """The optimizer makes its step when the last gradient is complete."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = next(model.parameters())

    def on_gradient(parameter: Any) -> None:
        if all(item.grad is not None for item in model.parameters()):
            optimizer.step()
            optimizer.zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(on_gradient)
    losses = []
    for x, y in loader():
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        losses.append(loss.item())
    assert first.grad is None
    return losses


def second_optimizer(folder: Path) -> None:
    """Another optimizer makes its first step later, as that of a generator."""
    model, other = network(), network()
    first, second = (torch.optim.SGD(item.parameters(), lr=0.1) for item in (model, other))
    for _ in range(2):
        for number, (x, y) in enumerate(loader()):
            for optimizer, part in ((first, model), (second, other))[: 2 if number % 5 == 4 else 1]:
                optimizer.zero_grad()
                F.cross_entropy(part(x), y).backward()
                optimizer.step()


def loss_of_parts(folder: Path) -> None:
    """PyTorch computes a part of the loss, and only then the whole."""
    model = network()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    for _ in range(2):
        for number, (x, y) in enumerate(loader()):
            optimizer.zero_grad()
            part = F.cross_entropy(model(x), y)
            (part if number > 15 else part + model[0].weight.pow(2).sum()).backward()
            optimizer.step()


def rate_of_each_step(folder: Path) -> None:
    """A scheduler changes the rate at every step."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=40)
    for _ in range(2):
        for x, y in loader():
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            scheduler.step()


def scaled(folder: Path) -> None:
    """A scaler multiplies the loss."""
    model, scaler = network(), torch.amp.GradScaler("cpu", init_scale=64.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader():
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()


def facts(home: Path) -> dict[str, Any]:
    """Return what was recorded, without times."""
    with provml.open(home) as store:
        names = ["loss", "optimizer_1.loss", "optimizer_2.loss"]
        counts = """SELECT (COUNT(DISTINCT ?t) AS ?n) (COUNT(DISTINCT ?f) AS ?m) { ?t a provml:TrainingExecution .
                    OPTIONAL { ?f provlake:sha256 ?digest } }"""
        return {
            "batches": {name: batch_losses(store, name) for name in names},
            "epochs": measures_by_epoch(store, "provml:TrainingEpochExecution"),
            "validations": measures_by_epoch(store, "provml:ValidationEpochExecution"),
            "rules": rules(store),
            "adaptations": adaptations(store),
            "counts": ask(store, counts),
            "errors": [str(run.status) for run in store.runs()],
        }


@pytest.mark.parametrize(
    ("loop", "steps"),
    [
        (interrupted_by_everything, 20),
        (checkpointing, 30),
        (stepping_in_backward, 0),
        (second_optimizer, 0),
        (loss_of_parts, 30),
        (rate_of_each_step, 0),
        (scaled, 0),
    ],
)
def test_the_short_path_records_the_same(
    loop: Callable[[Path], list[float] | None], steps: int, isolated_home: Path, monkeypatch: pytest.MonkeyPatch
):
    taken: list[bool] = []
    add_step = _steady.SteadyLoop.add_step
    monkeypatch.setattr(
        _steady.SteadyLoop, "add_step", lambda self, item: [taken.append(add_step(self, item)), taken[-1]][1]
    )
    monkeypatch.setattr(_steady, "MAX_STEPS", 5)
    recorded = []
    for path, misses in (("short", _observer.MAX_MISSES), ("long", 0)):
        monkeypatch.setattr(_observer, "MAX_MISSES", misses)
        (isolated_home / path).mkdir()
        with autologging(
            home=isolated_home / path / "home",
            strict=True,
            capture_environment=False,
            name="loop",
            frameworks=["torch"],
        ):
            losses = loop(isolated_home / path)
        recorded.append(facts(isolated_home / path / "home"))
        if path == "short":
            assert sum(taken) >= steps
            taken.clear()
    assert not taken
    assert recorded[0] == recorded[1]
    assert recorded[0]["batches"]["loss"] or recorded[0]["batches"]["optimizer_1.loss"]
    if losses:
        assert [loss for epoch in recorded[0]["batches"]["loss"] for loss in epoch] == pytest.approx(losses)


def test_each_pass_over_a_loader_with_persistent_workers_is_an_epoch(isolated_home: Path):
    """Such a loader uses one iterator for all passes."""
    model, dataset = network(), torch.utils.data.TensorDataset(X, Y)
    batches = torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=1, persistent_workers=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        for _ in range(3):
            for x, y in batches:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    with provml.open(isolated_home / "home") as store:
        assert [len(losses) for losses in batch_losses(store)] == [5, 5, 5]
        assert len(store.runs()) == 1


def test_losses_that_are_not_in_main_memory_are_converted_later(isolated_home: Path, monkeypatch: pytest.MonkeyPatch):
    """Losses are kept as tensors here, as those on another device are."""
    monkeypatch.setattr(_steady, "MAX_STEPS", 5)
    recorded = []
    for name in ("numbers", "tensors"):
        if name == "tensors":
            monkeypatch.setattr(torch.Tensor, "is_cpu", False)
        (isolated_home / name).mkdir()
        with autologging(home=isolated_home / name / "home", strict=True, name="loop", frameworks=["torch"]):
            interrupted_by_everything(isolated_home / name)
        recorded.append(facts(isolated_home / name / "home"))
    assert recorded[0] == recorded[1]
