"""Optuna: each trial of a study is a child run with its parameters and its value; a pruned trial is PRUNED."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session
from provml.recording.kinds import hyperparameter_of
from provml.recording.run import Run


def activate(session: Session, patches: Patches) -> None:
    """Wrap `Study.optimize`."""
    optuna = sys.modules["optuna"]

    def make_optimize(original: Callable[..., Any]) -> Callable[..., Any]:
        def optimize(study: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            parent = session.guard(session.run) if not session.is_busy else None
            objective = recorded_objective(session, parent, func) if parent is not None else func
            return original(study, objective, *args, **kwargs)

        return optimize

    patches.wrap(optuna.Study, "optimize", make_optimize)


def recorded_objective(session: Session, parent: Run, func: Callable[..., Any]) -> Callable[..., Any]:
    """Return an objective whose trials are child runs."""

    def objective(trial: Any) -> Any:
        child = session.guard(parent.child, f"trial {trial.number}")
        if child is None:
            return func(trial)
        with session.recording_into(child, lambda: dict(trial.params)):
            try:
                value = func(trial)
            except BaseException as error:
                session.guard(_record_value, session, child, trial, None)
                session.guard(child.finish, error=error)
                raise
            session.guard(_record_value, session, child, trial, value)
            session.guard(child.finish)
            return value

    try:
        return wraps(func)(objective)
    except Exception:  # a callable object without a name
        return objective


def _record_value(session: Session, child: Run, trial: Any, value: Any) -> None:
    """Record the parameters that were suggested, and the value of the objective."""
    captures = session.captures_of(child)
    if value is not None:
        for capture in captures:
            capture.done()  # a loop ends its training, and records its model, when it is asked to
    suggested = {hyperparameter_of(name): item for name, item in trial.params.items()}
    trainings = [capture.last_training for capture in captures if capture.last_training is not None]
    for training in trainings:
        missing = {name: item for name, item in suggested.items() if name not in training._values}
        if missing:
            training.parameters(**missing)
    model = next((capture.models.last for capture in captures if capture.models.last is not None), None)
    if value is None and trainings:
        return
    with child.evaluation(of=model, name="objective", **({} if trainings else suggested)) as test:
        values = value if isinstance(value, (list, tuple)) else [value]
        names = ["objective"] if len(values) == 1 else [f"objective_{number}" for number in range(1, len(values) + 1)]
        test.measured(**{name: item for name, item in zip(names, values, strict=True) if item is not None})
