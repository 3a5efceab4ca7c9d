"""A part of scikit-learn's digits: the data of all capture tests."""

from __future__ import annotations

from typing import Any

import numpy as np


def rows(part: slice) -> tuple[Any, Any]:
    """Return some rows, for trainings with different data."""
    arrays = list(digits().values())
    x, y = (np.concatenate(columns)[part] for columns in zip(*arrays, strict=True))
    return x, y


def digits() -> dict[str, tuple[Any, Any]]:
    """Return 8 x 8 images as rows of 64 floats, and their labels, by role."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    return {"training": (x[:480], y[:480]), "validation": (x[480:640], y[480:640]), "test": (x[640:800], y[640:800])}
