"""validate: check a run, all runs or a file against shapes, PROV-CONSTRAINTS and the ontology."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provml.cli.options import complete_run, home_option, open_store
from provml.cli.output import atomic_write
from provml.cli.terminal import terminal_width, wrap_line

if TYPE_CHECKING:
    from provml.validation import Report
    from provml.validation.engine import EngineName
    from provml.validation.inference import InferenceName
    from provml.validation.report import ProgressCallback

FORMATS = ("text", "markdown", "json", "turtle", "sarif", "html")
FORMAT_BY_EXTENSION = {".md": "markdown", ".json": "json", ".ttl": "turtle", ".sarif": "sarif", ".html": "html"}

PROGRESS_AFTER_SECONDS = 1.0
"""A validation that takes longer shows a progress bar."""


@click.command(short_help="Validate a run, all runs, or an RDF file.")
@click.argument("target", required=False, metavar="[RUN|FILE]", shell_complete=complete_run)
@click.option("--all", "all_runs", is_flag=True, help="Check all runs and all loaded graphs.")
@click.option(
    "--shapes",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="More shapes: a directory or a file. Shapes in $PROVML_SHAPES and in the directory `shapes` of a home are "
    "always used.",
)
@click.option(
    "--only-shapes",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Shapes in place of all others: a directory or a file.",
)
@click.option(
    "--inference",
    type=click.Choice(["none", "types", "rdfs", "owlrl"]),
    default="types",
    show_default=True,
    help="What the data implies: nothing, superclasses by the ontologies of provml, RDFS, or OWL RL.",
)
@click.option("--constraints", is_flag=True, help="Check W3C PROV-CONSTRAINTS, for any PROV document.")
@click.option("--owl", is_flag=True, help="Check the consistency with the ontology by HermiT, without batches.")
@click.option(
    "--engine",
    type=click.Choice(["sparql", "pyshacl"]),
    default="sparql",
    show_default=True,
    help="SHACL engine: SHACL compiled to SPARQL, or pySHACL.",
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(FORMATS),
    help="Format of the report.  [default: from the file extension, else text]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report to this file.",
)
@home_option
def validate(
    target: str | None,
    *,
    all_runs: bool,
    shapes: tuple[Path, ...],
    only_shapes: tuple[Path, ...],
    inference: InferenceName,
    constraints: bool,
    owl: bool,
    engine: EngineName,
    fmt: str | None,
    output: Path | None,
    home: Path | None,
) -> None:
    """Validate a run (by default the latest), all runs, or an RDF file.

    \b
    provml validate
    provml validate run.ttl --shapes my-shapes -o report.md
    provml validate buildings.ttl --only-shapes Brick.ttl --inference rdfs
    provml validate --constraints any-prov-document.provn
    provml validate --all --format json

    By default the shapes of provml and your own are checked. --shapes adds to them, --only-shapes replaces them, and so
    do --constraints and --owl; combined with each other or with shapes, all of them are checked. The exit code is 1 if
    a constraint is violated; warnings and infos are reported and do not count as violations. To check the journal files
    for corruption, use `provml verify`.
    """
    if all_runs and target is not None:
        raise click.UsageError("Pass a run, a file or --all, not several of them.")
    if all_runs and owl:
        raise click.UsageError("--owl checks one run or one file: all runs are too much for a reasoner. Pass a run.")
    options = {"shapes": shapes, "only_shapes": only_shapes or None, "engine": engine, "inference": inference}
    checks = _Checks(options, constraints, owl, shacl=bool(shapes or only_shapes) or not (constraints or owl))
    with progress_bar() as progress:
        if target is not None and _is_file(target):
            report = checks.of_file(Path(target), home, progress)
        else:
            report = checks.of_store(None if all_runs else target or "latest", home, progress)
    _write_report(report, fmt, output)
    if not report:
        sys.exit(1)


class _Checks:
    """The checks that the options select."""

    def __init__(self, options: dict[str, Any], constraints: bool, owl: bool, *, shacl: bool) -> None:
        self.options = options
        self.constraints = constraints
        self.owl = owl
        self.shacl = shacl

    def of_store(self, run: str | None, home: Path | None, progress: ProgressCallback | None) -> Report:
        from provml.store.healing import healing
        from provml.store.validate import labelled_graph

        def parts() -> list[Report]:
            parts = []
            if self.shacl:
                parts.append(store.validate(run, progress=progress, **self.options))
            if self.constraints or self.owl:
                name, data = labelled_graph(store, run)
                parts += self._other_checks(data, name, progress)
            return parts

        with open_store(home) as store:
            return _combine(healing(store, parts))

    def of_file(self, path: Path, home: Path | None, progress: ProgressCallback | None) -> Report:
        from provml.paths import default_home, endpoint_url, is_url, store_location
        from provml.validation.engine import validate_files
        from provml.validation.shape_files import selected_shapes

        parts = []
        if self.shacl:
            options = dict(self.options)
            location = store_location(home) or default_home()
            is_remote = endpoint_url(location) or is_url(location)  # a URL has no shapes of the user
            shapes_home = default_home() if is_remote else Path(location)
            files = selected_shapes(options.pop("shapes"), options.pop("only_shapes"), shapes_home)
            parts.append(validate_files(path, files, label=str(path), progress=progress, **options))
        return _combine([*parts, *self._other_checks(path, str(path), progress)])

    def _other_checks(self, data: Any, name: str, progress: ProgressCallback | None) -> list[Report]:
        parts = []
        if self.constraints:
            parts.append(_check_prov_constraints(data, name))
        if self.owl:
            from provml.validation import owl

            parts.append(owl.check(data, label=name, progress=progress))
        return parts


def _check_prov_constraints(data: Any, name: str) -> Report:
    import pyoxigraph as ox

    from provml.validation.prov_constraints import validate

    # The named graphs of a file are bundles, but one of the graphs of a store is the ontology.
    is_store = isinstance(data, ox.Store)
    return validate(data.quads_for_pattern(None, None, None, ox.DefaultGraph()) if is_store else data, label=name)


def _combine(parts: list[Report]) -> Report:
    first, *rest = parts
    for report in rest:
        first = first + report
    return first


def _is_file(target: str) -> bool:
    """Return whether an argument is a file: it exists, or has the extension of a graph or a slash."""
    from provml.rdf.graph_files import GRAPH_EXTENSIONS

    path = Path(target)
    return path.is_file() or path.suffix.lower() in GRAPH_EXTENSIONS or "/" in target


@contextlib.contextmanager
def progress_bar() -> Iterator[ProgressCallback | None]:
    """Yield a callback that shows progress: only on a terminal, and only for long validations."""
    if not sys.stderr.isatty():
        yield None
        return
    with contextlib.ExitStack() as stack:
        times: list[float] = []
        bars: list[Any] = []

        def update(done: int, total: int, name: str) -> None:
            times.append(time.monotonic())
            if not bars and done < total and times[-1] - times[0] > PROGRESS_AFTER_SECONDS:
                bar = click.progressbar(length=total, label="validating", file=sys.stderr, show_pos=True)
                bars.append(stack.enter_context(bar))
            for bar in bars:
                bar.length = total
                bar.update(done - bar.pos)

        yield update


def _write_report(report: Report, fmt: str | None, output: Path | None) -> None:
    to_file = output is not None and str(output) != "-"
    extension = output.suffix.lower() if output is not None else ""
    if to_file and fmt is None and extension not in (*FORMAT_BY_EXTENSION, "", ".txt"):
        extensions = ", ".join((*FORMAT_BY_EXTENSION, ".txt"))
        raise click.UsageError(f"Unknown extension '{extension}'. Use {extensions}, or pass --format.")
    fmt = fmt or (FORMAT_BY_EXTENSION.get(extension, "text") if to_file else "text")
    text = _format_report(report, fmt)
    if output is None or not to_file:
        if fmt == "text":
            text = "\n".join(wrap_line(line, terminal_width()) for line in text.split("\n"))
        click.echo(text)
        return
    with atomic_write(output) as file:
        file.write(f"{text}\n".encode())
    click.echo(f"{report.summary}. Wrote the report to {output}", err=True)


def _format_report(report: Report, fmt: str) -> str:
    if fmt == "markdown":
        return report.to_markdown().rstrip("\n")
    if fmt == "json":
        return report.to_json()
    if fmt == "sarif":
        return report.to_sarif()
    if fmt == "turtle":
        return report.to_rdf().rstrip("\n")
    if fmt == "html":
        return report.to_html()
    if report.scope is None:
        return str(report)
    return "\n".join([str(report), f"checked {report.scope}", *report.scope.details()])


COMMANDS = (validate,)
