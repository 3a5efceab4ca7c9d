"""A draft of the technical documentation that Annex IV of the EU AI Act asks for, as Markdown, HTML or DOCX.

Each point of the annex has the statements that the record supports, each with its source, and the gaps that people have
to fill in. The draft is a beginning, not a proof of conformity: most points are about the system, its use and its
risks, which a run does not know.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import IO, Any

from provml.answers import format_cell
from provml.answers.humanize import format_duration, format_size
from provml.drawing.document import (
    Block,
    Document,
    Facts,
    Findings,
    Paragraph,
    Picture,
    Section,
    Table,
    to_html,
    to_markdown,
)
from provml.exchange.mapping_table import MappingTable, Row
from provml.exchange.run_summary import RunSummary, SummaryData, package_version
from provml.mapping.iris import quote_segment
from provml.store.exporting import Exported, Source

NOTICE = (
    "This is a draft. It was filled in from the record of one run; each statement names its source in the record. "
    "Whatever is marked as a gap has to be written, and all of it has to be checked, by people."
)
MAX_ROWS = 200
_NOT_XML = re.compile("[^\\t\\n\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
Statement = tuple[str, str]
"""A statement and its source."""
TABLE = MappingTable(
    "EU AI Act, Annex IV",
    """A draft of the technical documentation for high-risk AI systems (Regulation (EU) 2024/1689, Article 11 and
Annex IV) with all nine points of the annex. Statements come from the record of a run, each with its source:
the run, a step, a dataset or a file in the graph. Everything that the record does not say is marked as a gap.
It is no legal advice, and no proof of conformity.""",
    (
        Row(
            "1 General description",
            "name, version of the model, software, hardware of the training",
            "purpose, provider, market, use: gaps",
        ),
        Row("2 Development: steps, methods", "steps with settings, adaptations, lineage, layers, resources, duration"),
        Row(
            "2 Development: data",
            "data with role, size, SHA-256, and the steps that made it",
            "collection, labelling, rights: gaps",
        ),
        Row(
            "2 Development: tests",
            "evaluations with data and measures; whether test data was used in training",
            "signatures: gaps",
        ),
        Row("3 Monitoring and control", "last measures", "limits, groups of people, risks, oversight: gaps"),
        Row("4 Metrics", "measures that were used", "why they are appropriate: a gap"),
        Row("5 Risk management, 7 standards, 8 declaration, 9 post-market plan", "", "gaps"),
        Row("6 Changes", "adaptations, status, earlier runs of the same experiment", "reasons, if none is recorded"),
        Row("single epochs and batches", "", "left out: the graph has them"),
    ),
    ("annex-iv", "annex-iv-html", "annex-iv-docx"),
    "provml export latest --as annex-iv -o annex-iv.md\nprovml export latest -o technical-documentation.docx",
)


def write(source: Source, file: IO[bytes]) -> Exported:
    """Write the draft."""
    draft = _Draft(source)
    document = draft.document()
    if source.format.name == "annex-iv-docx":
        file.write(to_docx(document))
    else:
        text = to_html(document) if source.format.name == "annex-iv-html" else to_markdown(document)
        file.write(text.encode("utf-8", "backslashreplace"))
    losses = ("values of single epochs and batches: the draft has the last ones",)
    return Exported(draft.statements, source.format.unit, tuple(draft.gaps), losses)


class _Draft:
    """A draft that is being written."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.info = source.run
        self.summary = RunSummary(source)
        self.gaps: list[str] = []
        self.statements = 0

    def document(self) -> Document:
        info = self.info
        points: dict[str, Callable[[], Iterator[Block]]] = {
            "About this draft": self._about,
            "1. General description of the AI system": self._general,
            "2(a)-(c) Development: methods, design, resources": self._development,
            "2(d) Data requirements": self._data,
            "2(e), (f), (h) Oversight, planned changes, security": self._oversight,
            "2(g) Validation and testing": self._testing,
            "3. Monitoring, functioning and control": self._monitoring,
            "4. Appropriateness of the performance metrics": self._metrics,
            "5. Risk management system": self._risks,
            "6. Changes through the lifecycle": self._changes,
            "7. Harmonised standards and specifications": self._standards,
            "8. EU declaration of conformity": self._declaration,
            "9. Post-market monitoring": self._post_market,
        }
        sections = tuple(Section(title, tuple(write())) for title, write in points.items())
        open_points = f"{len(self.gaps)} gaps" if len(self.gaps) != 1 else "1 gap"
        return Document(
            f"Technical documentation (draft): {info.model or info.name or info.id}",
            f"Annex IV of Regulation (EU) 2024/1689 · run {info.id} · {open_points}",
            "DRAFT",
            "warning",
            sections,
            f"Written by provml {package_version()} from the record of run {info.id}.",
        )

    # ---- parts

    def _state(self, statements: list[Statement]) -> Iterator[Block]:
        """Yield a table of statements with their sources."""
        rows = [(text, origin) for text, origin in statements if text]
        self.statements += len(rows)
        if rows:
            yield Table(("statement", "source"), tuple(rows), codes=frozenset({"source"}))

    def _gap(self, *sentences: str) -> Findings:
        self.gaps += sentences
        return Findings(tuple(("unknown", f"GAP: {text}") for text in sentences))

    def _step_source(self, name: str) -> str:
        return f"{self.info.iri}/{quote_segment(name)}"

    def _data_source(self, item: SummaryData) -> str:
        return f"urn:sha256:{item.sha256}" if item.sha256 else f"{self.info.iri} (no digest)"

    # ---- points

    def _about(self) -> Iterator[Block]:
        info = self.info
        yield Paragraph(NOTICE)
        pairs = {
            "run": info.id, "experiment": info.experiment, "model": info.model, "status": info.status,
            "started": f"{info.started:%Y-%m-%d %H:%M} UTC", "duration": format_duration(info.seconds),
            "people": ", ".join(self.summary.people),
        }  # fmt: skip
        yield Facts(tuple((name, value) for name, value in pairs.items() if value), frozenset({"run"}))
        if info.status != "FINISHED":
            yield self._gap(f"The run did not finish ({info.status}): document a run that did.")

    def _general(self) -> Iterator[Block]:
        summary, run = self.summary, str(self.info.iri)
        environment = summary.environment
        task = next((text for name, text in self.source.facts.remarks if name == "task"), "")
        models = []
        for item in summary.models[-5:]:
            text = f"Model {item.name}, version {item.sha256[:12] or 'without a digest'}, {format_size(item.size)}"
            models.append((text.rstrip(", "), self._data_source(item)))
        software = ", ".join(f"{name} {version}".strip() for name, version in summary.software)
        hardware = ", ".join(
            str(environment[name]) for name in ("processor", "gpu", "operating system") if environment.get(name)
        )
        yield from self._state([
            (f"The model addresses the task {task}." if task else "", run),
            *models,
            (f"Software of the training: {software}." if software else "", run),
            (f"Hardware of the training: {hardware}." if hardware else "", run),
        ])  # fmt: skip
        yield self._gap(
            "(a) The intended purpose, the name of the provider, and the version of the system and of earlier ones.",
            "(b) How the system interacts with hardware or software that is not part of it, other AI systems included.",
            "(c) Versions of the software and firmware in operation, and requirements on updates.",
            "(d) All forms in which the system is placed on the market or put into service.",
            "(e) The hardware on which the system is intended to run.",
            "(f) Photographs or illustrations, if the system is a component of products.",
            "(g), (h) The user interface for deployers, and the instructions for use.",
        )

    def _development(self) -> Iterator[Block]:
        summary = self.summary
        statements: list[Statement] = []
        for step in list(summary.steps.values())[:MAX_ROWS]:
            settings = ", ".join(f"{name}={format_cell(value)}" for name, value in step.parameters.items())
            text = f"Step {step.name} ({step.kind}, {step.status})" + (f" with {settings}" if settings else "")
            statements.append((f"{text}.", self._step_source(step.name)))
        for model in summary.models[-5:]:
            if model.layers or model.parameters:
                counts = (f"layers: {model.layers}", f"parameters: {model.parameters}")
                text = f"The model {model.name}: {', '.join(count for count in counts if 'None' not in count)}."
                statements.append((text, self._data_source(model)))
        environment = summary.environment
        for name in ("git commit", "git repository", "command line", "core count", "memory bytes"):
            if environment.get(name) not in (None, ""):
                statements.append((f"{name}: {environment[name]}", str(self.info.iri)))
        if self.info.seconds is not None:
            statements.append((f"The run took {format_duration(self.info.seconds)}.", str(self.info.iri)))
        yield from self._state(statements)
        lineage = self.source.facts.lineage
        if self.source.format.name == "annex-iv-docx":
            yield Picture("", lineage.to_text(80), "text")
        else:
            yield Picture(lineage.to_svg(), lineage.to_mermaid(), "mermaid")
        yield self._gap(
            "(a) Pre-trained systems or tools of third parties: how they were used, integrated or changed.",
            "(b) The design: general logic, key choices with reasons and assumptions, what is optimised, trade-offs.",
            "(c) The architecture of the system around the model, and the energy that development took.",
        )

    def _data(self) -> Iterator[Block]:
        statements: list[Statement] = []
        for item in self.summary.datasets[:MAX_ROWS]:
            facts = [f"role {', '.join(item.roles)}" if item.roles else "", format_size(item.size),
                     f"SHA-256 {item.sha256}" if item.sha256 else "",
                     f"made by {', '.join(item.made_by)}" if item.made_by else "",
                     f"used by {', '.join(item.used_by)}" if item.used_by else ""]  # fmt: skip
            statements.append((f"{item.name}: {'; '.join(filter(None, facts))}.", self._data_source(item)))
        yield from self._state(statements)
        without = [item.name for item in self.summary.datasets if not item.sha256]
        origins = [item.name for item in self.summary.datasets if not item.made_by]
        gaps = [f"The content of {', '.join(without)}: no digest is recorded."] if without else []
        gaps += [f"Where {', '.join(origins)} came from: no recorded step made it."] if origins else []
        gaps += ["No data is recorded."] if not self.summary.datasets else []
        yield self._gap(
            *gaps,
            "Scope and main characteristics of the data, and why they fit the purpose.",
            "How the data was obtained, selected, labelled and cleaned, with what rights, and known biases.",
        )

    def _oversight(self) -> Iterator[Block]:
        yield self._gap(
            "(e) The human oversight that Article 14 asks for, and how deployers can interpret the output.",
            "(f) Pre-determined changes to the system and its performance, and how conformity is kept.",
            "(h) Measures of cybersecurity.",
        )

    def _testing(self) -> Iterator[Block]:
        summary = self.summary
        statements: list[Statement] = []
        for point in summary.points:
            if point.kind == "evaluation" and point.section is None:
                names = [item.name for item in summary.data_in_role("test", "evaluation")]
                data = ", ".join(names) or "data that is not recorded"
                text = f"{point.name} {format_cell(point.value)} on {data}"
                when = f", measured {point.time:%Y-%m-%d %H:%M} UTC" if point.time else ""
                statements.append((f"{text}{when}.", self._step_source(point.stage)))
        validation = [(name, value) for (kind, name), value in summary.last_values().items() if kind == "validation"]
        statements += [
            (f"Validation: last {name} {format_cell(value)}.", str(self.info.iri)) for name, value in validation
        ]
        leaked = self._shared_data()
        if leaked:
            statements.append((f"Test data was used in training: {', '.join(leaked)}.", str(self.info.iri)))
        yield from self._state(statements)
        gaps = [] if any(p.kind == "evaluation" for p in summary.points) else ["No evaluation is recorded."]
        yield self._gap(
            *gaps,
            "Metrics of robustness, of compliance with other requirements, and of potentially discriminatory impacts.",
            "Test logs and reports, dated and signed by the persons responsible.",
        )

    def _shared_data(self) -> list[str]:
        trained = {item.key for item in self.summary.data_in_role("training", "training")}
        tested = {item.key: item.name for item in self.summary.data_in_role("test", "evaluation")}
        return [name for key, name in tested.items() if key in trained]

    def _monitoring(self) -> Iterator[Block]:
        rows = self.summary.last_values().items()
        yield from self._state(
            [(f"Last {name} of the {kind}: {format_cell(value)}.", str(self.info.iri)) for (kind, name), value in rows]
        )
        yield self._gap(
            "Capabilities and limits in performance, for specific persons or groups and overall.",
            "Foreseeable unintended outcomes, and sources of risk to health, safety, fundamental rights.",
            "Human oversight in operation, and specifications of the input data.",
        )

    def _metrics(self) -> Iterator[Block]:
        names = dict.fromkeys(name for _, name in self.summary.last_values())
        text = f"Measures that were recorded: {', '.join(names)}." if names else ""
        yield from self._state([(text, str(self.info.iri))])
        yield self._gap("Why these metrics are appropriate for the system.")

    def _risks(self) -> Iterator[Block]:
        yield self._gap("The risk management system according to Article 9.")

    def _changes(self) -> Iterator[Block]:
        statements: list[Statement] = []
        without = 0
        for during, name, old, new, technique, reason, by in self.summary.tables.adaptations().rows[:MAX_ROWS]:
            parts = [technique, f"reason: {reason}" if reason else "", f"by {by}" if by else ""]
            details = "; ".join(str(part) for part in parts if part)
            text = f"{name} changed from {format_cell(old)} to {format_cell(new)} during {during}"
            statements.append((f"{text}{f' ({details})' if details else ''}.", str(self.info.iri)))
            without += not reason
        yield from self._state(statements)
        gaps = [f"The reasons of {without} changes of settings."] if without else []
        yield self._gap(*gaps, "Changes that the provider made to the system through its lifecycle.")

    def _standards(self) -> Iterator[Block]:
        yield self._gap("Harmonised standards that were applied, or the solutions in their place.")

    def _declaration(self) -> Iterator[Block]:
        yield self._gap("A copy of the EU declaration of conformity (Article 47).")

    def _post_market(self) -> Iterator[Block]:
        yield self._gap("The system to evaluate performance in the post-market phase, with the plan (Article 72).")


# ---- DOCX


def to_docx(document: Document) -> bytes:
    """Return a document as a file of Word."""
    import docx

    file = docx.Document()
    file.core_properties.title = _plain(document.title)[:255]
    file.core_properties.author = ""
    file.core_properties.comments = ""
    file.add_heading(_plain(document.title), 0)
    file.add_paragraph(_plain(document.subtitle))
    for section in document.sections:
        file.add_heading(_plain(section.title), 1)
        for block in section.blocks:
            _add_block(file, block)
    file.add_paragraph(_plain(document.footer))
    buffer = io.BytesIO()
    file.save(buffer)
    return buffer.getvalue()


def _add_block(file: Any, block: Block) -> None:
    if isinstance(block, Paragraph):
        file.add_paragraph(_plain(block.text))
    elif isinstance(block, Findings):
        for _, text in block.items:
            file.add_paragraph(style="List Bullet").add_run(_plain(text)).bold = text.startswith("GAP")
    elif isinstance(block, Facts):
        _add_table(file, ("what", "value"), block.pairs)
    elif isinstance(block, Table):
        _add_table(file, block.columns, block.rows)
    else:
        run = file.add_paragraph(style="No Spacing").add_run(_plain(block.text))
        run.font.name = "Courier New"


def _add_table(file: Any, columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> None:
    table = file.add_table(rows=1, cols=len(columns), style="Light Grid Accent 1")
    for cell, name in zip(table.rows[0].cells, columns, strict=True):
        cell.text = name
    for row in rows:
        for cell, value in zip(table.add_row().cells, row, strict=True):
            cell.text = _plain(value)


def _plain(text: str) -> str:
    """Return a text without characters that XML cannot hold."""
    return _NOT_XML.sub("", text)
