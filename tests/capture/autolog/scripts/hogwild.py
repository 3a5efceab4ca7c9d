"""Two spawned processes train one network in shared memory."""

import torch
import torch.multiprocessing as mp
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


def train(rank, model):
    torch.manual_seed(rank)
    loader = DataLoader(TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,))), batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    network = torch.nn.Linear(8, 3).share_memory()
    processes = [mp.Process(target=train, args=(rank, network)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
