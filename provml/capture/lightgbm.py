"""LightGBM: two callbacks for `train`, `cv`, and the estimators of its own."""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import Any

from provml.capture.boosting import Boosting, number
from provml.capture.caller import caller, named
from provml.capture.recording import BY_HAND, Technique, hook
from provml.content import Data
from provml.errors import MissingPart, WrongType
from provml.recorder import Recorder

try:
    import lightgbm
except ImportError as error:
    raise MissingPart("lightgbm", "lightgbm") from error

SETTING = re.compile(r"^\[(\w+): (.+)\]$", re.M)
LEFT = ("data", "valid", "verbosity", "output_model", "input_model", "saved_feature_importance_type")
ALIASES = {
    "eta": "learning_rate",
    "shrinkage_rate": "learning_rate",
    "reg_alpha": "lambda_l1",
    "reg_lambda": "lambda_l2",
}


class Capture(Boosting):
    """Records a training: `lightgbm.train(…, callbacks=capture.callbacks)`, or `.fit(…, callbacks=capture.callbacks)`.

    `save_model` is where to save the model when a training is over; the rest is as in every capture.
    """

    rounds_name = "num_iterations"

    def __init__(self, name: str = "", **settings: Any) -> None:
        super().__init__(name, **settings)
        self.callbacks = [_Callback(self._before, 15, before=True), _Callback(self._after, 25, before=False)]
        self._model: Any = None
        self._params: dict[str, Any] = {}
        self._beside: list[Any] = []
        self._rounds = 0
        self._objective: str | None = None

    def __call__(self, env: Any) -> None:
        """No callback itself: LightGBM would call it before the rounds or after them, and not both."""
        raise WrongType("train", "callbacks", self, "the callbacks of a capture", "Say callbacks=capture.callbacks.")

    # ---- hooks

    def _before(self, env: Any) -> None:
        self._params = env.params
        if env.iteration == env.begin_iteration:
            self.settle()
            call = caller("lightgbm.engine", "train", "cv")
            self._model, self._rounds = env.model, 0
            self._objective = named(call.get("fobj"))
            self._beside = list(call.get("callbacks") or ())
            self._planned = env.end_iteration - env.begin_iteration
            self._begin(env, call)
        self._begin_round(env.iteration - env.begin_iteration + 1)

    @hook
    def _begin(self, env: Any, call: dict[str, Any]) -> None:
        is_cv = hasattr(env.model, "boosters")
        sets, titles = call.get("valid_sets") or [], call.get("valid_names") or []
        sets, titles = (
            [one] if hasattr(one, "get_label") or isinstance(one, str) else list(one) for one in (sets, titles)
        )
        titled = dict(zip(titles or [f"valid_{n}" for n in range(len(sets))], sets, strict=False))
        own = [title for title, held in titled.items() if held is call.get("train_set")]
        self._trained_on = own[0] if own and titles else "training"
        self.anew("training", "validation")
        for title, held in titled.items():
            if title not in own:
                self.data("validation", partial(_tell, self.run, held, "validation", title), of=held)
                break
        held = call.get("train_set")
        using = self.data("training", partial(_tell, self.run, held, "training", "training data"), of=held)
        values = {**self._all_settings(), **self.now(), self.rounds_name: self._planned}
        values |= {"early_stopping_rounds": self._patience(), "folds": len(env.model.boosters) if is_cv else None}
        beside = [title for title in titled if title not in own]
        after = call.get("init_model")
        stage = self.begin(values, using, beside, is_cv=is_cv, model=env.model, after=after)
        said = {"software": "lightgbm", "version": lightgbm.__version__}
        stage.implemented_by(str(values.get("boosting", "gbdt")), **said)

    @hook
    def _begin_round(self, index: int) -> None:
        if self.stage is not None:
            self.expect_epoch(index)
            self.open_epoch()

    def _after(self, env: Any) -> None:
        self._rounds += 1
        self._end_round(env)
        if self._rounds == self._planned and self._patience() is None:
            self.settle()

    @hook
    def _end_round(self, env: Any) -> None:
        scores: dict[str, dict[str, Any]] = {}
        for one in env.evaluation_result_list or ():
            name, title, value = one[0], one[1], one[2]
            scores.setdefault(name, {})[title] = value
        self.close_round(scores)

    def settle(self, error: BaseException | None = None) -> None:
        """End the training, and save its model, recorded or not: LightGBM does not tell a callback that it is over."""
        model, self._model = self._model, None
        if model is None:
            return
        best = int(getattr(model, "best_iteration", 0) or 0)
        if self._rounds != self._planned and best < 1:  # it was not stopped early either
            self._fail(error or sys.exc_info()[1] or RuntimeError("the training was left before its end"))
            return
        if self._save_to is not None and not hasattr(model, "boosters"):
            self._save_to.parent.mkdir(parents=True, exist_ok=True)
            model.save_model(self._save_to)
        self._conclude(model, best)

    @hook
    def _fail(self, error: BaseException) -> None:
        self.end_training(error=error)

    @hook
    def _conclude(self, model: Any, best: int) -> None:
        if self.stage is None:
            return
        patience = self._patience()
        why = f"no better for {patience} rounds; the best was round {best}" if patience and best > 0 else ""
        self.stopped_early("early stopping" if patience else BY_HAND, why)
        if not self._is_cv:
            said: dict[str, Any] = {"num_features": model.num_feature(), "rounds": model.current_iteration()}
            said |= {"best_round": best} if best > 0 else {}
            self.saved(self._save_to, **said)
        self.end_training()

    def booster(self, model: Any) -> Any:
        """The model inside an estimator; any other as it is."""
        return model.booster_ if isinstance(model, lightgbm.LGBMModel) else model

    def _patience(self) -> int | None:
        """After how many rounds without a better one it stops, if it does."""
        found = [getattr(one, "stopping_rounds", None) for one in self._beside]
        return next((int(one) for one in found if one), None)

    # ---- hyperparameters

    def _all_settings(self) -> dict[str, Any]:
        """The settings in force, those that nobody gave among them, as a model writes them."""
        model = getattr(self._model, "boosters", [self._model])[0]
        text = model.model_to_string().rpartition("\nparameters:")[2].partition("end of parameters")[0]
        return {name: number(value) for name, value in SETTING.findall(text) if name not in LEFT}

    def now(self) -> dict[str, Any]:
        found = {ALIASES.get(name, name): held for name, held in self._params.items() if name not in LEFT}
        return found | ({"objective": self._objective} if self._objective else {})

    def technique(self, name: str, old: Any, new: Any) -> Technique:
        scheduled = {key for one in self._beside for key in (getattr(one, "kwargs", None) or {})}
        return ("reset_parameter" if name in {ALIASES.get(key, key) for key in scheduled} else BY_HAND), {}


class _Callback:
    """A hook as LightGBM calls it: in what order among others, and whether before a round or after it."""

    def __init__(self, call: Any, order: int, *, before: bool) -> None:
        self.order = order
        self.before_iteration = before
        self._call = call

    def __call__(self, env: Any) -> None:
        self._call(env)


def _tell(run: Recorder, held: Any, role: str, name: str) -> list[Data]:
    """A data set of LightGBM's by its size: it no longer has what it was made of."""
    if held is None:
        return []
    said = {"data_type": type(held).__name__, "instances": held.num_data(), "features": held.num_feature()}
    return [run.dataset(None, role=role, name=name, **said)]
