"""Record an XGBoost training with a validation set, and ask for time and measure by round."""

import xgboost
from sklearn.datasets import load_digits

import provml
from provml.capture.xgboost import Capture


def main() -> None:
    x, y = load_digits(return_X_y=True)
    train, valid = xgboost.DMatrix(x[:300], y[:300]), xgboost.DMatrix(x[300:400], y[300:400])
    settings = {"objective": "multi:softprob", "num_class": 10, "eta": 0.3}
    with Capture("digits", model="xgboost-trees") as capture:
        evals = [(train, "train"), (valid, "valid")]
        booster = xgboost.train(settings, train, 5, evals=evals, callbacks=[capture], verbose_eval=False)
        with capture.evaluation(booster) as test:
            test.measured(accuracy=float((booster.predict(valid).argmax(1) == y[300:400]).mean()))

    with provml.open() as store:
        print(store.ask("time-and-loss-by-epoch", model="xgboost-trees", measure="mlogloss"))


if __name__ == "__main__":
    main()
