"""The command group: errors become a message and an exit code instead of a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from provml.cli.terminal import echo_message
from provml.errors import ProvmlError


class CommandGroup(click.Group):
    """A group that prints the message of an error and exits with the error's code.

    `modules` has the names of modules by command. A module is imported when a command of it is needed.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in self._modules:
            for command in import_module(self._modules[cmd_name]).COMMANDS:
                self.add_command(command)
        return self.commands.get(cmd_name)

    def load_commands(self) -> dict[str, click.Command]:
        """Return all commands by name."""
        commands = {name: self.get_command(click.Context(self), name) for name in sorted(self._modules)}
        return {name: command for name, command in commands.items() if command is not None}

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
