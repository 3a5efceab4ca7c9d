"""What an estimator of scikit-learn's kind says of itself: parameters, what it learned, and how its fit went."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from provml.content import direction_of
from provml.secret import is_secret, without_secrets
from provml.values import PLAIN, plain

LONGEST = 200
"""Longer lists, and longer texts of what is no plain value, are cut short."""
MEASURES = {
    "inertia_": "inertia",
    "oob_score_": "oob_score",
    "best_loss_": "best_loss",
    "reconstruction_err_": "reconstruction_error",
}
"""What some estimators measure while they are fitted, and our names for it."""
SPACES = ("param_grid", "param_distributions", "param_space", "search_spaces")
"""Where searches keep what they search."""
SCORING = ("LogisticRegressionCV",)
"""Estimators that are no searches, and whose `score` gives what their `scoring` says."""
FACTS = ("n_features_in_", "n_outputs_", "n_estimators_", "n_iter_", "n_leaves_", "n_clusters_", "n_components_")


class History(NamedTuple):
    """How a fit went, section by section: their kind, and the measures of training and of validation."""

    kind: str
    measures: dict[str, list[float]]
    validation: dict[str, list[float]]


def is_search(estimator: Any) -> bool:
    """Whether it looks for the best parameters of another, by cross-validation."""
    return hasattr(estimator, "estimator") and any(hasattr(estimator, space) for space in SPACES)


def steps(estimator: Any) -> tuple[list[tuple[str, Any]], Any]:
    """The transformers of a pipeline, those of pipelines inside it as well, and what is fitted on what they give."""
    held = getattr(estimator, "steps", None)
    if not held or not isinstance(held, (list, tuple)) or not all(isinstance(one, (tuple, list)) for one in held):
        return [], estimator  # a parameter of its own may be called so
    found: list[tuple[str, Any]] = []
    for name, one in estimator.steps[:-1]:
        if one is not None and one != "passthrough":
            inner, last = steps(one)
            found += [(f"{name}.{title}", step) for title, step in inner] + [(name, last)]
    name, last = estimator.steps[-1]
    if last is None or last == "passthrough":  # what is fitted last is the one before it
        return (found[:-1], found[-1][1]) if found else ([], estimator)
    inner, last = steps(last)
    return found + [(f"{name}.{title}", step) for title, step in inner], last


def parameters(estimator: Any) -> dict[str, Any]:
    """Its parameters, and those of estimators inside it as `outer__inner`."""
    if not hasattr(estimator, "get_params"):
        return {}
    return {name: held(value) for name, value in sorted(without_secrets(estimator.get_params(deep=True)).items())}


def bare_names(names: Iterable[str]) -> dict[str, str]:
    """What parameters such as `svc__C` are told as: C, which questions ask for; whole where two end alike."""
    several = [name for name in names if not is_secret(name)]
    ends = Counter(name.rpartition("__")[2] for name in several)
    return {name: end if ends[end := name.rpartition("__")[2]] == 1 else name for name in several}


def described(estimator: Any) -> dict[str, Any]:
    """What it is, and its parameters; one that holds another as `estimator` has that as its `inner_estimator`."""
    values = parameters(estimator)
    inner = values.pop("estimator", None)
    return {"estimator": type(estimator).__name__, "inner_estimator": inner, **values}


def changed(estimator: Any) -> list[str]:
    """The names of the parameters that are not what their class gives by itself."""
    if not hasattr(estimator, "get_params"):
        return []
    own = inspect.signature(type(estimator).__init__).parameters
    found = []
    for name, value in sorted(estimator.get_params(deep=False).items()):
        default = own[name].default if name in own else inspect.Parameter.empty
        if held(value) != held(default):
            found.append(name)
    return found


def held(value: Any) -> Any:
    """A parameter as it is recorded: plain values as they are, anything else by its name or its text."""
    if value is None:
        return "None"
    if plain(value).__class__ in PLAIN:
        return value
    if isinstance(value, (list, tuple, dict)):
        inside = value.values() if isinstance(value, dict) else value
        if len(value) <= LONGEST and all(plain(one).__class__ in PLAIN for one in inside):
            return value
    if isinstance(value, type):
        return value.__qualname__
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    if hasattr(value, "get_params"):
        return type(value).__name__
    if callable(value):
        return str(getattr(value, "__qualname__", "") or type(value).__name__)
    return (type(value).__name__ if " object at 0x" in repr(value) else repr(value))[:LONGEST]


def facts(fitted: Any) -> dict[str, Any]:
    """What is known of a fitted model: how many features it takes, which classes it tells apart, and the like."""
    _, last = steps(fitted)
    found: dict[str, Any] = {}
    for name in FACTS:
        value: Any = getattr(fitted, name, getattr(last, name, None))
        value = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(value, (int, float, list)) and value != []:
            found[name.rstrip("_")] = value[0] if isinstance(value, list) and len(value) == 1 else value
    classes = getattr(last, "classes_", None)
    if classes is not None and getattr(classes, "ndim", 0) == 1:
        found["n_classes"] = len(classes)
        found["classes"] = [str(one) if isinstance(one, bytes) else one for one in classes.tolist()[:LONGEST]]
    names = getattr(fitted, "feature_names_in_", None)
    if names is not None:
        found["feature_names"] = [str(one) for one in names[:LONGEST]]
    return found


def measures(fitted: Any) -> dict[str, float]:
    """What it measured of the whole fit."""
    _, last = steps(fitted)
    found: dict[str, Any] = {ours: getattr(last, theirs, None) for theirs, ours in MEASURES.items()}
    return {name: value for name, value in found.items() if plain(value).__class__ in (int, float)}


def history(fitted: Any) -> History | None:
    """How its fit went by epoch or round, of those that keep that."""
    _, last = steps(fitted)
    score = score_name(last)
    if curve := _list(last, "loss_curve_"):
        return History("epoch", {"loss": curve}, _column(score, _list(last, "validation_scores_")))
    if hasattr(last, "do_early_stopping_"):  # histograms: what is first is before any round; losses are negated
        name, sign = measure("neg_loss" if last.scoring == "loss" else last.scoring or score, 1)
        sides = [[sign * one for one in _list(last, side)[1:]] for side in ("train_score_", "validation_score_")]
        return History("round", _column(name, sides[0]), _column(name, sides[1])) if any(sides) else None
    if scores := _list(last, "train_score_"):
        return History("round", {"loss": scores}, {})
    if errors := _list(last, "estimator_errors_"):
        return History("round", {"error": errors[: len(last.estimators_)]}, {})
    if bounds := _list(last, "lower_bounds_"):
        return History("epoch", {"lower_bound": bounds}, {})
    return None


def added(history: History | None, before: History | None) -> History | None:
    """What a fit added to how it had gone before, where a warm start keeps both in one list."""
    if history is None or before is None:
        return history
    sides = [_rest(*pair) for pair in zip(history[1:], before[1:], strict=True)]
    return History(history.kind, *sides) if any(sides) else None


def _rest(columns: dict[str, list[float]], before: dict[str, list[float]]) -> dict[str, list[float]]:
    """What columns have after what was in them before; all of one that began anew."""
    cut = {name: len(old) if columns.get(name, [])[: len(old)] == old else 0 for name, old in before.items()}
    rest = {name: values[cut.get(name, 0) :] for name, values in columns.items()}
    return {name: values for name, values in rest.items() if values}


def _list(estimator: Any, name: str) -> list[float]:
    """What an estimator keeps by a name, if that is a list or an array of one dimension."""
    kept = getattr(estimator, name, None)
    is_list = isinstance(kept, list) or getattr(kept, "ndim", 0) == 1
    return [float(one) for one in kept] if kept is not None and is_list else []


def _column(name: str, values: list[float]) -> dict[str, list[float]]:
    return {name: values} if values else {}


def score_name(estimator: Any) -> str:
    """The name of what `score` gives by itself."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    kind = getattr(tags(), "estimator_type", None) if tags is not None else getattr(estimator, "_estimator_type", None)
    return {"classifier": "accuracy", "regressor": "r2"}.get(str(kind), "score")


def scored(estimator: Any, value: Any) -> tuple[str, Any]:
    """What the `score` of an estimator gave, by the name of its measure: what a search looks for, if it is one."""
    _, last = steps(estimator)
    by = getattr(last, "scoring", None) if is_search(last) or type(last).__name__ in SCORING else None
    if getattr(last, "multimetric_", False):
        return measure_of(by, last.refit, value)  # the one of its measures that decides
    return measure(by or score_name(estimator), value)


def measure(scorer: Any, value: Any) -> tuple[str, Any]:
    """A score by the name of its measure, or of the scorer: scikit-learn negates those that are better low."""
    if isinstance(scorer, str):
        return scorer.removeprefix("neg_"), -value if negates(scorer) else value
    inside = getattr(scorer, "_score_func", scorer)  # of one that `make_scorer` made
    name = getattr(inside, "__name__", "") or type(inside).__name__
    return name, -value if negates(scorer) else value


def measure_of(scoring: Any, name: str, value: Any) -> tuple[str, Any]:
    """The same for one of several scorers. In a dictionary its name is the user's, and tells if it is better low."""
    scorer = scoring.get(name) if isinstance(scoring, Mapping) else None
    if scorer is not None and negates(scorer) and direction_of(name) == "minimize":
        return name.removeprefix("neg_"), -value
    return measure(name, value)


def negates(scorer: Any) -> bool:
    """Whether a scorer gives what is better low with its sign turned."""
    return scorer.startswith("neg_") if isinstance(scorer, str) else getattr(scorer, "_sign", 1) < 0


def scorers(scoring: Any) -> dict[str, Any]:
    """Scorers by name, of what scikit-learn takes for them: one or several, by their names or as they are.

    Of several of one name, the second and later ones have their number after it.
    """
    if isinstance(scoring, Mapping):
        return dict(scoring)
    found: dict[str, Any] = {}
    count: Counter[str] = Counter()
    for one in [scoring] if isinstance(scoring, str) or callable(scoring) else scoring:
        name = one if isinstance(one, str) else measure(one, 0)[0]
        count[name] += not isinstance(one, str)
        found[f"{name}_{count[name]}" if count[name] > 1 else name] = one
    return found


def measured(scoring: Any, asked: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """What scorers found, by the names of their measures: their own, and of a dictionary the user's."""
    if isinstance(scoring, Mapping):
        return dict(measure_of(scoring, name, value) for name, value in found.items())
    signs = {name: -1 if negates(asked[name]) else 1 for name in found}
    return {
        name.removeprefix("neg_") if isinstance(asked[name], str) else name: signs[name] * found[name] for name in found
    }


def layers(fitted: Any) -> list[dict[str, Any]]:
    """The layers of a perceptron."""
    _, last = steps(fitted)
    weights, biases = getattr(last, "coefs_", None), getattr(last, "intercepts_", None)
    if not isinstance(weights, list) or not isinstance(biases, list):
        return []
    activations = [last.activation] * (len(weights) - 1) + [getattr(last, "out_activation_", "identity")]
    found = []
    for number, (weight, bias, activation) in enumerate(zip(weights, biases, activations, strict=True), 1):
        name = "output" if number == len(weights) else f"hidden_{number}"
        said = {"units": weight.shape[1], "activation": activation, "parameter_count": weight.size + bias.size}
        found.append({"name": name, "type": "Dense", **said})
    return found
