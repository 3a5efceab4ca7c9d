"""In the style of an image classifier: functions `train` and `test`, StepLR, a saved model."""

from __future__ import annotations

import argparse
import json

import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.dropout = nn.Dropout(0.25)
        self.fc = nn.Linear(4 * 9, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        return F.log_softmax(self.fc(torch.flatten(self.dropout(x), 1)), dim=1)


def train(model, loader, optimizer, epoch, record):
    model.train()
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        record["losses"].append([epoch, loss.item()])


def test(model, loader, record):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for data, target in loader:
            total += F.nll_loss(model(data), target, reduction="sum").item()
    record["validation"].append(total / len(loader.dataset))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(1)
    images = TensorDataset(torch.randn(50, 1, 8, 8), torch.randint(0, 10, (50,)))
    train_loader = DataLoader(images, batch_size=10, shuffle=True)
    test_loader = DataLoader(TensorDataset(torch.randn(25, 1, 8, 8), torch.randint(0, 10, (25,))), batch_size=10)
    model = Net()
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    record = {"losses": [], "validation": []}
    for epoch in range(1, args.epochs + 1):
        train(model, train_loader, optimizer, epoch, record)
        test(model, test_loader, record)
        scheduler.step()
    torch.save(model.state_dict(), "mnist.pt")
    record["weights"] = float(sum(p.detach().double().sum() for p in model.parameters()))
    print(json.dumps(record))


if __name__ == "__main__":
    main()
