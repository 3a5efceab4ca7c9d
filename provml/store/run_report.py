"""A report about a run for people who did not see it: what it did and with what, and what is not known."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provml.answers import format_cell
from provml.answers.humanize import format_duration, format_size
from provml.answers.plot import Curves
from provml.answers.terminal_chart import draw as draw_chart
from provml.drawing import chart
from provml.drawing.document import (
    Block,
    Document,
    Facts,
    Findings,
    Level,
    Paragraph,
    Picture,
    Section,
    Table,
    to_html,
    to_markdown,
)
from provml.errors import WrongValue, plural
from provml.journal import segments
from provml.journal.run_files import journals_of_run
from provml.mapping.direction import direction_of
from provml.store.run_facts import MAX_NAMES, ReportStore, RunFacts, join_names
from provml.store.run_info import RunInfo

if TYPE_CHECKING:
    from provml.validation import Report
    from provml.validation.results import ResultGroup

MAX_MODELS = 20
"""Models that are listed; of more, such as checkpoints, the last."""
MAX_ADAPTATIONS = 50
"""Adaptations that are listed."""
CODE_FACTS = (
    *("git commit", "git dirty", "git diff sha256", "git repository", "git directory"),
    *("command line", "working directory", "script path", "script sha256"),
)
EXTENSIONS = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown"}
"""The format of each file extension."""
STATUS_LEVELS: dict[str, Level] = {"FINISHED": "good", "RUNNING": "unknown"}


@dataclass(frozen=True, repr=False)
class RunReport:
    """A report about one run, as an HTML page that needs nothing else, or as Markdown.

    `unknown` says in sentences what is not known about the run, `document` is the whole report.
    """

    info: RunInfo
    unknown: tuple[str, ...]
    document: Document

    def __repr__(self) -> str:
        return f"<RunReport {self.info.id} {self.info.status}, {plural(len(self.unknown), 'gap')}>"

    def to_html(self) -> str:
        """Return the report as one HTML page, without scripts and without requests."""
        return to_html(self.document)

    def _repr_html_(self) -> str:
        from html import escape

        return f'<iframe sandbox srcdoc="{escape(self.to_html())}" style="width:100%;height:40rem;border:0"></iframe>'

    def to_markdown(self) -> str:
        """Return the report as Markdown, with the lineage as a Mermaid diagram."""
        return to_markdown(self.document)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file with the extension .html or .md."""
        file = Path(path)
        fmt = EXTENSIONS.get(file.suffix.lower())
        if fmt is None:
            expected = "a file with the extension .html or .md"
            raise WrongValue("RunReport", "save", str(path), expected, "Choose one of them.")
        file.write_text(self.to_html() if fmt == "html" else self.to_markdown(), encoding="utf-8")


def report_of_run(
    store: ReportStore, info: RunInfo, validation: Report | None, *, written: datetime | None = None
) -> RunReport:
    """Return the report about a run; `validation` is None if the run was not validated."""
    facts = RunFacts(store, info, validation)
    gaps = tuple(facts.gaps())
    return RunReport(info, gaps, _Sections(facts, gaps).document(written or datetime.now(UTC)))


class _Sections:
    """Writes the sections of a report."""

    def __init__(self, facts: RunFacts, gaps: Sequence[str]) -> None:
        self.facts = facts
        self.info = facts.info
        self.gaps = gaps

    def document(self, written: datetime) -> Document:
        """Return the document."""
        info = self.info
        sections: dict[str, Callable[[], tuple[Block, ...]]] = {
            "Summary": self._summary,
            "Notes": self._notes,
            "What is not known": self._not_known,
            "Data": self._data,
            "Settings": self._settings,
            "Adaptations": self._adaptations,
            "Curves": self._curves,
            "Evaluation": self._evaluation,
            "Models": self._models,
            "Artifacts": self._artifacts,
            "Lineage": self._lineage,
            "Code and environment": self._environment,
            "People": self._people,
            "Stages": self._stages,
            "Validation": self._validation,
            "The record": self._record,
        }
        subtitle = " · ".join(dict.fromkeys(filter(None, (info.name, info.model, f"run {info.id}"))))
        moment = f"{written.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return Document(
            f"{info.name or info.id}: run {info.id}",
            subtitle,
            info.status,
            STATUS_LEVELS.get(info.status, "bad"),
            tuple(Section(title, blocks) for title, write in sections.items() if (blocks := write())),
            f"Written {moment} by {_tool()} from the record of the run.",
        )

    # ---- summary

    def _summary(self) -> tuple[Block, ...]:
        info, facts = self.info, self.facts
        ended = info.started + timedelta(seconds=info.seconds) if info.seconds is not None else None
        pairs = {
            "run": info.id,
            "name": info.name if info.name != info.experiment else "",
            "experiment": info.experiment or info.name,
            "part of": f"run {info.parent}" if info.parent else "",
            "rerun of": f"run {info.rerun_of}" if info.rerun_of else "",
            "model": info.model,
            **{name: value for name, value in facts.remarks if name != "comment"},
            "status": info.status,
            "error": info.error,
            "started": _time(info.started),
            "ended": _time(ended) if ended is not None else "",
            "duration": format_duration(info.seconds),
            **facts.consumption(),
            "tags": ", ".join(info.tags),
            "people": join_names(dict.fromkeys(name for name, *_ in facts.people)),
            "code": self._code_version(),
        }
        table = Facts(tuple((name, value) for name, value in pairs.items() if value), frozenset({"run"}))
        return table, Findings(tuple(self._findings()))

    def _notes(self) -> tuple[Block, ...]:
        """Return the notes with who wrote them and when; no section without notes."""
        rows = [(_time(note.added), note.by, note.text) for note in self.info.notes]
        return (_table(("written", "by", "note"), rows),) if rows else ()

    def _code_version(self) -> str:
        commit = str(self.facts.environment.get("git commit") or "")
        changes = ", with changes that were not committed" if self.facts.has_uncommitted_changes() else ""
        return f"git {commit[:12]}{changes}" if commit else ""

    def _findings(self) -> Iterator[tuple[Level, str]]:
        yield self._trained()
        yield self._evaluated()
        yield self._leakage()
        validation = self.facts.validation
        if validation is None:
            yield "unknown", "The record was not validated."
        else:
            level: Level = "bad" if not validation.conforms else "warning" if validation.groups() else "good"
            yield level, f"Validation: {validation.summary[0].lower()}{validation.summary[1:]}."
        count = len(self.gaps)
        yield (
            ("warning", f"Not known: {plural(count, 'thing')}, see below.")
            if count
            else ("good", "No gaps were found.")
        )

    def _trained(self) -> tuple[Level, str]:
        trainings = [row for row in self.facts.stages if row["kind"] == "training"]
        if not trainings:
            return "unknown", "No training is recorded."
        sections = sum(row["sections"] or 0 for row in trainings)
        data = join_names(self.facts.training_data())
        text = f"{self.info.model or 'A model'} was trained"
        text += f" in {plural(sections, self.facts.section_kind())}" if sections else ""
        text += f" on {data}." if data else "."
        failed = [row["status"] for row in trainings if row["status"] not in ("FINISHED", "RUNNING")]
        if failed:
            return "bad", f"{text} The training did not finish ({failed[0]})."
        is_open = any(row["status"] == "RUNNING" for row in trainings)
        return ("unknown", f"{text} The training is still running.") if is_open else ("good", text)

    def _evaluated(self) -> tuple[Level, str]:
        values = self.facts.evaluation_values()
        if values:
            listed = ", ".join(f"{name} {format_cell(value)}" for _, name, value in values[:MAX_NAMES])
            return "good", f"Evaluation: {listed}."
        others = self.facts.other_evaluations()
        if others:
            return "good", f"Evaluated in {plural(len(others), 'other run')}: {join_names(others)}."
        return "unknown", "No evaluation is recorded."

    def _leakage(self) -> tuple[Level, str]:
        facts = self.facts
        if facts.validation is None:
            return "unknown", "Whether evaluation data was used in training was not checked."
        leaked = facts.leaked_data()
        if leaked:
            return "bad", f"Evaluation data was used in training: {join_names(leaked)}."
        if not facts.has_test_data():
            text = "Whether evaluation data was used in training cannot be checked: no test data is recorded."
            return "unknown", text
        return "good", "No evaluation data was used in training, as far as the record shows."

    def _not_known(self) -> tuple[Block, ...]:
        if not self.gaps:
            return (Paragraph("Nothing that a report needs is missing from the record."),)
        return (Findings(tuple(("unknown", text) for text in self.gaps)),)

    # ---- data, settings, measures

    def _data(self) -> tuple[Block, ...]:
        if not self.facts.datasets:
            return (Paragraph("No data is recorded."),)
        columns = ("data", "role", "made by", "used by", "size", "sha256", "path")
        table = _table(columns, self._data_rows(), numbers=("size",), codes=("sha256", "path"))
        return table, Findings((self._leakage(),))

    def _data_rows(self) -> list[tuple[str, ...]]:
        """Return a row for each content and path, with the stages that made and used it."""
        rows: dict[tuple[str, ...], dict[str, dict[str, None]]] = {}
        for row in self.facts.datasets:
            key = (row["dataset"], format_size(row["bytes"]), row["sha256"] or "none", row["path"] or "")
            cells = rows.setdefault(key, {"role": {}, "made by": {}, "used by": {}})
            word = "made by" if row["where"].startswith("made by ") else "used by"
            cells[word][row["where"].removeprefix(f"{word} ")] = None
            if row["role"]:
                cells["role"][row["role"]] = None
        return [(key[0], *map(join_names, cells.values()), *key[1:]) for key, cells in rows.items()]

    def _settings(self) -> tuple[Block, ...]:
        part = self.facts.parts["hyperparameters"]
        return (_table(part.columns, part.rows) if part.rows else Paragraph("No hyperparameters are recorded."),)

    def _adaptations(self) -> tuple[Block, ...]:
        part = self.facts.parts["adaptations"]
        if not part.rows:
            return (Paragraph("No adaptation is recorded."),)
        table = _table(part.columns, part.rows[:MAX_ADAPTATIONS])
        more = len(part.rows) - MAX_ADAPTATIONS
        return (table, Paragraph(f"{more:,} more adaptations are not listed.")) if more > 0 else (table,)

    def _curves(self) -> tuple[Block, ...]:
        panels = self.facts.panels
        if not panels:
            names = join_names(self.facts.curves.measures)
            text = f"No value of {names} is a number." if names else "No measures of epochs are recorded."
            return (Paragraph(text),)
        picture = Picture(chart.draw(panels), "\n\n".join(draw_chart(curves, 78, 12) for curves in panels))
        rows = [row for curves in panels for row in extremes(curves)]
        columns = ("measure", "in", "first", "last", "best", "at")
        return (picture, _table(columns, rows, numbers=columns[2:])) if rows else (picture,)

    def _evaluation(self) -> tuple[Block, ...]:
        blocks: list[Block] = []
        values, others = self.facts.evaluation_values(), self.facts.other_evaluations()
        if values:
            blocks.append(_table(("stage", "measure", "value"), values, numbers=("value",)))
        if others:
            blocks.append(Paragraph(f"Other runs evaluated a model of this run: {join_names(others)}."))
        return tuple(blocks) or (Paragraph("No evaluation is recorded."),)

    def _models(self) -> tuple[Block, ...]:
        models = self.facts.models
        if not models:
            return (Paragraph("No model is recorded as produced."),)
        columns = ("model", "made by", "layers", "parameters", "size", "sha256", "path")
        rows = [
            (*(row[name] for name in columns[:4]), format_size(row["bytes"]), row["sha256"] or "none", row["path"])
            for row in models[-MAX_MODELS:]
        ]
        table = _table(columns, rows, numbers=columns[2:5], codes=columns[5:])
        more = len(models) - len(rows)
        return (Paragraph(f"The last {len(rows)} of {len(models):,} models."), table) if more else (table,)

    def _artifacts(self) -> tuple[Block, ...]:
        """Return what is stored in the home; no section without artifacts."""
        columns = ("artifact", "size", "sha256")
        rows = [(name, format_size(size) if size is not None else "", sha) for name, size, sha in self.facts.artifacts]
        return (_table(columns, rows, numbers=columns[1:2], codes=columns[2:]),) if rows else ()

    # ---- provenance

    def _lineage(self) -> tuple[Block, ...]:
        lineage, later = self.facts.lineage, self.facts.later_runs()
        picture = Picture(lineage.to_svg(), lineage.to_mermaid(), "mermaid")
        if not later:
            return (picture,)
        return picture, Paragraph(f"{plural(len(later), 'other run')} used what it generated: {join_names(later)}.")

    def _environment(self) -> tuple[Block, ...]:
        if not self.facts.environment:
            return (Paragraph("No environment is recorded."),)
        values = {
            name: format_size(value) if name == "memory bytes" and isinstance(value, int) else _text(value)
            for name, value in self.facts.environment.items()
        }
        code = {name: values.pop(name) for name in CODE_FACTS if name in values}
        software = values.pop("software", "")
        seeds = ", ".join(f"{name} {format_cell(value)}" for name, value in self.facts.seeds)
        pairs = [*code.items(), *values.items(), ("software", software), ("random seeds", seeds)]
        return (Facts(tuple((name, value) for name, value in pairs if value), frozenset(CODE_FACTS) - {"git dirty"}),)

    def _people(self) -> tuple[Block, ...]:
        if not self.facts.people:
            return (Paragraph("No person is recorded."),)
        duties: dict[str, dict[str, None]] = {}
        for name, kind, node in self.facts.people:
            duty = {"step": self.facts.tables.place(node), "adaptation": "adaptations"}.get(kind, kind)
            duties.setdefault(name, {})[duty] = None
        return (_table(("person", "responsible for"), [(name, join_names(texts)) for name, texts in duties.items()]),)

    def _stages(self) -> tuple[Block, ...]:
        if not self.facts.stages:
            return (Paragraph("No stage is recorded."),)
        columns = ("stage", "kind", "status", "sections", "duration", "error")
        rows = [
            (*(row[name] for name in columns[:4]), format_duration(row["seconds"]), row["error"])
            for row in self.facts.stages
        ]
        return (_table(columns, rows, numbers=columns[3:5]),)

    def _validation(self) -> tuple[Block, ...]:
        report = self.facts.validation
        if report is None:
            return (Paragraph("The record was not validated when this report was written."),)
        checked = f" Checked {report.scope}." if report.scope is not None else ""
        summary = Paragraph(f"{report.summary}.{checked}")
        groups = report.groups().values()
        return (summary, Findings(tuple(map(_violation, groups)))) if groups else (summary,)

    def _record(self) -> tuple[Block, ...]:
        """Return the journals with their digests: who has the files can check that they are the ones reported on."""
        rows = []
        for path in journals_of_run(self.facts.store.home / "runs" / self.info.id):
            with segments.open_file(path) as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            rows.append((path.name, format_size(segments.file_stat(path).st_size), digest))
        is_open = self.info.status == "RUNNING"
        text = (
            f"All of this comes from these journals of the run{', which are still being written' if is_open else ''}."
        )
        facts = Facts((("IRI", str(self.info.iri)), ("events", f"{self.info.events:,}")), frozenset({"IRI"}))
        return Paragraph(text), _table(("journal", "size", "sha256"), rows, numbers=("size",), codes=("sha256",)), facts


def _tool() -> str:
    """Return the name and, if it is installed, the version of provml."""
    with contextlib.suppress(PackageNotFoundError):
        return f"provml {version('provml')}"
    return "provml"


def _violation(group: ResultGroup) -> tuple[Level, str]:
    level: Level = "bad" if group.severity == "Violation" else "warning"
    remainder = f" {group.remainder()}" if group.remainder() else ""
    return level, f"{group.severity} {group.extent}: {group.description} At {'; '.join(group.examples())}{remainder}"


def extremes(curves: Curves) -> Iterator[tuple[Any, ...]]:
    """Yield the first, last and best value of each series; which is best depends on the name of the measure."""
    direction = direction_of(curves.y)
    for series in curves.series:
        if series.is_step:
            continue
        best: tuple[Any, Any] = (None, None)
        if direction is not None:
            choose = min if direction == "minimize" else max
            best = choose(series.points, key=lambda point: point[1])
        yield curves.y, series.part, series.points[0][1], series.points[-1][1], best[1], best[0]


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _text(value: Any) -> str:
    """Return a value as text; a report does not shorten text."""
    return str(value) if isinstance(value, str) else format_cell(value)


def _table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Iterable[str] = (), codes: Iterable[str] = ()
) -> Table:
    """Return a table without its empty columns."""
    texts = [tuple(map(_text, row)) for row in rows]
    filled = [index for index in range(len(columns)) if any(row[index] for row in texts)]
    return Table(
        tuple(columns[index] for index in filled),
        tuple(tuple(row[index] for index in filled) for row in texts),
        frozenset(numbers),
        frozenset(codes),
    )
