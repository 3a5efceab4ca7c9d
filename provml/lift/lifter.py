"""An event as things: the linking of what was executed to what was planned, used, produced and measured."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from provml import event, rdf, vocab
from provml.event import LEARNING
from provml.lift import adaptation, artifact, environment, measure, name, network, workflow
from provml.lift.kin import Kin
from provml.lift.plan import Plan
from provml.lift.state import Place, State
from provml.rdf.exact import decode_value
from provml.things import Thing
from provml.values import IRI

EXECUTIONS: dict[str, type[vocab.DataTransformationExecution]] = {
    "training": vocab.TrainingExecution,
    "validation": vocab.ValidationExecution,
    "evaluation": vocab.EvaluationExecution,
    "curation": vocab.DataCurationExecution,
    "preparation": vocab.DataPreparationExecution,
    "filter": vocab.FilterExecution,
    "split": vocab.DataSplitExecution,
    "extraction": vocab.FeatureExtractionExecution,
    "step": vocab.DataTransformationExecution,
}
SECTIONS: dict[tuple[str, str], type[vocab.LearningStageSectionExecution]] = {
    ("training", "epoch"): vocab.TrainingEpochExecution,
    ("validation", "epoch"): vocab.ValidationEpochExecution,
}
OTHER_SECTIONS: dict[str, type[vocab.LearningStageSectionExecution]] = {
    "epoch": vocab.EpochExecution,
    "fold": vocab.FoldExecution,
    "round": vocab.RoundExecution,
}
ANY_SECTION = vocab.LearningStageSectionExecution
"""Of a kind that a user named, which its plan tells."""


class Lifter:
    """Turns the events of one journal into things: `things` are those not yet taken, `complaints` what was left out."""

    def __init__(self, state: State | None = None, kin: Kin | None = None, *, casts: bool = False) -> None:
        self.state = state or State()
        self.kin = kin or Kin()
        self.things: list[Thing] = []
        self.texts: list[str] | None = [] if casts else None
        self.complaints: list[str] = []
        self._batch_homes: dict[str, tuple[IRI, IRI]] = {}
        self._measures: dict[str, tuple[IRI, str]] = {}
        if self.state.first is not None:
            self._begin_with(self.state.first)

    def feed(self, what: event.AnyEvent) -> None:
        """Take one event in."""
        if self.state.first is None and what.__class__ is not event.Run:
            kin = self.kin  # the first line is lost: what the name of the file tells has to do
            self.run_began(event.Run(event.VERSION, kin.run, kin.writer, kin.run, float("nan")))
        HANDLERS[what.__class__](self, what)

    def tell(self, thing: Thing) -> None:
        """Put a thing to those not yet taken."""
        self.things.append(thing)

    def take(self) -> list[Thing]:
        """The things since the last time; batches that have no end yet are told as far as they are known."""
        for at in self.state.opened:
            measure.unfinished(self, at)
        taken, self.things = self.things, []
        return taken

    def written(self) -> bytes:
        """The N-Triples since the last time: of the things, and what was cast as text at once."""
        text = rdf.ntriples(self.take())
        if self.texts:
            text += "".join(self.texts).encode()
            self.texts.clear()
        return text

    # ---- the run

    def _begin_with(self, first: event.Run) -> None:
        self.run = name.run(first.run)
        self.plan = Plan(self.state.experiment, self.state.model, self.state, self.tell)

    def run_began(self, what: event.Run) -> None:
        """Take in who writes. Only the run's first journal tells of the run; the others add to it under own names."""
        state = self.state
        elder = self.kin.elder(what)
        first = elder[0] if elder and isinstance(elder[0], event.Run) else what
        state.first, state.experiment, state.model = what, first.name, first.model or first.name
        if first is not what or not what.main:
            state.own = f"@{name.slug(what.writer)}"
        self._begin_with(what)
        self.plan.tell_experiment()
        self.tell(
            vocab.LearningProcessExecution(
                self.run, was_derived_from_workflow=self.plan.experiment, aimed_at_model=self.plan.model()
            )
        )
        for told in elder[1:]:
            self.feed(told)
        if not state.own:
            self._tell_run(what)

    def _tell_run(self, what: event.Run) -> None:
        self.tell(
            vocab.LearningProcessExecution(
                self.run,
                was_derived_from_workflow=self.plan.experiment,
                started_at_time=name.moment(what.t) if what.t == what.t else None,
                was_associated_with=self.persona(what.by),
                addressed_task=self._task(what.task),
            )
        )
        if what.study:
            study = name.shared("study", what.study)
            self.tell(vocab.Study(study, label=what.study, has_experiment=self.plan.experiment))

    def _task(self, title: str) -> IRI | None:
        if not title:
            return None
        plan = self.plan.once(
            IRI(f"{self.plan.experiment}#task"),
            lambda iri: vocab.LearningTask(iri, label="task", tag="Learning Task"),
        )
        value = IRI(f"{self.run}#task")
        self.tell(vocab.LearningTaskValue(value, was_derived_from_attribute=plan, value=title))
        return value

    def persona(self, title: str) -> IRI | None:
        """A persona, told by name."""
        if not title:
            return None
        return self.plan.once(name.shared("persona", title), lambda iri: vocab.Persona(iri, label=title))

    def run_ended(self, what: event.End) -> None:
        """How a run ended is known only with all of its journals: the store tells it, by `outcome`."""

    def workflow(self, what: event.Workflow) -> None:
        for thing in workflow.things(self.plan, self.run, what.said):
            self.tell(thing)

    def fault(self, what: event.Fault) -> None:
        note = f"Capture failed, first with {what.first}"  # how often may still change: `provml status` tells
        self.tell(
            vocab.LearningProcessExecution(self.run, was_derived_from_workflow=self.plan.experiment, comment=note)
        )

    # ---- names

    def node(self, place: Place) -> IRI:
        """The IRI of a place."""
        return IRI(f"{self.run}/{place.path}")

    def _own(self, at: str) -> str:
        """The path of a stage or a step that begins here; a recorder sets its own apart by an `@`."""
        return at if "@" in at else f"{at}{self.state.own}"

    def part(self, place: Place, kind: str, title: str = "") -> IRI:
        """A new IRI for what belongs to a place; where there is one with that title already, with a number."""
        key = f"{kind}/{name.slug(title)}" if title else kind
        count = place.counts[key] = place.counts.get(key, 0) + 1
        again = f"/{count}" if count > 1 or kind == "adaptation" else ""
        return IRI(f"{self.run}/{place.path}/{key}{again}{place.tail}")

    def measure(self, title: str) -> tuple[IRI, str]:
        """The plan of a measure, and its title as a part of an IRI."""
        known = self._measures.get(title)
        if known is None:
            known = self._measures[title] = (self.plan.measure(title), name.slug(title))
        return known

    # ---- steps, stages and sections

    def place(self, at: str) -> Place:
        """What is known of a place; where its beginning is lost, what its path tells."""
        known = self.state.places.get(at)
        if known is None and self.asks_kin():
            known = self.state.places.get(at)
        return known or self._guess(at)

    def asks_kin(self) -> bool:
        """Take over, once, what the parent's journal knew when this one began: a forked child goes on from there."""
        state = self.state
        if not state.own or state.asked or state.first is None:
            return False
        state.asked = True
        known = self.kin.known_by(state.first)
        if known is None:
            return False
        for at, place in known.places.items():
            taken = Place(place.kind, place.name, place.path, state.own, in_force=dict(place.in_force))
            state.places.setdefault(at, taken)
        for ref, one in known.refs.items():
            state.refs.setdefault(ref, msgspec.structs.replace(one, said={}, paths=list(one.paths)))
        return True

    def _guess(self, at: str) -> Place:
        head, _, rest = at.partition("/")
        if rest:
            stage = self.place(head)
            if stage.guessed and stage.kind not in LEARNING:
                stage.kind = "training"  # only a stage has sections
                self.tell(self.execution(head))
            before = self.state.places.get(f"{head}/{int(rest) - 1}") if rest.isdecimal() else None
            kind = before.kind if before is not None else "epoch"  # it is what the section before it was
            known = Place(kind, path=f"{stage.path}/{rest}{stage.tail}", guessed=True)
        else:
            title = head.partition("@")[0]
            kind = re.sub(r"-\d+$", "", title)
            known = Place(kind if kind in EXECUTIONS else "step", kind if kind in EXECUTIONS else title, guessed=True)
            known.path = self._own(head)
            if self.state.first and "@" in head and not head.endswith(event.suffix(self.state.first.writer) or "@"):
                known.tail = self.state.own  # of another journal, which is lost
        self.state.places[at] = known
        self.tell(self.execution(at))
        return known

    def execution(self, at: str, **said: Any) -> vocab.DataTransformationExecution:
        """The execution at a place, with its plan, and with what is said of it."""
        stage_at, _, index = at.partition("/")
        stage, place = self.place(stage_at), self.place(at)
        plan = self.plan.step(stage.kind, stage.name)
        iri = self.node(place)
        if not index:
            cls = EXECUTIONS.get(stage.kind, vocab.DataTransformationExecution)
            return cls(
                iri, was_derived_from_data_transformation=plan, was_member_of_workflow_execution=self.run, **said
            )
        section = SECTIONS.get((stage.kind, place.kind)) or OTHER_SECTIONS.get(place.kind, ANY_SECTION)
        return section(
            iri,
            was_derived_from_data_transformation=self.plan.section(stage.kind, place.kind, plan),
            was_section_of=self.node(stage),
            section_index=int(index),
            **said,
        )

    def batch_home(self, epoch_at: str) -> tuple[IRI, IRI]:
        """The epoch of a batch, and the plan of its batches."""
        known = self._batch_homes.get(epoch_at)
        if known is None:
            stage = self.place(epoch_at.partition("/")[0])
            plan = self.plan.section(stage.kind, "batch", self.plan.step(stage.kind, stage.name))
            known = self._batch_homes[epoch_at] = (self.node(self.place(epoch_at)), plan)
        return known

    def began(self, what: event.Begin) -> None:
        at = what.at
        stage_at, _, rest = at.partition("/")
        if rest:
            stage = self.place(stage_at)
            path = f"{stage.path}/{rest}{stage.tail}"
        else:
            path = self._own(at)
        place = Place(what.kind, what.name, path)
        known = self.state.places.get(at)
        if known is not None and not known.guessed and (known.path == path or known.path.startswith(f"{path}~")):
            place.begun = known.begun + 1  # the same epoch again is another section with the same index
            place.path = f"{path}~{place.begun}"
            self._close_batches(at)
        self.state.places[at] = place
        self._batch_homes.pop(at, None)
        if rest:
            said: dict[str, Any] = {"hyperparameter_in_force": [IRI(iri) for iri in stage.in_force.values()]}
        else:
            used = [artifact.entity(self, ref) for ref in what.using]
            said = {"used": used, "was_associated_with": self.persona(what.by)}
            if what.kind in LEARNING:
                said["aimed_at_model"] = self.plan.model()
        if what.during:
            said["was_informed_by"] = self.node(self.place(what.during))
        self.tell(self.execution(at, started_at_time=name.moment(what.t), **said))
        if what.values:
            self.parameters(at, what.values)

    def parameters(self, at: str, values: event.Values) -> None:
        """Hyperparameters of a stage, or parameters of a step: values that it used."""
        place = self.place(at)
        step = self.plan.step(place.kind, place.name)
        cls = vocab.LearningHyperparameterValue if place.kind in LEARNING else vocab.PreparationParameterValue
        made = []
        for title, value in values.items():
            iri = self.part(place, "parameter", title)
            attribute = self.plan.parameter(place.kind, step, title)
            self.tell(cls(iri, was_derived_from_attribute=attribute, value=decode_value(value)))
            place.in_force[title] = str(iri)
            made.append(iri)
        self.tell(self.execution(at, used=made))

    def more_parameters(self, what: event.Parameter) -> None:
        self.parameters(what.at, what.values)

    def done(self, what: event.Done) -> None:
        said: dict[str, Any] = {
            "ended_at_time": name.moment(what.t),
            "elapsed_seconds": what.s,
            "status": what.status,
            "exception_type": what.error[0] if what.error else None,
            "exception_message": what.error[1] if len(what.error) > 1 else None,
        }
        place = self.place(what.at)
        if "/" in what.at:
            self._close_batches(what.at)
            if place.kind == "epoch" and place.batches:
                said |= measure.rolled_up(self, place)
            place.measures, place.seconds = {}, None
        self.tell(self.execution(what.at, **said))

    def _close_batches(self, at: str) -> None:
        """No more comes of the batches of an epoch that were left open."""
        for batch in [batch for batch in self.state.opened if batch.startswith(f"{at}/")]:
            measure.unfinished(self, batch)
            del self.state.opened[batch]
        self._batch_homes.pop(at, None)


def outcome(
    run: IRI, experiment: str, began: float, status: str, end: event.End | None
) -> vocab.LearningProcessExecution:
    """How a run stands, as a thing."""
    error = end.error if end is not None else []
    return vocab.LearningProcessExecution(
        run,
        was_derived_from_workflow=name.plan(experiment),
        status=status,  # type: ignore[arg-type]  # checked by the class
        ended_at_time=name.moment(end.t) if end is not None else None,
        elapsed_seconds=max(end.t - began, 0.0) if end is not None and began == began else None,
        exception_type=error[0] if error else None,
        exception_message=error[1] if len(error) > 1 else None,
    )


HANDLERS: dict[type[msgspec.Struct], Callable[[Lifter, Any], None]] = {
    event.Run: Lifter.run_began,
    event.Environment: environment.environment,
    event.Workflow: Lifter.workflow,
    event.Begin: Lifter.began,
    event.Done: Lifter.done,
    event.Batch: measure.batch,
    event.Measured: measure.measured,
    event.Data: artifact.data,
    event.Used: artifact.used,
    event.Produced: artifact.produced,
    event.Parameter: Lifter.more_parameters,
    event.Adapted: adaptation.adapted,
    event.Implementation: artifact.implementation,
    event.Ran: environment.ran,
    event.Layers: network.layers,
    event.Fault: Lifter.fault,
    event.End: Lifter.run_ended,
}
