"""Record a grid search of a scikit-learn pipeline, and ask where the model comes from."""

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import provml
from provml.capture.sklearn import Capture


def main() -> None:
    x, y = load_digits(return_X_y=True)
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0]}, cv=3)
    with Capture("digits", model="svc", save_model="svc.joblib") as capture:
        capture.fit(search, x[:300], y[:300])
        capture.score(search, x[300:400], y[300:400])

    with provml.open() as store:
        print(store.ask("origin-of-model", model="svc"))


if __name__ == "__main__":
    main()
