"""The questions about the life cycle answered in plain Python over the events, with no graph and no SPARQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from provml.journal import events as event
from provml.rdf.json_values import decode_value

BASE = "https://w3id.org/provml/run/"
STEPS = ("curation", "preparation", "filter", "split", "extraction", "step")
Row = tuple[Any, ...]
Step = tuple[str, str]
"""A run, and a section in it."""


@dataclass
class Section:
    """A stage, a step or a section. `refs` maps the data it used to the step of its own run that produced it."""

    run: str
    at: str
    kind: str = ""
    name: str = ""
    started: float = 0.0
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


class ExpectedAnswers:
    """The events of all runs, and the answers to questions about them."""

    def __init__(self, runs: dict[str, list[event.AnyEvent]]) -> None:
        self.sections: dict[tuple[str, str], Section] = {}
        self.data: dict[tuple[str, str], list[event.Data]] = defaultdict(list)
        self.makers: dict[str, list[Step]] = defaultdict(list)
        self.models: list[tuple[str, str, str, dict[str, Any]]] = []
        self.tests: dict[tuple[str, str], list[Section]] = defaultdict(list)
        for run, events in runs.items():
            for item in events:
                self._add(run, item)

    def _add(self, run: str, item: event.AnyEvent) -> None:
        match item:
            case event.Begin():
                self._begin(run, item)
            case event.Parameter():
                self.sections[run, item.location].settings |= _read(item.values)
                self.sections[run, item.location].initial |= _read(item.values)
            case event.Adapted():
                self._stage(run, item.location).settings |= _read(item.values)
            case event.Used():
                self._used(run, item)
            case event.Data():
                self.data[run, item.ref].append(item)
            case event.Produced():
                if self.data[run, item.ref][0].kind == "model":
                    self.models.append((run, item.ref, item.location, _read(item.values)))
                else:
                    self.makers[item.ref].append((run, item.location))
            case event.Measured():
                self._measured(run, item)
            case event.BatchEnd():
                self.sections[run, item.location.rpartition("/")[0]].batch_seconds.append(item.seconds)
            case event.Done():
                self.sections[run, item.location].is_done = True

    def _begin(self, run: str, item: event.Begin) -> None:
        fields = _read(item.values)
        section = Section(run, item.location, item.kind, item.name, item.time, item.parent, settings=fields)
        section.refs = {ref: self._own(run, ref) for ref in item.using}
        section.initial = dict(fields)
        if "/" in item.location:
            section.in_force = dict(self._stage(run, item.location).settings)
        self.sections[run, item.location] = section

    def _used(self, run: str, item: event.Used) -> None:
        section = self.sections[run, item.location]
        if item.role == "model":
            self.tests[run, item.ref].append(section)
        else:
            section.roles[item.ref].add(item.role)
        section.refs[item.ref] = self._own(run, item.ref)

    def _measured(self, run: str, item: event.Measured) -> None:
        values = _read(item.values)
        if item.location.count("/") == 2:
            for name, value in values.items():
                self.sections[run, item.location.rpartition("/")[0]].batch_measures[name].append(value)
        else:
            self.sections[run, item.location].measures += values.items()

    def _stage(self, run: str, at: str) -> Section:
        return self.sections[run, at.partition("/")[0]]

    # ---- lineage

    def _own(self, run: str, ref: str) -> Step | None:
        """Return the step of a run that produced some data last, up to the current event."""
        return next((maker for maker in reversed(self.makers[ref]) if maker[0] == run), None)

    def steps_behind(self, user: Section, ref: str) -> set[Step]:
        """Return all steps in the lineage of a dataset at the time of its use: steps of its own run, else of any."""
        return self._lineage(user, ref)[0]

    def sources_of(self, user: Section, ref: str) -> set[str]:
        """Return the datasets in its lineage that no step produced."""
        return {dataset for dataset in self._lineage(user, ref)[1] if not self.makers[dataset]}

    def _lineage(self, user: Section, ref: str) -> tuple[set[Step], set[str]]:
        steps: set[Step] = set()
        refs = {ref}
        waiting = [(user, ref)]
        while waiting:
            section, dataset = waiting.pop()
            own = section.refs[dataset]
            for maker in [own] if own is not None else self.makers[dataset]:
                if maker not in steps:
                    steps.add(maker)
                    waiting += [(self.sections[maker], used) for used in self.sections[maker].refs]
                    refs |= set(self.sections[maker].refs)
        return steps, refs

    def training_sets(self, training: Section) -> list[str]:
        """Return the datasets of a training."""
        return sorted(ref for ref, roles in training.roles.items() if roles - {"validation", "test"})

    def trainings_on(self, ref: str) -> list[Section]:
        """Return the trainings on a dataset."""
        stages = [section for section in self.sections.values() if section.kind == "training"]
        return [section for section in stages if ref in self.training_sets(section)]

    def epochs(self, training: Section) -> list[Section]:
        """Return the epochs of a stage."""
        return [
            section
            for section in self.sections.values()
            if section.run == training.run and section.at.startswith(f"{training.at}/")
        ]

    def sets_of(self, low: int, high: int) -> list[tuple[Section, str]]:
        """Return trainings with datasets whose steps used slices within a range."""
        return [
            (training, ref)
            for training in self.sections.values()
            if training.kind == "training"
            for ref in self.training_sets(training)
            if any(self._is_within(step, low, high) for step in self.steps_behind(training, ref))
        ]

    def _is_within(self, step: tuple[str, str], low: int, high: int) -> bool:
        fields = self.sections[step].settings
        return "first_slice" in fields and fields["first_slice"] >= low and fields["last_slice"] <= high

    def description(self, ref: str) -> dict[str, Any]:
        """Return the file, the concept and the characteristics of a dataset, from all runs."""
        fields: dict[str, Any] = {}
        for (_, key), items in self.data.items():
            if key == ref:
                for item in items:
                    fields |= {"file": item.path, **({"about": item.about[0]} if item.about else {})} | _read(
                        item.values
                    )
        return fields

    # ---- the questions

    def l1(self, run: str, model: str, places: dict[str, dict[str, str]]) -> list[Row]:
        """Raw files behind a model."""
        return [
            (f"urn:{ref}", *self._raw_file(raw, places))
            for training, ref in self._sets_behind(run, model)
            for raw in self.sources_of(training, ref)
        ]

    def _raw_file(self, ref: str, places: dict[str, dict[str, str]]) -> Row:
        """Return the file, the characteristics and the concepts of raw data."""
        description = self.description(ref)
        concepts = places.get(description.pop("about", ""), {})
        return description.pop("file"), _pairs(description.items()), _pairs(concepts.items())

    def _sets_behind(self, run: str, model: str) -> list[tuple[Section, str]]:
        names = {at.partition("/")[0] for r, ref, at, _ in self.models if (r, ref) == (run, model)}
        stages = [self.sections[run, stage] for stage in sorted(names)]
        return [(stage, ref) for stage in stages for ref in self.training_sets(stage)]

    def l2(self, run: str, model: str) -> list[Row]:
        """Preparation behind a model."""
        return [
            (f"urn:{ref}", section.iri, section.name, name, value)
            for training, ref in self._sets_behind(run, model)
            for section in (self.sections[step] for step in self.steps_behind(training, ref))
            for name, value in section.settings.items()
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
            for model, row in self._model_rows(training, epoch)
        ]

    def _model_rows(self, training: Section, epoch: Section) -> Iterator[tuple[str | None, Row]]:
        """Yield each model of an epoch (else of its training) with each of its rows."""
        own = [entry for entry in self.models if entry[0] == epoch.run and entry[2] == epoch.at]
        whole = [entry for entry in self.models if entry[0] == epoch.run and entry[2] == training.at]
        rows: list[Row] = [("hyperparameter", *pair) for pair in epoch.in_force.items()]
        rows += [("hyperparameter", name, v) for name, v in training.initial.items() if name not in epoch.in_force]
        for _, _, _, fields in own:
            rows += [("model", "epoch", epoch.index), *(("model", *pair) for pair in fields.items())]
        rows += [("training", *pair) for pair in epoch.measures]
        for validation in self._validations(epoch):
            rows += [("validation", *pair) for pair in validation.measures]
        for run, ref, _, _ in own or whole:
            rows += [("evaluation", *pair) for test in self.tests[run, ref] for pair in test.measures]
        for model in [f"{BASE}{run}/data/{ref}" for run, ref, _, _ in own or whole] or [None]:
            for row in rows:
                yield model, row

    def _validations(self, epoch: Section) -> list[Section]:
        return [entry for entry in self.sections.values() if entry.run == epoch.run and entry.during == epoch.at]

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

    def l6(self, low: int, high: int, places: dict[str, dict[str, str]]) -> list[Row]:
        """Raw files behind the sets of a range."""
        return [
            (f"urn:{ref}", *self._raw_file(raw, places))
            for ref, raws in self._sources_within(low, high).items()
            for raw in raws
        ]

    def _sources_within(self, low: int, high: int) -> dict[str, set[str]]:
        sources: dict[str, set[str]] = defaultdict(set)
        for training, ref in self.sets_of(low, high):
            sources[ref] |= self.sources_of(training, ref)
        return sources

    def l7(self, low: int, high: int, measure: str = "loss") -> list[Row]:
        """Models by the best of a measure over batches for a range of slices, with their validations."""
        trainings = {(training.run, training.at): training for training, _ in self.sets_of(low, high)}
        rows = []
        for training in trainings.values():
            for epoch in self.epochs(training):
                own = [entry for entry in self.models if entry[0] == epoch.run and entry[2] == epoch.at]
                whole = [entry for entry in self.models if entry[0] == epoch.run and entry[2] == training.at]
                mine = [*epoch.in_force.items(), *(pair for entry in own for pair in entry[3].items())]
                mine += [("epoch", epoch.index)] if own else []
                validations = self._validations(epoch)
                theirs = [pair for validation in validations for pair in validation.in_force.items()]
                measured = [pair for validation in validations for pair in validation.measures]
                lists = (_pairs(mine), _pairs(epoch.measures), _pairs(theirs), _pairs(measured))
                least = _best([epoch], measure), _best(validations, measure)
                for model in [f"{BASE}{run}/data/{ref}" for run, ref, _, _ in own or whole] or [None]:
                    rows.append((training.iri, epoch.index, model, least[0], *lists, least[1]))
        return rows


def _best(sections: list[Section], measure: str) -> float | None:
    """Return the best value of a measure over the batches of complete sections: a loss is better low."""
    numbers = [
        float(value) for section in sections if section.is_done for value in section.batch_measures.get(measure, [])
    ]
    return (min if "loss" in measure else max)((value for value in numbers if value == value), default=None)


def _read(values: event.Values) -> dict[str, Any]:
    return {name: decode_value(value) for name, value in values.items()}


def _pairs(pairs: Iterable[tuple[str, Any]]) -> frozenset[tuple[str, str]]:
    """Return names and values as l7 lists them, independent of order and number format."""
    return frozenset((name, as_text(value)) for name, value in pairs)


def as_text(value: Any) -> str:
    """Return a value as text, equal for equal numbers."""
    try:
        return f"{float(value):.9g}"
    except (TypeError, ValueError):
        return str(value)
