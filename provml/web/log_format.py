"""The log of a service: what clients send cannot look like a line of it, and cannot control a terminal."""

from __future__ import annotations

import logging
import sys

FORMAT = "%(asctime)s %(message)s"
INDENT = "\n    "


class LogFormatter(logging.Formatter):
    """Escapes control characters, and indents all lines of a record but the first."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text."""
        return INDENT.join(map(escape, super().format(record).split("\n")))


def escape(text: str) -> str:
    """Return a line whose control characters are escape sequences."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def log_to_stderr(level: int) -> None:
    """Write the log to standard error from a level on, unless the process writes it elsewhere already."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
