"""The command group: errors become a message and an exit code instead of a traceback."""

from __future__ import annotations

import errno
import os
import sys

import click

from provml.cli.terminal import echo_message
from provml.errors import ProvmlError


class CommandGroup(click.Group):
    """A group that prints the message of an error and exits with the error's code."""

    def invoke(self, ctx: click.Context) -> object:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that lacks a character still shows the rest
        try:
            return super().invoke(ctx)
        except ProvmlError as error:
            echo_message(str(error))
            ctx.exit(error.exit_code)
        except RuntimeError as error:
            from provml.store.backend import damage_reason, is_damaged

            if not is_damaged(error):
                raise
            message = f"provml: the index is damaged ({damage_reason(error)}). Run `provml rebuild`: nothing is lost."
            click.echo(message, err=True)
            ctx.exit(1)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            file = f"{error.filename}: " if error.filename else ""
            reason = (error.strerror or str(error)).lower()
            echo_message(f"{file}{reason}. Check the path and its permissions.")
            ctx.exit(2)
