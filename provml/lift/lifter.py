"""An event as things: the linking of what was executed to what was planned, used, produced and measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from provml import event, vocab
from provml.lift import adaptation, artifact, measure, name, network, workflow
from provml.lift.plan import LEARNING, Plan
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


class Lifter:
    """Turns the events of one journal into things; `things` holds those not yet taken."""

    def __init__(self, state: State | None = None) -> None:
        self.state = state or State()
        self.things: list[Thing] = []
        self.batch_plans: dict[str, tuple[IRI, IRI]] = {}
        if self.state.first is not None:
            self._begin_with(self.state.first)

    def feed(self, what: event.AnyEvent) -> None:
        """Take one event in."""
        HANDLERS[what.__class__](self, what)

    def take(self) -> list[Thing]:
        """The things since the last time; a batch that has no end yet is told as far as it is known."""
        if self.state.batch:
            at = self.state.batch
            epoch, plan = measure.batch_home(self, at)
            self.things.append(
                vocab.BatchExecution(
                    IRI(f"{self.run}/{at}"),
                    section_index=int(at.rpartition("/")[2]),
                    was_derived_from_data_transformation=plan,
                    was_section_of=epoch,
                )
            )
        taken, self.things = self.things, []
        return taken

    # ---- the run

    def _begin_with(self, first: event.Run) -> None:
        self.run = name.run(first.run)
        self.plan = Plan(first.name, first.model, self.state, self.things.append)

    def run_began(self, what: event.Run) -> None:
        self.state.first = what
        self._begin_with(what)
        self.plan.tell = lambda thing: self.things.append(thing)
        self.plan.tell_experiment()
        self.plan.model()
        if not what.main:
            return
        self.things.append(
            vocab.LearningProcessExecution(
                self.run,
                was_derived_from_workflow=self.plan.experiment,
                started_at_time=name.moment(what.t),
                was_associated_with=self.persona(what.by),
                addressed_task=self._task(what.task),
            )
        )
        if what.study:
            study = name.shared("study", what.study)
            self.things.append(vocab.Study(study, label=what.study, has_experiment=self.plan.experiment))

    def _task(self, title: str) -> IRI | None:
        if not title:
            return None
        plan = self.plan.once(
            name.plan(self.plan.name, "task"), lambda iri: vocab.LearningTask(iri, label="task", tag="Learning Task")
        )
        value = IRI(f"{self.run}/task")
        self.things.append(vocab.LearningTaskValue(value, was_derived_from_attribute=plan, value=title))
        return value

    def persona(self, title: str) -> IRI | None:
        """A persona, told by name."""
        if not title:
            return None
        return self.plan.once(name.shared("persona", title), lambda iri: vocab.Persona(iri, label=title))

    def run_ended(self, what: event.End) -> None:
        first = self.state.first
        if first is None or not first.main:
            return
        self.things.append(
            vocab.LearningProcessExecution(
                self.run,
                was_derived_from_workflow=self.plan.experiment,
                ended_at_time=name.moment(what.t),
                elapsed_seconds=max(what.t - first.t, 0.0),
                exception_type=what.error[0] if what.error else None,
                exception_message=what.error[1] if what.error else None,
            )
        )

    def environment(self, what: event.Environment) -> None:
        first = self.state.first
        writer = first.writer if first else "unknown"
        machine = None
        if what.machine:
            machine = name.shared("machine", str(what.machine.get("hostname", "unknown")))
            self.things.append(vocab.Machine(machine, **what.machine))
        software = [name.shared("software", title, version) for title, version in sorted(what.software.items())]
        for iri, (title, version) in zip(software, sorted(what.software.items()), strict=True):
            self.things.append(vocab.Software(iri, label=title, software_version=version))
        iri = IRI(f"{self.run}/environment/{name.slug(writer)}")
        self.things.append(vocab.ExecutionEnvironment(iri, was_run_on=machine, has_software=software, **what.around))
        self.things.append(
            vocab.LearningProcessExecution(
                self.run, was_derived_from_workflow=self.plan.experiment, was_associated_with=iri
            )
        )

    def workflow(self, what: event.Workflow) -> None:
        self.things.extend(workflow.things(self.plan, self.run, what.said))

    def fault(self, what: event.Fault) -> None:
        note = f"Capture failed {what.count} time(s), first with {what.first}"
        self.things.append(
            vocab.LearningProcessExecution(self.run, was_derived_from_workflow=self.plan.experiment, comment=note)
        )

    # ---- steps, stages and sections

    def place(self, at: str) -> Place:
        """What is known of a place; where its beginning is lost, what its path tells."""
        known = self.state.places.get(at)
        if known is None:
            head, _, rest = at.partition("/")
            if rest:
                known = Place("epoch")
            else:
                title = head.partition("@")[0].rstrip("-0123456789")
                known = Place(title if title in EXECUTIONS else "step", title)
            self.state.places[at] = known
        return known

    def execution(self, at: str, **said: Any) -> vocab.DataTransformationExecution:
        """The execution at a place, with its plan, and with what is said of it."""
        iri = IRI(f"{self.run}/{at}")
        stage_at, _, index = at.partition("/")
        stage = self.place(stage_at)
        plan = self.plan.step(stage.kind, stage.name)
        if not index:
            cls = EXECUTIONS.get(stage.kind, vocab.DataTransformationExecution)
            return cls(
                iri, was_derived_from_data_transformation=plan, was_member_of_workflow_execution=self.run, **said
            )
        kind = self.place(at).kind
        section = SECTIONS.get((stage.kind, kind)) or OTHER_SECTIONS[kind]
        return section(
            iri,
            was_derived_from_data_transformation=self.plan.section(stage.kind, kind, plan),
            was_section_of=IRI(f"{self.run}/{stage_at}"),
            section_index=int(index),
            **said,
        )

    def began(self, what: event.Begin) -> None:
        at = what.at
        section = "/" in at
        self.state.places[at] = Place(what.kind, what.name, what.t)
        if section:
            in_force = self.place(at.partition("/")[0]).in_force
            said: dict[str, Any] = {"hyperparameter_in_force": [IRI(iri) for iri in in_force.values()]}
            if what.during:
                said["was_informed_by"] = IRI(f"{self.run}/{what.during}")
        else:
            used = [name.data(self.run, ref) for ref in what.using]
            said = {"used": used, "was_associated_with": self.persona(what.by)}
        self.things.append(self.execution(at, started_at_time=name.moment(what.t), **said))
        if what.values:
            self.parameters(at, what.values)

    def parameters(self, at: str, values: event.Values) -> None:
        """Hyperparameters of a stage, or parameters of a step: values that it used."""
        place = self.place(at)
        step = self.plan.step(place.kind, place.name)
        cls = vocab.LearningHyperparameterValue if place.kind in LEARNING else vocab.PreparationParameterValue
        made = []
        for title, value in values.items():
            iri = IRI(f"{self.run}/{at}/parameter/{name.slug(title)}")
            attribute = self.plan.parameter(place.kind, step, title)
            self.things.append(cls(iri, was_derived_from_attribute=attribute, value=decode_value(value)))
            place.in_force[title] = str(iri)
            made.append(iri)
        self.things.append(self.execution(at, used=made))

    def more_parameters(self, what: event.Parameter) -> None:
        self.parameters(what.at, what.values)

    def done(self, what: event.Done) -> None:
        said: dict[str, Any] = {
            "ended_at_time": name.moment(what.t),
            "elapsed_seconds": what.s,
            "status": what.status,
            "exception_type": what.error[0] if what.error else None,
            "exception_message": what.error[1] if what.error else None,
        }
        if "/" in what.at:
            place = self.place(what.at)
            if place.kind == "epoch" and place.seconds is not None:
                said |= measure.rolled_up(self, what.at, place)
            self.things.append(self.execution(what.at, **said))
            del self.state.places[what.at]
            self.batch_plans.clear()
        else:
            self.things.append(self.execution(what.at, **said))


HANDLERS: dict[type, Callable[[Lifter, Any], None]] = {
    event.Run: Lifter.run_began,
    event.Environment: Lifter.environment,
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
    event.Layers: network.layers,
    event.Fault: Lifter.fault,
    event.End: Lifter.run_ended,
}
