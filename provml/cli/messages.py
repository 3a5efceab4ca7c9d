"""Messages to the user on standard error, in lines that fit the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

import click

MIN_COLUMNS = 40


def echo_message(text: str) -> None:
    """Print a message. In a terminal, long sentences are wrapped between words; indented lines stay as they are."""
    message = f"provml: {text}"
    if os.environ.get("COLUMNS") or sys.stderr.isatty():
        width = max(shutil.get_terminal_size().columns, MIN_COLUMNS)
        message = "\n".join(_wrap(line, width) for line in message.split("\n"))
    click.echo(message, err=True)


def _wrap(line: str, width: int) -> str:
    if len(line) <= width or line[:1].isspace():
        return line
    return textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
