"""The questions about the life cycle answered in plain Python over the events, with no graph and no SPARQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from provml import event
from provml.rdf.exact import decode_value

BASE = "https://w3id.org/provml/run/"
STEPS = ("curation", "preparation", "filter", "split", "extraction", "step")
Row = tuple[Any, ...]
Step = tuple[str, str]
"""A run, and a place in it."""


@dataclass
class Place:
    """A stage, a step or a section, and all that was told of it: what it used, with what its own run had made it by."""

    run: str
    at: str
    kind: str = ""
    name: str = ""
    began: float = 0.0
    during: str = ""
    refs: dict[str, Step | None] = field(default_factory=dict)
    roles: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    settings: dict[str, Any] = field(default_factory=dict)
    initial: dict[str, Any] = field(default_factory=dict)
    in_force: dict[str, Any] = field(default_factory=dict)
    measures: list[tuple[str, Any]] = field(default_factory=list)
    batch_seconds: list[float] = field(default_factory=list)
    batch_measures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    is_done: bool = False

    @property
    def iri(self) -> str:
        return f"{BASE}{self.run}/{self.at}"

    @property
    def index(self) -> int:
        return int(self.at.rpartition("/")[2])


class Reckoning:
    """All runs, event by event."""

    def __init__(self, runs: dict[str, list[event.AnyEvent]]) -> None:
        self.places: dict[tuple[str, str], Place] = {}
        self.data: dict[tuple[str, str], list[event.Data]] = defaultdict(list)
        self.makers: dict[str, list[Step]] = defaultdict(list)
        self.models: list[tuple[str, str, str, dict[str, Any]]] = []
        self.tests: dict[tuple[str, str], list[Place]] = defaultdict(list)
        for run, events in runs.items():
            for what in events:
                self._take(run, what)

    def _take(self, run: str, what: event.AnyEvent) -> None:
        match what:
            case event.Begin():
                said = _read(what.values)
                place = Place(run, what.at, what.kind, what.name, what.t, what.during, settings=said)
                place.refs = {ref: self._own(run, ref) for ref in what.using}
                place.initial = dict(said)
                if "/" in what.at:
                    place.in_force = dict(self._stage(run, what.at).settings)
                self.places[run, what.at] = place
            case event.Parameter():
                self.places[run, what.at].settings |= _read(what.values)
                self.places[run, what.at].initial |= _read(what.values)
            case event.Adapted():
                self._stage(run, what.at).settings |= _read(what.values)
            case event.Used():
                place = self.places[run, what.at]
                if what.role == "model":
                    self.tests[run, what.ref].append(place)
                else:
                    place.roles[what.ref].add(what.role)
                place.refs[what.ref] = self._own(run, what.ref)
            case event.Data():
                self.data[run, what.ref].append(what)
            case event.Produced():
                if self.data[run, what.ref][0].kind == "model":
                    self.models.append((run, what.ref, what.at, _read(what.values)))
                else:
                    self.makers[what.ref].append((run, what.at))
            case event.Measured():
                self._measured(run, what)
            case event.Batch():
                self.places[run, what.at.rpartition("/")[0]].batch_seconds.append(what.s)
            case event.Done():
                self.places[run, what.at].is_done = True

    def _measured(self, run: str, what: event.Measured) -> None:
        values = _read(what.values)
        if what.at.count("/") == 2:
            for name, value in values.items():
                self.places[run, what.at.rpartition("/")[0]].batch_measures[name].append(value)
        else:
            self.places[run, what.at].measures += values.items()

    def _stage(self, run: str, at: str) -> Place:
        return self.places[run, at.partition("/")[0]]

    # ---- lineage

    def _own(self, run: str, ref: str) -> Step | None:
        """The step of a run that made some data last, as far as it is told by now."""
        return next((maker for maker in reversed(self.makers[ref]) if maker[0] == run), None)

    def steps_behind(self, user: Place, ref: str) -> set[Step]:
        """All steps that a dataset came from, as it was when this used it: the step of its own run, else of any."""
        return self._behind(user, ref)[0]

    def sources_of(self, user: Place, ref: str) -> set[str]:
        """The datasets that it came from and that nothing made."""
        return {one for one in self._behind(user, ref)[1] if not self.makers[one]}

    def _behind(self, user: Place, ref: str) -> tuple[set[Step], set[str]]:
        steps: set[Step] = set()
        refs = {ref}
        waiting = [(user, ref)]
        while waiting:
            place, one = waiting.pop()
            own = place.refs[one]
            for maker in [own] if own is not None else self.makers[one]:
                if maker not in steps:
                    steps.add(maker)
                    waiting += [(self.places[maker], used) for used in self.places[maker].refs]
                    refs |= set(self.places[maker].refs)
        return steps, refs

    def training_sets(self, training: Place) -> list[str]:
        """What a training trained on."""
        return sorted(ref for ref, roles in training.roles.items() if roles - {"validation", "test"})

    def trainings_on(self, ref: str) -> list[Place]:
        """The trainings on a dataset."""
        stages = [place for place in self.places.values() if place.kind == "training"]
        return [place for place in stages if ref in self.training_sets(place)]

    def epochs(self, training: Place) -> list[Place]:
        """The epochs of a stage."""
        return [
            place
            for place in self.places.values()
            if place.run == training.run and place.at.startswith(f"{training.at}/")
        ]

    def sets_of(self, low: int, high: int) -> list[tuple[Place, str]]:
        """The trainings, with the datasets they trained on, whose steps took slices within a range."""
        return [
            (training, ref)
            for training in self.places.values()
            if training.kind == "training"
            for ref in self.training_sets(training)
            if any(self._is_within(step, low, high) for step in self.steps_behind(training, ref))
        ]

    def _is_within(self, step: tuple[str, str], low: int, high: int) -> bool:
        said = self.places[step].settings
        return "first_slice" in said and said["first_slice"] >= low and said["last_slice"] <= high

    def known(self, ref: str) -> dict[str, Any]:
        """What was said of a dataset in all runs: its file, what it is about, its characteristics."""
        said: dict[str, Any] = {}
        for (_, one), tellings in self.data.items():
            if one == ref:
                for what in tellings:
                    said |= {"file": what.path, **({"about": what.about[0]} if what.about else {})} | _read(what.values)
        return said

    # ---- the questions

    def l1(self, run: str, model: str, places: dict[str, tuple[str | None, str | None]]) -> list[Row]:
        """Seismic behind a model."""
        rows = []
        for training, ref in self._sets_behind(run, model):
            for raw in self.sources_of(training, ref):
                known = self.known(raw)
                basin, survey_field = places.get(known.get("about", ""), (None, None))
                where = (known.get("latitude"), known.get("longitude"), basin, survey_field)
                rows.append((f"urn:{ref}", known["file"], *where, known.get("slices")))
        return rows

    def _sets_behind(self, run: str, model: str) -> list[tuple[Place, str]]:
        made = {at.partition("/")[0] for r, ref, at, _ in self.models if (r, ref) == (run, model)}
        stages = [self.places[run, stage] for stage in sorted(made)]
        return [(stage, ref) for stage in stages for ref in self.training_sets(stage)]

    def l2(self, run: str, model: str) -> list[Row]:
        """Preparation behind a model."""
        return [
            (f"urn:{ref}", place.iri, place.name, name, value)
            for training, ref in self._sets_behind(run, model)
            for place in (self.places[step] for step in self.steps_behind(training, ref))
            for name, value in place.settings.items()
        ]

    def l3(self, ref: str) -> list[Row]:
        """The model of least loss on a training set."""
        epochs = [(training, epoch) for training in self.trainings_on(ref) for epoch in self.epochs(training)]
        losses = [value for _, epoch in epochs for name, value in epoch.measures if name == "loss" and value == value]
        least = min(losses, default=None)
        return [
            (training.iri, epoch.index, model, *row)
            for training, epoch in epochs
            if any(name == "loss" and value == least for name, value in epoch.measures)
            for model, row in self._account(training, epoch)
        ]

    def _account(self, training: Place, epoch: Place) -> Iterator[tuple[str | None, Row]]:
        """Each model of an epoch (else of its training) with each thing to tell of it."""
        own = [one for one in self.models if one[0] == epoch.run and one[2] == epoch.at]
        whole = [one for one in self.models if one[0] == epoch.run and one[2] == training.at]
        rows: list[Row] = [("hyperparameter", *pair) for pair in epoch.in_force.items()]
        rows += [("hyperparameter", name, v) for name, v in training.initial.items() if name not in epoch.in_force]
        for _, _, _, said in own:
            rows += [("model", "epoch", epoch.index), *(("model", *pair) for pair in said.items())]
        rows += [("training", *pair) for pair in epoch.measures]
        for twin in self._twins(epoch):
            rows += [("validation", *pair) for pair in twin.measures]
        for run, ref, _, _ in own or whole:
            rows += [("evaluation", *pair) for test in self.tests[run, ref] for pair in test.measures]
        for model in [f"{BASE}{run}/data/{ref}" for run, ref, _, _ in own or whole] or [None]:
            for row in rows:
                yield model, row

    def _twins(self, epoch: Place) -> list[Place]:
        return [one for one in self.places.values() if one.run == epoch.run and one.during == epoch.at]

    def l4(self, ref: str) -> list[Row]:
        """Batch times by epoch."""
        return [
            (training.iri, epoch.index, len(s), sum(s) / len(s), min(s), max(s))
            for training in self.trainings_on(ref)
            for epoch in self.epochs(training)
            if (s := epoch.batch_seconds) and epoch.is_done
        ]

    def l5(self, low: int, high: int) -> list[Row]:
        """Times and measures for a range of slices."""
        return [
            (f"urn:{ref}", training.iri, epoch.index, sum(s) / len(s) if s and epoch.is_done else None, *pair)
            for training, ref in self.sets_of(low, high)
            for epoch in self.epochs(training)
            for s in [epoch.batch_seconds]
            for pair in epoch.measures
        ]

    def l6(self, low: int, high: int, places: dict[str, tuple[str | None, str | None]]) -> list[Row]:
        """Seismic behind the sets of a range of slices."""
        rows = []
        for ref, raws in self._sources_within(low, high).items():
            for raw in raws:
                known = self.known(raw)
                rows.append(
                    (
                        f"urn:{ref}",
                        known["file"],
                        known.get("slices"),
                        *places.get(known.get("about", ""), (None, None)),
                    )
                )
        return rows

    def _sources_within(self, low: int, high: int) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for training, ref in self.sets_of(low, high):
            found[ref] |= self.sources_of(training, ref)
        return found

    def l7(self, low: int, high: int, measure: str = "loss") -> list[Row]:
        """Models by the best of a measure over batches for a range of slices, with their twins."""
        found = {(training.run, training.at): training for training, _ in self.sets_of(low, high)}
        rows = []
        for training in found.values():
            for epoch in self.epochs(training):
                own = [one for one in self.models if one[0] == epoch.run and one[2] == epoch.at]
                whole = [one for one in self.models if one[0] == epoch.run and one[2] == training.at]
                mine = [*epoch.in_force.items(), *(pair for one in own for pair in one[3].items())]
                mine += [("epoch", epoch.index)] if own else []
                twins = self._twins(epoch)
                theirs = [pair for twin in twins for pair in twin.in_force.items()]
                measured = [pair for twin in twins for pair in twin.measures]
                lists = (_pairs(mine), _pairs(epoch.measures), _pairs(theirs), _pairs(measured))
                least = _best([epoch], measure), _best(twins, measure)
                for model in [f"{BASE}{run}/data/{ref}" for run, ref, _, _ in own or whole] or [None]:
                    rows.append((training.iri, epoch.index, model, least[0], *lists, least[1]))
        return rows


def _best(places: list[Place], measure: str) -> float | None:
    """The best value of a measure over the batches of all that is done, if there is any: a loss is better low."""
    numbers = [float(one) for place in places if place.is_done for one in place.batch_measures.get(measure, [])]
    return (min if "loss" in measure else max)((one for one in numbers if one == one), default=None)


def _read(values: event.Values) -> dict[str, Any]:
    return {name: decode_value(value) for name, value in values.items()}


def _pairs(pairs: Iterable[tuple[str, Any]]) -> frozenset[tuple[str, str]]:
    """Names and values as l7 lists them, whatever the order and the writing of numbers."""
    return frozenset((name, as_text(value)) for name, value in pairs)


def as_text(value: Any) -> str:
    """A value so that two writings of one number are the same."""
    try:
        return f"{float(value):.9g}"
    except (TypeError, ValueError):
        return str(value)
