"""A workflow file as things: the prospective side as its author gives it.

What a file declares and what an execution shows are the same nodes. A file's version is a node of its own: it holds the
steps, attributes and stores that this version has, and the run is linked to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provml import vocab
from provml.event import LEARNING
from provml.lift import name
from provml.lift.plan import STEPS
from provml.things import Thing
from provml.values import IRI
from provml.workflow import OF_STEPS, Attribute, DataStore, Machine, Workflow, restore

if TYPE_CHECKING:
    from provml.lift.plan import Plan


def things(plan: Plan, run: IRI, said: dict[str, Any]) -> list[Thing]:
    """The plans that a workflow file tells, its version, and that the run executed it."""
    return _Telling(plan, restore(said)).all(run)


def version(plan: Plan, number: str) -> IRI:
    """The node of a version of a workflow."""
    return IRI(f"{plan.experiment}/version/{name.slug(number)}")


class _Telling:
    """One workflow on its way to things; `told` are those so far, `members` the nodes that its version has."""

    def __init__(self, plan: Plan, flow: Workflow) -> None:
        self.plan = plan
        self.flow = flow
        self.version = version(plan, flow.version)
        self.told: list[Thing] = []
        self.members: list[IRI] = []
        self.stores: dict[str, IRI] = {}
        self.attributes: dict[str, IRI | None] = {}

    def all(self, run: IRI) -> list[Thing]:
        flow, plan = self.flow, self.plan
        self.stores = {title: self.store(title, store) for title, store in flow.stores.items()}
        self.attributes = {key: self.attribute(key, one) for key, one in flow.attributes.items()}
        steps = {title: self.step(title) for title in flow.transformations}
        agents = [self.machine(title, machine) for title, machine in flow.environments.items()]
        agents += [self.software(title, number) for title, number in flow.software.items()]
        self.told += [
            vocab.LearningExperiment(
                self.version,
                label=f"{flow.name} {flow.version}",
                comment=flow.description or None,
                version=flow.version,
                specialization_of=plan.experiment,
                was_revision_of=self.revised(),
                was_influenced_by=agents,
                has_learning_stage=[i for title, i in steps.items() if flow.transformations[title].kind in LEARNING],
                has_data_transformation=[
                    i for title, i in steps.items() if flow.transformations[title].kind not in LEARNING
                ],
            ),
            vocab.Collection(self.version, had_member=self.members),
            vocab.LearningProcessExecution(
                run, was_derived_from_workflow=plan.experiment, was_influenced_by=self.version
            ),
        ]
        if flow.study:
            study = name.shared("study", flow.study)
            self.told.append(vocab.Study(study, label=flow.study, has_experiment=plan.experiment))
        return self.told

    def revised(self) -> IRI | None:
        """The version before this one; no more is known of it here than that it is one."""
        if not self.flow.revises:
            return None
        before = version(self.plan, self.flow.revises)
        self.told.append(
            vocab.LearningExperiment(
                before,
                label=f"{self.flow.name} {self.flow.revises}",
                version=self.flow.revises,
                specialization_of=self.plan.experiment,
            )
        )
        return before

    def store(self, title: str, store: DataStore) -> IRI:
        """A store is known by its address: workflows that use the same one meet, and one that moved is another."""
        iri = name.shared("data-store", store.type or "any", store.address or title)
        self.told.append(
            vocab.DataStore(
                iri,
                label=title,
                comment=store.description or None,
                store_type=store.type,  # type: ignore[arg-type]  # checked when the file was read, and by the class
                address=store.address,
            )
        )
        self.members.append(iri)
        return iri

    def machine(self, title: str, machine: Machine) -> IRI:
        """A machine as this version plans it, apart from the one that is found when it runs."""
        iri = IRI(f"{self.version}/environment/{name.slug(title)}")
        self.told.append(
            vocab.Machine(
                iri,
                label=title,
                comment=machine.description or None,
                hostname=machine.hostname,
                processor=machine.processor,
                core_count=machine.cores,
                memory_bytes=machine.memory,
                accelerator=machine.accelerators,
            )
        )
        return iri

    def software(self, title: str, number: str) -> IRI:
        iri = name.shared("software", title, number)
        self.told.append(vocab.Software(iri, label=title, software_version=number))
        return iri

    def attribute(self, key: str, one: Attribute) -> IRI | None:
        """An attribute that the whole experiment shares; parameters are those of a step, and come with it."""
        plan, title = self.plan, one.name or key
        if one.kind in OF_STEPS:
            return None
        if one.kind == "measure":
            plan.declare(title, one.direction)
            iri = plan.measure(title)
            self.describe(vocab.EvaluationMeasure, iri, one, direction=one.direction)
        else:
            tell, cls = {
                "dataset": (plan.dataset, vocab.LearningDatasetReference),
                "features": (plan.features, vocab.FeatureSet),
                "model": (plan.model, vocab.ModelProspection),
            }[one.kind]
            iri = tell(title)
            self.describe(cls, iri, one)
        return iri

    def describe(self, cls: type[vocab.Attribute], iri: IRI, one: Attribute, **facts: Any) -> None:
        """What the file says of an attribute; what can be said only once is what the run's first file says."""
        planned, mark = self.plan.state.planned, f"{iri}#described"
        facts = {} if mark in planned else {"datatype": one.type, "unit": one.unit, **facts}
        planned.add(mark)
        self.told.append(
            cls(
                iri,
                comment=one.description or None,
                about=[IRI(concept) for concept in one.about],
                is_stored_in_store=[self.stores[title] for title in one.stored],
                **facts,
            )
        )
        self.members.append(iri)

    def step(self, title: str) -> IRI:
        """A step with the attributes that it takes in and gives out."""
        said = self.flow.transformations[title]
        iri = self.plan.step(said.kind, title)
        inputs = [self.attributes[key] or self.parameter(said.kind, iri, key) for key in said.inputs]
        outputs = [self.attributes[key] or self.model_hyperparameter(key) for key in said.outputs]
        self.told.append(
            STEPS[said.kind](
                iri,
                comment=said.description or None,
                about=[IRI(concept) for concept in said.about],
                has_input_attribute=inputs,
                has_output_attribute=outputs,
            )
        )
        self.members.append(iri)
        return iri

    def parameter(self, kind: str, step: IRI, key: str) -> IRI:
        one = self.flow.attributes[key]
        iri = self.plan.parameter(kind, step, one.name or key)
        self.describe(vocab.LearningHyperparameter if kind in LEARNING else vocab.PreparationParameter, iri, one)
        return iri

    def model_hyperparameter(self, key: str) -> IRI:
        """A hyperparameter that a stage gives out is one of the model that it makes."""
        one = self.flow.attributes[key]
        iri = self.plan.model_hyperparameter(one.name or key)
        self.describe(vocab.ModelHyperparameter, iri, one)
        return iri
