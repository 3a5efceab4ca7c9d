"""The command line: every command a few lines that say it with the library.

door       the group that turns errors into messages, and the options that commands share
ontology   compile
demo       demo
run        runs, status, show, export, remove
log        log
ask        ask
home       query, verify, rebuild, gc
validate   validate
output     how an answer leaves: formats, files, charts

account    what the graph says of a run, for `show`
glance     a run read straight from its journals, for `log` and `status`
standing   what the journals of a run tell so far, for `status`
narration  events as short lines for people
"""

from __future__ import annotations

import click

import provml
from provml.cli import ask, demo, home, log, ontology, run, validate
from provml.cli.door import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(provml.__version__, prog_name="provml")
def main() -> None:
    """Record what a training used, did and produced, and ask it."""


for room in (run, log, ask, home, validate, ontology, demo):
    for command in room.COMMANDS:
        main.add_command(command)

__all__ = ["main"]
