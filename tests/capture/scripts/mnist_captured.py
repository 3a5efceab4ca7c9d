"""Train a convolutional network on images of digits: a script of the usual form, with functions to train and test."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from provml.capture.torch import Capture


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc = nn.Linear(72, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return F.log_softmax(self.fc(torch.flatten(x, 1)), dim=1)


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        train_loader.measured(loss=loss)
        if batch_idx % args.log_interval == 0:
            done, total = batch_idx * len(data), len(train_loader.dataset)
            share = 100.0 * batch_idx / len(train_loader)
            print("Train Epoch: %d [%d/%d (%.0f%%)]\tLoss: %.6f" % (epoch, done, total, share, loss.item()))  # noqa: UP031


def test(model, device, test_loader):
    model.eval()
    test_loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            correct += output.argmax(dim=1).eq(target).sum().item()
    test_loss /= len(test_loader.dataset)
    test_loader.measured(loss=test_loss, accuracy=correct / len(test_loader.dataset))
    print("Test set: average loss %.4f, accuracy %d/%d" % (test_loss, correct, len(test_loader.dataset)))  # noqa: UP031


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, default=4)
    parser.add_argument("--save-model", default="mnist_cnn.pt")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cpu")
    images, labels = load_digits(return_X_y=True)
    pairs = TensorDataset(torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(labels))
    train_loader = DataLoader(torch.utils.data.Subset(pairs, range(1000)), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(torch.utils.data.Subset(pairs, range(1000, 1500)), batch_size=250)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    capture = Capture("mnist", model, optimizer, scheduler=scheduler, parameters=vars(args), save_model=args.save_model)
    train_loader, test_loader = capture.batches(train_loader), capture.batches(test_loader, role="validation")
    for epoch in capture.epochs(range(1, args.epochs + 1)):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()
    torch.save(model.state_dict(), args.save_model)


if __name__ == "__main__":
    main()
