"""The command line. A command parses its options and calls the library.

group        the command group: errors become messages and exit codes
options      options and helpers that commands share
output       answers in a format, to the terminal or to a file

runs         runs, status, show, export, remove
annotate     tag, note, rename
artifacts    artifacts, get
compare      compare
log          log
ask          ask
query        query
maintenance  verify, rebuild, gc
validate     validate
pictures     plot, lineage, report
graphs       load, graphs, unload, update
importing    import
shipping     ship
replay       replay
syncing      sync
mcp          mcp
compile      compile, ontology
serve        serve
ui           ui
demo         demo
run_script   run

run_table    the table of runs as text that fits the terminal, for `runs` and `compare`
run_comparison  a comparison of runs as text, for `compare`
run_tail     journals of a run, read while they are written, for `log` and `status`
run_status   state of a run from its journals, for `status`
event_lines  events as short lines of text, for `log`
"""

from __future__ import annotations

import click

import provml
from provml.cli import (
    annotate,
    artifacts,
    ask,
    compare,
    demo,
    graphs,
    importing,
    log,
    maintenance,
    mcp,
    pictures,
    query,
    replay,
    run_script,
    runs,
    serve,
    shipping,
    syncing,
    ui,
    validate,
)
from provml.cli import compile as compile_command
from provml.cli.group import CommandGroup


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(provml.__version__, prog_name="provml")
def main() -> None:
    """Record the provenance of model trainings and query it."""


for module in (
    run_script,
    runs,
    compare,
    annotate,
    artifacts,
    log,
    pictures,
    ask,
    query,
    validate,
    graphs,
    importing,
    serve,
    shipping,
    replay,
    syncing,
    ui,
    maintenance,
    compile_command,
    demo,
    mcp,
):
    for command in module.COMMANDS:
        main.add_command(command)

__all__ = ["main"]
