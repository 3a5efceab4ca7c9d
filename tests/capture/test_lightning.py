"""Lightning: a training by its Trainer is recorded."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import (
    Boom,
    CaptureContract,
    EvaluationContract,
    Expected,
    adaptations,
    ask,
    digest_of,
    evaluated_models,
    used,
)
from capture.digits import digits, rows
from provml.recording.run import Run

lightning = pytest.importorskip(
    "lightning.pytorch", reason="Lightning is not installed: `pip install 'provml[lightning]'`"
)
import torch  # noqa: E402  # it comes with Lightning

from provml.capture.lightning import Capture  # noqa: E402  # it needs Lightning

pytestmark = [
    pytest.mark.xdist_group("torch"),  # loading PyTorch takes seconds: once is enough
    # Lightning advises more workers and fewer logs, which these small trainings do not need
    pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning"),
    # Lightning still asks PyTorch in a way that PyTorch 2.13 calls deprecated
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
]
DIGITS = {role: (torch.from_numpy(x), torch.from_numpy(y)) for role, (x, y) in digits().items()}


def loader(role: str) -> Any:
    data = torch.utils.data.TensorDataset(*DIGITS[role])
    return torch.utils.data.DataLoader(data, batch_size=48, shuffle=role == "training")


class Network(lightning.LightningModule):
    def __init__(self, width: int = 16, gamma: float = 0.1, fails: bool = False) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=["fails"])
        self.fails = fails
        self.body = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU())
        self.out = torch.nn.Linear(width, 10)

    def evaluate(self, batch: Any, role: str) -> Any:
        x, y = batch
        prediction = self.out(self.body(x))
        loss = torch.nn.functional.cross_entropy(prediction, y)
        accuracy = (prediction.argmax(1) == y).float().mean()
        self.log_dict({f"{role}_loss": loss, f"{role}_accuracy": accuracy}, on_step=False, on_epoch=True)
        return loss

    def training_step(self, batch: Any, index: int) -> Any:
        if self.fails and self.current_epoch == 1 and index == 3:
            raise Boom("in the middle")
        return self.evaluate(batch, "train")

    def validation_step(self, batch: Any, index: int) -> None:
        self.evaluate(batch, "val")

    def test_step(self, batch: Any, index: int) -> None:
        self.evaluate(batch, "test")

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5, momentum=0.5)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=self.hparams["gamma"])]


class MetricsOfEpochs(lightning.Callback):
    """Collects the metrics of each epoch."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.epochs.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def trainer(folder: Path, *callbacks: Any, epochs: int = 4, **settings: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    return lightning.Trainer(
        max_epochs=epochs, default_root_dir=folder, callbacks=list(callbacks), **(quiet | settings)
    )


class TestLightning(CaptureContract):
    software = "lightning"

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        torch.manual_seed(7)
        network, metrics = Network(fails=fails), MetricsOfEpochs()
        checkpoints = lightning.callbacks.ModelCheckpoint(folder / "kept", filename="{epoch}", save_top_k=-1)
        capture = [Capture(run=run)] if run is not None else []
        fitting = trainer(folder, *capture, metrics, checkpoints)
        fitting.fit(network, loader("training"), loader("validation"))
        (tested,) = fitting.test(network, loader("test"), verbose=False)
        return Expected(
            result=b"".join(tensor.numpy().tobytes() for tensor in network.state_dict().values()),
            hyperparameters={
                "optimizer": "SGD", "learning_rate": 0.5, "momentum": 0.5, "epochs": 4, "batch_size": 48,
                "scheduler": "StepLR", "width": 16, "gamma": 0.1, "num_layers": 4, "precision": "32-true",
            },
            measures={name: [epoch[f"train_{name}"] for epoch in metrics.epochs] for name in ("loss", "accuracy")},
            validation={name: [epoch[f"val_{name}"] for epoch in metrics.epochs] for name in ("loss", "accuracy")},
            adaptations=[
                (3, "learning_rate", 0.5, 0.05, "StepLR"),
            ],
            layers=[("body", "Sequential"), ("body.0", "Linear"), ("body.1", "ReLU"), ("out", "Linear")],
            evaluation={name.removeprefix("test_"): value for name, value in tested.items()},
            model=folder / "kept" / "epoch=3.ckpt",
        )  # fmt: skip


class TestSeveral(EvaluationContract):
    @classmethod
    def capture(cls, **settings: Any) -> Any:
        return Capture("digits", **settings)

    @classmethod
    def loader(cls, part: slice) -> Any:
        data = torch.utils.data.TensorDataset(*map(torch.from_numpy, rows(part)))
        return torch.utils.data.DataLoader(data, batch_size=50)

    @classmethod
    def train_on(cls, capture: Any, folder: Path, part: slice, model: Any = None) -> Any:
        model = model or Network()
        trainer(folder, capture, epochs=1, enable_checkpointing=False).fit(model, cls.loader(part))
        return model

    @classmethod
    def evaluate_on(cls, capture: Any, folder: Path, part: slice, model: Any) -> None:
        trainer(folder, capture, enable_checkpointing=False).test(model, cls.loader(part), verbose=False)

    def test_a_checkpoint_that_was_loaded_is_the_evaluated_model(self, several: tuple[Any, Path, Path]):
        capture, folder, home = several
        checkpoints = lightning.callbacks.ModelCheckpoint(folder / "kept", filename="{epoch}", save_top_k=-1)
        fitting, network = trainer(folder, capture, checkpoints, epochs=2), Network()
        fitting.fit(network, self.loader(slice(0, 200)))
        fitting.test(network, self.loader(slice(500, 600)), ckpt_path=folder / "kept" / "epoch=0.ckpt", verbose=False)
        fitting.validate(network, self.loader(slice(500, 600)), verbose=False)
        fitting.test(network, self.loader(slice(500, 600)), ckpt_path=folder / "kept" / "epoch=1.ckpt", verbose=False)
        capture.finish()
        with provml.open(home) as store:
            paths = dict(ask(store, "SELECT ?m ?p { ?m a provml:Model ; provlake:path ?p }"))
            assert [Path(paths[model]).name for model in evaluated_models(store)] == ["epoch=0.ckpt", "epoch=1.ckpt"]
            ((model,),) = ask(store, "SELECT ?m { ?v a provml:ValidationExecution ; provml:evaluated ?m }")
            assert Path(paths[model]).name == "epoch=0.ckpt"  # the loaded weights remain


def test_early_stopping_adapts_the_number_of_epochs(tmp_path: Path):
    stop = lightning.callbacks.EarlyStopping("val_loss", patience=1, min_delta=100.0)
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        trainer(tmp_path, capture, stop, epochs=9, enable_checkpointing=False).fit(
            Network(), loader("training"), loader("validation")
        )
    with provml.open(tmp_path / "home") as store:
        assert (2, "epochs", 9, 2, "EarlyStopping") in adaptations(store)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_scheduler_added_by_a_callback_is_recorded_as_technique(tmp_path: Path, is_first: bool):
    averages = lightning.callbacks.StochasticWeightAveraging(swa_lrs=0.2, swa_epoch_start=3, annealing_epochs=2)
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        callbacks = [capture, averages] if is_first else [averages, capture]
        trainer(tmp_path, *callbacks, epochs=6, enable_checkpointing=False).fit(Network(), loader("training"))
    with provml.open(tmp_path / "home") as store:
        techniques = {epoch: technique for epoch, name, *_, technique in adaptations(store) if name == "learning_rate"}
        assert (techniques[3], techniques[5]) == ("StepLR", "SWALR")
        assert set(techniques.values()) == {"StepLR", "SWALR"}


def test_validate_outside_of_fit_is_a_validation_of_the_model(tmp_path: Path):
    network = Network()
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        fitting = trainer(tmp_path, capture, epochs=1, enable_checkpointing=False)
        fitting.fit(network, loader("training"))
        fitting.validate(network, loader("validation"), verbose=False)
    with provml.open(tmp_path / "home") as store:
        rows = ask(store, """SELECT ?n { ?v a provml:ValidationExecution ; provml:evaluated ?m .
            ?e prov:wasGeneratedBy ?v ; prov:wasDerivedFrom/rdfs:label ?n } ORDER BY ?n""")  # fmt: skip
        assert rows == [("accuracy",), ("loss",)]


def test_a_resumed_training_continues_from_its_checkpoint(tmp_path: Path):
    checkpoint = tmp_path / "first.ckpt"
    first = trainer(tmp_path, epochs=1, enable_checkpointing=False)
    first.fit(Network(), loader("training"))
    first.save_checkpoint(checkpoint)
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        fitting = trainer(tmp_path, capture, epochs=2, enable_checkpointing=False)
        fitting.fit(Network(), loader("training"), ckpt_path=str(checkpoint), weights_only=False)
    with provml.open(tmp_path / "home") as store:
        rows = ask(
            store,
            """SELECT ?path ?sha { ?t a provml:TrainingExecution ; prov:used ?m .
               ?m a provml:Model ; provlake:path ?path ; provlake:sha256 ?sha }""",
        )
        assert rows == [(str(checkpoint), digest_of(checkpoint))]
        assert used(store)["resumed_from"] == str(checkpoint)


class RememberingNetwork(Network):
    """A network that remembers the losses of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def training_step(self, batch: Any, index: int) -> Any:
        loss = super().training_step(batch, index)
        self.losses.append(loss.detach().item())
        return loss


def test_the_loss_of_a_batch_is_not_divided_by_accumulation(tmp_path: Path):
    network = RememberingNetwork()
    twice = lightning.callbacks.GradientAccumulationScheduler({0: 2, 1: 3})
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        trainer(tmp_path, capture, twice, epochs=2, enable_checkpointing=False).fit(network, loader("training"))
    with provml.open(tmp_path / "home") as store:
        rows = ask(store, "SELECT ?v { ?b a provml:BatchEvaluation ; prov:value ?v }")
        assert sorted(value for (value,) in rows) == pytest.approx(sorted(network.losses))


class Rated(Network):
    def __init__(self, lr: float, decay: Any = 0.5) -> None:
        super().__init__()
        self.save_hyperparameters()


def test_a_rate_has_one_name(tmp_path: Path):
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        fitting = trainer(tmp_path, capture, epochs=1, max_steps=1, enable_checkpointing=False)
        fitting.fit(Rated(lr=0.3, decay=Fraction(1, 4)), loader("training"))
    with provml.open(tmp_path / "home") as store:
        values = used(store)
        assert values["learning_rate"] == 0.5  # that of the optimizer
        assert "lr" not in values
        assert values["decay"] == 0.25


class Secretive(Network):
    def __init__(self, api_key: str, tracker: dict[str, Any]) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.out.password = "hunter2"


def test_secrets_and_epochs_limited_by_steps_are_not_recorded(tmp_path: Path):
    network = Secretive("hunter2", {"token": "hunter2", "project": "digits"})
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        fitting = trainer(tmp_path, capture, epochs=-1, max_steps=3, enable_checkpointing=False)
        fitting.fit(network, loader("training"))
    assert not [path for path in (tmp_path / "home").rglob("*.jsonl") if "hunter2" in path.read_text()]
    with provml.open(tmp_path / "home") as store:
        values = used(store)
        assert values["max_steps"] == 3
        assert not {"epochs", "api_key"} & set(values)
