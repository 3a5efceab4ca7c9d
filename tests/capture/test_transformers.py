"""Hugging Face's Trainer, really training: what it did is recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

import provml
from capture.contract import Boom, CaptureContract, EvaluationContract, Expected, adaptations, ask, digest_of, used
from capture.digits import digits, rows
from provml.cli import main
from provml.recording.run import Run

pytest.importorskip("transformers", reason="Transformers are not installed: `pip install 'provml[transformers]'`")
pytest.importorskip("accelerate", reason="Accelerate is not installed: `pip install 'provml[transformers]'`")
import torch  # it comes with Accelerate
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments

from provml.capture.transformers import Capture  # it needs Transformers

pytestmark = pytest.mark.xdist_group("torch")  # loading PyTorch takes seconds: once is enough


class Digits(torch.utils.data.Dataset):
    def __init__(self, part: str | slice) -> None:
        arrays = rows(part) if isinstance(part, slice) else digits()[part]
        self.x, self.y = (torch.from_numpy(array) for array in arrays)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"pixels": self.x[index], "labels": self.y[index]}


class Network(torch.nn.Module):
    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.ReLU())
        self.out = torch.nn.Linear(16, 10)
        self.fails, self.batches = fails, 0

    def forward(self, pixels: Any, labels: Any = None) -> dict[str, Any]:
        self.batches += 1
        if self.fails and self.batches == 14:
            raise Boom("in the middle")
        prediction = self.out(self.body(pixels))
        return {"loss": torch.nn.functional.cross_entropy(prediction, labels), "logits": prediction}


def accuracy(evaluated: Any) -> dict[str, float]:
    return {"accuracy": float((np.argmax(evaluated.predictions, -1) == evaluated.label_ids).mean())}


def trainer(
    folder: Path, network: Any, *callbacks: Any, epochs: int = 3, part: str | slice = "training", **settings: Any
) -> Any:
    defaults = {
        "per_device_train_batch_size": 48, "per_device_eval_batch_size": 80, "learning_rate": 0.03,
        "weight_decay": 0.01, "num_train_epochs": epochs, "eval_strategy": "epoch", "save_strategy": "epoch",
        "logging_strategy": "epoch", "report_to": "none", "use_cpu": True, "seed": 7, "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }  # fmt: skip
    return Trainer(
        network,
        TrainingArguments(str(folder / "checkpoints"), **(defaults | settings)),
        train_dataset=Digits(part),
        eval_dataset=Digits("validation"),
        compute_metrics=accuracy,
        callbacks=list(callbacks),
    )


class TestTransformers(CaptureContract):
    software = "transformers"

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        torch.manual_seed(7)
        network = Network(fails)
        training = trainer(folder, network, *([Capture(run=run)] if run is not None else []))
        training.train()
        history = training.state.log_history
        tested = training.evaluate(Digits("test"))
        return Expected(
            result=b"".join(tensor.numpy().tobytes() for tensor in network.state_dict().values()),
            hyperparameters={
                "optimizer": "AdamW", "learning_rate": 0.03, "weight_decay": 0.01, "group_2.weight_decay": 0.0,
                "epochs": 3, "batch_size": 48, "lr_scheduler_type": "linear", "seed": 7, "steps": 30, "num_layers": 4,
            },
            measures={name: [log[name] for log in history if name in log] for name in ("loss", "grad_norm")},
            validation={
                name: [log[f"eval_{name}"] for log in history[:-1] if f"eval_{name}" in log]
                for name in ("loss", "accuracy")
            },
            adaptations=[
                (epoch, name, old, new, "linear schedule")
                for epoch, old, new in ((2, 0.03, 0.02), (3, 0.02, 0.01))
                for name in ("group_2.learning_rate", "learning_rate")
            ],
            layers=[("body", "Sequential"), ("body.0", "Linear"), ("body.1", "ReLU"), ("out", "Linear")],
            evaluation={name: tested[f"eval_{name}"] for name in ("loss", "accuracy")},
            model=folder / "checkpoints" / "checkpoint-30",
        )  # fmt: skip


class TestSeveral(EvaluationContract):
    settings: ClassVar[dict[str, Any]] = {"eval_strategy": "no", "save_strategy": "no"}

    @classmethod
    def capture(cls, **settings: Any) -> Any:
        return Capture("digits", **settings)

    @classmethod
    def train_on(cls, capture: Any, folder: Path, part: slice, model: Any = None) -> Any:
        model = model or Network()
        trainer(folder, model, capture, epochs=1, part=part, **cls.settings).train()
        return model

    @classmethod
    def evaluate_on(cls, capture: Any, folder: Path, part: slice, model: Any) -> None:
        trainer(folder, model, capture, **cls.settings).evaluate(Digits(part))


def test_early_stopping_adapts_the_number_of_epochs_and_the_best_model_is_recorded(tmp_path: Path):
    settings = {"load_best_model_at_end": True, "metric_for_best_model": "eval_accuracy", "greater_is_better": False}
    network = Network()
    stop = EarlyStoppingCallback(1, early_stopping_threshold=100.0)
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        training = trainer(tmp_path, network, capture, stop, epochs=9, **settings)
        training.train()
        training.predict(Digits("test"))
    with provml.open(tmp_path / "home") as store:
        assert (2, "epochs", 9, 2, "EarlyStoppingCallback") in adaptations(store)
        (path,) = ask(store, "SELECT ?p { ?t a provml:EvaluationExecution ; provml:evaluated/provlake:path ?p }")
        assert path == (training.state.best_model_checkpoint,)


def test_each_of_several_evaluation_sets_validates_the_epochs(tmp_path: Path):
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        training = trainer(tmp_path, Network(), capture, epochs=2)
        training.eval_dataset = {"easy": Digits("validation"), "hard": Digits("test")}
        training.train()
        training.evaluate(training.eval_dataset["hard"])
    logs = [entry for entry in training.state.log_history if entry["epoch"] in (1, 2)]
    expected = [
        (entry["epoch"], name, entry[f"eval_{name}"])
        for name in ("easy_loss", "hard_loss")
        for entry in logs
        if f"eval_{name}" in entry
    ]
    with provml.open(tmp_path / "home") as store:
        rows = ask(
            store,
            """SELECT ?index ?name ?value { ?v prov:wasGeneratedBy ?section ; prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name . FILTER (STRENDS(?name, "_loss"))
               ?section a provml:ValidationSectionExecution ; provml:sectionIndex ?index ;
                        provml:wasSectionOf/provlake:status "FINISHED" } ORDER BY ?name ?index""",
        )
        assert len(rows) == 4
        assert rows == expected
        roles = ask(
            store,
            """SELECT ?role { ?stage a ?kind ; prov:qualifiedUsage/prov:hadRole/rdfs:label ?role .
            FILTER (?kind IN (provml:ValidationExecution, provml:EvaluationExecution) && ?role != "model role") }""",
        )
        assert roles == [("validation role",)] * 3, "a set that validated the epochs keeps its role"


def test_validations_at_steps_have_the_number_of_the_step_and_belong_to_their_epoch(tmp_path: Path):
    settings = {"eval_strategy": "steps", "eval_steps": 4, "save_strategy": "no"}
    with provml.record("digits", home=tmp_path / "home", run="steps", strict=True) as run:
        training = trainer(tmp_path, Network(), Capture(run=run), epochs=2, **settings)
        training.train()
        shown = run.show()
    logs = [entry for entry in training.state.log_history if "eval_loss" in entry]
    expected = [(entry["step"], 1 if entry["epoch"] <= 1 else 2, entry["eval_loss"]) for entry in logs]
    assert [step for step, *_ in expected] == [4, 8, 12, 16, 20]
    with provml.open(tmp_path / "home") as store:
        rows = ask(
            store,
            """SELECT ?index ?epoch ?value { ?v prov:wasGeneratedBy ?section ; prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label "loss" .
               ?section a provml:ValidationSectionExecution ; provml:sectionIndex ?index ;
                        provml:validatedSection/provml:sectionIndex ?epoch } ORDER BY ?index""",
        )
        assert rows == expected
        assert store.validate("steps").conforms
        (curves,) = store.curves("steps", "loss")
        points = [(0.5, expected[0][2]), (1, expected[1][2])]
        points += [(1 + number / 3, expected[1 + number][2]) for number in (1, 2)] + [(2, expected[4][2])]
        assert curves.x == "epoch"
        (validation,) = [series.points for series in curves.series if series.part == "validation"]
        assert validation == pytest.approx(points)
    (drawn,) = [series.points for series in shown.panels[0].series if series.part == "validation"]
    assert drawn == pytest.approx(points), "as from the graph"
    table = CliRunner().invoke(main, ["show", "steps", "--home", str(tmp_path / "home")]).output
    assert re.findall(r"^validation +(\d+) +(\d) ", table, re.M) == [
        (str(step), str(epoch)) for step, epoch, _ in expected
    ]


def test_a_value_logged_at_a_step_belongs_to_the_batch(tmp_path: Path):
    with Capture("digits", home=tmp_path / "home", strict=True, checkpoints=False) as capture:
        settings = {"logging_strategy": "steps", "logging_steps": 5, "eval_strategy": "no", "save_strategy": "no"}
        trainer(tmp_path, Network(), capture, epochs=1, gradient_accumulation_steps=2, **settings).train()
    with provml.open(tmp_path / "home") as store:
        rows = ask(store, """SELECT ?b { ?v a provml:BatchEvaluation ; prov:wasDerivedFrom/rdfs:label "loss" ;
            prov:wasGeneratedBy/provml:sectionIndex ?b } ORDER BY ?b""")  # fmt: skip
        assert rows == [(5,)]
        assert len(ask(store, "SELECT ?b { ?b a provml:BatchExecution }")) == 5, "a batch is a step of the optimizer"


def test_a_resumed_training_continues_from_its_checkpoint_in_the_right_epoch(tmp_path: Path):
    by_steps = {"save_strategy": "steps", "save_steps": 15, "eval_strategy": "no"}
    trainer(tmp_path, Network(), epochs=2, **by_steps).train()
    checkpoint = tmp_path / "checkpoints" / "checkpoint-15"  # an epoch has 10 steps
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        trainer(tmp_path, Network(), capture, epochs=3, save_strategy="no").train(
            resume_from_checkpoint=str(checkpoint)
        )
    with provml.open(tmp_path / "home") as store:
        epochs = ask(store, "SELECT ?i { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?i } ORDER BY ?i")
        assert epochs == [(2,), (3,)]
        batches = ask(
            store,
            """SELECT ?i { ?e a provml:TrainingEpochExecution ; provml:sectionIndex 2 .
               ?b a provml:BatchExecution ; provml:wasSectionOf ?e ; provml:sectionIndex ?i } ORDER BY ?i""",
        )
        assert [row[0] for row in batches] == [6, 7, 8, 9, 10]
        used = ask(
            store,
            """SELECT ?path ?sha { ?t a provml:TrainingExecution ; prov:used ?m .
               ?m a provml:Model ; provlake:path ?path ; provlake:sha256 ?sha }""",
        )
        assert used == [(str(checkpoint), digest_of(checkpoint))]


def used_alone(folder: Path, **settings: Any) -> dict[str, Any]:
    """Return the values that a short training used, by name."""
    quiet = {"eval_strategy": "no", "save_strategy": "no"}
    with Capture("digits", home=folder / "home", strict=True) as capture:
        trainer(folder, Network(), capture, epochs=1, **quiet, **settings).train()
    with provml.open(folder / "home") as store:
        return used(store)


@pytest.mark.parametrize(
    ("strategy", "sampler"), [("random", "SeedableRandomSampler"), ("sequential", "SequentialSampler")]
)
def test_the_sampler_that_decides_the_order_is_recorded(tmp_path: Path, strategy: str, sampler: str):
    assert used_alone(tmp_path, train_sampling_strategy=strategy)["sampler"] == sampler


def test_the_peak_rate_is_recorded_if_a_training_warms_up(tmp_path: Path):
    values = used_alone(tmp_path / "warm", warmup_steps=2)
    assert (values["learning_rate"], values["peak_learning_rate"]) == (0.0, 0.03)
    assert "peak_learning_rate" not in used_alone(tmp_path / "cold")


def test_the_rate_of_the_arguments_is_not_recorded_for_another_optimizer(tmp_path: Path):
    network = Network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 5))
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        training = trainer(tmp_path, network, capture, epochs=1, eval_strategy="no", save_strategy="no")
        training.optimizer, training.lr_scheduler = optimizer, warm
        training.train()
    with provml.open(tmp_path / "home") as store:
        values = used(store)
        assert values["learning_rate"] == 0.0
        assert 0.03 not in values.values()


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self) -> Any:
        return iter(Digits("training"))


def test_an_unknown_number_of_epochs_is_not_recorded(tmp_path: Path):
    settings = {"eval_strategy": "no", "save_strategy": "no", "max_steps": 3}
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        training = trainer(tmp_path, Network(), capture, **settings)
        training.train_dataset = Stream()
        training.train()
    with provml.open(tmp_path / "home") as store:
        rows = ask(
            store,
            """SELECT ?name ?value { ?t a provml:TrainingExecution ; prov:used ?v . ?v prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name FILTER(?name IN ("epochs", "steps")) }""",
        )
        assert rows == [("steps", 3)]


def journal(home: Path) -> list[dict[str, Any]]:
    (file,) = home.glob("runs/*/main.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_fine_tuning_uses_a_base_model_and_its_saved_model_is_the_trained_one(tmp_path: Path):
    base = tmp_path / "base"
    base.mkdir()
    network = Network()
    torch.save(network.state_dict(), base / "weights.bin")
    network.config = SimpleNamespace(_name_or_path=str(base), _commit_hash="abc123", to_json_string=lambda: "{}")
    home = tmp_path / "home"
    with Capture("tuned", home=home, strict=True) as capture:
        training = trainer(tmp_path, network, capture, epochs=1, save_strategy="no")
        training.train()
        training.save_model()
        training.evaluate()
        training.predict(Digits("test"))
    events = journal(home)
    models = {event["ref"]: event for event in events if event["e"] == "data" and event["kind"] == "model"}
    used = {(event["at"], event["ref"]) for event in events if event["e"] == "used" and event.get("role") == "model"}
    (initial,) = [models[ref] for at, ref in used if at == "training"]
    assert (initial["name"], initial["values"]["revision"]) == ("base", "abc123")
    assert initial["sha256"]
    (begin,) = [event for event in events if event["e"] == "begin" and event["kind"] == "training"]
    assert (begin["values"]["base_model"], begin["values"]["base_model_revision"]) == (str(base), "abc123")
    evaluated = {models[ref].get("path", "") for at, ref in used if at.startswith("evaluation")}
    assert evaluated == {str(tmp_path / "checkpoints" / "model.safetensors")}, "one model, in memory and in its file"
    roles = {event["at"]: event["role"] for event in events if event["e"] == "used" and event.get("role") != "model"}
    assert (roles["evaluation"], roles["evaluation-2"]) == ("validation", "test")


def test_the_folder_that_push_to_hub_writes_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with Capture("pushed", model="net", home=tmp_path / "home", strict=True) as capture:
        network: Any = Network()
        training = trainer(tmp_path, network, capture, epochs=1, save_strategy="no", eval_strategy="no")
        training.train()
        network.config = SimpleNamespace(_name_or_path="")  # for the model card
        training.hub_model_id = "someone/net"  # as if the repository existed
        with pytest.raises(Exception, match="offline"):  # the folder is complete before the upload begins
            training.push_to_hub()
        training.evaluate(Digits("test"))
    (weights,) = (tmp_path / "checkpoints").glob("*.safetensors")
    with provml.open(tmp_path / "home") as store:
        evaluated = ask(
            store,
            """SELECT ?d { ?e a provml:EvaluationExecution ; provml:evaluated ?model . ?model provlake:sha256 ?d ;
               prov:wasGeneratedBy/a provml:TrainingExecution }""",
        )
        assert evaluated == [(digest_of(weights),)]
