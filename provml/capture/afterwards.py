"""What is told when all is over: epochs, rounds and folds of which a framework says nothing while they run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provml.capture import estimator as about
from provml.content import Data, measures
from provml.event import Begin, Done, Measured
from provml.recorder import Recorder
from provml.sections import Stage, Step


class Clock:
    """When something began, now or some seconds ago, by the wall and by the counter."""

    def __init__(self, ago: float = 0.0) -> None:
        self.began = time.time() - ago
        self._count = time.perf_counter() - ago

    @property
    def seconds(self) -> float:
        """How long ago that was."""
        return time.perf_counter() - self._count

    def ago(self, moment: float) -> float:
        """How long ago a moment was that is so many seconds after the beginning, which has not changed since."""
        return self.seconds - (moment - self.began)


def section(
    run: Recorder, at: str, kind: str, start: float, seconds: float, values: Mapping[str, Any], *, during: str = ""
) -> None:
    """Tell a section that is over."""
    run.tell(Begin(at, kind, start, index=int(at.rpartition("/")[2]), during=during))
    kept, wrong = measures(values)
    if kept:
        run.tell(Measured(at, kept))
    run.tell(Done(at, start + seconds, seconds))
    for error in wrong:
        run.fault(error)


def history(run: Recorder, stage: Stage, clock: Clock, how: about.History, validation: Sequence[Data]) -> None:
    """The epochs or rounds of a fit. Their times are not known one by one: each has an equal share of the fit's."""
    count = max(len(values) for side in how[1:] for values in side.values())
    share = clock.seconds / count
    twin = Stage(run, "validation", "validation", validation, {}, ago=clock.seconds) if how.validation else None
    for index in range(count):
        at, start = f"{stage.at}/{index + 1}", clock.began + index * share
        section(run, at, how.kind, start, share, _row(how.measures, index))
        seen = _row(how.validation, index)
        if twin is not None and seen:
            section(run, f"{twin.at}/{index + 1}", "epoch", start + share, 0.0, seen, during=at)
    if twin is not None:
        twin.done()


def candidates(run: Recorder, search: Any, clock: Clock, using: Sequence[Data]) -> None:
    """The candidates of a search: each a validation with its parameters, whose folds are sections with scores.

    The mean time of a candidate's folds is known. They are told one after the other, and where several ran at once, in
    the time that all took.
    """
    results, scoring = search.cv_results_, getattr(search, "scoring", None)
    folds = int(getattr(search, "n_splits_", 0))
    each = [float(sum(pair)) for pair in zip(results["mean_fit_time"], results["mean_score_time"], strict=True)]
    scale = min(1.0, clock.seconds / max(sum(each) * folds, 1e-9))
    start = clock.began
    titles = about.bare_names({name for chosen in results["params"] for name in chosen})
    for number, chosen in enumerate(results["params"]):
        seconds = each[number] * scale
        said = {titles[name]: about.held(value) for name, value in chosen.items() if name in titles}
        values = {"candidate": number + 1, **_share(results, number), **said}
        stage = Stage(run, "validation", "candidate", using, values, ago=clock.ago(start))
        for fold in range(folds):
            found = {
                key.removeprefix(f"split{fold}_"): results[key][number] for key in results if f"split{fold}_" in key
            }
            section(
                run,
                f"{stage.at}/{fold + 1}",
                "fold",
                start + fold * seconds,
                seconds,
                _measures(found, search, scoring),
            )
        means = {key[5:]: results[key][number] for key in results if key.startswith("mean_test_")}
        stage.measured(**_measures(means, search, scoring))
        start += folds * seconds
        stage.done(ago=clock.ago(start))


def _share(results: Mapping[str, Any], number: int) -> dict[str, int]:
    """In which iteration of a halving search a candidate was, and how many rows or the like it had."""
    found = {"iteration": ("iter", 1), "n_resources": ("n_resources", 0)}
    return {ours: int(results[theirs][number]) + more for ours, (theirs, more) in found.items() if theirs in results}


def best(search: Any) -> dict[str, Any]:
    """What a search found: the number of the candidate that won, its mean score, and its parameters by bare name."""
    chosen = getattr(search, "best_params_", None) or {}
    titles = about.bare_names({name for one in search.cv_results_["params"] for name in one})
    index = getattr(search, "best_index_", None)
    said: dict[str, Any] = {"search_best_candidate": index + 1 if index is not None else None}
    said |= {"search_best_score": getattr(search, "best_score_", None)}
    return said | {titles[name]: about.held(value) for name, value in chosen.items() if name in titles}


def preparations(run: Recorder, steps: Sequence[tuple[str, Any]], clock: Clock, using: Sequence[Data]) -> list[Data]:
    """Transformers that were fitted with a model, from a clock's beginning until now; what the last of them gave."""
    given = list(using)
    for name, one in steps:
        values = {"transformer": type(one).__name__, **about.parameters(one)}
        step = Step(run, "preparation", name, given, values, ago=clock.seconds)
        given = prepared(step, name, given)
        step.done()
    return given


def prepared(step: Step, name: str, using: Sequence[Data]) -> list[Data]:
    """What a transformer gives for what it was given, of which no more is known; targets stay as they are."""
    made = [step.produced(None, name=f"{data.name} by {name}", role=data.role) for data in using[:1]]
    return [*made, *using[1:]]


def folds(run: Recorder, stage: Stage, clock: Clock, estimator: Any, scoring: Any, scores: Mapping[str, Any]) -> None:
    """The folds of a cross-validation, with their own times, and the means of their scores."""
    start = clock.began
    each = [float(sum(pair)) for pair in zip(scores["fit_time"], scores["score_time"], strict=True)]
    scale = min(1.0, clock.seconds / max(sum(each), 1e-9))
    for fold, seconds in enumerate(each):
        found = {key: values[fold] for key, values in scores.items() if key.startswith(("test_", "train_"))}
        at = f"{stage.at}/{fold + 1}"
        section(run, at, "fold", start, seconds * scale, _measures(found, estimator, scoring))
        start += seconds * scale
    means = {key: sum(values) / len(values) for key, values in scores.items() if key.startswith("test_")}
    stage.measured(**_measures(means, estimator, scoring))


def _measures(found: Mapping[str, Any], estimator: Any, scoring: Any) -> dict[str, Any]:
    """Scores by the names of their measures; those of the training data have that before their name."""
    return dict(_named(found, estimator, scoring))


def _named(found: Mapping[str, Any], estimator: Any, scoring: Any) -> Iterator[tuple[str, Any]]:
    for key, value in found.items():
        side, _, name = key.partition("_")
        if side in ("test", "train"):
            if name != "score" or isinstance(scoring, Mapping):
                title, held = about.measure_of(scoring, name, value)
            elif scoring is None:
                title, held = about.scored(estimator, value)
            else:  # one scorer only
                title, held = about.measure(scoring, value)
            yield (title if side == "test" else f"training_{title}"), held


def _row(columns: Mapping[str, list[float]], index: int) -> dict[str, float]:
    """The values at one index, of the columns that go so far."""
    return {name: values[index] for name, values in columns.items() if index < len(values)}
