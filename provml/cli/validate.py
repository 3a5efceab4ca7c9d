"""validate: a run, all runs or a file, held to shapes, to PROV-CONSTRAINTS and to the ontology."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provml.cli.door import opened, run_ids, with_home
from provml.cli.output import whole_file

if TYPE_CHECKING:
    from provml.validation import Report
    from provml.validation.report import Progress

FORMS = ("text", "markdown", "json", "turtle", "html")
ENDINGS = {".md": "markdown", ".json": "json", ".ttl": "turtle", ".html": "html"}
DATA = (".ttl", ".trig", ".nt", ".nq", ".n3", ".rdf", ".owl", ".xml", ".jsonld")

LONG = 1.0
"""After how many seconds a bar is shown."""


@click.command()
@click.argument("what", required=False, metavar="[RUN|FILE]", shell_complete=run_ids)
@click.option("--all", "whole", is_flag=True, help="All runs of the home and all that was added.")
@click.option(
    "--shapes",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="More shapes: a folder or a file. Yours in PROVML_SHAPES and in the folder shapes of a home count anyway.",
)
@click.option("--constraints", is_flag=True, help="Hold it to W3C PROV-CONSTRAINTS, for any PROV document.")
@click.option("--owl", is_flag=True, help="Ask HermiT whether it is consistent with the ontology, without its batches.")
@click.option(
    "--engine",
    type=click.Choice(["compiled", "reference"]),
    default="compiled",
    help="SHACL compiled to SPARQL (the default), or pySHACL.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMS), help="By the ending of the output, else text, unless given."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where to write the report."
)
@with_home
def validate(
    what: str | None,
    whole: bool,
    shapes: tuple[Path, ...],
    constraints: bool,
    owl: bool,
    engine: str,
    form: str | None,
    output: Path | None,
    home: Path | None,
) -> None:
    """Say whether what is recorded holds: a run (the latest if left out), all runs, or any RDF file.

    \b
    provml validate
    provml validate run.ttl --shapes my-shapes -o report.md
    provml validate --constraints any-prov-document.trig
    provml validate --all --format json

    It is held to provml's shapes and yours. --constraints and --owl hold it to these instead; given together with each
    other or with --shapes, to all that are named. The command ends with 1 if a promise is broken; what is only a
    warning or an info is told and breaks nothing.
    """
    if whole and what is not None:
        raise click.UsageError("Name a run or a file, or give --all, not both.")
    if whole and owl:
        raise click.UsageError("--owl is for a run or a file: a reasoner cannot hold all runs. Name one.")
    chosen = _Chosen(shapes, engine, constraints, owl, shacl=bool(shapes) or not (constraints or owl))
    with _bar() as progress:
        if what is not None and _is_file(what):
            report = chosen.of_file(Path(what), home, progress)
        else:
            report = chosen.of_store(None if whole else what or "latest", home, progress)
    _put(report, form, output)
    if not report:
        sys.exit(1)


class _Chosen:
    """Which checks were asked for."""

    def __init__(self, shapes: tuple[Path, ...], engine: str, constraints: bool, owl: bool, *, shacl: bool) -> None:
        self.shapes = shapes
        self.engine = engine
        self.constraints = constraints
        self.owl = owl
        self.shacl = shacl

    def of_store(self, run: str | None, home: Path | None, progress: Progress | None) -> Report:
        from provml.store.checking import check, graph

        with opened(home) as store:
            parts = []
            if self.shacl:
                parts.append(check(store, run, self.shapes, engine=self.engine, progress=progress))
            if self.constraints or self.owl:
                name, held = graph(store, run)
                parts += self._more(held, name, progress)
        return _joined(parts)

    def of_file(self, path: Path, home: Path | None, progress: Progress | None) -> Report:
        from provml.resources import default_home
        from provml.validation import validate
        from provml.validation.engine import user_shapes
        from provml.validation.reference import own_shapes

        parts = []
        if self.shacl:
            files = [*own_shapes(), *user_shapes(home or default_home()), *self.shapes]
            parts.append(validate(path, files, engine=self.engine, what=str(path), progress=progress))
        return _joined([*parts, *self._more(path, str(path), progress)])

    def _more(self, held: Any, name: str, progress: Progress | None) -> list[Report]:
        parts = []
        if self.constraints:
            parts.append(_by_constraints(held, name))
        if self.owl:
            from provml.validation import owl

            parts.append(owl.check(held, what=name, progress=progress))
        return parts


def _by_constraints(held: Any, name: str) -> Report:
    from dataclasses import replace
    from itertools import count

    import pyoxigraph as ox

    from provml.validation import Checked
    from provml.validation.constraints import CONSTRAINTS, check
    from provml.validation.loading import quads

    # The named graphs of a file are bundles; of those of a store, one is our ontology.
    is_store = isinstance(held, ox.Store)
    given = held.quads_for_pattern(None, None, None, ox.DefaultGraph()) if is_store else quads(held)
    size = count()
    verdict = check(quad for quad, _ in zip(given, size, strict=False))  # counted as they pass: there may be millions
    checked = Checked(name, next(size), len(CONSTRAINTS), "PROV-CONSTRAINTS", rules="constraint")
    return replace(verdict.to_report(), checked=checked)


def _joined(parts: list[Report]) -> Report:
    first, *rest = parts
    for one in rest:
        first = first + one
    return first


def _is_file(what: str) -> bool:
    """Whether a word means a file: there is one, or its ending is that of RDF."""
    path = Path(what)
    return path.is_file() or path.suffix.lower() in DATA or "/" in what


@contextlib.contextmanager
def _bar() -> Iterator[Progress | None]:
    """What to tell of shapes as they are checked: a bar, only on a terminal and only where it takes long."""
    if not sys.stderr.isatty():
        yield None
        return
    with contextlib.ExitStack() as shown:
        began: list[float] = []
        bars: list[Any] = []

        def tell(done: int, total: int, name: str) -> None:
            began.append(time.monotonic())
            if not bars and done < total and began[-1] - began[0] > LONG:
                made = click.progressbar(length=total, label="validating", file=sys.stderr, show_pos=True)
                bars.append(shown.enter_context(made))
            for bar in bars:
                bar.length = total
                bar.update(done - bar.pos)

        yield tell


def _put(report: Report, form: str | None, output: Path | None) -> None:
    to_file = output is not None and str(output) != "-"
    ending = output.suffix.lower() if output is not None else ""
    if to_file and form is None and ending not in (*ENDINGS, "", ".txt"):
        known = ", ".join((*ENDINGS, ".txt"))
        raise click.UsageError(f"No report ends in {ending}. Let it end in one of {known}, or give --format.")
    text = _written(report, form or (ENDINGS.get(ending, "text") if to_file else "text"))
    if output is None or not to_file:
        click.echo(text)
        return
    with whole_file(output) as file:
        file.write(f"{text}\n".encode())
    click.echo(f"{report.summary}: see {output}", err=True)


def _written(report: Report, form: str) -> str:
    if form == "markdown":
        return report.to_markdown().rstrip("\n")
    if form == "json":
        return report.to_json()
    if form == "turtle":
        return report.to_rdf().rstrip("\n")
    if form == "html":
        return report.to_html()
    return f"{report}\nchecked {report.checked}" if report.checked is not None else str(report)


COMMANDS = (validate,)
