"""Record a PyTorch training loop with a scheduler, and ask which adaptations it made."""

import torch
from sklearn.datasets import load_digits

import provml
from provml.capture.torch import Capture


def main() -> None:
    x, y = load_digits(return_X_y=True)
    images, labels = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images[:800], labels[:800]), batch_size=50, shuffle=True
    )
    network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    loss_of = torch.nn.CrossEntropyLoss()
    with Capture(
        "digits", network, optimizer, model="torch-mlp", scheduler=scheduler, loss=loss_of, data={"training": loader}
    ) as capture:
        with capture.training():
            for epoch in capture.epochs(3):
                for batch, target in capture.batches(loader):
                    optimizer.zero_grad()
                    loss = loss_of(network(batch), target)
                    loss.backward()
                    optimizer.step()
                    capture.measured(loss=loss)
                scheduler.step()
                epoch.measured(accuracy=accuracy(network, images[:800], labels[:800]))
        with capture.evaluation() as test:
            test.measured(accuracy=accuracy(network, images[800:1000], labels[800:1000]))

    with provml.open() as store:
        print(store.ask("adaptations", model="torch-mlp"))


def accuracy(network: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of images that the network classifies correctly."""
    with torch.no_grad():
        return float((network(images).argmax(1) == labels).float().mean())


if __name__ == "__main__":
    main()
