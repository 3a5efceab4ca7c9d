"""plot, lineage, report: curves of runs, where a thing came from, and a page about a run."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provml.cli.options import Command, complete_run, home_option, open_store, run_argument
from provml.cli.output import MAX_CHART_COLUMNS, atomic_write, can_encode
from provml.cli.terminal import echo_message
from provml.errors import plural

if TYPE_CHECKING:
    from provml.answers.plot import Curves
    from provml.store import RunInfo

IMAGE_FORMATS = ("svg", "png", "pdf")
LINEAGE_FORMATS = ("text", "svg", "dot", "mermaid")
MAX_TERMINAL_SERIES = 8
"""With more curves than this, a terminal shows those of training only, without marks."""


def output_option(text: str) -> Callable[[Command], Command]:
    """Return the option `-o`, which names a file."""
    file = click.Path(path_type=Path, dir_okay=False)
    return click.option("-o", "--output", type=file, metavar="FILE", help=text)


# ---- plot


@click.command()
@run_argument(nargs=-1, required=False)
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="A measure or a numeric setting, such as learning_rate; may be repeated.  [default: loss, and the settings "
    "that were adapted]",
)
@output_option("Write a picture: .svg, or with matplotlib .png or .pdf.")
@home_option
def plot(run: tuple[str, ...], measures: tuple[str, ...], output: Path | None, home: Path | None) -> None:
    """Draw the curves of runs over each other.

    \b
    provml plot
    provml plot monday tuesday --measure loss --measure accuracy
    provml plot latest -m loss -m learning_rate -o curves.svg

    Training and validation are in one picture, adaptations are marked, and settings are drawn as steps. RUN is a run
    id, a unique prefix or suffix of it, or `latest` (the default).
    """
    from provml.store.curves import RunCurves

    extension = output.suffix.lower()[1:] if output is not None else ""
    if output is not None and extension not in (*IMAGE_FORMATS, "txt"):
        names = ", ".join(f".{name}" for name in (*IMAGE_FORMATS, "txt"))
        raise click.UsageError(f"Unknown extension '.{extension}' for a plot. Use {names}.")
    with open_store(home) as store:
        infos = store.find_runs(run or "latest")
        curves = RunCurves(store, infos)
        panels = curves.panels(measures)
        if not measures and curves.adapted_settings:
            panels += curves.panels(curves.adapted_settings[:1])
        others = [] if measures else curves.measures[1:]
    if output is None:
        click.echo(_terminal_charts(panels, plain=not can_encode("⣿┤│└─┊", sys.stdout)))
    else:
        with atomic_write(output) as file:
            file.write(_picture(panels, infos, extension))
        click.echo(f"Wrote the curves of {plural(len(infos), 'run')} to {output}", err=True)
    if others:
        listed = ", ".join(others[:8]) + (", …" if len(others) > 8 else "")
        echo_message(f"other measures: {listed}. Draw them with --measure.")


def _terminal_charts(panels: Sequence[Curves], *, plain: bool) -> str:
    from provml.answers.terminal_chart import draw

    width = min(shutil.get_terminal_size().columns, MAX_CHART_COLUMNS)
    return "\n\n".join(draw(_for_terminal(curves), width, plain=plain) for curves in panels)


def _for_terminal(curves: Curves) -> Curves:
    """Return curves that can be told apart in a terminal: of very many, those of training only."""
    if len(curves.series) <= MAX_TERMINAL_SERIES:
        return curves
    solid = [replace(series, name=series.group) for series in curves.series if not series.is_dashed]
    return replace(curves, series=solid, marks=[])


def _picture(panels: Sequence[Curves], infos: Sequence[RunInfo], fmt: str) -> bytes:
    """Return the file of a picture: SVG of provml's own, an image of matplotlib, or text."""
    if fmt == "txt":
        return (_terminal_charts(panels, plain=False) + "\n").encode()
    if fmt == "svg":
        from provml.drawing import chart

        names = ", ".join(curves.y for curves in panels)
        runs = f"run {infos[0].id}" if len(infos) == 1 else plural(len(infos), "run")
        return chart.draw(panels, f"{names} of {runs}").encode()
    from provml.answers.plot import draw_panels, new_figure

    figure, buffer = new_figure(len(panels)), io.BytesIO()
    draw_panels(panels, figure.axes)
    figure.savefig(buffer, format=fmt, dpi=150, bbox_inches="tight")
    return buffer.getvalue()


# ---- lineage


@click.command()
@click.argument("subject", metavar="RUN|FILE|MODEL", default="latest", shell_complete=complete_run)
@click.option("--forward", is_flag=True, help="Show what came of it instead of what it came from.")
@click.option(
    "--format",
    "fmt",
    type=click.Choice(LINEAGE_FORMATS),
    help="Output format.  [default: from the file extension, else text]",
)
@output_option("Write to this file: .svg, .dot, .mmd (Mermaid) or .txt.")
@home_option
def lineage(subject: str, forward: bool, fmt: str | None, output: Path | None, home: Path | None) -> None:
    """Show where a run, a model, a dataset or a file came from.

    \b
    provml lineage
    provml lineage model.pt -o lineage.svg
    provml lineage alexnet@monday --format mermaid
    provml lineage flowers.h5 --forward

    The picture has W3C's shapes and colours of PROV; large parts are folded. Without -o a tree is printed. The
    argument is a run id, a unique prefix or suffix of it, `latest` (the default), the name of a model or a dataset, a
    SHA-256 digest or its first digits, an IRI, or a file, whose content is looked up.
    """
    from provml.drawing.lineage import EXTENSIONS

    to_file = output is not None and str(output) != "-"
    extension = output.suffix.lower() if output is not None and to_file else ""
    if to_file and fmt is None and extension not in EXTENSIONS:
        is_image = extension in (".png", ".pdf", ".jpg")
        hint = " A browser can save an .svg file as an image or as PDF." if is_image else ""
        raise click.UsageError(f"Unknown extension '{extension}'. Use {', '.join(EXTENSIONS)}, or pass --format.{hint}")
    fmt = fmt or EXTENSIONS.get(extension, "text")
    with open_store(home) as store:
        result = store.lineage(subject, forward=forward)
    if fmt == "text":
        width = 120 if to_file else max(shutil.get_terminal_size().columns, 40)
        text = result.to_text(width, ascii=not to_file and not can_encode("├└─│·…", sys.stdout)) + "\n"
    else:
        text = result.to_format(fmt)
    if output is None or not to_file:
        click.echo(text, nl=False)
        return
    with atomic_write(output) as file:
        file.write(text.encode())
    click.echo(f"Wrote a lineage with {plural(len(result.graph.nodes), 'node')} to {output}", err=True)


# ---- report


@click.command()
@run_argument(default="latest")
@click.option("--format", "fmt", type=click.Choice(["html", "markdown"]), help="Format.  [default: from the extension]")
@output_option("Write to this file: .html or .md; - for the standard output.")
@click.option("--no-validation", is_flag=True, help="Leave out the validation, which takes most of the time.")
@home_option
def report(run: str, fmt: str | None, output: Path | None, no_validation: bool, home: Path | None) -> None:
    """Write a report about a run into a file.

    \b
    provml report -o report.html
    provml report monday -o report.md

    One page with what was trained, on which data, with which settings and by whom, the curves, the evaluation, the
    lineage, the code and the environment, the result of the validation, and what is not known. The page needs no
    network and no scripts. RUN is a run id, a unique prefix or suffix of it, or `latest` (the default).
    """
    from provml.cli.validate import progress_bar
    from provml.store.run_report import EXTENSIONS

    if output is None:
        raise click.UsageError("Pass a file, for example: provml report latest -o report.html")
    to_file = str(output) != "-"
    fmt = fmt or EXTENSIONS.get(output.suffix.lower())
    if fmt is None:
        problem = f"Unknown extension '{output.suffix}'" if to_file else "No format for the standard output"
        raise click.UsageError(f"{problem}. Use .html or .md, or pass --format.")
    with open_store(home) as store, progress_bar() as progress:
        result = store.report(run, validate=not no_validation, progress=progress)
        text = result.to_html() if fmt == "html" else result.to_markdown()
    if not to_file:
        click.echo(text, nl=False)
        return
    with atomic_write(output) as file:
        file.write(text.encode())
    gaps = plural(len(result.unknown), "thing")
    click.echo(f"Wrote a report on run {result.info.id} to {output}. Not known: {gaps}.", err=True)


COMMANDS = (plot, lineage, report)
