"""What all event handlers share: the state, the plan, names of nodes, lookups, and the list of new things."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from provml import vocab
from provml.journal import events
from provml.journal.events import LEARNING_KINDS
from provml.journal.location import parse_location
from provml.mapping import iris
from provml.mapping.new_links import NewLinks
from provml.mapping.plan import Plan
from provml.mapping.siblings import Siblings
from provml.mapping.state import SectionState, State
from provml.model.thing import Thing
from provml.model.values import IRI

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
EPOCHS: dict[str, type[vocab.LearningStageSectionExecution]] = {
    "training": vocab.TrainingEpochExecution,
    "validation": vocab.ValidationEpochExecution,
}
SECTIONS: dict[str, type[vocab.LearningStageSectionExecution]] = {
    "epoch": vocab.EpochExecution,
    "fold": vocab.FoldExecution,
    "round": vocab.RoundExecution,
}
"""Classes of sections; those of a user's own kind differ by their plan."""


class MappingContext:
    """Context of the mapping of one journal.

    `things` are the nodes since the last `take`, `texts` the N-Triples that were made from templates (None without
    templates), `links` what the index has to derive links from, and `problems` describe what was left out.
    """

    run: IRI
    plan: Plan

    def __init__(
        self, state: State | None = None, siblings: Siblings | None = None, *, use_templates: bool = False
    ) -> None:
        self.state = state or State()
        self.siblings = siblings or Siblings()
        self.things: list[Thing] = []
        self.texts: list[str] | None = [] if use_templates else None
        self.problems: list[str] = []
        self.links = NewLinks()
        self._batch_parents: dict[str, tuple[IRI, IRI]] = {}
        self._measures: dict[str, tuple[IRI, str]] = {}
        if self.state.header is not None:
            self.open_run(self.state.header)

    def open_run(self, header: events.Header) -> None:
        """Set the run and the plan; the state names the experiment."""
        self.run = iris.run_iri(header.run)
        self.plan = Plan(self.state, self.emit)

    def emit(self, thing: Thing) -> None:
        """Add a node to the result."""
        self.things.append(thing)

    def emit_run(self, **values: Any) -> None:
        """Add values to the node of the run."""
        self.emit(
            vocab.LearningProcessExecution(self.run, was_derived_from_workflow=self.plan.experiment, **values),
        )

    def emit_execution(self, location: str, **values: Any) -> None:
        """Add values to the node of a stage, a step or a section."""
        self.emit(self.execution(location, **values))

    # ---- names

    def step_iri(self, location: str) -> IRI:
        """Return the IRI of the whole step or stage that a location belongs to."""
        return self.section_iri(self.stage_state(location))

    def section_iri(self, section: SectionState) -> IRI:
        """Return the IRI of a stage, a step or a section."""
        return iris.to_iri(f"{self.run}/{section.path}")

    def stage_path(self, location: str) -> str:
        """Return the IRI path of a stage or a step that begins here; a location with `@` is unique already."""
        return location if parse_location(location).writer else f"{location}{self.state.writer_suffix}"

    def part_iri(self, section: SectionState, kind: str, name: str = "") -> IRI:
        """Return a new IRI for a part of a section; a number makes it unique if the name occurred before."""
        key = f"{kind}/{iris.quote_segment(name)}" if name else kind
        section.counts[key] = section.counts.get(key, 0) + 1
        return self._part_iri(section, kind, key)

    def last_part_iri(self, section: SectionState, kind: str, name: str) -> IRI | None:
        """Return the last IRI for a part of a section with this name; None if it has no such part."""
        key = f"{kind}/{iris.quote_segment(name)}"
        return self._part_iri(section, kind, key) if section.counts.get(key) else None

    def _part_iri(self, section: SectionState, kind: str, key: str) -> IRI:
        count = section.counts[key]
        number = f"/{count}" if count > 1 or kind == "adaptation" else ""
        return IRI(f"{self.run}/{section.path}/{key}{number}{section.iri_suffix}")

    def measure(self, name: str) -> tuple[IRI, str]:
        """Return the plan of a measure, and its name as a segment of an IRI."""
        cached = self._measures.get(name)
        if cached is None:
            cached = self._measures[name] = (self.plan.measure(name), iris.quote_segment(name))
        return cached

    def persona(self, name: str) -> IRI | None:
        """Return the persona with a name; None for an empty name."""
        return self.plan.emit_once(vocab.Persona, iris.shared_iri("persona", name), label=name) if name else None

    def file_location(self, path: str) -> IRI:
        """Return the location node of a folder or a file, one per run, since the same path exists on other machines."""
        iri = IRI(f"{self.run}#location/{iris.quote_segment(path)}")
        return self.plan.emit_once(vocab.Location, iri, label=path)

    # ---- stages, steps and sections

    def section_state(self, location: str) -> SectionState:
        """Return the state of a stage, a step or a section; inferred from its location if its first event is lost."""
        section = self.state.sections.get(location)
        if section is None and self.inherit_state():
            section = self.state.sections.get(location)
        return section or self._infer_section(location)

    def stage_state(self, location: str) -> SectionState:
        """Return the state of the stage or step that a location belongs to."""
        return self.section_state(parse_location(location).stage_location)

    def stage_of_section(self, location: str) -> SectionState:
        """Return the state of the stage of a section; only learning stages have sections."""
        stage_location = parse_location(location).stage_location
        stage = self.section_state(stage_location)
        if stage.inferred and stage.kind not in LEARNING_KINDS:
            stage.kind = "training"
            self.emit_execution(stage_location)
        return stage

    def inherit_state(self) -> bool:
        """Take over, once, the state of the parent's journal at the time of the fork; return whether there is one."""
        state = self.state
        if not state.writer_suffix or state.inherited or state.header is None:
            return False
        state.inherited = True
        parent = self.siblings.parent_state(state.header)
        if parent is None:
            return False
        for location, section in parent.sections.items():
            copy = SectionState(
                section.kind, section.name, section.path, state.writer_suffix, in_force=dict(section.in_force)
            )
            state.sections.setdefault(location, copy)
        for ref, artifact in parent.artifacts.items():
            state.artifacts.setdefault(
                ref, msgspec.structs.replace(artifact, characteristics={}, paths=list(artifact.paths))
            )
        return True

    def _infer_section(self, location: str) -> SectionState:
        place = parse_location(location)
        if place.batch is not None:
            raise ValueError(f"{location!r} is the location of a batch, not of a stage or a section")
        section = self._infer_stage(location) if place.epoch is None else self._infer_inner_section(location)
        self.state.sections[location] = section
        self.emit_execution(location)
        return section

    def _infer_inner_section(self, location: str) -> SectionState:
        """Infer a section of a stage: of the same kind as the section before it, else an epoch."""
        place = parse_location(location)
        index = place.epoch or 0
        stage = self.stage_of_section(location)
        previous = self.state.sections.get(f"{place.stage_location}/{index - 1}")
        kind = previous.kind if previous is not None else "epoch"
        return SectionState(kind, path=f"{stage.path}/{index}{stage.iri_suffix}", inferred=True)

    def _infer_stage(self, location: str) -> SectionState:
        """Infer a stage from a location that is named after its kind, such as `training-2`; otherwise infer a step."""
        name = parse_location(location).stage
        kind = re.sub(r"-\d+$", "", name)
        is_kind = kind in EXECUTIONS
        section = SectionState(
            kind if is_kind else "step",
            kind if is_kind else name,
            self.stage_path(location),
            inferred=True,
        )
        header = self.state.header
        writer = parse_location(location).writer
        if header and writer and f"@{writer}" != events.writer_suffix(header.writer):
            section.iri_suffix = self.state.writer_suffix  # it belongs to another journal, which is lost
        return section

    def execution(self, location: str, **values: Any) -> vocab.DataTransformationExecution:
        """Return the node of a stage, a step or a section, with its plan and some values."""
        stage, section = self.stage_state(location), self.section_state(location)
        index = parse_location(location).epoch
        plan = self.plan.step(stage.kind, stage.name)
        iri = self.section_iri(section)
        if index is None:
            return EXECUTIONS.get(stage.kind, vocab.DataTransformationExecution)(
                iri, was_derived_from_data_transformation=plan, was_member_of_workflow_execution=self.run, **values
            )
        return _section_class(stage.kind, section.kind)(
            iri,
            was_derived_from_data_transformation=self.plan.section(stage.kind, section.kind, plan),
            was_section_of=self.section_iri(stage),
            section_index=index,
            **values,
        )

    # ---- batches

    def batch_parents(self, epoch_location: str) -> tuple[IRI, IRI]:
        """Return the epoch of a batch, and the plan of its batches."""
        cached = self._batch_parents.get(epoch_location)
        if cached is None:
            stage = self.stage_state(epoch_location)
            plan = self.plan.section(stage.kind, "batch", self.plan.step(stage.kind, stage.name))
            epoch = self.section_iri(self.section_state(epoch_location))
            cached = self._batch_parents[epoch_location] = (epoch, plan)
        return cached

    def forget_batch_parents(self, epoch_location: str) -> None:
        """Drop the cached parents of batches: another epoch may begin at this location."""
        self._batch_parents.pop(epoch_location, None)


def _section_class(stage_kind: str, kind: str) -> type[vocab.LearningStageSectionExecution]:
    if kind == "epoch" and stage_kind in EPOCHS:
        return EPOCHS[stage_kind]
    own = vocab.ValidationSectionExecution if stage_kind == "validation" else vocab.LearningStageSectionExecution
    return SECTIONS.get(kind, own)
