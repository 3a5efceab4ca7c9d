"""Scikit-learn's digits, small: the data that every capture's tests train on."""

from __future__ import annotations

from typing import Any

import numpy as np


def rows(some: slice) -> tuple[Any, Any]:
    """Some of the first rows, for trainings that are to be told apart."""
    arrays = list(digits().values())
    x, y = (np.concatenate(several)[some] for several in zip(*arrays, strict=True))
    return x, y


def digits() -> dict[str, tuple[Any, Any]]:
    """Images of 8 x 8 as rows of 64 floats, and what they show, by role."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    return {"training": (x[:480], y[:480]), "validation": (x[480:640], y[480:640]), "test": (x[640:800], y[640:800])}
