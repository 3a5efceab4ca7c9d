"""The demo's tour: what was recorded, whether it holds, and the eight questions of the DNNProv paper answered."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from provml.errors import ProvmlError
from provml.store import Store

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
) -> bool:
    """Validate the new runs, answer q1 to q8, say what is next; whether all hold. `option` tells commands the home."""
    with Store(home) as store:
        new = set(runs)
        held = [store.run(run) for run in new]
        reports = {info.id: store.validate(info.id) for info in held}
        say(f"recorded   {len(held)} runs in {home}")
        for info in sorted(held, key=lambda info: info.started):
            say(f"           {info.id}  {info.status:9}{info.events:5} events  {info.error}".rstrip())
        broken = {run: report for run, report in reports.items() if not report}
        sound = len(reports) - len(broken)
        say(f"validated  {sound} of {len(reports)} hold to every promise (provml validate --all{option})")
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
            say(f"\n{question}  {query.summary}")
            say(f"    $ provml ask {question} --model {shlex.quote(model)}{options}{option}\n")
            try:
                answer = store.ask(question, model=model, **values)
            except ProvmlError as error:
                say(f"    {error}")
                continue
            say(_indented(str(answer) if len(answer) else "(no rows)"))
        shown = f" --run {finished.id}" if finished is not None else ""
    say(f"\nNext       provml runs{option} · provml show latest{option} · provml ask --list{option}")
    say(f"           provml ask q3 --model {shlex.quote(model)}{shown} --plot{option}")
    say("           record a training of yours: docs/recorder.md, with Keras, PyTorch, scikit-learn …: docs/capture.md")
    return not broken


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
