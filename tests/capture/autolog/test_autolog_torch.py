"""Autolog of plain PyTorch loops: what is recorded equals what the loop itself knows, and the training is the same."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import itertools
import pickle
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.autolog.contracts import autologging
from capture.contract import (
    Boom,
    CaptureContract,
    Expected,
    adaptations,
    ask,
    digest_of,
    measures_by_epoch,
    used,
)
from provml.capture.autolog import current
from provml.recording.run import Run
from provml.store.run_tables import RunTables

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from capture.autolog import loops  # noqa: E402  # it needs PyTorch

pytestmark = pytest.mark.xdist_group("torch")  # loading PyTorch takes seconds: once is enough


def record(home: Path, loop: Callable[[], loops.Facts]) -> loops.Facts:
    """Run a loop without autolog and with it; check that both are equal to the bit, and return its facts."""
    torch.manual_seed(3)
    plain = loop()
    state = torch.get_rng_state()
    torch.manual_seed(3)
    with autologging(home=home, strict=True, capture_environment=False, name="loop", frameworks=["torch"]):
        facts = loop()
    assert torch.equal(torch.get_rng_state(), state)
    assert facts.weights() == plain.weights()
    assert facts.losses == plain.losses
    return facts


def batch_losses(store: Any, name: str = "loss") -> list[list[float]]:
    """Return the losses of the batches, by section."""
    rows = ask(
        store,
        f"""SELECT ?index ?value {{ ?section provml:sectionIndex ?index ; provml:wasSectionOf ?training .
            ?training a provml:TrainingExecution ; prov:startedAtTime ?t .
            ?batch provml:wasSectionOf ?section ; provml:sectionIndex ?number .
            ?v prov:wasGeneratedBy ?batch ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label "{name}" }}
            ORDER BY ?t ?index ?number""",
    )
    sections: dict[int, list[float]] = {}
    for index, value in rows:
        sections.setdefault(index, []).append(value)
    return list(sections.values())


def rules(store: Any, kind: str = "TrainingEpochExecution") -> list[str]:
    """Return the rule of each epoch."""
    return [
        rule
        for (rule,) in ask(
            store,
            f"SELECT ?rule {{ ?e a provml:{kind} ; provml:sectionIndex ?i ; provml:recognizedBy ?rule }} ORDER BY ?i",
        )
    ]


LOADER, CALL, VALIDATION = "pass over the training loader", "call of the function that trains", "validation"
LOOPS = {
    "classify": (loops.classify, LOADER),
    "autoencode": (loops.autoencode, LOADER),
    "language": (lambda: loops.language(optimizer=True), CALL),
    "reinforce": (loops.reinforce, ""),
    "sequence": (loops.sequence, VALIDATION),
    "siamese": (loops.siamese, LOADER),
    "accumulate": (loops.accumulate, LOADER),
    "frozen": (loops.frozen, LOADER),
    "steps only": (loops.steps_only, ""),
}


@pytest.mark.parametrize("name", LOOPS)
def test_steps_epochs_and_validations_are_those_of_the_loop(name: str, isolated_home: Path):
    loop, rule = LOOPS[name]
    facts = record(isolated_home / "home", loop)
    with provml.open(isolated_home / "home") as store:
        assert len(store.runs()) == 1
        assert store.runs()[0].status == "FINISHED"
        losses = [pytest.approx(values, rel=1e-6) for values in facts.losses]
        assert batch_losses(store) == losses
        assert rules(store) == ([rule] * len(losses) if rule else [])
        if rule:
            means = [sum(values) / len(values) for values in facts.losses]
            assert measures_by_epoch(store, "provml:TrainingEpochExecution")["loss"] == pytest.approx(means, rel=1e-6)
        validation = measures_by_epoch(store, "provml:ValidationEpochExecution")
        measure = "binary_cross_entropy" if name == "autoencode" else "loss"
        assert validation == ({measure: pytest.approx(facts.validation, rel=1e-6)} if facts.validation else {})
        assert len(rules(store, "ValidationEpochExecution")) == len(facts.validation)
        if facts.rates:
            changed = [(epoch, new) for epoch, _, _, new, _ in adaptations(store)]
            assert changed == [(n, pytest.approx(rate)) for n, rate in enumerate(facts.rates, 1) if n > 1]
        assert not [result for result in store.validate("latest").results if result.severity == "Violation"]


class TestTorch(CaptureContract):
    """A plain loop with a scheduler, a validation by epoch, a saved file, and a test of the model."""

    software = "torch"

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        if run is None:
            return cls.loop(folder, fails)
        with autologging(run):
            return cls.loop(folder, fails)

    @classmethod
    def loop(cls, folder: Path, fails: bool) -> Expected:
        torch.manual_seed(7)
        training, validation = loops.loaders()
        testing = torch.utils.data.DataLoader(loops.data(10), batch_size=5)
        network, criterion = loops.Net(), torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.5, momentum=0.5)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
        expected = Expected(b"", {}, {"loss": []}, {"loss": []})

        def evaluate(loader: Any) -> float:
            network.eval()
            with torch.no_grad():
                losses = [(criterion(network(x), y).item(), len(y)) for x, y in loader]
            network.train()
            return sum(loss * count for loss, count in losses) / sum(count for _, count in losses)

        for epoch in range(4):
            losses = []
            for number, (x, y) in enumerate(training):
                optimizer.zero_grad()
                loss = criterion(network(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                if fails and epoch == 1 and number == 1:
                    raise Boom("in the middle")
            scheduler.step()
            expected.measures["loss"].append(sum(losses) / len(losses))
            expected.validation["loss"].append(evaluate(validation))
        expected.model = folder / "net.pt"
        torch.save(network.state_dict(), expected.model)
        expected.evaluation = {"loss": evaluate(testing)}
        expected.result = b"".join(tensor.numpy().tobytes() for tensor in network.state_dict().values())
        expected.hyperparameters = {
            "optimizer": "SGD", "learning_rate": 0.5, "momentum": 0.5, "nesterov": False, "batch_size": 8,
            "loss": "cross_entropy", "scheduler": "StepLR", "sampler": "RandomSampler", "batches": 3, "num_layers": 5,
        }  # fmt: skip
        expected.adaptations = [(3, "learning_rate", 0.5, 0.05, "StepLR")]
        expected.layers = [
            ("body", "Sequential"), ("body.0", "Linear"), ("body.1", "ReLU"), ("body.2", "Dropout"), ("head", "Linear"),
        ]  # fmt: skip
        return expected


# ---- other loops


def test_two_optimizers_have_a_loss_each(isolated_home: Path):
    facts = record(isolated_home / "home", loops.adversarial)
    with provml.open(isolated_home / "home") as store:
        assert batch_losses(store, "optimizer_1.loss") == [pytest.approx(losses) for losses in facts.losses]
        generator = [loss for losses in batch_losses(store, "optimizer_2.loss") for loss in losses]
        assert generator == pytest.approx(facts.more["losses_g"])
        assert used(store)["optimizer_2.learning_rate"] == 0.01


def test_a_rate_is_changed_at_the_step_of_its_own_optimizer(isolated_home: Path):
    networks = [torch.nn.Linear(4, 1) for _ in range(2)]
    first, second = (torch.optim.SGD(network.parameters(), lr=0.1) for network in networks)
    loader = torch.utils.data.DataLoader(torch.ones(24, 4), batch_size=4)
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        for epoch in range(3):
            for x in loader:
                for optimizer, network in zip((first, second), networks, strict=True):
                    if optimizer is second and epoch == 1:
                        continue  # it rests, with a rate that was set for its next step
                    optimizer.zero_grad()
                    network(x).sum().backward()
                    optimizer.step()
            if epoch == 0:
                second.param_groups[0]["lr"] = 0.02
    with provml.open(isolated_home / "home") as store:
        assert [row[:4] for row in adaptations(store)] == [(3, "optimizer_2.learning_rate", 0.1, 0.02)]


def test_a_loader_that_comes_after_the_first_step_is_recorded(isolated_home: Path):
    """Scripts with a warm-up call `step` once, so that the scheduler does not warn."""
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        network = torch.nn.Linear(8, 3)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        optimizer.step()
        for _ in range(2):
            for x, y in torch.utils.data.DataLoader(loops.data(), batch_size=6):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
    with provml.open(isolated_home / "home") as store:
        assert used(store)["batch_size"] == 6
        assert ask(store, "SELECT ?d { ?t a provml:TrainingExecution ; prov:used/provlake:sha256 ?d }")


def test_a_loop_with_fabric_is_recorded(isolated_home: Path):
    fabric_module = pytest.importorskip("lightning.fabric", reason="Lightning is not installed")
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False):
        fabric = fabric_module.Fabric(accelerator="cpu")
        network = torch.nn.Linear(8, 3)
        network, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=0.1))
        loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(loops.data(), batch_size=6))
        for _ in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                fabric.backward(torch.nn.functional.cross_entropy(network(x), y))
                optimizer.step()
    with provml.open(isolated_home / "home") as store:
        assert [len(losses) for losses in batch_losses(store)] == [4, 4]
        assert rules(store) == [LOADER] * 2


def test_each_of_several_networks_is_a_model(isolated_home: Path, tmp_path: Path):
    """Two files of the same moment are different models; a file with both networks is another one."""
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        first, second = loops.Net(), torch.nn.Linear(8, 3)
        optimizers = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (first, second)]
        for epoch in range(2):
            for x, y in torch.utils.data.DataLoader(loops.data(), batch_size=6):
                for network, optimizer in zip((first, second), optimizers, strict=True):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(network(x), y).backward()
                    optimizer.step()
            if not epoch:
                torch.save(first.state_dict(), tmp_path / "first.pt")
                torch.save(second.state_dict(), tmp_path / "second.pt")
        torch.save({"first": first.state_dict(), "second": second.state_dict()}, tmp_path / "both.pt")
    with provml.open(isolated_home / "home") as store:
        rows = ask(
            store,
            """SELECT ?name ?path { ?model a provml:Model ; provlake:path ?path ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name } ORDER BY ?path""",
        )
        name = store.run("latest").model
        assert [(label, Path(path).name) for label, path in rows] == [
            (name, "both.pt"),
            ("Net", "first.pt"),
            ("Linear", "second.pt"),
        ]


def test_a_network_that_is_trained_later_joins_with_its_layers(isolated_home: Path):
    """The generator of a GAN makes its first step after several of its critic."""
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        first, second = loops.Net(), torch.nn.Linear(8, 3)
        optimizers = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (first, second)]
        for number, (x, y) in enumerate(torch.utils.data.DataLoader(loops.data(), batch_size=6)):
            for network, optimizer in zip((first, second)[: 1 + number % 2], optimizers, strict=False):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
    with provml.open(isolated_home / "home") as store:
        models = [(row[0], row[2]) for row in RunTables(store, store.runs()[0]).models()]
        inside = len(list(first.modules())) - 1
        assert sorted(models) == [("Linear", 1), ("Net", inside)]
        counts = ask(
            store,
            """SELECT ?count { ?training a provml:TrainingExecution ; prov:used ?v . ?v prov:value ?count ;
               provlake:wasDerivedFromAttribute/rdfs:label "num_layers" } ORDER BY ?count""",
        )
        assert counts == [(inside + 1,)], "one number, that of all networks"
        assert ask(
            store,
            """SELECT ?count { ?training a provml:TrainingExecution ; prov:used/provml:layerCount ?count }""",
        ) == [(inside + 1,)]


@pytest.mark.parametrize("saves", [False, True])
def test_the_layers_of_a_network_are_recorded_although_another_optimizer_makes_no_step(
    isolated_home: Path, saves: bool
):
    """An optimizer that was made for later could have trained a network of this training."""
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        network, other = loops.Net(), torch.nn.Linear(8, 3)
        optimizer, waiting = (torch.optim.SGD(item.parameters(), lr=0.1) for item in (network, other))
        for x, y in torch.utils.data.DataLoader(loops.data(), batch_size=6):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()
            if saves:
                torch.save(network.state_dict(), isolated_home / "net.pt")
        assert waiting.param_groups, "it is alive"
    with provml.open(isolated_home / "home") as store:
        inside = len(list(network.modules())) - 1
        assert [row[2] for row in RunTables(store, store.runs()[0]).models()] == [inside] * (4 if saves else 1)
        query = """SELECT ?count { ?training a provml:TrainingExecution ; prov:used ?v . ?v prov:value ?count ;
                   provlake:wasDerivedFromAttribute/rdfs:label "num_layers" }"""
        assert ask(store, query) == [(inside,)]


def test_an_optimizer_at_the_address_of_another_begins_a_training(isolated_home: Path):
    def train(optimizer: Any, network: Any) -> None:
        for x, y in torch.utils.data.DataLoader(loops.data(), batch_size=6):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()

    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        observer = current().session.torch_observer
        network = torch.nn.Linear(8, 3)
        train(torch.optim.SGD(network.parameters(), lr=0.1), network)
        optimizer, second = torch.optim.SGD.__new__(torch.optim.SGD), torch.nn.Linear(8, 3)
        observer._numbers = {id(optimizer): 0}  # as if the first one had been there
        optimizer.__init__(second.parameters(), lr=0.2)
        train(optimizer, second)
    with provml.open(isolated_home / "home") as store:
        query = "SELECT ?t { ?t a provml:TrainingExecution }"
        assert len(ask(store, query)) == 2


def test_a_pass_that_is_left_before_a_step_is_over(isolated_home: Path):
    """The next epoch does not belong to it, also if its last batch was not used."""
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        network = torch.nn.Linear(8, 3)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for _ in range(3):
            for number, (x, y) in enumerate(torch.utils.data.DataLoader(loops.data(), batch_size=6)):
                if number == 2:
                    break
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
    with provml.open(isolated_home / "home") as store:
        assert [len(losses) for losses in batch_losses(store)] == [2, 2, 2]


def test_a_training_in_evaluation_mode_is_no_validation(isolated_home: Path):
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        network = torch.nn.Linear(8, 3)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for _ in range(3):
            for x, y in torch.utils.data.DataLoader(loops.data(), batch_size=6):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
            network.eval()
    with provml.open(isolated_home / "home") as store:
        assert [len(losses) for losses in batch_losses(store)] == [4, 4, 4]
        assert not ask(store, "SELECT ?v { ?v a provml:ValidationExecution }")


def test_a_capture_that_goes_on_with_an_optimizer_records_it_alone(isolated_home: Path):
    from provml.capture.torch import Capture

    loader = torch.utils.data.DataLoader(loops.data(), batch_size=6)
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        network = torch.nn.Linear(8, 3)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

        def train(batches: Any) -> None:
            for x, y in batches:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()

        train(loader)
        train(loader)
        home = isolated_home / "home"
        with Capture("explicit", network, optimizer, home=home, capture_environment=False) as capture:
            for _ in capture.epochs(3):
                train(capture.batches(loader))
        train(loader)
    with provml.open(isolated_home / "home") as store:
        rows = ask(
            store,
            """SELECT ?t (COUNT(?e) AS ?n) { ?t a provml:TrainingExecution ; prov:startedAtTime ?start .
               ?e a provml:TrainingEpochExecution ; provml:wasSectionOf ?t } GROUP BY ?t ?start ORDER BY ?start""",
        )
        assert [count for _, count in rows] == [2, 3, 1]


def one_cycle(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=9)


def cosine(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9)


def sequential(optimizer: Any) -> Any:
    parts = [
        torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4),
        torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
    ]
    return torch.optim.lr_scheduler.SequentialLR(optimizer, parts, [4])


@pytest.mark.parametrize(
    ("make", "name", "settings"),
    [
        (one_cycle, "OneCycleLR", {"scheduler.max_lr": "[0.5]", "scheduler.total_steps": 9}),
        (cosine, "CosineAnnealingLR", {"scheduler.T_max": 9}),
        (sequential, "SequentialLR", {"scheduler.1": "LinearLR", "scheduler.2.gamma": 0.9}),
    ],
)
def test_a_scheduler_that_changes_the_rate_at_every_step_is_named(
    make: Any, name: str, settings: dict[str, Any], isolated_home: Path
):
    rates = []
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=["torch"]):
        network = torch.nn.Linear(8, 3)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        scheduler = make(optimizer)
        for _ in range(2):
            for x, y in torch.utils.data.DataLoader(loops.data(), batch_size=6):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x), y).backward()
                rates.append(optimizer.param_groups[0]["lr"])
                optimizer.step()
                scheduler.step()
    with provml.open(isolated_home / "home") as store:
        rows = [row for row in adaptations(store) if row[1] == "learning_rate"]
        assert [(old, new) for _, _, old, new, _ in rows] == list(itertools.pairwise(map(pytest.approx, rates)))
        assert {row[4] for row in rows} == {name}
        values = used(store)
        assert {"scheduler": name, **settings}.items() <= {key: str_of(value) for key, value in values.items()}.items()


def str_of(value: Any) -> Any:
    """Return a list as text."""
    return value if isinstance(value, (int, float)) else str(value)


def test_a_finished_optimizer_is_released(isolated_home: Path):
    def train() -> list[weakref.ref[Any]]:
        network = loops.Net()
        optimizer = torch.optim.Adam(network.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for _ in range(2):
            for x, y in loops.loaders()[0]:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
            scheduler.step()
        return [weakref.ref(item) for item in (network, optimizer, scheduler, next(network.parameters()))]

    with autologging(home=isolated_home / "home", strict=True, frameworks=["torch"]):
        references = train()
        gc.collect()
        assert [reference() for reference in references] == [None] * 4
    with provml.open(isolated_home / "home") as store:
        assert store.run("latest").status == "FINISHED"
        assert len(rules(store)) == 2


def test_weights_that_are_changed_by_hand_are_steps_too(isolated_home: Path):
    facts = record(isolated_home / "home", lambda: loops.language(optimizer=False))
    with provml.open(isolated_home / "home") as store:
        assert batch_losses(store) == [pytest.approx(losses) for losses in facts.losses]
        assert rules(store) == [CALL] * 3
        assert measures_by_epoch(store, "provml:ValidationEpochExecution") == {"loss": pytest.approx(facts.validation)}


def test_a_training_after_another_is_recorded_by_itself(isolated_home: Path):
    facts = record(isolated_home / "home", loops.forward_forward)
    assert len(facts.losses) == 2
    with provml.open(isolated_home / "home") as store:
        rows = ask(store, "SELECT ?t { ?x a provml:TrainingExecution ; prov:startedAtTime ?t } ORDER BY ?t")
        assert len(rows) == len({str(row) for row in rows}) == 2
        assert rules(store) == []


def test_the_evaluation_of_a_loaded_checkpoint_is_one_of_that_file(isolated_home: Path):
    facts = record(isolated_home / "home", lambda: loops.classify_with_checkpoints(isolated_home))
    with provml.open(isolated_home / "home") as store:
        assert measures_by_epoch(store, "provml:ValidationEpochExecution") == {"loss": pytest.approx(facts.validation)}
        rows = ask(
            store,
            """SELECT ?value ?epoch { ?e a provml:EvaluationExecution ; provml:evaluated ?model .
               ?v prov:wasGeneratedBy ?e ; prov:value ?value .
               ?model prov:wasGeneratedBy/provml:sectionIndex ?epoch }""",
        )
        assert rows == [(pytest.approx(facts.evaluation[0]), facts.more["best"])]
        digests = ask(
            store,
            "SELECT ?d { ?e a provml:EvaluationExecution ; provml:evaluated/prov:alternateOf*/provlake:sha256 ?d }",
        )
        assert (digest_of(isolated_home / "best.pt"),) in digests


def test_the_same_optimizer_trains_in_another_run_and_in_another_thread(isolated_home: Path):
    """Steps after the end of a training begin another one, also a single step, and after the thread has ended."""
    network, home = torch.nn.Linear(4, 1), isolated_home / "home"
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        network(torch.ones(2, 4)).sum().backward()
        optimizer.step()

    def record_two(name: str) -> None:
        with provml.record(name, home=home, strict=True, capture_environment=False):
            step()
            step()

    with autologging(home=home, strict=True, capture_environment=False, frameworks=["torch"], name="single"):
        thread = threading.Thread(target=record_two, args=("first",))
        thread.start()
        thread.join()
        record_two("second")
        step()
    with provml.open(home) as store:
        steps = "SELECT ?b { ?b provml:wasSectionOf/provml:wasSectionOf ?t . ?t a provml:TrainingExecution }"
        rows = [str(row[0]) for row in ask(store, steps)]
        batches = {run.name: sum(run.id in row for row in rows) for run in store.runs()}
    assert batches == {"first": 2, "second": 2, "single": 1}


def test_a_loop_that_rebuilds_the_model_is_one_run_with_several_trainings(isolated_home: Path):
    def sweep() -> loops.Facts:
        facts = [loops.classify(2) for _ in range(3)]
        facts[-1].networks = [network for part in facts for network in part.networks]
        return facts[-1]

    record(isolated_home / "home", sweep)
    with provml.open(isolated_home / "home") as store:
        assert len(store.runs()) == 1
        rows = ask(
            store,
            """SELECT (COUNT(DISTINCT ?t) AS ?n) (COUNT(?e) AS ?m) { ?t a provml:TrainingExecution .
               ?e a provml:TrainingEpochExecution ; provml:wasSectionOf ?t }""",
        )
        assert rows == [(3, 6)]


def test_an_explicit_capture_is_not_recorded_twice(isolated_home: Path):
    from provml.capture.torch import Capture

    training, _ = loops.loaders()
    network = loops.Net()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with (
        autologging(home=isolated_home / "home", strict=True),
        Capture("loop", network, optimizer, home=isolated_home / "home", strict=True) as capture,
    ):
        for _ in capture.epochs(2):
            for x, y in capture.batches(training):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
    with provml.open(isolated_home / "home") as store:
        assert ask(store, "SELECT (COUNT(?t) AS ?n) { ?t a provml:TrainingExecution }") == [(1,)]
        assert len(store.runs()) == 1


# ---- nothing changes for the script


def wrapped() -> dict[str, Any]:
    """Return all that autolog may replace, as it is now."""
    nn, data = torch.nn, torch.utils.data
    owners = (nn.Module, nn.functional, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, data.DataLoader)
    owners += (torch.autograd, torch, torch.serialization, torch.amp.GradScaler, data.dataloader._BaseDataLoaderIter)
    return {f"{owner.__name__}.{name}": value for owner in owners for name, value in vars(owner).items()}


def test_everything_is_restored(isolated_home: Path):
    before = wrapped()
    hooks = len(torch.optim.optimizer._global_optimizer_pre_hooks) if hasattr(torch.optim, "optimizer") else 0
    with autologging(home=isolated_home / "home"):
        changed = {name for name, value in wrapped().items() if value is not before[name]}
        assert {"Module.__call__", "torch.autograd.backward", "torch.save", "DataLoader.__iter__"} <= changed
        provml.autolog(home=isolated_home / "home")  # a second call wraps nothing twice
        assert not hasattr(torch.save.__wrapped__, "__wrapped__")
    assert {name for name, value in wrapped().items() if value is not before[name]} == set()
    assert hooks == (len(torch.optim.optimizer._global_optimizer_pre_hooks) if hooks else 0)


def test_wrappers_look_like_the_originals(isolated_home: Path):
    functions = {"save": torch.save, "cross_entropy": torch.nn.functional.cross_entropy, "step": torch.nn.Module.train}
    described = {name: (inspect.signature(item), item.__doc__, item.__name__) for name, item in functions.items()}
    with autologging(home=isolated_home / "home"):
        functions = {
            "save": torch.save,
            "cross_entropy": torch.nn.functional.cross_entropy,
            "step": torch.nn.Module.train,
        }
        for name, item in functions.items():
            assert (inspect.signature(item), item.__doc__, item.__name__) == described[name]
            assert pickle.loads(pickle.dumps(item)) is item
        with pytest.raises(ValueError, match="Expected input batch_size"):
            torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.zeros(3, dtype=torch.long))
        network = loops.Net()
        assert network.eval() is network
        with pytest.raises(RuntimeError, match="does not require grad"):
            torch.zeros(1).backward()
    assert not (isolated_home / "home").exists(), "nothing was trained, so there is no run"


GRAPHS: list[Any] = []


def count_graph(graph: Any, inputs: Any) -> Any:
    """Compile a graph: Lightning, once imported, keeps this function in the module, so it has to be picklable."""
    GRAPHS.append(graph)
    return graph.forward


@pytest.mark.filterwarnings("ignore:`torch.jit.:DeprecationWarning")
def test_models_can_be_saved_copied_scripted_and_compiled(isolated_home: Path):
    class Scripted(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(x, y)

    GRAPHS.clear()

    def train() -> loops.Facts:
        torch._dynamo.reset()
        network = loops.Net()
        compiled = torch.compile(network, backend=count_graph)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for x, y in loops.loaders()[0]:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(compiled(x), y)
            loss.backward()
            optimizer.step()
        torch.save(network, isolated_home / "whole.pt")
        copies = [copy.deepcopy(network), torch.load(isolated_home / "whole.pt", weights_only=False)]
        pickle.loads(pickle.dumps(optimizer))
        x, y = torch.zeros(2, 3), torch.zeros(2, dtype=torch.long)
        assert torch.jit.script(Scripted())(x, y) == Scripted()(x, y)
        return loops.Facts(networks=[network, *copies])

    record(isolated_home / "home", train)
    assert len(GRAPHS) == 2, "one graph without autolog, and one with it"
    assert b"provml" not in (isolated_home / "whole.pt").read_bytes()


def compiled_loop(part: str) -> list[list[float]]:
    """Train with a part of the loop compiled, and return the loss of each step of each epoch."""
    torch._dynamo.reset()
    torch.manual_seed(3)
    network = loops.Net()
    compile_with = functools.partial(torch.compile, backend=count_graph)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    if part == "in place":
        network.compile(backend=count_graph)
    call = compile_with(network) if part == "network" else network
    loss_of = torch.nn.functional.cross_entropy
    loss_of = compile_with(loss_of) if part == "loss" else loss_of
    make_step = compile_with(lambda: optimizer.step()) if part == "optimizer" else optimizer.step

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(call(x), y)
        loss.backward()
        make_step()
        return loss

    if part == "step":
        train = compile_with(train)
    return [[train(x, y).item() for x, y in loops.loaders()[0]] for _ in range(3)]


@pytest.mark.filterwarnings("ignore:.*reduce_op:FutureWarning", "ignore:`torch.jit.:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # read by the compiler
@pytest.mark.parametrize("part", ["network", "in place", "loss", "optimizer", "step"])
def test_a_compiled_loop_has_the_same_graphs_and_is_recorded(part: str, isolated_home: Path):
    operations, losses = [], []
    for is_recorded in (False, True):
        GRAPHS.clear()
        if is_recorded:
            with autologging(home=isolated_home / "home", strict=True, frameworks=["torch"]):
                losses.append(compiled_loop(part))
        else:
            losses.append(compiled_loop(part))
        operations.append(
            [[str(node.target) for node in graph.graph.nodes if node.op[:4] == "call"] for graph in GRAPHS]
        )
    assert operations[0] == operations[1]
    assert operations[0]
    assert losses[0] == losses[1]
    with provml.open(isolated_home / "home") as store:
        assert batch_losses(store) == losses[0]
        assert [run.status for run in store.runs()] == ["FINISHED"]


def test_an_unknown_version_is_left_alone(
    isolated_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    before = wrapped()
    monkeypatch.setattr(torch, "__version__", "9.1.0")
    with autologging(home=isolated_home / "home"):
        assert {name for name, value in wrapped().items() if value is not before[name]} <= {"torch.__version__"}
        loops.steps_only()
    assert not (isolated_home / "home").exists()
    lines = [entry.message for entry in caplog.records if "torch" in entry.message]
    assert len(lines) == 1
    assert "torch 9.1.0" in lines[0]


def test_a_missing_function_is_left_alone_too(
    isolated_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.delattr(torch.amp.GradScaler, "scale")
    before = wrapped()
    with autologging(home=isolated_home / "home", frameworks=["torch"]):
        loops.steps_only()
        assert {name for name, value in wrapped().items() if value is not before[name]} == set()
    assert not (isolated_home / "home").exists()
    assert ["scale" in entry.message for entry in caplog.records] == [True]
