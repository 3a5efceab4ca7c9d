"""The demo's network: a hidden layer with dropout and ten outputs, trained by gradient descent, in plain Python."""

from __future__ import annotations

import json
import math
import random
from operator import mul
from pathlib import Path

from provml.demo.digit import Image

OUTPUTS = 10


class Network:
    """Two dense layers. Weights of a unit are a row; the last weight of a row is its bias."""

    def __init__(self, inputs: int, hidden: int, dropout: float, seed: int) -> None:
        self.chance = random.Random(seed)
        self.dropout = dropout
        self.first = self._layer(hidden, inputs)
        self.second = self._layer(OUTPUTS, hidden)

    def _layer(self, units: int, inputs: int) -> list[list[float]]:
        scale = math.sqrt(2.0 / inputs)
        return [[self.chance.gauss(0.0, scale) for _ in range(inputs)] + [0.0] for _ in range(units)]

    def layers(self) -> list[dict[str, object]]:
        """What it is made of, as the recorder takes it."""
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

    def guess(self, image: Image, kept: list[float] | None = None) -> tuple[list[float], list[float]]:
        """What the hidden units and the outputs say of an image; `kept` switches hidden units off."""
        given = [*image, 1.0]
        hidden = [max(0.0, sum(map(mul, row, given))) for row in self.first]
        if kept is not None:
            hidden = list(map(mul, hidden, kept))
        hidden.append(1.0)
        sums = [sum(map(mul, row, hidden)) for row in self.second]
        highest = max(sums)
        powers = [math.exp(value - highest) for value in sums]
        total = sum(powers)
        return hidden, [power / total for power in powers]

    def learn(self, image: Image, digit: int, rate: float) -> tuple[float, bool]:
        """One step on one image; its loss before the step, and whether the guess was right."""
        share = 1.0 - self.dropout
        kept = [(self.chance.random() < share) / share for _ in self.first] if self.dropout else None
        hidden, guess = self.guess(image, kept)
        loss = -math.log(max(guess[digit], 1e-12))
        errors = [value - (unit == digit) for unit, value in enumerate(guess)]
        back = [sum(map(mul, errors, column)) for column in zip(*self.second, strict=True)]
        for error, row in zip(errors, self.second, strict=True):
            step = rate * error
            row[:] = [weight - step * value for weight, value in zip(row, hidden, strict=True)]
        given = [*image, 1.0]
        for unit, row in enumerate(self.first):
            if hidden[unit] > 0.0:
                step = rate * back[unit] * (kept[unit] if kept is not None else 1.0)
                row[:] = [weight - step * value for weight, value in zip(row, given, strict=True)]
        return loss, guess[digit] == max(guess)

    def accuracy(self, images: list[tuple[Image, int]]) -> float:
        """The share of images that it names rightly."""
        right = 0
        for image, digit in images:
            guess = self.guess(image)[1]
            right += guess[digit] == max(guess)
        return right / len(images)

    def save(self, path: Path) -> Path:
        """Its weights in a file."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"first": self.first, "second": self.second}), encoding="utf-8")
        part.replace(path)
        return path
