"""The width of the terminal, and messages on standard error in lines that fit it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap

import click

MIN_COLUMNS = 40
GENERATED_ID = re.compile(r"^\d{8}-\d{6}-(?=[0-9a-f]{6}$)")
"""The time in an id that provml generated. Commands find a run by the rest of its id, too."""


def terminal_width() -> int | None:
    """Return the width of the terminal, or None if the output goes to a file or a pipe and COLUMNS is not set."""
    return shutil.get_terminal_size().columns if os.environ.get("COLUMNS") or sys.stdout.isatty() else None


def echo_message(text: str) -> None:
    """Print a message. In a terminal, long sentences are wrapped between words; indented lines stay as they are."""
    message = f"provml: {text}"
    if os.environ.get("COLUMNS") or sys.stderr.isatty():
        width = max(shutil.get_terminal_size().columns, MIN_COLUMNS)
        message = "\n".join(line if line[:1].isspace() else wrap_line(line, width) for line in message.split("\n"))
    click.echo(message, err=True)


def wrap_line(line: str, width: int | None, indent: int = 2) -> str:
    """Return a line wrapped between words, with `indent` more spaces before what does not fit."""
    if width is None or len(line) <= width:
        return line
    space = " " * (len(line) - len(line.lstrip()) + indent)
    return textwrap.fill(line, width, subsequent_indent=space, break_long_words=False, break_on_hyphens=False)
