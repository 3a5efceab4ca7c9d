"""Whether a measure is better high or low, derived from its name."""

from __future__ import annotations

from typing import Literal

Direction = Literal["maximize", "minimize"]
DIRECTIONS: tuple[Direction, ...] = ("maximize", "minimize")
LOWER_WORDS = (
    "loss", "error", "mae", "mse", "rmse", "mape", "rmsle", "l1", "l2", "perplexity", "divergence", "distance",
)  # fmt: skip
LOWER_ENDINGS = ("loss", "error", "deviance", "entropy")
HIGHER_WORDS = ("accuracy", "acc", "auc", "f1", "precision", "recall", "score", "r2", "iou", "dice", "map", "bleu")


def direction_of(measure: str) -> Direction | None:
    """Return whether a measure is to be minimized or maximized; None if its name does not say."""
    words = measure.lower().replace("-", "_").split("_")
    if any(word in LOWER_WORDS or word.endswith(LOWER_ENDINGS) for word in words):
        return "minimize"
    return "maximize" if any(word in HIGHER_WORDS for word in words) else None
