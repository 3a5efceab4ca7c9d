"""The demo's tour: what was recorded, whether it holds, and the eight questions of the DNNProv paper answered."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from provml.answer import Answer
from provml.answer.table import cell
from provml.errors import ProvmlError
from provml.store import Store

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


def show(
    home: Path,
    model: str,
    runs: Iterable[str],
    say: Callable[[str], None],
    *,
    besides: Mapping[str, Mapping[str, Any]],
    option: str = "",
    width: int | None = None,
) -> bool:
    """Validate the new runs, answer q1 to q8, say what is next; whether all hold. `option` tells commands the home,
    `width` is how many columns the terminal has."""
    with Store(home) as store:
        new = set(runs)
        held = [store.run(run) for run in new]
        reports = {info.id: store.validate(info.id) for info in held}
        say(_wrapped(f"recorded   {len(held)} runs in {home}", width, MARGIN))
        for info in sorted(held, key=lambda info: info.started):
            told = f"{MARGIN}{info.id}  {info.status:9}{info.events:5} events  {info.error}".rstrip()
            say(_wrapped(told, width, MARGIN))
        broken = {run: report for run, report in reports.items() if not report}
        sound = len(reports) - len(broken)
        checked = f"validated  {sound} of {len(reports)} hold to every promise (provml validate --all{option})"
        say(_wrapped(checked, width, MARGIN))
        for run, report in broken.items():
            say(f"{run}: {report}")
        finished = max(
            (info for info in held if info.status == "FINISHED"), key=lambda info: info.started, default=None
        )
        for question, values in QUESTIONS:
            values = {**values, **besides.get(question, {})}
            if question in {"q1", "q2", "q3"} and finished is not None:
                values = {**values, "run": finished.id}
            query = store.catalog[question]
            options = "".join(f" --{name} {shlex.quote(str(value))}" for name, value in values.items())
            say(_wrapped(f"\n{question}  {query.summary}", width, INDENT))
            say(f"    $ provml ask {question} --model {shlex.quote(model)}{options}{option}\n")
            try:
                answer = store.ask(question, model=model, **values)
            except ProvmlError as error:
                say(f"    {error}")
                continue
            say(fitting(answer, width) if len(answer) else f"{INDENT}(no rows)")
        shown = f" --run {finished.id}" if finished is not None else ""
    say(
        _wrapped(
            f"\nNext       provml runs{option} · provml show latest{option} · provml ask --list{option}", width, MARGIN
        )
    )
    say(_wrapped(f"{MARGIN}provml ask q3 --model {shlex.quote(model)}{shown} --plot{option}", width, MARGIN))
    more = "record a training of yours: docs/recorder.md, with Keras, PyTorch, scikit-learn …: docs/capture.md"
    say(_wrapped(MARGIN + more, width, MARGIN))
    return not broken


def fitting(answer: Answer, width: int | None) -> str:
    """An answer as a table; where the terminal is too narrow for it, row by row with a line for each column."""
    table = [f"{INDENT}{line}" for line in str(answer).splitlines()]
    if width is None or max(map(len, table)) <= width:
        return "\n".join(table)
    rows = [
        [_wrapped(f"{INDENT}{name}: {cell(value)}", width, INDENT * 2, cut=True) for name, value in _told(answer, row)]
        for row in answer.rows
    ]
    return "\n\n".join("\n".join(row) for row in rows)


def _told(answer: Answer, row: Any) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in zip(answer.columns, row, strict=True) if value is not None]


def _wrapped(text: str, width: int | None, indent: str, *, cut: bool = False) -> str:
    """Text within so many columns; words that are longer, such as paths, stay whole unless they may be `cut`."""
    if width is None:
        return text
    lines = textwrap.wrap(
        text.lstrip("\n"), width, subsequent_indent=indent, break_long_words=cut, break_on_hyphens=cut
    )
    return "\n" * text.startswith("\n") + "\n".join(lines)
