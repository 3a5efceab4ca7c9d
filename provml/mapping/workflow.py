"""A workflow file as things: the prospective side as its author declares it.

What a file declares and what an execution shows are the same nodes. A version of a file is a node of its own: its
members are the steps, attributes and stores of this version, and the run is linked to it.
"""

from __future__ import annotations

from typing import Any

from provml import vocab
from provml.journal.events import LEARNING_KINDS
from provml.mapping import iris
from provml.mapping.plan import STEPS, Plan
from provml.model.thing import Thing
from provml.model.values import IRI
from provml.workflow import PARAMETER_KINDS, Attribute, DataStore, Machine, Workflow, restore


def workflow_things(plan: Plan, run: IRI, spec: dict[str, Any]) -> list[Thing]:
    """Return the plans that a workflow file declares, its version, and the link from the run to it."""
    return WorkflowMapper(plan, restore(spec)).map(run)


def version_iri(plan: Plan, version: str) -> IRI:
    """Return the IRI of a version of a workflow."""
    return IRI(f"{plan.experiment}/version/{iris.quote_segment(version)}")


class WorkflowMapper:
    """Maps one workflow; `things` are its nodes so far, `members` those that belong to this version of the file."""

    def __init__(self, plan: Plan, workflow: Workflow) -> None:
        self.plan = plan
        self.workflow = workflow
        self.version = version_iri(plan, workflow.version)
        self.things: list[Thing] = []
        self.members: list[IRI] = []
        self.stores = {name: self._store(name, store) for name, store in workflow.stores.items()}
        self.attributes = {key: self._shared_attribute(key, item) for key, item in workflow.attributes.items()}

    def map(self, run: IRI) -> list[Thing]:
        """Return all things of the workflow and the link from a run to it."""
        workflow, plan = self.workflow, self.plan
        steps = {name: self._step(name) for name in workflow.transformations}
        is_stage = {name: step.kind in LEARNING_KINDS for name, step in workflow.transformations.items()}
        agents = [self._machine(name, machine) for name, machine in workflow.environments.items()]
        agents += [self._software(name, version) for name, version in workflow.software.items()]
        self.things += [
            vocab.LearningExperiment(
                self.version,
                label=f"{workflow.name} {workflow.version}",
                comment=workflow.description or None,
                version=workflow.version,
                specialization_of=plan.experiment,
                was_revision_of=self._previous_version(),
                was_influenced_by=agents,
                has_learning_stage=[iri for name, iri in steps.items() if is_stage[name]],
                has_data_transformation=[iri for name, iri in steps.items() if not is_stage[name]],
            ),
            vocab.Collection(self.version, had_member=self.members),
            vocab.LearningProcessExecution(
                run, was_derived_from_workflow=plan.experiment, was_influenced_by=self.version
            ),
        ]
        if workflow.study:
            study = iris.shared_iri("study", workflow.study)
            self.things.append(vocab.Study(study, label=workflow.study, has_experiment=plan.experiment))
        return self.things

    def _previous_version(self) -> IRI | None:
        """Return the version that this one revises, with a node that names it; its contents are not known here."""
        previous = self.workflow.revises
        if not previous:
            return None
        iri = version_iri(self.plan, previous)
        self.things.append(
            vocab.LearningExperiment(
                iri,
                label=f"{self.workflow.name} {previous}",
                version=previous,
                specialization_of=self.plan.experiment,
            )
        )
        return iri

    # ---- stores, machines, software

    def _store(self, name: str, store: DataStore) -> IRI:
        """Return a data store; it is identified by its address, so workflows that use the same store share it."""
        iri = iris.shared_iri("data-store", store.type or "any", store.address or name)
        self.things.append(
            vocab.DataStore(
                iri,
                label=name,
                comment=store.description or None,
                store_type=store.type,  # type: ignore[arg-type]  # checked when the file was read, and by the class
                address=store.address,
            )
        )
        self.members.append(iri)
        return iri

    def _machine(self, name: str, machine: Machine) -> IRI:
        """Return a machine as this version plans it, which is not the machine that a run is executed on."""
        iri = IRI(f"{self.version}/environment/{iris.quote_segment(name)}")
        self.things.append(
            vocab.Machine(
                iri,
                label=name,
                comment=machine.description or None,
                hostname=machine.hostname,
                processor=machine.processor,
                core_count=machine.cores,
                memory_bytes=machine.memory,
                accelerator=machine.accelerators,
            )
        )
        return iri

    def _software(self, name: str, version: str) -> IRI:
        iri = iris.shared_iri("software", name, version)
        self.things.append(vocab.Software(iri, label=name, software_version=version))
        return iri

    # ---- attributes

    def _shared_attribute(self, key: str, attribute: Attribute) -> IRI | None:
        """Return an attribute of the whole experiment; None for parameters, which belong to a step."""
        plan, name = self.plan, attribute.name or key
        if attribute.kind in PARAMETER_KINDS:
            return None
        if attribute.kind == "measure":
            plan.declare_direction(name, attribute.direction)
            iri = plan.measure(name)
            self._describe(vocab.EvaluationMeasure, iri, attribute, direction=attribute.direction)
            return iri
        get_iri, cls = {
            "dataset": (plan.dataset, vocab.LearningDatasetReference),
            "features": (plan.features, vocab.FeatureSet),
            "model": (plan.model, vocab.ModelProspection),
        }[attribute.kind]
        iri = get_iri(name)
        self._describe(cls, iri, attribute)
        return iri

    def _describe(self, cls: type[vocab.Attribute], iri: IRI, attribute: Attribute, **single_values: Any) -> None:
        """Emit what the file says of an attribute; single-valued fields come from the first file of the run."""
        if self.plan.register(iri, "described"):
            single_values |= {"datatype": attribute.type, "unit": attribute.unit}
        else:
            single_values = {}
        self.things.append(
            cls(
                iri,
                comment=attribute.description or None,
                about=[IRI(concept) for concept in attribute.about],
                is_stored_in_store=[self.stores[name] for name in attribute.stored],
                **single_values,
            )
        )
        self.members.append(iri)

    # ---- steps

    def _step(self, name: str) -> IRI:
        """Return a step with its input and output attributes."""
        step = self.workflow.transformations[name]
        iri = self.plan.step(step.kind, name)
        inputs = [self.attributes[key] or self._parameter(step.kind, iri, key) for key in step.inputs]
        outputs = [self.attributes[key] or self._model_hyperparameter(key) for key in step.outputs]
        self.things.append(
            STEPS[step.kind](
                iri,
                comment=step.description or None,
                about=[IRI(concept) for concept in step.about],
                has_input_attribute=inputs,
                has_output_attribute=outputs,
            )
        )
        self.members.append(iri)
        return iri

    def _parameter(self, kind: str, step: IRI, key: str) -> IRI:
        attribute = self.workflow.attributes[key]
        iri = self.plan.parameter(kind, step, attribute.name or key)
        cls = vocab.LearningHyperparameter if kind in LEARNING_KINDS else vocab.PreparationParameter
        self._describe(cls, iri, attribute)
        return iri

    def _model_hyperparameter(self, key: str) -> IRI:
        """Return a hyperparameter that a stage outputs: it is one of the model that the stage produces."""
        attribute = self.workflow.attributes[key]
        iri = self.plan.model_hyperparameter(attribute.name or key)
        self._describe(vocab.ModelHyperparameter, iri, attribute)
        return iri
