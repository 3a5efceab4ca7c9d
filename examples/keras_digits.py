"""Record a Keras training with a falling learning rate, and ask for time and loss by epoch."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from sklearn.datasets import load_digits

import provml
from provml.capture.keras import Capture


def main() -> None:
    x, y = load_digits(return_X_y=True)
    x = x / 16
    network = keras.Sequential(
        [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10, activation="softmax")]
    )
    network.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch == 2 else rate)
    with Capture("digits", model="keras-dense") as capture:
        network.fit(x[:800], y[:800], epochs=3, validation_split=0.2, callbacks=[capture, halve], verbose=0)
        network.evaluate(x[800:1000], y[800:1000], callbacks=[capture], verbose=0)

    with provml.open() as store:
        print(store.ask("time-and-loss-by-epoch", model="keras-dense"))


if __name__ == "__main__":
    main()
