"""The command line. A command parses its options and calls the library.

group        the command group: errors become messages and exit codes
options      options and helpers that commands share
output       answers in a format, to the terminal or to a file

runs         runs, status, show, remove
annotate     tag, note, rename
artifacts    artifacts, get
compare      compare
log          log
ask          ask
query        query
maintenance  verify, rebuild, gc
sealing      seal, evidence, scrub
validate     validate
pictures     plot, lineage, report
graphs       load, graphs, unload, update
importing    import
exporting    export
bundles      bundle, merge
shipping     ship
replay       replay
syncing      sync
lake         lake build, lake update, lake show
mcp          mcp
compile      compile, ontology
serve        serve
ui           ui
demo         demo
run_script   run
rerun        rerun

run_table    the table of runs as text that fits the terminal, for `runs` and `compare`
run_comparison  a comparison of runs as text, for `compare`
run_tail     journals of a run, read while they are written, for `log` and `status`
run_status   state of a run from its journals, for `status`
event_lines  events as short lines of text, for `log`
"""

from __future__ import annotations

import click

import provml
from provml.cli.group import CommandGroup

MODULES = {
    "run_script": ("run",),
    "rerun": ("rerun",),
    "runs": ("runs", "status", "show", "remove"),
    "compare": ("compare",),
    "annotate": ("tag", "note", "rename"),
    "artifacts": ("artifacts", "get"),
    "log": ("log",),
    "pictures": ("plot", "lineage", "report"),
    "ask": ("ask",),
    "query": ("query",),
    "validate": ("validate",),
    "graphs": ("load", "graphs", "unload", "update"),
    "importing": ("import",),
    "exporting": ("export",),
    "bundles": ("bundle", "merge"),
    "serve": ("serve",),
    "shipping": ("ship",),
    "replay": ("replay",),
    "syncing": ("sync",),
    "lake": ("lake",),
    "ui": ("ui",),
    "sealing": ("seal", "evidence", "scrub"),
    "maintenance": ("verify", "rebuild", "pack", "unpack", "gc"),
    "compile": ("compile", "ontology"),
    "demo": ("demo",),
    "mcp": ("mcp",),
}
"""The commands by the module that has them. A module is imported when one of its commands is needed: importing all of
them takes longer than most commands."""


@click.group(
    cls=CommandGroup,
    modules={name: f"{__name__}.{module}" for module, names in MODULES.items() for name in names},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(provml.__version__, prog_name="provml")
def main() -> None:
    """Record the provenance of model trainings and query it."""


__all__ = ["MODULES", "main"]
