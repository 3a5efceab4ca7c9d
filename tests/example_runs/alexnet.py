"""The trainings whose numbers are in the papers: AlexNet and DenseED, with made-up values for the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from example_runs.journal import JournalBuilder

DAY = 86400.0
MARCH = 1614556800.0  # 2021-03-01
TABLE_3 = [
    (1, 22.075, 3.484),
    (2, 20.560, 2.870),
    (3, 19.996, 2.542),
    (4, 20.478, 2.188),
    (5, 20.378, 2.015),
    (6, 20.006, 1.784),
    (7, 20.486, 1.600),
    (8, 20.238, 1.466),
    (9, 20.395, 1.246),
    (10, 20.318, 0.977),
]
TABLE_4_1 = [14.005, 11.458, 10.647, 10.548, 10.720, 12.779, 10.394, 10.619, 10.695, 10.572]
TABLE_4_5 = [48.398, 14.896, 15.332, 15.413, 14.885]
TABLE_4_7 = [0.431, 0.079, 0.053, 0.047, 0.045, 0.045, 0.044, 0.044, 0.044, 0.043]
TABLE_4_9 = [2.168, 0.268, 0.136, 0.115, 0.108, 0.106, 0.105, 0.105, 0.105, 0.104]
ALEXNET_LAYERS = [
    {"name": "conv_1", "type": "Conv2D", "filters": 96, "parameter_count": 34944, "output_shape": "(54, 54, 96)"},
    {"name": "activation_1", "type": "Activation", "activation": "relu"},
    {"name": "dense_1", "type": "Dense", "units": 4096, "parameter_count": 1052672},
    {"name": "dropout_1", "type": "Dropout", "dropout": 0.4},
    {"name": "dense_2", "type": "Dense", "units": 17, "parameter_count": 69649},
]


def alexnet_layers(dropout: float) -> list[dict[str, Any]]:
    """Return the layers with another dropout; the complete network has more."""
    return [{**layer, "dropout": dropout} if "dropout" in layer else layer for layer in ALEXNET_LAYERS]


def flowers(
    run: str,
    day: int,
    *,
    learning_rate: float,
    optimizer: str = "Adam",
    dropout: float = 0.4,
    gray: bool = False,
    epochs: int = 100,
    accuracy: float | None = None,
    adapted: dict[int, float] | None = None,
    fails_at: int = 0,
) -> JournalBuilder:
    """Train AlexNet on Oxford Flowers (pina-2021), optionally on gray images, adapted, or failing."""
    journal = JournalBuilder(run, "flowers", MARCH + day * DAY, model="alexnet", by="alice" if day % 2 else "bob")
    journal.environment(
        {"hostname": "node-1" if day < 4 else "node-2", "core_count": 24},
        {"python_version": "3.7.4", "git_commit": f"{day:040x}", "user_name": "alice"},
        {"keras": "2.2.4" if day < 4 else "2.3.1", "numpy": "1.18.1"},
    )
    data = journal.data("flowers17.h5", path="data/flowers17.h5", images=1360)
    if gray:
        images = journal.data("flowers17-gray.h5")
        journal.step("filter", "gray-scale", using=[data], makes=images, seconds=42.0, filter_name="Gray-scale")
        data = images
    training = journal.begin(
        "training",
        using=[data],
        learning_rate=learning_rate,
        optimizer=optimizer,
        epochs=epochs,
        batch_size=64,
        num_layers=33,
    )
    journal.layers(training, alexnet_layers(dropout))
    for index in range(1, epochs + 1):
        if index in (adapted or {}):
            journal.adapted(f"{training}/{index}", technique="LRS", learning_rate=(adapted or {})[index])
        if index == fails_at:
            at = journal.section(training, index)
            journal.end(at, 3.5, error=("MemoryError", "out of memory"))
            journal.end(training, error=("MemoryError", "out of memory"))
            journal.finish(error=("MemoryError", "out of memory"))
            return journal
        _, seconds, loss = TABLE_3[index - 1] if index <= len(TABLE_3) else (0, 20.5, 0.9 / index)
        late = 100.0 if (run, index) == ("best", 57) else 0.0
        journal.epoch(
            training, index, seconds + late, loss=loss, **({"top_5_accuracy": 1 - 0.5 / index} if gray else {})
        )
    model = journal.data("alexnet", f"weights of {run}", kind="model", path=f"models/{run}.h5")
    journal.produced(training, model)
    journal.end(training)
    if accuracy is not None:
        test = journal.begin("evaluation")
        journal.used(test, model, "model")
        journal.measured(test, loss=1.0 - accuracy, accuracy=accuracy)
        journal.end(test, 2.0)
    journal.finish()
    return journal


def curve(
    run: str,
    day: int,
    model: str,
    *,
    seconds: list[float],
    losses: list[float],
    accuracies: list[float] | None = None,
    scores: list[float] | None = None,
    adapted: dict[int, float] | None = None,
    layers: list[dict[str, Any]] | None = None,
    finished: bool = True,
    **hyperparameters: Any,
) -> JournalBuilder:
    """Train with given losses (pina-2020); it may be unfinished."""
    journal = JournalBuilder(run, f"cnnprov-{model}", MARCH + day * DAY, model=model)
    training = journal.begin("training", optimizer="Adam", **hyperparameters)
    if layers:
        journal.layers(training, layers)
    for index, (duration, loss) in enumerate(zip(seconds, losses, strict=True), 1):
        if index in (adapted or {}):
            journal.adapted(
                f"{training}/{index}", technique="LearningRateScheduler", learning_rate=(adapted or {})[index]
            )
        more = {"accuracy": accuracies[index - 1]} if accuracies else {}
        more |= {"r2_score": scores[index - 1]} if scores else {}
        journal.epoch(training, index, duration, loss=loss, **more)
    if finished:
        journal.end(training)
        journal.finish()
    return journal


def filled(printed: list[float], count: int, last: float) -> list[float]:
    """Return printed values, then interpolated ones up to the last."""
    more = count - len(printed)
    first = printed[-1]
    return printed + [first + (last - first) * number / more for number in range(1, more)] + [last]


def dense_layers(k: int, dense: int, count: int) -> list[dict[str, Any]]:
    """Return the layers of DenseED: a dense block with growth rate K and L layers, among `count` layers."""
    block = {"name": "dense_block_1", "type": "DenseBlock", "is_block": True, "K": k, "L": dense}
    inside = [{"name": f"conv_{n}", "type": "Conv2D", "block": "dense_block_1"} for n in range(1, dense + 1)]
    rest = [{"name": f"layer_{n}", "type": "Conv2D"} for n in range(1, count - dense)]
    return [block, *inside, *rest]


def densed(run: str, day: int, k: int, dense: int, losses: list[float], *, finished: bool = True) -> JournalBuilder:
    """Train DenseED with K and L."""
    layers = dense_layers(k, dense, 64)
    seconds = [15.0] * len(losses)
    settings: dict[str, Any] = {"layers": layers, "finished": finished, "learning_rate": 0.001}
    return curve(
        run, day, "densed", seconds=seconds, losses=losses, scores=[1 - 2 * loss for loss in losses], **settings
    )


def write(home: Path) -> None:
    """Write the journals of all trainings."""
    journals = [
        flowers("best", 1, learning_rate=0.002, accuracy=0.59, adapted={10: 0.001, 30: 0.00025}),
        flowers("gray", 2, learning_rate=0.001, accuracy=0.37, gray=True, adapted={20: 0.0005}),
        flowers("sgd", 3, learning_rate=0.0005, optimizer="SGD", dropout=0.7, accuracy=0.42, epochs=20),
        flowers("wide", 4, learning_rate=0.001, dropout=0.7, accuracy=0.55, epochs=50),
        flowers("broken", 5, learning_rate=0.002, fails_at=7),
        flowers("ten", 6, learning_rate=0.001, epochs=10, accuracy=0.48),
        curve(
            "alice",
            10,
            "alice",
            seconds=[102.86, 107.59, 106.22, 107.72, 101.20],
            losses=[0.5, 0.4, 0.3, 0.25, 0.2],
            accuracies=[0.903, 0.916, 0.920, 0.922, 0.924],
            finished=False,
            learning_rate=0.0005,
        ),
        curve(
            "example",
            11,
            "example",
            seconds=[100.0] * 15 + [109.21, 100.06, 113.86, 110.92, 106.55],
            losses=[2.5 - 0.1 * n for n in range(15)] + [0.73, 0.71, 0.66, 0.53, 0.50],
        ),
        curve(
            "twenty",
            12,
            "alexnet-20",
            seconds=[*TABLE_4_1, *[10.6] * 9, 10.889],
            losses=[2.0 / n for n in range(1, 20)][:9] + [0.3 - 0.001 * n for n in range(10)] + [0.1954],
            accuracies=[0.5 + 0.02 * n for n in range(19)] + [0.9402299],
            adapted={10: 0.0005, 20: 0.00025},
            learning_rate=0.001,
            epochs=20,
        ),
        curve(
            "densed-20",
            13,
            "densed",
            seconds=[*TABLE_4_5, *[15.0] * 14, 15.103],
            losses=[0.1 / n for n in range(1, 20)] + [0.004],
            learning_rate=0.001,
        ),
        densed("k32-l4", 14, 32, 4, filled(TABLE_4_7, 200, 0.0184)),
        densed("k32-l8", 15, 32, 8, TABLE_4_9, finished=False),
        densed("k24-l4", 16, 24, 4, filled([0.3, 0.1, 0.08], 200, 0.012)),
    ]
    for journal in journals:
        journal.write(home)
