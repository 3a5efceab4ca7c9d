"""Introspection of scikit-learn estimators: parameters, characteristics, history of the fit, and scores."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from provml.journal.redaction import is_secret, redact
from provml.mapping.direction import direction_of
from provml.model.values import PLAIN, plain

MAX_LENGTH = 200
"""Longer lists and texts are cut."""
MEASURES = {
    "inertia_": "inertia",
    "oob_score_": "oob_score",
    "best_loss_": "best_loss",
    "reconstruction_err_": "reconstruction_error",
}
"""Attributes with measures of the fit, and the names under which they are recorded."""
SPACES = ("param_grid", "param_distributions", "param_space", "search_spaces")
"""Attributes with the searched space."""
SCORED_BY_SCORING = ("LogisticRegressionCV",)
"""Estimators other than searches whose `score` uses their parameter `scoring`."""
CHARACTERISTICS = (
    "n_features_in_",
    "n_outputs_",
    "n_estimators_",
    "n_iter_",
    "n_leaves_",
    "n_clusters_",
    "n_components_",
)


class History(NamedTuple):
    """Measures of training and validation by epoch or round."""

    kind: str
    measures: dict[str, list[float]]
    validation: dict[str, list[float]]


def is_search(estimator: Any) -> bool:
    """Return whether an estimator searches the best parameters of another one."""
    return hasattr(estimator, "estimator") and any(hasattr(estimator, space) for space in SPACES)


def is_transformer(estimator: Any) -> bool:
    """Return whether an estimator only prepares data: it transforms and predicts nothing.

    The class is asked, too: a StackingClassifier has `predict` only after it was fitted.
    """
    last = steps(estimator)[1]
    methods = [
        name for name in ("transform", "predict", "fit_predict") if hasattr(last, name) or hasattr(type(last), name)
    ]
    return methods == ["transform"] and not is_search(last)


def steps(estimator: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the transformers of a pipeline and of nested pipelines, and the final estimator."""
    pairs = getattr(estimator, "steps", None)
    if not pairs or not isinstance(pairs, (list, tuple)) or not all(isinstance(pair, (tuple, list)) for pair in pairs):
        return [], estimator  # an estimator may have a parameter named `steps`
    transformers: list[tuple[str, Any]] = []
    for name, transformer in estimator.steps[:-1]:
        if transformer is not None and transformer != "passthrough":
            inner, last = steps(transformer)
            transformers += [(f"{name}.{inner_name}", step) for inner_name, step in inner] + [(name, last)]
    name, last = estimator.steps[-1]
    if last is None or last == "passthrough":  # the transformer before it is fitted last
        return (transformers[:-1], transformers[-1][1]) if transformers else ([], estimator)
    inner, last = steps(last)
    return transformers + [(f"{name}.{inner_name}", step) for inner_name, step in inner], last


def parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator, those of nested estimators as `outer__inner`."""
    if not hasattr(estimator, "get_params"):
        return {}
    return {name: encode_param(value) for name, value in sorted(redact(estimator.get_params(deep=True)).items())}


def bare_names(names: Iterable[str]) -> dict[str, str]:
    """Map parameters such as `svc__C` to the name `C` that questions use, or to the full name if two end alike."""
    public = [name for name in names if not is_secret(name)]
    ends = Counter(name.rpartition("__")[2] for name in public)
    return {name: end if ends[end := name.rpartition("__")[2]] == 1 else name for name in public}


def describe(estimator: Any) -> dict[str, Any]:
    """Return the class and the parameters of an estimator; its parameter `estimator` as `inner_estimator`."""
    values = parameters(estimator)
    inner = values.pop("estimator", None)
    return {"estimator": type(estimator).__name__, "inner_estimator": inner, **values}


def non_default_parameters(estimator: Any) -> list[str]:
    """Return the names of the parameters that differ from their defaults."""
    if not hasattr(estimator, "get_params"):
        return []
    signature = inspect.signature(type(estimator).__init__).parameters
    names = []
    for name, value in sorted(estimator.get_params(deep=False).items()):
        default = signature[name].default if name in signature else inspect.Parameter.empty
        if encode_param(value) != encode_param(default):
            names.append(name)
    return names


def encode_param(value: Any) -> Any:
    """Return a parameter as a plain value; any other object as its name or text."""
    if value is None:
        return "None"
    if plain(value).__class__ in PLAIN:
        return value
    if isinstance(value, (list, tuple, dict)) and len(value) <= MAX_LENGTH:
        items = value.values() if isinstance(value, dict) else value
        if all(plain(item).__class__ in PLAIN for item in items):
            return value
        if isinstance(value, dict):
            return {str(key): encode_param(item) for key, item in value.items()}
        return [encode_param(item) for item in value]  # such as the transformers of a ColumnTransformer
    if isinstance(value, type):
        return value.__qualname__
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    if hasattr(value, "get_params"):
        return type(value).__name__
    if callable(value):
        return str(getattr(value, "__qualname__", "") or type(value).__name__)
    return (type(value).__name__ if " object at 0x" in repr(value) else repr(value))[:MAX_LENGTH]


def characteristics(fitted: Any) -> dict[str, Any]:
    """Return characteristics of a fitted model: number of features, classes and the like."""
    _, last = steps(fitted)
    fields: dict[str, Any] = {}
    for name in CHARACTERISTICS:
        value: Any = getattr(fitted, name, getattr(last, name, None))
        value = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(value, (int, float, list)) and value != []:
            fields[name.rstrip("_")] = value[0] if isinstance(value, list) and len(value) == 1 else value
    classes = getattr(last, "classes_", None)
    if classes is not None and getattr(classes, "ndim", 0) == 1:
        labels = classes.tolist()[:MAX_LENGTH]
        fields["n_classes"] = len(classes)
        fields["classes"] = [str(label) if isinstance(label, bytes) else label for label in labels]
    names = getattr(fitted, "feature_names_in_", None)
    if names is not None:
        fields["feature_names"] = [str(name) for name in names[:MAX_LENGTH]]
    return fields


def measures(fitted: Any) -> dict[str, float]:
    """Return the measures of the whole fit."""
    _, last = steps(fitted)
    values: dict[str, Any] = {name: getattr(last, attribute, None) for attribute, name in MEASURES.items()}
    return {name: value for name, value in values.items() if plain(value).__class__ in (int, float)}


def history(fitted: Any) -> History | None:
    """Return the history of a fit by epoch or round, if the estimator has one."""
    _, last = steps(fitted)
    score = score_name(last)
    if curve := _list(last, "loss_curve_"):
        return History("epoch", {"loss": curve}, _column(score, _list(last, "validation_scores_")))
    if hasattr(last, "do_early_stopping_"):  # the first score is before any round; losses are negated
        name, sign = measure("neg_loss" if last.scoring == "loss" else last.scoring or score, 1)
        training, validation = (
            [sign * score for score in _list(last, attribute)[1:]]
            for attribute in ("train_score_", "validation_score_")
        )
        has_scores = bool(training or validation)
        return History("round", _column(name, training), _column(name, validation)) if has_scores else None
    if scores := _list(last, "train_score_"):
        return History("round", {"loss": scores}, {})
    if errors := _list(last, "estimator_errors_"):
        return History("round", {"error": errors[: len(last.estimators_)]}, {})
    if bounds := _list(last, "lower_bounds_"):
        return History("epoch", {"lower_bound": bounds}, {})
    return None


def new_history(history: History | None, previous: History | None) -> History | None:
    """Return the part of a history that the last fit added: a warm start appends to the previous history."""
    if history is None or previous is None:
        return history
    columns = [_rest(*pair) for pair in zip(history[1:], previous[1:], strict=True)]
    return History(history.kind, *columns) if any(columns) else None


def _rest(columns: dict[str, list[float]], previous: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return each column without its previous values; all of a column that does not start with them."""
    starts = {name: len(old) if columns.get(name, [])[: len(old)] == old else 0 for name, old in previous.items()}
    rest = {name: values[starts.get(name, 0) :] for name, values in columns.items()}
    return {name: values for name, values in rest.items() if values}


def _list(estimator: Any, name: str) -> list[float]:
    """Return an attribute that is a list or an array of one dimension, otherwise an empty list."""
    values = getattr(estimator, name, None)
    is_list = isinstance(values, list) or getattr(values, "ndim", 0) == 1
    return [float(value) for value in values] if values is not None and is_list else []


def _column(name: str, values: list[float]) -> dict[str, list[float]]:
    return {name: values} if values else {}


def score_name(estimator: Any) -> str:
    """Return the name of the default measure of `score`."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    kind = getattr(tags(), "estimator_type", None) if tags is not None else getattr(estimator, "_estimator_type", None)
    return {"classifier": "accuracy", "regressor": "r2"}.get(str(kind), "score")


def score_measure(estimator: Any, value: Any) -> tuple[str, Any]:
    """Return name and value of the measure that `score` returned; of a search, its own scoring."""
    _, last = steps(estimator)
    scoring = getattr(last, "scoring", None) if is_search(last) or type(last).__name__ in SCORED_BY_SCORING else None
    if getattr(last, "multimetric_", False):
        return measure_of(scoring, last.refit, value)  # the measure that selects the best candidate
    return measure(scoring or score_name(estimator), value)


def measure(scorer: Any, value: Any) -> tuple[str, Any]:
    """Return name and value of the measure of a score: scikit-learn negates measures that are better low."""
    if isinstance(scorer, str):
        return scorer.removeprefix("neg_"), -value if negates(scorer) else value
    function = getattr(scorer, "_score_func", scorer)  # the function passed to `make_scorer`
    name = getattr(function, "__name__", "") or type(function).__name__
    return name, -value if negates(scorer) else value


def measure_of(scoring: Any, name: str, value: Any) -> tuple[str, Any]:
    """Return the measure of one of several scorers. In a dictionary, the user's name shows whether low is better."""
    scorer = scoring.get(name) if isinstance(scoring, Mapping) else None
    if scorer is not None and negates(scorer) and direction_of(name) == "minimize":
        return name.removeprefix("neg_"), -value
    return measure(name, value)


def negates(scorer: Any) -> bool:
    """Return whether a scorer negates its measure, because low is better."""
    return scorer.startswith("neg_") if isinstance(scorer, str) else getattr(scorer, "_sign", 1) < 0


def scorers_by_name(scoring: Any) -> dict[str, Any]:
    """Return the scorers of an argument `scoring` by name: a name, a function, a list or a dictionary.

    The second and later scorers with the same name get a number as suffix.
    """
    if isinstance(scoring, Mapping):
        return dict(scoring)
    scorers: dict[str, Any] = {}
    count: Counter[str] = Counter()
    for scorer in [scoring] if isinstance(scoring, str) or callable(scoring) else scoring:
        name = scorer if isinstance(scorer, str) else measure(scorer, 0)[0]
        count[name] += not isinstance(scorer, str)
        scorers[f"{name}_{count[name]}" if count[name] > 1 else name] = scorer
    return scorers


def measures_of_scores(scoring: Any, scorers: Mapping[str, Any], scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores as measures, named by their scorers or by the keys of the user's dictionary."""
    if isinstance(scoring, Mapping):
        return dict(measure_of(scoring, name, value) for name, value in scores.items())
    measures: dict[str, Any] = {}
    for name, value in scores.items():
        bare_name = name.removeprefix("neg_") if isinstance(scorers[name], str) else name
        measures[bare_name] = -1 * value if negates(scorers[name]) else 1 * value
    return measures


def layers(fitted: Any) -> list[dict[str, Any]]:
    """Return the layers of a multi-layer perceptron."""
    _, last = steps(fitted)
    weights, biases = getattr(last, "coefs_", None), getattr(last, "intercepts_", None)
    if not isinstance(weights, list) or not isinstance(biases, list):
        return []
    activations = [last.activation] * (len(weights) - 1) + [getattr(last, "out_activation_", "identity")]
    layers = []
    for number, (weight, bias, activation) in enumerate(zip(weights, biases, activations, strict=True), 1):
        name = "output" if number == len(weights) else f"hidden_{number}"
        fields = {"units": weight.shape[1], "activation": activation, "parameter_count": weight.size + bias.size}
        layers.append({"name": name, "type": "Dense", **fields})
    return layers
