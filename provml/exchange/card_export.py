"""Model cards and dataset cards in the format of Hugging Face: YAML in front of Markdown.

What the record knows is filled in, with the step that it comes from. What only people can say is marked as a gap.
"""

from __future__ import annotations

import re
from typing import IO, Any

import yaml

from provml.answers import format_cell
from provml.answers.humanize import format_duration, format_size
from provml.errors import MAX_SUGGESTIONS, FileFormatError
from provml.exchange.mapping_table import MappingTable, Row
from provml.exchange.run_summary import RunSummary, SummaryData, is_number
from provml.store.exporting import Exported, Source

GAP = "[More Information Needed]"
"""How Hugging Face marks what is missing."""
MAX_CHECKPOINTS = 20
TABLE = MappingTable(
    "Model card and dataset card",
    """Cards of Hugging Face: `README.md` with metadata in YAML, which `huggingface_hub` parses. Everything that the
record knows is filled in. What only people can say, such as the licence or the intended use, is marked with
`[More Information Needed]` and a sentence that says what to write; the command counts these gaps.""",
    (
        Row("name of the model or the run", "title, `model-index` name"),
        Row("measures of evaluations, validation and training", "`model-index` results and a table; NaN and inf too"),
        Row("data with role, size and SHA-256", "a table; names in `datasets`"),
        Row("hyperparameters, adaptations", "tables"),
        Row("framework", "`library_name`"),
        Row("steps that made the data (dataset card)", "a table with their settings"),
        Row("person, time, code, machine, seeds", "a table"),
        Row("models and checkpoints", "a table with SHA-256", "of more than 20, the last"),
        Row("epochs, batches, lineage", "a Mermaid diagram of the lineage", "single values of epochs and batches"),
        Row("licence, language, intended use, limits, risks", "gaps", "a run does not know them"),
    ),
    ("model-card", "dataset-card"),
    "provml export latest --as model-card -o README.md --option license=mit\n"
    "provml export latest --as dataset-card --option dataset=images -o README.md",
)


def write(source: Source, file: IO[bytes]) -> Exported:
    """Write a card."""
    card = _ModelCard(source) if source.format.name == "model-card" else _DatasetCard(source)
    file.write(card.text().encode())
    return Exported(len(card.sections), source.format.unit, tuple(card.gaps), tuple(card.losses))


class _Card:
    """A card that is being written."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.summary = RunSummary(source)
        self.info = source.run
        self.sections: list[str] = []
        self.gaps: list[str] = []
        self.losses: list[str] = []

    def gap(self, sentence: str) -> str:
        """Return the mark of a gap with what is to be written."""
        self.gaps.append(sentence)
        return f"{GAP} {sentence}"

    def add(self, title: str, *paragraphs: str) -> None:
        self.sections.append("\n\n".join([f"## {title}", *(text for text in paragraphs if text)]))

    def metadata(self) -> dict[str, Any]:
        raise NotImplementedError

    def fill(self) -> str:
        """Write the sections and return the title."""
        raise NotImplementedError

    def text(self) -> str:
        """Return the card."""
        metadata = {name: value for name, value in self.metadata().items() if value not in (None, "", [])}
        front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)
        title = self.fill()
        foot = f"<!-- Written by provml from the record of run {_comment(self.info.id)}. -->"
        return f"---\n{front}---\n\n# {_line(title)}\n\n" + "\n\n".join([*self.sections, foot]) + "\n"

    def license(self) -> str:
        return self.source.option("license").strip().lower()

    def add_record(self) -> None:
        """Add who did it when, with what code and on what machine."""
        summary, info = self.summary, self.info
        environment = summary.environment
        facts = {
            "run": info.id,
            "status": info.status,
            "started": f"{info.started:%Y-%m-%d %H:%M:%S} UTC",
            "duration": format_duration(info.seconds),
            "people": ", ".join(summary.people),
            "git commit": environment.get("git commit"),
            "uncommitted changes": environment.get("git dirty"),
            "command line": environment.get("command line"),
            "machine": ", ".join(str(environment[k]) for k in ("processor", "operating system") if k in environment),
            "software": ", ".join(f"{name} {version}".strip() for name, version in summary.software),
            "random seeds": ", ".join(f"{name} {value}" for name, value in self.source.facts.seeds),
        }
        rows = [(name, value) for name, value in facts.items() if value not in (None, "")]
        missing = self.source.facts.gaps()
        listed = "Not in the record:\n\n" + "\n".join(f"- {_line(text)}" for text in missing) if missing else ""
        self.add("Provenance", table(("what", "value"), rows), listed)


class _ModelCard(_Card):
    """A model card."""

    def metadata(self) -> dict[str, Any]:
        summary = self.summary
        measures = dict.fromkeys(name for _, name in summary.last_values())
        data = summary.data_in_role("training", "training")
        return {
            "license": self.license(),
            "library_name": summary.library,
            "tags": ["provml", *self.info.tags],
            "datasets": [item.name for item in data],
            "metrics": list(measures),
            "model-index": self._index(),
        }

    def _index(self) -> list[dict[str, Any]]:
        """Return the results as Hugging Face indexes them; a number that is not finite is kept."""
        summary, results = self.summary, []
        roles = {"evaluation": ("test", "Test"), "validation": ("validation", "Validation")}
        for kind, (role, word) in roles.items():
            data = summary.data_in_role(role, kind)
            metrics = [
                {"type": name, "value": value, "name": f"{word} {name}"}
                for (stage, name), value in summary.last_values().items()
                if stage == kind and is_number(value)
            ]
            name = ", ".join(item.name for item in data) or "not recorded"
            digest = data[0].sha256 if len(data) == 1 else ""
            dataset = {"name": name, "type": _slug(name), **({"revision": digest} if digest else {})}
            if metrics:
                task = self._task()
                results.append({"task": {"type": _slug(task), "name": task}, "dataset": dataset, "metrics": metrics})
        return [{"name": self._name(), "results": results}] if results else []

    def _task(self) -> str:
        return next((text for name, text in self.source.facts.remarks if name == "task"), "not-recorded")

    def _name(self) -> str:
        return self.info.model or self.info.name or self.info.id

    def fill(self) -> str:
        summary, info = self.summary, self.info
        description = self.source.option("description")
        self.add("Model description", description or self.gap("Describe the model: what it does and for whom."))
        license_text = self.license() or self.gap("Name the licence (also as `license:` in the metadata).")
        self.add("Licence", license_text)
        self.add("Intended use", self.gap("State the intended uses, and those that are out of scope."))
        self.add("Bias, risks and limitations", self.gap("State known biases, risks and limitations."))
        rows = [
            (kind, name, format_cell(value), ", ".join(self._data_of(kind)))
            for (kind, name), value in summary.last_values().items()
        ]
        evaluation = table(("stage", "measure", "value", "data"), rows)
        if not any(kind == "evaluation" for kind, *_ in rows):
            evaluation += "\n\n" + self.gap("No evaluation on unseen data is recorded: add one.")
        self.add("Results", evaluation.strip())
        self.add("Training data", data_table(summary.datasets) or self.gap("No data is recorded: name the data."))
        self.add("Training procedure", *self._procedure())
        self._add_models()
        self.add_record()
        self.add("Environmental impact", self.gap("State the energy that the training took, if you measured it."))
        self.add("Contact", self.gap("Name somebody who answers questions about the model."))
        if sum(step.kind == "training" for step in summary.steps.values()):
            self.losses.append("values of single epochs and batches: the card has the last ones")
        return self._name() if info.model else f"Run {info.id}"

    def _data_of(self, kind: str) -> list[str]:
        role = {"evaluation": "test"}.get(kind, kind)
        return [item.name for item in self.summary.data_in_role(role, kind)]

    def _procedure(self) -> list[str]:
        summary = self.summary
        rows = [
            (step.name, name, format_cell(value))
            for step in summary.steps.values()
            for name, value in step.parameters.items()
        ]
        adapted = self.summary.tables.adaptations()
        parts = [table(("stage", "setting", "value"), rows)]
        if adapted.rows:
            cells = [tuple(format_cell(cell) for cell in row) for row in adapted.rows]
            parts.append("Settings that changed while the training ran:\n\n" + table(tuple(adapted.columns), cells))
        mermaid = self.source.facts.lineage.to_mermaid()
        return [*parts, f"```mermaid\n{mermaid.strip()}\n```"]

    def _add_models(self) -> None:
        models = self.summary.models
        if not models:
            self.add("Model files", self.gap("No model is recorded as produced: say where it is."))
            return
        rows = [
            (item.name, item.made_by[0], item.parameters or "", format_size(item.size), f"`{item.sha256 or 'none'}`")
            for item in models[-MAX_CHECKPOINTS:]
        ]
        if len(models) > MAX_CHECKPOINTS:
            self.losses.append(f"{len(models) - MAX_CHECKPOINTS:,} earlier models: the card has the last ones")
        self.add("Model files", table(("model", "made by", "parameters", "size", "sha256"), rows))


class _DatasetCard(_Card):
    """A card of one dataset of a run."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.data = self._choose(source.option("dataset"))

    def _choose(self, name: str) -> SummaryData:
        datasets = self.summary.datasets
        if not datasets:
            raise FileFormatError("the run has no data", "Record it with run.dataset(…).", file=self.info.id)
        matches = [data for data in datasets if name and name in (data.name, data.sha256)]
        if matches or not name:
            chosen = matches or self.summary.data_in_role("training", "training") or datasets
            others = [data.name for data in datasets if data.key != chosen[0].key]
            if not name and others:
                self.losses.append(f"other data of the run: {', '.join(others)}; choose with --option dataset=NAME")
            return chosen[0]
        names = ", ".join(list(dict.fromkeys(data.name for data in datasets))[:MAX_SUGGESTIONS])
        raise FileFormatError(f"the run has no data {name!r}", f"Its data: {names}.", file=self.info.id)

    def metadata(self) -> dict[str, Any]:
        return {
            "license": self.license(),
            "pretty_name": self.data.name,
            "tags": ["provml", *(f"sha256:{self.data.sha256}" for _ in [0] if self.data.sha256)],
        }

    def fill(self) -> str:
        data, steps = self.data, self.summary.steps
        self.add("Dataset description", self.source.option("description") or self.gap("Describe what the data is."))
        self.add("Licence", self.license() or self.gap("Name the licence (also as `license:` in the metadata)."))
        facts = {
            "name": data.name,
            "sha256": f"`{data.sha256}`" if data.sha256 else self.gap("No digest is recorded."),
            "size": format_size(data.size),
            "path": data.path,
            "role": ", ".join(data.roles),
            "used by": ", ".join(data.used_by),
            "made by": ", ".join(data.made_by),
        }
        self.add("Content", table(("what", "value"), [(name, value) for name, value in facts.items() if value]))
        makers = [steps[name.split(" ")[0]] for name in data.made_by if name.split(" ")[0] in steps]
        names = {item.key: item.name for item in self.summary.datasets}
        rows = [
            (
                step.name,
                step.kind,
                ", ".join(names.get(key, key) for key, _ in step.used),
                ", ".join(f"{name}={format_cell(value)}" for name, value in step.parameters.items()),
            )
            for step in makers
        ]
        origin = table(("step", "kind", "from", "settings"), rows) if rows else ""
        self.add("How it was made", origin or self.gap("No step that made it is recorded: say where it came from."))
        self.add("Collection and annotation", self.gap("Say who collected and annotated it, and how."))
        self.add("Personal and sensitive information", self.gap("State whether it has such information."))
        self.add("Uses and limitations", self.gap("State what it may be used for, and its known limits and biases."))
        self.add_record()
        return data.name


# ---- Markdown


def table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Return a Markdown table; empty without rows."""
    if not rows:
        return ""
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in lines)


def data_table(datasets: list[SummaryData]) -> str:
    """Return a Markdown table of data."""
    rows = [
        (data.name, ", ".join(data.roles), ", ".join(data.made_by), ", ".join(data.used_by), format_size(data.size),
         f"`{data.sha256}`" if data.sha256 else "none")
        for data in datasets
    ]  # fmt: skip
    return table(("data", "role", "made by", "used by", "size", "sha256"), rows)


def _cell(value: Any) -> str:
    text = _line("" if value is None else str(value))
    return text.replace("|", "\\|")


def _line(text: str) -> str:
    """Return a text on one line, without markup that would change the card."""
    text = "".join(character if character.isprintable() else " " for character in text)
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _comment(text: str) -> str:
    return text.replace("--", "- -").replace(">", "")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "none"
