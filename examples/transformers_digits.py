"""Record a training with the Hugging Face Trainer, and ask for time and loss by epoch."""

import torch
from sklearn.datasets import load_digits
from transformers import Trainer, TrainingArguments

import provml
from provml.capture.transformers import Capture


class Network(torch.nn.Module):
    """A linear classifier with the interface of a Transformers model."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, pixels, labels):
        logits = self.layer(pixels)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def main() -> None:
    x, y = load_digits(return_X_y=True)
    images = torch.tensor(x[:300] / 16, dtype=torch.float32)
    rows = [{"pixels": image, "labels": int(label)} for image, label in zip(images, y[:300], strict=True)]
    settings = TrainingArguments(
        "checkpoints", num_train_epochs=2, report_to="none", use_cpu=True, logging_strategy="epoch", disable_tqdm=True
    )
    with Capture("digits", model="trainer-linear") as capture:
        Trainer(Network(), settings, train_dataset=rows, callbacks=[capture]).train()

    with provml.open() as store:
        print(store.ask("time-and-loss-by-epoch", model="trainer-linear"))


if __name__ == "__main__":
    main()
