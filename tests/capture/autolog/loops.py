"""Training loops as people write them, with tiny synthetic data. Each returns its own record of what it did.

They have the structure of well-known examples: functions for training and testing, two networks, no loader, no
optimizer, gradients by hand, closures, several processes.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Facts:
    """What a loop knows about itself."""

    losses: list[list[float]] = field(default_factory=list)
    """The losses of the steps, by epoch."""
    validation: list[float] = field(default_factory=list)
    """The loss of each validation."""
    evaluation: list[float] = field(default_factory=list)
    """The loss of evaluations after the training."""
    rates: list[float] = field(default_factory=list)
    """Learning rates, by epoch."""
    networks: list[Any] = field(default_factory=list)
    network: str = ""
    """The class of the network, if there is one."""
    more: dict[str, Any] = field(default_factory=dict)

    def weights(self) -> bytes:
        tensors = [tensor for network in self.networks for tensor in network.state_dict().values()]
        return b"".join(tensor.numpy().tobytes() for tensor in tensors)


class Net(nn.Module):
    def __init__(self, inputs: int = 8, outputs: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(16, outputs)

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x))


def data(rows: int = 24, classes: int = 3) -> TensorDataset:
    return TensorDataset(torch.randn(rows, 8), torch.randint(0, classes, (rows,)))


def loaders() -> tuple[Any, Any]:
    return DataLoader(data(), batch_size=8, shuffle=True), DataLoader(data(14), batch_size=8)


def classify(epochs: int = 3, *, save: str = "") -> Facts:
    """Train and test by functions, with a scheduler."""
    facts = Facts(network="Net")
    training, testing = loaders()
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    facts.networks = [model]

    def train() -> None:
        model.train()
        for x, y in training:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            facts.losses[-1].append(loss.item())

    def test() -> None:
        model.eval()
        total = 0.0
        with torch.no_grad():
            for x, y in testing:
                total += F.cross_entropy(model(x), y, reduction="sum").item()
        facts.validation.append(total / len(testing.dataset))

    for _ in range(epochs):
        facts.losses.append([])
        facts.rates.append(optimizer.param_groups[0]["lr"])
        train()
        test()
        scheduler.step()
    if save:
        torch.save(model.state_dict(), save)
    return facts


def classify_with_checkpoints(folder: Any) -> Facts:
    """Validate, keep the best checkpoint, load it at the end and test it on other data."""
    facts = Facts(network="Net")
    training, validation = loaders()
    testing = DataLoader(data(12), batch_size=6)
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    facts.networks = [model]

    def evaluate(loader: Any) -> float:
        model.eval()
        total, count = 0.0, 0
        for x, y in loader:
            with torch.no_grad():
                loss = criterion(model(x), y)
            total, count = total + loss.item() * len(y), count + len(y)
        return total / count

    best = float("inf")
    for epoch in range(3):
        facts.losses.append([])
        model.train()
        for x, y in training:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            facts.losses[-1].append(loss.item())
        facts.validation.append(evaluate(validation))
        state = {"epoch": epoch + 1, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, folder / "checkpoint.pt")
        if facts.validation[-1] < best:
            best, facts.more["best"] = facts.validation[-1], epoch + 1
            torch.save(state, folder / "best.pt")
    model.load_state_dict(torch.load(folder / "best.pt")["state_dict"])
    facts.evaluation.append(evaluate(testing))
    return facts


def autoencode() -> Facts:
    """A loss of two parts, of which PyTorch computes one."""
    facts = Facts(network="Net")
    training, testing = loaders()
    model = Net(8, 8)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    facts.networks = [model]
    parts = []

    def loss_function(x: Any) -> Any:
        output = torch.sigmoid(model(x))
        part = F.binary_cross_entropy(output, torch.sigmoid(x), reduction="sum")
        parts.append(part.item())
        return part + 0.5 * torch.sum(output.pow(2))

    for _ in range(2):
        facts.losses.append([])
        model.train()
        for x, _y in training:
            optimizer.zero_grad()
            loss = loss_function(x)
            loss.backward()
            facts.losses[-1].append(loss.item())
            optimizer.step()
        model.eval()
        parts.clear()
        with torch.no_grad():
            for x, _y in testing:
                loss_function(x)
        facts.validation.append(sum(parts) / len(testing.dataset))
    return facts


def adversarial() -> Facts:
    """Two networks and two optimizers; the loss of the generator reaches the discriminator, too."""
    facts = Facts()
    training, _ = loaders()
    generator, discriminator = Net(4, 8), Net(8, 1)
    facts.networks = [generator, discriminator]
    criterion = nn.BCEWithLogitsLoss()
    optimizer_d = optim.Adam(discriminator.parameters(), lr=0.02)
    optimizer_g = optim.Adam(generator.parameters(), lr=0.01)
    facts.more["losses_g"] = []
    for _ in range(2):
        facts.losses.append([])
        for x, _y in training:
            ones, zeros = torch.ones(len(x), 1), torch.zeros(len(x), 1)
            discriminator.zero_grad()
            real = criterion(discriminator(x), ones)
            real.backward()
            fake = generator(torch.randn(len(x), 4))
            fake_loss = criterion(discriminator(fake.detach()), zeros)
            fake_loss.backward()
            optimizer_d.step()
            generator.zero_grad()
            loss_g = criterion(discriminator(fake), ones)
            loss_g.backward()
            optimizer_g.step()
            facts.losses[-1].append(real.item() + fake_loss.item())
            facts.more["losses_g"].append(loss_g.item())
    return facts


def language(*, optimizer: bool) -> Facts:
    """No loader: a function that trains an epoch by slices; without an optimizer, weights are changed by hand."""
    facts = Facts(network="Net")
    x, y = data(24).tensors
    model, criterion = Net(), nn.CrossEntropyLoss()
    facts.networks = [model]
    sgd = optim.SGD(model.parameters(), lr=0.1) if optimizer else None

    def train() -> None:
        model.train()
        for i in range(0, 24, 8):
            model.zero_grad()
            loss = criterion(model(x[i : i + 8]), y[i : i + 8])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            if sgd is not None:
                sgd.step()
            else:
                for parameter in model.parameters():
                    parameter.data.add_(parameter.grad, alpha=-0.1)
            facts.losses[-1].append(loss.item())

    def evaluate() -> float:
        model.eval()
        with torch.no_grad():
            return criterion(model(x[:10]), y[:10]).item()

    for _ in range(3):
        facts.losses.append([])
        train()
        facts.validation.append(evaluate())
    return facts


def reinforce() -> Facts:
    """One step an episode, in a function of its own: there are no epochs."""
    facts = Facts(network="Net", losses=[[]])
    policy = Net(8, 2)
    facts.networks = [policy]
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)

    def finish_episode(log_probabilities: list[Any]) -> None:
        losses = [-value * reward for reward, value in enumerate(log_probabilities, 1)]
        optimizer.zero_grad()
        loss = torch.stack(losses).sum()
        loss.backward()
        optimizer.step()
        facts.losses[0].append(loss.item())

    for _ in range(4):
        chosen = []
        for _ in range(3):
            distribution = torch.distributions.Categorical(logits=policy(torch.randn(1, 8)))
            action = distribution.sample()
            chosen.append(distribution.log_prob(action)[0])
        finish_episode(chosen)
    return facts


def sequence() -> Facts:
    """LBFGS evaluates the loss many times in a step; a prediction without gradients follows each step."""
    facts = Facts(network="Net")
    torch.set_default_dtype(torch.float64)
    try:
        model, criterion = Net(8, 1), nn.MSELoss()
        facts.networks = [model]
        x, y = torch.randn(12, 8), torch.randn(12, 1)
        optimizer = optim.LBFGS(model.parameters(), lr=0.8, max_iter=5)
        for _ in range(3):
            calls: list[float] = []

            def closure(calls: list[float] = calls) -> Any:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                calls.append(loss.item())
                loss.backward()
                return loss

            optimizer.step(closure)
            facts.losses.append([calls[0]])
            facts.more.setdefault("evaluations", []).append(len(calls))
            with torch.no_grad():
                facts.validation.append(criterion(model(x[:5]), y[:5]).item())
    finally:
        torch.set_default_dtype(torch.float32)
    return facts


class Layer(nn.Linear):
    """A layer that trains itself, by a method that hides `Module.train`."""

    def __init__(self) -> None:
        super().__init__(8, 8)
        self.optimizer = optim.Adam(self.parameters(), lr=0.03)

    def train(self, x_pos: Any, x_neg: Any, losses: list[float]) -> Any:  # type: ignore[override]
        for _ in range(12):
            good, bad = self(x_pos).pow(2).mean(1), self(x_neg).pow(2).mean(1)
            loss = torch.log(1 + torch.exp(torch.cat([2.0 - good, bad - 2.0]))).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return self(x_pos).detach(), self(x_neg).detach()


def forward_forward() -> Facts:
    """Each layer has its own optimizer and is trained with one batch of a loader, several steps long."""
    facts = Facts()
    training = DataLoader(data(24), batch_size=24)
    layers = [Layer(), Layer()]
    facts.networks = list(layers)
    x, _y = next(iter(training))
    x_pos, x_neg = x, x.flip(0)
    for layer in layers:
        facts.losses.append([])
        x_pos, x_neg = layer.train(x_pos, x_neg, facts.losses[-1])
    return facts


def siamese() -> Facts:
    """Two inputs, a loss on a 1-d output, Adadelta with a scheduler."""
    facts = Facts(network="Net")
    training, testing = loaders()
    model, criterion = Net(8, 1), nn.BCEWithLogitsLoss()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    facts.networks = [model]
    for _ in range(2):
        facts.losses.append([])
        facts.rates.append(scheduler.get_last_lr()[0])
        model.train()
        for x, y in training:
            optimizer.zero_grad()
            loss = criterion((model(x) - model(x.flip(0))).squeeze(), (y > 0).float())
            loss.backward()
            optimizer.step()
            facts.losses[-1].append(loss.item())
        model.eval()
        total = 0.0
        with torch.no_grad():
            for x, y in testing:
                total += criterion((model(x) - model(x.flip(0))).squeeze(), (y > 0).float()).item() * len(x)
        facts.validation.append(total / len(testing.dataset))
        scheduler.step()
    return facts


def accumulate() -> Facts:
    """Gradients of three batches are added up before a step, with a scaler."""
    facts = Facts(network="Net")
    training, _ = DataLoader(data(36), batch_size=6), None
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    facts.networks = [model]
    for _ in range(2):
        facts.losses.append([])
        total = 0.0
        for number, (x, y) in enumerate(training, 1):
            loss = F.cross_entropy(model(x), y) / 3
            scaler.scale(loss).backward()
            total += loss.item()
            if number % 3 == 0:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                facts.losses[-1].append(total)
                total = 0.0
    return facts


def frozen() -> Facts:
    """An optimizer of the last layer; the network is called by `forward`; weights are averaged by a copy."""
    facts = Facts(network="Net")
    training, _ = loaders()
    model = Net()
    for parameter in model.body.parameters():
        parameter.requires_grad = False
    average = copy.deepcopy(model)
    facts.networks = [model, average]
    optimizer = optim.SGD(model.head.parameters(), lr=0.1)
    for _ in range(2):
        facts.losses.append([])
        for x, y in training:
            loss = F.cross_entropy(model.forward(x), y)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
            facts.losses[-1].append(loss.item())
            with torch.no_grad():
                for mean, new in zip(average.parameters(), model.parameters(), strict=True):
                    mean.lerp_(new, 0.5)
    return facts


def steps_only() -> Facts:
    """One long loop without a loader, a function or a validation."""
    facts = Facts(network="Linear", losses=[[]])
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    facts.networks = [model]
    for _ in range(7):
        x = torch.randn(8, 4)
        loss = F.smooth_l1_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        facts.losses[0].append(loss.item())
    return facts
