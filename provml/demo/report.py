"""The report of the demo: the recorded runs, their validation, and the eight questions of the DNNProv paper."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from provml.answers import Answer
from provml.answers.table import format_cell
from provml.errors import ProvmlError
from provml.store import RunInfo, Store

INDENT, MARGIN = "    ", " " * 11
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("q1", {"epoch": 3}),
    ("q2", {}),
    ("q3", {}),
    ("q4", {}),
    ("q5", {}),
    ("q6", {}),
    ("q7", {"value": 0.4}),
    ("q8", {}),
)
QUESTIONS_ABOUT_ONE_RUN = frozenset({"q1", "q2", "q3"})


class DemoReport:
    """Prints the report of some runs with `echo`.

    `home_option` is the option that commands need to find the home, `width` the number of columns of the terminal
    (None for no limit).
    """

    def __init__(
        self, store: Store, model: str, echo: Callable[[str], None], *, home_option: str = "", width: int | None = None
    ) -> None:
        self.store = store
        self.model = model
        self.home_option = home_option
        self.width = width
        self._echo = echo

    def show_runs(self, runs: Iterable[RunInfo]) -> bool:
        """Print the runs and whether they are valid; return whether all are."""
        runs = list(runs)
        self._print(f"recorded   {len(runs)} runs in {self.store.home}")
        for info in runs:
            self._print(f"{MARGIN}{info.id}  {info.status:9}{info.events:5} events  {info.error}".rstrip())
        reports = {info.id: self.store.validate(info.id) for info in runs}
        invalid = {run: report for run, report in reports.items() if not report}
        valid_count = len(reports) - len(invalid)
        command = f"provml validate --all{self.home_option}"
        self._print(f"validated  {valid_count} of {len(reports)} runs satisfy all constraints ({command})")
        for run, report in invalid.items():
            self._echo(f"{run}: {report}")
        return not invalid

    def show_answer(self, question: str, values: Mapping[str, Any]) -> None:
        """Print a question, the command that asks it, and its answer."""
        options = "".join(f" --{name} {shlex.quote(str(value))}" for name, value in values.items())
        self._print(f"\n{question}  {self.store.catalog[question].summary}", INDENT)
        self._echo(f"{INDENT}$ provml ask {question} --model {self._quoted_model}{options}{self.home_option}\n")
        try:
            answer = self.store.ask(question, model=self.model, **values)
        except ProvmlError as error:
            self._echo(f"{INDENT}{error}")
            return
        self._echo(format_answer(answer, self.width) if len(answer) else f"{INDENT}(no rows)")

    def show_next_steps(self, run: RunInfo | None) -> None:
        """Print commands to try next, and the pages on recording a training."""
        option = self.home_option
        self._print(f"\nNext       provml runs{option} · provml show latest{option} · provml ask --list{option}")
        run_option = f" --run {run.id}" if run is not None else ""
        self._print(f"{MARGIN}provml ask q3 --model {self._quoted_model}{run_option} --plot{option}")
        self._print(
            f"{MARGIN}record your own training: docs/how-to/record.md; with Keras, PyTorch and others: "
            "docs/how-to/frameworks"
        )

    @property
    def _quoted_model(self) -> str:
        return shlex.quote(self.model)

    def _print(self, text: str, indent: str = MARGIN) -> None:
        self._echo(_wrap(text, self.width, indent))


def show(
    home: Path,
    model: str,
    runs: Iterable[str],
    echo: Callable[[str], None],
    *,
    parameters: Mapping[str, Mapping[str, Any]],
    home_option: str = "",
    width: int | None = None,
) -> bool:
    """Validate runs, answer q1 to q8 and print what to do next; return whether all runs are valid.

    `parameters` holds further parameters of questions, by question.
    """
    with Store(home) as store:
        report = DemoReport(store, model, echo, home_option=home_option, width=width)
        infos = sorted((store.run(run) for run in set(runs)), key=lambda info: info.started)
        is_valid = report.show_runs(infos)
        last_finished = next((info for info in reversed(infos) if info.status == "FINISHED"), None)
        for question, defaults in QUESTIONS:
            values = {**defaults, **parameters.get(question, {})}
            if question in QUESTIONS_ABOUT_ONE_RUN and last_finished is not None:
                values["run"] = last_finished.id
            report.show_answer(question, values)
        report.show_next_steps(last_finished)
    return is_valid


def format_answer(answer: Answer, width: int | None) -> str:
    """Return an answer as a table; if the terminal is too narrow, one line per value instead."""
    table = [f"{INDENT}{line}" for line in str(answer).splitlines()]
    if width is None or max(map(len, table)) <= width:
        return "\n".join(table)
    rows = [
        [
            _wrap(f"{INDENT}{name}: {format_cell(value)}", width, INDENT * 2, break_words=True)
            for name, value in zip(answer.columns, row, strict=True)
            if value is not None
        ]
        for row in answer.rows
    ]
    return "\n\n".join("\n".join(row) for row in rows)


def _wrap(text: str, width: int | None, indent: str, *, break_words: bool = False) -> str:
    """Wrap text at `width` columns; longer words, such as paths, stay whole unless `break_words` is set."""
    if width is None:
        return text
    lines = textwrap.wrap(
        text.lstrip("\n"), width, subsequent_indent=indent, break_long_words=break_words, break_on_hyphens=break_words
    )
    return "\n" * text.startswith("\n") + "\n".join(lines)
