"""Record a Lightning training, and ask for the layers of its model."""

import torch
from lightning import pytorch as lightning
from sklearn.datasets import load_digits

import provml
from provml.capture.lightning import Capture


class Digits(lightning.LightningModule):
    """A linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    x, y = load_digits(return_X_y=True)
    pairs = torch.utils.data.TensorDataset(torch.tensor(x[:500] / 16, dtype=torch.float32), torch.tensor(y[:500]))
    loader = torch.utils.data.DataLoader(pairs, batch_size=50, shuffle=True)
    with Capture("digits", model="lightning-linear") as capture:
        trainer = lightning.Trainer(
            max_epochs=2,
            callbacks=[capture],
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
        )
        trainer.fit(Digits(), loader)

    with provml.open() as store:
        print(store.ask("layers-of-model", model="lightning-linear"))


if __name__ == "__main__":
    main()
