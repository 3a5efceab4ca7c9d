"""Record a LightGBM training whose learning rate falls, and ask which adaptations it made."""

import lightgbm
from sklearn.datasets import load_digits

import provml
from provml.capture.lightgbm import Capture


def main() -> None:
    x, y = load_digits(return_X_y=True)
    with Capture("digits", model="lightgbm-leaves", data={"training": x[:300]}) as capture:
        train = lightgbm.Dataset(x[:300], y[:300])
        valid = lightgbm.Dataset(x[300:400], y[300:400], reference=train)
        settings = {"objective": "multiclass", "num_class": 10, "verbosity": -1}
        halve = lightgbm.reset_parameter(learning_rate=lambda round_: 0.1 if round_ < 3 else 0.05)
        lightgbm.train(settings, train, 5, valid_sets=[valid], callbacks=[*capture.callbacks, halve])

    with provml.open() as store:
        print(store.ask("adaptations", model="lightgbm-leaves"))


if __name__ == "__main__":
    main()
