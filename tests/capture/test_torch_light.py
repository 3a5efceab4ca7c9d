"""PyTorch: a training script needs few lines, because loaders and epochs of a capture behave as the originals."""

from __future__ import annotations

import argparse
import difflib
import io
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import provml
from provml.store.run_tables import RunTables

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from provml.capture.torch import Capture  # noqa: E402  # it needs PyTorch

pytestmark = pytest.mark.xdist_group("torch")
SCRIPTS = Path(__file__).parent / "scripts"
MAX_LINES = 6
"""Lines that a usual script of PyTorch needs for a capture."""


def network() -> Any:
    return torch.nn.Linear(4, 2)


def loader(rows: int = 12) -> Any:
    generator = torch.Generator().manual_seed(rows)
    data = torch.utils.data.TensorDataset(torch.rand(rows, 4, generator=generator), torch.zeros(rows).long())
    return torch.utils.data.DataLoader(data, batch_size=4)


def step(model: Any, optimizer: Any, batch: Any) -> Any:
    loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def events(home: Path, kind: str) -> list[dict[str, Any]]:
    lines = [line for file in sorted(home.glob("runs/*/*.jsonl")) for line in file.read_text().splitlines()]
    parsed = [json.loads(line) for line in lines if line.strip("\0")]
    return [event for event in parsed if event["e"] == kind]


def begin_values(home: Path) -> dict[str, Any]:
    """Return the hyperparameters of the training, those it began with and those recorded later."""
    values: dict[str, Any] = {}
    for event in [*events(home, "begin"), *events(home, "parameter")]:
        if event["at"].startswith("training"):
            values |= event.get("values", {})
    return values


def test_a_usual_script_needs_six_lines_and_gives_the_same_weights_and_output(tmp_path: Path):
    plain, captured = (SCRIPTS / f"mnist_{name}.py" for name in ("plain", "captured"))
    diff = difflib.ndiff(plain.read_text().splitlines(), captured.read_text().splitlines())
    assert len([line for line in diff if line.startswith("+ ") and line[2:].strip()]) <= MAX_LINES
    outputs = []
    environment = {**os.environ, "PROVML_HOME": str(tmp_path / "home")}
    for script in (plain, captured):
        command = [sys.executable, str(script), "--save-model", str(tmp_path / f"{script.stem}.pt")]
        outputs.append(
            subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)
        )
    assert outputs[0].stdout == outputs[1].stdout
    assert not outputs[1].stderr
    weights = [torch.load(tmp_path / f"{script.stem}.pt") for script in (plain, captured)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())

    home = tmp_path / "home"
    values = begin_values(home)
    assert values["learning_rate"] == 1.0
    assert values["gamma"] == 0.7
    assert "lr" not in values
    assert values["scheduler"] == "StepLR"
    assert values["scheduler.gamma"] == 0.7
    assert values["scheduler.step_size"] == 1
    validations = [event for event in events(home, "measured") if event["at"].startswith("validation/")]
    printed = [line for line in outputs[1].stdout.splitlines() if line.startswith("Test")]
    shown = [
        f"Test set: average loss {e['values']['loss']:.4f}, accuracy {e['values']['accuracy'] * 500:.0f}/500"
        for e in validations
    ]
    assert shown == printed
    assert len(shown) == 2
    assert [model["path"] for model in events(home, "data") if model["kind"] == "model"] == [
        str(tmp_path / "mnist_captured.pt")
    ]
    with provml.open(home) as store:
        assert store.ask("adaptations").column("new") == [0.7]
        assert store.validate().conforms


def test_an_epoch_is_its_number(tmp_path: Path):
    with Capture("numbers", home=tmp_path) as capture:
        taken = list(capture.epochs(range(3)))  # a loop that counts from 0 goes on to do so
        assert [int(epoch) for epoch in taken] == [0, 1, 2]
        assert [epoch.index for epoch in taken] == [1, 2, 3]
        assert ["%d" % epoch for epoch in taken] == ["0", "1", "2"]  # noqa: UP031
        assert f"{taken[1]:02d} {taken[1]}" == "01 1"
        assert taken[1] + 1 == 2
        assert taken[2] % 2 == 0
        assert list(range(taken[2])) == [0, 1]
        assert taken[0] < taken[1]
        assert json.dumps({"epoch": taken[2]}) == '{"epoch": 2}'
        assert type(pickle.loads(pickle.dumps(taken[2]))) is int
        assert [str(epoch) for epoch in capture.epochs(2)] == ["1", "2"]
    with provml.record("numbers", home=tmp_path) as run:
        for epoch in run.training().epochs(2):
            assert (epoch + 1, 10 - epoch, 0.5 * epoch, epoch % 2) == (
                epoch.index + 1,
                10 - epoch.index,
                0.5 * epoch.index,
                epoch.index % 2,
            )
            assert epoch == epoch.index
            assert epoch <= 2
            assert {1: "a", 2: "b"}[epoch] == "ab"[epoch - 1]


def test_a_checkpoint_with_an_epoch_can_be_loaded(tmp_path: Path):
    with Capture("saved", home=tmp_path) as capture:
        for epoch in capture.epochs(1):
            file = io.BytesIO()
            torch.save({"epoch": epoch, "next": epoch + 1}, file)
            file.seek(0)
            assert torch.load(file) == {"epoch": 1, "next": 2}


def test_batches_can_be_iterated_again_and_are_like_their_loader(tmp_path: Path):
    data = loader()
    with Capture("again", home=tmp_path) as capture:
        batches = capture.batches(data)
        for _ in capture.epochs(2):
            assert len(list(batches)) == len(batches) == 3
            assert batches.dataset is data.dataset
            assert batches.sampler is data.sampler
            assert batches.batch_size == 4
    assert [len(event["index"]) for event in events(tmp_path, "batches")] == [3, 3]


def test_epochs_without_a_count_go_on_until_the_loop_is_left(tmp_path: Path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Capture("endless", model, optimizer, home=tmp_path) as capture:
        for epoch in capture.epochs():
            step(model, optimizer, next(iter(loader())))
            if epoch == 3:
                break
    assert [event["index"] for event in events(tmp_path, "begin") if event["kind"] == "epoch"] == [1, 2, 3]
    assert not events(tmp_path, "adapted"), "no plan was changed"
    assert all(event.get("status", "FINISHED") == "FINISHED" for event in events(tmp_path, "done"))


def test_a_resumed_loop_goes_on_with_the_numbers_of_its_range(tmp_path: Path):
    with Capture("resumed", home=tmp_path) as capture:
        for epoch in capture.epochs(range(5, 8)):
            epoch.measured(loss=1.0)
    assert [event["index"] for event in events(tmp_path, "begin") if event["kind"] == "epoch"] == [5, 6, 7]


def test_arguments_of_the_script_are_hyperparameters_under_one_name(tmp_path: Path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    args = argparse.Namespace(lr=0.25, num_epochs=2, seed=3, data="d", api_token="secret", func=print, none=None)
    for parameters in (vars(args), args):
        with Capture("args", model, optimizer, parameters=parameters, home=tmp_path / "home") as capture:
            capture.parameters(notes="first")
            for epoch in capture.epochs(2):
                if epoch == 1:
                    capture.parameters(dropout=0.5)
                step(model, optimizer, next(iter(loader())))
    values = begin_values(tmp_path / "home")
    expected = {"learning_rate": 0.25, "epochs": 2, "seed": 3, "data": "d", "notes": "first", "dropout": 0.5}
    assert expected.items() <= values.items()
    assert not {"lr", "num_epochs", "none"} & values.keys()
    assert "secret" not in str(values)
    with pytest.raises(provml.ProvmlError, match="parameters=vars"):
        Capture("args", parameters=["lr"], home=tmp_path / "other")  # type: ignore[arg-type]


def test_an_adaptation_by_the_user_is_recorded_once_with_its_reason(tmp_path: Path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with Capture("adapted", model, optimizer, home=tmp_path) as capture:
        for epoch in capture.epochs(3):
            step(model, optimizer, next(iter(loader())))
            optimizer.param_groups[0]["lr"] = 0.5 / 2**epoch
            capture.adapted(learning_rate=0.5 / 2**epoch, technique="patience", reason="plateau", by="Ada")
            if epoch == 2:
                capture.adapted(augmentation="strong")
    changes = [(event["at"], event["values"], event["technique"]) for event in events(tmp_path, "adapted")]
    assert changes == [
        ("training/2", {"learning_rate": 0.25}, "patience"),
        ("training/3", {"learning_rate": 0.125}, "patience"),
        ("training/3", {"augmentation": "strong"}, "by hand"),
    ], "the change after the last step was not used"
    with provml.open(tmp_path) as store:
        assert store.ask("adaptations").column("reason")[:2] == ["plateau", "plateau"]


@pytest.mark.parametrize(
    ("create", "expected"),
    [
        (lambda o: torch.optim.lr_scheduler.StepLR(o, 3, gamma=0.3), {"step_size": 3, "gamma": 0.3}),
        (lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=7), {"T_max": 7, "eta_min": 0.0}),
        (lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 5]), {"milestones": "[2, 5]"}),
        (lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 1.0), {"lr_lambdas": '["<lambda>"]'}),
        (lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=4), {"patience": 4, "factor": 0.1}),
        (
            lambda o: torch.optim.lr_scheduler.SequentialLR(
                o,
                [torch.optim.lr_scheduler.LinearLR(o), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)],
                milestones=[2],
            ),
            {"1": "LinearLR", "2": "ExponentialLR", "2.gamma": 0.9, "milestones": "[2]"},
        ),
    ],
)
def test_a_scheduler_is_recorded_with_its_settings(tmp_path: Path, create: Any, expected: dict[str, Any]):
    optimizer = torch.optim.SGD(network().parameters(), lr=0.5)
    scheduler = create(optimizer)
    with Capture("scheduled", None, optimizer, scheduler=scheduler, home=tmp_path) as capture:
        list(capture.epochs(1))
    values = begin_values(tmp_path)
    assert values["scheduler"] == type(scheduler).__name__
    assert {f"scheduler.{name}": value for name, value in expected.items()}.items() <= values.items()


def sizes_of_models(store: Any) -> list[tuple[Any, ...]]:
    """Return the name, the number of layers and the number of parameters of each model."""
    models = RunTables(store, store.runs()[0]).models()
    return sorted((name, layers, parameters) for name, _, layers, parameters, *_ in models)


def test_several_networks_are_models_of_their_own(tmp_path: Path):
    networks = {"generator": network(), "critic": torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Linear(5, 3))}
    optimizers = {name: torch.optim.SGD(item.parameters(), lr=0.1) for name, item in networks.items()}
    home = tmp_path / "home"
    with pytest.raises(provml.ProvmlError, match=r"\{network\}"):
        Capture("gan", networks, optimizers, save_model=tmp_path / "one.pt", home=home)
    save_model = tmp_path / "{network}.pt"
    with Capture("gan", networks, optimizers, save_model=save_model, home=home, strict=True) as capture:
        for _ in capture.epochs(2):
            for batch in capture.batches(loader()):
                for name, item in networks.items():
                    step(item, optimizers[name], batch)
        with capture.evaluation(networks["generator"]) as test:
            test.measured(fid=3.0)
        with capture.evaluation(name="both") as test:
            test.measured(score=1.0)
    layers = [layer["name"] for layer in events(home, "layers")[0]["layers"]]
    assert layers == ["generator", "generator.Linear", "critic", "critic.0", "critic.1"]
    assert begin_values(home)["num_layers"] == 3
    with provml.open(home) as store:
        assert sizes_of_models(store) == [("critic", 2, 43), ("generator", 1, 10)]
    models = {event["ref"]: Path(event["path"]).name for event in events(home, "data") if event["kind"] == "model"}
    assert sorted(models.values()) == ["critic.pt", "generator.pt"]
    used = [(event["at"], models[event["ref"]]) for event in events(home, "used") if event["role"] == "model"]
    assert used == [("evaluation", "generator.pt"), ("both", "generator.pt"), ("both", "critic.pt")]


def test_a_loop_over_test_data_is_an_evaluation(tmp_path: Path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training, test = loader(), loader(8)
    data = {"training": training, "test": test}
    with Capture("tested", model, optimizer, data=data, home=tmp_path, strict=True) as capture:
        for _ in capture.epochs(1):
            for batch in capture.batches(training):
                capture.measured(loss=step(model, optimizer, batch))
        tested = capture.batches(test)
        assert sum(len(x) for x, _ in tested) == 8
        tested.measured(accuracy=0.5)
    begun = [(event["at"], event["kind"]) for event in events(tmp_path, "begin")]
    assert begun == [("training", "training"), ("training/1", "epoch"), ("evaluation", "evaluation")]
    assert [e["values"] for e in events(tmp_path, "measured") if e["at"] == "evaluation"] == [{"accuracy": 0.5}]
    with pytest.raises(provml.ProvmlError, match="role"):
        capture.batches(test, role="tests")


def test_measures_inside_a_loop_over_validation_data_are_not_those_of_the_training(tmp_path: Path):
    with Capture("validated", home=tmp_path, strict=True) as capture:
        for _ in capture.epochs(1):
            for _ in capture.batches(loader()):
                capture.measured(loss=1.0)
            for _ in capture.batches(loader(8), role="validation"):
                capture.measured(loss=3.0)
    means = {event["at"]: event["values"] for event in events(tmp_path, "measured") if event["at"].count("/") == 1}
    assert means == {"training/1": {"loss": 1.0}, "validation/1": {"loss": 3.0}}
