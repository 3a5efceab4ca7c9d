"""serve: the HTTP service over a home."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provml.cli.options import home_option, require_modules, served_home

if TYPE_CHECKING:
    from provml.web.settings import Tokens

READ_TOKEN, WRITE_TOKEN = "PROVML_READ_TOKEN", "PROVML_WRITE_TOKEN"


@click.command(short_help="Serve a home over HTTP: SPARQL, REST, live data.")
@home_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8420, show_default=True, help="Port; 0 chooses one.")
@click.option("--socket", type=click.Path(path_type=Path), help="Listen on a Unix socket of this path instead.")
@click.option("--also-listen", type=click.IntRange(1, 65535), multiple=True, metavar="PORT", help="A further port.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="A further name that clients may call.")
@click.option("--cors", multiple=True, metavar="ORIGIN", help="An origin whose pages may read answers.")
@click.option("--base-url", default="", metavar="URL", help="Address that clients use, behind a proxy.")
@click.option("--read-only", is_flag=True, help="Refuse everything that writes.")
@click.option("--no-token", is_flag=True, help="Let every process of this machine in; for loopback addresses only.")
@click.option("--link", is_flag=True, help="Print a new link to a service that runs, and exit.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes for queries.")
@click.option("--timeout", type=click.FloatRange(0.01, 86400), default=30.0, show_default=True, help="Seconds a query.")
@click.option("--quiet", is_flag=True, help="No access log.")
def serve(home: Path | None, host: str, port: int, link: bool, quiet: bool, **options: Any) -> None:
    """Serve a home over HTTP: SPARQL, questions and runs as REST, live data, and recording from elsewhere.

    The service listens on this machine only, and needs a token always: the tokens are in HOME/service, for the owner's
    eyes only, or in PROVML_READ_TOKEN and PROVML_WRITE_TOKEN. For a browser, a link that works once is printed.
    """
    require_modules("serve", "starlette", "uvicorn", "jinja2")
    from provml.web.command import new_link, run_service
    from provml.web.log_format import log_to_stderr

    folder = served_home(home)
    if link:
        click.echo(new_link(folder))
        return
    log_to_stderr(logging.WARNING if quiet else logging.INFO)
    run_service(folder, host, port, tokens=_tokens(), say=click.echo, **options)


def _tokens() -> Tokens | None:
    """Return the tokens of the environment: they are in no list of processes."""
    from provml.web.settings import Tokens

    write = os.environ.get(WRITE_TOKEN, "")
    read = os.environ.get(READ_TOKEN, "") or write
    if not read:
        return None
    for name, token in ((READ_TOKEN, read), (WRITE_TOKEN, write)):
        if token and len(token) < 16:
            raise click.UsageError(f"{name} has {len(token)} characters. A token has at least 16.")
    return Tokens(read, write)


COMMANDS = [serve]
