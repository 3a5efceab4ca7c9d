"""Draw the pattern of plans and executions: planned classes on one side, executed classes on the other.

The classes and links of the picture are chosen here. The link from an execution to its plan is read from the ontology,
and every other link is checked against the domain and range of its property.
"""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from provml.compiler.emit.svg import PROSPECTIVE, RETROSPECTIVE, Look, document
from provml.compiler.schema import ClassTerm, Schema
from provml.compiler.sources import split
from provml.errors import OntologyError

ROWS = (
    ("LearningExperiment", "LearningProcessExecution"),
    ("Training", "TrainingExecution"),
    ("TrainingEpoch", "TrainingEpochExecution"),
    ("LearningDatasetReference", "LearningDataset"),
    ("LearningHyperparameter", "LearningHyperparameterValue"),
    ("ModelProspection", "Model"),
    ("EvaluationMeasure", "ModelEvaluation"),
)
"""Plan and execution of each row."""


class Link(NamedTuple):
    """A link between two classes of one side; links with the same lane share a line."""

    subject: str
    property: str
    object: str
    lane: int = 0


LINKS = (
    Link("LearningExperiment", "hasLearningStage", "Training"),
    Link("Training", "hasSection", "TrainingEpoch"),
    Link("Training", "hasInputAttribute", "LearningDatasetReference", 1),
    Link("Training", "hasInputAttribute", "LearningHyperparameter", 1),
    Link("Training", "hasOutputAttribute", "ModelProspection", 2),
    Link("TrainingEpoch", "hasOutputAttribute", "EvaluationMeasure", 3),
    Link("TrainingExecution", "wasMemberOfWorkflowExecution", "LearningProcessExecution"),
    Link("TrainingEpochExecution", "wasSectionOf", "TrainingExecution"),
    Link("TrainingExecution", "used", "LearningDataset", 1),
    Link("TrainingExecution", "used", "LearningHyperparameterValue", 1),
    Link("Model", "wasGeneratedBy", "TrainingExecution", 2),
    Link("ModelEvaluation", "wasGeneratedBy", "TrainingEpochExecution", 3),
)

WIDTH, BOX_WIDTH, BOX_HEIGHT, ROW_HEIGHT, TOP = 984, 205, 28, 58, 56
"""Pixels, as all numbers below."""
MARGIN = 178
LANE = 14
TITLE = "Plans and executions"
DEFS = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" style="fill:#64748b;stroke:none"/></marker></defs>'
    "<style>.link{stroke:#64748b}.name{fill:#475569;font-size:10.5px}.side{font-size:13px;font-weight:bold}</style>"
)


def draw_pattern(schema: Schema) -> str:
    """Return the picture as SVG."""
    return _Pattern(schema).draw()


class _Pattern:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.classes = {
            cls.name: cls
            for _, cls in schema.canonical_classes()
            if cls.name in {name for row in ROWS for name in row} and cls.side
        }
        self.rows = {name: index for index, row in enumerate(ROWS) for name in row}

    def draw(self) -> str:
        plan_x, execution_x = MARGIN, WIDTH - MARGIN - BOX_WIDTH
        elements = [DEFS]
        for x, text in ((plan_x, "What is planned (prospective)"), (execution_x, "What happened (retrospective)")):
            elements.append(f'<text x="{x}" y="{TOP - 22}" class="side" fill="#0f172a">{text}</text>')
        for plan, execution in ROWS:
            y = self.middle(plan)
            name = self.specification(self.classes[execution], self.classes[plan])
            elements.append(_arrow(f"M{execution_x} {y}H{plan_x + BOX_WIDTH + 2}"))
            elements.append(_name((plan_x + BOX_WIDTH + execution_x) / 2, y - 5, name, "middle"))
            elements.append(self.box(plan, plan_x, PROSPECTIVE))
            elements.append(self.box(execution, execution_x, RETROSPECTIVE))
        for link in LINKS:
            is_plan = self.classes[link.subject].side == "prospective"
            elements += self.link(link, plan_x if is_plan else execution_x, -1 if is_plan else 1)
        return document(TITLE, WIDTH, TOP + len(ROWS) * ROW_HEIGHT, elements)

    def middle(self, name: str) -> int:
        return TOP + self.rows[name] * ROW_HEIGHT + BOX_HEIGHT // 2

    def box(self, name: str, x: int, look: Look) -> str:
        cls = self.classes[name]
        y = self.middle(name)
        return (
            f'<g><title>{escape(cls.definition)}</title><rect x="{x}" y="{y - BOX_HEIGHT // 2}" width="{BOX_WIDTH}" '
            f'height="{BOX_HEIGHT}" rx="4" fill="{look.fill}" stroke="{look.edge}"/>'
            f'<text x="{x + BOX_WIDTH / 2:g}" y="{y + 4}" text-anchor="middle" fill="{look.ink}">{name}</text></g>'
        )

    def link(self, link: Link, x: int, outward: int) -> list[str]:
        """Return a link: straight between neighbours (lane 0), else around the boxes on the outer side."""
        name = self.property_name(link)
        start, end = self.middle(link.subject), self.middle(link.object)
        if link.lane == 0:
            down = 1 if end > start else -1
            center = x + BOX_WIDTH / 2
            path = f"M{center:g} {start + down * BOX_HEIGHT // 2}V{end - down * (BOX_HEIGHT // 2 + 2)}"
            return [_arrow(path), _name(center + 6, (start + end) / 2 + 4, name, "start")]
        edge = x if outward < 0 else x + BOX_WIDTH
        lane_x = edge + outward * (MARGIN - 3 * LANE + link.lane * LANE - 20)
        data_y = max(start, end)
        if link.lane < 3:  # lanes 1 and 2 meet at one box
            start, end = (y if y == data_y else y + (2 * link.lane - 3) * 6 for y in (start, end))
        path = f"M{edge} {start}H{lane_x}V{end}H{edge + outward * 2}"
        anchor = "end" if outward < 0 else "start"
        return [_arrow(path), _name(edge + outward * 10, data_y - 5, name, anchor)]

    def specification(self, execution: ClassTerm, plan: ClassTerm) -> str:
        """Return the property that links an execution to its plan, by the restriction of its class."""
        for stated in execution.stated:
            if stated.kind == "only" and stated.filler is not None:
                names = self.schema.classes_of(stated.filler)
                if names and plan.iri in names:
                    return self.prefixed(stated.property)
        raise OntologyError(f"{execution.name} has no restriction to {plan.name}", "Update emit/pattern_svg.py.")

    def property_name(self, link: Link) -> str:
        """Return the prefixed name of the property of a link; check its domain and range."""
        subject, target = self.classes[link.subject], self.classes[link.object]
        for prop in self.schema.properties.values():
            fits_subject = all(not subject.ancestors.isdisjoint(names) for names in prop.domains)
            fits_object = all(not target.ancestors.isdisjoint(names) for names in prop.ranges)
            if split(prop.iri)[1] == link.property and fits_subject and fits_object:
                return self.prefixed(prop.iri)
        raise OntologyError(
            f"no property {link.property} links {link.subject} to {link.object}", "Update emit/pattern_svg.py."
        )

    def prefixed(self, iri: str) -> str:
        namespace, local = split(iri)
        prefixes = {value: name for source in self.schema.sources for name, value in source.prefixes.items()}
        return f"{prefixes[namespace]}:{local}"


def _arrow(path: str) -> str:
    return f'<path class="link" d="{path}" marker-end="url(#arrow)"/>'


def _name(x: float, y: float, text: str, anchor: str) -> str:
    """Return the local name of a property, with the prefixed name as its tooltip: a page is narrow."""
    local = text.partition(":")[2]
    return f'<text class="name" x="{x:g}" y="{y:g}" text-anchor="{anchor}"><title>{text}</title>{local}</text>'
