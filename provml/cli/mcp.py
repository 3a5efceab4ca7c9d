"""mcp: answer the questions of an assistant."""

from __future__ import annotations

from pathlib import Path

import click

from provml.cli.options import home_option, open_store


@click.command()
@click.option("--write", is_flag=True, help="Also offer tools that give runs tags and notes.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a query.",
)
@home_option
def mcp(write: bool, timeout: float, home: Path | None) -> None:
    """Answer an assistant (Model Context Protocol, stdio).

    The runs, their comparison, lineage and validation, the questions of the catalog, the terms of the ontology and
    read-only SPARQL are tools. An assistant starts the command itself, with a configuration such as

    \b
    {"mcpServers": {"provml": {"command": "provml", "args": ["mcp", "--home", "/data/.provml"]}}}

    Nothing is written unless you pass --write. It needs the extra `mcp`.
    """
    from provml.assistants.server import serve_stdio
    from provml.assistants.tools import Toolbox, ToolSettings

    with open_store(home) as store:
        serve_stdio(Toolbox(store, ToolSettings(can_write=write, query_seconds=timeout)))


COMMANDS = (mcp,)
