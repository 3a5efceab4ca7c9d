"""Record epochs, rounds and folds after the fact, because scikit-learn reports nothing while they run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from provml.capture.sklearn import _introspect
from provml.journal.events import Begin, Done, Measured
from provml.journal.location import Location
from provml.recording.data import Data
from provml.recording.encoding import encode_measures
from provml.recording.run import Run
from provml.recording.stages import Stage, Step


class Clock:
    """The time at which something began: now, or some seconds `ago`."""

    def __init__(self, ago: float = 0.0) -> None:
        self.began = time.time() - ago
        """Wall-clock time, in seconds since the epoch."""
        self._counter = time.perf_counter() - ago

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._counter

    def seconds_since(self, moment: float) -> float:
        """Return the seconds since a wall-clock time, unaffected by changes of the clock after the beginning."""
        return self.seconds - (moment - self.began)


class Span(NamedTuple):
    """A section that is over: its location in the run, when it started, and its duration in seconds."""

    location: str
    start: float
    seconds: float


def record_section(run: Run, kind: str, span: Span, values: Mapping[str, Any], *, parent: str = "") -> None:
    """Record a section that is over, with its measures."""
    location, start, seconds = span
    run._emit(Begin(location, kind, start, index=Location.parse(location).epoch or 0, parent=parent))
    encoded, errors = encode_measures(values)
    if encoded:
        run._emit(Measured(location, encoded))
    run._emit(Done(location, start + seconds, seconds))
    for error in errors:
        run._report_error(error)


def record_history(
    run: Run, stage: Stage, clock: Clock, history: _introspect.History, validation_data: Sequence[Data]
) -> None:
    """Record the epochs or rounds of a fit. Their single durations are unknown: each gets an equal share."""
    count = max(len(values) for columns in history[1:] for values in columns.values())
    share = clock.seconds / count
    validation: Stage | None = None
    if history.validation:
        validation = Stage(run, "validation", "validation", validation_data, {}, ago=clock.seconds)
    for index in range(count):
        span = Span(f"{stage._location}/{index + 1}", clock.began + index * share, share)
        record_section(run, history.kind, span, _row(history.measures, index))
        measures = _row(history.validation, index)
        if validation is not None and measures:
            validation_span = Span(f"{validation._location}/{index + 1}", span.start + share, 0.0)
            record_section(run, "epoch", validation_span, measures, parent=span.location)
    if validation is not None:
        validation.done()


def record_candidates(run: Run, search: Any, clock: Clock, using: Sequence[Data]) -> None:
    """Record each candidate of a search as a validation with its parameters, whose folds are sections with scores.

    Only the mean duration of a candidate's folds is known. They are recorded one after the other, scaled to the
    duration of the search if several ran at once.
    """
    results, fold_count = search.cv_results_, int(getattr(search, "n_splits_", 0))
    durations = _durations(results["mean_fit_time"], results["mean_score_time"])
    scale = min(1.0, clock.seconds / max(sum(durations) * fold_count, 1e-9))
    start = clock.began
    names = _introspect.bare_names({name for params in results["params"] for name in params})
    for number, params in enumerate(results["params"]):
        seconds = durations[number] * scale
        encoded = {names[name]: _introspect.encode_param(value) for name, value in params.items() if name in names}
        values = {"candidate": number + 1, **_resources(results, number), **encoded}
        stage = Stage(run, "validation", "candidate", using, values, ago=clock.seconds_since(start))
        for fold in range(fold_count):
            span = Span(f"{stage._location}/{fold + 1}", start + fold * seconds, seconds)
            record_section(run, "fold", span, _fold_measures(search, number, fold))
        means = {key[5:]: results[key][number] for key in results if key.startswith("mean_test_")}
        stage.measured(**_measures(means, search, getattr(search, "scoring", None)))
        start += fold_count * seconds
        stage.done(ago=clock.seconds_since(start))


def _fold_measures(search: Any, number: int, fold: int) -> dict[str, Any]:
    """Return the measures of one fold of a candidate."""
    prefix = f"split{fold}_"
    scores = {key.removeprefix(prefix): values[number] for key, values in search.cv_results_.items() if prefix in key}
    return _measures(scores, search, getattr(search, "scoring", None))


def _resources(results: Mapping[str, Any], number: int) -> dict[str, int]:
    """Return the iteration of a halving search that a candidate was in, and its resources, such as rows."""
    columns = {"iteration": ("iter", 1), "n_resources": ("n_resources", 0)}
    return {name: int(results[key][number]) + offset for name, (key, offset) in columns.items() if key in results}


def best_candidate(search: Any) -> dict[str, Any]:
    """Return the number of the best candidate of a search, its mean score, and its parameters by bare name."""
    params = getattr(search, "best_params_", None) or {}
    names = _introspect.bare_names({name for candidate in search.cv_results_["params"] for name in candidate})
    index = getattr(search, "best_index_", None)
    values: dict[str, Any] = {"search_best_candidate": index + 1 if index is not None else None}
    values |= {"search_best_score": getattr(search, "best_score_", None)}
    return values | {names[name]: _introspect.encode_param(value) for name, value in params.items() if name in names}


def record_preparations(run: Run, steps: Sequence[tuple[str, Any]], clock: Clock, using: Sequence[Data]) -> list[Data]:
    """Record transformers that were fitted with a model between the clock's beginning and now; return their output."""
    data = list(using)
    for name, transformer in steps:
        values = {"transformer": type(transformer).__name__, **_introspect.parameters(transformer)}
        step = Step(run, "preparation", name, data, values, ago=clock.seconds)
        data = prepared_data(step, name, data)
        step.done()
    return data


def prepared_data(step: Step, name: str, using: Sequence[Data]) -> list[Data]:
    """Return the output of a transformer, of which only the name is known; targets stay as they are."""
    output = [step.produced(None, name=f"{data.name} by {name}", role=data.role) for data in using[:1]]
    return [*output, *using[1:]]


def record_folds(
    run: Run, stage: Stage, clock: Clock, scores: Mapping[str, Any], *, estimator: Any, scoring: Any
) -> None:
    """Record the folds of a cross-validation with their durations, and the means of their scores."""
    start = clock.began
    durations = _durations(scores["fit_time"], scores["score_time"])
    scale = min(1.0, clock.seconds / max(sum(durations), 1e-9))
    for fold, seconds in enumerate(durations):
        fold_scores = {key: values[fold] for key, values in scores.items() if key.startswith(("test_", "train_"))}
        span = Span(f"{stage._location}/{fold + 1}", start, seconds * scale)
        record_section(run, "fold", span, _measures(fold_scores, estimator, scoring))
        start += seconds * scale
    means = {key: sum(values) / len(values) for key, values in scores.items() if key.startswith("test_")}
    stage.measured(**_measures(means, estimator, scoring))


def _durations(fit_times: Any, score_times: Any) -> list[float]:
    return [float(sum(times)) for times in zip(fit_times, score_times, strict=True)]


def _measures(scores: Mapping[str, Any], estimator: Any, scoring: Any) -> dict[str, Any]:
    """Return scores by the names of their measures; those of the training data begin with "training_"."""
    return dict(_named_measures(scores, estimator, scoring))


def _named_measures(scores: Mapping[str, Any], estimator: Any, scoring: Any) -> Iterator[tuple[str, Any]]:
    for key, score in scores.items():
        side, _, scorer = key.partition("_")
        if side in ("test", "train"):
            if scorer != "score" or isinstance(scoring, Mapping):
                name, value = _introspect.measure_of(scoring, scorer, score)
            elif scoring is None:
                name, value = _introspect.score_measure(estimator, score)
            else:  # a single scorer
                name, value = _introspect.measure(scoring, score)
            yield (name if side == "test" else f"training_{name}"), value


def _row(columns: Mapping[str, list[float]], index: int) -> dict[str, float]:
    """Return the values at an index, of the columns that are long enough."""
    return {name: values[index] for name, values in columns.items() if index < len(values)}
