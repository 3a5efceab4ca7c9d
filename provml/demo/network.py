"""The network of the demo in plain Python: a hidden layer with dropout and ten outputs, trained by gradient descent."""

from __future__ import annotations

import json
import math
import random
from operator import mul
from pathlib import Path

from provml.demo.digits import Image

OUTPUTS = 10


class Network:
    """Two dense layers. The weights of a unit are a row, and the last weight of a row is the bias."""

    def __init__(self, inputs: int, hidden: int, dropout: float, seed: int) -> None:
        self._rng = random.Random(seed)
        self.dropout = dropout
        self.first = self._layer(hidden, inputs)
        self.second = self._layer(OUTPUTS, hidden)

    def _layer(self, units: int, inputs: int) -> list[list[float]]:
        scale = math.sqrt(2.0 / inputs)
        return [[self._rng.gauss(0.0, scale) for _ in range(inputs)] + [0.0] for _ in range(units)]

    def layers(self) -> list[dict[str, object]]:
        """Return the layers in the form that `Stage.layers` takes."""
        hidden, inputs = len(self.first), len(self.first[0])
        return [
            {
                "name": "hidden",
                "type": "Dense",
                "units": hidden,
                "activation": "relu",
                "parameter_count": hidden * inputs,
            },
            {"name": "dropout", "type": "Dropout", "rate": self.dropout, "parameter_count": 0},
            {
                "name": "output",
                "type": "Dense",
                "units": OUTPUTS,
                "activation": "softmax",
                "parameter_count": OUTPUTS * (hidden + 1),
            },
        ]

    def predict(self, image: Image, mask: list[float] | None = None) -> tuple[list[float], list[float]]:
        """Return the hidden activations (with a 1 for the bias) and the probability of each digit.

        `mask` holds a factor for each hidden unit: 0 switches it off.
        """
        inputs = [*image, 1.0]
        hidden = [max(0.0, sum(map(mul, row, inputs))) for row in self.first]
        if mask is not None:
            hidden = list(map(mul, hidden, mask))
        hidden.append(1.0)
        sums = [sum(map(mul, row, hidden)) for row in self.second]
        max_sum = max(sums)
        exponentials = [math.exp(value - max_sum) for value in sums]
        total = sum(exponentials)
        return hidden, [value / total for value in exponentials]

    def learn(self, image: Image, digit: int, rate: float) -> tuple[float, bool]:
        """Do one step of gradient descent on an image; return its loss, and whether it was classified correctly."""
        keep_rate = 1.0 - self.dropout
        mask = [(self._rng.random() < keep_rate) / keep_rate for _ in self.first] if self.dropout else None
        hidden, probabilities = self.predict(image, mask)
        loss = -math.log(max(probabilities[digit], 1e-12))
        errors = [value - (unit == digit) for unit, value in enumerate(probabilities)]
        gradients = [sum(map(mul, errors, column)) for column in zip(*self.second, strict=True)]
        for error, row in zip(errors, self.second, strict=True):
            step = rate * error
            row[:] = [weight - step * value for weight, value in zip(row, hidden, strict=True)]
        inputs = [*image, 1.0]
        for unit, row in enumerate(self.first):
            if hidden[unit] > 0.0:
                step = rate * gradients[unit] * (mask[unit] if mask is not None else 1.0)
                row[:] = [weight - step * value for weight, value in zip(row, inputs, strict=True)]
        return loss, probabilities[digit] == max(probabilities)

    def accuracy(self, images: list[tuple[Image, int]]) -> float:
        """Return the fraction of images that are classified correctly."""
        correct = 0
        for image, digit in images:
            _, probabilities = self.predict(image)
            correct += probabilities[digit] == max(probabilities)
        return correct / len(images)

    def save(self, path: Path) -> Path:
        """Write the weights to a JSON file and return the path."""
        temporary = path.with_suffix(".part")
        temporary.write_text(json.dumps({"first": self.first, "second": self.second}), encoding="utf-8")
        temporary.replace(path)
        return path
