"""Argparse: the command line of a script becomes hyperparameters of its trainings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session
from provml.recording.frames import is_called_by_script

MAX_CHARS = 200
"""Longer values are no hyperparameters."""
PARSERS = ("argparse", "simple_parsing", "transformers", "provml")
"""Packages that call argparse for the script."""


def activate(session: Session, patches: Patches) -> None:
    """Wrap `ArgumentParser.parse_known_args`, which `parse_args` calls."""
    depth = 0

    def make_parse(original: Callable[..., Any]) -> Callable[..., Any]:
        def parse_known_args(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1  # a parser with subcommands calls itself
            try:
                result = original(*args, **kwargs)
            finally:
                depth -= 1
            if not depth:
                session.guard(partial(_take, session, result, is_called_by_script(*PARSERS)))
            return result

        return parse_known_args

    patches.wrap(sys.modules["argparse"].ArgumentParser, "parse_known_args", make_parse)


def _take(session: Session, result: Any, is_of_script: bool) -> None:
    """Copy the values at once: scripts change the namespace later."""
    if is_of_script and session.is_active:
        session.parameters |= plain_values(vars(result[0]))


def plain_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that can be hyperparameters: numbers, short texts, and short lists of them."""
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, (list, tuple)) and all(isinstance(item, (bool, int, float, str)) for item in value):
            value = str(list(value))
        if isinstance(value, (Real, Decimal, str)) and not (isinstance(value, str) and len(value) > MAX_CHARS):
            plain[str(name)] = value
    return plain
