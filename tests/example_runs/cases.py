"""The parameters of each golden answer, by the name of its file."""

from __future__ import annotations

from typing import Any

from example_runs.journal import sha256

RUN = "https://w3id.org/provml/run/"
A_TRAIN, B_TRAIN, C_TRAIN, RAW = (
    f"urn:sha256:{sha256(name)}" for name in ("f3-a-train.h5", "f3-b-train.h5", "parihaka-train.h5", "f3.sgy")
)
KL: dict[str, Any] = {"model": "densed", "k": 32, "l": 4}
SLICES: dict[str, Any] = {"from": 100, "to": 200}
WIDE: dict[str, Any] = {"from": 1, "to": 700}
LINES: dict[str, Any] = {"from": 510, "to": 650, "first": "first_inline", "last": "last_inline"}
GEOLOGY = {
    "relation": ["http://example.org/geology#country", "http://example.org/geology#well"],
    "characteristic": ["latitude", "slices"],
}

ALEXNET: dict[str, dict[str, Any]] = {
    "e1": {},
    "q1": {"model": "alexnet"},
    "q1-given": {"model": "alexnet", "run": f"{RUN}gray", "epoch": 57, "measure": "top_5_accuracy"},
    "q2": {"model": "alexnet"},
    "q2-given": {"model": "densed", "run": f"{RUN}k32-l8"},
    "q3": {"model": "alexnet"},
    "q3-given": {"model": "alexnet-20", "run": f"{RUN}twenty", "measure": "accuracy", "first": 4},
    "q3-failed": {"model": "alexnet", "run": f"{RUN}broken"},
    "q4": {"model": "alexnet"},
    "q4-given": {"model": "alexnet", "hyperparameter": "optimizer", "measure": "loss"},
    "q5": {"model": "alexnet"},
    "q5-given": {"model": "alexnet", "top": 1, "measure": "loss"},
    "q6": {"model": "alexnet"},
    "q6-given": {"model": "alexnet", "hyperparameter": "dropout", "measure": "loss"},
    "q7": {"model": "alexnet"},
    "q7-given": {"model": "alexnet", "hyperparameter": "learning_rate", "value": 0.001},
    "q8": {"model": "alexnet"},
    "q8-given": {"model": "alexnet", "measure": "loss"},
    "h1": {"model": "alice"},
    "h1-given": {"model": "alexnet", "run": f"{RUN}broken", "measure": "loss"},
    "h2": {"model": "example"},
    "h2-given": {
        "model": "alexnet-20",
        "run": f"{RUN}twenty",
        "measure": "accuracy",
        "descending": False,
        "first": 3,
    },
    "h3": {"model": "alexnet-20"},
    "h3-given": {"model": "densed", "run": f"{RUN}densed-20", "first": 5},
    "h4": {"model": "alexnet-20"},
    "h4-given": {"model": "alexnet-20", "run": f"{RUN}twenty", "measure": "accuracy"},
    "h5": {"model": "alexnet-20"},
    "h5-given": {"model": "alexnet", "run": f"{RUN}best", "measure": "loss", "hyperparameter": "optimizer"},
    "h6": {"model": "alexnet-20"},
    "h6-given": {"model": "alexnet", "run": f"{RUN}best", "hyperparameter": "learning_rate"},
    "h7": KL,
    "h7-given": {**KL, "measure": "r2_score", "last": 3},
    "h8": {**KL, "learning_rate": 0.001},
    "h8-given": {**KL, "learning_rate": 0.001, "k": 24, "measure": "r2_score"},
    "b6-machines": {"one": f"{RUN}best", "other": f"{RUN}wide"},
    "b7": {"hyperparameter": "learning_rate"},
    "b7-range": {"hyperparameter": "learning_rate", "least": 0.0005, "most": 0.001, "model": "alexnet"},
    "b7-text": {"hyperparameter": "optimizer", "text": "SGD"},
    "b9": {},
    "b9-given": {"model": "alexnet"},
    "b10": {},
    "b10-given": {"model": "alexnet", "top": 2},
}
SEISMIC: dict[str, dict[str, Any]] = {
    "l1": {"model": f"{RUN}l-1/data/salt"},
    "l1-given": {"model": f"{RUN}l-6/data/salt-2", **GEOLOGY},
    "l2": {"model": f"{RUN}l-6/data/salt"},
    "l2-given": {"model": f"{RUN}l-2/data/salt", "parameter": ["tile_size", "last_slice"]},
    "l3": {"dataset": A_TRAIN},
    "l3-given": {"dataset": C_TRAIN, "measure": "recall"},
    "l4": {"dataset": B_TRAIN},
    "l5": SLICES,
    "l5-wide": {**SLICES, "to": 300},
    "l5-given": LINES,
    "l6": SLICES,
    "l6-wide": WIDE,
    "l6-given": {**LINES, **GEOLOGY},
    "l7": SLICES,
    "l7-wide": WIDE,
    "l7-given": {**LINES, "measure": "accuracy"},
    "l7-high": {**WIDE, "measure": "accuracy"},
    "b1": {"start": f"{RUN}l-2/data/salt"},
    "b2": {"start": B_TRAIN},
    "b3": {"model": f"{RUN}l-2/data/salt"},
    "b3-epoch": {"model": f"{RUN}l-9-alone/data/salt"},
    "b4": {"sha256": A_TRAIN.removeprefix("urn:sha256:")},
    "b5": {"dataset": RAW},
    "b6": {"one": f"{RUN}l-1", "other": f"{RUN}l-2"},
    "b8": {},
    "b8-given": {"model": "salt"},
    "b11": {},
    "b11-given": {"who": "trainer"},
}
LEAKS: dict[str, dict[str, Any]] = {
    "b12": {},
    "b12-given": {"model": "folded", "any_evaluation": True},
}
ENERGY: dict[str, dict[str, Any]] = {
    "b13": {},
    "b13-given": {"model": "wide"},
}
CASES = ALEXNET | SEISMIC | LEAKS | ENERGY
