"""ui: the viewer in the browser."""

from __future__ import annotations

import contextlib
import logging
import socket
import webbrowser
from pathlib import Path

import click

from provml.cli.options import home_option, require_home, require_modules
from provml.errors import ProvmlError

DEFAULT_PORT = 8420


@click.command(short_help="Open the viewer in a browser.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port.  [default: 8420, or a free one]")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@click.option("--read-only", is_flag=True, help="Without the forms that write: tags, notes, questions.")
@home_option
def ui(port: int | None, no_browser: bool, read_only: bool, home: Path | None) -> None:
    """Open the viewer: runs with their curves, comparisons, lineage, questions, SPARQL.

    It is a service on this machine until you press Ctrl+C; `provml serve` is the same with more settings. If a service
    runs over the home already, a new link to it is opened.
    """
    require_modules("serve", "starlette", "uvicorn", "jinja2")
    from provml.web.command import new_link, run_service
    from provml.web.log_format import log_to_stderr

    folder = require_home(home).absolute()

    def open_link(address: str) -> None:
        if not no_browser:
            webbrowser.open(address)

    with contextlib.suppress(ProvmlError, OSError):
        link = new_link(folder)
        click.echo(f"A service runs over {folder} already: {link}")
        open_link(link)
        return

    def say(line: str) -> None:
        click.echo(line)
        if line.startswith("Browser: "):
            open_link(line.split()[1])

    log_to_stderr(logging.WARNING)
    options = {"socket": None, "also_listen": (), "allow_host": (), "cors": (), "base_url": "", "no_token": False}
    chosen = _free_port() if port is None else port
    run_service(
        folder,
        "127.0.0.1",
        chosen,
        tokens=None,
        say=say,
        read_only=read_only,
        workers=2,
        timeout=30.0,
        **options,
    )


def _free_port() -> int:
    """Return the usual port, or 0, which chooses a free one, if another program listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError:
            return 0
    return DEFAULT_PORT


COMMANDS = (ui,)
